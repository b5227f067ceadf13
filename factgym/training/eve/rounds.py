"""Rounds of EVE's two phases: proposer and solver of a round begin the next one, over the same two splits of the passages.

    round-0/test    the initial solver's answers to held-out questions
    round-1/…       the phases of a round, as an evolution of one round leaves them; test: its solver's answers
    rounds.json     the measures of every round

Held-out questions are those of the test split of a generated world: no name of theirs is in a passage of the evolution."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs import files
from factgym.agents.runs.read import read_run
from factgym.benchmarks.eve.evolution import summary_of
from factgym.core.errors import ConfigError
from factgym.core.registry import make
from factgym.core.seeds import derive
from factgym.training.eve.loop import EveEvolution, Phase, ProposerPhase, SolverPhase
from factgym.training.eve.rollouts import scored, solver_metrics
from factgym.training.eve.settings import EveSettings
from factgym.training.eve.trainers import Learner
from factgym.training.rollouts import SILENT, Callbacks, collect_rollouts

VERSION = 1
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
                evolution = EveEvolution(
                    self.out / f"round-{number}",
                    self.settings,
                    self.proposer,
                    self.solver,
                    await self._scoring(earlier),
                    self.limits,
                    self.callbacks,
                    tuple(earlier),
                )
                try:
                    await evolution.run_async(proposer_iterations, solver_iterations, resume=True)
                finally:
                    if earlier:
                        await evolution.scoring["solver"].close()
                earlier.append(evolution)
                results.append({**_last(evolution.out), **await self._measure(number, earlier)})
                files.write_json(self.out / ROUNDS, {"rounds": results})

    async def _scoring(self, earlier: list[EveEvolution]) -> Mapping[str, Any]:
        """The options that score proposals; the solver is the one that the round before left."""
        if not earlier:
            return self.scoring
        return {
            **self.scoring,
            "solver": await self.solver.open(_folders(SolverPhase, earlier)),
            "solver_settings": None,
        }

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
            agent = await self.solver.open(_folders(SolverPhase, finished))
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


def _folders(phase: type[Phase], evolutions: list[EveEvolution]) -> list[Path]:
    """The folders of a phase's iterations in finished rounds, in order."""
    return [folder for evolution in evolutions for folder in evolution.finished(phase.name)]


def _last(out: Path) -> dict[str, Any]:
    """The measures of a round: of the last iteration of either phase, and of the data set."""
    summary = summary_of(out)
    return {
        **{phase.name: (summary[phase.name] or [None])[-1] for phase in (ProposerPhase, SolverPhase)},
        "data": summary["data"],
    }
