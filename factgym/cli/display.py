"""The live line of `factgym eval`: done, running, reward so far, tokens a second, errors, time left."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from factgym.agents.rollout.jobs import Progress

if TYPE_CHECKING:
    from rich.console import Console

REFRESH_SECONDS = 0.25
LOG_SECONDS = 30.0
"""How often a line is printed where there is no terminal to draw on."""


class Display(AbstractContextManager["Display"]):
    """Draws the counters of a run while it goes on. A thread of its own reads them; the run never waits for it."""

    def __init__(self, console: Console, label: str) -> None:
        self._console = console
        self._label = label
        self.progress: Progress | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def watch(self, progress: Progress) -> None:
        """Show these counters from now on."""
        self.progress = progress

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _draw(self) -> None:
        if self._console.is_terminal:
            self._draw_live()
            return
        while not self._over.wait(LOG_SECONDS):
            if self.progress is not None:
                self._console.print(f"{self._label}: {status(self.progress)}", markup=False, soft_wrap=True)

    def _draw_live(self) -> None:
        from rich.live import Live

        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            while not self._over.wait(REFRESH_SECONDS):
                if self.progress is not None:
                    live.update(self._line(self.progress), refresh=True)

    def _line(self, progress: Progress) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        bar = ProgressBar(total=max(progress.total, 1), completed=progress.before + progress.done, width=40)
        return Group(Text(self._label, style="bold", no_wrap=True, overflow="ellipsis"), bar, Text(status(progress)))


def status(progress: Progress) -> str:
    """The counters in words: `120/200 done · 64 running · reward 0.512 · 3 errors · 1,204 tokens/s · 0:41 left`."""
    parts = [f"{progress.before + progress.done:,}/{progress.total:,} done", f"{progress.running:,} running"]
    if progress.reward is not None:
        parts.append(f"reward {progress.reward:.3f}")
    parts.append(f"{progress.errors:,} error{'s' * (progress.errors != 1)}")
    if progress.tokens and progress.seconds > 0:
        parts.append(f"{progress.tokens / progress.seconds:,.0f} tokens/s")
    if (left := progress.seconds_left) is not None:
        parts.append(f"{_clock(left)} left")
    return " · ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
