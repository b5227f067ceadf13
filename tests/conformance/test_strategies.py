"""Strategy spaces of all environments: the empty strategy is the honest baseline, and random ones can be played."""

from __future__ import annotations

import math
import random

import pytest
from setups import Setup

from factgym.agents.resolve import honest_baseline, scripted_agents
from factgym.baselines.shortcuts import ShortcutClassifiers
from factgym.benchmarks.search.optimise import StrategyError
from factgym.benchmarks.search.run import StrategyRunner, strategy_space

EPISODES = 6
STRATEGIES = 20
EXAMPLES = 60


def test_the_empty_strategy_is_the_honest_baseline_and_random_ones_play(setup: Setup) -> None:
    env = setup.make()
    if env.strategies is None:
        pytest.skip("no strategy space")
    space = strategy_space(env)
    count = min(len(env.tasks), EXAMPLES)
    shortcuts = ShortcutClassifiers(space.example(env, env.tasks[index]) for index in range(count))
    runner = StrategyRunner(env, space, shortcuts, 0)
    honest = scripted_agents(setup.id)[honest_baseline(setup.id)]
    # A fitted baseline is fitted to other tasks in a search than in an evaluation; test_seva_fitted.py has them agree.
    for task in range(0 if honest.name == "fitted" else min(EPISODES, count)):
        ours, theirs = runner.play(space.strategy(), task), runner.play_agent(honest, task)
        assert ours.total == pytest.approx(theirs.total, abs=1e-9), task
    rng = random.Random("random strategies")
    for number in range(STRATEGIES):
        strategy = space.draw(rng, changes=len(space.slots))
        assert space.strategy(strategy.to_json()) == strategy
        try:
            assert math.isfinite(runner.play(strategy, number % count).total)
        except StrategyError as error:
            assert "needs the extra 'audit'" in str(error), strategy.key


def test_every_operator_and_slot_says_what_it_does_and_the_first_is_honest(setup: Setup) -> None:
    env = setup.make()
    if env.strategies is None:
        pytest.skip("no strategy space")
    for slot in strategy_space(env).slots:
        assert slot.summary and slot.operators[0].honest, slot.name
        assert all(operator.summary for operator in slot.operators), slot.name
        assert len({operator.name for operator in slot.operators}) == len(slot.operators)
