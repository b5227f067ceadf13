"""A benchmark: data sets, agents, an evaluation and its tables; `run` plays agents on them, or reads recorded runs.

Each family has an instance (`find_benchmark` names them). Runs lie on disk as `OUT/DATA_SET/AGENT` and continue where they
were stopped; `report.html` and `report.json` lie beside them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from factgym.agents.agent import Agent, agent_from_script
from factgym.agents.resolve import find_agent, scripted_agents
from factgym.agents.rollout.engine import Limits
from factgym.agents.rollout.jobs import Progress
from factgym.agents.runs.collect import collect
from factgym.agents.runs.files import write_json
from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.answers import AgentReport, distinct_names, group_runs, manifest_text
from factgym.benchmarks.formats import count, decimal
from factgym.benchmarks.losses import find_losses
from factgym.benchmarks.page import report_page, write_page
from factgym.benchmarks.report import Report
from factgym.benchmarks.terminal import render_report
from factgym.core.config import DATA_VARIABLE, Settings, data_folder
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.paths import exists, is_folder, user_path
from factgym.core.policy import ScriptedAgent
from factgym.core.registry import load_attribute, make, spec

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY_SCRIPT = "scripted"
"""Instead of an agent: every scripted agent of the family, exploiters included."""
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
    """Options of an evaluation.

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
    """The run of one agent on one data set. seconds: playing, on this machine, now; 0 for a recorded run."""

    data_set: str
    agent: str
    run: Run
    seconds: float = 0.0


class RunReport(Protocol):
    """The evaluation of one run."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""


ReportT = TypeVar("ReportT", bound=RunReport)
AgentReportT = TypeVar("AgentReportT", bound=AgentReport)


@dataclass(frozen=True, slots=True)
class AgentResult(Generic[ReportT]):
    """The report of one agent on one data set. seconds: playing, on this machine, now; 0 for a recorded run."""

    data_set: str
    agent: str
    report: ReportT
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        report = self.report.to_dict()
        return {"data_set": self.data_set, "agent": self.agent, "seconds": self.seconds, "report": report}


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

    def results(self, evaluate: Callable[[Run], ReportT]) -> tuple[AgentResult[ReportT], ...]:
        """Return the report of every run."""
        return tuple(AgentResult(run.data_set, run.agent, evaluate(run.run), run.seconds) for run in self.runs)

    def by_agent(
        self, key: Callable[[Run], tuple[Any, str]], evaluate: Callable[[Sequence[Run]], AgentReportT]
    ) -> tuple[list[list[Run]], list[AgentReportT]]:
        """Return the runs of each agent and their reports, under distinct names; recorded runs by `key` (`group_runs`)."""
        if self.played:
            groups = [[run.run for run in self.runs if run.agent == name] for name in self.agents]
        else:
            groups = group_runs([run.run for run in self.runs], key)
        reports = [evaluate(group) for group in groups]
        names = distinct_names([(report.name, report.detail) for report in reports])
        return groups, [replace(report, name=name) for report, name in zip(reports, names, strict=True)]

    def notes(self, public_data: str, roles: Mapping[tuple[str, ...], str] = MappingProxyType({})) -> list[str]:
        """Return notes on runs that say less than they seem to.

        public_data: where only generated tasks were played. roles: notes by the roles of the agents that were played.
        """
        notes = [public_data] if self.played and all(data_set.path is None for data_set in self.data_sets) else []
        scripts = scripted_agents(self.data_sets[0].env_id) if self.data_sets else {}
        played = {scripts[name].role for name in self.agents if name in scripts}
        return [note for note in notes if note] + [note for names, note in roles.items() if played.intersection(names)]

    def pairs(self, names: Sequence[str], reference: tuple[str, str] | None) -> list[tuple[int, int]]:
        """Return which of `names` to compare, first index as baseline: the first with every other.

        Where all scripted baselines were played, the two of `reference` are compared instead.
        """
        # The reference pair applies only to the default agents: a requested order is kept.
        chosen: Sequence[str] = names
        if reference and self.played and set(baselines(self.data_sets[0].env_id)) <= set(self.agents):
            chosen = reference
        first, *following = (names.index(name) for name in chosen)
        return [(first, index) for index in following]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result. results: the family's own reports. numbers: JSON data. files: all that was written, the page first."""

    results: tuple[Any, ...]
    report: Report
    numbers: Any
    episodes: int
    data_sets: int
    agents: int
    comparisons: tuple[Any, ...] = ()
    files: tuple[Path, ...] = ()
    seconds: float = 0.0

    @classmethod
    def of_runs(
        cls, results: Sequence[AgentResult[Any]], report: Report, episodes: int, comparisons: Sequence[Any] = ()
    ) -> Outcome:
        """Return the outcome of a report on each run."""
        return cls(
            results=tuple(results),
            report=report,
            numbers=[result.to_dict() for result in results],
            episodes=episodes,
            data_sets=len({result.data_set for result in results}),
            agents=len({result.agent for result in results}),
            comparisons=tuple(comparisons),
        )

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
"""Called with data set, agent and the counters of a run when it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark.

    env: the environment whose scripted agents play by default. find_data(data, only, env_settings): the data sets.
    evaluate: from runs to the outcome. options: class of the benchmark's own settings. resources: objects opened before
    the first episode (files to read, a judge). adapt: settings of the environment for a data set. reads_without_runs:
    whether options alone name something to report on. gold_with_runs: whether recorded runs are scored anew with `data`.
    run_page: name of the page of recorded runs, in the first run's folder where no other is named; None for no page.
    agents: that play by default; all scripted baselines where it is empty. scripts: scripted agents of its own, beside
    those of the environment. makers: of further agents, by the first part of their names.
    """

    name: str
    env: str
    find_data: Callable[[Path | None, Sequence[str], Mapping[str, Any]], tuple[DataSet, ...]]
    evaluate: Callable[[Evaluation], Outcome]
    options: type[Settings] = Settings
    resources: Callable[[Request, Any, Mapping[str, Any]], AbstractContextManager[Any]] = (
        lambda request, options, settings: nullcontext()
    )
    adapt: Callable[[DataSet, Mapping[str, Any]], Mapping[str, Any]] = lambda data_set, settings: {}
    reads_without_runs: Callable[[Any], bool] = lambda options: False
    gold_with_runs: bool = False
    run_page: str | None = None
    agents: tuple[str, ...] = ()
    scripts: Mapping[str, ScriptedAgent] = field(default_factory=dict)
    makers: Mapping[str, Callable[[str, Mapping[str, Any]], Agent]] = field(default_factory=dict)

    def folder(self, request: Request) -> Path:
        """Return the folder of the runs that a request plays."""
        return request.out or Path("runs") / f"benchmark-{self.name}"

    def run(self, request: Request, *, on_start: OnStart = lambda data_set, agent, progress: None) -> Outcome:
        """Play agents or read recorded runs, evaluate, and write page and numbers.

        Raises ConfigError for options that exclude each other, and the errors of `collect`, `read_run` and the evaluation;
        finished episodes are on disk then.
        """
        started = time.perf_counter()
        options, env_settings = self._split_settings(request.settings)
        recorded = bool(request.runs) or self.reads_without_runs(options)
        if recorded:
            excluded: dict[str, Any] = {"--agent": request.agents, "--only": request.only, "-n": request.n}
            excluded |= {} if self.gold_with_runs else {"--data": request.data}
            if wrong := [name for name, value in excluded.items() if value]:
                raise ConfigError(f"--run reports on runs that are there: leave out {', '.join(wrong)}")
        with self.resources(request, options, env_settings) as resources:
            evaluation = Evaluation(request, (), options, env_settings, resources)
            if recorded:
                runs = [read_run(folder) for folder in request.runs]
                names = distinct_names([(manifest_text(run, "agent"), str(run.folder)) for run in runs])
                pairs = zip(runs, names, strict=True)
                read = tuple(RecordedRun(manifest_text(run, "env"), name, run) for run, name in pairs)
                evaluation = replace(evaluation, runs=read)
            else:
                evaluation = self._play(evaluation, on_start)
            outcome = _with_losses(self.evaluate(evaluation), evaluation.runs)
        files: tuple[Path, ...] = ()
        if not recorded or request.out is not None:
            files = (self.folder(request) / PAGE, self.folder(request) / NUMBERS)
        elif self.run_page is not None and request.runs:
            files = (request.runs[0] / self.run_page,)
        if files:
            write_page(report_page(outcome.report), files[0])
        for file in files[1:]:
            write_json(file, outcome.numbers)
        return replace(outcome, files=files, seconds=time.perf_counter() - started)

    def _split_settings(self, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the benchmark's own settings and those of the environment; an unknown name is an error that lists all.

        `judge_settings.temperature` is a member of `judge_settings`.
        """
        fields = set(self.options.model_fields)
        env_fields = set(spec(self.env).load().Config.model_fields) - fields
        values: dict[str, Any] = {}
        env_settings: dict[str, Any] = {}
        for name, value in settings.items():
            key, dot, member = name.partition(".")
            if key not in fields | env_fields:
                raise ConfigError(
                    f"{self.name} has no setting {name!r:.80}.{did_you_mean(name, fields | env_fields)} Its own: "
                    f"{', '.join(sorted(fields)) or 'none'}; of {self.env}: {', '.join(sorted(env_fields))}"
                )
            if key not in fields:
                env_settings[name] = value
            elif dot:
                values.setdefault(key, {})[member] = value
            else:
                values[key] = value
        return self.options.build(self.name, values), env_settings

    def _agent(self, name: str, env_id: str, settings: Mapping[str, Any]) -> Agent:
        maker = self.makers.get(name.partition(":")[0])
        return maker(name, settings) if maker else agent_named(name, env_id, settings, self.scripts)

    def _play(self, evaluation: Evaluation, on_start: OnStart) -> Evaluation:
        request, settings = evaluation.request, evaluation.env_settings
        data_sets = self.find_data(request.data, request.only, settings)
        names = chosen_agents(self.env, request.agents or self.agents)
        # Everything is opened before the first episode is played: the last agent's typo must not cost an evening.
        envs = [data_set.open({**self.adapt(data_set, settings), **settings}) for data_set in data_sets]
        jobs = [
            (data_set, env, name, self._agent(name, data_set.env_id, request.agent_settings))
            for data_set, env in zip(data_sets, envs, strict=True)
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
                on_start=partial(on_start, data_set.name, name),
            )
            runs.append(RecordedRun(data_set.name, name, run, time.perf_counter() - started))
        return replace(evaluation, runs=tuple(runs), data_sets=data_sets, agents=names)


def _with_losses(outcome: Outcome, runs: Sequence[RecordedRun]) -> Outcome:
    """Add notes and numbers where the lost episodes of a run differ from its scored episodes."""
    notes, numbers = list(outcome.report.notes), outcome.numbers
    for run in runs:
        losses = find_losses(run.run.episodes()) if run.run.failed else None
        if losses is None:
            continue
        notes += [f"{run.agent} on {run.data_set}: {sentence}" for sentence in losses.sentences()]
        key = {"data_set": run.data_set, "agent": run.agent}
        if isinstance(numbers, dict):
            numbers.setdefault("losses", []).append({**key, **losses.to_dict()})
        else:
            for result in numbers:
                if key.items() <= result.items():
                    result["losses"] = losses.to_dict()
    return replace(outcome, report=replace(outcome.report, notes=tuple(notes)))


def baselines(env_id: str) -> tuple[str, ...]:
    """Return the scripted agents that play by default: all that exploit nothing, with the oracle as the ceiling."""
    return tuple(name for name, agent in scripted_agents(env_id).items() if agent.role != "exploiter")


def chosen_agents(env_id: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the agents to play: the baselines where none is named, every script for `EVERY_SCRIPT`; each once."""
    chosen: list[str] = []
    for name in names or baselines(env_id):
        chosen += scripted_agents(env_id) if name == EVERY_SCRIPT else [name]
    return tuple(dict.fromkeys(chosen))


def agent_named(
    name: str, env_id: str, settings: Mapping[str, Any], scripts: Mapping[str, ScriptedAgent] = MappingProxyType({})
) -> Agent:
    """Return the agent of a name; a scripted one beside a model takes none of the model's settings.

    scripts: further scripted agents.
    """
    script = scripts.get(name) or scripted_agents(env_id).get(name)
    return find_agent(name, env_id, settings) if script is None else agent_from_script(script)


def folder_name(agent: str) -> str:
    """Return an agent's name as the name of a folder."""
    return _NO_NAME.sub("-", agent).strip("-.")[:_MAX_NAME_CHARS] or "agent"


def data_path(data: str | Path | None, *, folder: bool = False) -> Path | None:
    """Return `data`, else the folder that FACTGYM_DATA names, else None. Raises ConfigError where it does not exist.

    folder: it must be a folder.
    """
    path = data_folder() if data is None else user_path(data, "data")
    if path is None:
        return None
    source = "" if data is not None else f" (from {DATA_VARIABLE})"
    if folder and not is_folder(path):
        raise ConfigError(f"{path}{source} is no folder: give one that holds the data sets with --data")
    if not exists(path):
        raise ConfigError(f"{path}{source} does not exist: give a file of questions, or a folder, with --data")
    return path


def check_names(only: Sequence[str], names: Sequence[str]) -> None:
    """Raise ConfigError for a data set that is none of `names`."""
    for name in only:
        if name not in names:
            raise ConfigError(
                f"there is no data set {name!r:.80}.{did_you_mean(name, names)} There are: {', '.join(names)}."
            )


def require_no_names(only: Sequence[str], generated: str, advice: str) -> None:
    """Raise ConfigError where data sets other than the generated one are requested and there is no data."""
    requested = [name for name in only if name != generated]
    if requested:
        raise ConfigError(f"{', '.join(requested)}: no data. Give {advice} with --data, or set {DATA_VARIABLE}")


SYNTHETIC = "synthetic"
"""The name, among the sets of questions, of those that need no data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSets:
    """The sets of questions of one paper over one environment.

    names: every benchmark; paper: those that its tables have, which are looked for in a folder. find(benchmark, folder):
    its file there; raises DataError. file_names: names of files that identify a benchmark. any_file: the environment's
    source for a file that is none of these, where it has one. config: settings of the environment.
    """

    env: str
    names: Sequence[str]
    paper: Sequence[str]
    find: Callable[[str, Path], Path]
    file_names: Mapping[str, Sequence[str]]
    any_file: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    def data_set(self, name: str, source: str | None = None, path: Path | None = None) -> DataSet:
        """Return the data set of a benchmark's file, or of generated questions. source: by default its name."""
        return DataSet(name, self.env, {**self.config, "source": source or name}, path)

    def __call__(
        self, data: str | Path | None = None, only: Sequence[str] = (), settings: Mapping[str, Any] | None = None
    ) -> tuple[DataSet, ...]:
        """Return the sets in a folder (those of the paper that are there) or of one file; generated ones without data.

        Raises ConfigError for a path that does not exist, an unknown name, and requested sets that are missing.
        """
        check_names(only, (*self.names, SYNTHETIC))
        path = data_path(data)
        if path is None:
            require_no_names(only, SYNTHETIC, "a file or folder")
            return (self.data_set(SYNTHETIC),)
        if path.is_file():
            return (self._data_set_of_file(path, only),)
        data_sets, missing = [], []
        for name in only or self.paper:
            try:
                data_sets.append(self.data_set(name, path=None if name == SYNTHETIC else self.find(name, path)))
            except DataError as error:
                missing.append(str(error))
        if not data_sets or (only and missing):
            raise ConfigError(" ".join(missing))
        return tuple(data_sets)

    def _data_set_of_file(self, file: Path, only: Sequence[str]) -> DataSet:
        """Return a file under the name of its benchmark: as requested, or by the file's own name."""
        matches = [name for name, files in self.file_names.items() if file.name in files]
        if len(only) > 1:
            raise ConfigError(f"{file} is one file: name one benchmark with --only, or give a folder")
        name = (only[0] if only else None) or (matches[0] if len(matches) == 1 else None)
        if name == SYNTHETIC:
            raise ConfigError("generated questions have no file: leave out --data")
        if name:
            return self.data_set(name, path=file)
        if self.any_file is None:
            raise ConfigError(f"{file}: say whose questions these are with --only: {', '.join(self.names)}")
        return self.data_set(file.stem, self.any_file, file)


BENCHMARKS: Mapping[str, str] = MappingProxyType(
    {
        "claimcheck": "factgym.benchmarks.claimcheck:BENCHMARK",
        "seva": "factgym.benchmarks.seva.benchmark:BENCHMARK",
        "profact": "factgym.benchmarks.profact.benchmark:BENCHMARK",
        "corver": "factgym.benchmarks.corver.benchmark:BENCHMARK",
        "eve": "factgym.benchmarks.eve.benchmark:BENCHMARK",
    }
)
"""Where the benchmark of each family is defined, by name."""


def find_benchmark(name: str, benchmarks: Mapping[str, str] = BENCHMARKS) -> Benchmark:
    """Return a benchmark by its name. Raises ConfigError that names all."""
    if name not in benchmarks:
        hint = did_you_mean(name, benchmarks)
        raise ConfigError(f"there is no benchmark {name!r:.80}.{hint} There are: {', '.join(benchmarks)}.")
    benchmark: Benchmark = load_attribute(benchmarks[name])
    return benchmark
