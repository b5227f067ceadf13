"""The trainer protocol: what turns a model and a data set into the next model.

The data set is a file of chat lines, `{"messages": […], …}`. SEVA's are `[system, user, assistant]`, as TRL's
SFTTrainer and fine-tuning services take them, and the assistant's message is the verdict to learn. EVE's are whole
episodes with an advantage each (`factgym.training.eve.rows`). A user's own trainer is one class with two methods.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from factgym.agents.agent import Model
from factgym.agents.runs.artifacts import read_lines
from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.messages import Message
from factgym.core.registry import load_attribute


@dataclass(frozen=True, slots=True)
class Dataset:
    """Training data on disk. path: the JSON lines. lines: how many. fingerprint: SHA-256 in hex of the file."""

    path: Path
    lines: int
    fingerprint: str

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every line: "messages", and what belongs to them.

        In SEVA's loop "id", "origin" ("probe", "replay" or "seed"), "label", "error_type" and "of"; in EVE's what
        `factgym.training.eve.rows` says.
        """
        return read_lines(self.path)

    def conversations(self) -> Iterator[list[Message]]:
        """The messages of every line."""
        return (row["messages"] for row in self.rows())


def open_dataset(path: Path) -> Dataset:
    """A data set that is on disk. Raises DataError where it is not."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error})") from None
    return Dataset(path, data.count(b"\n"), hashlib.sha256(data).hexdigest())


@runtime_checkable
class Trainer(Protocol):
    """Trains models. Both methods may be plain or async; a plain one is called in a thread and is not interrupted.

    A `describe()` that gives JSON data identifies the trainer in the manifest, where there is one.
    """

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model | Awaitable[Model]:
        """The model after training on the data set. `folder` is empty and the trainer's to fill.

        `model` is the one before, closed, so that its memory is free: what it describes of itself can be relied on.
        In EVE's loop `model` itself, given back, says that nothing was learned; `load` is then never called.
        What it raises ends the evolution; the round can be continued, and then begins training anew.
        """
        ...

    def load(self, folder: Path) -> Model | Awaitable[Model]:
        """The model that an earlier `train` left in a folder, for an evolution that is continued."""
        ...


TRAINERS: Mapping[str, str] = MappingProxyType(
    {
        "features": "factgym.training.verifier_trainer:FeatureTrainer",
        "command": "factgym.training.command:CommandTrainer",
    }
)
"""Name -> the class, imported when it is chosen. To add a trainer: a class, and a line here."""


def find_trainer(
    text: str, settings: Mapping[str, Any] | None = None, trainers: Mapping[str, str] = TRAINERS
) -> Trainer:
    """A trainer by name, or `path/to/file.py:Class`. settings: keyword arguments of the class. trainers: the names.

    Raises ConfigError for one that cannot be, or for settings that it does not take.
    """
    values = dict(settings or {})
    if ".py:" in text:
        from factgym.agents.resolve import user_object

        return _checked(user_object(text, values), text)
    if text not in trainers:
        hint = did_you_mean(text, trainers)
        raise ConfigError(f"there is no trainer {text!r}.{hint} There are: {', '.join(trainers)}, and FILE.py:Class.")
    make: Callable[..., Any] = load_attribute(trainers[text])
    try:
        return _checked(make(**values), text)
    except TypeError as error:
        raise ConfigError(f"the trainer {text!r} does not take these settings: {error}") from None


def _checked(found: Any, name: str) -> Trainer:
    missing = [one for one in ("train", "load") if not callable(getattr(found, one, None))]
    if missing:
        raise ConfigError(f"{name} has no {' and no '.join(missing)}: a trainer is a class with train and load")
    return found  # type: ignore[no-any-return]  # checked above


def describe_trainer(trainer: Trainer) -> dict[str, Any]:
    """What identifies a trainer in a manifest."""
    describe = getattr(trainer, "describe", None)
    details = describe() if callable(describe) else {}
    return {"trainer": f"{type(trainer).__module__}.{type(trainer).__qualname__}", **details}
