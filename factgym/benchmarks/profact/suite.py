"""The benchmark: agents on AVeriTeC's claims or on generated ones, each a run on disk that goes on where it stopped."""

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
from factgym.benchmarks.profact.report import ProFactReport, evaluate_run
from factgym.benchmarks.sweep import agent_named, folder_name
from factgym.core.config import DATA_VARIABLE
from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.registry import make

ENV = "profact"
GENERATED, AVERITEC = "generated", "averitec"
"""The two data sets, by the names that `--only` takes."""
GENERATED_TASKS = 100


@dataclass(frozen=True, slots=True)
class DataSet:
    """What is played on. path: a file or folder in AVeriTeC's layout, None for generated claims. split: its name."""

    name: str
    path: Path | None = None
    split: str = "dev"

    def env(self, settings: Mapping[str, Any] | None = None) -> Env[Any]:
        """The environment over it. Raises ConfigError for a missing path, DataError for an unusable file."""
        if self.path is None:
            return make(ENV, **(settings or {}))
        return make(ENV, **{"source": AVERITEC, "path": str(self.path), "split": self.split, **(settings or {})})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to play.

    n: claims, by default all of a file, of generated ones 100. settings: of an agent that is a model. env_settings: of
    the environment, such as store or index.
    """

    data_set: DataSet
    agents: tuple[str, ...]
    n: int | None = None
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One agent. seconds: playing and evaluating, on this machine, now."""

    data_set: str
    agent: str
    report: ProFactReport
    seconds: float


def data_set(
    path: str | Path | None = None, only: Sequence[str] = (), env_settings: Mapping[str, Any] | None = None
) -> DataSet:
    """The claims to play on: of `path`, else of the folder that FACTGYM_DATA names, else generated ones.

    A file is a split of its own name; of a folder the split is `env_settings["split"]`, or dev. only: `GENERATED` or
    `AVERITEC`. Raises ConfigError for other names, and where AVeriTeC is asked for and there is no path.
    """
    for name in only:
        if name not in (GENERATED, AVERITEC):
            raise ConfigError(
                f"there is no data set {name!r:.80}.{did_you_mean(name, (GENERATED, AVERITEC))} "
                f"There are: {GENERATED}, {AVERITEC}."
            )
    if len(set(only)) > 1:
        raise ConfigError("one data set at a time: give --only once")
    named = Path(path) if path is not None else _from_variable()
    if GENERATED in only or (named is None and AVERITEC not in only):
        if path is not None:
            raise ConfigError(f"--only {GENERATED} plays no file: leave out the path")
        return DataSet(GENERATED, None, str((env_settings or {}).get("split", "dev")))
    if named is None:
        raise ConfigError(f"no claims: give AVeriTeC's dev.json with --path, or set {DATA_VARIABLE}")
    split = (env_settings or {}).get("split") or (named.stem if named.is_file() else "dev")
    return DataSet(AVERITEC, named, str(split))


def _from_variable() -> Path | None:
    """The folder that FACTGYM_DATA names, where it holds AVeriTeC."""
    named = os.environ.get(DATA_VARIABLE)
    folder = Path(named) if named else None
    return folder if folder is not None and (folder / "averitec" / "dev.json").is_file() else None


def baselines() -> tuple[str, ...]:
    """The scripted agents that are played by default."""
    return sweep.baselines(ENV)


def chosen_agents(named: Sequence[str]) -> tuple[str, ...]:
    """The agents to play: the baselines where none is named, every scripted one for `EVERY_SCRIPT`; each once."""
    return sweep.chosen_agents(ENV, named)


OnStart = Callable[[str, Progress], None]
"""Called with the agent and the counters of a run that begins."""


def ignore_start(agent: str, progress: Progress) -> None:
    """Watch nothing."""


def play_suite(plan: Plan, out: Path, *, on_start: OnStart = ignore_start) -> list[Result]:
    """Play every agent into `out/DATA_SET/AGENT`, continuing runs that are there, and evaluate each.

    Raises what `collect` and `evaluate_run` raise; what was finished is on disk.
    """
    # Everything is opened before the first episode is played: the last agent's typo must not cost an evening.
    env = plan.data_set.env(plan.env_settings)
    agents = [(name, agent_named(name, ENV, plan.settings)) for name in plan.agents]
    return [_play(plan, env, name, agent, out, on_start) for name, agent in agents]


def _play(plan: Plan, env: Env[Any], name: str, agent: Agent, out: Path, on_start: OnStart) -> Result:
    started = time.perf_counter()
    run = collect(
        env,
        agent,
        out / plan.data_set.name / folder_name(name),
        n=min(plan.n or (GENERATED_TASKS if plan.data_set.path is None else len(env.tasks)), len(env.tasks)),
        seed=plan.seed,
        limits=plan.limits,
        resume=True,
        on_start=lambda progress: on_start(name, progress),
    )
    return Result(plan.data_set.name, name, evaluate_run(run), time.perf_counter() - started)
