"""`factgym benchmark` from its options to what it prints and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from factgym.benchmarks.benchmark import BENCHMARKS, Benchmark
from factgym.benchmarks.seva.report import evaluate_run
from factgym.cli.benchmark import benchmark
from factgym.core.errors import ConfigError, FactgymError

SMALL = ("--only", "generated", "-n", "20")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def call(*args: str) -> str:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(benchmark)
    done = CliRunner().invoke(app, args)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def error(*args: str) -> str:
    with pytest.raises(FactgymError) as raised:
        call(*args)
    return str(raised.value)


def test_it_plays_prints_and_writes(tmp_path):
    output = call("seva", *SMALL, "--agent", "nli", "--agent", "random", "--out", "mine")
    for part in ("generated: 20 claims", "nli", "random", "F1", "format", "says NA", "random against nli", "McNemar"):
        assert part in output
    assert "Played on generated claims alone" in output
    assert f"Page: {Path('mine', 'report.html')}" in output
    score = evaluate_run(tmp_path / "mine" / "generated" / "nli").scores["macro_f1"].value
    assert score is not None
    assert f"{100 * score:.1f}" in output
    numbers = json.loads((tmp_path / "mine" / "report.json").read_text("utf-8"))
    assert [row["agent"] for row in numbers] == ["nli", "random"]


def test_the_same_command_goes_on_and_another_is_refused(tmp_path):
    args = ("seva", *SMALL, "--agent", "lexical")
    call(*args)
    file = tmp_path / "runs" / "benchmark-seva" / "generated" / "lexical" / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:7]) + b'{"schema"')
    call(*args)
    again = file.read_bytes().splitlines(keepends=True)
    assert again[:7] == lines[:7]
    assert len(again) == 20
    assert "n: 20 then, 9 now" in error("seva", "-n", "9", "--agent", "lexical")


def test_the_papers_tables(tmp_path):
    output = call("seva", *SMALL, "--agent", "nli", "--paper")
    for part in ("Table 1 ", "Table 14", "1.28", "Figure 6", "+1.62", "no file at hand", "✓", "✗"):
        assert part in output
    assert "not a reproduction" in output
    assert all(len(line.rstrip()) <= 80 for line in output.splitlines() if not line.startswith("Page:"))


def test_runs_are_reported_on_and_compared(tmp_path):
    call("seva", *SMALL, "--agent", "nli", "--agent", "random", "--out", "mine")
    runs = [str(tmp_path / "mine" / "generated" / name) for name in ("nli", "random")]
    output = call("seva", "--run", runs[0], "--run", runs[1])
    for part in ("False positives by writing style", "Calibration: ECE", "balanced acc.", "random against nli"):
        assert part in output
    assert (tmp_path / "mine" / "generated" / "nli" / "seva.html").is_file()
    assert "leave out --agent" in error("seva", "--run", runs[0], "--agent", "nli")


def test_runs_of_different_tasks_are_refused(tmp_path):
    call("seva", *SMALL, "--agent", "nli", "--out", "a")
    call("seva", *SMALL, "--agent", "nli", "--out", "b", "--seed", "3")
    output = error("seva", "--run", "a/generated/nli", "--run", "b/generated/nli")
    assert "seed 0 against 3" in output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("sevaa",), "Did you mean 'seva'"),
        (("seva", "--only", "fevr"), "Did you mean 'fever'"),
        (("seva", "--only", "fever"), "no data"),
        (("seva", "--data", "nowhere"), "nowhere is no folder"),
        (("seva", "--agent", "oracel"), "Did you mean 'oracle'"),
        (("seva", "--run", "nowhere"), "nowhere is no run"),
        (("seva", "--agent-set", "oops"), "KEY=VALUE"),
    ],
)
def test_bad_input_names_the_fix(args, message):
    assert message in error(*args)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_an_interrupt_says_how_to_go_on(name, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Benchmark, "run", interrupted)
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(benchmark)
    done = CliRunner().invoke(app, [name])
    assert done.exit_code == 130
    assert "run the same command to resume" in done.output


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("seva", "annotated=a.jsonl", "seva has no setting 'annotated'"),
        ("corver", "predictions=x.json", "Its own: annotated"),
        ("corver", "promt=eval", "Did you mean 'prompt'"),
        ("eve", "judge_setting.word=1", "Did you mean 'judge_settings'"),
        ("claimcheck", "rewrd=v2", "Did you mean 'reward'"),
    ],
)
def test_an_unknown_setting_is_refused_and_the_others_are_named(name, setting, message):
    assert message in error(name, "-n", "1", "--set", setting)


def test_the_registry_names_every_benchmark_in_its_error():
    with pytest.raises(ConfigError, match=", ".join(BENCHMARKS)):
        call("nothing")
