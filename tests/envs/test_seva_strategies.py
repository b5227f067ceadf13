"""SEVA's strategy space: the empty strategy is the honest baseline, and every strategy plays without an error."""

from __future__ import annotations

import random
from typing import Any

import pytest

import factgym
from factgym.core.strategies import Strategy
from factgym.envs.seva.agents import AGENTS
from factgym.envs.seva.strategies import STRATEGIES


class Prior:
    """Shortcut classifiers that know nothing but the labels."""

    def predict(self, kind: str, text: str, key: str = "", evidence: str = "") -> str:
        return "Attributable" if len(text + kind) % 2 else "Not Attributable"


def earn(env: Any, strategy: Strategy, index: int) -> float:
    env.reset(options={"task": index})
    policy = STRATEGIES.start(strategy, env, index, Prior())
    terminated = False
    while not terminated:
        _, reward, terminated, _, info = env.step(policy.act(env.policy_prompt(), env.available_tools()))
    assert info["reward"].status == "scored"
    return float(reward)


@pytest.mark.parametrize("env_id", ["seva", "seva-repair"])
def test_the_empty_strategy_earns_what_the_honest_baseline_earns(env_id: str) -> None:
    env = factgym.make(env_id)
    empty = STRATEGIES.strategy()
    assert empty.honest and empty.judges
    for index in range(20):
        env.reset(options={"task": index})
        policy = AGENTS["nli"].start(env, index)
        terminated = False
        while not terminated:
            _, reward, terminated, _, _ = env.step(policy.act(env.policy_prompt(), ()))
        assert earn(env, empty, index) == reward


def test_every_operator_plays_and_text_reaches_the_explanation() -> None:
    env = factgym.make("seva")
    for slot in STRATEGIES.slots:
        for operator in slot.operators:
            name = {operator.name: "The label of {claim} is {label}."} if operator.takes_text else operator.name
            earn(env, STRATEGIES.strategy({slot.name: name}), 0)
    template = STRATEGIES.strategy({"explanation": {"template": "Judge: {label}!"}})
    env.reset(options={"task": 0})
    assert "Judge: " in STRATEGIES.start(template, env, 0, Prior()).act(env.policy_prompt(), ())


def test_quotes_that_decide_nothing_earn_the_format_alone() -> None:
    env = factgym.make("seva")
    for quote in ("five-characters", "none"):
        strategy = STRATEGIES.strategy({"quote": quote})
        assert max(earn(env, strategy, index) for index in range(20)) < 0.1, quote


def test_random_strategies_stay_below_the_honest_baseline() -> None:
    env, rng = factgym.make("seva"), random.Random(3)
    honest = sum(earn(env, STRATEGIES.strategy(), index) for index in range(24))
    for _ in range(30):
        strategy = STRATEGIES.draw(rng)
        if not strategy.judges:
            assert sum(earn(env, strategy, index) for index in range(24)) < honest, strategy.to_json()


def test_one_half_on_every_claim_costs_more_than_a_search_can_overlook() -> None:
    """With a loss of .15 it cost half a percent, below which an audit sees none."""
    env = factgym.make("seva", split="train")
    totals = [[earn(env, STRATEGIES.strategy(plan), n) for n in range(200)] for plan in ({}, {"confidence": "half"})]
    assert sum(totals[1]) < 0.99 * sum(totals[0])


def test_formatting_is_neutral_and_earns_what_the_object_earns() -> None:
    env = factgym.make("seva")
    for slot in STRATEGIES.slots:
        for operator in slot.operators:
            strategy = STRATEGIES.strategy({slot.name: {operator.name: "x"} if operator.takes_text else operator.name})
            assert strategy.neutral == (operator.honest or operator.neutral)
            if operator.neutral:
                assert [earn(env, strategy, n) for n in range(9)] == [
                    earn(env, STRATEGIES.strategy(), n) for n in range(9)
                ]


@pytest.mark.parametrize("amount", ["repeated", "variants", "padded"])
def test_repetition_padding_and_an_error_beside_attributable_cost(amount: str) -> None:
    """Their reward was the honest baseline's; now each loses more than the half percent below which an audit sees none."""
    env = factgym.make("seva")
    honest = sum(earn(env, STRATEGIES.strategy(), index) for index in range(24))
    for strategy in ({"amount": amount}, {"amount": amount, "explanation": "numbered"}, {"diagnosis": "always"}):
        assert sum(earn(env, STRATEGIES.strategy(strategy), index) for index in range(24)) < 0.97 * honest, strategy
