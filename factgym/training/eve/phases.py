"""The two phases of EVE, iteration by iteration: draw, collect rollouts, hand the rows to a trainer, measure.

Each iteration has a folder, whose `metrics.json` is written last. Every file is written whole, so a phase that was
killed at any point continues where it stopped."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits
from factgym.agents.rollout.jobs import task_order
from factgym.agents.runs import files
from factgym.agents.runs.files import ROLLOUTS
from factgym.agents.runs.read import read_run
from factgym.core.env import Env
from factgym.core.seeds import derive
from factgym.datasets.multihop import Triple
from factgym.training.eve.rollouts import (
    Episodes,
    PhaseName,
    proposer_metrics,
    scored,
    solver_metrics,
    training_rows,
)
from factgym.training.eve.settings import PassageSplits
from factgym.training.eve.trainers import Learner
from factgym.training.rollouts import SILENT, Callbacks, collect_rollouts
from factgym.training.trainer import open_dataset

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from factgym.training.eve.selector import Choice, Selector

DRAW = "draw.jsonl"
SELECTOR = "selector.json"


@dataclass(frozen=True)
class Batch:
    """The tasks of an iteration: k episodes of each in `order`. rows: the draw, for the disk."""

    env: Env[Any]
    order: Sequence[int]
    k: int
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Phase(ABC):
    """The iterations of a phase on disk. out: folder of the evolution."""

    name: ClassVar[PhaseName]

    out: Path
    passages: PassageSplits
    learner: Learner
    limits: Limits | None = None
    callbacks: Callbacks = SILENT

    @abstractmethod
    def batch(self, number: int) -> Batch:
        """The tasks of iteration `number` (from 1); the same for every call."""

    @abstractmethod
    def measure(self, number: int, episodes: Episodes) -> dict[str, Any]:
        """Metrics of the scored episodes; also gives feedback. May be called again after a kill."""

    def folder(self, number: int) -> Path:
        """Folder of an iteration, from 1."""
        return self.out / self.name / f"iteration-{number}"

    def folders_before(self, number: int) -> list[Path]:
        """Folders of the iterations before this one."""
        return [self.folder(earlier) for earlier in range(1, number)]

    async def run(self, iterations: int) -> None:
        """Run the iterations that are not finished."""
        numbers = range(1, iterations + 1)
        first = next((number for number in numbers if not (self.folder(number) / files.METRICS).exists()), None)
        if first is None:
            return
        agent = await self.learner.open(self.folders_before(first))
        try:
            await agent.prepare()
            for number in range(first, iterations + 1):
                agent = await self._run_iteration(number, agent)
        finally:
            await agent.close()

    async def _run_iteration(self, number: int, agent: Agent) -> Agent:
        """Run one iteration and return the agent for the next."""
        folder, label = self.folder(number), f"{self.name} {number}"
        batch = self.batch(number)
        seed = derive(self.passages.settings.seed, self.name)
        seeds = {stage: derive(seed, stage, number) for stage in ("play", "train")}
        manifest = {
            "what": f"factgym evolve eve, {self.name}",
            "iteration": number,
            "seeds": seeds,
            "learner": self.learner.identity(self.folders_before(number)),
            "tasks": batch.env.tasks.fingerprint(),
        }
        files.open_folder(folder, manifest, resume=True)
        files.write_once(folder / DRAW, batch.rows)
        self.callbacks.step(f"{label}: {len(batch.order) * batch.k} episodes")
        await collect_rollouts(
            label,
            batch.env,
            agent,
            batch.order,
            folder / ROLLOUTS,
            k=batch.k,
            seed=seeds["play"],
            limits=self.limits,
            callbacks=self.callbacks,
        )
        episodes = scored(read_run(folder / ROLLOUTS).episodes())
        files.write_once(folder / files.TRAIN, training_rows(episodes, self.name, number))
        metrics = self.measure(number, episodes)
        if self.learner.learns:
            dataset = open_dataset(folder / files.TRAIN)
            if not (folder / files.TRAINED).exists():
                self.callbacks.step(f"{label}: training on {dataset.lines} rows")
            trained = await self.learner.train(agent, dataset, folder, seeds["train"])
            agent = trained or await self.learner.open(self.folders_before(number + 1))
            await agent.prepare()
        header = {"phase": self.name, "iteration": number, "episodes": len(episodes)}
        files.write_json(folder / files.METRICS, {**header, **metrics})
        return agent


@dataclass(frozen=True, kw_only=True)
class ProposerPhase(Phase):
    """Phase A (Algorithm 1): the proposer writes questions about drawn passages, compared within each hop count.

    scoring: solver, auxiliary and cache, which the environment scores with. Feedback of the selector (appendix F): the
    run score averages the proposer's and the solver's mean reward, each clipped to [0, 1]; for the solver, which is
    fixed in this phase, it is the share k / n of its correct searching answers over the valid questions.
    """

    name = "proposer"

    scoring: Mapping[str, Any] = field(default_factory=dict)

    def batch(self, number: int) -> Batch:
        """The passages of an iteration with hop counts and question types."""
        settings = self.passages.settings
        draws: list[tuple[str, int | None, str | None]]
        if settings.draw == "selector":
            selector = self._selector(number)
            choices = selector.draw(settings.batch)
            self._draws[number] = selector, choices
            draws = [(choice.document, choice.cluster, choice.task_type) for choice in choices]
        else:
            rng = random.Random(derive(settings.seed, "passages", number))
            draws = [(document, None, None) for document in rng.choices(self.passages.training, k=settings.batch)]
        hops = settings.draw_hops(settings.batch, derive(settings.seed, "hops", number))
        rows = [
            {"document": document, "hops": count, "cluster": cluster, "task_type": task_type}
            for (document, cluster, task_type), count in zip(draws, hops, strict=True)
        ]
        task_types = [task_type for _, _, task_type in draws if task_type is not None]
        env = self.passages.proposer_env([draw[0] for draw in draws], hops, task_types, **self.scoring)
        return Batch(env, range(len(rows)), 1, rows)

    def measure(self, number: int, episodes: Episodes) -> dict[str, Any]:
        """Metrics of an iteration; with the selector, also its feedback."""
        metrics = proposer_metrics(episodes)
        if self.passages.settings.draw != "selector":
            return metrics
        from factgym.training.eve.bandit import run_reward

        # A mean over no episode counts as 0.
        score = round(run_reward(metrics["reward"] or 0.0, metrics["solved"] or 0.0), 6)
        selector, choices = self._draws[number]
        rows = []
        for episode in episodes:
            values, choice = episode["reward"]["metrics"], choices[episode["index"]]
            if values.get("valid"):
                arms = {"cluster": choice.cluster, "task_type": choice.task_type}
                rows.append({"question": values["question"], "answer": values["answer"], **arms})
        selector.feedback(rows, score)
        selector.save(self.folder(number) / SELECTOR)
        metrics["selector"] = {
            "run_score": score,
            "round": selector.round,
            "clusters": len(selector.clusters),
            "drawn": len({choice.cluster for choice in choices}),
        }
        return metrics

    def _selector(self, number: int) -> Selector:
        """The selector before an iteration: its state after the previous one, or a new one."""
        from factgym.training.eve.selector import Selector, SelectorSettings

        ids, settings = self.passages.training, self.passages.settings
        if number > 1:
            return Selector.load(self.folder(number - 1) / SELECTOR, self._vectors, ids)
        constants = SelectorSettings.build("the selector", settings.selector)
        return Selector(self._vectors, ids, settings=constants, seed=derive(settings.seed, "selector"))

    @cached_property
    def _draws(self) -> dict[int, tuple[Selector, Sequence[Choice]]]:
        """Iteration -> its selector and the choices."""
        return {}

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        """Vectors of the training passages, by the encoder of a dense index where there is one."""
        from factgym.corpora.dense import shared_encoder
        from factgym.training.eve.clusters import corpus_embeddings

        options = self.passages.settings.index_options
        encoder_options = {name: options[name] for name in ("preset", "device", "batch_size") if name in options}
        encoder = shared_encoder(options["encoder"], **encoder_options) if "encoder" in options else None
        return corpus_embeddings(map(self.passages.corpus.get, self.passages.training), encoder)


@dataclass(frozen=True, kw_only=True)
class SolverPhase(Phase):
    """Phase B (Algorithm 2): the solver answers rows of its data set, several times each, compared within a row."""

    name = "solver"

    triples: Sequence[Triple]

    @cached_property
    def env(self) -> Env[Any]:
        """The environment over the whole data set."""
        return self.passages.solver_env(self.triples)

    def batch(self, number: int) -> Batch:
        """The rows of an iteration. Every row is drawn once before one is drawn again."""
        settings = self.passages.settings
        order = iteration_rows(number, len(self.triples), settings.rows, settings.seed)
        rows = [{"row": index, "id": self.triples[index].id, "hops": self.triples[index].hops} for index in order]
        return Batch(self.env, order, settings.group, rows)

    def measure(self, number: int, episodes: Episodes) -> dict[str, Any]:
        """Metrics of an iteration."""
        return solver_metrics(episodes)


def iteration_rows(number: int, total: int, batch: int, seed: int) -> list[int]:
    """Rows of iteration `number` (from 1) among `total`: the next `batch` of shuffled epochs, without repeats."""
    # Epochs follow each other without a gap; a batch that spans two may hold a row twice, and then plays it once.
    positions = range((number - 1) * batch, number * batch)
    epochs = {
        epoch: task_order(total, None, derive(seed, "pass", epoch))
        for epoch in {position // total for position in positions}
    }
    return list(dict.fromkeys(epochs[position // total][position % total] for position in positions))
