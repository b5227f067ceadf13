"""UCB1 bandits of EVE's corpus selector (appendix F): scores, draws in batches, splits, and the reward of a row.

Points that the paper leaves open: every row of an iteration is rewarded from the statistics before it; only rows count
as pulls, so an arm whose proposals were all invalid keeps its score.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError

QUESTION_CHARS = (20, 220)
ANSWER_CHARS = (1, 80)
UNUSUAL_QUESTION, UNUSUAL_ANSWER = 0.65, 0.55
"""Factors for a question and for an answer whose length in characters lies outside those bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class Arms:
    """Statistics of the K ≥ 1 arms of a UCB1 bandit (EVE, equation 30). pulls: N, whole numbers, shape (K,).
    rewards: sums S, shape (K,).

    Immutable: an update makes new arms.
    """

    pulls: NDArray[np.int64]
    rewards: NDArray[np.float64]

    @classmethod
    def fresh(cls, count: int) -> Arms:
        """Arms with one virtual pull each and no reward, so that every score is finite."""
        return cls(np.ones(count, dtype=np.int64), np.zeros(count))

    def __len__(self) -> int:
        return len(self.pulls)

    @property
    def means(self) -> NDArray[np.float64]:
        """Mean reward of each arm."""
        return self.rewards / np.maximum(self.pulls, 1)

    def scores(self, exploration: float = 1.0) -> NDArray[np.float64]:
        """U, equation 30: mean reward plus `exploration` (β) · √(log of all pulls / pulls)."""
        total = max(int(self.pulls.sum()), 1)
        bonus: NDArray[np.float64] = np.sqrt(np.log(total) / np.maximum(self.pulls, 1))
        return self.means + exploration * bonus

    def probabilities(self, exploration: float = 1.0) -> NDArray[np.float64]:
        """Probability of each arm in a batch: softmax of the scores over their standard deviation; uniform if that is 0."""
        # Standardised scores: the softmax does not depend on the scale of the rewards.
        scores = self.scores(exploration)
        spread = scores.std()
        # Equal scores differ by rounding only, and a quotient of such differences is noise.
        logits = (scores - scores.max()) / spread if spread > 1e-12 * max(1.0, abs(scores.max())) else 0.0 * scores
        weights = np.exp(logits)
        probabilities: NDArray[np.float64] = weights / weights.sum()
        return probabilities

    def choose(self, count: int, rng: np.random.Generator, exploration: float = 1.0) -> list[int]:
        """Arms to pull: the arm with the best score (the first of equals) for count 1, else draws by `probabilities`."""
        if count == 1:
            return [int(self.scores(exploration).argmax())]
        arms: list[int] = rng.choice(len(self), size=count, p=self.probabilities(exploration)).tolist()
        return arms

    def updated(self, arms: Sequence[int], rewards: Iterable[float]) -> Arms:
        """The statistics after one pull of each of `arms` (repeats allowed) with these rewards."""
        pulls, sums = self.pulls.copy(), self.rewards.copy()
        np.add.at(pulls, list(arms), 1)
        np.add.at(sums, list(arms), list(rewards))
        return Arms(pulls, sums)

    def split(self, parents: Sequence[int]) -> Arms:
        """The arms that replace these: new arm i descends from old arm `parents[i]`.

        Each of an old arm's n children has max(⌊N / n⌋, 1) pulls and S / n reward. An arm without children ends.
        """
        origin = np.asarray(parents, dtype=np.int64)
        children = np.bincount(origin, minlength=len(self))[origin]
        return Arms(np.maximum(self.pulls[origin] // children, 1), self.rewards[origin] / children)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data that `from_dict` reads back exactly."""
        return {"pulls": self.pulls.tolist(), "rewards": self.rewards.tolist()}

    @classmethod
    def from_dict(cls, data: Any) -> Arms:
        """Read `to_dict`'s data."""
        return cls(np.asarray(data["pulls"], dtype=np.int64), np.asarray(data["rewards"], dtype=np.float64))


# Feedback: equations 32 and 33.
#
#     Q = q_len(question) · q_ans(answer) / √duplicates          r = R_run · Q
#     R_sel = −log(N_k / N + ε) + λ_u (r − mean reward of arm k before)
#
# The first term of R_sel rewards arms that were pulled rarely. The second compares, literally, a reward in [0, 1] with
# the arm's mean of R_sel itself, which is mostly the first term: it damps the diversity term more than it measures use.


def quality(question: str, answer: str, duplicates: int = 1) -> float:
    """Q, equation 32, in [0, 1]. duplicates: occurrences of the question in its batch, itself included."""
    question_factor = 1.0 if QUESTION_CHARS[0] <= len(question) <= QUESTION_CHARS[1] else UNUSUAL_QUESTION
    answer_factor = 1.0 if ANSWER_CHARS[0] <= len(answer) <= ANSWER_CHARS[1] else UNUSUAL_ANSWER
    return question_factor * answer_factor / math.sqrt(max(duplicates, 1))


def qualities(questions: Sequence[str], answers: Iterable[str]) -> list[float]:
    """Q of every row of a batch; questions with the same text are duplicates."""
    counts = Counter(questions)
    return [quality(question, answer, counts[question]) for question, answer in zip(questions, answers, strict=True)]


def run_reward(proposer: float, solver: float) -> float:
    """R_run: the average of the latest mean rewards of proposer and solver, each clipped to [0, 1].

    The proposer's mean can exceed 1 or be negative; the paper requires the average in [0, 1] without saying how.
    """
    if not (math.isfinite(proposer) and math.isfinite(solver)):
        raise ConfigError(f"mean rewards must be finite, not {proposer!r:.80} and {solver!r:.80}")
    return (min(max(proposer, 0.0), 1.0) + min(max(solver, 0.0), 1.0)) / 2


def arm_rewards(
    arms: Arms, pulled: Sequence[int], rewards: Sequence[float], *, utility: float = 0.5, smoothing: float = 1e-8
) -> NDArray[np.float64]:
    """R_sel of every row, equation 33, all from the arms as they were before this batch. Shape (rows,).

    pulled: the arm of each row. rewards: r of each row. utility, smoothing: λ_u and ε.
    """
    indices = np.asarray(pulled, dtype=np.int64)
    diversity = -np.log(arms.pulls[indices] / max(int(arms.pulls.sum()), 1) + smoothing)
    total: NDArray[np.float64] = diversity + utility * (np.asarray(rewards, dtype=np.float64) - arms.means[indices])
    return total
