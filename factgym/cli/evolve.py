"""`factgym evolve SYSTEM`: loops in which models improve themselves. Each system is a command in a file of its own."""

from __future__ import annotations

import typer

from factgym.cli.evolve_eve import eve
from factgym.cli.evolve_seva import seva

evolve_app = typer.Typer(
    name="evolve", help="Improve a model round by round.", no_args_is_help=True, pretty_exceptions_enable=False
)


@evolve_app.callback()
def _evolve() -> None:
    """Improve a model round by round."""


evolve_app.command("seva")(seva)
evolve_app.command("eve")(eve)
