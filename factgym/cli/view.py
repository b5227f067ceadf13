"""`factgym view RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from factgym.cli.options import Prices


def view(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A run's folder, as `factgym eval` or `train` prints it; or EVE's data set."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Where the page goes; default RUN/index.html.")] = None,
    prices: Prices = None,
) -> None:
    """Write one self-contained HTML page to browse a run's episodes."""
    from factgym.benchmarks.costs import read_prices
    from factgym.benchmarks.viewer.page import write_page
    from factgym.training.recipes.curves import is_training_run, write_curves

    if is_training_run(run):
        print(write_curves(run, out))
        return
    print(write_page(run, out, read_prices(prices) if prices else None))
