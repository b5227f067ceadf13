"""`factgym export RUN`."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factgym.core.errors import ConfigError

if TYPE_CHECKING:
    from factgym.agents.export import Summary


class Format(StrEnum):
    """What a run becomes."""

    SFT = "sft"
    PREFERENCES = "preferences"
    TABLE = "table"


class ReasoningForm(StrEnum):
    """What becomes of reasoning."""

    KEEP = "keep"
    DROP = "drop"
    INLINE = "inline"


class ArgumentsForm(StrEnum):
    """How the arguments of native calls are written."""

    TEXT = "text"
    OBJECT = "object"


class PairsForm(StrEnum):
    """Which pairs of a group are made."""

    BEST_WORST = "best-worst"
    ALL = "all"


_CHAT = ("reasoning", "arguments")
_TAKES = {
    Format.SFT: (*_CHAT, "min_reward", "best", "only_submitted", "no_errors"),
    Format.PREFERENCES: (*_CHAT, "margin", "pairs", "max_pairs"),
    Format.TABLE: (),
}


def export(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, as `factgym eval` prints them.")
    ],
    to: Annotated[Format, typer.Option(help="Chat lines, preference pairs or a Parquet table.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    mixed: Annotated[bool, typer.Option("--mixed", help="Take runs of different environments together.")] = False,
    min_reward: Annotated[float | None, typer.Option(help="sft: the least reward.")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="sft: at most this many episodes of a task.")] = None,
    only_submitted: Annotated[
        bool | None,
        typer.Option("--only-submitted/--any-stop", help="sft: leave out episodes that ended at a limit (default)."),
    ] = None,
    no_errors: Annotated[
        bool | None, typer.Option("--no-errors", help="sft: leave out episodes with a malformed or refused action.")
    ] = None,
    reasoning: Annotated[
        ReasoningForm | None, typer.Option(help="Reasoning: apart (default), left out, or as <think> in the content.")
    ] = None,
    arguments: Annotated[
        ArgumentsForm | None, typer.Option(help="Arguments of native calls: JSON text (default) or an object.")
    ] = None,
    margin: Annotated[float | None, typer.Option(min=0, help="preferences: the least difference of rewards.")] = None,
    pairs: Annotated[PairsForm | None, typer.Option(help="preferences: which pairs of a group.")] = None,
    max_pairs: Annotated[int | None, typer.Option(min=1, help="preferences: pairs of a group at most.")] = None,
) -> None:
    """Turn runs into training data or a table. The file appears when it is complete, or not at all."""
    given = {
        "min_reward": min_reward, "best": best, "only_submitted": only_submitted, "no_errors": no_errors,
        "reasoning": reasoning and reasoning.value, "arguments": arguments and arguments.value,
        "margin": margin, "pairs": pairs and pairs.value, "max_pairs": max_pairs,
    }  # fmt: skip
    options = {name: value for name, value in given.items() if value is not None}
    _check(to, options)
    print(_writer(to, options)(runs, out, force=force, mixed=mixed).text())


def _check(to: Format, options: dict[str, Any]) -> None:
    for name in options:
        if name not in _TAKES[to]:
            takers = " and ".join(f"--to {one.value}" for one in Format if name in _TAKES[one])
            flag = "any-stop" if options[name] is False else name.replace("_", "-")
            raise ConfigError(f"--{flag} goes with {takers}, not with --to {to.value}")


def _writer(to: Format, options: dict[str, Any]) -> Callable[..., Summary]:
    from factgym.agents.export import PreferenceOptions, SftOptions, export_preferences, export_sft, export_table
    from factgym.agents.export.source import Form

    form = Form(**{name: options.pop(name) for name in _CHAT if name in options})
    if to is Format.SFT:
        return lambda runs, out, **how: export_sft(runs, out, SftOptions(**options, form=form), **how)
    if to is Format.PREFERENCES:
        return lambda runs, out, **how: export_preferences(runs, out, PreferenceOptions(**options, form=form), **how)
    return export_table
