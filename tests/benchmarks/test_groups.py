"""Groups of samples against NumPy, against plain enumeration, and against draws."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import fake_runs
import numpy as np
import pytest

from factgym.benchmarks.metrics import GroupTally, chance_within, summarise


@pytest.mark.parametrize("n", range(1, 8))
def test_the_chance_within_k_agrees_with_all_subsets(n: int) -> None:
    for right in range(n + 1):
        samples = [True] * right + [False] * (n - right)
        for k in range(1, n + 1):
            subsets = [any(one) for one in itertools.combinations(samples, k)]
            assert chance_within(n, right, k) == pytest.approx(sum(subsets) / len(subsets), abs=1e-12)


def test_the_chance_within_k_is_unbiased() -> None:
    """Its mean over all outcomes of eight samples is 1 - (1 - p)^k, which plain 1 - (1 - right / n)^k is not."""
    p, n = 0.3, 8
    outcomes = list(itertools.product((0, 1), repeat=n))
    for k in (1, 2, 4, 8):
        chances = [(p ** sum(one) * (1 - p) ** (n - sum(one)), sum(one)) for one in outcomes]
        assert sum(w * chance_within(n, right, k) for w, right in chances) == pytest.approx(1 - (1 - p) ** k)
        if k > 1:
            plain = sum(w * (1 - (1 - right / n) ** k) for w, right in chances)
            assert plain != pytest.approx(1 - (1 - p) ** k, abs=1e-3)


@pytest.mark.parametrize(("n", "right", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0), (4, 2, 5)])
def test_impossible_counts_are_refused(n: int, right: int, k: int) -> None:
    with pytest.raises(ValueError, match="samples"):
        chance_within(n, right, k)


def _majority(gold: str, said: list[str | None], rng: random.Random) -> float:
    """Draws instead of reasoning: one of the most frequent verdicts, many times."""
    votes = Counter(one for one in said if one)
    if not votes:
        return 0.0
    first = [one for one in votes if votes[one] == max(votes.values())]
    return sum(rng.choice(first) == gold for _ in range(4000)) / 4000


def test_a_run_agrees_with_a_plain_recount() -> None:
    episodes = [one for i in range(60) for one in fake_runs.group(i, 6, skill=(i % 5) / 4)]
    groups: dict[str, list[dict[str, Any]]] = {}
    for one in episodes:
        if one["error"] is None:
            groups.setdefault(one["task"], []).append(one["reward"])
    totals = [[reward["total"] for reward in group] for group in groups.values()]
    found = summarise(episodes).groups
    assert found is not None
    assert (found.n, found.smallest, found.largest) == (60, min(map(len, totals)), 6)
    assert found.smallest < 6, "the run has errors"
    collapsed = np.mean([len(set(one)) == 1 for one in totals])
    assert 0 < collapsed < 1
    assert found.collapsed.value == pytest.approx(collapsed)
    assert found.spread.value == pytest.approx(np.mean([np.std(one, ddof=1) for one in totals]))
    assert found.best.value == pytest.approx(np.mean([max(one) for one in totals]))
    assert found.worst.value == pytest.approx(np.mean([min(one) for one in totals]))
    metrics = [[reward["metrics"] for reward in group] for group in groups.values()]
    rng = random.Random(7)
    majority = [_majority(one[0]["gold_verdict"], [m["verdict"] for m in one], rng) for one in metrics]
    assert found.majority.value == pytest.approx(np.mean(majority), abs=0.005)
    assert list(found.right_within) == [1, 2, 4]
    right = [[m["verdict"] == m["gold_verdict"] for m in one] for one in metrics]
    for k, estimate in found.right_within.items():
        chances = [
            np.mean([any(subset) for subset in itertools.combinations(one, k)]) for one in right if len(one) >= k
        ]
        assert (estimate.value, estimate.n) == (pytest.approx(np.mean(chances)), len(chances))


def test_one_sample_a_task_makes_no_groups() -> None:
    assert summarise(fake_runs.episode(i) for i in range(20)).groups is None


def test_a_task_with_one_scored_sample_is_no_group_but_a_try() -> None:
    tally = GroupTally()
    for task, reward, said in ((0, 0.5, "x"), (0, 0.5, "y"), (1, 0.9, "x")):
        tally.add(task, reward, "x", said)
    found = tally.summary()
    assert found is not None and (found.n, found.collapsed.value, found.majority.value) == (1, 1.0, 0.5)
    assert (found.right_within[1].value, found.right_within[1].n) == (pytest.approx(0.75), 2)


def test_groups_without_gold_labels_have_rewards_only() -> None:
    tally = GroupTally()
    for reward in (-1.0, 2.0):
        tally.add(0, reward, None, None)
    found = tally.summary()
    assert found is not None and (found.best.value, found.worst.value) == (2.0, -1.0)
    assert (found.majority.value, found.right_within) == (None, {})
