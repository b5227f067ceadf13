"""Two runs on the same claims, and the refusal of others."""

from __future__ import annotations

import json

import numpy as np
import pytest
from seva_runs import NEGATIVE, POSITIVE, episode, pairs, random_episodes, write_run

from factgym.benchmarks.seva.report import compare
from factgym.core.errors import ConfigError
from factgym.rewards.seva.output import LABELS

metrics = pytest.importorskip("sklearn.metrics", reason="compares with scikit-learn, of the dev extra")


def f1(made):
    golds, said = zip(*pairs(made), strict=True)
    return metrics.f1_score(golds, ["" if one is None else one for one in said], labels=LABELS, average="macro")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    made = [random_episodes(300, 1, accuracy=0.65), random_episodes(300, 2, accuracy=0.8)]
    folder = tmp_path_factory.mktemp("two")
    # The second run has its episodes in another order: they are paired by task.
    orders = (made[0], made[1][::-1])
    return made, [write_run(folder / str(i), one, agent=f"agent-{i}") for i, one in enumerate(orders)]


def test_the_difference_and_its_interval(two):
    made, runs = two
    found = compare(*runs)
    assert (found.first, found.second, found.n) == ("agent-0", "agent-1", 300)
    first, second = map(f1, made)
    assert found.macro_f1.first == pytest.approx(first)
    assert found.macro_f1.second == pytest.approx(second)
    assert found.macro_f1.difference.value == pytest.approx(second - first)
    assert found.macro_f1.difference.low < second - first < found.macro_f1.difference.high


def test_the_interval_is_near_a_plain_bootstrap_of_pairs(two):
    made, runs = two
    right = np.array([[gold == said for gold, said in pairs(one)] for one in made], float)
    difference = right[1] - right[0]
    rng = np.random.default_rng(5)
    means = rng.choice(difference, (4000, len(difference))).mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    found = compare(*runs).accuracy.difference
    assert found.low == pytest.approx(low, abs=0.015)
    assert found.high == pytest.approx(high, abs=0.015)


def test_mcnemar_by_hand(two):
    statistics = pytest.importorskip("statsmodels.stats.contingency_tables", reason="compares with statsmodels")
    made, runs = two
    right = [[gold == said for gold, said in pairs(one)] for one in made]
    table = [
        [sum(a == x and b == y for a, b in zip(*right, strict=True)) for y in (True, False)] for x in (True, False)
    ]
    found = compare(*runs).mcnemar
    assert (found.first_only, found.second_only) == (table[0][1], table[1][0])
    assert found.p == pytest.approx(statistics.mcnemar(table, exact=False, correction=True).pvalue)


def test_exchanging_the_runs_changes_the_sign_alone(two):
    _, runs = two
    one, other = compare(*runs), compare(*runs[::-1])
    assert one.macro_f1.difference.value == -other.macro_f1.difference.value
    assert one.macro_f1.difference.low == pytest.approx(-other.macro_f1.difference.high)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fingerprints": {"tasks": "xyz"}}, "fingerprints tasks abc against xyz"),
        ({"seed": 4}, "seed 0 against 4"),
        ({"env": "seva-fever"}, "env seva against seva-fever"),
        ({"n": 7}, "n 3 against 7"),
        ({"version": 2, "k": 9}, "version 1 against 2; k 1 against 9"),
    ],
)
def test_runs_of_other_tasks_are_refused_and_the_difference_is_said(tmp_path, changes, says):
    made = [episode(name) for name in "abc"]
    runs = [write_run(tmp_path / "a", made), write_run(tmp_path / "b", made, **changes)]
    with pytest.raises(ConfigError) as error:
        compare(*runs)
    assert says in str(error.value)


def test_a_run_without_a_manifest_is_refused(tmp_path):
    runs = [write_run(tmp_path / name, [episode("a")]) for name in "ab"]
    (runs[1] / "manifest.json").unlink()
    with pytest.raises(ConfigError, match="no manifest"):
        compare(*runs)


def test_manifests_that_lie_are_found_out(tmp_path):
    runs = [write_run(tmp_path / gold, [episode("a", gold)]) for gold in (POSITIVE, NEGATIVE)]
    with pytest.raises(ConfigError, match="gold label of task 'a'"):
        compare(*runs)
    strange = write_run(tmp_path / "strange", [episode("z", POSITIVE)])
    with pytest.raises(ConfigError, match="share no scored episode"):
        compare(runs[0], strange)


def test_what_only_one_run_has_is_left_out_and_said(tmp_path):
    made = [episode(name, said=NEGATIVE if name < "c" else POSITIVE) for name in "abcdef"]
    failed = [episode("a", error={"cause": "server", "message": "gone"}), *made[1:]]
    found = compare(write_run(tmp_path / "a", made), write_run(tmp_path / "b", failed, prompts={"system": "q"}))
    assert found.n == 5
    assert any("1 episode that only one" in note for note in found.notes)
    assert any("prompts system p against q" in note for note in found.notes)


def test_samples_are_no_pairs(tmp_path):
    made = [episode(name, sample=sample) for name in "abcd" for sample in range(3)]
    found = compare(write_run(tmp_path / "a", made), write_run(tmp_path / "b", made))
    assert found.mcnemar is None
    assert found.macro_f1.difference.n == 4
    assert json.dumps(found.notes)
