"""`factgym list`."""

from __future__ import annotations


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
