"""The page and the command line: one file that needs nothing, foreign text escaped, options refused where they make no sense."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from corver_runs import episode, random_episodes, write_run
from typer.testing import CliRunner

from factgym.benchmarks.corver import command
from factgym.benchmarks.corver.calibration import calibrate
from factgym.benchmarks.corver.curve_chart import curve_svg
from factgym.benchmarks.corver.paper.counts import published
from factgym.cli.benchmark import benchmark
from factgym.core.errors import ConfigError, FactgymError

HOSTILE = "</h2><script>alert(1)</script>\u202e[bold]"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


class Words(HTMLParser):
    """The text of a page, and its tags."""

    def __init__(self):
        super().__init__()
        self.tags, self.words = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def page_of(path):
    page = path.read_text("ascii")
    found = Words()
    found.feed(page)
    return page, found.tags, " ".join(" ".join(found.words).split())


def test_the_page_shows_what_was_found(tmp_path):
    raw = write_run(tmp_path / "raw", random_episodes(80, 1, (0.3, 0.4, 0.3)), agent="raw")
    trained = write_run(tmp_path / "trained", random_episodes(80, 2, (0.6, 0.3, 0.1)), agent="trained")
    found = command.read([raw, trained], tmp_path / "out", paper=True)
    page, tags, words = page_of(found.files[0])
    assert found.files == (tmp_path / "out" / "report.html", tmp_path / "out" / "report.json")
    for part in (
        "trained against raw",
        "Accuracy by popularity",
        "Refusals",
        "Right sentences by count",
        "The learning zone",
    ):
        assert part in words
    value = 100 * found.reports[1].scores["popqa"].accuracy.value
    assert f"{value:.1f}" in words
    assert "script" not in tags
    assert not re.findall(r"(?:src|href)=[\"'](?!data:|#)", page)
    assert "default-src 'none'" in page


def test_foreign_names_are_escaped(tmp_path):
    rows = [episode("q-0", benchmark=HOSTILE), episode("q-1", "bad", benchmark=HOSTILE, popularity=3.0)]
    run = write_run(tmp_path / "run", rows, agent=HOSTILE, config={"counter": HOSTILE})
    _, tags, words = page_of(command.read([run], tmp_path / "out", paper=True).files[0])
    assert "script" not in tags
    assert "alert(1)" in words
    assert "\u202e" not in words


def test_the_curve_is_a_picture_that_stands_alone():
    mine = calibrate([(0, False), (3, True), (7, True), (50, True)])
    svg = curve_svg([("theirs", published()), (HOSTILE, mine)], (1, 5, 20))
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    captions = [one.text for one in root.iter(f"{space}title")][1:]
    assert len(captions) == 9, "an empty bucket has no point"
    assert captions[0] == "c = 0: 24.0 % of 200 sentences [18.6, 30.4]"
    heights = [float(one.get("cy")) for one in root.iter(f"{space}circle")][:5]
    assert heights == sorted(heights, reverse=True), "the share rises"
    assert len([one for one in root.iter(f"{space}line") if one.get("class") == "d"]) == 3
    assert "24.0 % of 200" in root.find(f"{space}desc").text
    assert ElementTree.fromstring(curve_svg([])).tag == f"{space}svg"


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
    said = call("corver", "-n", "20", "--agent", "student", "--agent", "random", "--paper", "--out", "mine", "--annotated", "audit.jsonl", "--set", "reward=reference")  # fmt: skip
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
        (("--predictions", "x.json"), "are for profact"),
        (("--annotated", "nothing.jsonl"), "cannot be read"),
    ],
)
def test_bad_input_names_the_fix(args, says):
    with pytest.raises(FactgymError, match=says):
        call("corver", *args)


def test_other_benchmarks_take_no_annotations():
    with pytest.raises(ConfigError, match="is for corver"):
        call("seva", "--annotated", "a.jsonl")


def test_a_counter_that_is_no_path_cannot_count_annotations(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"sentence": "x", "correct": true}\n', "utf-8")
    with pytest.raises(ConfigError, match="path of an index"):
        command.read([tmp_path], annotated=tmp_path / "a.jsonl", settings={"counter": 3})


def test_no_run_is_said():
    with pytest.raises(ConfigError, match="no run is given"):
        command.read([])


def test_an_interrupt_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "play", interrupted)
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(benchmark)
    done = CliRunner().invoke(app, ["corver"])
    assert done.exit_code == 130
    assert "the same command goes on" in done.output
