"""`factgym compare`, `rescore` and `score`: two runs in pairs, and scores of messages that exist already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from factgym.cli import options

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Out = Annotated[Path, typer.Option(help="Folder of the new run.")]


def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="The folder of a run.")],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", help="The run that is set beside it.")],
    gate: Annotated[
        Path | None,
        typer.Option(help="A TOML file: [NAME] is a run inside both folders, `reward = -0.02` the least difference."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--json", help="Write the differences to this file.")] = None,
) -> None:
    """Show the differences of two runs of the same tasks, in pairs. With a gate, exit code 1 unless all conditions hold."""
    from rich.console import Console

    from factgym.agents.runs.files import write_json
    from factgym.agents.runs.read import read_run
    from factgym.benchmarks.comparison import compare_folders, compare_runs, comparison_report, read_gate
    from factgym.benchmarks.terminal import render_report

    console = Console(highlight=False)
    limits = read_gate(gate) if gate else []
    comparisons = (
        compare_folders(first, second, limits) if limits else {".": compare_runs(read_run(first), read_run(second))}
    )
    for part in render_report(comparison_report(comparisons)):
        console.print(part)
    results = [(limit, limit.holds(comparisons[limit.section])) for limit in limits]
    for limit, holds in results:
        low = comparisons[limit.section].find(limit.value).difference.low
        bound = "there is no interval" if low is None else f"the interval begins at {low:+.3f}"
        text = f"[{limit.section}] {limit.value}: at least {limit.least:+}, {bound}"
        console.print(f"{'holds' if holds else 'FAILS'}  {text}", markup=False, soft_wrap=True)
    if out is not None:
        data: dict[str, Any] = {name: comparison.to_dict() for name, comparison in comparisons.items()}
        if limits:
            data["gate"] = all(holds for _, holds in results)
        write_json(out, data)
    if not all(holds for _, holds in results):
        raise typer.Exit(1)


def rescore(run: RunPath, out: Out, reward: options.Reward = None, settings: options.Settings = None) -> None:
    """Score a run's stored episodes again, under another reward or setting, without a model. Writes a new run."""
    from factgym.agents.replay import run_outputs, stored_config
    from factgym.agents.runs.read import read_run

    stored = read_run(run)
    env_id, config = stored_config(stored.manifest)
    env = options.make_env(env_id, None, **{**config, **options.parse_settings(settings, "--set", reward=reward)})
    outputs, faults = run_outputs(stored, env)
    if env.prompt_hashes() != stored.manifest.get("prompts"):
        print(f"The episodes were played under another prompt than that of {env_id} with these settings.")
    if faults:
        print(f"{faults} episodes that a fault of the infrastructure ended are left out.")
    about = {"run": str(run), "played_by": stored.manifest.get("agent")}
    seed = stored.manifest.get("seed")
    _score(env, str(stored.manifest.get("agent")), outputs, seed if isinstance(seed, int) else 0, about, out)


def score(
    env: options.EnvId,
    file: Annotated[
        Path, typer.Argument(help='JSON lines {"task": ID, "output": TEXT} or {"task": ID, "messages": […]}.')
    ],
    out: Out,
    split: options.Split = None,
    reward: options.Reward = None,
    path: options.DataPath = None,
    settings: options.Settings = None,
) -> None:
    """Score outputs that were made elsewhere. Writes a run, as `factgym eval` does."""
    from factgym.agents.replay import file_outputs

    environment = options.make_env(env, settings, split=split, reward=reward, path=path)
    _score(environment, file.stem, file_outputs(file, environment), 0, {"file": str(file)}, out)


def _score(env: Any, name: str, outputs: Any, seed: int, about: dict[str, Any], out: Path) -> None:
    from rich.console import Console

    from factgym.agents.replay import replay_agent
    from factgym.agents.runs.collect import collect
    from factgym.benchmarks.metrics import summarise
    from factgym.benchmarks.tables import render_summary

    agent, jobs = replay_agent(name, outputs, seed, about)
    run = collect(env, agent, out, seed=seed, jobs=jobs)
    console = Console(highlight=False)
    console.print(render_summary(summarise(run.episodes(), bounds=run.reward_bounds), [*run.notes, *run.warnings]))
    console.print(f"Episodes: {out / 'episodes.jsonl'}", markup=False, soft_wrap=True)
