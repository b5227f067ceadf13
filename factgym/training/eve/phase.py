"""One phase, iteration by iteration: draw, play, hand the rows to a trainer, measure.

```
PHASE/iteration-T/manifest.json    what, seeds, who plays, fingerprints
                 /draw.jsonl       what is played: passages, hop counts, question types; or rows of the data set
                 /rollouts/        the episodes, a run as `factgym eval` writes it
                 /train.jsonl      a row for the trainer from each episode
                 /trained.json     written when training is over; model/ is what it left
                 /metrics.json     written last: the iteration is finished
```

Every file is whole or not there, so that a phase that was killed at any point goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs import ROLLOUTS
from factgym.agents.runs import artifacts as files
from factgym.agents.runs.read import read_run
from factgym.core.env import Env
from factgym.core.seeds import derive
from factgym.training.eve.learner import Learner
from factgym.training.eve.rows import Phase, scored, training_rows
from factgym.training.playing import UNWATCHED, Watch, play_run
from factgym.training.trainer import open_dataset

DRAW = "draw.jsonl"

Episodes = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Batch:
    """What an iteration plays: k episodes of each task in `order`. rows: the draw, for the disk."""

    env: Env[Any]
    order: Sequence[int]
    k: int
    rows: Sequence[Mapping[str, Any]]


class Course(Protocol):
    """What one phase does in its own way."""

    @property
    def phase(self) -> Phase:
        """Which one it is."""
        ...

    def batch(self, number: int) -> Batch:
        """What iteration `number` (from 1) plays; the same whenever it is asked."""
        ...

    def after(self, number: int, folder: Path, env: Env[Any], episodes: Episodes) -> dict[str, Any]:
        """What was measured, once the episodes are scored; also where feedback is given. May be asked again."""
        ...


@dataclass(frozen=True)
class Iterations:
    """The iterations of a phase on disk."""

    folder: Path
    learner: Learner
    course: Course
    seed: int
    limits: Limits | None = None
    watch: Watch = UNWATCHED

    def place(self, number: int) -> Path:
        """Where an iteration is."""
        return self.folder / f"iteration-{number}"

    def before(self, number: int) -> list[Path]:
        """Where the iterations before it are."""
        return [self.place(earlier) for earlier in range(1, number)]

    def finished(self, number: int) -> bool:
        """Whether an iteration is over."""
        return (self.place(number) / files.METRICS).exists()

    async def run(self, iterations: int) -> None:
        """Play the iterations that are not finished."""
        number = next((one for one in range(1, iterations + 1) if not self.finished(one)), None)
        if number is None:
            return
        agent = await self.learner.open(self.before(number))
        try:
            await agent.prepare()
            for one in range(number, iterations + 1):
                agent = await self._iteration(one, agent)
        finally:
            await agent.close()

    async def _iteration(self, number: int, agent: Agent) -> Agent:
        folder, name = self.place(number), f"{self.course.phase} {number}"
        batch = self.course.batch(number)
        files.begin(folder, self._manifest(number, batch.env), resume=True)
        files.write_once(folder / DRAW, batch.rows)
        self.watch.step(f"{name}: {len(batch.order) * batch.k} episodes")
        await play_run(
            name,
            batch.env,
            agent,
            batch.order,
            folder / ROLLOUTS,
            k=batch.k,
            seed=derive(self.seed, "play", number),
            limits=self.limits,
            watch=self.watch,
        )
        episodes = scored(read_run(folder / ROLLOUTS).episodes())
        files.write_once(folder / files.TRAIN, training_rows(episodes, self.course.phase, number))
        measured = self.course.after(number, folder, batch.env, episodes)
        agent = await self._trained(number, agent)
        about = {"phase": self.course.phase, "iteration": number, "episodes": len(episodes), **measured}
        files.write_json(folder / files.METRICS, about)
        return agent

    def _manifest(self, number: int, env: Env[Any]) -> dict[str, Any]:
        return {
            "what": f"factgym evolve eve, {self.course.phase}",
            "iteration": number,
            "seeds": {name: derive(self.seed, name, number) for name in ("play", "train")},
            "learner": self.learner.known(self.before(number)),
            "tasks": env.tasks.fingerprint(),
        }

    async def _trained(self, number: int, agent: Agent) -> Agent:
        """The agent that the next iteration plays with."""
        if not self.learner.learns:
            return agent
        folder = self.place(number)
        dataset = open_dataset(folder / files.TRAIN)
        if not (folder / files.TRAINED).exists():
            self.watch.step(f"{self.course.phase} {number}: training on {dataset.lines} rows")
        found = await self.learner.train(agent, dataset, folder, derive(self.seed, "train", number))
        found = found or await self.learner.open(self.before(number + 1))
        await found.prepare()
        return found
