"""The benchmark: agents × data sets, each a run on disk that continues where it was stopped, each with its report.

The five data sets of the paper's evaluation and training are read from a folder; without one the generated claims of
`seva` are played, and the result says so. Data sets at hand need not be the paper's slices: see `paper.data`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.agents.agent import Agent
from factgym.agents.rollout.engine import Limits
from factgym.agents.rollout.jobs import Progress
from factgym.agents.runs.collect import collect
from factgym.benchmarks import sweep
from factgym.benchmarks.seva.report import SevaReport, evaluate_run
from factgym.benchmarks.sweep import agent_named, folder_name
from factgym.core.config import DATA_VARIABLE
from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.registry import make
from factgym.datasets.attribution import BENCHMARKS, benchmark_file

GENERATED = "generated"
"""The name, among the data sets, of the claims that need no data."""
GENERATED_TASKS = 200


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set to play on. path: its file; None for generated claims."""

    name: str
    env_id: str
    path: Path | None = None

    def env(self) -> Env[Any]:
        """The environment over it. Raises DataError for an unusable file."""
        return make(self.env_id) if self.path is None else make(self.env_id, path=str(self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to play.

    n: tasks of each data set, by default all of them, of generated ones 200. settings: of an agent that is a model.
    """

    data_sets: tuple[DataSet, ...]
    agents: tuple[str, ...]
    n: int | None = None
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One agent on one data set. seconds: playing and evaluating, on this machine, now."""

    data_set: str
    agent: str
    report: SevaReport
    seconds: float


def data_sets(folder: str | Path | None = None, only: Sequence[str] = ()) -> tuple[DataSet, ...]:
    """The data sets in a folder, by default the one that FACTGYM_DATA names; generated claims where there is none.

    A data set's file lies where the folder of all public data sets has it, or is named after it. only: names of
    data sets, `GENERATED` among them. Raises ConfigError for a folder that does not exist, a name that there is
    not, and for data sets that are asked for and missing; the message names each file.
    """
    known = (*BENCHMARKS, GENERATED)
    for name in only:
        if name not in known:
            raise ConfigError(
                f"there is no data set {name!r:.80}.{did_you_mean(name, known)} There are: {', '.join(known)}."
            )
    place = _folder(folder)
    generated = DataSet(GENERATED, "seva")
    if place is None:
        wanted = [name for name in only if name != GENERATED]
        if wanted:
            raise ConfigError(f"{', '.join(wanted)}: no data. Give its folder with --data, or set {DATA_VARIABLE}")
        return (generated,)
    names = only or tuple(BENCHMARKS)
    files = {name: benchmark_file(name, place) for name in names if name != GENERATED}
    missing = [f"{name} ({BENCHMARKS[name].files[0]} or {name}.jsonl)" for name, file in files.items() if file is None]
    if missing:
        there = [name for name, file in files.items() if file is not None]
        hint = f" or play what is there with {' '.join(f'--only {name}' for name in there)}" if there else ""
        raise ConfigError(
            f"{place} lacks {', '.join(missing)}: add what is missing,{hint or ' or name another folder'}"
        )
    found = [generated if name == GENERATED else DataSet(name, f"seva-{name}", files[name]) for name in names]
    return tuple(found)


def _folder(folder: str | Path | None) -> Path | None:
    named = folder if folder is not None else os.environ.get(DATA_VARIABLE) or None
    if named is None:
        return None
    place = Path(named)
    if not place.is_dir():
        said = "" if folder is not None else f" (from {DATA_VARIABLE})"
        raise ConfigError(f"{place}{said} is no folder: give one that holds the data sets with --data")
    return place


def baselines() -> tuple[str, ...]:
    """The scripted agents that are played by default."""
    return sweep.baselines("seva")


def chosen_agents(named: Sequence[str]) -> tuple[str, ...]:
    """The agents to play: the baselines where none is named, every scripted one for `EVERY_SCRIPT`; each once."""
    return sweep.chosen_agents("seva", named)


OnStart = Callable[[str, str, Progress], None]
"""Called with data set, agent and the counters of a run that begins."""


def ignore_start(data_set: str, agent: str, progress: Progress) -> None:
    """Watch nothing."""


def play_suite(plan: Plan, out: Path, *, on_start: OnStart = ignore_start) -> list[Result]:
    """Play every agent on every data set into `out/DATA_SET/AGENT`, continuing runs that are there, and evaluate each.

    Raises what `collect` and `evaluate_run` raise; what was finished is on disk.
    """
    # Everything is opened before the first episode is played: the last agent's typo must not cost an evening.
    worlds = [(one, one.env()) for one in plan.data_sets]
    agents = [
        (name, one, env, agent_named(name, one.env_id, plan.settings)) for one, env in worlds for name in plan.agents
    ]
    return [_play(plan, one, env, name, agent, out, on_start) for name, one, env, agent in agents]


def _play(
    plan: Plan,
    data_set: DataSet,
    env: Env[Any],
    name: str,
    agent: Agent,
    out: Path,
    on_start: OnStart,
) -> Result:
    started = time.perf_counter()
    n = plan.n or (GENERATED_TASKS if data_set.path is None else None)
    run = collect(
        env,
        agent,
        out / data_set.name / folder_name(name),
        n=n,
        seed=plan.seed,
        limits=plan.limits,
        resume=True,
        on_start=lambda progress: on_start(data_set.name, name, progress),
    )
    report = evaluate_run(run)
    return Result(data_set.name, name, report, time.perf_counter() - started)
