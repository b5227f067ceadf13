"""Commands over finished runs: `factgym view`, `export`, `repair` and `report`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

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
    from factgym.integrations.frameworks import Shell
    from factgym.training.recipes.curves import is_training_run

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "index.html"
        live = not (len(runs) == 1 and is_training_run(runs[0]))
        server = PageServer(
            lambda: _write(runs, page, prices, live), lambda: state_of(runs), port, not live, Shell().refusal
        )
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
    from factgym.benchmarks.viewer.page import run_names, write_comparison, write_page
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


_CHAT = ("reasoning", "arguments")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "sft": (*_CHAT, "min_reward", "best", "only_submitted", "no_errors", "allow_oracle", "allow_evaluation_split"),
    "preferences": (*_CHAT, "margin", "pairs", "max_pairs", "allow_oracle", "allow_evaluation_split"),
    "table": (),
}
"""Format -> its options."""


def export(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, as `factgym eval` prints them.")
    ],
    to: Annotated[
        Literal["sft", "preferences", "table"], typer.Option(help="Chat lines, preference pairs or a Parquet table.")
    ],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    mixed: Annotated[bool, typer.Option("--mixed", help="Accept runs of different environments together.")] = False,
    min_reward: Annotated[float | None, typer.Option(help="sft: minimum reward.")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="sft: maximum episodes of a task, the best ones.")] = None,
    only_submitted: Annotated[
        bool | None,
        typer.Option("--only-submitted/--any-stop", help="sft: leave out episodes that ended at a limit (default)."),
    ] = None,
    no_errors: Annotated[
        bool | None, typer.Option("--no-errors", help="sft: leave out episodes with a malformed or refused action.")
    ] = None,
    reasoning: Annotated[
        Literal["keep", "drop", "inline"] | None,
        typer.Option(help="Reasoning: a field of its own (default), dropped, or as <think> in the content."),
    ] = None,
    arguments: Annotated[
        Literal["text", "object"] | None,
        typer.Option(help="Arguments of native calls: JSON text (default) or an object."),
    ] = None,
    margin: Annotated[float | None, typer.Option(min=0, help="preferences: minimum difference of rewards.")] = None,
    pairs: Annotated[
        Literal["best-worst", "all"] | None, typer.Option(help="preferences: which pairs of a group.")
    ] = None,
    max_pairs: Annotated[int | None, typer.Option(min=1, help="preferences: maximum pairs of a group.")] = None,
    allow_oracle: Annotated[
        bool | None,
        typer.Option("--allow-oracle", help="sft, preferences: accept runs of an oracle (--agent teacher is better)."),
    ] = None,
    allow_evaluation_split: Annotated[
        bool | None,
        typer.Option("--allow-evaluation-split", help="sft, preferences: accept episodes of validation or test tasks."),
    ] = None,
) -> None:
    """Turn runs into training data or a table. The file appears when it is complete, or not at all."""
    from factgym.agents.export.source import Form
    from factgym.agents.export.table import export_table
    from factgym.agents.export.training import PreferenceOptions, SftOptions, export_preferences, export_sft

    options: dict[str, Any] = {
        "min_reward": min_reward, "best": best, "only_submitted": only_submitted, "no_errors": no_errors,
        "reasoning": reasoning, "arguments": arguments, "margin": margin, "pairs": pairs, "max_pairs": max_pairs,
        "allow_oracle": allow_oracle, "allow_evaluation_split": allow_evaluation_split,
    }  # fmt: skip
    options = {name: value for name, value in options.items() if value is not None}
    for name, value in options.items():
        if name not in _OPTIONS[to]:
            formats = " and ".join(f"--to {format_}" for format_, names in _OPTIONS.items() if name in names)
            flag = "any-stop" if value is False else name.replace("_", "-")
            raise ConfigError(f"--{flag} goes with {formats}, not with --to {to}")
    form = Form(**{name: options.pop(name) for name in _CHAT if name in options})
    if to == "sft":
        summary = export_sft(runs, out, SftOptions(**options, form=form), force=force, mixed=mixed)
    elif to == "preferences":
        summary = export_preferences(runs, out, PreferenceOptions(**options, form=form), force=force, mixed=mixed)
    else:
        summary = export_table(runs, out, force=force, mixed=mixed)
    print(summary.text())


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


def report(
    folder: Annotated[Path, typer.Argument(help="A folder with runs, training runs and certificates, at any depth.")],
    out: Annotated[Path, typer.Option(help="Folder of the pages.")],
    episodes: Annotated[bool, typer.Option(help="Write the pages of all episodes as well.")] = True,
) -> None:
    """Publish a folder as static pages: leaderboards in pairs, certificates, training curves, and all episodes."""
    from factgym.training.publication import publish

    print(publish(folder, out, episodes=episodes))
