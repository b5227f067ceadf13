"""`factgym evolve eve`: the proposer's phase, the data set that it writes, and the solver's phase."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factgym.cli.evolving import Command, Concurrency, Resume, TrainerSettings, kept, trainer_settings
from factgym.cli.options import Seed, parse_settings
from factgym.core.errors import ConfigError

if TYPE_CHECKING:
    from factgym.training.eve import EveSettings, Learner

_POLICY = "as `factgym eval` takes it"


class Draw(StrEnum):
    """How passages are drawn."""

    UNIFORM = "uniform"
    SELECTOR = "selector"


class Value(StrEnum):
    """How the value of evidence is found."""

    SAMPLING = "sampling"
    LOGPROB = "logprob"


def eve(
    passages: Annotated[
        str | None, typer.Option(metavar="PATH", help="File or folder of passages; default a generated world.")
    ] = None,
    layout: Annotated[str, typer.Option(help="Layout of that file; found out by default.")] = "auto",
    proposer: Annotated[str, typer.Option(help=f"Who writes the questions, {_POLICY}.")] = "extractive",
    solver: Annotated[str, typer.Option(help=f"Who answers them, {_POLICY}.")] = "extractive",
    auxiliary: Annotated[
        str | None, typer.Option(help="Who answers without evidence, when V is found; default the solver.")
    ] = None,
    cache: Annotated[
        str | None, typer.Option(metavar="FILE", help="Keep the answers that score proposals in this file.")
    ] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations of Phase A, the proposer's.")] = 3,
    solver_iterations: Annotated[
        int | None, typer.Option(min=0, help="Iterations of Phase B, the solver's; default as many.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Passages of an iteration of Phase A.")] = 64,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the data set in an iteration of Phase B.")] = 64,
    group: Annotated[int, typer.Option(min=2, help="Episodes of each row.")] = 5,
    prompts: Annotated[
        int, typer.Option(min=0, help="Held-out passages that the data set is written from; 0 for all.")
    ] = 128,
    samples: Annotated[int, typer.Option(min=1, help="Rollouts of each of them.")] = 5,
    held_out: Annotated[float, typer.Option(help="Share of the passages that is held out for it.")] = 0.2,
    min_value: Annotated[
        float | None, typer.Option(help="Least V of a row; default any, as long as it is valid.")
    ] = None,
    draw: Annotated[Draw, typer.Option(help="How Phase A draws passages: uniformly, or by the selector.")] = (
        Draw.UNIFORM
    ),
    hops: Annotated[str, typer.Option(metavar="W1:W2:…", help="How often 1, 2, … hops are asked for.")] = "4:3:2:1",
    n: Annotated[int, typer.Option("-n", min=2, help="Searching answers to each question.")] = 5,
    m: Annotated[int, typer.Option("-m", min=1, help="Answers with, and without, the evidence.")] = 5,
    value: Annotated[Value, typer.Option(help="V from m answers each way, or from log-probabilities.")] = (
        Value.SAMPLING
    ),
    reward: Annotated[str | None, typer.Option(help="The proposer's reward; default the environment's.")] = None,
    solver_reward: Annotated[str | None, typer.Option(help="The solver's.")] = None,
    index: Annotated[str, typer.Option(help="What the search tool ranks by: bm25, dense, hybrid …")] = "bm25",
    size: Annotated[int | None, typer.Option(min=1, help="Passages at most, or size of the world.")] = None,
    trainer: Annotated[str, typer.Option(help="none, check, command or FILE.py:Class.")] = "none",
    solver_trainer: Annotated[str | None, typer.Option(help="Of Phase B, where it is another one.")] = None,
    command: Command = None,
    trainer_set: TrainerSettings = None,
    index_set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the index. Repeatable.")
    ] = None,
    selector_set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the selector. Repeatable.")
    ] = None,
    proposer_set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the proposer. Repeatable.")
    ] = None,
    solver_set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the solver. Repeatable.")
    ] = None,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder for everything.")] = Path("runs/evolve-eve"),
    resume: Resume = False,
    concurrency: Concurrency = 16,
) -> None:
    """A proposer learns to write questions with evidence that can be checked; a solver learns from what it writes.

    Phase A scores proposer rollouts against a fixed solver and gives HRPO advantages; the frozen proposer then writes
    the solver's data set from held-out passages; Phase B gives GRPO advantages to groups of solver episodes. Rows go
    to a trainer; without one nothing is learned, and everything is scored and kept all the same.
    """
    from rich.console import Console

    from factgym.agents.rollout.engine import Limits
    from factgym.training import Callbacks
    from factgym.training.eve import EveEvolution

    settings = _built(
        passages=passages,
        layout=layout,
        size=size,
        index=index,
        index_options=parse_settings(index_set or [], "--index-set"),
        held_out=held_out,
        batch=batch,
        hop_weights=_weights(hops),
        draw=draw.value,
        selector=parse_settings(selector_set or [], "--selector-set"),
        prompts=prompts or None,
        samples=samples,
        min_value=min_value,
        rows=rows,
        group=group,
        n=n,
        m=m,
        value=value.value,
        reward=reward,
        solver_reward=solver_reward,
        seed=seed,
    )
    console = Console(highlight=False)
    own = trainer_settings(trainer, command, trainer_set or [])
    evolution = EveEvolution(
        out,
        settings,
        _learner("proposer", proposer, proposer_set or [], trainer, own),
        _learner("solver", solver, solver_set or [], solver_trainer or trainer, {} if solver_trainer else own),
        _scoring(solver, solver_set or [], auxiliary, cache),
        Limits(concurrency=concurrency),
        Callbacks(lambda said: console.print(said, markup=False, style="dim")),
    )
    with kept(console, out):
        evolution.run(iterations, iterations if solver_iterations is None else solver_iterations, resume=resume)
    _show(console, out)


def _built(**values: Any) -> EveSettings:
    from factgym.training.eve import EveSettings

    return EveSettings(**values)


def _weights(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(":"))
    except ValueError:
        raise ConfigError(f"--hops takes weights such as 4:3:2:1, not {text!r:.80}") from None


def _learner(role: str, text: str, settings: list[str], trainer: str, trained: dict[str, Any]) -> Learner:
    from factgym.agents.resolve import find_agent
    from factgym.training import find_trainer
    from factgym.training.eve import EVE_TRAINERS, Learner

    env_id = f"eve-{role}"
    values = parse_settings(settings, f"--{role}-set")
    own = {**trained, "env": env_id} if trainer == "command" else trained
    found = find_agent(text, env_id, values)
    if dict(found.describe()).get("role") == "oracle":
        raise ConfigError(f"{text!r} is told the answer: nothing can be learned from it")
    return Learner(role, lambda: find_agent(text, env_id, values), find_trainer(trainer, own, EVE_TRAINERS))


def _scoring(solver: str, settings: list[str], auxiliary: str | None, cache: str | None) -> dict[str, Any]:
    """What proposals are scored with: the solver as it is at the start."""
    values = parse_settings(settings, "--solver-set")
    found = {"solver": solver, "solver_settings": values or None, "auxiliary": auxiliary, "cache": cache}
    return {name: value for name, value in found.items() if value is not None}


def _show(console: Any, out: Path) -> None:
    from factgym.benchmarks.eve.evolution import render_phases
    from factgym.training.eve import summary_of

    console.print(render_phases(summary_of(out)))
    console.print(f"Numbers: {out / 'summary.json'}", markup=False, soft_wrap=True)
