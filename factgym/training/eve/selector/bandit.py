"""The arms of a UCB1 bandit: pulls, rewards, which to pull next, and what becomes of them when arms split.

Source: EVE, appendix F, equation 30.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import DataError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Arms:
    """Statistics of K ≥ 1 arms. pulls: N, whole numbers, shape (K,). rewards: sums S, shape (K,).

    Immutable: an update makes new arms.
    """

    pulls: NDArray[np.int64]
    rewards: Array

    @classmethod
    def fresh(cls, count: int) -> Arms:
        """Arms with one virtual pull each and no reward, so that every score is finite."""
        return cls(np.ones(count, dtype=np.int64), np.zeros(count))

    def __len__(self) -> int:
        return len(self.pulls)

    @property
    def means(self) -> Array:
        """Mean reward of each arm."""
        return self.rewards / np.maximum(self.pulls, 1)

    def scores(self, exploration: float = 1.0) -> Array:
        """U, equation 30: mean reward plus `exploration` (β) · √(log of all pulls / pulls)."""
        total = max(int(self.pulls.sum()), 1)
        bonus: Array = np.sqrt(np.log(total) / np.maximum(self.pulls, 1))
        return self.means + exploration * bonus

    def chances(self, exploration: float = 1.0) -> Array:
        """How likely each arm is in a batch: softmax of the scores over their standard deviation; all alike without any."""
        scores = self.scores(exploration)
        spread = scores.std()
        # Equal scores differ by rounding only, and a quotient of such differences is noise.
        raised = (scores - scores.max()) / spread if spread > 1e-12 * max(1.0, abs(scores.max())) else 0.0 * scores
        weights = np.exp(raised)
        found: Array = weights / weights.sum()
        return found

    def choose(self, count: int, rng: np.random.Generator, exploration: float = 1.0) -> list[int]:
        """Arms to pull: the best-scored one (the first of several) for one, a draw from `chances` for more."""
        if count == 1:
            return [int(self.scores(exploration).argmax())]
        found: list[int] = rng.choice(len(self), size=count, p=self.chances(exploration)).tolist()
        return found

    def updated(self, arms: Sequence[int], rewards: Iterable[float]) -> Arms:
        """After one pull of each of `arms` (an arm may be there more than once) with these rewards."""
        pulls, sums = self.pulls.copy(), self.rewards.copy()
        np.add.at(pulls, list(arms), 1)
        np.add.at(sums, list(arms), list(rewards))
        return Arms(pulls, sums)

    def split(self, parents: Sequence[int]) -> Arms:
        """The arms that take the place of these: new arm i descends from old arm `parents[i]`.

        Of an old arm's n children each has max(⌊N / n⌋, 1) pulls and S / n reward. An arm without children is gone.
        """
        origin = np.asarray(parents, dtype=np.int64)
        children = np.bincount(origin, minlength=len(self))[origin]
        return Arms(np.maximum(self.pulls[origin] // children, 1), self.rewards[origin] / children)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data that `from_dict` reads back exactly."""
        return {"pulls": self.pulls.tolist(), "rewards": self.rewards.tolist()}

    @classmethod
    def from_dict(cls, data: Any) -> Arms:
        """Raises DataError for other data."""
        try:
            pulls = np.asarray(data["pulls"], dtype=np.int64)
            rewards = np.asarray(data["rewards"], dtype=np.float64)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise DataError("a bandit's arms are an object with lists of pulls and rewards") from None
        if pulls.ndim != 1 or not len(pulls) or pulls.shape != rewards.shape or not np.isfinite(rewards).all():
            raise DataError("a bandit's pulls and rewards are lists of numbers of one length")
        return cls(pulls, rewards)
