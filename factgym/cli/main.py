"""The command line. Every fault that a user can mend is one line on standard error and exit code 2."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from factgym.cli.audit import audit
from factgym.cli.benchmark import benchmark
from factgym.cli.check import check
from factgym.cli.compare import compare, rescore, score
from factgym.cli.corpus import corpus_app
from factgym.cli.evaluate import evaluate
from factgym.cli.evolve import evolve_app
from factgym.cli.export import export
from factgym.cli.filter import filter_command
from factgym.cli.info import info
from factgym.cli.list_envs import list_command
from factgym.cli.play import play
from factgym.cli.repair import repair
from factgym.cli.report import report
from factgym.cli.serve import serve_app
from factgym.cli.train import train_command
from factgym.cli.validate import validate
from factgym.cli.view import view
from factgym.core.errors import FactgymError, error_line

app = typer.Typer(
    name="factgym",
    help="Environments in which an agent checks claims against evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("list")(list_command)
app.command("info")(info)
app.command("check")(check)
app.command("eval")(evaluate)
app.command("audit")(audit)
app.command("validate")(validate)
app.command("play")(play)
app.command("view")(view)
app.command("repair")(repair)
app.command("compare")(compare)
app.command("report")(report)
app.command("rescore")(rescore)
app.command("score")(score)
app.command("export")(export)
app.command("benchmark")(benchmark)
app.add_typer(evolve_app, name="evolve")
app.command("filter")(filter_command)
app.command("train")(train_command)
app.add_typer(corpus_app, name="corpus")
app.add_typer(serve_app, name="serve")


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        import factgym

        print(factgym.__version__)
        raise typer.Exit


def main() -> None:
    """Entry point of the `factgym` command. Modules of the working directory can be named, as in `module:env-id`."""
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        app()
    except FactgymError as error:
        print(f"factgym: {error_line(error)}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


if __name__ == "__main__":
    main()
