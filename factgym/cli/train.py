"""`factgym train RECIPE` or `factgym train ENV --model M`: tune a policy, with curves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factgym.cli import options, sinks
from factgym.cli.display import Display
from factgym.core.errors import ConfigError

if TYPE_CHECKING:
    from factgym.training.recipes.run import TrainingProgress

_ROWS = 8
_COLUMNS = ("loss", "reward", "reward_std", "zero_signal", "kl", "entropy", "length")


def train_command(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|ENV",
            help="A TOML file, an environment to train on with --model, or verifier (--set docs=FOLDER, pairs=N).",
        ),
    ],
    model: Annotated[
        str | None, typer.Option(help="scratch:SIZE (such as scratch:1m), hf:NAME or a folder with a model.")
    ] = None,
    stages: Annotated[
        str | None, typer.Option(metavar="KIND,…", help="Stages with their defaults, such as sft,grpo.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Seed of every random choice.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key, as --set stages.0.learning_rate=1e-3. Repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default runs/train-NAME.")] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="trl or small train here, by default the recipe's; verl, skyrl, prime-rl: write the files of a run on "
            "a cluster, and stop."
        ),
    ] = None,
    tensorboard: sinks.TensorBoard = False,
    trackio: sinks.Trackio = False,
    wandb: sinks.WeightsAndBiases = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the recipe as resolved, and stop.")] = False,
) -> None:
    """Train a policy by a recipe. The same command continues a run that was stopped, from its last checkpoint."""
    from rich.console import Console

    from factgym.benchmarks.benchmark import folder_name
    from factgym.training.recipes.recipe import read_recipe, recipe_of, recipe_toml, with_changes

    here = engine if engine in ("trl", "small") else None
    changes = options.parse_settings(None, model=model, seed=seed, engine=here) | options.parse_settings(settings)
    console = Console(highlight=False)
    if recipe == "verifier":
        from factgym.training.verifier import VerifierTraining, train_verifier

        training = VerifierTraining.build("train verifier", changes)
        return train_verifier(training, out, partial(console.print, markup=False, soft_wrap=True), dry_run=dry_run)
    is_file = recipe.endswith(".toml")
    if not is_file and model is None:
        raise ConfigError(f"`factgym train {recipe}` needs --model, or the TOML file of a recipe instead of {recipe!r}")
    values = read_recipe(Path(recipe)) if is_file else {"env": recipe, "stages": [{"kind": "sft"}, {"kind": "grpo"}]}
    if stages is not None:
        values["stages"] = [{"kind": kind.strip()} for kind in stages.split(",")]
    resolved = recipe_of(with_changes(values, changes))
    console.print(recipe_toml(resolved), markup=False, soft_wrap=True)
    if dry_run:
        return
    name = Path(recipe).stem if is_file else f"{recipe}-{model}"
    if engine is not None and engine != here:
        from factgym.training.recipes.engines import skipped_stages, write_engine

        paths, start = write_engine(engine, resolved, out or Path("runs") / folder_name(f"{engine}-{name}"))
        lines = [*map(str, paths), *filter(None, [skipped_stages(resolved)]), f"Start it: {start}"]
        console.print("\n".join(lines), markup=False, soft_wrap=True)
        return
    folder = out or Path("runs") / folder_name(f"train-{name}")
    from factgym.training.recipes.budget import keep_memory
    from factgym.training.recipes.run import Observer, train

    quiet_libraries()
    keep_memory()
    requested = {"tensorboard": tensorboard, "trackio": trackio, "wandb": wandb}
    with (
        sinks.opened_sinks(folder, resolved.model_dump(mode="json"), **requested) as log,
        _TrainingDisplay(console, "") as display,
    ):
        observer = Observer(
            step=lambda text: console.print(text, markup=False, soft_wrap=True),
            metrics=lambda line: log(line, line["total_step"]),
            start=display.watch,
        )
        try:
            result = train(resolved, folder, observer)
        except KeyboardInterrupt:
            console.print(f"Stopped. The same command continues in {folder}", markup=False, soft_wrap=True)
            raise typer.Exit(130) from None
    _print_result(console, result, folder)


def quiet_libraries() -> None:
    """Progress bars and advice of the libraries off: the display has the terminal."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # TRL warns of the very argument that the integration uses
    try:
        import datasets
        from transformers.utils import logging as library
    except ImportError:
        return
    library.set_verbosity_error()
    library.disable_progress_bar()
    datasets.disable_progress_bars()


class _TrainingDisplay(Display):
    """The last metrics as a table, under a bar of the steps."""

    progress: TrainingProgress | None

    def line(self) -> str | None:
        """The last metrics as text."""
        progress = self.progress
        if progress is None:
            return None
        parts = [progress.label]
        if (episodes := progress.episodes) is not None:
            parts.append(f"{episodes.done:,}/{episodes.total:,} episodes")
        parts.append(f"{progress.done:,}/{progress.total:,} steps")
        row: Mapping[str, Any] = next((row for row in reversed(progress.rows) if "evaluation" not in row), {})
        parts += [f"{name} {_number(row[name])}" for name in _COLUMNS if name in row]
        scored = next((row for row in reversed(progress.rows) if row.get("evaluation") == "validation"), None)
        if scored is not None:
            parts.append(f"held out {_number(scored['reward'])}")
        return " · ".join(part for part in parts if part)

    def render(self, line: str) -> Any:
        """The table for a terminal."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        progress = self.progress
        assert progress is not None
        rows = list(progress.rows[-_ROWS:])
        columns = [name for name in _COLUMNS if any(name in row for row in rows)]
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
        for name in ("step", *columns, "held out"):
            table.add_column(name, justify="right")
        for row in rows:
            score = _number(row["reward"]) if "evaluation" in row else ""
            cells = ["" if "evaluation" in row else _number(row.get(name)) for name in columns]
            table.add_row(str(row["total_step"]), *cells, f"{score} {row.get('evaluation', '')}".strip())
        bar = ProgressBar(max(progress.total, 1), progress.done, width=40)
        return Group(Text(progress.label, style="bold"), bar, table, Text(line))


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, (int, float)) else ""


def _print_result(console: Any, result: Mapping[str, Any], folder: Path) -> None:
    from factgym.benchmarks.terminal import render_table
    from factgym.training.recipes.curves import result_tables, write_curves

    for stage in result["stages"]:
        if stage.get("stopped"):
            console.print(f"{stage['kind']} ended early at {stage['stopped']}", markup=False, soft_wrap=True)
    for table in result_tables(result):
        console.print(render_table(table))
    page = write_curves(folder)
    model = folder / "stages"
    console.print(f"Curves: {page}\nModel:  {model}/*/model", markup=False, soft_wrap=True)
