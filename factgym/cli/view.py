"""`factgym view RUN [RUN …]`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from factgym.cli.options import Prices
from factgym.core.errors import ConfigError

CHECKPOINTS = "checkpoints.html"


def view(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…",
            help="A run's folder, as `factgym eval` or `train` prints it, or EVE's data set; several for one page side by side.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Where the page goes; default RUN/index.html, of several runs comparison.html.")
    ] = None,
    prices: Prices = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Serve the page on this machine instead, and follow a run that goes on.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of --watch; 0 takes a free one.")] = 0,
) -> None:
    """Write one self-contained HTML page to browse a run's episodes, or those of several runs side by side."""
    if not watch:
        print(_write(runs, out, prices))
        return
    if out is not None:
        raise ConfigError("--watch serves the page and writes none: leave out --out")
    from factgym.benchmarks.viewer.live import PageServer, state_of
    from factgym.training.recipes.curves import is_training_run

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "index.html"
        live = not (len(runs) == 1 and is_training_run(runs[0]))
        server = PageServer(lambda: _write(runs, page, prices, live), lambda: state_of(runs), port, reloads=not live)
        print(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            server.server_close()


def _write(runs: list[Path], out: Path | None, prices: Path | None, live: bool = False) -> Path:
    """Write the page that fits the runs, and of a training run the episodes of its checkpoints beside its curves."""
    from factgym.agents.runs.read import read_run
    from factgym.benchmarks.costs import read_prices
    from factgym.benchmarks.viewer.comparison import run_names
    from factgym.benchmarks.viewer.page import write_comparison, write_page
    from factgym.training.recipes.curves import checkpoint_runs, is_training_run, write_curves

    if len(runs) > 1:
        opened = {name: read_run(run) for name, run in zip(run_names(runs), runs, strict=True)}
        return write_comparison(opened, out or Path("comparison.html"), live)
    (run,) = runs
    if not is_training_run(run):
        return write_page(run, out, read_prices(prices) if prices else None, live)
    checkpoints = {name: read_run(folder) for name, folder in checkpoint_runs(run).items()}
    if len(checkpoints) > 1:
        write_comparison(checkpoints, (out.parent if out else run) / CHECKPOINTS)
    return write_curves(run, out, CHECKPOINTS if len(checkpoints) > 1 else None)
