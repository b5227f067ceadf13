"""`factgym evolve seva|eve`: loops in which models improve themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from factgym.cli.options import Concurrency, KeyValues, OptionsRecipe, Resume, Seed, key_value, parse_settings
from factgym.core.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console

    from factgym.training.eve import Learner

Command = Annotated[
    str | None, typer.Option(help='For --trainer command: a JSON list, ["python", "train.py", "{data}", "{out}"].')
]
TrainerSettings = Annotated[KeyValues, key_value("A setting of the trainer.")]
Out = Annotated[Path, typer.Option(help="Folder of the evolution.")]

evolve_app = typer.Typer(
    name="evolve",
    help="Self-evolution: improve a verifier (seva), or a proposer and a solver (eve), round by round.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@evolve_app.command("seva")
def seva(
    recipe: OptionsRecipe = None,
    agent: Annotated[
        str, typer.Option(help="The seed verifier: features, features:PATH, or an --agent of `factgym eval`.")
    ] = "features",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each arm; a later call may add some.")] = 3,
    budget: Annotated[
        str, typer.Option(help="Probes of a round, or B1,B2,… for a schedule whose last number is repeated.")
    ] = "200",
    probes: Annotated[
        Literal["weakness", "random"], typer.Option(help="Allocate probes by weakness, or as many at random.")
    ] = "weakness",
    mix: Annotated[
        str | None, typer.Option(metavar="NAME[=SHARE],…", help="Make probes from several sources, in these shares.")
    ] = None,
    arms: Annotated[str | None, typer.Option(help="Several arms side by side: weakness,random,mix,claims.")] = None,
    benchmarks: Annotated[str | None, typer.Option(metavar="NAME,…", help="The measured benchmarks.")] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Source of probes and replay.")] = None,
    path: Annotated[
        str | None, typer.Option(help="Folder of public data; default FACTGYM_DATA, else generated claims.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Maximum claims of each benchmark.")] = None,
    material: Annotated[int, typer.Option(min=1, help="Maximum claims of each source.")] = 1000,
    warm_up: Annotated[
        int | None, typer.Option(min=0, help="Claims to train the seed verifier on first; features: 24, with data 600.")
    ] = None,
    warm_sources: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Sources of the warm-up; default --source.")
    ] = None,
    replay: Annotated[float, typer.Option(min=0, help="Maximum replayed examples for each probe.")] = 1.0,
    rules: Annotated[
        bool, typer.Option("--rules/--no-rules", help="Round 1 puts rules into the prompt; else it trains as well.")
    ] = True,
    prompt: Annotated[
        Literal["full", "brief"], typer.Option(help="Style of the prompts; brief for small models.")
    ] = "full",
    trainer: Annotated[str, typer.Option(help="features, trl, command or FILE.py:Class.")] = "features",
    command: Command = None,
    trainer_set: TrainerSettings = None,
    agent_set: Annotated[KeyValues, key_value("A setting of the agent.")] = None,
    proposer: Annotated[
        str | None, typer.Option(help="A model that writes the probes, or claims, to draw them from the source.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="A model that cross-checks the probes; default a rule, reported as a fallback.")
    ] = None,
    seed: Seed = 0,
    out: Out = Path("runs/evolve-seva"),
    resume: Resume = False,
    concurrency: Concurrency = 64,
) -> None:
    """Improve a verifier by SEVA's loop: verify, reflect, probe, refine; with control arms.

    Round 1 puts rules in the prompt, later rounds train on probes and replay. Shows macro-F1 of every round on every
    benchmark, and writes rounds.json and rounds.svg beside the rounds.
    """
    from rich.console import Console

    from factgym.agents.judges.policy import judge_from
    from factgym.agents.resolve import find_model
    from factgym.agents.rollout.engine import Limits
    from factgym.agents.runs.files import write_json
    from factgym.cli.display import resumable
    from factgym.core.config import data_folder
    from factgym.training.rollouts import Callbacks
    from factgym.training.seva import Evolution, EvolveSettings, read_report
    from factgym.training.seva.proposer import PolicyProposer
    from factgym.training.seva.report import evolution_chart, render_evolution
    from factgym.training.seva.settings import EMBEDDED, PUBLIC
    from factgym.training.trainer import find_trainer

    has_data = path is not None or data_folder() is not None
    budgets = _names(budget)
    if not budgets or not all(text.isascii() and text.isdecimal() and len(text) <= 9 for text in budgets):
        raise ConfigError(f"--budget takes a number or several, such as 200 or 100,200,400, not {budget!r:.80}")
    settings = EvolveSettings(
        benchmarks=tuple(_names(benchmarks)) or (PUBLIC if has_data else EMBEDDED),
        source=source or ("anli" if has_data else "generated-train"),
        mix=_shares(mix),
        budgets=tuple(map(int, budgets)),
        replay=replay,
        rules=rules,
        prompt=prompt,
        warm_up=(_WARM_UP[has_data] if agent == "features" else 0) if warm_up is None else warm_up,
        warm_sources=tuple(_names(warm_sources)),
        size=size,
        material=material,
        path=path,
        seed=seed,
    )
    if arms is None and mix is not None and probes == "random":
        raise ConfigError("--probes random and --mix are two arms: give --arms random,mix to run both")
    names = _names(arms) if arms is not None else ["mix" if mix is not None else probes]
    agent_settings = parse_settings(agent_set, "--agent-set")
    _check_trainable(agent, trainer)
    trained = {"agent_settings": _trained_settings(agent, agent_settings)} if trainer in _AGENT_TRAINERS else {}
    find_model(agent, agent_settings)
    console = Console(highlight=False)
    evolution = Evolution(
        out,
        settings,
        lambda: find_model(agent, agent_settings),
        find_trainer(trainer, trained | _trainer_settings(trainer, command, trainer_set)),
        judge_from(None if judge is None else find_model(judge), "probe-check", out / "judgements"),
        "claims"
        if proposer == "claims"
        else None
        if proposer is None
        else PolicyProposer(find_model(proposer), seed=seed),
        Limits(concurrency=concurrency),
        Callbacks(lambda text: console.print(text, markup=False, style="dim")),
    )
    with resumable(console, out):
        evolution.run(names, rounds, resume=resume)
    report = read_report(out)
    table = out / "rounds.json"
    write_json(table, report.to_dict())
    console.print(render_evolution(report))
    _print_files(console, table, partial(evolution_chart, report))


def _print_files(console: Console, table: Path, draw: Callable[[], str]) -> None:
    """Write the chart beside the numbers, where the chart library is installed, and print where both are."""
    from factgym.agents.runs.files import write_bytes

    chart = table.with_suffix(".svg")
    try:
        write_bytes(chart, draw().encode("utf-8"))
        chart_note = str(chart)
    except MissingExtraError as error:
        chart_note = str(error)
    console.print(f"Numbers: {table}\nChart:   {chart_note}", markup=False, soft_wrap=True)


@evolve_app.command("eve")
def eve(
    recipe: OptionsRecipe = None,
    passages: Annotated[
        str | None, typer.Option(metavar="PATH", help="File or folder of passages; default a generated world.")
    ] = None,
    layout: Annotated[str, typer.Option(help="Layout of that file; detected by default.")] = "auto",
    proposer: Annotated[str, typer.Option(help="Policy that writes questions, as in `factgym eval`.")] = "extractive",
    solver: Annotated[str, typer.Option(help="Policy that answers them, as in `factgym eval`.")] = "extractive",
    auxiliary: Annotated[
        str | None, typer.Option(help="Policy that answers without evidence, for V; default the solver.")
    ] = None,
    cache: Annotated[
        str | None, typer.Option(metavar="FILE", help="Cache the answers that score proposals in this file.")
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
    samples: Annotated[int, typer.Option(min=1, help="Rollouts of each held-out passage.")] = 5,
    held_out: Annotated[float, typer.Option(help="Share of the passages that is held out for the data set.")] = 0.2,
    min_value: Annotated[float | None, typer.Option(help="Minimum V of a row; default none.")] = None,
    draw: Annotated[Literal["uniform", "selector"], typer.Option(help="How Phase A draws passages.")] = "uniform",
    hops: Annotated[str, typer.Option(metavar="W1:W2:…", help="Relative frequencies of 1, 2, … hops.")] = "4:3:2:1",
    n: Annotated[int, typer.Option("-n", min=2, help="Searching answers to each question.")] = 5,
    m: Annotated[int, typer.Option("-m", min=1, help="Answers with, and without, the evidence.")] = 5,
    value: Annotated[
        Literal["sampling", "logprob"], typer.Option(help="V from m answers each way, or from log-probabilities.")
    ] = "sampling",
    reward: Annotated[str | None, typer.Option(help="Reward of the proposer; default the environment's.")] = None,
    solver_reward: Annotated[str | None, typer.Option(help="Reward of the solver; default the environment's.")] = None,
    select: Annotated[
        Literal["valid", "all"], typer.Option(help="Rows of the data set: valid proposals, or as a control all.")
    ] = "valid",
    world: Annotated[
        Literal["documents", "miniature"], typer.Option(help="The generated world; miniature for small models.")
    ] = "documents",
    env_set: Annotated[KeyValues, key_value("A setting of both environments.")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Repeat both phases, each round from the policies of the one before.")
    ] = None,
    test: Annotated[
        int, typer.Option(min=0, help="With --rounds: held-out questions of the world, answered after each.")
    ] = 0,
    index: Annotated[str, typer.Option(help="Index of the search tool: bm25, dense, hybrid …")] = "bm25",
    size: Annotated[int | None, typer.Option(min=1, help="Maximum passages, or size of the world.")] = None,
    trainer: Annotated[str, typer.Option(help="none, check, trl, command or FILE.py:Class.")] = "none",
    solver_trainer: Annotated[str | None, typer.Option(help="Trainer of Phase B; default the same.")] = None,
    command: Command = None,
    trainer_set: TrainerSettings = None,
    index_set: Annotated[KeyValues, key_value("A setting of the index.")] = None,
    selector_set: Annotated[KeyValues, key_value("A setting of the selector.")] = None,
    proposer_set: Annotated[KeyValues, key_value("A setting of the proposer.")] = None,
    solver_set: Annotated[KeyValues, key_value("A setting of the solver.")] = None,
    seed: Seed = 0,
    out: Out = Path("runs/evolve-eve"),
    resume: Resume = False,
    concurrency: Concurrency = 16,
) -> None:
    """Run EVE's phases: a proposer learns to write questions with evidence, a solver learns from them.

    Phase A scores proposer rollouts against a fixed solver and gives HRPO advantages; the frozen proposer then writes
    the solver's data set from held-out passages; Phase B gives GRPO advantages to groups of solver episodes. The rows
    go to a trainer; without one nothing is learned, and all rollouts, scores and rows are still written.
    """
    from rich.console import Console

    from factgym.agents.rollout.engine import Limits
    from factgym.agents.runs.files import read_json
    from factgym.benchmarks.eve.evolution import render_phases, render_rounds, rounds_chart, untrained_notes
    from factgym.cli.display import resumable
    from factgym.training.eve import EveEvolution, EveRounds, EveSettings, summary_of
    from factgym.training.eve.loop import ROUNDS
    from factgym.training.rollouts import Callbacks

    try:
        hop_weights = tuple(float(weight) for weight in hops.split(":"))
    except ValueError:
        raise ConfigError(f"--hops takes weights such as 4:3:2:1, not {hops!r:.80}") from None
    settings = EveSettings(
        passages=passages,
        layout=layout,
        size=size,
        world=world,
        env_options=parse_settings(env_set, "--env-set"),
        index=index,
        index_options=parse_settings(index_set, "--index-set"),
        held_out=held_out,
        batch=batch,
        hop_weights=hop_weights,
        draw=draw,
        selector=parse_settings(selector_set, "--selector-set"),
        prompts=prompts or None,
        samples=samples,
        select=select,
        min_value=min_value,
        rows=rows,
        group=group,
        n=n,
        m=m,
        value=value,
        reward=reward,
        solver_reward=solver_reward,
        seed=seed,
    )
    console = Console(highlight=False)
    shared = _trainer_settings(trainer, command, trainer_set)
    proposer_settings = parse_settings(proposer_set, "--proposer-set")
    solver_settings = parse_settings(solver_set, "--solver-set")
    # Proposals are scored by the solver as it is at the start.
    scoring = {"solver": solver, "solver_settings": solver_settings or None, "auxiliary": auxiliary, "cache": cache}
    # With two trainers the settings are the proposer's, unless its trainer trains nothing and so takes none.
    of_proposer = {} if solver_trainer is not None and trainer in ("none", "check") else shared
    of_solver = {} if solver_trainer is not None and of_proposer else shared
    learners = (
        _learner("proposer", proposer, proposer_settings, trainer, of_proposer),
        _learner("solver", solver, solver_settings, solver_trainer or trainer, of_solver),
    )
    scored_by = {name: text for name, text in scoring.items() if text is not None}
    limits = Limits(concurrency=concurrency)
    callbacks = Callbacks(lambda text: console.print(text, markup=False, style="dim"))
    counts = (iterations, iterations if solver_iterations is None else solver_iterations)
    if rounds is not None:
        evolution = EveRounds(out, settings, *learners, scored_by, test, limits, callbacks)
        with resumable(console, out):
            evolution.run(rounds, *counts, resume=resume)
        measured = read_json(out / ROUNDS)["rounds"]
        console.print(render_rounds(measured, untrained_notes(out)))
        _print_files(console, out / ROUNDS, partial(rounds_chart, measured))
        return
    if test:
        raise ConfigError("--test measures rounds: give --rounds as well")
    with resumable(console, out):
        EveEvolution(out, settings, *learners, scored_by, limits, callbacks).run(*counts, resume=resume)
    console.print(render_phases(summary_of(out)))
    console.print(f"Numbers: {out / 'summary.json'}", markup=False, soft_wrap=True)


def _trainer_settings(trainer: str, command: str | None, settings: KeyValues) -> dict[str, Any]:
    """Keyword arguments of the trainer's class. Raises ConfigError for --command without its trainer and the reverse."""
    values = parse_settings(settings, "--trainer-set")
    if (trainer == "command") != (command is not None):
        raise ConfigError('--trainer command and --command go together: --command \'["python", "train.py", "{data}"]\'')
    if command is not None:
        try:
            values["command"] = json.loads(command)
        except (ValueError, RecursionError):
            raise ConfigError(
                f'--command takes a JSON list, such as ["python", "train.py"], not {command!r:.80}'
            ) from None
    return values


def _learner(role: str, text: str, settings: dict[str, Any], trainer: str, trainer_settings: dict[str, Any]) -> Learner:
    from factgym.agents.resolve import find_agent
    from factgym.training.eve import EVE_TRAINERS, Learner
    from factgym.training.trainer import find_trainer

    env_id = f"eve-{role}"
    _check_trainable(text, trainer)
    if dict(find_agent(text, env_id, settings).describe()).get("role") == "oracle":
        raise ConfigError(f"{text!r} knows the answer: nothing can be learned from it")
    values: dict[str, Any] = {"env": env_id} if trainer == "command" else {}
    if trainer == "trl":
        settings = {"logprobs": True, **settings}  # with them a reply has the ids of its tokens
    if trainer in _AGENT_TRAINERS:
        values["agent_settings"] = _trained_settings(text, settings)
    optimiser = find_trainer(trainer, {**values, **trainer_settings}, EVE_TRAINERS)
    return Learner(role, lambda: find_agent(text, env_id, settings), optimiser)


_WARM_UP = {False: 24, True: 600}
"""Claims of the seed verifier "features", by whether there is data. 600 generated claims teach it all that it can learn of
them; after 24 there is something left for probes to teach."""

_AGENT_TRAINERS = ("command", "trl")
"""Trainers that take the settings of the agent, for the models that they train."""


def _trained_settings(agent: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The agent's settings for its trained model, which is local: of an agent of another kind, those of sampling."""
    from factgym.agents.sampling import Sampling

    if agent.startswith("hf:"):
        return settings
    return {name: value for name, value in settings.items() if name in Sampling.model_fields}


def _check_trainable(agent: str, trainer: str) -> None:
    if trainer == "trl" and not agent.startswith("hf:"):
        raise ConfigError(f"--trainer trl trains a local model: name one as hf:FOLDER, not {agent!r:.80}")


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _shares(text: str | None) -> dict[str, Fraction]:
    """`fever=2,anli` as shares, 1 where none is given."""
    shares = {}
    for part in _names(text):
        name, equals, share = part.partition("=")
        try:
            shares[name.strip()] = Fraction(share) if equals else Fraction(1)
        except (ValueError, ZeroDivisionError):
            raise ConfigError(f"--mix takes NAME or NAME=SHARE, such as fever=2,anli=1, not {part!r:.80}") from None
    return shares
