"""`factgym filter ENV`: keep the questions that a policy answers correctly sometimes, neither always nor never."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from factgym.cli import options

_AGENT = "The policy: openai:MODEL, http://HOST:PORT/v1, hf:FOLDER, path/to/file.py:Name, or a scripted agent."
_CORRECT = (
    "When a sample is correct: auto (the report's label, else its verdict), verdict, reward>=0.5, or a metric's NAME or "
    "NAME>=VALUE."
)


def filter_command(
    env: options.EnvId,
    agent: Annotated[str, typer.Option(help=_AGENT)],
    out: Annotated[Path, typer.Option(help="Folder of the samples and of the selection.")],
    samples: Annotated[int, typer.Option("-G", "--group", min=2, help="Samples of each question.")] = 16,
    keep: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Keep LOW ≤ n_correct ≤ HIGH; default 1 to G - 1.")
    ] = None,
    anchors: Annotated[
        int, typer.Option(min=0, help="Also keep this many questions that are always correct, drawn by the seed.")
    ] = 0,
    correct: Annotated[str, typer.Option(metavar="RULE", help=_CORRECT)] = "auto",
    n: Annotated[int | None, typer.Option("-n", "--episodes", min=1, help="Number of questions; default all.")] = None,
    seed: options.Seed = 0,
    resume: options.Resume = False,
    tasks: options.Tasks = None,
    split: options.Split = None,
    reward: options.Reward = None,
    path: options.DataPath = None,
    settings: options.Settings = None,
    base_url: options.BaseUrl = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature of a model; default 0.7.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Nucleus of a model's sampling; default 0.95.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Maximum tokens of one reply; default 512.")] = None,
    agent_set: options.AgentSettings = None,
    concurrency: options.Concurrency = 64,
    timeout: options.Timeout = None,
    max_errors: options.MaxErrors = None,
    workers: options.Workers = None,
    ray: options.Ray = None,
    ray_workers: options.RayWorkers = None,
    ray_gpus: options.RayGpus = 0.0,
) -> None:
    """Sample G answers to each question and keep the questions that are correct sometimes.

    Writes the samples as a run, kept.jsonl (the kept questions), tasks.txt (their ids) and filter.json (the counts).
    """
    from rich.console import Console

    from factgym.agents.difficulty import SAMPLING, DifficultyBand, find_rule, select
    from factgym.agents.resolve import find_agent, is_model
    from factgym.agents.rollout.engine import Limits
    from factgym.agents.runs.read import read_run
    from factgym.benchmarks.tables import render_selection
    from factgym.cli.display import raise_stop, run_displayed
    from factgym.core.registry import spec
    from factgym.training.difficulty_filter import KEPT, TASKS, filter_tasks

    band = DifficultyBand.parse(keep, samples=samples, anchors=anchors, seed=seed)
    rule = find_rule(correct)
    sampling: dict[str, Any] = dict(SAMPLING) if is_model(agent) else {}
    model = {"base_url": base_url, "temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
    values = sampling | options.parse_settings(agent_set, "--agent-set", **model)
    policy = find_agent(agent, env, values)
    entry = spec(env)
    # The training prompt, if the environment has one and no prompt was chosen.
    chosen = {*options.parse_settings(settings), *entry.kwargs}
    prompt = ["prompt=train"] if "prompt" in entry.load().Config.model_fields and "prompt" not in chosen else []
    environment = options.make_env(env, [*(settings or []), *prompt], split=split, reward=reward, path=path)
    environment = options.chosen_tasks(environment, tasks)
    engine = options.rollout_engine(agent, values, workers, ray, ray_workers, ray_gpus)
    limits = Limits(concurrency=concurrency, episode_timeout=timeout, max_errors=max_errors)
    rollouts = {"n": n, "seed": seed, "limits": limits, "resume": resume, "engine": engine}
    console = Console(highlight=False)
    selection, stop = run_displayed(
        console,
        f"{environment.env_spec.id} · {policy.name}",
        lambda on_start: filter_tasks(environment, policy, out, band, rule, on_start=on_start, **rollouts),
    )
    if selection is None:
        run = read_run(out)
        selection = select(run.episodes(), band, rule)
        for note in run.notes:
            console.print(note, markup=False, style="yellow")
    if selection.buckets.pool or stop is None:
        console.print(render_selection(selection, policy.name, environment.env_spec.id))
    raise_stop(console, stop, out)
    files = f"{len(selection.retained):,} questions in {out / KEPT}, their ids in {out / TASKS}"
    console.print(f"Kept:    {files}\nSamples: factgym view {out}", markup=False, soft_wrap=True)
