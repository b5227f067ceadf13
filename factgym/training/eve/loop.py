"""EVE's two phases (section 3.4): the proposer learns against a fixed solver, writes a data set, and the solver learns.

`docs/guides/evolve.md` lists the files. An iteration draws tasks, collects rollouts, hands the rows to a trainer and
measures; its `metrics.json` is written last. Passages of the data set are held out from the proposer's training. Every
file is written whole, so an evolution that was killed at any point continues where it stopped, and ends with the same
files."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

import factgym
from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits
from factgym.agents.rollout.jobs import task_order
from factgym.agents.runs import files
from factgym.agents.runs.files import EVE_EVOLUTION, EVOLUTION_DATA, ROLLOUTS, TRIPLES
from factgym.agents.runs.read import read_run
from factgym.benchmarks.eve.evolution import summary_of
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.registry import make
from factgym.core.seeds import derive
from factgym.corpora.dense import shared_encoder
from factgym.datasets.multihop import Triple, read_triples
from factgym.training.eve.rollouts import (
    Episodes,
    PhaseName,
    proposer_metrics,
    scored,
    solver_metrics,
    training_rows,
    write_triples,
)
from factgym.training.eve.selector import Selector, SelectorSettings, corpus_embeddings, run_reward
from factgym.training.eve.settings import EveSettings, PassageSplits, open_passages
from factgym.training.eve.trainers import Learner
from factgym.training.rollouts import SILENT, Callbacks, collect_rollouts
from factgym.training.trainer import open_dataset

VERSION = 1
DRAW, SELECTOR, SUMMARY = "draw.jsonl", "selector.json", "summary.json"


@dataclass(frozen=True)
class EveEvolution:
    """An evolution on disk.

    proposer, solver: the policies under training. scoring: options of `eve-proposer` that score proposals: "solver"
    (the initial solver, for it is fixed through Phase A) and "auxiliary" as text, their settings, "cache". earlier: the
    rounds before, whose policies and selector this one goes on with.
    """

    out: Path
    settings: EveSettings
    proposer: Learner
    solver: Learner
    scoring: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None
    callbacks: Callbacks = SILENT
    earlier: tuple[EveEvolution, ...] = ()

    def run(self, proposer_iterations: int, solver_iterations: int, *, resume: bool = False) -> None:
        """`run_async`, from a thread without a running event loop."""
        asyncio.run(self.run_async(proposer_iterations, solver_iterations, resume=resume))

    async def run_async(self, proposer_iterations: int, solver_iterations: int, *, resume: bool = False) -> None:
        """Run both phases and the data set between them; finished parts are not repeated.

        resume: continue in a folder that is not empty. More iterations of the solver on a later call continue; more of
        the proposer do so until the data set is begun. Raises ConfigError, DataError, RolloutError and errors of a
        trainer; finished parts stay on disk.
        """
        if proposer_iterations < 1 or solver_iterations < 0:
            raise ConfigError("Phase A has at least one iteration, and Phase B none or more")
        with files.locked_folder(self.out):
            manifest = {
                "what": EVE_EVOLUTION,
                "version": VERSION,
                "factgym": factgym.__version__,
                "settings": self.settings.describe(),
                "proposer": await self.proposer.describe(),
                "solver": await self.solver.describe(),
                "scoring": {
                    # An agent by its description.
                    name: {"agent": value.name, **value.describe()} if isinstance(value, Agent) else value
                    for name, value in self.scoring.items()
                    if name != "cache"
                },
                "fingerprints": self.passages.describe(),
            }
            files.open_folder(self.out, manifest, resume=resume)
            # A proposer that has begun to write the data set is not trained further.
            path = self.out / EVOLUTION_DATA / files.MANIFEST
            if path.exists() and (written := files.read_json(path)["proposer_iterations"]) != proposer_iterations:
                raise ConfigError(
                    f"the data set in {path.parent} was written after {written} iterations of the proposer, not "
                    f"{proposer_iterations}: repeat that number, or choose another folder"
                )
            phase = ProposerPhase(self, self.proposer)
            try:
                await phase.run(proposer_iterations)
                await self._write_dataset(proposer_iterations, phase.folders_before(proposer_iterations + 1))
                if solver_iterations:
                    await SolverPhase(self, self.solver).run(solver_iterations)
            finally:
                files.write_json(self.out / SUMMARY, summary_of(self.out))

    @cached_property
    def passages(self) -> PassageSplits:
        """The passages in their two splits, which are the same in every round."""
        return self.earlier[0].passages if self.earlier else open_passages(self.settings)

    @property
    def seed(self) -> int:
        """Seed of the draws of this round; the splits have that of the settings in every round."""
        return derive(self.settings.seed, "round", len(self.earlier)) if self.earlier else self.settings.seed

    def finished(self, phase: PhaseName) -> list[Path]:
        """The folders of the finished iterations of a phase, in order."""
        numbers = takewhile(lambda number: (self.folder(phase, number) / files.METRICS).exists(), count(1))
        return [self.folder(phase, number) for number in numbers]

    def folder(self, phase: PhaseName, number: int) -> Path:
        """Folder of an iteration of a phase, from 1."""
        return self.out / phase / f"iteration-{number}"

    def triples(self) -> Sequence[Triple]:
        """The solver's data set. Raises ConfigError for an empty data set, DataError for a missing file."""
        folder = self.out / EVOLUTION_DATA
        if not files.read_json(folder / files.METRICS)["rows"]:
            raise ConfigError(
                f"the proposer wrote no valid row (see {folder}): give more passages, samples or iterations"
            )
        return read_triples("triples", folder / TRIPLES)

    async def collect(self, name: str, batch: Batch, agent: Agent, folder: Path, seed: int) -> None:
        """Collect the episodes of a batch into the run of `folder`."""
        run = folder / ROLLOUTS
        options: dict[str, Any] = {"seed": seed, "limits": self.limits, "callbacks": self.callbacks}
        await collect_rollouts(name, batch.env, agent, batch.order, run, k=batch.k, **options)

    async def _write_dataset(self, iterations: int, finished: list[Path]) -> None:
        """Roll the frozen proposer out over the held-out passages and write the solver's data set."""
        folder, settings = self.out / EVOLUTION_DATA, self.settings
        if (folder / files.METRICS).exists():
            return
        prompts = self.passages.prompts(self.seed)
        hops = settings.draw_hops(len(prompts), derive(self.seed, "data hops"))
        env = self.passages.proposer_env(prompts, hops, **self.scoring)
        seed = derive(self.seed, "data")
        manifest = {
            "what": f"{EVE_EVOLUTION}, data set",
            "proposer_iterations": iterations,
            "seed": seed,
            "proposer": self.proposer.identity(finished),
            "tasks": env.tasks.fingerprint(),
        }
        files.open_folder(folder, manifest, resume=True)
        self.callbacks.step(f"data: {settings.samples} rollouts of each of {len(prompts)} held-out passages")
        agent = await self.proposer.open(finished)
        try:
            await agent.prepare()
            await self.collect(EVOLUTION_DATA, Batch(env, range(len(prompts)), settings.samples), agent, folder, seed)
        finally:
            await agent.close()
        episodes = read_run(folder / ROLLOUTS).episodes()
        metrics = write_triples(folder, episodes, self.passages.corpus, settings.min_value, settings.select)
        files.write_json(folder / files.METRICS, {"prompts": len(prompts), **metrics})


@dataclass(frozen=True)
class Batch:
    """The tasks of an iteration: k episodes of each in `order`. rows: the draw, for the disk."""

    env: Env[Any]
    order: Sequence[int]
    k: int
    rows: Sequence[Mapping[str, Any]] = ()


class Phase(ABC):
    """The iterations of a phase on disk, each in a folder of its own."""

    name: ClassVar[PhaseName]

    def __init__(self, evolution: EveEvolution, learner: Learner) -> None:
        self.evolution, self.learner = evolution, learner
        self.settings, self.passages = evolution.settings, evolution.passages

    @abstractmethod
    def batch(self, number: int) -> Batch:
        """The tasks of iteration `number` (from 1); the same for every call."""

    @abstractmethod
    def measure(self, number: int, batch: Batch, episodes: Episodes) -> dict[str, Any]:
        """Metrics of the scored episodes; also gives feedback. May be called again after a kill."""

    def folder(self, number: int) -> Path:
        """Folder of an iteration, from 1."""
        return self.evolution.folder(self.name, number)

    def folders_before(self, number: int) -> list[Path]:
        """Folders of the earlier iterations, those of earlier rounds first."""
        return [*folders_of(self.name, self.evolution.earlier), *(self.folder(earlier) for earlier in range(1, number))]

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
        folder, label, step = self.folder(number), f"{self.name} {number}", self.evolution.callbacks.step
        batch = self.batch(number)
        seed = derive(self.evolution.seed, self.name)
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
        step(f"{label}: {len(batch.order) * batch.k} episodes")
        await self.evolution.collect(label, batch, agent, folder, seeds["play"])
        episodes = scored(read_run(folder / ROLLOUTS).episodes())
        files.write_once(folder / files.TRAIN, training_rows(episodes, self.name, number))
        metrics = self.measure(number, batch, episodes)
        if self.learner.learns:
            dataset = open_dataset(folder / files.TRAIN)
            if not (folder / files.TRAINED).exists():
                step(f"{label}: training on {dataset.lines} rows")
            trained = await self.learner.train(agent, dataset, folder, seeds["train"])
            agent = trained or await self.learner.open(self.folders_before(number + 1))
            await agent.prepare()
        header = {"phase": self.name, "iteration": number, "episodes": len(episodes)}
        files.write_json(folder / files.METRICS, {**header, **metrics})
        return agent


class ProposerPhase(Phase):
    """Phase A (Algorithm 1): the proposer writes questions about drawn passages, compared within each hop count.

    Feedback of the selector (appendix F): the run score averages the proposer's and the solver's mean reward, each
    clipped to [0, 1]; for the solver, which is fixed in this phase, it is the share k / n of its correct searching
    answers over the valid questions.
    """

    name = "proposer"

    _selector: Selector | None = None
    """The selector of the present iteration, when there is one."""

    def batch(self, number: int) -> Batch:
        """The passages of an iteration with hop counts and question types."""
        settings = self.settings
        draws: list[tuple[str, int | None, str | None]]
        if settings.draw == "selector":
            # Its state after the previous iteration, or a new one.
            if before := self.folders_before(number):
                self._selector = Selector.load(before[-1] / SELECTOR, self._vectors, self.passages.training)
            else:
                constants = SelectorSettings.build("the selector", settings.selector)
                seed = derive(settings.seed, "selector")
                self._selector = Selector(self._vectors, self.passages.training, settings=constants, seed=seed)
            draws = [*self._selector.draw(settings.batch)]
        else:
            rng = random.Random(derive(self.evolution.seed, "passages", number))
            draws = [(document, None, None) for document in rng.choices(self.passages.training, k=settings.batch)]
        hops = settings.draw_hops(settings.batch, derive(self.evolution.seed, "hops", number))
        rows = [
            {"document": document, "hops": count, "cluster": cluster, "task_type": task_type}
            for (document, cluster, task_type), count in zip(draws, hops, strict=True)
        ]
        documents, task_types = [draw[0] for draw in draws], [draw[2] for draw in draws if draw[2] is not None]
        env = self.passages.proposer_env(documents, hops, task_types, **self.evolution.scoring)
        return Batch(env, range(len(rows)), 1, rows)

    def measure(self, number: int, batch: Batch, episodes: Episodes) -> dict[str, Any]:
        """Metrics of an iteration; with the selector, also its feedback."""
        metrics = proposer_metrics(episodes)
        selector = self._selector
        if selector is None:
            return metrics
        # A mean over no episode counts as 0.
        score = round(run_reward(metrics["reward"] or 0.0, metrics["solved"] or 0.0), 6)
        rows = []
        for episode in episodes:
            values = episode["reward"]["metrics"]
            if values.get("valid"):
                proposal = {"question": values["question"], "answer": values["answer"]}
                rows.append({**batch.rows[episode["index"]], **proposal})
        selector.feedback(rows, score)
        selector.save(self.folder(number) / SELECTOR)
        metrics["selector"] = {
            "run_score": score,
            "round": selector.round,
            "clusters": len(selector.clusters),
            "drawn": len({row["cluster"] for row in batch.rows}),
        }
        return metrics

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        """Vectors of the training passages, by the encoder of a dense index where there is one."""
        options = self.settings.index_options
        encoder_options = {name: options[name] for name in ("preset", "device", "batch_size") if name in options}
        encoder = shared_encoder(options["encoder"], **encoder_options) if "encoder" in options else None
        return corpus_embeddings(map(self.passages.corpus.get, self.passages.training), encoder)


class SolverPhase(Phase):
    """Phase B (Algorithm 2): the solver answers rows of its data set, several times each, compared within a row."""

    name = "solver"

    def __init__(self, evolution: EveEvolution, learner: Learner) -> None:
        super().__init__(evolution, learner)
        self.triples = evolution.triples()
        self.env = self.passages.solver_env(self.triples)

    def batch(self, number: int) -> Batch:
        """The rows of an iteration. Every row is drawn once before one is drawn again."""
        settings = self.settings
        order = iteration_rows(number, len(self.triples), settings.rows, self.evolution.seed)
        rows = [{"row": index, "id": self.triples[index].id, "hops": self.triples[index].hops} for index in order]
        return Batch(self.env, order, settings.group, rows)

    def measure(self, number: int, batch: Batch, episodes: Episodes) -> dict[str, Any]:
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


# Rounds: proposer and solver of a round begin the next one, over the same two splits of the passages.
#
#     round-0/test    the initial solver's answers to held-out questions
#     round-1/…       the phases of a round, as an evolution of one round leaves them; test: its solver's answers
#     rounds.json     the measures of every round
#
# Held-out questions are those of the test split of a generated world: no name of theirs is in a passage of the evolution.

EVE_ROUNDS = "factgym evolve eve, rounds"
ROUNDS, TEST = "rounds.json", "test"
TEST_SAMPLES = 2
"""Answers to each held-out question."""


@dataclass(frozen=True)
class EveRounds:
    """Rounds of an evolution on disk. test: held-out questions that the solver answers before and after every round.

    The other arguments are those of `EveEvolution`; "solver" in `scoring` is the solver of round 1. Raises ConfigError for
    held-out questions beside passages that are not generated.
    """

    out: Path
    settings: EveSettings
    proposer: Learner
    solver: Learner
    scoring: Mapping[str, Any] = field(default_factory=dict)
    test: int = 0
    limits: Limits | None = None
    callbacks: Callbacks = SILENT

    def __post_init__(self) -> None:
        if self.test and self.settings.passages is not None:
            raise ConfigError("held-out questions are those of a generated world: leave passages or the test out")

    def run(self, rounds: int, proposer_iterations: int, solver_iterations: int, *, resume: bool = False) -> None:
        """`run_async`, from a thread without a running event loop."""
        asyncio.run(self.run_async(rounds, proposer_iterations, solver_iterations, resume=resume))

    async def run_async(
        self, rounds: int, proposer_iterations: int, solver_iterations: int, *, resume: bool = False
    ) -> None:
        """Run rounds, each with so many iterations of both phases; finished parts are not repeated.

        resume: continue in a folder that is not empty, also with more rounds than before. Raises as `EveEvolution` does.
        """
        if rounds < 1:
            raise ConfigError(f"an evolution has at least one round, not {rounds}")
        with files.locked_folder(self.out):
            manifest = {
                "what": EVE_ROUNDS,
                "version": VERSION,
                "factgym": factgym.__version__,
                "settings": self.settings.describe(),
                "iterations": [proposer_iterations, solver_iterations],
                "test": self.test,
                "proposer": await self.proposer.describe(),
                "solver": await self.solver.describe(),
            }
            files.open_folder(self.out, manifest, resume=resume)
            results = [await self._measure(0, [])]
            earlier: list[EveEvolution] = []
            for number in range(1, rounds + 1):
                self.callbacks.step(f"round {number}")
                scoring = self.scoring
                if earlier:  # the solver that the round before left
                    solver = await self.solver.open(folders_of("solver", earlier))
                    scoring = {**self.scoring, "solver": solver, "solver_settings": None}
                evolution = EveEvolution(
                    self.out / f"round-{number}",
                    self.settings,
                    self.proposer,
                    self.solver,
                    scoring,
                    self.limits,
                    self.callbacks,
                    tuple(earlier),
                )
                try:
                    await evolution.run_async(proposer_iterations, solver_iterations, resume=True)
                finally:
                    if earlier:
                        await solver.close()
                earlier.append(evolution)
                summary = summary_of(evolution.out)
                last = {phase: (summary[phase] or [None])[-1] for phase in get_args(PhaseName)}
                results.append({**last, "data": summary["data"], **await self._measure(number, earlier)})
                files.write_json(self.out / ROUNDS, {"rounds": results})

    async def _measure(self, number: int, finished: list[EveEvolution]) -> dict[str, Any]:
        """The solver's measures on held-out questions after a round; 0: before the first."""
        folder = self.out / f"round-{number}" / TEST
        result = {"round": number}
        if not self.test:
            return result
        if not (folder / files.METRICS).exists():
            settings = self.settings
            generated = {"world": settings.world, "split": "test", "size": self.test, "seed": settings.seed}
            rewarded = {} if settings.solver_reward is None else {"reward": settings.solver_reward}
            env = make("eve-solver", **{**settings.env_options, **generated, **rewarded})
            self.callbacks.step(f"round {number}: {self.test} held-out questions")
            agent = await self.solver.open(folders_of("solver", finished))
            try:
                await agent.prepare()
                play = partial(collect_rollouts, TEST, env, agent, range(self.test), folder / files.ROLLOUTS)
                seed = derive(settings.seed, TEST)
                await play(seed=seed, k=TEST_SAMPLES, limits=self.limits, callbacks=self.callbacks)
            finally:
                await agent.close()
            episodes = scored(read_run(folder / files.ROLLOUTS).episodes())
            files.write_json(folder / files.METRICS, solver_metrics(episodes))
        return {**result, TEST: files.read_json(folder / files.METRICS)}


def folders_of(phase: PhaseName, rounds: Iterable[EveEvolution]) -> list[Path]:
    """The folders of a phase's finished iterations in rounds, in order."""
    return [folder for evolution in rounds for folder in evolution.finished(phase)]
