"""From the record of an episode to what CorVer's evaluation needs: the label, the answer's length, the counts.

A run may come from anywhere, so nothing in it is trusted: what is no number is left out. Only a label that is none of
good, bad and na is an error, since nothing can be said without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from factgym.benchmarks.records import has_fault, is_scored, items, members, number
from factgym.core.errors import DataError

GOOD, BAD, REFUSED = "good", "bad", "na"
LABELS = (GOOD, BAD, REFUSED)

JUDGES = ("reference", "boundary")
"""The published judge, and the one that closes its holes; records hold the labels of both."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One scored episode.

    label: of `LABELS`, by the judge that the run was made with or the one asked for. labels: by each judge that the
    record names. chars, words: of the answer without its tags, None where the record does not tell. counts: of
    each sentence, None where it gave no query. popularity: monthly page views of the subject, where known.
    components, gates: of the reward, by name, in their own ranges.
    counted: whether there was a counter.
    """

    benchmark: str
    task: str
    sample: int
    question: str
    label: str
    labels: Mapping[str, str]
    format_ok: bool
    chars: float | None
    words: float | None
    counts: tuple[int | None, ...]
    popularity: float | None
    reward: float
    components: Mapping[str, float]
    gates: Mapping[str, float]
    counted: bool

    @property
    def good(self) -> bool:
        """Whether the answer is right."""
        return self.label == GOOD

    @property
    def refused(self) -> bool:
        """Whether it says that it does not know."""
        return self.label == REFUSED


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a run in the order of its file, and how many episodes gave none: faults, and not scored."""

    rows: tuple[Answer, ...]
    errors: int = 0
    unscored: int = 0

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks, in the order in which they come."""
        return tuple(dict.fromkeys(one.benchmark for one in self.rows))


def read_answers(
    episodes: Iterable[Mapping[str, Any]],
    where: str = "the run",
    *,
    benchmark: str = "questions",
    judge: str | None = None,
) -> Answers:
    """The answers of a run's episodes.

    benchmark: the name for questions that name none. judge: whose labels count ("reference", "boundary"); by default the
    one that the run was made with. Raises DataError, which names the task, for a run of another environment, and for
    one that does not hold the labels of that judge.
    """
    rows, errors, unscored = [], 0, 0
    for episode in episodes:
        if has_fault(episode):
            errors += 1
        elif not is_scored(episode):
            unscored += 1
        else:
            rows.append(_answer(episode, where, benchmark, judge))
    return Answers(tuple(rows), errors, unscored)


def _answer(episode: Mapping[str, Any], where: str, benchmark: str, judge: str | None) -> Answer:
    reward = members(episode.get("reward"))
    metrics, view = members(reward.get("metrics")), members(episode.get("task_view"))
    labels = {one: str(metrics[f"label_{one}"]) for one in JUDGES if metrics.get(f"label_{one}") in LABELS}
    label = metrics.get("label") if judge is None else labels.get(judge)
    if label not in LABELS:
        named = f" by the {judge} judge" if judge else ""
        raise DataError(
            f"{where}: task {episode['task']!r:.80} has no label{named} that is {', '.join(LABELS)}; is this a run of a "
            "corver environment?"
        )
    sample, answer = episode.get("sample"), metrics.get("answer")
    said = answer if isinstance(answer, str) else None
    chars = number(metrics.get("answer_chars"))
    return Answer(
        benchmark=_text(metrics.get("benchmark")) or _text(view.get("benchmark")) or benchmark,
        task=str(episode["task"]),
        sample=sample if isinstance(sample, int) else 0,
        question=_text(view.get("question")),
        label=label,
        labels=labels,
        format_ok=metrics.get("format_ok") is True,
        chars=chars if chars is not None or said is None else float(len(said)),
        words=float(len(said.split())) if said is not None else number(metrics.get("answer_words")),
        counts=tuple(_count(one) for one in items(metrics.get("counts"))),
        popularity=number(metrics.get("popularity")),
        reward=float(reward["total"]),
        components=_numbers(members(reward.get("components"))),
        gates=_numbers(members(metrics.get("gates"))),
        counted=metrics.get("counted") is not False,
    )


def _numbers(found: Mapping[str, Any]) -> dict[str, float]:
    values = ((str(name), number(value)) for name, value in found.items())
    return {name: value for name, value in values if value is not None}


def _count(value: Any) -> int | None:
    found = number(value)
    return None if found is None or found < 0 else int(found)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
