"""What the commands of `factgym evolve` share: options, trainers, and how a loop is run and stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from factgym.cli.options import parse_settings
from factgym.core.errors import ConfigError, FactgymError

Command = Annotated[
    str | None, typer.Option(help='For --trainer command: a JSON list, ["python", "train.py", "{data}", "{out}"].')
]
TrainerSettings = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the trainer. Repeatable.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue what is in the folder, if anything is.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Episodes at a time.")]


def trainer_settings(trainer: str, command: str | None, settings: list[str]) -> dict[str, Any]:
    """Keyword arguments of the trainer's class. Raises ConfigError for a command without its trainer and the reverse."""
    found = parse_settings(settings, "--trainer-set")
    if (trainer == "command") != (command is not None):
        raise ConfigError(
            '--trainer command and --command go together: --command \'["python", "train.py", "{data}"]\''
        )
    if command is not None:
        try:
            found["command"] = json.loads(command)
        except (ValueError, RecursionError):
            raise ConfigError(
                f'--command takes a JSON list, such as ["python", "train.py"], not {command!r:.80}'
            ) from None
    return found


@contextmanager
def kept(console: Any, out: Path) -> Iterator[None]:
    """A loop runs here; when it stops before its end, a person is told that what was finished is kept."""
    try:
        yield
    except KeyboardInterrupt:
        console.print(f"Stopped. What was finished is in {out}; continue with --resume", markup=False, soft_wrap=True)
        raise typer.Exit(130) from None
    except FactgymError as error:
        if isinstance(error, ConfigError):
            raise
        raise FactgymError(f"{error}. What was finished is in {out}; continue with --resume") from error
