"""Trainers of EVE's loop that change no parameter: none at all, and one that checks what a trainer is given.

`Checked` is a place to begin writing a trainer of your own: it reads the rows as an optimiser would and refuses those
that none could learn from. Give it as `--trainer check`, or copy the class into a file of yours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from factgym.agents.agent import Model
from factgym.agents.runs import artifacts as files
from factgym.core.errors import DataError
from factgym.core.messages import message_text
from factgym.training.eve.rows import GROUPS, Row
from factgym.training.trainer import Dataset

EVE_TRAINERS: Mapping[str, str] = MappingProxyType(
    {
        "none": "factgym.training.eve.trainers:Untrained",
        "check": "factgym.training.eve.trainers:Checked",
        "command": "factgym.training.command:CommandTrainer",
    }
)
"""Name -> the class. none: policies do not learn; their rows are written all the same."""

CHECKED = "checked.json"


class Untrained:
    """No training: the policy after an iteration is the one before."""

    def describe(self) -> dict[str, Any]:
        """Nothing more than its name."""
        return {}

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """The same model."""
        return model

    def load(self, folder: Path) -> Model:
        """Never asked for: nothing was left."""
        raise DataError(f"{folder} holds no model: nothing was trained there")


class Checked:
    """Trains nothing, and raises DataError for rows that no optimiser could use. Leaves `checked.json`.

    Every row needs the policy's own messages, a finite reward and advantage, and credits that lie inside these
    messages. The advantages of a group sum to 0, and equal rewards in one group have equal advantages.
    """

    def load(self, folder: Path) -> Model:
        """Never asked for: what `train` was given is what it gives back."""
        raise DataError(f"{folder} holds no model: its rows were checked, and nothing was trained")

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """The same model, once every row was read."""
        groups: dict[str, list[tuple[float, float]]] = {}
        actions = 0
        for number, row in enumerate(dataset.rows(), 1):
            for fault in faults_of(row):
                raise DataError(f"{dataset.path} line {number}: {fault}")
            groups.setdefault(row["group"], []).append((row["reward"], row["advantage"]))
            actions += len(row["actions"])
        for name, pairs in groups.items():
            _check_group(f"{dataset.path}, group {name}", pairs)
        about = {
            "rows": dataset.lines,
            "groups": len(groups),
            "actions": actions,
            "moving": sum(advantage != 0 for pairs in groups.values() for _, advantage in pairs),
        }
        files.write_json(folder / CHECKED, about)
        return model


def faults_of(row: Row) -> Iterator[str]:
    """What is wrong with a row, if anything."""
    messages = row["messages"]
    if not row["actions"]:
        yield "the policy said nothing"
    for place in row["actions"]:
        if messages[place]["role"] != "assistant":
            yield f"message {place} is not the policy's"
    for name in ("reward", "advantage"):
        if not math.isfinite(row[name]):
            yield f"the {name} is {row[name]}"
    for place, start, end, _ in row["spans"]:
        if place not in row["actions"] or not 0 <= start <= end <= len(message_text(messages[place])):
            yield f"a credit lies outside of the policy's messages: {[place, start, end]}"
    if row["phase"] not in GROUPS:
        yield f"no phase is called {row['phase']!r}"


def _check_group(where: str, pairs: list[tuple[float, float]]) -> None:
    total = sum(advantage for _, advantage in pairs)
    if abs(total) > 1e-6 * len(pairs):
        raise DataError(f"{where}: the advantages sum to {total:.3g}, not to 0")
    known: dict[float, float] = {}
    for reward, advantage in pairs:
        if abs(known.setdefault(reward, advantage) - advantage) > 1e-9:
            raise DataError(f"{where}: two equal rewards have different advantages")
