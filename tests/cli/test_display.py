"""The live line: what it says, and that it never holds up the run."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from factgym.agents.rollout import jobs
from factgym.agents.rollout.jobs import Progress
from factgym.cli import display
from factgym.cli.display import Display, status


def record(total=0.5, error=None, tokens=100):
    usage = {"prompt_tokens": tokens - 10, "completion_tokens": 10, "requests": 1}
    return {"error": error, "reward": {"total": total}, "usage": usage}


@pytest.fixture
def now(monkeypatch):
    """The time of the progress, which does not pass."""
    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    return 1000.0


def test_the_counters_in_words(now):
    progress = Progress(200, before=20, running=64)
    assert status(progress) == "20/200 done · 64 running · 0 errors"
    for completion in (None, {"requests": 3, "retries": [{"cause": "server", "waited": 1.0}] * 2}, {}):
        progress.add_turn(completion)
    assert status(progress) == "20/200 done · 64 running · 3 turns · 3 requests (2 retried) · 0 errors"
    progress.turns = progress.requests = progress.retries = 0
    progress.started = now - 10
    for _ in range(89):
        progress.add(record())
    progress.add(record(None, {"cause": "timeout", "message": ""}))
    # 90 episodes of 100 tokens took 10 seconds, and 90 are still to come.
    assert status(progress) == "110/200 done · 64 running · reward 0.500 · 1 error · 900 tokens/s · 0:10 left"


def test_hours_are_written_as_hours(now):
    progress = Progress(10_001, done=1)
    progress.started = now - 1
    assert status(progress).endswith("2:46:40 left")


def test_a_terminal_gets_a_line_that_is_drawn_again_and_a_log_one_line_now_and_then(monkeypatch):
    monkeypatch.setattr(display, "LOG_SECONDS", 0.01)
    monkeypatch.setattr(display, "REFRESH_SECONDS", 0.01)
    for terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=100, highlight=False)
        with Display(console, "claimcheck · [bold]agent[/bold]") as status:
            time.sleep(0.03)
            assert "done" not in out.getvalue()
            status.watch(Progress(8, before=3))
            deadline = time.monotonic() + 20
            while "3/8 done" not in out.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
        assert "3/8 done" in out.getvalue()
        assert "[bold]agent[/bold]" in out.getvalue()
