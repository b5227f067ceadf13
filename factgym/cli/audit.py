"""`factgym audit ENV`."""

from __future__ import annotations

from typing import Annotated

import typer

from factgym.cli.options import DataPath, EnvId, Reward, Seed, Settings, Split, make_env


def audit(
    env: EnvId,
    n: Annotated[int, typer.Option("-n", "--episodes", min=2, help="How many tasks each agent plays.")] = 200,
    seed: Seed = 0,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
) -> None:
    """Play exploiters against the oracle and an honest baseline. Exit code 1 when an exploiter reaches the baseline."""
    from rich.console import Console
    from rich.progress import Progress

    from factgym.benchmarks.audit import render_audit, run_audit

    environment = make_env(env, settings, split=split, reward=reward, path=path)
    console = Console(highlight=False)
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("playing", total=None)
        audit_result = run_audit(
            environment,
            n=n,
            seed=seed,
            on_episode=lambda name, done: progress.update(bar, description=f"{name} {done}/{n}"),
        )
    console.print(render_audit(audit_result.rows, audit_result.judged, audit_result.title))
    for note in environment.warnings():
        console.print(f"\n{note}", markup=False, style="yellow")
    if not audit_result.passed:
        raise typer.Exit(1)
