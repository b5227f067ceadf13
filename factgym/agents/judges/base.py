"""Judges: they grade a case by a fixed rubric, and their judgements name the judge.

Papers use language models as judges (EVE's evidence score, SEVA's cross-check of probes). Without one, a deterministic
fallback judge is used and marked as such: every judgement and every description carries `stand_in`, and a report prints
`judge_note`. A case without a judgement is an error of its own, never a zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from factgym.core.caching import gather_bounded
from factgym.core.errors import FactgymError
from factgym.core.messages import Usage

Case = Mapping[str, str]
"""The texts to judge: one for each field of the rubric."""

CONCURRENCY = 8
"""Cases that `judge_many` has under way at once."""


class JudgeError(FactgymError):
    """A judge gave no judgement on a case, though its infrastructure worked: the case is unscored.

    cause: "malformed" (no answer that fits the schema, after every retry) or the `stop` of a `PromptRefusedError`.
    answers: its replies, each cut.
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

    score: in [0, 1], the rubric's grade of `label`. by: the judge's name ("openai:gpt-4.1", "stand-in: containment").
    stand_in: a fallback judge's, without a model. cached: no model was called, so that it cost nothing.
    usage: its tokens; empty where they are unknown or none.
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
        return asdict(self)


class Judge(ABC):
    """Grades cases by one rubric."""

    @abstractmethod
    async def judge(self, case: Case) -> Judgement:
        """Judge a case.

        Raises ConfigError for a case without the rubric's fields, JudgeError when there is no judgement, and
        PolicyError for a fault of the infrastructure.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Judge and rubric, as JSON data for a manifest; never a secret. `judge_note` reads "rubric", "by", "stand_in"."""

    async def judge_many(self, cases: Sequence[Case], concurrency: int = CONCURRENCY) -> list[Judgement | JudgeError]:
        """Judge cases, `concurrency` at a time; in their order, with the error in place of an unscored case.

        Raises ConfigError and PolicyError like `judge`, after the cases under way were stopped.
        """

        async def judge_or_error(case: Case) -> Judgement | JudgeError:
            try:
                return await self.judge(case)
            except JudgeError as error:
                return error

        return await gather_bounded(judge_or_error, cases, concurrency)

    async def close(self) -> None:  # noqa: B027 - most judges hold nothing, and need not override it
        """Release the judge's resources."""


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
