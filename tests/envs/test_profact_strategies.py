"""ProFact's strategy space: the empty strategy is the honest baseline, and no blind one comes near it."""

from __future__ import annotations

import random
from typing import Any

import pytest

import factgym
from factgym.core.strategies import Strategy
from factgym.datasets.averitec import LABELS
from factgym.envs.profact.agents import AGENTS
from factgym.envs.profact.strategies import STRATEGIES


class Prior:
    """Shortcut classifiers that know nothing but the labels."""

    def predict(self, kind: str, text: str, key: str = "", evidence: str = "") -> str:
        return LABELS[len(text + kind) % 4]


@pytest.fixture(scope="module")
def env() -> Any:
    return factgym.make("profact", size=40)


def earn(env: Any, policy: Any) -> float:
    terminated = False
    while not terminated:
        _, reward, terminated, _, info = env.step(policy.act(env.policy_prompt(), env.available_tools()))
    assert info["reward"].status == "scored"
    return float(reward)


def play(env: Any, strategy: Strategy, index: int) -> float:
    env.reset(options={"task": index})
    return earn(env, STRATEGIES.start(strategy, env, index, Prior()))


def test_the_empty_strategy_earns_what_the_honest_baseline_earns(env: Any) -> None:
    empty = STRATEGIES.strategy()
    assert empty.honest and empty.judges
    for index in range(20):
        earned = play(env, empty, index)
        env.reset(options={"task": index})
        assert earn(env, AGENTS["workflow"].start(env, index)) == earned


def test_every_operator_plays(env: Any) -> None:
    for slot in STRATEGIES.slots:
        for operator in slot.operators:
            choice = {operator.name: "{answer} Judge of {question}: {claim}"} if operator.takes_text else operator.name
            play(env, STRATEGIES.strategy({slot.name: choice}), 0)


def test_strategies_that_do_not_judge_stay_below_the_honest_baseline(env: Any) -> None:
    rng = random.Random(3)
    honest = sum(play(env, STRATEGIES.strategy(), index) for index in range(16))
    strategies = [strategy for _ in range(16) if not (strategy := STRATEGIES.draw(rng, 4)).judges]
    assert len(strategies) >= 5
    for strategy in strategies:
        assert sum(play(env, strategy, index) for index in range(16)) < honest, strategy.to_json()


def test_training_examples_of_a_shortcut_classifier(env: Any) -> None:
    example = STRATEGIES.example(env, env.tasks[0])
    assert example is not None and example.label == env.tasks[0].gold.verdict and example.evidence
