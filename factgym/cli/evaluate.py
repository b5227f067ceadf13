"""`factgym eval ENV`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factgym.cli.options import (
    DataPath,
    EnvId,
    Prices,
    Ray,
    RayGpus,
    RayWorkers,
    Reward,
    Seed,
    Settings,
    Split,
    Tasks,
    chosen_tasks,
    engine_of,
    make_env,
    parse_settings,
    price_table,
)
from factgym.cli.termination import Termination

if TYPE_CHECKING:
    from factgym.agents.rollout.jobs import Progress

_AGENT = (
    "Who plays: a scripted agent (`factgym info ENV` lists them), openai:MODEL, http://HOST:PORT/v1, hf:FOLDER, "
    "path/to/file.py:Name, majority:N:AGENT or best:N:AGENT. Default the environment's honest baseline."
)


def evaluate(
    env: EnvId,
    agent: Annotated[str | None, typer.Option(help=_AGENT)] = None,
    n: Annotated[int, typer.Option("-n", "--episodes", min=1, help="How many tasks.")] = 200,
    k: Annotated[int, typer.Option("-k", "--samples", min=1, help="How many episodes of each task (a group).")] = 1,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the episodes; default runs/ENV-AGENT.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder, if there is one.")] = False,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
    tasks: Tasks = None,
    base_url: Annotated[str | None, typer.Option(help="Where the server of openai:MODEL is.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature of a model; 0 is greedy.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens of one reply of a model.")] = None,
    tools: Annotated[str | None, typer.Option(help="How a model calls tools: auto, native or text.")] = None,
    agent_set: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Any other setting of the agent, e.g. --agent-set top_p=0.9."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes at a time.")] = 64,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which an episode is an error.")] = None,
    max_errors: Annotated[
        int | None, typer.Option(min=0, help="Stop after this many infrastructure errors in a row (0: never).")
    ] = None,
    prices: Prices = None,
    ray: Ray = None,
    ray_workers: RayWorkers = None,
    ray_gpus: RayGpus = 0.0,
) -> None:
    """Play episodes and show what they earned. One JSON line per episode goes to the run's folder."""
    from rich.console import Console

    from factgym.agents.resolve import find_agent, honest_baseline
    from factgym.agents.rollout.engine import Limits
    from factgym.agents.runs.collect import collect
    from factgym.agents.runs.read import read_run
    from factgym.agents.runs.write import free_folder, last_folder
    from factgym.benchmarks.benchmark import folder_name
    from factgym.cli.display import Display
    from factgym.core.errors import FactgymError

    given = {"base_url": base_url, "temperature": temperature, "max_tokens": max_tokens, "tools": tools}
    values = parse_settings(agent_set or [], "--agent-set") | {k: v for k, v in given.items() if v is not None}
    agent = agent or honest_baseline(env)
    chosen = find_agent(agent, env, values)
    world = chosen_tasks(make_env(env, settings, split=split, reward=reward, path=path), tasks, ray)
    limits = Limits(concurrency=concurrency, episode_timeout=timeout, max_errors=max_errors)
    table = price_table(prices)
    engine = engine_of(ray, agent, values, ray_workers, ray_gpus)
    folder = out or (last_folder if resume else free_folder)(Path("runs"), folder_name(f"{world.env_spec.id}-{agent}"))
    console = Console(highlight=False)
    stopped: FactgymError | None = None
    interrupted = False
    with Display(console, f"{env} · {agent}") as display, Termination() as termination:

        def watch(progress: Progress) -> None:
            display.watch(progress)
            termination.watch()

        try:
            collect(
                world,
                chosen,
                folder,
                n=n,
                k=k,
                seed=seed,
                limits=limits,
                resume=resume,
                on_start=watch,
                engine=engine,
            )
        except (KeyboardInterrupt, asyncio.CancelledError):
            if display.progress is None:  # nothing was begun
                raise typer.Exit(130) from None
            interrupted = True
        except FactgymError as error:
            if display.progress is None:
                raise
            stopped = error
    run = read_run(folder)
    _show(console, run, table, short_of=n if len(world.tasks) < n else None, total=len(world.tasks))
    if interrupted:
        said = f"Stopped. What was finished is in {folder}; continue with --resume --out {folder}"
        console.print(said, markup=False, soft_wrap=True)
        raise typer.Exit(130)
    if stopped is not None:
        raise FactgymError(f"{stopped}. Continue with --resume --out {folder}") from stopped


def _show(console: Any, run: Any, prices: Any, *, short_of: int | None, total: int) -> None:
    from factgym.benchmarks.costs import model_of
    from factgym.benchmarks.metrics import summarise
    from factgym.benchmarks.tables import render_summary

    summary = summarise(run.episodes(), prices, model=model_of(run.manifest))
    if not summary.n:
        return
    notes = [*run.notes, *run.warnings]
    if short_of is not None:
        notes.append(f"The split has {total} tasks, fewer than the {short_of} asked for.")
    console.print(render_summary(summary, notes))
    console.print(
        f"Episodes: {run.folder / 'episodes.jsonl'}\nBrowse:   factgym view {run.folder}", markup=False, soft_wrap=True
    )
