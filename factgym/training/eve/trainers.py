"""A policy under training (`Learner`), and trainers that change no parameter: none at all, and a check of the rows.

`Checked` is a starting point for a trainer of your own: it reads the rows as an optimiser would and refuses those that
none could learn from. Use it as `--trainer check`, or copy the class into a file of yours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from factgym.agents.agent import Agent, AgentModel, Model, agent_from_model
from factgym.agents.runs import files
from factgym.core.errors import DataError
from factgym.core.messages import message_text
from factgym.training.eve.rollouts import PhaseName, Row
from factgym.training.trainer import Dataset, Trainer, call_trainer, describe_trainer, train_once

EVE_TRAINERS: Mapping[str, str] = {
    "none": "factgym.training.eve.trainers:Untrained",
    "check": "factgym.training.eve.trainers:Checked",
    "trl": "factgym.training.trl_trainers:PolicyGradientTrainer",
    "command": "factgym.training.trainer:CommandTrainer",
}
"""Name -> the class. none: policies do not learn; their rows are written all the same."""

CHECKED = "checked.json"


class Untrained:
    """No training: the policy after an iteration is the one before."""

    identity = "factgym.training.eve.trainers.Untrained"

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """Return the same model."""
        return model

    def load(self, folder: Path) -> Model:
        """Never called: training leaves nothing."""
        raise DataError(f"{folder} holds no model: nothing was trained there")


class Checked:
    """Trains nothing, and raises DataError for rows that no optimiser could use. Leaves `checked.json`.

    Every row needs the policy's own messages, a finite reward and advantage, and credits that lie inside these
    messages. The advantages of a group sum to 0, and equal rewards in one group have equal advantages.
    """

    identity = "factgym.training.eve.trainers.Checked"

    def load(self, folder: Path) -> Model:
        """Never called: `train` returns the model that it was given."""
        raise DataError(f"{folder} holds no model: its rows were checked, and nothing was trained")

    def train(self, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
        """Check every row and return the same model."""
        groups: dict[str, list[tuple[float, float]]] = {}
        actions = 0
        for number, row in enumerate(dataset.rows(), 1):
            for fault in row_faults(row):
                raise DataError(f"{dataset.path} line {number}: {fault}")
            groups.setdefault(row["group"], []).append((row["reward"], row["advantage"]))
            actions += len(row["actions"])
        for name, pairs in groups.items():
            total = sum(advantage for _, advantage in pairs)
            if abs(total) > 1e-6 * len(pairs):
                raise DataError(f"{dataset.path}, group {name}: the advantages sum to {total:.3g}, not to 0")
            advantages: dict[float, float] = {}
            for reward, advantage in pairs:
                if abs(advantages.setdefault(reward, advantage) - advantage) > 1e-9:
                    raise DataError(f"{dataset.path}, group {name}: two equal rewards have different advantages")
        counts = {
            "rows": dataset.lines,
            "groups": len(groups),
            "actions": actions,
            "moving": sum(advantage != 0 for pairs in groups.values() for _, advantage in pairs),
        }
        files.write_json(folder / CHECKED, counts)
        return model


def row_faults(row: Row) -> Iterator[str]:
    """Descriptions of a row's faults; none for a usable row."""
    messages = row["messages"]
    if not row["actions"]:
        yield "the policy wrote no message"
    for index in row["actions"]:
        if messages[index]["role"] != "assistant":
            yield f"message {index} is not the policy's"
    for name in ("reward", "advantage"):
        if not math.isfinite(row[name]):
            yield f"the {name} is {row[name]}"
    for index, start, end, _ in row["spans"]:
        if index not in row["actions"] or not 0 <= start <= end <= len(message_text(messages[index])):
            yield f"a credit lies outside of the policy's messages: {[index, start, end]}"
    if row["phase"] not in get_args(PhaseName):
        yield f"no phase is called {row['phase']!r}"


@dataclass(frozen=True)
class Learner:
    """A policy under training. start: opens the initial policy. trainer: makes the next policy."""

    name: str
    start: Callable[[], Agent]
    trainer: Trainer = field(default_factory=Untrained)

    @property
    def learns(self) -> bool:
        """Whether there is a training at all; without one, an agent stays open from iteration to iteration."""
        return not isinstance(self.trainer, Untrained)

    async def describe(self) -> dict[str, Any]:
        """Identity of the initial policy and of the trainer, for a manifest."""
        agent = self.start()
        description = {"agent": agent.name, **agent.describe(), **describe_trainer(self.trainer)}
        await agent.close()
        return description

    async def open(self, folders: list[Path]) -> Agent:
        """Open the policy after the finished iterations in `folders`: the latest model that training left."""
        for folder in reversed(folders):
            if _left_model(folder):
                return self._agent(await call_trainer(self.trainer.load, folder / files.MODEL))
        return self.start()

    def identity(self, folders: list[Path]) -> Any:
        """Identity of the policy after the iterations in `folders`, for a manifest, without opening it."""
        for folder in reversed(folders):
            if _left_model(folder):
                return files.read_json(folder / files.TRAINED)["model"]
        return "as it was given"

    async def train(self, agent: Agent, dataset: Dataset, folder: Path, seed: int) -> Agent | None:
        """Close the agent and return the trained one; None for an unchanged policy, which may need opening again."""
        model = agent.policy if isinstance(agent.policy, Model) else AgentModel(agent)
        await agent.close()
        if (folder / files.TRAINED).exists() and not _left_model(folder):
            return None  # the run was stopped after a training that left no model to load
        trained = await train_once(self.trainer, model, dataset, folder, seed)
        return None if trained is model else self._agent(trained)

    def _agent(self, model: Model) -> Agent:
        # Without `threads`, a model replies at once or is a coroutine.
        return agent_from_model(self.name, model, threads=getattr(model, "threads", 0))


def _left_model(folder: Path) -> bool:
    """Whether the training of an iteration is over and left a model."""
    path = folder / files.TRAINED
    return path.exists() and bool(files.read_json(path).get("learned", True))
