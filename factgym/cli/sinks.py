"""Numbers of a training run or an evaluation in a dashboard's own store: TensorBoard, Trackio, Weights & Biases."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.paths import make_folder

_PROJECT = "factgym"

TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files as well.")]
Trackio = Annotated[
    bool, typer.Option("--trackio", help="Log to Trackio's local database as well; nothing leaves the machine.")
]
WeightsAndBiases = Annotated[
    bool, typer.Option("--wandb", help="Log to Weights & Biases as well: to its server, unless WANDB_MODE=offline.")
]


class Sink(NamedTuple):
    """A dashboard's library. log: takes scalars by name, and their step."""

    log: Callable[[Mapping[str, float], int], None]
    close: Callable[[], None]


def check_sinks(**requested: bool) -> None:
    """Raise MissingExtraError for a sink whose library is absent, before anything is played."""
    for name, enabled in requested.items():
        if enabled and find_spec(name) is None:
            raise MissingExtraError(f"--{name}", name)


@contextmanager
def opened_sinks(
    folder: Path, settings: Mapping[str, Any], *, tensorboard: bool, trackio: bool, wandb: bool
) -> Iterator[Callable[[Mapping[str, Any], int], None]]:
    """Open the sinks that were asked for, and yield what logs a line of metrics at a step to all of them.

    folder: of the run; its name is the dashboard's. settings: what the run was made with, as JSON data. Raises
    MissingExtraError, and ConfigError where a server refuses.
    """
    check_sinks(tensorboard=tensorboard, trackio=trackio, wandb=wandb)
    requested = ((tensorboard, _tensorboard), (trackio, _trackio), (wandb, _wandb))
    sinks: list[Sink] = []
    try:
        sinks.extend(open_sink(folder, settings) for enabled, open_sink in requested if enabled)

        def log(line: Mapping[str, Any], step: int) -> None:
            values = scalars_of(line) if sinks else {}
            for sink in sinks:
                sink.log(values, step)

        yield log
    finally:
        for sink in sinks:
            sink.close()


def scalars_of(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a metric line by name: "validation/reward" of an evaluation, "components/NAME" and "recall/NAME"."""
    prefix = f"{line['evaluation']}/" if "evaluation" in line else ""
    tables = {
        f"{table}/{name}": value for table in ("components", "recall") for name, value in line.get(table, {}).items()
    }
    return {
        f"{prefix}{name}": value
        for name, value in {**line, **tables}.items()
        if isinstance(value, (int, float)) and name not in ("stage", "step", "total_step")
    }


def _tensorboard(folder: Path, settings: Mapping[str, Any]) -> Sink:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder / "tensorboard"))

    def log(values: Mapping[str, float], step: int) -> None:
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    return Sink(log, writer.close)


def _trackio(folder: Path, settings: Mapping[str, Any]) -> Sink:
    import trackio

    quiet = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
    # Trackio prints; a folder's run goes on after an interruption. Without a server's name it writes a file of SQLite.
    with redirect_stdout(StringIO()):
        run = trackio.init(project=_PROJECT, name=folder.name, resume="allow", config=dict(settings), **quiet)

    def close() -> None:
        with redirect_stdout(StringIO()):
            trackio.finish()

    return Sink(lambda values, step: run.log(dict(values), step=step), close)


def _wandb(folder: Path, settings: Mapping[str, Any]) -> Sink:
    import wandb

    make_folder(folder)
    # Neither code, command line, machine nor console is recorded: the numbers and the run's own settings alone.
    options = wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        save_code=False,
        host="",
        x_disable_meta=True,
        x_disable_stats=True,
    )
    identity = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    try:
        run = wandb.init(
            project=_PROJECT,
            name=folder.name,
            id=identity,
            resume="allow",
            dir=str(folder),
            config=dict(settings),
            settings=options,
        )
    except wandb.Error as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"--wandb: {reason}. Log in with `wandb login`, or set WANDB_MODE=offline to write files alone"
        ) from None
    # A step of ours, not W&B's counter, which refuses to go back: a continued run repeats the steps after its checkpoint.
    run.define_metric("*", step_metric="step")
    return Sink(lambda values, step: run.log({**values, "step": step}), run.finish)
