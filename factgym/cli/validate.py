"""`factgym validate ENV`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from factgym.cli.options import DataPath, EnvId, Reward, Seed, Settings, Split, parse_settings


def validate(
    env: EnvId,
    n: Annotated[int, typer.Option("-n", "--episodes", min=2, help="How many tasks each scripted agent plays.")] = 200,
    budget: Annotated[int, typer.Option(min=20, help="Training episodes of the search for exploits.")] = 300,
    seed: Seed = 0,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
    oracle: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the highest reward that the oracle has to reach.")
    ] = 0.5,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for ENV.validation.json, the badge ENV.svg and the search's ENV.certificate.json."),
    ] = None,
) -> None:
    """Validate an environment: Gymnasium's checker, determinism, oracle and teacher, leaks, audit, card and licence.

    Any environment, `package.module:id` too. Exit code 1 when a check fails.
    """
    from rich.console import Console
    from rich.status import Status

    from factgym.benchmarks.validation import render_validation, write_validation
    from factgym.benchmarks.validation import validate as run_validation
    from factgym.cli.display import RepeatedTracebacks

    config = parse_settings(settings, split=split, reward=reward, path=path)
    with RepeatedTracebacks(), Status("validating", console=Console(stderr=True)) as status:
        validation = run_validation(
            env, config, n=n, budget=budget, seed=seed, oracle_share=oracle, on_check=lambda name: status.update(name)
        )
    if json_output:
        data = {**validation.to_dict(), "certificate": validation.certificate}
        print(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        Console(highlight=False).print(render_validation(validation))
    if out is not None:
        for file in write_validation(validation, out):
            Console(highlight=False, stderr=True).print(f"Wrote {file}", markup=False)
    if not validation.passed:
        raise typer.Exit(1)
