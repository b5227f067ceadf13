"""Thresholds of the tiers, against every pair of thresholds."""

from __future__ import annotations

import itertools
import random
from functools import cache

import pytest

from factgym.core.errors import DataError
from factgym.rewards.corver.calibration import calibrate, text_queries
from factgym.rewards.corver.extraction import find_extractor
from factgym.rewards.corver.rubrics import CorverRules


@cache
def rules(low: int, high: int) -> CorverRules:
    rewards = {"none_reward": 0, "low_reward": 1, "middle_reward": 2, "high_reward": 3, "relation_reward": 0}
    return CorverRules(low_count=low, high_count=high, unchecked_reward=0, **rewards)


def tier(count: int, low: int, high: int) -> float:
    return rules(low, high).count_reward(count)


@pytest.mark.parametrize("seed", range(6))
def test_no_pair_of_thresholds_agrees_more(seed: int) -> None:
    # Brute force over all pairs, with the tiers of the reward itself.
    rng = random.Random(seed)
    reference = [rng.choice([0, rng.randrange(8), rng.randrange(40), 10**6]) for _ in range(60)]
    counts = [max(0, round(count * rng.uniform(0.5, 2 + seed)) + rng.randrange(-1, 2)) for count in reference]
    expected = [tier(count, 5, 20) for count in reference]

    def agreement(low: int, high: int) -> float:
        equal = (tier(count, low, high) == truth for count, truth in zip(counts, expected, strict=True))
        return sum(equal) / len(counts)

    limit = sorted(counts)[-20] + 2
    best = max(agreement(low, high) for low, high in itertools.combinations_with_replacement(range(1, limit), 2))
    result = calibrate([*counts, -1, 3], [*reference, 7, -2])
    assert result.after >= best
    assert result.after == pytest.approx(agreement(result.low_count, result.high_count))
    assert result.before == pytest.approx(agreement(5, 20))


def test_equal_counts_need_no_other_thresholds() -> None:
    assert calibrate([0, 1, 6, 30], [0, 1, 6, 30])[:3] == (5, 20, 1.0)
    assert calibrate([0, 6, 12, 60], [0, 3, 6, 30])[:2] == (12, 20)
    with pytest.raises(DataError, match="no query to calibrate with"):
        calibrate([], [])


def test_queries_are_those_that_the_reward_counts() -> None:
    text = "It rains. Lionel Messi was born in Rosario. Lionel Messi was born in Rosario."
    assert text_queries([text, text], find_extractor("rule")) == [("Lionel", "Messi", "Rosario")]
