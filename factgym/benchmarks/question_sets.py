"""Benchmarks of questions: agents × sets of questions, each a run on disk that continues where it was stopped.

Questions come from a folder of public data, from one file, or from the generated world where there is no data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits
from factgym.agents.rollout.jobs import Progress
from factgym.agents.runs.collect import collect
from factgym.agents.runs.read import Run
from factgym.benchmarks import sweep
from factgym.benchmarks.sweep import agent_named, folder_name
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.registry import make

SYNTHETIC = "synthetic"
"""The name, among the sets of questions, of those that need no data."""
DATA_VARIABLE = "FACTGYM_DATA"

OnStart = Callable[[str, str, Progress], None]
"""Called with the questions' name, the agent and the counters of a run that begins."""


def ignore_start(name: str, agent: str, progress: Progress) -> None:
    """Watch nothing."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """One set of questions. source: of the environment. path: its file; None for generated questions."""

    name: str
    source: str = SYNTHETIC
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to play.

    n: questions of each set, by default all. settings: of an agent that is a model. env: settings of the environment.
    """

    sets: tuple[QuestionSet, ...]
    agents: tuple[str, ...]
    n: int | None = None
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One paper's benchmarks over one environment.

    known: every benchmark; paper: those that its tables have, which are looked for in a folder. find(benchmark,
    folder): its file there; raises DataError. file_names: benchmark -> names of files by which it is told. any_file:
    the environment's source for a file that is none of these, where it has one. defaults: settings of the environment.
    adapt(questions, settings): further ones that a set of questions asks for.
    """

    env: str
    known: Sequence[str]
    paper: Sequence[str]
    find: Callable[[str, Path], Path]
    file_names: Mapping[str, Sequence[str]]
    any_file: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    adapt: Callable[[QuestionSet, Mapping[str, Any]], Mapping[str, Any]] = lambda questions, settings: {}

    def open(self, questions: QuestionSet, settings: Mapping[str, Any]) -> Env[Any]:
        """The environment over a set of questions. Raises what `make` raises."""
        place = {} if questions.path is None else {"path": str(questions.path)}
        given = {**self.defaults, "source": questions.source, **place, **self.adapt(questions, settings), **settings}
        return make(self.env, **given)

    def baselines(self) -> tuple[str, ...]:
        """The scripted agents that are played by default."""
        return sweep.baselines(self.env)

    def chosen_agents(self, named: Sequence[str]) -> tuple[str, ...]:
        """The agents to play: the baselines where none is named, every scripted one for `scripted`; each once."""
        return sweep.chosen_agents(self.env, named)

    def question_sets(self, place: str | Path | None = None, only: Sequence[str] = ()) -> tuple[QuestionSet, ...]:
        """The sets of questions at a place, by default the folder that FACTGYM_DATA names; generated ones without one.

        place: a folder, in which the paper's benchmarks are looked for and those that are there are taken, or a file.
        only: names of benchmarks, `SYNTHETIC` among them. Raises ConfigError for a place that does not exist, a name
        that there is not, and for benchmarks that are asked for and missing.
        """
        known = (*self.known, SYNTHETIC)
        for name in only:
            if name not in known:
                raise ConfigError(
                    f"there is no benchmark {name!r:.80}.{did_you_mean(name, known)} There are: {', '.join(known)}."
                )
        found = _place(place)
        if found is None:
            wanted = [name for name in only if name != SYNTHETIC]
            if wanted:
                raise ConfigError(
                    f"{', '.join(wanted)}: no data. Give a file or folder with --data, or set {DATA_VARIABLE}"
                )
            return (QuestionSet(SYNTHETIC),)
        return (self._of_file(found, only),) if found.is_file() else tuple(self._in_folder(found, only))

    def _of_file(self, file: Path, only: Sequence[str]) -> QuestionSet:
        """A file under the name of its benchmark, where its own name tells one or `only` says it."""
        names = [name for name, files in self.file_names.items() if file.name in files]
        if len(only) > 1:
            raise ConfigError(f"{file} is one file: name one benchmark with --only, or give a folder")
        name = (only[0] if only else None) or (names[0] if len(names) == 1 else None)
        if name == SYNTHETIC:
            raise ConfigError("generated questions have no file: leave out --data")
        if name:
            return QuestionSet(name, name, file)
        if self.any_file is None:
            raise ConfigError(f"{file}: say whose questions these are with --only: {', '.join(self.known)}")
        return QuestionSet(file.stem, self.any_file, file)

    def _in_folder(self, folder: Path, only: Sequence[str]) -> list[QuestionSet]:
        found, missing = [], []
        for name in only or self.paper:
            if name == SYNTHETIC:
                found.append(QuestionSet(SYNTHETIC))
                continue
            try:
                found.append(QuestionSet(name, name, self.find(name, folder)))
            except DataError as error:
                missing.append(str(error))
        if not found or (only and missing):
            raise ConfigError(" ".join(missing))
        return found

    def play(self, plan: Plan, out: Path, *, on_start: OnStart = ignore_start) -> dict[str, list[Run]]:
        """Play every agent on every set into `out/SET/AGENT`, continuing runs that are there; the runs by agent.

        Raises what `collect` raises; what was finished is on disk.
        """
        # Everything is opened before the first episode is played: the last agent's typo must not cost an evening.
        worlds = [(one, self.open(one, plan.env)) for one in plan.sets]
        jobs = [
            (name, one, env, agent_named(name, self.env, plan.settings)) for name in plan.agents for one, env in worlds
        ]
        found: dict[str, list[Run]] = {}
        for name, one, env, agent in jobs:
            found.setdefault(name, []).append(_play(plan, one, env, name, agent, out, on_start))
        return found


def _place(place: str | Path | None) -> Path | None:
    named = place if place is not None else os.environ.get(DATA_VARIABLE) or None
    if named is None:
        return None
    found = Path(named)
    if not found.exists():
        said = "" if place is not None else f" (from {DATA_VARIABLE})"
        raise ConfigError(f"{found}{said} does not exist: give a file of questions, or a folder, with --data")
    return found


def _play(plan: Plan, one: QuestionSet, env: Env[Any], name: str, agent: Agent, out: Path, on_start: OnStart) -> Run:
    return collect(
        env,
        agent,
        out / one.name / folder_name(name),
        n=plan.n,
        seed=plan.seed,
        limits=plan.limits,
        resume=True,
        on_start=lambda progress: on_start(one.name, name, progress),
    )
