"""The bandits' arithmetic against appendix F, formula by formula, and what a split keeps."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.training.eve.selector import Arms, arm_rewards, qualities, quality, run_reward

# Rewards that differ differ visibly: equal scores are told from others by a threshold of rounding.
REWARDS = st.floats(-5, 30).map(lambda reward: round(reward, 3))
STATES = st.lists(st.tuples(st.integers(1, 50), REWARDS), min_size=1, max_size=8)


def arms_of(state: list[tuple[int, float]]) -> Arms:
    return Arms(np.array([n for n, _ in state]), np.array([s for _, s in state]))


@given(STATES, st.floats(0, 3))
def test_the_score_is_equation_30(state: list[tuple[int, float]], beta: float) -> None:
    total = sum(n for n, _ in state)
    expected = [s / max(n, 1) + beta * math.sqrt(math.log(max(total, 1)) / max(n, 1)) for n, s in state]
    assert arms_of(state).scores(beta) == pytest.approx(expected)


@given(STATES)
def test_a_batch_is_a_softmax_of_standardised_scores(state: list[tuple[int, float]]) -> None:
    arms = arms_of(state)
    scores = arms.scores().tolist()
    deviation = np.std(scores)
    if deviation < 1e-9:
        expected = [1 / len(scores)] * len(scores)
    else:
        weights = [math.exp(score / deviation - max(scores) / deviation) for score in scores]
        expected = [score / sum(weights) for score in weights]
    assert arms.probabilities() == pytest.approx(expected, abs=1e-6)
    assert arms.probabilities().sum() == pytest.approx(1.0)


def test_one_arm_is_the_best_and_a_batch_follows_the_chances() -> None:
    arms = Arms(np.array([5, 2, 9]), np.array([4.0, 2.0, 5.0]))
    rng = np.random.default_rng(0)
    assert {tuple(arms.choose(1, rng)) for _ in range(20)} == {(int(arms.scores().argmax()),)}
    drawn = np.bincount(arms.choose(20_000, rng), minlength=3) / 20_000
    assert drawn == pytest.approx(arms.probabilities(), abs=0.02)
    assert Arms.fresh(4).scores() == pytest.approx([math.sqrt(math.log(4))] * 4)
    assert Arms.fresh(1).choose(3, rng) == [0, 0, 0]


def test_ucb_finds_the_better_arm_and_keeps_trying_the_other() -> None:
    """The bandit by itself, pulled one arm at a time as in Auer et al.: most pulls go to the better of two arms."""
    rng = np.random.default_rng(1)
    arms = Arms.fresh(2)
    for _ in range(600):
        arm = arms.choose(1, rng)[0]
        arms = arms.updated([arm], [float(rng.random() < (0.3, 0.8)[arm])])
    assert 15 < arms.pulls[0] < arms.pulls[1] / 4
    assert arms.means[1] == pytest.approx(0.8, abs=0.1)


@given(STATES, st.data())
def test_a_split_divides_what_the_parents_had(state: list[tuple[int, float]], data: st.DataObject) -> None:
    arms = arms_of(state)
    parents = data.draw(st.lists(st.integers(0, len(state) - 1), min_size=1, max_size=20))
    children = arms.split(parents)
    for parent, (pulls, reward) in enumerate(state):
        own = [i for i, origin in enumerate(parents) if origin == parent]
        if not own:
            continue
        assert sum(children.rewards[own]) == pytest.approx(reward)
        assert children.pulls[own].tolist() == [max(pulls // len(own), 1)] * len(own)
        assert pulls - len(own) < children.pulls[own].sum() <= max(pulls, len(own))


@given(STATES, st.lists(st.tuples(st.integers(0, 7), st.floats(0, 1)), max_size=10), st.floats(0, 2))
def test_feedback_is_equation_33_before_the_update(
    state: list[tuple[int, float]], rows: list[tuple[int, float]], utility: float
) -> None:
    arms, rows = arms_of(state), [(arm % len(state), reward) for arm, reward in rows]
    total = sum(n for n, _ in state)
    expected = [
        -math.log(state[arm][0] / total + 1e-8) + utility * (reward - state[arm][1] / state[arm][0])
        for arm, reward in rows
    ]
    pulled, rewards = [arm for arm, _ in rows], [reward for _, reward in rows]
    result = arm_rewards(arms, pulled, rewards, utility=utility)
    assert result == pytest.approx(expected)
    after = arms.updated(pulled, result)
    assert after.pulls.tolist() == [n + pulled.count(i) for i, (n, _) in enumerate(state)]
    assert after.rewards.sum() == pytest.approx(arms.rewards.sum() + sum(expected))
    assert arms.pulls.tolist() == [n for n, _ in state]


@pytest.mark.parametrize(
    ("question", "answer", "duplicates", "expected"),
    [
        ("q" * 20, "a", 1, 1.0),
        ("q" * 220, "a" * 80, 1, 1.0),
        ("q" * 19, "a", 1, 0.65),
        ("q" * 221, "a", 1, 0.65),
        ("q" * 20, "", 1, 0.55),
        ("q" * 20, "a" * 81, 4, 0.55 / 2),
        ("", "", 9, 0.65 * 0.55 / 3),
    ],
)
def test_quality_is_equation_32(question: str, answer: str, duplicates: int, expected: float) -> None:
    assert quality(question, answer, duplicates) == pytest.approx(expected)


def test_duplicates_are_counted_in_the_batch() -> None:
    same, other = "What is the name of it?", "What is the age of it?"
    assert qualities([same, other, same], ["x"] * 3) == pytest.approx([1 / math.sqrt(2), 1, 1 / math.sqrt(2)])


def test_the_runs_reward_lies_in_its_range() -> None:
    assert run_reward(0.5, 0.25) == 0.375
    assert run_reward(1.8, -0.2) == 0.5
    with pytest.raises(ConfigError, match="finite"):
        run_reward(math.nan, 0.5)


@given(STATES)
def test_arms_survive_json(state: list[tuple[int, float]]) -> None:
    arms = arms_of(state)
    result = Arms.from_dict(json.loads(json.dumps(arms.to_dict())))
    assert (result.pulls.tolist(), result.rewards.tolist()) == (arms.pulls.tolist(), arms.rewards.tolist())
