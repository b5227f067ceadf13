"""Reports of runs with known answers, against scikit-learn, SciPy and counts by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seva_runs import NEGATIVE, POSITIVE, episode, pairs, random_episodes, write_run

from factgym.benchmarks.seva.report import NO_TYPE, SLICE, evaluate_run
from factgym.benchmarks.statistics.intervals import wilson
from factgym.benchmarks.statistics.style import style_groups
from factgym.core.errors import DataError
from factgym.rewards.seva.output import LABELS

metrics = pytest.importorskip("sklearn.metrics", reason="compares with scikit-learn, of the dev extra")


@pytest.fixture(scope="module")
def made() -> list[dict[str, Any]]:
    return random_episodes(500)


@pytest.fixture(scope="module")
def report(made: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return evaluate_run(write_run(tmp_path_factory.mktemp("run"), made))


def said_or(made: list[dict[str, Any]], missing: str = "nothing") -> tuple[list[str], list[str]]:
    golds, said = zip(*pairs(made), strict=True)
    return list(golds), [missing if one is None else one for one in said]


def test_the_scores_are_those_of_scikit_learn(made, report):
    golds, said = said_or(made)
    assert "nothing" in said
    f1 = metrics.f1_score(golds, said, labels=LABELS, average="macro", zero_division=0)
    assert report.scores["macro_f1"].value == pytest.approx(f1)
    assert report.scores["accuracy"].value == pytest.approx(metrics.accuracy_score(golds, said))
    assert report.scores["matthews"].value == pytest.approx(metrics.matthews_corrcoef(golds, said))
    recall = metrics.recall_score(golds, said, labels=LABELS, average=None)
    assert report.scores["balanced_accuracy"].value == pytest.approx(recall.mean())
    for label, own in zip(LABELS, recall, strict=True):
        assert report.labels[label].recall == pytest.approx(own)
    assert (report.n, report.tasks) == (500, 500)


def test_the_confusion_matrix_counts_missing_labels_apart(made, report):
    table = report.confusion
    assert table.golds == LABELS
    assert table.predictions == (*LABELS, "none")
    expected = Counter(pairs(made))
    assert table.counts == tuple(tuple(expected[gold, said] for said in (*LABELS, None)) for gold in LABELS)


def test_the_intervals_hold_the_values_and_repeat(made, report, tmp_path):
    for one in (*report.scores.values(), *report.structure.values(), *report.rewards.values()):
        assert one.low <= one.value <= one.high
    again = evaluate_run(write_run(tmp_path / "again", made[::-1]))
    assert again.scores == report.scores
    assert report.scores["macro_f1"].high - report.scores["macro_f1"].low < 0.12


def test_quality_over_parsed_outputs_and_over_all(made, report):
    rows = [one["reward"] for one in made]
    parsed = [row["components"]["alignment"] for row in rows if row["metrics"]["parsed"]]
    assert 0 < len(parsed) < len(rows)
    assert report.structure["alignment"].value == pytest.approx(np.mean(parsed))
    assert report.structure["alignment_all"].value == pytest.approx(sum(parsed) / len(rows))
    assert report.structure["parsed"] == wilson(len(parsed), len(rows))
    assert report.structure["format"].value == len(parsed) / len(rows)


def test_biases_by_hand(made, report):
    counts = Counter(pairs(made))
    supported = sum(n for (gold, _), n in counts.items() if gold == POSITIVE)
    false = counts[POSITIVE, NEGATIVE]
    assert report.false_positive == wilson(false, supported)
    assert report.false_negative == wilson(counts[NEGATIVE, POSITIVE], len(made) - supported)
    rejected = false + counts[NEGATIVE, NEGATIVE]
    assert report.predicted_negative == wilson(rejected, len(made))
    assert report.negative_bias.value == pytest.approx((rejected - (len(made) - supported)) / len(made))


def test_false_positives_by_style_add_up(made, report):
    for name, groups in report.by_style.items():
        expected: Counter[str] = Counter()
        for one in made:
            view, found = one["task_view"], one["reward"]["metrics"]
            if found["gold_verdict"] == POSITIVE:
                expected[style_groups(view["answer"], view["passages"][0]["text"])[name]] += 1
        assert {group: one.n for group, one in groups.items() if one.n} == dict(expected)
        wrong = sum(round(one.value * one.n) for one in groups.values() if one.n)
        assert wrong == round(report.false_positive.value * report.false_positive.n)
    assert len(report.by_style["length"]) == 3


def test_error_types_of_the_rejections(made, report):
    found = [one["reward"]["metrics"] for one in made if one["reward"]["metrics"]["verdict"] == NEGATIVE]
    assert report.diagnoses.counts == Counter(one["error_type"] or NO_TYPE for one in found)
    known = [one for one in found if one["gold_error_type"]]
    right = sum(one["error_type"] == one["gold_error_type"] for one in known)
    assert report.diagnosed == wilson(right, len(known))
    assert 0 < report.diagnoses.distance < 1


def test_calibration_over_answers_with_a_label(made, report):
    rows = [one["reward"]["metrics"] for one in made if one["reward"]["metrics"]["parsed"]]
    stated = np.array([row["confidence"] for row in rows])
    right = np.array([row["correct"] for row in rows])
    assert report.reliability.n == len(rows)
    assert report.reliability.brier == pytest.approx(metrics.brier_score_loss(right, stated))
    places = np.clip(np.ceil(stated * 10).astype(int) - 1, 0, 9)
    gaps = [abs(right[places == b].mean() - stated[places == b].mean()) * (places == b).sum() for b in set(places)]
    assert report.reliability.ece == pytest.approx(sum(gaps) / len(rows))


def test_slices_are_drawn_where_there_is_more_than_one(report, tmp_path):
    assert len(report.slices.values) == 3
    assert report.slices.std > 0
    assert evaluate_run(write_run(tmp_path / "small", random_episodes(SLICE))).slices is None


def test_samples_of_a_task_are_one_unit(tmp_path):
    """Four copies of every answer widen nothing and narrow nothing: the tasks are the units."""
    once = random_episodes(60, missing=0)
    many = [one | {"sample": sample} for one in once for sample in range(4)]
    first, second = (evaluate_run(write_run(tmp_path / str(i), one)) for i, one in enumerate((once, many)))
    assert second.tasks == 60
    assert second.n == 240
    a, b = first.scores["macro_f1"], second.scores["macro_f1"]
    assert b.value == pytest.approx(a.value)
    assert b.high - b.low == pytest.approx(a.high - a.low, rel=0.1)
    assert any("several times" in note for note in second.notes)


def test_faults_of_the_infrastructure_are_no_answers(tmp_path):
    rows = [episode("a"), episode("b", error={"cause": "server", "message": "gone"})]
    rows.append(episode("c") | {"reward": {"total": None, "status": "unscored"}})
    found = evaluate_run(write_run(tmp_path, rows))
    assert (found.n, found.errors, found.unscored) == (1, 1, 1)


def test_a_run_without_an_answer_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no scored episode"):
        evaluate_run(write_run(tmp_path, [episode("b", error={"cause": "server", "message": "gone"})]))


def test_a_run_of_another_family_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"'a'.*seva environment"):
        evaluate_run(write_run(tmp_path, [episode("a", gold="supported")]))


def test_values_of_any_type_are_stood(tmp_path):
    """What a record holds is not trusted: odd labels, types and numbers count as none."""
    odd = episode("a", NEGATIVE, NEGATIVE)
    odd["reward"]["metrics"] |= {"verdict": "<script>", "error_type": ["x"], "confidence": "high", "gates": 7}
    odd["reward"]["components"] = {"alignment": 10**400, "label": 1}
    odd["task_view"] = {"answer": 5, "passages": "none"}
    found = evaluate_run(write_run(tmp_path, [odd, episode("b", NEGATIVE, NEGATIVE)]))
    assert found.confusion.counts[1] == (0, 1, 1)
    assert found.reliability.n == 1
    assert found.structure["alignment"].n == 1
    assert found.rewards["process"].n == 1


def test_a_report_is_json(report):
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["scores"]["macro_f1"]["n"] == 500


def test_rewards_are_the_rubrics_totals(tmp_path):
    """.10 R_f + .30 R_a + .30 R_c + .15 R_l + .15 R_d + R_cal by hand; the grounded one is gated by consistency."""
    found = evaluate_run(write_run(tmp_path, [episode("a"), episode("b", NEGATIVE, POSITIVE, consistent=0.0)]))
    first = 0.10 + 0.30 * 0.9 + 0.30 * 0.8 + 0.15 + 0.15 + 0.1
    assert found.rewards["process"].value == pytest.approx((first + first - 0.15) / 2)
    grounded = 0.10 + 0.30 * 0.7 + 0.30 * 0.6
    assert found.rewards["grounded"].value == pytest.approx((grounded + 0.15 + 0.15 + 0.1 + grounded) / 2)
    assert found.rewards["binary"].value == 0.5


def test_a_missing_run_is_named():
    with pytest.raises(DataError, match="nowhere"):
        evaluate_run(Path("nowhere"))
