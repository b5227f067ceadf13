"""The per-round table and the chart: against the paper's own arithmetic, and against counts made here."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from factgym.benchmarks.statistics.intervals import Estimate
from factgym.core.errors import DataError
from factgym.training.seva.report import (
    BenchmarkScore,
    EvolutionReport,
    RoundResult,
    evolution_chart,
    read_report,
    render_evolution,
)

YES, NO = "Attributable", "Not Attributable"
NAMES = ("clearfacts", "fever", "truthfulqa", "halueval")


def macro_f1(gold: list[str], predictions: list[str | None]) -> float:
    """By its definition."""
    total = 0.0
    for label in (YES, NO):
        right = sum(g == s == label for g, s in zip(gold, predictions, strict=True))
        result, present = predictions.count(label), gold.count(label)
        precision, recall = right / result if result else 0.0, right / present if present else 0.0
        total += 2 * precision * recall / (precision + recall) if right else 0.0
    return total / 2


def measured(right: dict[str, int], n: int = 80) -> dict[str, Any]:
    """Benchmarks on which the first `right` of n alternating claims were judged rightly."""
    result = {}
    for name, k in right.items():
        gold = [YES, NO] * (n // 2)
        predictions = [g if at < k else (NO if g == YES else YES) for at, g in enumerate(gold)]
        result[name] = {"n": n, "tasks": [f"{name}-{at}" for at in range(n)], "gold": gold, "said": predictions}
    return result


def write(folder: Path, rounds: dict[str, list[dict[str, int]]], seed: dict[str, int]) -> None:
    def put(path: Path, data: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data))

    put(folder / "manifest.json", {"what": "factgym evolve seva"})
    put(folder / "round-0" / "metrics.json", {"arm": "", "round": 0, "what": "seed", "benchmarks": measured(seed)})
    note = "probe-check (version 1): NOT judged by a model. A stand-in <b>&"
    probes = {
        "asked": 205,
        "made": 200,
        "kept": 190,
        "shortfall": {"anli": {"temporal_shift": 5}},
        "cross_check": {"note": note, "drop_rate": 0.05},
    }
    for arm, result in rounds.items():
        for number, right in enumerate(result, 1):
            path = folder / arm / f"round-{number}"
            kind = "rules" if number == 1 else "trained"
            about = {"arm": arm, "round": number, "what": kind, "probes": probes, "benchmarks": measured(right)}
            put(path / "metrics.json", about | ({"train": {"lines": 380}} if number > 1 else {}))
            put(path / "allocation.json", {"limit": None if arm == "weakness" else 190})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    seed = dict.fromkeys(NAMES, 56)
    swap = {"clearfacts": 57, "fever": 57, "truthfulqa": 34, "halueval": 76}
    rise = {"clearfacts": 74, "fever": 56, "truthfulqa": 56, "halueval": 60}
    write(tmp_path, {"weakness": [seed, swap], "mix": [seed, rise, dict.fromkeys(NAMES, 30)]}, seed)
    return tmp_path


def test_the_numbers_are_those_of_the_metrics(folder: Path) -> None:
    result = read_report(folder, resamples=500)
    assert result.benchmarks == NAMES
    assert result.arms == ("weakness", "mix")
    assert [row.name for row in result.rows] == ["seed", "weakness 1", "weakness 2", "mix 1", "mix 2", "mix 3"]
    for row in result.rows:
        path = folder / row.arm / f"round-{row.number}" if row.arm else folder / "round-0"
        benchmarks = json.loads((path / "metrics.json").read_text())["benchmarks"]
        for name in NAMES:
            assert row.scores[name].f1 == pytest.approx(macro_f1(benchmarks[name]["gold"], benchmarks[name]["said"]))
            change = row.scores[name].change
            if row.arm:
                assert change is not None
                assert change.value == pytest.approx(row.scores[name].f1 - result.rows[0].scores[name].f1)
        assert row.average == pytest.approx(sum(cell.f1 for cell in row.scores.values()) / 4)


def test_the_name_of_a_round(folder: Path) -> None:
    shapes = {row.name: row.shape for row in read_report(folder, resamples=1000).rows}
    assert shapes == {
        "seed": "flat",
        "weakness 1": "flat",
        "weakness 2": "specialist",
        "mix 1": "flat",
        "mix 2": "gain",
        "mix 3": "loss",
    }


def test_a_change_within_chance_is_no_specialty() -> None:
    def cell(low: float, high: float) -> BenchmarkScore:
        return BenchmarkScore(0.5, Estimate((low + high) / 2, low, high, 80), 80)

    def shape(*cells: BenchmarkScore) -> str:
        return RoundResult("weakness", 2, "trained", {str(index): score for index, score in enumerate(cells)}).shape

    up, down, wide, edge = cell(0.01, 0.2), cell(-0.2, -0.01), cell(-0.1, 0.2), cell(0.0, 0.2)
    assert [shape(up, down), shape(up, wide), shape(down, wide), shape(wide, edge)] == [
        "specialist",
        "gain",
        "loss",
        "flat",
    ]
    assert RoundResult("weakness", 2, "trained", {"a": up, "b": down}).spread == pytest.approx(0.21)


def printed_text(rounds: EvolutionReport, width: int = 80) -> str:
    from rich.console import Console

    console = Console(width=width, highlight=False, force_terminal=False)
    with console.capture() as capture:
        console.print(render_evolution(rounds))
    return capture.get()


def test_the_table_fits_eighty_columns(folder: Path) -> None:
    text = printed_text(read_report(folder, resamples=500))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    row = next(line for line in text.splitlines() if line.startswith("weakness 2"))
    assert "42.5 -27.5*" in row
    assert "95.0 +25.0*" in row
    assert "specialist: + halueval; -" in text
    assert "NOT judged by a model" in text
    assert "weakness 1: 5 probes short of 205; most lacking: temporal_shift." in text
    assert "At most as many probes were kept as the arm weakness" in text


def test_many_benchmarks_take_several_tables(tmp_path: Path) -> None:
    names = [*NAMES, "anli", "generated-validation", "generated-ood"]
    write(tmp_path, {"weakness": [dict.fromkeys(names, 50)]}, dict.fromkeys(names, 56))
    text = printed_text(read_report(tmp_path, resamples=200))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.count("average") == 1
    assert all(name in text for name in (*NAMES, "anli", "validation", "ood"))


def test_the_chart_is_self_contained_and_the_same_each_time(folder: Path) -> None:
    pytest.importorskip("matplotlib", reason="charts need the extra 'charts'")
    rounds = read_report(folder, resamples=500)
    svg = evolution_chart(rounds, "Rounds <script>alert(1)</script> & \u202e")
    root = ET.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert not root.findall(f".//{space}script") and "\u202e" not in svg
    assert not root.findall(f".//{space}image")
    words = ["".join(element.itertext()) for element in root.iter(f"{space}text")]
    for name in ("weakness", "mix", *NAMES, "average"):
        assert name in words
    assert svg == evolution_chart(rounds, "Rounds <script>alert(1)</script> & \u202e")


def test_the_chart_draws_changes_where_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every point lies at its round and its change in points."""
    axes_module = pytest.importorskip("matplotlib.axes", reason="charts need the extra 'charts'")
    drawn: list[tuple[list[float], list[float]]] = []
    original = axes_module.Axes.errorbar

    def errorbar(self: Any, xs: list[float], values: list[float], **options: Any) -> Any:
        drawn.append((xs, values))
        return original(self, xs, values, **options)

    monkeypatch.setattr(axes_module.Axes, "errorbar", errorbar)
    rounds = read_report(folder, resamples=200)
    evolution_chart(rounds)
    expected = [
        [100 * (cell.change.value or 0.0) if (cell := row.scores[name]).change else 0.0 for row in rounds.rows_of(arm)]
        for arm in rounds.arms
        for name in rounds.benchmarks
    ]
    assert [values for _, values in drawn] == expected
    assert all([round(x) for x in xs] == list(range(len(xs))) for xs, _ in drawn)


def test_the_json_says_the_same(folder: Path) -> None:
    result = read_report(folder, resamples=500)
    data = json.loads(json.dumps(result.to_dict()))
    row = data["rounds"][2]
    assert (row["arm"], row["round"], row["shape"], row["trained_on"]) == ("weakness", 2, "specialist", 380)
    assert row["benchmarks"]["halueval"]["macro_f1"] == pytest.approx(0.95)
    assert (
        row["benchmarks"]["halueval"]["low"]
        < row["benchmarks"]["halueval"]["change"]
        < row["benchmarks"]["halueval"]["high"]
    )


def test_a_report_that_cannot_be_shown_gives_the_reason(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(DataError, match="holds no evolution"):
        read_report(tmp_path / "nowhere")
    path = folder / "weakness" / "round-1" / "metrics.json"
    data = json.loads(path.read_text())
    data["benchmarks"]["fever"]["tasks"][0] = "another"
    path.write_text(json.dumps(data))
    with pytest.raises(DataError, match="other claims of fever"):
        read_report(folder)
    (folder / "round-0" / "metrics.json").unlink()
    with pytest.raises(DataError, match="not measured yet"):
        read_report(folder)
