"""Tables in a log of eighty columns, in ASCII, and with hostile names."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import fake_runs
from rich.console import Console

from factgym.benchmarks.formats import decimal, percent, printable
from factgym.benchmarks.summary import summarise
from factgym.benchmarks.tables import render_summary


def _print(renderable: Any, encoding: str = "utf-8", **options: Any) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="replace")
    Console(file=stream, width=80, **options).print(renderable)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_a_result_fits_a_log_of_eighty_columns() -> None:
    shown = _print(render_summary(summarise(fake_runs.episode(i) for i in range(60)), ["a note"]))
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    assert "…" not in shown, "a number was cut"
    for word in ("claimcheck-multihop v1", "a note", "coverage", "macro recall", "false supported", "turn limit"):
        assert word in shown


def test_a_label_table_with_all_columns_is_not_cut() -> None:
    summary = summarise(fake_runs.episode(i) for i in range(200))
    assert summary.confusion is not None and len(summary.confusion.predictions) == 6
    shown = _print(render_summary(summary))
    assert "partially supported" in shown and "…" not in shown


def test_an_ascii_terminal_gets_ascii_bars() -> None:
    shown = _print(render_summary(summarise([fake_runs.episode(1)])), "ascii")
    assert "####" in shown and "━" not in shown


def test_hostile_names_are_text() -> None:
    shown = _print(render_summary(summarise([fake_runs.hostile_episode(0)])))
    assert "\x1b" not in shown and "\x00" not in shown
    assert "\u202e" not in shown
    assert "</script><img" in shown


def test_markup_in_a_name_is_not_obeyed() -> None:
    episode = {**fake_runs.episode(1), "agent": "[bold]x[/bold] [/nothing]"}
    assert "[bold]x[/bold] [/nothing]" in _print(render_summary(summarise([episode])))


def test_a_run_of_faults_only_and_an_empty_run_are_shown() -> None:
    fault = {**fake_runs.episode(1), "stop": "error", "error": "ServerError: [gone]"}
    shown = _print(render_summary(summarise([fault])))
    assert "0 episodes scored, 1 infrastructure error left out" in shown
    assert "ServerError: [gone]" in shown
    assert "0 episodes scored" in _print(render_summary(summarise([])))


def test_how_numbers_are_written() -> None:
    assert decimal(-0.0001) == "0.000"
    assert (decimal(None), percent(None)) == ("–", "–")
    assert percent(0.125) == "12.5 %"
    assert printable("a\nb\x1b\u202e" + "c" * 50, 10) == "a b\ufffd\ufffdcccc…"


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, factgym.benchmarks.tables, factgym.benchmarks.audit_table, factgym.benchmarks.viewer\n"
        "print([name for name in ('rich', 'scipy', 'openai', 'bm25s') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
