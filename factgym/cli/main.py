"""The command line. Every fault that a user can mend is one line on standard error and exit code 2."""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from factgym.cli.audit import audit, validate
from factgym.cli.benchmark import benchmark
from factgym.cli.check import check
from factgym.cli.compare import compare, rescore, score
from factgym.cli.corpus import corpus_app
from factgym.cli.evaluate import evaluate
from factgym.cli.evolve import evolve_app
from factgym.cli.filter import filter_command
from factgym.cli.info import info, list_command
from factgym.cli.options import check_paths
from factgym.cli.play import play
from factgym.cli.runs import export, repair, report, view
from factgym.cli.serve import serve_app
from factgym.cli.train import train_command
from factgym.core.errors import FactgymError, error_line
from factgym.core.paths import path_error

_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""The system's errors that are about a disk, also where they name no file."""


class _Interrupted(BaseException):
    """A KeyboardInterrupt that no command caught; typer would answer one with "Aborted" and exit code 1."""


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Interrupted from None


app = typer.Typer(
    name="factgym",
    cls=_Commands,
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


check_paths(app)


def main() -> None:
    """Entry point of the `factgym` command. Modules of the working directory can be named, as in `module:env-id`."""
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.append(str(Path.cwd()))
    with _stopped_by_signals() as received:
        try:
            app()
        except FactgymError as error:
            _fail(error)
        except BrokenPipeError:  # the reader of our output has gone, as with `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from None
        except OSError as error:
            if not _is_about_user_path(error):
                raise
            _fail(path_error(str(error.filename or "a file"), error))
        except _Interrupted:
            raise SystemExit(128 + signal.SIGINT) from None
        finally:
            if received or _exit_code() == 128 + signal.SIGINT:
                _end_now(128 + (received or [signal.SIGINT])[0])


def _fail(error: Exception) -> NoReturn:
    print(f"factgym: {error_line(error)}", file=sys.stderr)
    raise SystemExit(2) from None


def _exit_code() -> object:
    error = sys.exception()
    return error.code if isinstance(error, SystemExit) else None


def _is_about_user_path(error: OSError) -> bool:
    """Whether an error is about a file outside this package, or about a disk, and so no fault of the package."""
    package = str(Path(__file__).parents[1])
    return error.errno in _DISK_FAULTS or (isinstance(error.filename, str) and not error.filename.startswith(package))


@contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """Make SIGTERM, which clusters send before they kill, stop a command as Ctrl-C does; a second one ends it at once."""
    received: list[int] = []

    def terminate(number: int, frame: FrameType | None) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        # Not SIGINT raised again: a shell starts its background jobs with SIGINT ignored.
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)  # within asyncio.run it cancels the main task

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)


def _end_now(code: int) -> NoReturn:
    """End a stopped process without waiting for its threads, which may compute on for minutes."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(code))  # a second Ctrl-C
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(code)


if __name__ == "__main__":
    main()
