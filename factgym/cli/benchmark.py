"""`factgym benchmark NAME`: evaluate agents on the benchmark of one paper's system, or of `factgym check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from factgym.cli.options import Seed, parse_settings
from factgym.core.errors import FactgymError

_AGENT = (
    "Who plays, any number of times: a scripted agent, 'scripted' for all of them, openai:MODEL, http://HOST:PORT/v1, "
    "hf:FOLDER or path/to/file.py:Name. By default the scripted baselines."
)
_SET = (
    "A setting of the benchmark (profact: predictions=FILE, corver: annotated=FILE, eve: judge=AGENT and "
    "judge_settings.KEY=VALUE, grounding: calibrate=FILE) or of its environment, such as counter=FILE. Repeatable."
)


def benchmark(
    name: Annotated[str, typer.Argument(metavar="NAME", help="claimcheck, seva, profact, corver, eve or grounding.")],
    paper: Annotated[bool, typer.Option("--paper", help="The paper's tables as well, ours beside theirs.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the data sets, or one file; default FACTGYM_DATA, else generated tasks."),
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
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET)] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes at a time.")] = 64,
) -> None:
    """Evaluate agents on a paper's benchmark, or that of factgym check: tables here, and one page with charts. Existing runs are continued."""
    from rich.console import Console

    from factgym.agents.rollout.engine import RunAbortedError
    from factgym.agents.runs.write import RunWriteError
    from factgym.benchmarks.benchmark import BENCHMARKS, Request, find_benchmark
    from factgym.cli.display import Display

    chosen = find_benchmark(name, {**BENCHMARKS, "grounding": "factgym.check.benchmark:BENCHMARK"})
    request = Request(
        agents=tuple(agent or ()),
        data=data,
        only=tuple(only or ()),
        n=n,
        seed=seed,
        out=out,
        paper=paper,
        runs=tuple(run or ()),
        agent_settings=parse_settings(agent_set, "--agent-set"),
        settings=parse_settings(settings),
        concurrency=concurrency,
    )
    console = Console(highlight=False)
    folder = chosen.folder(request)
    with Display(console, name) as display:
        try:
            outcome = chosen.run(request, on_start=lambda data_set, agent, progress: display.watch(progress))
        except KeyboardInterrupt:
            hint = f"Stopped. Finished episodes are in {folder}; run the same command to resume."
            console.print(hint, markup=False, soft_wrap=True)
            raise typer.Exit(130) from None
        except (RunAbortedError, RunWriteError) as error:
            raise FactgymError(f"{error}. Finished episodes are in {folder}; run the same command to resume") from error
    for part in outcome.render():
        console.print(part)
    console.print(f"\n{outcome.closing()}", markup=False, soft_wrap=True)
