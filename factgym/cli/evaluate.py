"""`factgym eval ENV`: play episodes and show their rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from factgym.cli.options import (
    AgentSettings,
    BaseUrl,
    Concurrency,
    DataPath,
    EnvId,
    MaxErrors,
    MaxTokens,
    Prices,
    Ray,
    RayGpus,
    RayWorkers,
    Resume,
    Reward,
    Seed,
    Settings,
    Split,
    Tasks,
    Temperature,
    Timeout,
    agent_settings,
    chosen_tasks,
    make_env,
    price_table,
    rollout_engine,
)

_AGENT = (
    "The policy: a scripted agent (`factgym info ENV` lists them), openai:MODEL, http://HOST:PORT/v1, hf:FOLDER, "
    "path/to/file.py:Name, majority:N:AGENT or best:N:AGENT. Default the environment's honest baseline."
)


def evaluate(
    env: EnvId,
    agent: Annotated[str | None, typer.Option(help=_AGENT)] = None,
    n: Annotated[int, typer.Option("-n", "--episodes", min=1, help="Number of tasks.")] = 200,
    k: Annotated[int, typer.Option("-k", "--samples", min=1, help="Episodes of each task (a group).")] = 1,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default runs/ENV-AGENT.")] = None,
    resume: Resume = False,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
    tasks: Tasks = None,
    base_url: BaseUrl = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    tools: Annotated[str | None, typer.Option(help="How a model calls tools: auto, native or text.")] = None,
    agent_set: AgentSettings = None,
    concurrency: Concurrency = 64,
    timeout: Timeout = None,
    max_errors: MaxErrors = None,
    prices: Prices = None,
    ray: Ray = None,
    ray_workers: RayWorkers = None,
    ray_gpus: RayGpus = 0.0,
) -> None:
    """Play episodes and show their rewards. One JSON line per episode goes to the run's folder."""
    from rich.console import Console

    from factgym.agents.resolve import find_agent, honest_baseline
    from factgym.agents.rollout.engine import Limits
    from factgym.agents.runs.collect import collect
    from factgym.agents.runs.read import read_run
    from factgym.agents.runs.write import free_folder, last_folder
    from factgym.benchmarks.benchmark import folder_name
    from factgym.benchmarks.costs import model_of
    from factgym.benchmarks.metrics import summarise
    from factgym.benchmarks.tables import render_summary
    from factgym.cli.display import raise_stop, run_displayed

    values = agent_settings(agent_set, base_url=base_url, temperature=temperature, max_tokens=max_tokens, tools=tools)
    agent = agent or honest_baseline(env)
    policy = find_agent(agent, env, values)
    environment = chosen_tasks(make_env(env, settings, split=split, reward=reward, path=path), tasks, ray)
    limits = Limits(concurrency=concurrency, episode_timeout=timeout, max_errors=max_errors)
    table = price_table(prices)
    engine = rollout_engine(ray, agent, values, ray_workers, ray_gpus)
    name = folder_name(f"{environment.env_spec.id}-{agent}")
    folder = out or (last_folder if resume else free_folder)(Path("runs"), name)
    console = Console(highlight=False)
    options = {"n": n, "k": k, "seed": seed, "limits": limits, "resume": resume, "engine": engine}
    _, stop = run_displayed(
        console,
        f"{env} · {agent}",
        lambda on_start: collect(environment, policy, folder, on_start=on_start, **options),
    )
    run = read_run(folder)
    summary = summarise(run.episodes(), table, model=model_of(run.manifest))
    if summary.n:
        notes = [*run.notes, *run.warnings]
        total = len(environment.tasks)
        if total < n:
            notes.append(f"The split has {total} tasks, fewer than the {n} requested.")
        console.print(render_summary(summary, notes))
        files = f"Episodes: {folder / 'episodes.jsonl'}\nBrowse:   factgym view {folder}"
        console.print(files, markup=False, soft_wrap=True)
    raise_stop(console, stop, folder, f"--resume --out {folder}")
