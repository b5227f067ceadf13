"""`factgym info ENV`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from factgym.cli.options import EnvId

if TYPE_CHECKING:
    from factgym.core.config import EnvConfig


def info(env: EnvId) -> None:
    """Show an environment's card, settings and scripted agents."""
    from rich.console import Console
    from rich.markdown import Markdown

    from factgym.agents.resolve import scripted_agents
    from factgym.core.registry import spec

    entry = spec(env)
    cls = entry.load()
    out = Console(highlight=False)
    out.print(f"[bold]{entry.versioned}[/bold]  {entry.summary}\nGymnasium: {entry.gymnasium_id}\n")
    out.print(Markdown(inspect.getdoc(cls) or "", justify="left"))
    splits = cls.Config.build(entry.id, entry.kwargs).splits
    if splits:
        out.print(f"\nSplits: {', '.join([f'{splits[0]} (default)', *splits[1:]])}", markup=False)
    out.print()
    _table(out, ("setting", "default", "meaning"), _settings(entry, cls.Config))
    out.print()
    _table(
        out, ("agent", "role", "what it does"), [(p.name, p.role, p.summary) for p in scripted_agents(env).values()]
    )


def _settings(entry: Any, config: type[EnvConfig]) -> list[tuple[str, str, str]]:
    fields = config.model_fields
    meanings = _meanings(config, list(fields))
    rows = []
    for name, field in fields.items():
        value = repr(entry.kwargs.get(name, field.default))
        rows.append((name, f"{value} (fixed)" if name in entry.fixed else value, meanings.get(name, "")))
    return rows


def _meanings(config: type, names: list[str]) -> dict[str, str]:
    """Setting -> what it means, from the `name: meaning` sentences of the class's docstring and its bases'."""
    found: dict[str, str] = {}
    starts = re.compile(rf"(?:^|(?<=[.;] ))({'|'.join(map(re.escape, names))}): ")
    for cls in reversed(config.__mro__):
        if cls.__module__.startswith("factgym"):
            text = " ".join((inspect.getdoc(cls) or "").partition("\n")[2].split())
            parts = starts.split(text)[1:]
            found |= dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))
    return found


def _table(out: Any, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(Text, row))
    out.print(table)
