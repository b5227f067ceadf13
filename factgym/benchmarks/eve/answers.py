"""From the record of an episode of `eve-solver` to what EVE's evaluation needs: the answer, the evidence, the gold.

A run may come from anywhere, so nothing in it is trusted: what is no number is left out. Only a record that does not
say whether its answer is right is an error, since nothing can be said without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from factgym.benchmarks.records import has_fault, is_scored, items, members, number
from factgym.core.errors import DataError


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """One scored episode.

    golds: the accepted answers. evidence: the span that was submitted, empty for none. em: whether the answer is right
    (exact match after SQuAD's normalisation). f1: its best token F1. evidence_f1: of the evidence against the gold
    evidence, None where there is no gold evidence. verbatim: whether the evidence stands in a passage that the episode
    was shown; None where the record does not tell. searches: calls of the search tool.
    """

    benchmark: str
    task: str
    sample: int
    question: str
    golds: tuple[str, ...]
    answer: str
    evidence: str
    em: bool
    f1: float | None
    evidence_f1: float | None
    verbatim: bool | None
    searches: float | None
    reward: float

    @property
    def present(self) -> bool:
        """Whether there is evidence at all."""
        return bool(self.evidence.strip())


@dataclass(frozen=True, slots=True)
class SolverAnswers:
    """The answers of a run in the order of its file, and how many episodes gave none: faults, and not scored."""

    rows: tuple[SolverAnswer, ...]
    errors: int = 0
    unscored: int = 0


def read_answers(
    episodes: Iterable[Mapping[str, Any]], where: str = "the run", *, benchmark: str = "questions"
) -> SolverAnswers:
    """The answers of a run's episodes.

    benchmark: the name for questions that name none. Raises DataError, which names the task, for a run of another
    environment.
    """
    rows, errors, unscored = [], 0, 0
    for episode in episodes:
        if has_fault(episode):
            errors += 1
        elif not is_scored(episode):
            unscored += 1
        else:
            rows.append(_answer(episode, where, benchmark))
    return SolverAnswers(tuple(rows), errors, unscored)


def _answer(episode: Mapping[str, Any], where: str, benchmark: str) -> SolverAnswer:
    reward = members(episode.get("reward"))
    metrics, view = members(reward.get("metrics")), members(episode.get("task_view"))
    em = _flag(metrics.get("em"))
    if em is None:
        raise DataError(
            f"{where}: task {episode['task']!r:.80} does not say whether its answer is right; is this a run of eve-solver?"
        )
    sample = episode.get("sample")
    golds = items(metrics.get("gold_answers")) or items(view.get("gold_answers"))
    return SolverAnswer(
        benchmark=_text(metrics.get("benchmark")) or benchmark,
        task=str(episode["task"]),
        sample=sample if isinstance(sample, int) else 0,
        question=_text(view.get("question")),
        golds=tuple(one for one in golds if isinstance(one, str)),
        answer=_text(metrics.get("answer")),
        evidence=_text(metrics.get("evidence")),
        em=em,
        f1=number(metrics.get("f1")),
        evidence_f1=number(metrics.get("evidence_f1")),
        verbatim=_flag(metrics.get("evidence_verbatim")),
        searches=number(metrics.get("searches")),
        reward=float(reward["total"]),
    )


def _flag(value: Any) -> bool | None:
    """A truth value, or a number that is 0 or 1."""
    if isinstance(value, bool):
        return value
    found = number(value)
    return bool(found) if found in (0.0, 1.0) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
