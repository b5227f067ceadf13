"""The page and the command line: one file that needs nothing, foreign text escaped, options refused where they make no sense."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import typer
from corver_runs import episode, random_episodes, write_run
from pages import HOSTILE, checked
from typer.testing import CliRunner

from factgym.benchmarks.benchmark import Request
from factgym.benchmarks.corver.benchmark import BENCHMARK, calibration_chart
from factgym.benchmarks.corver.calibration import calibrate
from factgym.cli.benchmark import benchmark
from factgym.core.errors import ConfigError, FactgymError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def test_the_page_shows_what_was_found(tmp_path):
    raw = write_run(tmp_path / "raw", random_episodes(80, 1, (0.3, 0.4, 0.3)), agent="raw")
    trained = write_run(tmp_path / "trained", random_episodes(80, 2, (0.6, 0.3, 0.1)), agent="trained")
    found = BENCHMARK.run(Request(runs=(raw, trained), out=tmp_path / "out", paper=True))
    words = checked(found.files[0].read_text("ascii")).text
    assert found.files == (tmp_path / "out" / "report.html", tmp_path / "out" / "report.json")
    for part in (
        "trained against raw",
        "Accuracy by popularity",
        "Refusals",
        "Right sentences by count",
        "The learning zone",
    ):
        assert part in words
    value = 100 * found.results.reports[1].scores["popqa"].accuracy.value
    assert f"{value:.1f}" in words


def test_foreign_names_are_escaped(tmp_path):
    rows = [episode("q-0", benchmark=HOSTILE), episode("q-1", "bad", benchmark=HOSTILE, popularity=3.0)]
    run = write_run(tmp_path / "run", rows, agent=HOSTILE, config={"counter": HOSTILE})
    page = BENCHMARK.run(Request(runs=(run,), out=tmp_path / "out", paper=True)).files[0].read_text("ascii")
    assert "alert(1)" in checked(page).text
    assert "[U+202E]" in page


def test_the_curve_is_a_picture_that_stands_alone():
    pytest.importorskip("matplotlib", reason="charts need the extra 'charts'")
    mine = calibrate([(0, False), (3, True), (7, True), (50, True)])
    svg = calibration_chart([(HOSTILE, mine)])
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    shown = ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]
    for words in ("the paper’s 700 sentences", "c = 0", "c ≥ 20"):
        assert words in shown
    assert "\u202e" not in svg and "<script" not in svg
    assert calibration_chart([(HOSTILE, mine)]) == svg
    assert calibration_chart() != svg


def call(*args: str) -> str:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(benchmark)
    done = CliRunner().invoke(app, args)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return str(done.output)


def test_the_command_plays_and_writes(tmp_path):
    (tmp_path / "audit.jsonl").write_text('{"count": 0, "correct": false}\n{"count": 30, "correct": true}\n', "utf-8")
    said = call("corver", "-n", "20", "--agent", "student", "--agent", "random", "--paper", "--out", "mine", "--set", "annotated=audit.jsonl", "--set", "reward=reference")  # fmt: skip
    for part in (
        "synthetic: 20 questions",
        "reward reference",
        "random against student",
        "audit.jsonl",
        "Tables 1, 15, 16",
    ):
        assert part in said
    assert f"Page: {Path('mine', 'report.html')}" in said
    assert Path("mine", "report.json").is_file()
    again = call("corver", "--run", "mine/synthetic/student", "--run", "mine/synthetic/random")
    assert "random against student" in again
    assert "Page:" not in again


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--only", "popqaa"), "Did you mean 'popqa'"),
        (("--only", "popqa"), "no data"),
        (("--data", "nowhere"), "does not exist"),
        (("--agent", "oracel"), "Did you mean 'oracle'"),
        (("--run", "nowhere"), "nowhere is no run"),
        (("--run", "nowhere", "--agent", "oracle"), "leave out --agent"),
        (("--set", "promt=eval"), "prompt"),
        (("--set", "predictions=x.json"), "has no setting"),
        (("--set", "annotated=nothing.jsonl"), "cannot be read"),
    ],
)
def test_bad_input_names_the_fix(args, says):
    with pytest.raises(FactgymError, match=says):
        call("corver", *args)


def test_a_counter_that_is_no_path_cannot_count_annotations(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"sentence": "x", "correct": true}\n', "utf-8")
    with pytest.raises(ConfigError, match="path of an index"):
        BENCHMARK.run(Request(settings={"counter": 3, "annotated": str(tmp_path / "a.jsonl")}))
