"""Who a phase trains: the policy that it begins with, and the models that training left, iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent, Model, agent_from_model
from factgym.agents.models import as_model
from factgym.agents.runs import artifacts as files
from factgym.training.eve.trainers import Untrained
from factgym.training.trainer import Dataset, Trainer, describe_trainer
from factgym.training.training import call_trainer, train_once


@dataclass(frozen=True)
class Learner:
    """A policy under training. start: opens the one it begins as. trainer: makes the next one."""

    name: str
    start: Callable[[], Agent]
    trainer: Trainer = field(default_factory=Untrained)

    async def describe(self) -> dict[str, Any]:
        """Who it begins as and what trains it, for a manifest."""
        agent = self.start()
        about = {"agent": agent.name, **agent.describe(), **describe_trainer(self.trainer)}
        await agent.close()
        return about

    async def open(self, folders: list[Path]) -> Agent:
        """The learner after the iterations in `folders`, which are over: the last model that training made of it."""
        for folder in reversed(folders):
            if _learned(folder):
                return self._agent(await call_trainer(self.trainer.load, folder / files.MODEL))
        return self.start()

    def known(self, folders: list[Path]) -> Any:
        """What the iterations in `folders` left, for a manifest, without opening it."""
        for folder in reversed(folders):
            if _learned(folder):
                return files.read_json(folder / files.TRAINED)["model"]
        return "as it was given"

    async def train(self, agent: Agent, dataset: Dataset, folder: Path, seed: int) -> Agent | None:
        """The learner after training, closed before it; None where it stays as it was and may need opening again."""
        model = _model_of(agent)
        await agent.close()
        if _trained(folder) and not _learned(folder):
            return None  # the run was stopped after a training that left no model to load
        found = await train_once(self.trainer, model, dataset, folder, seed)
        return None if found is model else self._agent(found)

    @property
    def learns(self) -> bool:
        """Whether there is a training at all; without one, an agent stays open from iteration to iteration."""
        return not isinstance(self.trainer, Untrained)

    def _agent(self, model: Model) -> Agent:
        # A model answers at once or awaits, where it does not say otherwise.
        return agent_from_model(self.name, model, threads=getattr(model, "threads", 0))


def _trained(folder: Path) -> bool:
    return (folder / files.TRAINED).exists()


def _learned(folder: Path) -> bool:
    return _trained(folder) and bool(files.read_json(folder / files.TRAINED).get("learned", True))


def _model_of(agent: Agent) -> Model:
    return agent.policy if isinstance(agent.policy, Model) else as_model(agent)
