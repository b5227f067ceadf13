"""A long command on a terminal: its live status, and how it is stopped from outside and continued."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import typer

from factgym.core.errors import ConfigError, FactgymError

if TYPE_CHECKING:
    from rich.console import Console

    from factgym.agents.rollout.jobs import Progress

ResultT = TypeVar("ResultT")

REFRESH_SECONDS = 0.25
_MAX_ERROR_CHARS = 200
LOG_SECONDS = 30.0
"""Interval of status lines without a terminal."""


class Display(AbstractContextManager["Display"]):
    """Draws the counters of a run from a thread of its own, so that the run never waits for it.

    A traceback of an episode is printed once, and counted at the end.
    """

    def __init__(self, console: Console, label: str) -> None:
        self.progress: Any = None
        self.started = time.monotonic()
        self._console = console
        self._label = label
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        self._tracebacks = RepeatedTracebacks()

    def watch(self, progress: Any) -> None:
        """Set the counters to draw."""
        self.progress = progress

    def line(self) -> str | None:
        """The status as text; None before there is one."""
        return None if self.progress is None else status(self.progress)

    def render(self, line: str) -> Any:
        """The status for a terminal: the text alone without a label."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        if not self._label:
            return Text(line)
        counters = self.progress
        bar = ProgressBar(max(counters.total, 1), counters.before + counters.done, width=40)
        return Group(Text(self._label, style="bold", no_wrap=True, overflow="ellipsis"), bar, Text(line))

    def __enter__(self) -> Self:
        self._tracebacks.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()
        self._tracebacks.__exit__()
        for line in self._tracebacks.lines():
            self._console.print(line, markup=False, soft_wrap=True)

    def _draw(self) -> None:
        from rich.live import Live

        if not self._console.is_terminal:
            prefix = f"{self._label}: " if self._label else ""
            while not self._done.wait(LOG_SECONDS):
                if (line := self.line()) is not None:
                    self._console.print(f"{prefix}{line}", markup=False, soft_wrap=True)
            return
        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            while not self._done.wait(REFRESH_SECONDS):
                if (line := self.line()) is not None:
                    live.update(self.render(line), refresh=True)


def status(progress: Progress) -> str:
    """The counters as text: `120/200 done · 64 running · 512 turns · reward 0.512 · 3 errors · 1,204 tokens/s · 0:41 left`.

    Requests are shown where the agent makes any, with those that were repeated.
    """
    parts = [f"{progress.before + progress.done:,}/{progress.total:,} done", f"{progress.running:,} running"]
    if progress.turns:
        parts.append(f"{progress.turns:,} turn{'s' * (progress.turns != 1)}")
    if progress.requests:
        retries = f" ({progress.retries:,} retried)" if progress.retries else ""
        parts.append(f"{progress.requests:,} request{'s' * (progress.requests != 1)}{retries}")
    if progress.reward is not None:
        parts.append(f"reward {progress.reward:.3f}")
    parts.append(f"{progress.errors:,} error{'s' * (progress.errors != 1)}")
    if progress.tokens and progress.seconds > 0:
        parts.append(f"{progress.tokens / progress.seconds:,.0f} tokens/s")
    if progress.seconds_left is not None:
        minutes, seconds = divmod(int(progress.seconds_left + 0.5), 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
        parts.append(f"{clock} left")
    if notice := progress.notice():
        parts.append(notice)
    return " · ".join(parts)


class RepeatedTracebacks(logging.Filter):
    """Lets each traceback of a run's episodes be logged once, and counts the others; a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._loggers = [logging.getLogger(name) for name in ("factgym.agents.rollout.engine", "factgym.core.env")]

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record has no traceback, or one that was not logged yet."""
        if not record.exc_info or record.exc_info[1] is None:
            return True
        text = "".join(traceback.format_exception(record.exc_info[1]))
        self.counts[text] += 1
        return self.counts[text] == 1

    def lines(self) -> Iterator[str]:
        """Yield a sentence for each traceback that came more than once."""
        for text, count in self.counts.most_common():
            if count > 1:
                yield f"The same traceback came {count:,} times: {text.strip().splitlines()[-1][:_MAX_ERROR_CHARS]}"

    def __enter__(self) -> Self:
        for logger in self._loggers:
            logger.addFilter(self)
        return self

    def __exit__(self, *exc: object) -> None:
        for logger in self._loggers:
            logger.removeFilter(self)


Stop = BaseException | None
"""The exception that stopped a run; None where it ended by itself."""


def run_displayed(
    console: Console, label: str, run: Callable[[Callable[[Progress], None]], ResultT]
) -> tuple[ResultT | None, Stop]:
    """Run with a live status; return the result, or the exception that stopped it after its beginning.

    run: takes `on_start`, as `collect` does. An exception before the first episode is raised.
    """
    with Display(console, label) as display:
        try:
            return run(display.watch), None
        except KeyboardInterrupt as stop:
            if display.progress is None:
                raise typer.Exit(130) from None
            return None, stop
        except FactgymError as stop:
            if display.progress is None or isinstance(stop, ConfigError):
                raise
            return None, stop


def raise_stop(console: Console, stop: Stop, folder: Path, hint: str = "--resume") -> None:
    """End a command that was stopped: exit code 130 after an interrupt, else its error. hint: options to continue."""
    if stop is None:
        return
    finished = f"Finished parts are in {folder}; continue with {hint}"
    if isinstance(stop, FactgymError):
        raise FactgymError(f"{stop}. {finished}") from stop
    console.print(f"Stopped. {finished}", markup=False, soft_wrap=True)
    raise typer.Exit(130)


@contextmanager
def resumable(console: Console, folder: Path) -> Iterator[None]:
    """Run a loop whose finished parts stay on disk when it is stopped."""
    try:
        yield
    except ConfigError:
        raise
    except (KeyboardInterrupt, FactgymError) as stop:
        raise_stop(console, stop, folder)
