"""EVE's two phases (section 3.4): the proposer learns against a fixed solver, writes a data set, and the solver learns.

`docs/guides/evolve.md` lists the files. Passages of the data set are held out from the proposer's training. An evolution
that was killed at any point continues where it stopped, and ends with the same files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs import files
from factgym.agents.runs.files import EVE_EVOLUTION, EVOLUTION_DATA, ROLLOUTS, TRIPLES
from factgym.agents.runs.read import read_run
from factgym.benchmarks.eve.evolution import summary_of
from factgym.core.errors import ConfigError
from factgym.core.seeds import derive
from factgym.datasets.multihop import Triple, read_triples
from factgym.training.eve.phases import ProposerPhase, SolverPhase
from factgym.training.eve.rollouts import write_triples
from factgym.training.eve.settings import EveSettings, PassageSplits, open_passages
from factgym.training.eve.trainers import Learner
from factgym.training.rollouts import SILENT, Callbacks, collect_rollouts

VERSION = 1
SUMMARY = "summary.json"


@dataclass(frozen=True)
class EveEvolution:
    """An evolution on disk.

    proposer, solver: the policies under training. scoring: options of `eve-proposer` that score proposals: "solver"
    (the initial solver, for it is fixed through Phase A) and "auxiliary" as text, their settings, "cache".
    """

    out: Path
    settings: EveSettings
    proposer: Learner
    solver: Learner
    scoring: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None
    callbacks: Callbacks = SILENT

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
                "scoring": {name: value for name, value in self.scoring.items() if name != "cache"},
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
            parts: dict[str, Any] = {"out": self.out, "passages": self.passages}
            parts |= {"limits": self.limits, "callbacks": self.callbacks}
            proposer_phase = ProposerPhase(learner=self.proposer, scoring=self.scoring, **parts)
            try:
                await proposer_phase.run(proposer_iterations)
                await self._write_dataset(proposer_iterations, proposer_phase.folders_before(proposer_iterations + 1))
                if solver_iterations:
                    await SolverPhase(learner=self.solver, triples=self.triples(), **parts).run(solver_iterations)
            finally:
                files.write_json(self.out / SUMMARY, summary_of(self.out))

    @cached_property
    def passages(self) -> PassageSplits:
        """The passages in their two splits."""
        return open_passages(self.settings)

    def triples(self) -> Sequence[Triple]:
        """The solver's data set. Raises ConfigError for an empty one, DataError for a missing one."""
        folder = self.out / EVOLUTION_DATA
        if not files.read_json(folder / files.METRICS)["rows"]:
            raise ConfigError(
                f"the proposer wrote no valid row (see {folder}): give more passages, samples or iterations"
            )
        return read_triples("triples", folder / TRIPLES)

    async def _write_dataset(self, iterations: int, finished: list[Path]) -> None:
        """Roll the frozen proposer out over the held-out passages and write the solver's data set."""
        folder, settings = self.out / EVOLUTION_DATA, self.settings
        if (folder / files.METRICS).exists():
            return
        prompts = self.passages.prompts()
        hops = settings.draw_hops(len(prompts), derive(settings.seed, "data hops"))
        env = self.passages.proposer_env(prompts, hops, **self.scoring)
        seed = derive(settings.seed, "data")
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
            await collect_rollouts(
                EVOLUTION_DATA,
                env,
                agent,
                range(len(prompts)),
                folder / ROLLOUTS,
                k=settings.samples,
                seed=seed,
                limits=self.limits,
                callbacks=self.callbacks,
            )
        finally:
            await agent.close()
        episodes = read_run(folder / ROLLOUTS).episodes()
        metrics = write_triples(folder, episodes, self.passages.corpus, settings.min_value)
        files.write_json(folder / files.METRICS, {"prompts": len(prompts), **metrics})
