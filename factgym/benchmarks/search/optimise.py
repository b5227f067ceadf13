"""The optimiser: which strategies of a space earn most on training tasks, within a budget of episodes.

Successive halving (Jamieson and Talwalkar 2016) over single operators and random compositions, then local mutation of the
best, raced against them on the same tasks, then each winner without the changes that earn nothing. Every strategy plays
the tasks in the same order, so that all comparisons are paired.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from factgym.core.strategies import Choice, Strategy, StrategySpace

Kind = Literal["blind", "attack", "honest"]
"""Kinds of strategies.

blind: never weighs the evidence, where the honest baseline does. honest: of honest operators alone. attack: any other.
"""

_FIRST_RUNG = 4
_KEEP = 3
"""One of so many strategies plays on, on as many times more tasks."""
_ELITE = 5
_SHARES = (0.5, 0.85)
"""Shares of the budget after which halving and mutation end."""
_CROSSOVER = 0.3
_MAX_REPEATS = 200
"""Strategies drawn in a row that were played before, after which the space counts as exhausted."""

Play = Callable[[Strategy, int], float]
"""(strategy, number of a training task) -> reward."""


class StrategyError(Exception):
    """A strategy cannot be played: its operators failed, or need a library that is not installed."""


@dataclass(slots=True)
class Trial:
    """A strategy and its rewards on the first training tasks. fault: why it cannot be played."""

    strategy: Strategy
    kind: Kind
    changes: int
    rewards: list[float] = field(default_factory=list)
    fault: str = ""

    def mean(self, n: int | None = None) -> float:
        """Return the mean reward on the first n tasks, of all played without n; -inf for a strategy that fails."""
        rewards = self.rewards[:n]
        return -math.inf if self.fault or not rewards else math.fsum(rewards) / len(rewards)

    @property
    def rank(self) -> tuple[float, int, str]:
        """Sorts the best first; of equals, the one with the fewest changes."""
        return -self.mean(), self.changes, self.strategy.key


def kind_of(space: StrategySpace, strategy: Strategy) -> Kind:
    """Return the kind of a strategy."""
    if strategy.honest:
        return "honest"
    return "blind" if space.strategy().judges and not strategy.judges else "attack"


class Optimiser:
    """A search for the strategies of a space that earn most. Deterministic by its seed.

    tasks: how many training tasks there are. budget: episodes. on_progress(episodes so far): called after each strategy.
    """

    def __init__(
        self,
        space: StrategySpace,
        play: Play,
        tasks: int,
        budget: int,
        seed: int = 0,
        on_progress: Callable[[int], None] = lambda spent: None,
    ) -> None:
        self.space, self.budget, self.spent = space, budget, 0
        self._play, self._on_progress = play, on_progress
        self._rng = random.Random(f"factgym strategy search {seed}")
        # The last rung is long enough to tell strategies apart, and short enough for about twenty of them.
        self.rungs = [_FIRST_RUNG]
        longest = max(_FIRST_RUNG, min(tasks, budget // 20))
        while self.rungs[-1] * _KEEP <= longest:
            self.rungs.append(self.rungs[-1] * _KEEP)
        self.rungs = [min(rung, tasks) for rung in self.rungs]
        self.trials: dict[str, Trial] = {}

    def run(self, first: Sequence[Strategy] = ()) -> list[Trial]:
        """Search, and return the strategies that were played on all tasks of the last rung, the best first.

        first: strategies that join the random strategies.
        """
        self._halve(first)
        self._mutate()
        self._simplify()
        return self.ranked()

    def ranked(self, kind: Kind | None = None) -> list[Trial]:
        """Return the strategies with the longest run, of one kind or all, the best first."""
        trials = [trial for trial in self.trials.values() if not trial.fault and kind in (None, trial.kind)]
        longest = max((len(trial.rewards) for trial in trials), default=0)
        return sorted((trial for trial in trials if len(trial.rewards) == longest > 0), key=lambda trial: trial.rank)

    def _trial(self, strategy: Strategy) -> Trial | None:
        """Return a trial of a strategy; None where it was drawn before."""
        if strategy.key in self.trials:
            return None
        trial = Trial(strategy, kind_of(self.space, strategy), len(self.space.changes(strategy)))
        self.trials[strategy.key] = trial
        return trial

    def _extend(self, trial: Trial, rung: int, limit: float = 1.0) -> bool:
        """Play on up to `rung` tasks, unless the share `limit` of the budget is spent; return whether it got there."""
        while len(trial.rewards) < rung and not trial.fault:
            if self.spent >= limit * self.budget:
                return False
            self.spent += 1
            try:
                trial.rewards.append(self._play(trial.strategy, len(trial.rewards)))
            except StrategyError as error:
                trial.fault = str(error)
        self._on_progress(self.spent)
        return not trial.fault

    def _halve(self, first: Sequence[Strategy]) -> None:
        """Play successive halving (Jamieson & Talwalkar, 2016): many strategies on few tasks, the best on more."""
        # Each rung costs about two thirds of the first: a third of the strategies plays twice as many tasks more.
        price = sum(
            (rung - before) / _KEEP**level
            for level, (before, rung) in enumerate(zip([0, *self.rungs], self.rungs, strict=False))
        )
        capacity = max(len(first), round(_SHARES[0] * self.budget / price))
        population: list[Trial] = []
        for strategy in self._proposals(first):
            trial = self._trial(strategy)
            if trial is not None:
                population.append(trial)
            if len(population) >= capacity:
                break
        for rung in self.rungs:
            played = [trial for trial in population if self._extend(trial, rung)]
            # The best third of each kind: an exploiter that judges honestly must not crowd out one that never judges.
            population = []
            for kind in ("blind", "attack", "honest"):
                members = sorted((trial for trial in played if trial.kind == kind), key=lambda trial: trial.rank)
                population += members[: math.ceil(len(members) / _KEEP)]

    def _proposals(self, first: Sequence[Strategy]) -> Iterator[Strategy]:
        yield from first
        honest = self.space.strategy()
        singles = [
            honest.replace(slot.name, (Choice(operator),))
            for slot in self.space.slots
            for operator in slot.operators[1:]
            if not operator.takes_text
        ]
        self._rng.shuffle(singles)
        yield from singles
        for _ in range(_MAX_REPEATS * (len(singles) + 1)):
            yield self.space.draw(self._rng, changes=max(3, len(self.space.slots) // 2))

    def _mutate(self) -> None:
        """Search around the best strategies: children of an elite race through the rungs until the budget is spent."""
        repeats = turn = 0
        while self.spent < _SHARES[1] * self.budget and repeats < _MAX_REPEATS:
            kind: Kind = ("blind", "attack")[turn % 2]
            turn += 1
            elite = self.ranked(kind)[:_ELITE] or self.ranked()[:_ELITE]
            if not elite:
                return
            trial = self._trial(self._child(elite))
            if trial is None:
                repeats += 1
                continue
            repeats = 0
            for rung in self.rungs:  # a race: it stops where it falls behind the weakest of the best
                if not self._extend(trial, rung) or trial.mean() < min(rival.mean(rung) for rival in elite):
                    break

    def _child(self, elite: Sequence[Trial]) -> Strategy:
        parent = self._rng.choice(elite).strategy
        if self._rng.random() < _CROSSOVER:
            other = self._rng.choice(self.ranked()[: 2 * _ELITE]).strategy
            for slot in self.space.slots:
                if self._rng.random() < 0.5:
                    parent = parent.replace(slot.name, other.choices[slot.name])
        for _ in range(self._rng.choice((1, 1, 2))):
            parent = self.space.mutate(parent, self._rng)
        return parent

    def _simplify(self) -> None:
        """Take back, one slot at a time, what the best strategies change for nothing."""
        for kind in ("blind", "attack"):
            for best in self.ranked(kind)[:2]:
                for name in self.space.changes(best.strategy):
                    simpler = best.strategy.replace(name, self.space.slot(name).default)
                    trial = self._trial(simpler) or self.trials[simpler.key]
                    if (
                        trial.kind == kind
                        and self._extend(trial, self.rungs[-1])
                        and trial.mean() >= best.mean() - 1e-9
                    ):
                        best = trial

    def unpaid(
        self, least: float, differs: Callable[[Strategy, int], bool] = lambda strategy, number: True
    ) -> list[Strategy]:
        """Return the attacks of a single operator that cost nothing on the tasks of the last rung: work left undone, done
        wrongly or, where the operator is neutral, written otherwise.

        Only tasks count in which the play differs from the honest baseline's: an answer of one statement has no second
        one to leave out, and a source of one sentence no other to quote.

        least: share of the honest baseline's mean reward below which a loss is none. differs: (strategy, number of a task
        that it played) -> whether other actions were sent. It may exceed the budget a little.
        """
        honest = self.space.strategy()
        bar = self._trial(honest) or self.trials[honest.key]
        self._extend(bar, self.rungs[-1], math.inf)
        free = []
        for trial in list(self.trials.values()):
            changed = [trial.strategy.choices[slot] for slot in self.space.changes(trial.strategy)]
            if trial.kind != "attack" or [len(choices) for choices in changed] != [1]:
                continue
            while trial.rewards and trial.mean() >= (mean := bar.mean(len(trial.rewards))) - least * abs(mean):
                if len(trial.rewards) == self.rungs[-1]:
                    numbers = [n for n in range(self.rungs[-1]) if differs(trial.strategy, n)]
                    loss = math.fsum(bar.rewards[n] - trial.rewards[n] for n in numbers)
                    if numbers and loss <= least * abs(mean) * len(numbers):
                        free.append(trial.strategy)
                    break
                if not self._extend(trial, min(_KEEP * len(trial.rewards), self.rungs[-1]), math.inf):
                    break
        return sorted(free, key=lambda strategy: strategy.key)
