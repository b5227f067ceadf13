"""Exact match and token F1 of SQuAD v1.1, for answers (equation 20) and for evidence spans (equation 21).

    gold "the Eiffel Tower"   said "Eiffel tower."        EM 1   F1 1
                              said "a tower in Paris"     EM 0   F1 0.4

Texts are compared after `normalise_answer`; where a question has several gold answers the best one counts. Two texts
that are both empty after it match exactly and share no token, as in SQuAD's script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from factgym.core.errors import DataError
from factgym.rewards.answer_matching import normalise_answer

__all__ = ["exact_match", "normalise_answer", "squad_scores", "token_f1"]


def exact_match(answer: str, golds: str | Sequence[str]) -> bool:
    """Whether the normalised answer is one of the normalised gold answers; False without any."""
    given = normalise_answer(answer)
    return any(given == normalise_answer(gold) for gold in _several(golds))


def token_f1(text: str, golds: str | Sequence[str]) -> float:
    """The harmonic mean of token precision and recall after normalisation, the best over the golds, 0 to 1."""
    given = Counter(normalise_answer(text).split())
    return max((_f1(given, Counter(normalise_answer(gold).split())) for gold in _several(golds)), default=0.0)


def squad_scores(predictions: Mapping[str, str], golds: Mapping[str, Sequence[str]]) -> tuple[float, float]:
    """EM and F1 in percent over the questions of `golds`, as SQuAD's `evaluate.py` reports them.

    predictions, golds: question id -> answer, and -> gold answers. A question without a prediction counts as wrong;
    predictions for other questions are ignored. Raises DataError when there is no question.
    """
    if not golds:
        raise DataError("there is no question to score")
    said = [(predictions[one], answers) for one, answers in golds.items() if one in predictions]
    matches = sum(exact_match(text, answers) for text, answers in said)
    overlaps = sum(token_f1(text, answers) for text, answers in said)
    return 100.0 * matches / len(golds), 100.0 * overlaps / len(golds)


def _several(golds: str | Sequence[str]) -> Iterable[str]:
    return (golds,) if isinstance(golds, str) else golds


def _f1(given: Counter[str], gold: Counter[str]) -> float:
    shared = (given & gold).total()
    return 2.0 * shared / (given.total() + gold.total()) if shared else 0.0
