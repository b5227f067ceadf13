"""`factgym evolve seva`: verify, reflect, probe, refine."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factgym.cli.evolving import Command, Concurrency, Resume, TrainerSettings, kept, trainer_settings
from factgym.cli.options import Seed, parse_settings
from factgym.core.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from factgym.training import EvolveSettings
    from factgym.training.seva.rounds import Rounds

TABLE, CHART = "rounds.json", "rounds.svg"


class Probes(StrEnum):
    """How probes are allocated."""

    WEAKNESS = "weakness"
    RANDOM = "random"


def seva(
    agent: Annotated[
        str,
        typer.Option(
            help="The seed verifier: features (trains on a processor), features:PATH, or as in `factgym eval`."
        ),
    ] = "features",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each arm; a later call may ask for more.")] = 3,
    budget: Annotated[
        str, typer.Option(help="Probes of a round; B1,B2,… for a schedule, whose last number holds on.")
    ] = "200",
    probes: Annotated[Probes, typer.Option(help="By weakness, or as many at random.")] = Probes.WEAKNESS,
    mix: Annotated[
        str | None, typer.Option(metavar="NAME[=SHARE],…", help="Probes from several sources, in these shares.")
    ] = None,
    arms: Annotated[str | None, typer.Option(help="Several side by side: weakness,random,mix.")] = None,
    benchmarks: Annotated[str | None, typer.Option(metavar="NAME,…", help="What is measured.")] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Where probes and replay come from.")] = None,
    path: Annotated[
        str | None, typer.Option(help="Folder of public data; default FACTGYM_DATA, else generated claims.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Claims of each benchmark at most.")] = None,
    material: Annotated[int, typer.Option(min=1, help="Claims of each source at most.")] = 1000,
    warm_up: Annotated[
        int | None, typer.Option(min=0, help="Claims to train the seed verifier on first; 600 for features, else 0.")
    ] = None,
    warm_sources: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Where those come from; default the source.")
    ] = None,
    replay: Annotated[float, typer.Option(min=0, help="Replayed examples for each probe at most.")] = 1.0,
    trainer: Annotated[str, typer.Option(help="features, command or FILE.py:Class.")] = "features",
    command: Command = None,
    trainer_set: TrainerSettings = None,
    agent_set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the agent. Repeatable.")
    ] = None,
    proposer: Annotated[str | None, typer.Option(help="A model that writes the probes; default rules.")] = None,
    judge: Annotated[
        str | None, typer.Option(help="A model that cross-checks them; default a stand-in that says so.")
    ] = None,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder for everything.")] = Path("runs/evolve-seva"),
    resume: Resume = False,
    concurrency: Concurrency = 64,
) -> None:
    """Verify, reflect, probe, refine: SEVA's loop, with the controls that its paper leaves out.

    Round 1 puts rules in the prompt; later rounds train on probes and replay. Shows macro-F1 of every round on every
    benchmark, and writes rounds.json and rounds.svg beside the rounds.
    """
    from rich.console import Console

    from factgym.agents.models import find_model
    from factgym.agents.rollout.engine import Limits
    from factgym.training import Callbacks, Evolution, find_trainer

    settings = _settings(benchmarks, source, mix, budget, path) | {
        "size": size,
        "material": material,
        "replay": replay,
        "warm_up": (600 if agent == "features" else 0) if warm_up is None else warm_up,
        "warm_sources": tuple(_names(warm_sources)),
        "seed": seed,
    }
    values = parse_settings(agent_set or [], "--agent-set")
    find_model(agent, values)
    console = Console(highlight=False)
    evolution = Evolution(
        out,
        _built(settings),
        lambda: find_model(agent, values),
        find_trainer(trainer, trainer_settings(trainer, command, trainer_set or [])),
        _judge(judge, out),
        _proposer(proposer, seed),
        Limits(concurrency=concurrency),
        Callbacks(lambda said: console.print(said, markup=False, style="dim")),
    )
    with kept(console, out):
        evolution.run(_arms(arms, probes, mix), rounds, resume=resume)
    _show(console, out)


def _built(settings: dict[str, Any]) -> EvolveSettings:
    from factgym.training import EvolveSettings

    return EvolveSettings(**settings)


def _settings(
    benchmarks: str | None, source: str | None, mix: str | None, budget: str, path: str | None
) -> dict[str, Any]:
    """The settings that depend on whether data is at hand."""
    import os

    from factgym.core.config import DATA_VARIABLE
    from factgym.training.seva.settings import EMBEDDED, PUBLIC

    at_hand = path is not None or bool(os.environ.get(DATA_VARIABLE))
    return {
        "benchmarks": tuple(_names(benchmarks)) or (PUBLIC if at_hand else EMBEDDED),
        "source": source or ("anli" if at_hand else "generated-train"),
        "mix": _shares(mix),
        "budgets": _budgets(budget),
        "path": path,
    }


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _budgets(text: str) -> tuple[int, ...]:
    parts = _names(text)
    if not parts or not all(part.isascii() and part.isdecimal() and len(part) <= 9 for part in parts):
        raise ConfigError(f"--budget takes a number or several, such as 200 or 100,200,400, not {text!r:.80}")
    return tuple(int(part) for part in parts)


def _shares(text: str | None) -> dict[str, Fraction]:
    found = {}
    for part in _names(text):
        name, equals, share = part.partition("=")
        try:
            found[name.strip()] = Fraction(share) if equals else Fraction(1)
        except (ValueError, ZeroDivisionError):
            raise ConfigError(f"--mix takes NAME or NAME=SHARE, such as fever=2,anli=1, not {part!r:.80}") from None
    return found


def _arms(arms: str | None, probes: Probes, mix: str | None) -> list[str]:
    if arms is not None:
        return _names(arms)
    if mix is not None and probes is Probes.RANDOM:
        raise ConfigError("--probes random and --mix are two arms: give --arms random,mix to run both")
    return ["mix" if mix is not None else probes.value]


def _judge(text: str | None, out: Path) -> Any:
    from factgym.agents.judges import judge_from
    from factgym.agents.models import find_model

    if text is None:
        return judge_from(None, "probe-check")
    return judge_from(find_model(text), "probe-check", out / "judgements")


def _proposer(text: str | None, seed: int) -> Any:
    from factgym.agents.models import find_model
    from factgym.training.seva.model_probes import PolicyProposer

    return None if text is None else PolicyProposer(find_model(text), seed=seed)


def _show(console: Any, out: Path) -> None:
    from factgym.agents.runs.files import write_bytes, write_json
    from factgym.training.seva.rounds import read_rounds, render_rounds, rounds_chart

    rounds: Rounds = read_rounds(out)
    write_json(out / TABLE, rounds.to_dict())
    console.print(render_rounds(rounds))
    try:
        write_bytes(out / CHART, rounds_chart(rounds).encode("utf-8"))
        chart = str(out / CHART)
    except MissingExtraError as error:
        chart = str(error)
    console.print(f"Numbers: {out / TABLE}\nChart:   {chart}", markup=False, soft_wrap=True)
