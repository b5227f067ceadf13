"""`factgym audit ENV` and `factgym validate ENV`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factgym.cli.options import (
    AgentSettings,
    DataPath,
    EnvId,
    KeyValues,
    Reward,
    Seed,
    Settings,
    Split,
    key_value,
    make_env,
    parse_settings,
)
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.paths import is_folder
from factgym.core.strategies import Strategy

if TYPE_CHECKING:
    from factgym.agents.agent import Agent


def audit(
    env: EnvId,
    n: Annotated[int, typer.Option("-n", "--episodes", min=2, help="How many tasks each agent plays.")] = 200,
    seed: Seed = 0,
    split: Split = None,
    reward: Reward = None,
    path: DataPath = None,
    settings: Settings = None,
    search: Annotated[bool, typer.Option("--search", help="Search the strategy space for what earns most.")] = False,
    budget: Annotated[int, typer.Option(min=20, help="Training episodes of --search.")] = 4000,
    attacker: Annotated[
        str | None, typer.Option(metavar="AGENT", help="An agent that writes strategies for --search, as in eval.")
    ] = None,
    agent_set: AgentSettings = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="The honest baseline: an agent as in eval, or the folder of a run."),
    ] = None,
    baseline_set: Annotated[
        KeyValues, key_value("A setting of --baseline, such as --baseline-set max_tokens=900.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="Write the outcome of --search to this JSON file.")] = None,
) -> None:
    """Play exploiters against the oracle and an honest baseline, or search for them (--search).

    Exit code 1 when an exploiter reaches the baseline, or when the tasks are too few to show that none does.
    """
    environment = make_env(env, settings, split=split, reward=reward, path=path)
    honest = _baseline(environment, baseline, parse_settings(baseline_set, "--baseline-set"))
    if search:
        values = parse_settings(agent_set, "--agent-set")
        passed = _search(environment, n, seed, budget, attacker, values, honest, certificate)
    elif attacker is not None or certificate is not None or agent_set:
        raise ConfigError("--attacker, --agent-set and --certificate go with --search")
    else:
        passed = _audit(environment, n, seed, honest)
    if not passed:
        raise typer.Exit(1)


def _baseline(environment: Env[Any], text: str | None, settings: dict[str, Any]) -> Agent | None:
    """Return the agent of --baseline. Raises ConfigError for settings without an agent that takes them."""
    from factgym.agents.replay import recorded_agent
    from factgym.agents.resolve import find_agent

    is_run = text is not None and ":" not in text and is_folder(text)
    if settings and (text is None or is_run):
        raise ConfigError("--baseline-set goes with --baseline AGENT; a recorded run has no settings")
    if text is None:
        return None
    return recorded_agent(text, environment) if is_run else find_agent(text, environment.env_spec.id, settings)


def _audit(environment: Env[Any], n: int, seed: int, baseline: Agent | None) -> bool:
    from rich.console import Console
    from rich.progress import Progress

    from factgym.benchmarks.audit import render_audit, run_audit
    from factgym.cli.display import RepeatedTracebacks

    console = Console(highlight=False)
    with RepeatedTracebacks(), Progress(console=console, transient=True) as progress:
        bar = progress.add_task("playing", total=None)
        audit_result = run_audit(
            environment,
            n=n,
            seed=seed,
            on_episode=lambda name, done: progress.update(bar, description=f"{name} {done}/{n}"),
            baseline=baseline,
        )
    console.print(render_audit(audit_result.rows, audit_result.judged, audit_result.title))
    _print_warnings(environment)
    return audit_result.passed


def _search(
    environment: Env[Any],
    n: int,
    seed: int,
    budget: int,
    attacker: str | None,
    settings: dict[str, Any],
    baseline: Agent | None,
    file: Path | None,
) -> bool:
    from rich.console import Console
    from rich.progress import Progress

    from factgym.agents.resolve import find_agent
    from factgym.agents.runs.files import write_json
    from factgym.benchmarks.formats import count
    from factgym.benchmarks.search.attacker import ask_attacker
    from factgym.benchmarks.search.certificate import certificate, render_search
    from factgym.benchmarks.search.run import run_search
    from factgym.cli.display import RepeatedTracebacks

    console = Console(highlight=False)
    with RepeatedTracebacks(), Progress(console=console, transient=True) as progress:
        bar = progress.add_task("searching", total=budget)
        first: tuple[Strategy, ...] = ()
        if attacker is not None:
            progress.update(bar, description=f"{attacker} writes strategies")
            attack = ask_attacker(environment, find_agent(attacker, environment.env_spec.id, settings), seed=seed)
            first = attack.strategies
            text = f"{attacker} wrote {count(len(first), 'strategy', 'strategies')} and {attack.invalid} that are none."
            console.print("\n".join([text, *attack.errors]), markup=False)
        result = run_search(
            environment,
            budget=budget,
            n=n,
            seed=seed,
            first=first,
            attacker=attacker or "",
            baseline=baseline,
            on_progress=lambda phase, done, total: progress.update(
                bar, description=f"{phase} {done}/{total}", completed=done, total=total
            ),
        )
    console.print(render_search(result))
    _print_warnings(environment)
    if file is not None:
        write_json(file, certificate(result))
    return result.passed


def _print_warnings(environment: Env[Any]) -> None:
    from rich.console import Console

    for note in environment.warnings():
        Console(highlight=False).print(f"\n{note}", markup=False, style="yellow")


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
        print(json.dumps({**validation.to_dict(), "certificate": validation.certificate}, indent=2, ensure_ascii=False))
    else:
        Console(highlight=False).print(render_validation(validation))
    if out is not None:
        for file in write_validation(validation, out):
            Console(highlight=False, stderr=True).print(f"Wrote {file}", markup=False)
    if not validation.passed:
        raise typer.Exit(1)
