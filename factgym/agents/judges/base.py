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

from factgym.core.caching import gather_all, gather_bounded
from factgym.core.errors import ConfigError, FactgymError
from factgym.core.messages import Usage
from factgym.core.policy import add_usage

Case = Mapping[str, str]
"""The texts to judge: one for each field of the rubric."""

CONCURRENCY = 8
"""Cases that `judge_many` has under way at once."""


class JudgeError(FactgymError):
    """A judge gave no judgement on a case, though its infrastructure worked: the case is unscored.

    cause: "malformed" (no answer that fits the schema, after every retry) or "context_limit" (the case does
    not fit the model's context). answers: its replies, each cut.
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


class AllAgree(Judge):
    """Several judges that must agree: SEVA's cross-check, where a probe stays only if a second model passes it, too.

    All judges are called at once, and the lowest score counts, the earliest judge's of equals. One fallback among
    them makes the whole a fallback. Raises ConfigError for fewer than two judges, or for different rubrics. A case
    that any of them cannot judge is unscored.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        self.judges = tuple(judges)
        self._descriptions = [judge.describe() for judge in self.judges]
        rubrics = sorted({f"{about['rubric']} (version {about['version']})" for about in self._descriptions})
        if len(self.judges) < 2 or len(rubrics) > 1:
            raise ConfigError(f"agreement takes two or more judges of one rubric, not {len(judges)} of {rubrics}")

    def describe(self) -> dict[str, Any]:
        """The rubric, and each judge's own description."""
        first = self._descriptions[0]
        hashes = sorted({about["prompt_sha256"] for about in self._descriptions if about["prompt_sha256"]})
        return {name: first[name] for name in ("rubric", "version", "scale", "grades")} | {
            "prompt_sha256": " ".join(hashes) or None,
            "by": " and ".join(about["by"] for about in self._descriptions),
            "stand_in": any(about["stand_in"] for about in self._descriptions),
            "how": "the lowest of several scores",
            "judges": self._descriptions,
        }

    async def close(self) -> None:
        """Close every judge."""
        for judge in self.judges:
            await judge.close()

    async def judge(self, case: Case) -> Judgement:
        """Judge a case; see `Judge.judge`."""
        judgements = await gather_all(judge.judge(case) for judge in self.judges)
        worst = min(judgements, key=lambda judgement: judgement.score)
        usage = Usage()
        for judgement in judgements:
            add_usage(usage, judgement.usage)
        reason = worst.reason
        if len({judgement.label for judgement in judgements}) > 1:
            labels = ", ".join(f"{judgement.by}: {judgement.label}" for judgement in judgements)
            reason = f"The judges disagree ({labels}). {worst.reason or ''}".strip()
        return Judgement(
            worst.score,
            worst.label,
            " and ".join(judgement.by for judgement in judgements),
            any(judgement.stand_in for judgement in judgements),
            all(judgement.cached for judgement in judgements),
            reason,
            usage,
        )


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
