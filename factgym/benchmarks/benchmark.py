"""A benchmark: data sets, agents, an evaluation and its tables; `run` plays agents on them, or reads recorded runs.

Each family has an instance (`find_benchmark` names them). Runs lie on disk as `OUT/DATA_SET/AGENT` and continue where they
were stopped; `report.html` and `report.json` lie beside them.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from factgym.agents.agent import Agent, agent_from_script
from factgym.agents.resolve import find_agent, scripted_agents
from factgym.agents.rollout.engine import Limits
from factgym.agents.rollout.jobs import Progress
from factgym.agents.runs.collect import collect
from factgym.agents.runs.files import write_json
from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.formats import count, decimal
from factgym.benchmarks.page import report_page, write_page
from factgym.benchmarks.report import Report
from factgym.benchmarks.terminal import render_report
from factgym.core.config import DATA_VARIABLE, Settings
from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.registry import load_attribute, make, spec

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY_SCRIPT = "scripted"
"""In the place of an agent: every scripted agent of the family, exploiters included."""
PAGE, NUMBERS = "report.html", "report.json"

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class DataSet:
    """Tasks to play on.

    config: settings of the environment `env_id` over it. path: its file; None for generated tasks. limit: how many tasks
    are played unless the request says otherwise; all where it is None.
    """

    name: str
    env_id: str
    config: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    limit: int | None = None

    def open(self, settings: Mapping[str, Any] = MappingProxyType({})) -> Env[Any]:
        """Return the environment over it. Raises ConfigError for a setting or path, DataError for an unusable file."""
        path = {} if self.path is None else {"path": str(self.path)}
        return make(self.env_id, **{**self.config, **path, **settings})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to evaluate.

    agents: by default the scripted baselines. data: folder or file of the data sets, by default the folder in
    FACTGYM_DATA. only: names of data sets. n: tasks of each. out: folder of runs and report. paper: the paper's tables as
    well. runs: recorded runs to report on instead of playing. agent_settings: of an agent that is a model. settings: of
    the benchmark itself and of its environment.
    """

    agents: tuple[str, ...] = ()
    data: Path | None = None
    only: tuple[str, ...] = ()
    n: int | None = None
    seed: int = 0
    out: Path | None = None
    paper: bool = False
    runs: tuple[Path, ...] = ()
    agent_settings: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 64


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The run of one agent on one data set. seconds: playing, on this machine, now; 0 for a run that was there."""

    data_set: str
    agent: str
    run: Run
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Input of a benchmark's `evaluate`.

    options: the benchmark's own settings. env_settings: the others. resources: from the benchmark's `resources`.
    data_sets and agents: empty where recorded runs are read.
    """

    request: Request
    runs: tuple[RecordedRun, ...]
    options: Any
    env_settings: Mapping[str, Any]
    resources: Any
    data_sets: tuple[DataSet, ...] = ()
    agents: tuple[str, ...] = ()

    @property
    def played(self) -> bool:
        """Whether agents were played, not recorded runs read."""
        return bool(self.agents)

    @property
    def generated_only(self) -> bool:
        """Whether agents were played on generated tasks alone."""
        return self.played and all(data_set.path is None for data_set in self.data_sets)

    def has_role(self, *roles: str) -> bool:
        """Return whether an agent with one of these roles was played."""
        scripts = scripted_agents(self.data_sets[0].env_id) if self.data_sets else {}
        return any(scripts[name].role in roles for name in self.agents if name in scripts)

    def pairs(self, names: Sequence[str], reference: tuple[str, str] | None) -> list[tuple[int, int]]:
        """Return which of `names` to compare, first index as baseline: the first with every other.

        Where all scripted baselines were played, the two of `reference` are compared instead.
        """
        chosen: Sequence[str] = names
        if reference and self.played and set(baselines(self.data_sets[0].env_id)) <= set(self.agents):
            chosen = reference
        first, *others = (names.index(name) for name in chosen)
        return [(first, other) for other in others]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result. results: the family's own, for Python. numbers: JSON data. files: what was written, the page first."""

    results: Any
    report: Report
    numbers: Any
    episodes: int
    data_sets: int
    agents: int
    files: tuple[Path, ...] = ()
    seconds: float = 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for people."""
        return self.report.notes

    def render(self) -> Iterator[RenderableType]:
        """Yield everything for a terminal of eighty columns, in reading order."""
        return render_report(self.report)

    def closing(self) -> str:
        """Return the last line: data sets, agents, episodes and seconds, and where the page is."""
        sizes = (count(self.data_sets, "data set"), count(self.agents, "agent"), count(self.episodes, "episode"))
        line = f"{', '.join(sizes)} in {decimal(self.seconds, 1)} s"
        return f"{line}\nPage: {self.files[0]}" if self.files else line


OnStart = Callable[[str, str, Progress], None]
"""Called with data set, agent and the counters of a run that begins."""


def _no_watch(data_set: str, agent: str, progress: Progress) -> None:
    """Watch nothing."""


def _no_resources(request: Request, options: Any, env_settings: Mapping[str, Any]) -> AbstractContextManager[Any]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark.

    env: the environment whose scripted agents play by default. find_data(data, only, env_settings): the data sets.
    evaluate: from runs to the outcome. options: class of the benchmark's own settings. resources: what is opened before
    the first episode (files to read, a judge). reads_without_runs: whether options alone name something to report on.
    gold_with_runs: whether recorded runs are scored anew with `data`. run_page: name of the page of recorded runs, in the
    first run's folder where no other is named; None for no page.
    """

    name: str
    env: str
    find_data: Callable[[Path | None, Sequence[str], Mapping[str, Any]], tuple[DataSet, ...]]
    evaluate: Callable[[Evaluation], Outcome]
    options: type[Settings] = Settings
    resources: Callable[[Request, Any, Mapping[str, Any]], AbstractContextManager[Any]] = _no_resources
    adapt: Callable[[DataSet, Mapping[str, Any]], Mapping[str, Any]] = lambda data_set, settings: {}
    reads_without_runs: Callable[[Any], bool] = lambda options: False
    gold_with_runs: bool = False
    run_page: str | None = None

    def folder(self, request: Request) -> Path:
        """Return the folder of the runs that a request plays."""
        return request.out or Path("runs") / f"benchmark-{self.name}"

    def run(self, request: Request, *, on_start: OnStart = _no_watch) -> Outcome:
        """Play agents or read recorded runs, evaluate, and write page and numbers.

        Raises ConfigError for what does not go together, and what `collect`, `read_run` and the evaluation raise; what was
        finished is on disk.
        """
        started = time.perf_counter()
        options, env_settings = self._split_settings(request.settings)
        recorded = bool(request.runs) or self.reads_without_runs(options)
        if recorded:
            self._check_recorded(request)
        with self.resources(request, options, env_settings) as resources:
            evaluation = Evaluation(request, (), options, env_settings, resources)
            if recorded:
                evaluation = replace(evaluation, runs=tuple(_read(request.runs)))
            else:
                evaluation = self._play(evaluation, on_start)
            outcome = self.evaluate(evaluation)
        return replace(outcome, files=self._write(outcome, request, recorded), seconds=time.perf_counter() - started)

    def _split_settings(self, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The benchmark's own settings and those of the environment; an unknown name is an error that lists all."""
        own = set(self.options.model_fields)
        known = {*own, *spec(self.env).load().Config.model_fields}
        for name in settings:
            if name.partition(".")[0] not in known:
                raise ConfigError(
                    f"{self.name} has no setting {name!r:.80}.{did_you_mean(name, known)} Its own: "
                    f"{', '.join(sorted(own)) or 'none'}; of {self.env}: {', '.join(sorted(known - own))}"
                )
        mine = {name: value for name, value in settings.items() if name.partition(".")[0] in own}
        options = self.options.build(self.name, _nested(mine))
        return options, {name: value for name, value in settings.items() if name not in mine}

    def _check_recorded(self, request: Request) -> None:
        given: dict[str, Any] = {"--agent": request.agents, "--only": request.only, "-n": request.n}
        if not self.gold_with_runs:
            given["--data"] = request.data
        wrong = [name for name, value in given.items() if value]
        if wrong:
            raise ConfigError(f"--run reports on runs that are there: leave out {', '.join(wrong)}")

    def _play(self, evaluation: Evaluation, on_start: OnStart) -> Evaluation:
        request, settings = evaluation.request, evaluation.env_settings
        data_sets = self.find_data(request.data, request.only, settings)
        names = chosen_agents(self.env, request.agents)
        # Everything is opened before the first episode is played: the last agent's typo must not cost an evening.
        opened = [(one, one.open({**self.adapt(one, settings), **settings})) for one in data_sets]
        jobs = [
            (data_set, env, name, agent_named(name, data_set.env_id, request.agent_settings))
            for data_set, env in opened
            for name in names
        ]
        runs = []
        for data_set, env, name, agent in jobs:
            started = time.perf_counter()
            n = request.n or data_set.limit
            run = collect(
                env,
                agent,
                self.folder(request) / data_set.name / folder_name(name),
                n=None if n is None else min(n, len(env.tasks)),
                seed=request.seed,
                limits=Limits(concurrency=request.concurrency),
                resume=True,
                on_start=lambda progress, data_set=data_set, name=name: on_start(data_set.name, name, progress),  # type: ignore[misc]
            )
            runs.append(RecordedRun(data_set.name, name, run, time.perf_counter() - started))
        return replace(evaluation, runs=tuple(runs), data_sets=data_sets, agents=names)

    def _write(self, outcome: Outcome, request: Request, recorded: bool) -> tuple[Path, ...]:
        if recorded and request.out is None:
            if self.run_page is None or not request.runs:
                return ()
            return (write_page(report_page(outcome.report), request.runs[0] / self.run_page),)
        folder = self.folder(request)
        page = write_page(report_page(outcome.report), folder / PAGE)
        write_json(folder / NUMBERS, outcome.numbers)
        return page, folder / NUMBERS


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`judge_settings.temperature` as a member of `judge_settings`."""
    values: dict[str, Any] = {}
    for name, value in settings.items():
        key, dot, rest = name.partition(".")
        if dot:
            values.setdefault(key, {})[rest] = value
        else:
            values[key] = value
    return values


def _read(folders: Sequence[Path]) -> Iterator[RecordedRun]:
    """The runs in folders, under their agents' names; under their folders' too where an agent has several."""
    runs = [read_run(folder) for folder in folders]
    agents = Counter(str(run.manifest.get("agent") or "") for run in runs)
    for run in runs:
        agent = str(run.manifest.get("agent") or "")
        name = agent if agents[agent] == 1 else f"{agent} ({run.folder})"
        yield RecordedRun(str(run.manifest.get("env") or ""), name, run)


def baselines(env_id: str) -> tuple[str, ...]:
    """Return the scripted agents that play by default: all that exploit nothing, with the oracle as the ceiling."""
    return tuple(name for name, agent in scripted_agents(env_id).items() if agent.role != "exploiter")


def chosen_agents(env_id: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the agents to play: the baselines where none is named, every script for `EVERY_SCRIPT`; each once."""
    chosen: list[str] = []
    for name in names or baselines(env_id):
        chosen += scripted_agents(env_id) if name == EVERY_SCRIPT else [name]
    return tuple(dict.fromkeys(chosen))


def agent_named(name: str, env_id: str, settings: Mapping[str, Any]) -> Agent:
    """Return the agent of a name; a scripted one beside a model takes none of the model's settings."""
    script = scripted_agents(env_id).get(name)
    return find_agent(name, env_id, settings) if script is None else agent_from_script(script)


def folder_name(agent: str) -> str:
    """Return an agent's name as the name of a folder."""
    return _NO_NAME.sub("-", agent).strip("-.")[:_MAX_NAME_CHARS] or "agent"


def data_place(data: str | Path | None, *, folder: bool = False) -> Path | None:
    """Return `data`, else the folder that FACTGYM_DATA names, else None. Raises ConfigError where it does not exist.

    folder: it must be a folder.
    """
    name = data or os.environ.get(DATA_VARIABLE)
    if not name:
        return None
    place = Path(name)
    source = "" if data is not None else f" (from {DATA_VARIABLE})"
    if folder and not place.is_dir():
        raise ConfigError(f"{place}{source} is no folder: give one that holds the data sets with --data")
    if not place.exists():
        raise ConfigError(f"{place}{source} does not exist: give a file of questions, or a folder, with --data")
    return place


def check_names(only: Sequence[str], names: Sequence[str]) -> None:
    """Raise ConfigError for a data set that is none of `names`."""
    for name in only:
        if name not in names:
            raise ConfigError(
                f"there is no data set {name!r:.80}.{did_you_mean(name, names)} There are: {', '.join(names)}."
            )


BENCHMARKS: Mapping[str, str] = MappingProxyType(
    {
        "claimcheck": "factgym.benchmarks.claimcheck:BENCHMARK",
        "seva": "factgym.benchmarks.seva.benchmark:BENCHMARK",
        "profact": "factgym.benchmarks.profact.benchmark:BENCHMARK",
        "corver": "factgym.benchmarks.corver.benchmark:BENCHMARK",
        "eve": "factgym.benchmarks.eve.benchmark:BENCHMARK",
    }
)
"""Where each benchmark is defined, by name."""


def find_benchmark(name: str) -> Benchmark:
    """Return a benchmark by its name. Raises ConfigError that names all."""
    if name not in BENCHMARKS:
        hint = did_you_mean(name, BENCHMARKS)
        raise ConfigError(f"there is no benchmark {name!r:.80}.{hint} There are: {', '.join(BENCHMARKS)}.")
    benchmark: Benchmark = load_attribute(BENCHMARKS[name])
    return benchmark
