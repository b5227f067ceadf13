"""What a judge is: it grades a case by a fixed rubric, and says who judged.

Papers use language models as judges (EVE's evidence score, SEVA's cross-check of probes). Where there is none, a
deterministic stand-in does the work, and says so: every judgement and every description carries `stand_in`, and a
report prints `judge_note`. A judgement that could not be had is an error of its own, never a zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from factgym.core.caching import gather_bounded
from factgym.core.errors import FactgymError
from factgym.core.messages import Usage

Case = Mapping[str, str]
"""What is judged: one text for each field of the rubric."""

CONCURRENCY = 8
"""Cases that `judge_many` has under way at once."""


class JudgeError(FactgymError):
    """A judge gave no judgement on a case, though its infrastructure worked: the case is unscored.

    cause: "malformed" (no answer that fits the schema, however often it was asked) or "context_limit" (the case does
    not fit the model's context). answers: what it said instead, each cut.
    """

    def __init__(self, cause: str, message: str, answers: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.cause = cause
        self.answers = tuple(answers)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.cause, str(self), self.answers)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judgement.

    score: in [0, 1], what the rubric gives for `label`. by: who judged ("openai:gpt-4.1", "stand-in: containment").
    stand_in: no model judged. cached: nobody was asked for this one, so that it cost nothing. usage: the tokens that
    it cost; empty where that is unknown or nothing.
    """

    score: float
    label: str
    by: str
    stand_in: bool = False
    cached: bool = False
    reason: str | None = None
    usage: Usage = field(default_factory=Usage)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, keys in a fixed order."""
        return {
            "score": self.score,
            "label": self.label,
            "by": self.by,
            "stand_in": self.stand_in,
            "cached": self.cached,
            "reason": self.reason,
            "usage": dict(self.usage),
        }


class Judge(Protocol):
    """Grades cases by one rubric."""

    async def judge(self, case: Case) -> Judgement:
        """Judge a case.

        Raises ConfigError for a case without the rubric's fields, JudgeError when no judgement could be had, and
        PolicyError for a fault of the infrastructure.
        """
        ...

    async def judge_many(self, cases: Sequence[Case], concurrency: int = CONCURRENCY) -> list[Judgement | JudgeError]:
        """Judge cases, `concurrency` at a time; in their order, with the error in place of what stayed unscored.

        Raises ConfigError and PolicyError like `judge`, after the cases under way were stopped.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What identifies the judge and its rubric, as JSON data for a manifest; never a secret."""
        ...

    async def close(self) -> None:
        """Give back what the judge holds."""
        ...


class BaseJudge(ABC):
    """A judge that says how one case is judged; the rest follows."""

    @abstractmethod
    async def judge(self, case: Case) -> Judgement:
        """Judge a case; see `Judge.judge`."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What identifies the judge; see `Judge.describe`. `judge_note` reads "rubric", "by" and "stand_in"."""

    async def judge_many(self, cases: Sequence[Case], concurrency: int = CONCURRENCY) -> list[Judgement | JudgeError]:
        """Judge cases; see `Judge.judge_many`."""
        return await gather_bounded(self._judged, cases, concurrency)

    async def _judged(self, case: Case) -> Judgement | JudgeError:
        try:
            return await self.judge(case)
        except JudgeError as error:
            return error

    async def close(self) -> None:  # noqa: B027 - most judges hold nothing, and need not say so
        """Nothing to give back."""


def judge_note(judge: Judge) -> str:
    """The sentence that every report with this judge's scores prints."""
    about = judge.describe()
    rubric = f"{about['rubric']} (version {about['version']})"
    if about["stand_in"]:
        return (
            f"{rubric}: NOT judged by a model. A deterministic stand-in gave these scores ({about['by']}: "
            f"{about['how']}); do not compare them with a judge's."
        )
    return f"{rubric}: judged by {about['by']} with a fixed prompt (SHA-256 {about['prompt_sha256'][:12]})."
