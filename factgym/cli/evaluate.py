"""`factgym eval ENV`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from factgym.cli.options import DataPath, EnvId, Reward, Seed, Settings, Split, make_env


def evaluate(
    env: EnvId,
    agent: Annotated[str, typer.Option(help="Who plays; `factgym info ENV` lists the scripted agents.")] = "nli",
    n: Annotated[int, typer.Option("-n", "--episodes", min=1, help="How many episodes.")] = 200,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the episodes; default runs/ENV-AGENT.")] = None,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
) -> None:
    """Play episodes and show what they earned. One JSON line per episode goes to the run's folder."""
    from rich.console import Console

    from factgym.agents.players import find_player
    from factgym.agents.rollout import play_many, task_order
    from factgym.agents.runs import RunWriter, free_folder, manifest_of
    from factgym.benchmarks.summary import summarise
    from factgym.benchmarks.tables import render_summary

    player = find_player(env, agent)
    world = make_env(env, settings, split=split, reward=reward, path=path)
    order = task_order(len(world.tasks), n, seed)
    folder = out or free_folder(Path("runs"), f"{world.env_spec.id}-{agent}")
    console = Console(highlight=False)
    episodes = []
    manifest = manifest_of(world, agent, len(order), seed)
    with RunWriter(folder, manifest) as writer:
        try:
            for episode in _shown(play_many(world, player, order, seed), len(order), console):
                writer.add(episode)
                episodes.append(episode)
        except KeyboardInterrupt:
            console.print(f"Stopped; {len(episodes)} of {len(order)} episodes are in {folder}.", markup=False)
    if len(order) < n:
        console.print(f"The split has {len(order)} tasks; each was played once.", markup=False)
    if episodes:
        console.print(render_summary(summarise(episodes)))
        console.print(
            f"Episodes: {folder / 'episodes.jsonl'}\nBrowse:   factgym view {folder}", markup=False, soft_wrap=True
        )
    else:
        raise typer.Exit(130)


def _shown(episodes: Any, total: int, console: Any) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("playing", total=total)
        earned = scored = 0.0
        for done, episode in enumerate(episodes, 1):
            yield episode
            value = (episode["reward"] or {}).get("total")
            if value is not None:
                earned, scored = earned + value, scored + 1
            mean = f"reward {earned / scored:.3f}" if scored else "no score yet"
            progress.update(bar, completed=done, description=mean)
