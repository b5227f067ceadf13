"""The benchmark of ClaimCheck: its splits, the five surfaces, and the paper's tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import checked, printed

from factgym.agents.runs.read import read_run
from factgym.benchmarks.benchmark import Outcome, Request
from factgym.benchmarks.claimcheck import BENCHMARK, SPLITS, data_sets
from factgym.benchmarks.metrics import summarise
from factgym.core.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FACTGYM_DATA", raising=False)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    out = tmp_path_factory.mktemp("claimcheck")
    request = Request(agents=("oracle", "nli", "label-only"), only=("mixed", "multihop"), n=10, out=out, paper=True)
    return BENCHMARK.run(request), out


def test_the_splits_are_the_papers() -> None:
    assert [data_set.name for data_set in data_sets()] == list(SPLITS) == ["mixed", "hard", "ood", "multihop"]
    assert [data_set.env_id for data_set in data_sets(only=["ood"])] == ["claimcheck-ood"]
    with pytest.raises(ConfigError, match="Did you mean 'multihop'"):
        data_sets(only=["multihp"])
    with pytest.raises(ConfigError, match="contracts: no data"):
        data_sets(only=["contracts"])


def test_every_summary_is_that_of_its_run(small: tuple[Outcome, Path]) -> None:
    outcome, out = small
    for result in outcome.results:
        assert result.report == summarise(read_run(out / result.data_set / result.agent).episodes())
    numbers = json.loads((out / "report.json").read_text("utf-8"))
    assert len(numbers) == 6
    assert numbers[0]["report"]["accuracy"]["value"] == 1.0


def test_surfaces_keep_labels_and_evidence_apart(small: tuple[Outcome, Path]) -> None:
    """A script that knows the label and cites nothing is calibrated and not grounded."""
    results = {(result.data_set, result.agent): result.report for result in small[0].results}
    label_only = {
        surface.name: surface.measures[0].estimate.value for surface in results["mixed", "label-only"].surfaces
    }
    oracle = {surface.name: surface.measures[0].estimate.value for surface in results["mixed", "oracle"].surfaces}
    assert label_only["calibration"] == oracle["calibration"] == 1.0
    assert label_only["coverage"] < 0.5 < oracle["coverage"]


def test_the_page_and_the_terminal_show_splits_surfaces_and_the_paper(small: tuple[Outcome, Path]) -> None:
    outcome, out = small
    text = checked((out / "report.html").read_text("ascii")).text
    for words in (
        "multihop: 10 tasks",
        "Five surfaces",
        "grounding",
        "not a reproduction",
        "Verdict-gated RL (theirs)",
    ):
        assert words in text
    output = printed(outcome)
    assert "oracle (ours)" in output and "know the gold label" in " ".join(output.split())
    single = BENCHMARK.run(Request(runs=(out / "mixed" / "nli",)))
    assert "false supported ↓" in printed(single)


def test_a_run_of_another_family_is_refused(small: tuple[Outcome, Path], tmp_path: Path) -> None:
    lines = (small[1] / "mixed" / "nli" / "episodes.jsonl").read_text("utf-8").splitlines()
    episode = json.loads(lines[0])
    del episode["reward"]["metrics"]["gold_verdict"]
    (tmp_path / "episodes.jsonl").write_text(json.dumps(episode) + "\n", "utf-8")
    with pytest.raises(DataError, match="claimcheck environment"):
        BENCHMARK.run(Request(runs=(tmp_path,)))
