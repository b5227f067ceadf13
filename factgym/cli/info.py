"""`factgym list` and `factgym info ENV`: the environments, and the card, settings and scripted agents of each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence

from factgym.cli.options import EnvId


def list_command() -> None:
    """List the environments."""
    from rich.console import Console
    from rich.table import Table

    from factgym.core.registry import list_envs, spec

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("environment", no_wrap=True)
    table.add_column("v", justify="right")
    table.add_column("task")
    for env_id in list_envs():
        entry = spec(env_id)
        table.add_row(env_id, str(entry.version), entry.summary)
    Console(markup=False, highlight=False).print(table)


def info(env: EnvId) -> None:
    """Show an environment's card, settings and scripted agents."""
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.table import Table
    from rich.text import Text

    from factgym.agents.resolve import scripted_agents
    from factgym.core.registry import spec

    console = Console(highlight=False)

    def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
        for number, head in enumerate(heads):
            table.add_column(head, no_wrap=number == 0)
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)

    entry = spec(env)
    cls = entry.load()
    console.print(f"[bold]{entry.versioned}[/bold]  {entry.summary}\nGymnasium: {entry.gymnasium_id}\n")
    console.print(Markdown(inspect.getdoc(cls) or "", justify="left"))
    splits = cls.Config.build(entry.id, entry.kwargs).splits
    if splits:
        console.print(f"\nSplits: {', '.join([f'{splits[0]} (default)', *splits[1:]])}", markup=False)
    console.print()
    fields = cls.Config.model_fields
    meanings = setting_meanings(cls.Config, list(fields))
    settings = []
    for name, field in fields.items():
        value = repr(entry.kwargs.get(name, field.default))
        settings.append((name, f"{value} (fixed)" if name in entry.fixed else value, meanings.get(name, "")))
    print_table(("setting", "default", "meaning"), settings)
    console.print()
    agents = [(agent.name, agent.role, agent.summary) for agent in scripted_agents(env).values()]
    print_table(("agent", "role", "policy"), agents)


def setting_meanings(config: type, names: list[str]) -> dict[str, str]:
    """Setting -> its meaning, from the `name: meaning` sentences of the class's docstring and its bases'."""
    meanings: dict[str, str] = {}
    starts = re.compile(rf"(?:^|(?<=[.;] ))({'|'.join(map(re.escape, names))}): ")
    for cls in reversed(config.__mro__):
        if cls.__module__.startswith("factgym"):
            text = " ".join((inspect.getdoc(cls) or "").partition("\n")[2].split())
            parts = starts.split(text)[1:]
            meanings |= dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))
    return meanings
