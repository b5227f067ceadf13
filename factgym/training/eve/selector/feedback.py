"""What a finished iteration tells the selector's bandits (EVE, appendix F, equations 32 and 33).

    Q = q_len(question) · q_ans(answer) / √duplicates          r = R_run · Q
    R_sel = −log(N_k / N + ε) + λ_u (r − mean reward of arm k before)

The first term of R_sel pays for arms that were pulled rarely. Its second compares, literally, a reward in [0, 1] with
the arm's mean of R_sel itself, which is mostly the first term: it damps the diversity term more than it measures use.
Lengths are in characters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError
from factgym.training.eve.selector.bandit import Arms

QUESTION_CHARS = (20, 220)
ANSWER_CHARS = (1, 80)
ODD_QUESTION, ODD_ANSWER = 0.65, 0.55
"""Factors for a question and for an answer whose length lies outside those bounds."""


def quality(question: str, answer: str, duplicates: int = 1) -> float:
    """Q, equation 32, in [0, 1]. duplicates: how often the question stands in its batch, itself included."""
    by_question = 1.0 if QUESTION_CHARS[0] <= len(question) <= QUESTION_CHARS[1] else ODD_QUESTION
    by_answer = 1.0 if ANSWER_CHARS[0] <= len(answer) <= ANSWER_CHARS[1] else ODD_ANSWER
    return by_question * by_answer / math.sqrt(max(duplicates, 1))


def qualities(questions: Sequence[str], answers: Iterable[str]) -> list[float]:
    """Q of every row of a batch; questions are duplicates where they are the same text."""
    counts = Counter(questions)
    return [quality(question, answer, counts[question]) for question, answer in zip(questions, answers, strict=True)]


def run_reward(proposer: float, solver: float) -> float:
    """R_run: the average of the latest mean rewards of proposer and solver, each cut to [0, 1].

    The proposer's mean can exceed 1, and may be negative; the paper wants the average in [0, 1] and does not say how.
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
    at = np.asarray(pulled, dtype=np.int64)
    diversity = -np.log(arms.pulls[at] / max(int(arms.pulls.sum()), 1) + smoothing)
    found: NDArray[np.float64] = diversity + utility * (np.asarray(rewards, dtype=np.float64) - arms.means[at])
    return found
