"""From the record of an episode to what its evaluation needs: the answer, its facts, and what it was about.

A run may come from anywhere, so nothing in it is trusted: a label that is none of the two counts as none, an error
type outside the taxonomy as none, and what is no number is left out. Only a gold label that cannot be read is an
error, since nothing can be said without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from factgym.benchmarks.records import gold_of, has_fault, is_scored, items, members, number, verdict_of
from factgym.core.errors import DataError
from factgym.rewards.seva import COMPONENTS, ERROR_TYPES, GROUNDED_COMPONENTS, LABELS

POSITIVE, NEGATIVE = LABELS


@dataclass(frozen=True, slots=True)
class Answer:
    """One scored episode.

    said: the predicted label, None for none. confidence: as it was counted, None where nothing was parsed. error_type,
    gold_error_type: of the taxonomy, else None. components: by name, in their own ranges; those that the record holds.
    consistent: whether the label followed from the output's own alignments and steps; None where it was not scored.
    """

    task: str
    sample: int
    claim: str
    source: str
    gold: str
    said: str | None
    parsed: bool
    format_ok: bool
    confidence: float | None
    error_type: str | None
    gold_error_type: str | None
    components: Mapping[str, float]
    consistent: bool | None

    @property
    def correct(self) -> bool:
        """Whether the label is the gold one."""
        return self.said == self.gold


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a run in the order of its file, and how many episodes gave none: faults, and not scored."""

    rows: tuple[Answer, ...]
    errors: int = 0
    unscored: int = 0

    @property
    def golds(self) -> list[str]:
        """The gold labels."""
        return [row.gold for row in self.rows]

    @property
    def said(self) -> list[str | None]:
        """The predicted labels."""
        return [row.said for row in self.rows]

    @property
    def clusters(self) -> list[str] | None:
        """The task of each answer; None where every task was answered once, so that answers are independent."""
        tasks = [row.task for row in self.rows]
        return None if len(set(tasks)) == len(tasks) else tasks

    @property
    def tasks(self) -> int:
        """The number of different tasks."""
        return len({row.task for row in self.rows})


def read_answers(episodes: Iterable[Mapping[str, Any]], where: str = "the run") -> Answers:
    """The answers of a run's episodes. Raises DataError, which names the task, for a run of another environment."""
    rows, errors, unscored = [], 0, 0
    for episode in episodes:
        if has_fault(episode):
            errors += 1
        elif not is_scored(episode):
            unscored += 1
        else:
            rows.append(_answer(episode, where))
    return Answers(tuple(rows), errors, unscored)


def _answer(episode: Mapping[str, Any], where: str) -> Answer:
    metrics = members(members(episode.get("reward")).get("metrics"))
    view = members(episode.get("task_view"))
    gold, said = gold_of(episode), verdict_of(episode)
    if gold not in LABELS:
        raise DataError(
            f"{where}: task {episode['task']!r:.80} has no gold label that is {' or '.join(LABELS)}; "
            "is this a run of a seva environment?"
        )
    sample = episode.get("sample")
    parsed = metrics.get("parsed") is True
    consistent = number(members(metrics.get("gates")).get("consistent"))
    return Answer(
        task=str(episode["task"]),
        sample=sample if isinstance(sample, int) else 0,
        claim=_text(view.get("answer")),
        source="\n".join(_text(members(one).get("text")) for one in items(view.get("passages"))),
        gold=str(gold),
        said=said if said in LABELS else None,
        parsed=parsed,
        format_ok=metrics.get("format_ok") is True,
        confidence=number(metrics.get("confidence")) if parsed else None,
        error_type=_known(metrics.get("error_type")),
        gold_error_type=_known(metrics.get("gold_error_type")),
        components=_components(members(members(episode.get("reward")).get("components"))),
        consistent=None if consistent is None else consistent > 0,
    )


def _components(found: Mapping[str, Any]) -> dict[str, float]:
    values = ((name, number(found.get(name))) for name in (*COMPONENTS, *GROUNDED_COMPONENTS))
    return {name: value for name, value in values if value is not None}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _known(value: Any) -> str | None:
    return value if isinstance(value, str) and value in ERROR_TYPES else None
