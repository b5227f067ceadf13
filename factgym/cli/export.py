"""`factgym export RUN...`: runs as training data or a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from factgym.core.errors import ConfigError

_CHAT = ("reasoning", "arguments")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "sft": (*_CHAT, "min_reward", "best", "only_submitted", "no_errors", "allow_oracle", "allow_evaluation_split"),
    "preferences": (*_CHAT, "margin", "pairs", "max_pairs", "allow_oracle", "allow_evaluation_split"),
    "table": (),
}
"""Format -> its options."""


def export(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, as `factgym eval` prints them.")
    ],
    to: Annotated[
        Literal["sft", "preferences", "table"], typer.Option(help="Chat lines, preference pairs or a Parquet table.")
    ],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    mixed: Annotated[bool, typer.Option("--mixed", help="Accept runs of different environments together.")] = False,
    min_reward: Annotated[float | None, typer.Option(help="sft: minimum reward.")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="sft: maximum episodes of a task, the best ones.")] = None,
    only_submitted: Annotated[
        bool | None,
        typer.Option("--only-submitted/--any-stop", help="sft: leave out episodes that ended at a limit (default)."),
    ] = None,
    no_errors: Annotated[
        bool | None, typer.Option("--no-errors", help="sft: leave out episodes with a malformed or refused action.")
    ] = None,
    reasoning: Annotated[
        Literal["keep", "drop", "inline"] | None,
        typer.Option(help="Reasoning: a field of its own (default), dropped, or as <think> in the content."),
    ] = None,
    arguments: Annotated[
        Literal["text", "object"] | None,
        typer.Option(help="Arguments of native calls: JSON text (default) or an object."),
    ] = None,
    margin: Annotated[float | None, typer.Option(min=0, help="preferences: minimum difference of rewards.")] = None,
    pairs: Annotated[
        Literal["best-worst", "all"] | None, typer.Option(help="preferences: which pairs of a group.")
    ] = None,
    max_pairs: Annotated[int | None, typer.Option(min=1, help="preferences: maximum pairs of a group.")] = None,
    allow_oracle: Annotated[
        bool | None,
        typer.Option("--allow-oracle", help="sft, preferences: accept runs of an oracle (--agent teacher is better)."),
    ] = None,
    allow_evaluation_split: Annotated[
        bool | None,
        typer.Option(
            "--allow-evaluation-split", help="sft, preferences: accept episodes of validation or test tasks."
        ),
    ] = None,
) -> None:
    """Turn runs into training data or a table. The file appears when it is complete, or not at all."""
    from factgym.agents.export.source import Form
    from factgym.agents.export.table import export_table
    from factgym.agents.export.training import PreferenceOptions, SftOptions, export_preferences, export_sft

    options: dict[str, Any] = {
        "min_reward": min_reward, "best": best, "only_submitted": only_submitted, "no_errors": no_errors,
        "reasoning": reasoning, "arguments": arguments, "margin": margin, "pairs": pairs, "max_pairs": max_pairs,
        "allow_oracle": allow_oracle, "allow_evaluation_split": allow_evaluation_split,
    }  # fmt: skip
    options = {name: value for name, value in options.items() if value is not None}
    for name, value in options.items():
        if name not in _OPTIONS[to]:
            formats = " and ".join(f"--to {format_}" for format_, names in _OPTIONS.items() if name in names)
            flag = "any-stop" if value is False else name.replace("_", "-")
            raise ConfigError(f"--{flag} goes with {formats}, not with --to {to}")
    form = Form(**{name: options.pop(name) for name in _CHAT if name in options})
    if to == "sft":
        summary = export_sft(runs, out, SftOptions(**options, form=form), force=force, mixed=mixed)
    elif to == "preferences":
        summary = export_preferences(runs, out, PreferenceOptions(**options, form=form), force=force, mixed=mixed)
    else:
        summary = export_table(runs, out, force=force, mixed=mixed)
    print(summary.text())
