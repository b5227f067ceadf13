"""Two reports on the same questions: paired differences, and where a gain comes from."""

from __future__ import annotations

import json

import numpy as np
import pytest
from corver_runs import episode, random_episodes, write_run

from factgym.benchmarks.corver.compare import compare, decompose
from factgym.benchmarks.corver.report import evaluate_runs
from factgym.benchmarks.statistics.classification import mcnemar
from factgym.benchmarks.statistics.intervals import Estimate, mean_of
from factgym.core.errors import ConfigError


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A raw and a trained agent on two benchmarks."""
    folder = tmp_path_factory.mktemp("runs")

    def report(name, seed, weights):
        runs = [
            write_run(folder / name / one, random_episodes(n, seed, weights, benchmark=one), agent=name)
            for one, n in (("popqa", 300), ("nq-open", 120))
        ]
        return evaluate_runs(runs)

    return report("raw", 1, (0.3, 0.4, 0.3)), report("trained", 2, (0.5, 0.45, 0.05))


def labels(report, benchmark):
    return [one.label for one in report.answers if one.benchmark == benchmark]


def test_differences_are_paired_means(reports):
    found = compare(*reports)
    for name in ("popqa", "nq-open"):
        first, second = (np.array(labels(one, name)) for one in reports)
        part = found.benchmarks[name].parts["accuracy"]
        assert part.difference.value == pytest.approx((second == "good").mean() - (first == "good").mean())
        refusal = found.benchmarks[name].parts["refusal"]
        assert refusal.difference.value == pytest.approx((second == "na").mean() - (first == "na").mean())
        assert part.difference.low < part.difference.value < part.difference.high
        assert found.benchmarks[name].mcnemar == mcnemar(list(first == "good"), list(second == "good"))


def test_the_interval_is_near_the_normal_one(reports):
    """BCa of a mean of some hundred differences is close to the textbook interval."""
    first, second = (np.array(labels(one, "popqa")) == "good" for one in reports)
    change = second.astype(float) - first.astype(float)
    reach = 1.96 * change.std(ddof=1) / np.sqrt(len(change))
    found = compare(*reports).benchmarks["popqa"].parts["accuracy"].difference
    assert found.high - found.low == pytest.approx(2 * reach, rel=0.05)


def test_exchanging_the_reports_changes_the_sign(reports):
    there, back = compare(*reports), compare(*reversed(reports))
    for name, one in there.benchmarks.items():
        for part, difference in one.parts.items():
            other = back.benchmarks[name].parts[part]
            assert other.difference.value == pytest.approx(-difference.difference.value)
            assert (other.first, other.second) == (difference.second, difference.first)


def test_the_average_is_that_of_benchmarks(reports):
    found = compare(*reports)
    parts = [one.parts["accuracy"].difference for one in found.benchmarks.values()]
    assert found.average["accuracy"].difference.value == pytest.approx(sum(one.value for one in parts) / 2)
    whole = mean_of([Estimate(0.1, 0.0, 0.2, 5), Estimate(0.3, 0.2, 0.4, 7)])
    assert (whole.value, whole.n) == (pytest.approx(0.2), 12)
    assert whole.high - whole.value == pytest.approx(0.1 / 2**0.5)


def test_samples_are_clustered_by_question(tmp_path):
    raw = [episode(f"q-{i}", "good" if i % 2 else "bad", sample=k) for i in range(30) for k in range(4)]
    trained = [episode(f"q-{i}", "good" if i % 3 else "bad", sample=k) for i in range(30) for k in range(4)]
    found = compare(*(evaluate_runs(write_run(tmp_path / n, rows)) for n, rows in (("a", raw), ("b", trained))))
    once = compare(*(evaluate_runs(write_run(tmp_path / n, rows[::4])) for n, rows in (("c", raw), ("d", trained))))
    assert found.benchmarks["popqa"].mcnemar is None
    wide = found.benchmarks["popqa"].parts["accuracy"].difference
    alone = once.benchmarks["popqa"].parts["accuracy"].difference
    assert wide.n == alone.n == 30
    assert (wide.low, wide.high) == (pytest.approx(alone.low), pytest.approx(alone.high))


def test_what_cannot_be_compared(tmp_path):
    one = evaluate_runs(write_run(tmp_path / "a", [episode("q-0")]))
    other = evaluate_runs(write_run(tmp_path / "b", [episode("q-1")]))
    with pytest.raises(ConfigError, match="share no answer"):
        compare(one, other)
    changed = evaluate_runs(write_run(tmp_path / "c", [episode("q-0", question="Another one?")]))
    with pytest.raises(ConfigError, match="disagree on question 'q-0'"):
        compare(one, changed)


def test_what_differs_is_said(tmp_path):
    one = evaluate_runs(write_run(tmp_path / "a", [episode("q-0"), episode("q-1")]))
    other = evaluate_runs(write_run(tmp_path / "b", [episode("q-0")], config={"prompt": "eval-trained"}))
    found = compare(one, other)
    assert found.notes == (
        "1 answer that only one of the two gave left out.",
        "The runs differ in the prompt: eval against eval-trained.",
    )
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_gain_divides_into_its_three_parts(reports):
    for one in decompose(*reports):
        assert one.from_unlocked + one.from_both + one.from_withdrawn == pytest.approx(one.gain)
        raw, trained = (np.array(labels(report, one.benchmark)) for report in reports)
        assert one.gain == pytest.approx((trained == "good").mean() - (raw == "good").mean())
        opened = (raw == "na") & (trained != "na")
        assert one.unlocked.value == pytest.approx((trained[opened] == "good").mean())
        assert one.unlocked.n == opened.sum()
        assert one.raw_refusal.value == pytest.approx((raw == "na").mean())
        lost = (raw == "good") & (trained == "na")
        assert one.from_withdrawn == pytest.approx(-lost.mean())
        json.dumps(one.to_dict(), allow_nan=False)


def test_a_row_like_that_of_table_17(tmp_path):
    """NQ-Open's refusals, 13.27 % and 4.13 % of 3,610, none of the later ones new: 330 questions are unlocked."""
    n, refused, left, right = 3610, 479, 149, 58
    raw, trained = [], []
    for i in range(n):
        raw.append(episode(f"q-{i}", "na" if i < refused else "bad"))
        trained.append(episode(f"q-{i}", "na" if i < left else "good" if i < left + right else "bad"))
    (found,) = decompose(
        *(evaluate_runs(write_run(tmp_path / name, rows)) for name, rows in (("a", raw), ("b", trained)))
    )
    shown = [round(100 * one.value, 2) for one in (found.raw_refusal, found.trained_refusal)]
    assert shown == [13.27, 4.13]
    assert round(100 * found.unlocked.value, 1) == 17.6
    assert found.from_both == found.from_withdrawn == 0


def test_gains_by_popularity_are_paired_within_quarters(reports):
    raw, trained = ([one for one in report.answers if one.popularity is not None] for report in reports)
    views = np.array([one.popularity for one in raw])
    places = np.searchsorted(np.percentile(views, [25, 50, 75]), views, side="left")
    change = np.array([b.good - a.good for a, b in zip(raw, trained, strict=True)], float)
    found = compare(*reports).quarters
    assert [one.name for one in found] == ["Q1 (rare)", "Q2", "Q3", "Q4 (popular)", "All"]
    for i, one in enumerate(found[:4]):
        assert one.n == (places == i).sum()
        assert one.accuracy.difference.value == pytest.approx(change[places == i].mean())
    assert found[4].n == len(raw)
    assert found[4].accuracy.difference.value == pytest.approx(change.mean())
    assert [(one.low, one.high) for one in found[:4]] == [
        (one.low, one.high) for one in reports[0].popularity.quartiles
    ]
