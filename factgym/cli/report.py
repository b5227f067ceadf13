"""`factgym report FOLDER --out DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(help="A folder with runs, training runs and certificates, at any depth.")],
    out: Annotated[Path, typer.Option(help="Folder of the pages.")],
    episodes: Annotated[bool, typer.Option(help="Write the pages of all episodes as well.")] = True,
) -> None:
    """Publish a folder as static pages: leaderboards in pairs, certificates, training curves, and all episodes."""
    from factgym.training.publication import publish

    print(publish(folder, out, episodes=episodes))
