"""Tables in a log of eighty columns, in ASCII, and with hostile names."""

from __future__ import annotations

import io
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import fake_runs
import pytest
from pages import HOSTILE, checked
from rich.console import Console

from factgym.benchmarks import charts
from factgym.benchmarks.costs import Price, PriceTable
from factgym.benchmarks.formats import amount, decimal, duration, fill, percent, printable
from factgym.benchmarks.metrics import summarise
from factgym.benchmarks.page import report_page
from factgym.benchmarks.report import Bar, Chart, Report, Section, Styled, make_cells, paper_facts
from factgym.benchmarks.statistics.classification import reliability
from factgym.benchmarks.statistics.intervals import wilson
from factgym.benchmarks.tables import render_summary
from factgym.core.errors import MissingExtraError


def _print(renderable: Any, encoding: str = "utf-8", **options: Any) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="replace")
    Console(file=stream, width=80, **options).print(renderable)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_a_result_fits_a_log_of_eighty_columns() -> None:
    text = _print(render_summary(summarise(fake_runs.episode(i) for i in range(60)), ["a note"]))
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "…" not in text, "a number was cut"
    for word in ("claimcheck-multihop v1", "a note", "coverage", "macro recall", "false supported", "turn limit"):
        assert word in text


def test_a_label_table_with_all_columns_is_not_cut() -> None:
    summary = summarise(fake_runs.episode(i) for i in range(200))
    assert summary.confusion is not None and len(summary.confusion.predictions) == 6
    text = _print(render_summary(summary))
    assert "partially supported" in text and "…" not in text


def test_an_ascii_terminal_gets_ascii_bars() -> None:
    text = _print(render_summary(summarise([fake_runs.episode(1)])), "ascii")
    assert "####" in text and "━" not in text


def test_hostile_names_are_text() -> None:
    text = _print(render_summary(summarise([fake_runs.hostile_episode(0)])))
    assert "\x1b" not in text and "\x00" not in text
    assert "\u202e" not in text
    assert "</script><img" in text


def test_markup_in_a_name_is_not_obeyed() -> None:
    episode = {**fake_runs.episode(1), "agent": "[bold]x[/bold] [/nothing]"}
    assert "[bold]x[/bold] [/nothing]" in _print(render_summary(summarise([episode])))


def test_a_run_of_faults_only_and_an_empty_run_are_shown() -> None:
    error = {"cause": "connection", "message": "ServerError: [gone]"}
    text = _print(render_summary(summarise([{**fake_runs.episode(1), "stop": "error", "error": error}])))
    assert "0 episodes scored\n1 infrastructure error left out of all scores: 1 connection; first: Serv" in text
    assert "ServerError: [gone]" in text.replace("\n", " ")
    assert "tokens per verdict" not in text
    assert "0 episodes scored" in _print(render_summary(summarise([])))


PRICES = PriceTable("USD", {"Qwen/Qwen3-8B": Price(0.1, 0.4, 0.05)})


def _words(text: str) -> str:
    return " ".join(text.split())


def test_groups_usage_and_cost_fit_a_log_of_eighty_columns() -> None:
    episodes = [episode for i in range(60) for episode in fake_runs.group(i, 8)]
    summary = summarise(episodes, PRICES)
    text = _print(render_summary(summary))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text, "a number was cut"
    causes = ", ".join(f"{n} {cause}" for cause, n in summary.causes.items())
    assert f"{summary.errors} infrastructure errors left out of all scores: {causes}; first: " in _words(text)
    assert f"{summary.scored} episodes scored, of 60 tasks; all intervals are over tasks" in _words(text)
    assert f"context limit {summary.stops['context_limit']}" in text
    for words in ("Groups: 60 tasks with 7 to 8 scored samples", "all rewards equal ↓", "right within 8 tries"):
        assert words in text
    for words in ("of these cached", "rate_limit; waited", "truncated replies", "model 1.", "cost per verdict USD 0.0"):
        assert words in _words(text)
    assert summary.usage is not None and summary.usage.total is not None
    assert f"{summary.usage.tokens['prompt_tokens'].total:,}" in text


def test_nothing_is_shown_that_is_not_there() -> None:
    episodes = [fake_runs.episode(i) for i in range(20)]
    for episode in episodes:
        episode["usage"] = None
        for turn in episode["turns"]:
            turn["completion"], turn["seconds"] = None, {}
    text = _print(render_summary(summarise(episodes, PRICES)))
    for words in ("Effort", "Groups", "tokens", "cost", "truncated", "retries"):
        assert words not in text


def test_a_model_without_a_price_is_named_and_not_paid_with_zero() -> None:
    episodes = [fake_runs.episode(i) for i in range(20)]
    summary = summarise(episodes, PriceTable("EUR", {"other": Price(1.0, 1.0)}))
    text = _words(_print(render_summary(summary)))
    assert summary.usage is not None
    assert f"no price {summary.usage.total:,} tokens of 'Qwen/Qwen3-8B': not in the price table" in text
    assert "cost" not in text and "EUR" not in text


def test_hostile_causes_models_and_currencies_are_text() -> None:
    episodes = [fake_runs.hostile_fault(0), fake_runs.hostile_episode(1), fake_runs.episode(2)]
    episodes[1]["turns"][0]["completion"]["usage"] = {"prompt_tokens": 5, "completion_tokens": 5}
    episodes[1]["usage"] = {"prompt_tokens": 5, "completion_tokens": 5, "requests": 2}
    prices = PriceTable(fake_runs.HOSTILE[2], {"Qwen/Qwen3-8B": Price(1.0, 1.0)})
    text = _print(render_summary(summarise(episodes, prices), ["note"]))
    assert "\x1b" not in text and "\x00" not in text and "\u202e" not in text
    assert "left out of all scores: 1 </script><img" in _words(text)
    assert " tokens of '</script><img src=x onerror=" in _words(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.00021, "0.2 ms"), (0.34, "340 ms"), (1.239, "1.24 s"), (12.44, "12.4 s"), (185.2, "3 min 5 s"), (0.0, "0 ms")],
)
def test_how_seconds_are_written(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("money", "words"),
    [
        (1234.5, "1,234.50"),
        (0.138, "0.138"),
        (0.004119, "0.00412"),
        (0.0, "0.00"),
        (1e-12, "1.0e-12"),
        (0.1, "0.100"),
        (None, "–"),
    ],
)
def test_how_money_is_written(money: float | None, words: str) -> None:
    assert amount(money) == words


def test_how_numbers_are_written() -> None:
    assert decimal(-0.0001) == "0.000"
    assert (decimal(None), percent(None)) == ("–", "–")
    assert percent(0.125) == "12.5 %"
    assert printable("a\nb\x1b\u202e" + "c" * 50, 10) == "a b\ufffd\ufffdcccc…"


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, factgym.benchmarks.tables, factgym.benchmarks.audit, factgym.benchmarks.viewer\n"
        "print([name for name in ('rich', 'scipy', 'openai', 'bm25s') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Charts: the same bytes each time, foreign text as text, and a page without the chart library.

SVG = "{http://www.w3.org/2000/svg}"


def words(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_reliability_chart_is_self_contained_and_deterministic() -> None:
    pytest.importorskip("matplotlib", reason="charts need the extra 'charts'")
    result = reliability([0.1, 0.3, 0.9, 0.95, 0.99], [False, True, True, True, False])
    svg = charts.reliability_chart(result, HOSTILE)
    assert svg == charts.reliability_chart(result, HOSTILE)
    assert "<script" not in svg and "\u202e" not in svg
    assert any("ECE" in line and "Brier" in line for line in words(svg))
    assert "5 items" in words(svg)
    empty = charts.reliability_chart(reliability([], []))
    assert ET.fromstring(empty).tag == f"{SVG}svg"


def test_a_page_without_the_library_names_the_extra() -> None:
    def missing() -> str:
        raise MissingExtraError("a chart", "charts")

    text = checked(report_page(Report("x", (Section("y", (Chart("calibration", missing),)),)))).text
    assert "calibration: the extra 'charts' draws it" in text


def test_templates_hold_values_at_paths_in_a_named_form() -> None:
    source = {"agent": "{x}", "row": wilson(1, 4), "none": None, "values": [0.5, None]}
    assert fill("{agent}: {row:hundred} {row.n:,} {none:decimal} {none.more} {row.n:count task}", source) == (
        "{x}: 25.0 4 – – 4 tasks"
    )
    cells = make_cells(["{agent}", "**{row:percent 0}**", "{row:bar}", "{values*:decimal 1}"], source)
    assert cells == ("{x}", Styled("25 %"), Bar(wilson(1, 4)), "0.5", "–")
    with pytest.raises(AttributeError):
        fill("{row.vlaue}", source)


@pytest.mark.parametrize("paper", ["claimcheck", "seva", "profact", "corver", "eve"])
def test_layouts_have_a_template_for_every_column(paper: str) -> None:
    for key, layout in paper_facts(paper, "tables").items():
        for templates in (layout.get("theirs", []), layout.get("ours", [])):
            if "columns" in layout and not any("*" in cell.strip("*") for cell in templates):
                assert len(templates) <= len(layout["columns"]), key
