"""Reports of runs with known answers, against scikit-learn, SciPy and counts by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seva_runs import NEGATIVE, POSITIVE, episode, pairs, random_episodes, write_run

from factgym.benchmarks.seva.report import NO_TYPE, SLICE, compare, evaluate_run, style_groups
from factgym.benchmarks.statistics.intervals import wilson
from factgym.core.errors import ConfigError, DataError
from factgym.rewards.seva.output import LABELS

metrics = pytest.importorskip("sklearn.metrics", reason="compares with scikit-learn, of the dev extra")


@pytest.fixture(scope="module")
def made() -> list[dict[str, Any]]:
    return random_episodes(500)


@pytest.fixture(scope="module")
def report(made: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return evaluate_run(write_run(tmp_path_factory.mktemp("run"), made))


def said_or(made: list[dict[str, Any]], missing: str = "nothing") -> tuple[list[str], list[str]]:
    golds, predictions = zip(*pairs(made), strict=True)
    return list(golds), [missing if label is None else label for label in predictions]


def test_the_scores_are_those_of_scikit_learn(made, report):
    golds, predictions = said_or(made)
    assert "nothing" in predictions
    f1 = metrics.f1_score(golds, predictions, labels=LABELS, average="macro", zero_division=0)
    assert report.scores["macro_f1"].value == pytest.approx(f1)
    assert report.scores["accuracy"].value == pytest.approx(metrics.accuracy_score(golds, predictions))
    assert report.scores["matthews"].value == pytest.approx(metrics.matthews_corrcoef(golds, predictions))
    recall = metrics.recall_score(golds, predictions, labels=LABELS, average=None)
    assert report.scores["balanced_accuracy"].value == pytest.approx(recall.mean())
    for label, group in zip(LABELS, recall, strict=True):
        assert report.labels[label].recall == pytest.approx(group)
    assert (report.n, report.tasks) == (500, 500)


def test_the_confusion_matrix_counts_missing_labels_apart(made, report):
    table = report.confusion
    assert table.golds == LABELS
    assert table.predictions == (*LABELS, "none")
    expected = Counter(pairs(made))
    assert table.counts == tuple(tuple(expected[gold, label] for label in (*LABELS, None)) for gold in LABELS)


def test_the_intervals_hold_the_values_and_repeat(made, report, tmp_path):
    for item in (*report.scores.values(), *report.structure.values(), *report.rewards.values()):
        assert item.low <= item.value <= item.high
    again = evaluate_run(write_run(tmp_path / "again", made[::-1]))
    assert again.scores == report.scores
    assert report.scores["macro_f1"].high - report.scores["macro_f1"].low < 0.12


def test_quality_over_parsed_outputs_and_over_all(made, report):
    rows = [item["reward"] for item in made]
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
        for item in made:
            view, result = item["task_view"], item["reward"]["metrics"]
            if result["gold_verdict"] == POSITIVE:
                expected[style_groups(view["answer"], view["passages"][0]["text"])[name]] += 1
        assert {group: item.n for group, item in groups.items() if item.n} == dict(expected)
        wrong = sum(round(item.value * item.n) for item in groups.values() if item.n)
        assert wrong == round(report.false_positive.value * report.false_positive.n)
    assert len(report.by_style["length"]) == 3


def test_error_types_of_the_rejections(made, report):
    result = [item["reward"]["metrics"] for item in made if item["reward"]["metrics"]["verdict"] == NEGATIVE]
    assert report.diagnoses.counts == Counter(row["error_type"] or NO_TYPE for row in result)
    values = [row for row in result if row["gold_error_type"]]
    right = sum(item["error_type"] == item["gold_error_type"] for item in values)
    assert report.diagnosed == wilson(right, len(values))
    assert 0 < report.diagnoses.distance < 1


def test_calibration_over_answers_with_a_label(made, report):
    rows = [item["reward"]["metrics"] for item in made if item["reward"]["metrics"]["parsed"]]
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
    many = [item | {"sample": sample} for item in once for sample in range(4)]
    first, second = (evaluate_run(write_run(tmp_path / str(i), item)) for i, item in enumerate((once, many)))
    assert second.tasks == 60
    assert second.n == 240
    a, b = first.scores["macro_f1"], second.scores["macro_f1"]
    assert b.value == pytest.approx(a.value)
    assert b.high - b.low == pytest.approx(a.high - a.low, rel=0.1)
    assert any("several times" in note for note in second.notes)


def test_faults_of_the_infrastructure_are_no_answers(tmp_path):
    rows = [episode("a"), episode("b", error={"cause": "server", "message": "gone"})]
    rows.append(episode("c") | {"reward": {"total": None, "status": "unscored"}})
    result = evaluate_run(write_run(tmp_path, rows))
    assert (result.n, result.errors, result.unscored) == (1, 1, 1)


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
    result = evaluate_run(write_run(tmp_path, [odd, episode("b", NEGATIVE, NEGATIVE)]))
    assert result.confusion.counts[1] == (0, 1, 1)
    assert result.reliability.n == 1
    assert result.structure["alignment"].n == 1
    assert result.rewards["process"].n == 1


def test_a_report_is_json(report):
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["scores"]["macro_f1"]["n"] == 500


def test_rewards_are_the_rubrics_totals(tmp_path):
    """.10 R_f + .30 R_a + .30 R_c + .15 R_l + .15 R_d + R_cal by hand; the grounded one is gated by consistency."""
    result = evaluate_run(write_run(tmp_path, [episode("a"), episode("b", NEGATIVE, POSITIVE, consistent=0.0)]))
    first = 0.10 + 0.30 * 0.9 + 0.30 * 0.8 + 0.15 + 0.15 + 0.1
    assert result.rewards["process"].value == pytest.approx((first + first - 0.15) / 2)
    grounded = 0.10 + 0.30 * 0.7 + 0.30 * 0.6
    assert result.rewards["grounded"].value == pytest.approx((grounded + 0.15 + 0.15 + 0.1 + grounded) / 2)
    assert result.rewards["binary"].value == 0.5


def test_a_missing_run_is_named():
    with pytest.raises(DataError, match="nowhere"):
        evaluate_run(Path("nowhere"))


# Two runs on the same claims, and the refusal of others.

metrics = pytest.importorskip("sklearn.metrics", reason="compares with scikit-learn, of the dev extra")


def f1(made):
    golds, predictions = zip(*pairs(made), strict=True)
    return metrics.f1_score(
        golds, ["" if label is None else label for label in predictions], labels=LABELS, average="macro"
    )


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    made = [random_episodes(300, 1, accuracy=0.65), random_episodes(300, 2, accuracy=0.8)]
    folder = tmp_path_factory.mktemp("two")
    # The second run has its episodes in another order: they are paired by task.
    orders = (made[0], made[1][::-1])
    return made, [write_run(folder / str(i), item, agent=f"agent-{i}") for i, item in enumerate(orders)]


def test_the_difference_and_its_interval(two):
    made, runs = two
    result = compare(*runs)
    assert (result.first, result.second, result.n) == ("agent-0", "agent-1", 300)
    first, second = map(f1, made)
    assert result.macro_f1.first == pytest.approx(first)
    assert result.macro_f1.second == pytest.approx(second)
    assert result.macro_f1.difference.value == pytest.approx(second - first)
    assert result.macro_f1.difference.low < second - first < result.macro_f1.difference.high


def test_the_interval_is_near_a_plain_bootstrap_of_pairs(two):
    made, runs = two
    right = np.array([[gold == label for gold, label in pairs(item)] for item in made], float)
    difference = right[1] - right[0]
    rng = np.random.default_rng(5)
    means = rng.choice(difference, (4000, len(difference))).mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    result = compare(*runs).accuracy.difference
    assert result.low == pytest.approx(low, abs=0.015)
    assert result.high == pytest.approx(high, abs=0.015)


def test_mcnemar_by_hand(two):
    statistics = pytest.importorskip("statsmodels.stats.contingency_tables", reason="compares with statsmodels")
    made, runs = two
    right = [[gold == label for gold, label in pairs(item)] for item in made]
    table = [
        [sum(a == x and b == y for a, b in zip(*right, strict=True)) for y in (True, False)] for x in (True, False)
    ]
    result = compare(*runs).mcnemar
    assert (result.first_only, result.second_only) == (table[0][1], table[1][0])
    assert result.p == pytest.approx(statistics.mcnemar(table, exact=False, correction=True).pvalue)


def test_exchanging_the_runs_changes_the_sign_alone(two):
    _, runs = two
    item, second = compare(*runs), compare(*runs[::-1])
    assert item.macro_f1.difference.value == -second.macro_f1.difference.value
    assert item.macro_f1.difference.low == pytest.approx(-second.macro_f1.difference.high)


@pytest.mark.parametrize(
    ("changes", "expected_text"),
    [
        ({"fingerprints": {"tasks": "xyz"}}, "fingerprints tasks abc against xyz"),
        ({"seed": 4}, "seed 0 against 4"),
        ({"env": "seva-fever"}, "env seva against seva-fever"),
        ({"n": 7}, "n 3 against 7"),
        ({"version": 2, "k": 9}, "version 1 against 2; k 1 against 9"),
    ],
)
def test_runs_of_other_tasks_are_refused_with_the_difference(tmp_path, changes, expected_text):
    made = [episode(name) for name in "abc"]
    runs = [write_run(tmp_path / "a", made), write_run(tmp_path / "b", made, **changes)]
    with pytest.raises(ConfigError) as error:
        compare(*runs)
    assert expected_text in str(error.value)


def test_a_run_without_a_manifest_is_refused(tmp_path):
    runs = [write_run(tmp_path / name, [episode("a")]) for name in "ab"]
    (runs[1] / "manifest.json").unlink()
    with pytest.raises(ConfigError, match="no manifest"):
        compare(*runs)


def test_manifests_that_lie_are_found_out(tmp_path):
    runs = [write_run(tmp_path / gold, [episode("a", gold)]) for gold in (POSITIVE, NEGATIVE)]
    with pytest.raises(ConfigError, match="disagree on the content of task 'a'"):
        compare(*runs)
    strange = write_run(tmp_path / "strange", [episode("z", POSITIVE)])
    with pytest.raises(ConfigError, match="share no scored answer"):
        compare(runs[0], strange)


def test_episodes_of_a_single_run_are_left_out_with_a_note(tmp_path):
    made = [episode(name, verdict=NEGATIVE if name < "c" else POSITIVE) for name in "abcdef"]
    failed = [episode("a", error={"cause": "server", "message": "gone"}), *made[1:]]
    result = compare(write_run(tmp_path / "a", made), write_run(tmp_path / "b", failed, prompts={"system": "q"}))
    assert result.n == 5
    assert any("1 episode that only one" in note for note in result.notes)
    assert any("prompts system p against q" in note for note in result.notes)


def test_samples_are_no_pairs(tmp_path):
    made = [episode(name, sample=sample) for name in "abcd" for sample in range(3)]
    result = compare(write_run(tmp_path / "a", made), write_run(tmp_path / "b", made))
    assert result.mcnemar is None
    assert result.macro_f1.difference.n == 4
    assert json.dumps(result.notes)
