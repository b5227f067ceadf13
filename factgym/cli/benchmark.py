"""`factgym benchmark NAME`: one registry of benchmarks, each the evaluation of one paper's system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factgym.cli.options import Seed, parse_settings
from factgym.core.errors import ConfigError, FactgymError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from factgym.agents.judges import Judge
    from factgym.benchmarks.question_sets import Plan, Suite
    from factgym.cli.display import Display

_AGENT = (
    "Who plays, any number of times: a scripted agent, 'scripted' for all of them, openai:MODEL, http://HOST:PORT/v1, "
    "hf:FOLDER or path/to/file.py:Name. By default the scripted baselines."
)


@dataclass(frozen=True, slots=True)
class Request:
    """The options of the command as they were given."""

    agents: tuple[str, ...]
    data: Path | None
    only: tuple[str, ...]
    out: Path | None
    n: int | None
    seed: int
    paper: bool
    runs: tuple[Path, ...]
    settings: Mapping[str, Any]
    concurrency: int
    path: Path | None = None
    predictions: tuple[Path, ...] = ()
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    annotated: Path | None = None
    judge: str | None = None
    judge_settings: Mapping[str, Any] = field(default_factory=dict)


def benchmark(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A benchmark: seva, profact, corver, eve.")],
    paper: Annotated[bool, typer.Option("--paper", help="The paper's tables as well, ours beside theirs.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; default FACTGYM_DATA, else generated claims.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="DATA_SET", help="Play this data set only; repeatable.")
    ] = None,
    agent: Annotated[list[str] | None, typer.Option(help=_AGENT)] = None,
    agent_set: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of a model, e.g. --agent-set temperature=0."),
    ] = None,
    n: Annotated[
        int | None, typer.Option("-n", "--episodes", min=1, help="Tasks of each data set; default all.")
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs and the page; default runs/benchmark-NAME.")
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN", help="Play nothing: report on this run, and compare it with further ones."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes at a time.")] = 64,
    path: Annotated[
        Path | None, typer.Option(help="profact: AVeriTeC's dev.json, or a folder that holds it; the gold claims.")
    ] = None,
    predictions: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="profact: score this file of predictions (AVeriTeC's layout); repeatable."),
    ] = None,
    env_settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="profact, corver, eve: a setting of the environment, such as counter=FILE.",
        ),
    ] = None,
    annotated: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="corver: sentences with a verdict, for the calibration of counts."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="eve: the model that judges evidence; default a stand-in that says so."),
    ] = None,
    judge_set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the judge; repeatable.")
    ] = None,
) -> None:
    """Evaluate agents on a paper's benchmark: tables here, and one page with plots. Runs that are there go on."""
    if name not in BENCHMARKS:
        hint = did_you_mean(name, BENCHMARKS)
        raise ConfigError(f"there is no benchmark {name!r:.80}.{hint} There are: {', '.join(BENCHMARKS)}.")
    from rich.console import Console

    settings = parse_settings(agent_set or [], "--agent-set")
    request = Request(
        *(tuple(agent or ()), data, tuple(only or ()), out, n, seed, paper, tuple(run or ()), settings, concurrency),
        path=path,
        predictions=tuple(predictions or ()),
        env_settings=parse_settings(env_settings or []),
        annotated=annotated,
        judge=judge,
        judge_settings=parse_settings(judge_set or [], "--judge-set"),
    )
    if annotated is not None and name != "corver":
        raise ConfigError("--annotated is for corver, whose counts it is about")
    if request.judge_settings and judge is None:
        raise ConfigError("--judge-set goes with --judge")
    if judge is not None and name != "eve":
        raise ConfigError("--judge is for eve, whose evidence is judged")
    BENCHMARKS[name](request, Console(highlight=False))


@contextmanager
def _playing(name: str, out: Path, console: Console) -> Iterator[Display]:
    """The live line while agents play; what stops them says how to go on."""
    from factgym.agents.rollout.engine import RunAbortedError
    from factgym.agents.runs.write import RunWriteError
    from factgym.cli.display import Display

    with Display(console, name) as display:
        try:
            yield display
        except KeyboardInterrupt:
            console.print(
                f"Stopped. What was finished is in {out}; the same command goes on.", markup=False, soft_wrap=True
            )
            raise typer.Exit(130) from None
        except (RunAbortedError, RunWriteError) as error:
            raise FactgymError(f"{error}. What was finished is in {out}; the same command goes on") from error


def _show(console: Console, found: Any, closing: str) -> None:
    for part in found.render():
        console.print(part)
    console.print(f"\n{closing}", markup=False, soft_wrap=True)


def _seva(request: Request, console: Console) -> None:
    from factgym.benchmarks.seva import command

    if request.runs and (request.agents or request.data or request.only or request.n or request.paper):
        raise ConfigError("--run reports on runs that are there: leave out --agent, --data, --only, -n and --paper")
    if request.path or request.predictions or request.env_settings:
        raise ConfigError("--path, --predictions and --set are for profact: seva finds its data sets with --data")
    found = command.read(request.runs, request.out) if request.runs else _play_seva(request, console)
    _show(console, found, command.closing(found))


def _play_seva(request: Request, console: Console) -> Any:
    from factgym.agents.rollout.engine import Limits
    from factgym.benchmarks.seva import command, suite

    out = request.out or Path("runs") / "benchmark-seva"
    plan = suite.Plan(
        data_sets=suite.data_sets(request.data, request.only),
        agents=suite.chosen_agents(request.agents),
        n=request.n,
        seed=request.seed,
        settings=request.settings,
        limits=Limits(concurrency=request.concurrency),
    )
    with _playing("seva", out, console) as display:
        return command.play(
            plan, out, paper=request.paper, on_start=lambda data_set, agent, progress: display.watch(progress)
        )


def _profact(request: Request, console: Console) -> None:
    from factgym.benchmarks.profact import command

    found = _read_profact(request) if request.runs or request.predictions else _play_profact(request, console)
    _show(console, found, command.closing(found))


def _read_profact(request: Request) -> Any:
    from factgym.benchmarks.profact import command, suite

    if request.agents or request.n or request.only:
        raise ConfigError("--run and --predictions report on what is there: leave out --agent, --only and -n")
    gold = request.path or request.data
    data = suite.data_set(gold, (), request.env_settings) if gold or request.predictions else None
    return command.read(request.runs, request.predictions, data, paper=request.paper, out=request.out)


def _play_profact(request: Request, console: Console) -> Any:
    from factgym.agents.rollout.engine import Limits
    from factgym.benchmarks.profact import command, suite

    out = request.out or Path("runs") / "benchmark-profact"
    plan = suite.Plan(
        data_set=suite.data_set(request.path or request.data, request.only, request.env_settings),
        agents=suite.chosen_agents(request.agents),
        n=request.n,
        seed=request.seed,
        settings=request.settings,
        env_settings=request.env_settings,
        limits=Limits(concurrency=request.concurrency),
    )
    with _playing("profact", out, console) as display:
        return command.play(plan, out, paper=request.paper, on_start=lambda agent, progress: display.watch(progress))


def _corver(request: Request, console: Console) -> None:
    from factgym.benchmarks.corver import command

    if request.path or request.predictions:
        raise ConfigError("--path and --predictions are for profact: corver takes a folder or a file with --data")
    found = _read_corver(request) if request.runs else _play_corver(request, console)
    _show(console, found, command.closing(found))


def _read_corver(request: Request) -> Any:
    from factgym.benchmarks.corver import command

    if request.agents or request.data or request.only or request.n:
        raise ConfigError("--run reports on runs that are there: leave out --agent, --data, --only and -n")
    return command.read(
        request.runs,
        request.out,
        paper=request.paper,
        annotated=request.annotated,
        settings=request.env_settings,
    )


def _play_corver(request: Request, console: Console) -> Any:
    from factgym.benchmarks.corver import command
    from factgym.benchmarks.corver.suite import SUITE

    out = request.out or Path("runs") / "benchmark-corver"
    plan = _plan(request, SUITE)
    with _playing("corver", out, console) as display:
        return command.play(
            plan,
            out,
            paper=request.paper,
            annotated=request.annotated,
            on_start=lambda name, agent, progress: display.watch(progress),
        )


def _eve(request: Request, console: Console) -> None:
    from factgym.benchmarks.eve import command

    if request.path or request.predictions:
        raise ConfigError("--path and --predictions are for profact: eve takes a folder or a file with --data")
    with _judge(request) as judge:
        found = _read_eve(request, judge) if request.runs else _play_eve(request, console, judge)
    _show(console, found, command.closing(found))


def _read_eve(request: Request, judge: Judge | None) -> Any:
    from factgym.benchmarks.eve import command

    if request.agents or request.data or request.only or request.n or request.env_settings:
        raise ConfigError("--run reports on runs that are there: leave out --agent, --data, --only, --set and -n")
    return command.read(request.runs, request.out, paper=request.paper, judge=judge)


def _play_eve(request: Request, console: Console, judge: Judge | None) -> Any:
    from factgym.benchmarks.eve import command
    from factgym.benchmarks.eve.suite import SUITE

    out = request.out or Path("runs") / "benchmark-eve"
    plan = _plan(request, SUITE)
    with _playing("eve", out, console) as display:
        return command.play(
            plan,
            out,
            paper=request.paper,
            judge=judge,
            on_start=lambda name, agent, progress: display.watch(progress),
        )


@contextmanager
def _judge(request: Request) -> Iterator[Judge | None]:
    """The judge that --judge names, with a cache beside the runs; closed at the end."""
    import asyncio

    if request.judge is None:
        yield None
        return
    from factgym.benchmarks.eve.judging import named_judge

    cache = (request.out or Path("runs") / "benchmark-eve") / "judgements"
    judge = named_judge(request.judge, request.judge_settings, cache)
    try:
        yield judge
    finally:
        asyncio.run(judge.close())


def _plan(request: Request, suite: Suite) -> Plan:
    from factgym.agents.rollout.engine import Limits
    from factgym.benchmarks.question_sets import Plan

    return Plan(
        sets=suite.question_sets(request.data, request.only),
        agents=suite.chosen_agents(request.agents),
        n=request.n,
        seed=request.seed,
        settings=request.settings,
        env=request.env_settings,
        limits=Limits(concurrency=request.concurrency),
    )


BENCHMARKS: Mapping[str, Callable[[Request, Console], None]] = MappingProxyType(
    {"seva": _seva, "profact": _profact, "corver": _corver, "eve": _eve}
)
"""By name; one function each, which prints to the console and writes into the request's folder."""
