"""EVE's two phases (section 3.4): the proposer learns against a fixed solver, writes a data set, and the solver learns.

```
OUT/manifest.json              what, settings, who plays, fingerprints
OUT/proposer/iteration-T/      Phase A: drawn passages, scored rollouts, HRPO advantages, the proposer after it
OUT/data/                      the frozen proposer's data set, from passages that it was not trained on
OUT/solver/iteration-T/        Phase B: groups of episodes over rows of the data set, GRPO advantages, the solver after it
OUT/summary.json               what every part amounts to
```

`phase.py` and `dataset.py` say what is in each folder. An evolution that was killed at any point goes on where it was,
and ends as one that was not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs import EVE_EVOLUTION, EVOLUTION_DATA, ROLLOUTS, TRIPLES
from factgym.agents.runs import artifacts as files
from factgym.agents.runs.read import read_run
from factgym.benchmarks.eve.evolution import summary_of
from factgym.core.errors import ConfigError
from factgym.core.seeds import derive
from factgym.datasets.multihop import Triple, read_triples
from factgym.training.eve.dataset import write_triples
from factgym.training.eve.learner import Learner
from factgym.training.eve.material import Material, open_material
from factgym.training.eve.phase import Iterations
from factgym.training.eve.proposing import Proposing
from factgym.training.eve.settings import EveSettings
from factgym.training.eve.solving import Solving
from factgym.training.playing import UNWATCHED, Watch, play_run

VERSION = 1
SUMMARY = "summary.json"


@dataclass(frozen=True)
class EveEvolution:
    """An evolution on disk.

    proposer, solver: who learns. scoring: what `eve-proposer` scores proposals with, as it takes it: "solver" (the
    solver as it begins, for it is fixed through Phase A) and "auxiliary" as text, their settings, "cache".
    """

    out: Path
    settings: EveSettings
    proposer: Learner
    solver: Learner
    scoring: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None
    watch: Watch = UNWATCHED

    def run(self, proposer_iterations: int, solver_iterations: int, *, resume: bool = False) -> None:
        """`run_async`, from a thread without a running event loop."""
        asyncio.run(self.run_async(proposer_iterations, solver_iterations, resume=resume))

    async def run_async(self, proposer_iterations: int, solver_iterations: int, *, resume: bool = False) -> None:
        """Both phases and the data set between them; what is finished is not done again.

        resume: go on in the folder, where something is there. More iterations of the solver on a later call continue;
        more of the proposer do so until the data set is begun. Raises ConfigError, DataError, PlayError and what a
        trainer raises; what was finished is kept.
        """
        if proposer_iterations < 1 or solver_iterations < 0:
            raise ConfigError("Phase A has at least one iteration, and Phase B none or more")
        with files.owned(self.out):
            files.begin(self.out, await self._manifest(), resume=resume)
            self._check_frozen(proposer_iterations)
            try:
                await self._phase_a.run(proposer_iterations)
                await self._written(proposer_iterations)
                if solver_iterations:
                    await self._phase_b().run(solver_iterations)
            finally:
                files.write_json(self.out / SUMMARY, summary_of(self.out))

    @cached_property
    def material(self) -> Material:
        """The passages, in their two shards."""
        return open_material(self.settings)

    def triples(self) -> Sequence[Triple]:
        """The solver's data set. Raises ConfigError where no row was kept, DataError where it is not there."""
        folder = self.out / EVOLUTION_DATA
        if not files.read_json(folder / files.METRICS)["rows"]:
            raise ConfigError(
                f"the proposer wrote no valid row (see {folder}): give more passages, samples or iterations"
            )
        return read_triples("triples", folder / TRIPLES)

    async def _manifest(self) -> dict[str, Any]:
        return {
            "what": EVE_EVOLUTION,
            "version": VERSION,
            "factgym": factgym.__version__,
            "settings": self.settings.describe(),
            "proposer": await self.proposer.describe(),
            "solver": await self.solver.describe(),
            "scoring": {name: value for name, value in self.scoring.items() if name != "cache"},
            "fingerprints": self.material.describe(),
        }

    def _check_frozen(self, iterations: int) -> None:
        path = self.out / EVOLUTION_DATA / files.MANIFEST
        if path.exists() and (wrote := files.read_json(path)["proposer_iterations"]) != iterations:
            raise ConfigError(
                f"the data set in {path.parent} was written after {wrote} iterations of the proposer, not {iterations}: "
                "repeat that number, or choose another folder"
            )

    @cached_property
    def _phase_a(self) -> Iterations:
        course = Proposing(self.out / "proposer", self.material, self.scoring)
        seed = derive(self.settings.seed, "proposer")
        return Iterations(course.folder, self.proposer, course, seed, self.limits, self.watch)

    def _phase_b(self) -> Iterations:
        triples = self.triples()
        course = Solving(self.material, triples, self.material.solver_env(triples))
        seed = derive(self.settings.seed, "solver")
        return Iterations(self.out / "solver", self.solver, course, seed, self.limits, self.watch)

    async def _written(self, iterations: int) -> None:
        folder = self.out / EVOLUTION_DATA
        if (folder / files.METRICS).exists():
            return
        own = self.settings
        prompts = self.material.prompts()
        hops = own.drawn_hops(len(prompts), derive(own.seed, "data hops"))
        env = self.material.proposer_env(prompts, hops, **self.scoring)
        before = self._phase_a.before(iterations + 1)
        seed = derive(own.seed, "data")
        about = {
            "what": f"{EVE_EVOLUTION}, data set",
            "proposer_iterations": iterations,
            "seed": seed,
            "proposer": self.proposer.known(before),
            "tasks": env.tasks.fingerprint(),
        }
        files.begin(folder, about, resume=True)
        self.watch.step(f"data: {own.samples} rollouts of each of {len(prompts)} held-out passages")
        agent = await self.proposer.open(before)
        try:
            await agent.prepare()
            await play_run(
                EVOLUTION_DATA,
                env,
                agent,
                range(len(prompts)),
                folder / ROLLOUTS,
                k=own.samples,
                seed=seed,
                limits=self.limits,
                watch=self.watch,
            )
        finally:
            await agent.close()
        episodes = read_run(folder / ROLLOUTS).episodes()
        found = write_triples(folder, episodes, self.material.corpus, own.min_value)
        files.write_json(folder / files.METRICS, {"prompts": len(prompts), **found})
