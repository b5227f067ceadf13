"""`factgym eval ENV`: play episodes and show their rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from factgym.cli import options, sinks

_AGENT = (
    "The policy: a scripted agent (`factgym info ENV` lists them), openai:MODEL, http://HOST:PORT/v1, hf:FOLDER, nli:FOLDER, "
    "path/to/file.py:Name, majority:N:AGENT or best:N:AGENT. Default the environment's honest baseline."
)


def evaluate(
    env: options.EnvId,
    agent: Annotated[str | None, typer.Option(help=_AGENT)] = None,
    n: Annotated[int, typer.Option("-n", "--episodes", min=1, help="Number of tasks.")] = 200,
    k: Annotated[int, typer.Option("-k", "--samples", min=1, help="Episodes of each task (a group).")] = 1,
    seed: options.Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default runs/ENV-AGENT.")] = None,
    resume: options.Resume = False,
    split: options.Split = None,
    reward: options.Reward = None,
    path: options.DataPath = None,
    settings: options.Settings = None,
    tasks: options.Tasks = None,
    base_url: options.BaseUrl = None,
    temperature: options.Temperature = None,
    max_tokens: options.MaxTokens = None,
    tools: Annotated[str | None, typer.Option(help="How a model calls tools: auto, native or text.")] = None,
    agent_set: options.AgentSettings = None,
    concurrency: options.Concurrency = 64,
    timeout: options.Timeout = None,
    max_errors: options.MaxErrors = None,
    prices: options.Prices = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the numbers to this file.")] = None,
    tensorboard: sinks.TensorBoard = False,
    trackio: sinks.Trackio = False,
    wandb: sinks.WeightsAndBiases = False,
    workers: options.Workers = None,
    ray: options.Ray = None,
    ray_workers: options.RayWorkers = None,
    ray_gpus: options.RayGpus = 0.0,
) -> None:
    """Play episodes and show their rewards. One JSON line per episode goes to the run's folder."""
    from rich.console import Console

    from factgym.agents.resolve import find_agent, honest_baseline
    from factgym.agents.rollout.engine import Limits
    from factgym.agents.runs.collect import collect
    from factgym.agents.runs.files import write_json
    from factgym.agents.runs.read import read_run
    from factgym.agents.runs.write import free_folder, last_folder
    from factgym.benchmarks.benchmark import folder_name
    from factgym.benchmarks.costs import model_of, read_prices
    from factgym.benchmarks.metrics import summarise
    from factgym.benchmarks.tables import render_summary
    from factgym.cli.display import raise_stop, run_displayed

    dashboards = {"tensorboard": tensorboard, "trackio": trackio, "wandb": wandb}
    sinks.check_sinks(**dashboards)
    model = {"base_url": base_url, "temperature": temperature, "max_tokens": max_tokens, "tools": tools}
    values = options.parse_settings(agent_set, "--agent-set", **model)
    agent = honest_baseline(env) if agent is None else agent
    policy = find_agent(agent, env, values)
    environment = options.chosen_tasks(options.make_env(env, settings, split=split, reward=reward, path=path), tasks)
    limits = Limits(concurrency=concurrency, episode_timeout=timeout, max_errors=max_errors)
    table = read_prices(prices) if prices else None
    engine = options.rollout_engine(agent, values, workers, ray, ray_workers, ray_gpus)
    name = folder_name(f"{environment.env_spec.id}-{agent}")
    folder = out or (last_folder if resume else free_folder)(Path("runs"), name)
    console = Console(highlight=False)
    rollouts = {"n": n, "k": k, "seed": seed, "limits": limits, "resume": resume, "engine": engine}
    _, stop = run_displayed(
        console,
        f"{env} · {agent}",
        lambda on_start: collect(environment, policy, folder, on_start=on_start, **rollouts),
    )
    run = read_run(folder)
    summary = summarise(run.episodes(), table, model=model_of(run.manifest), bounds=run.reward_bounds)
    if summary.n:
        notes = [*run.notes, *run.warnings]
        total = len(environment.tasks)
        if total < n:
            notes.append(f"The split has {total} tasks, fewer than the {n} requested.")
        console.print(render_summary(summary, notes))
        files = f"Episodes: {folder / 'episodes.jsonl'}\nBrowse:   factgym view {folder}"
        console.print(files, markup=False, soft_wrap=True)
        if json_file is not None:
            write_json(json_file, {**summary.to_dict(), "notes": notes})
    raise_stop(console, stop, folder, f"--resume --out {folder}")
    if summary.scored:
        from factgym.training.recipes.evaluation import scores_of

        with sinks.opened_sinks(folder, dict(run.manifest), **dashboards) as log:
            log(scores_of(summary), 0)
    if summary.n and not summary.scored:
        console.print(f"No episode was scored: continue with --resume --out {folder}", markup=False, soft_wrap=True)
        raise typer.Exit(1)
