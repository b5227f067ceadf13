"""`factgym repair RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def repair(run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]) -> None:
    """Move lines of another run, environment or seed, doubled lines and broken ones out of a run's episodes.

    Nothing is deleted: they go to `episodes.removed.jsonl`. Continue the run with `--resume`.
    """
    from factgym.agents.runs.files import EPISODES
    from factgym.agents.runs.read import REMOVED, repair_run

    result = repair_run(run)
    if not result.removed:
        print(f"{run / EPISODES}: {result.lines:,} lines, nothing to repair")
        return
    for reason, count in result.removed.items():
        print(f"{count:,} {'line' if count == 1 else 'lines'} removed: {reason}")
    print(f"{run / EPISODES}: {result.lines:,} lines stay; the others are in {run / REMOVED}")
