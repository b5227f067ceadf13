"""Best of n: every turn, n replies are sampled and the one with the best score is played."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from factgym.agents.agent import Model
from factgym.agents.ensembles.members import Choice, Ensemble, Replies, finite
from factgym.agents.ensembles.vote import described
from factgym.agents.judges.base import Case, Judge, JudgeError
from factgym.core.caching import gather_all
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import PolicyError

Score = Callable[[Sequence[Message], Sequence[ToolSchema], Message], "float | Awaitable[float | None] | None"]
"""`score(messages, tools, reply)`: the larger the better; None where a reply cannot be scored."""


class MeanLogprob:
    """The mean log-probability of the reply's tokens, in (-inf, 0]; a reply without tokens cannot be scored."""

    def __call__(self, messages: Sequence[Message], tools: Sequence[ToolSchema], message: Message) -> float | None:
        """The score. Raises ConfigError for a reply without log-probabilities."""
        logprobs = (message.get("completion") or {}).get("logprobs")
        if logprobs is None:
            raise ConfigError(
                "best-of-n by log-probability: the model's reply has none. Set logprobs=true (and a server that "
                "returns them), or give another score."
            )
        return math.fsum(one["logprob"] for one in logprobs) / len(logprobs) if logprobs else None

    def describe(self) -> dict[str, Any]:
        """As JSON data."""
        return {"name": "mean log-probability"}


def step_case(messages: Sequence[Message], tools: Sequence[ToolSchema], message: Message) -> Case:
    """The case of the rubric `next-step`: the conversation, and the reply as the step."""
    conversation = "\n\n".join(f"{one['role']}: {_text(one)}" for one in messages)
    return {"conversation": conversation, "step": _text(message)}


def _text(message: Message) -> str:
    calls = [one["function"] for one in message.get("tool_calls") or ()]
    said = [message["content"] or "", *(f"{one['name']} {one['arguments']}" for one in calls)]
    return "\n".join(one for one in said if one)


class JudgeScore:
    """A judge's score of the reply; None for a reply that it could not judge.

    case: how messages, tools and reply become a case of the judge's rubric; `step_case` fits `next-step`.
    """

    def __init__(
        self,
        judge: Judge,
        case: Callable[[Sequence[Message], Sequence[ToolSchema], Message], Case] = step_case,
    ) -> None:
        self.judge = judge
        self.case = case

    async def __call__(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], message: Message
    ) -> float | None:
        """The score, in [0, 1]. Raises PolicyError when the judge's infrastructure failed."""
        try:
            return (await self.judge.judge(self.case(messages, tools, message))).score
        except JudgeError:
            return None

    def describe(self) -> dict[str, Any]:
        """The judge's description."""
        return {"name": "judge", "judge": self.judge.describe()}

    async def close(self) -> None:
        """Close the judge."""
        await self.judge.close()


class BestOf(Ensemble):
    """A model that samples n replies a turn and plays the one with the best score; of equal ones the earliest.

    score: `MeanLogprob()` by default. The completion's notes hold "members", "chosen" and "scores" (one for each
    reply, None where it has none or an infinite one). Raises ConfigError for a score that is no number, and
    PolicyError "unscored" when no reply could be scored. See `Ensemble` for the rest.
    """

    kind = "best-of"

    def __init__(
        self,
        models: Model | Sequence[Model],
        n: int | None = None,
        *,
        score: Score | None = None,
        quorum: int | None = None,
        blocking: bool = False,
    ) -> None:
        super().__init__(models, n, quorum=quorum, blocking=blocking)
        self.score: Score = MeanLogprob() if score is None else score

    async def choose(self, messages: Sequence[Message], tools: Sequence[ToolSchema], replies: Replies) -> Choice:
        """The reply with the best score."""
        scores = await gather_all(self._score(messages, tools, one) for one in replies.values())
        scored = {member: score for member, score in zip(replies, scores, strict=True) if score is not None}
        if not scored:
            raise PolicyError("unscored", f"none of the {len(replies)} replies could be scored")
        best = max(scored, key=lambda member: scored[member])
        return Choice(best, {"scores": [None if one is None else finite(one) for one in scores]})

    async def _score(self, messages: Sequence[Message], tools: Sequence[ToolSchema], message: Message) -> float | None:
        found = self.score(messages, tools, message)
        score = await found if inspect.isawaitable(found) else found
        if score is None:
            return None
        if not isinstance(score, (int, float)) or math.isnan(score):
            raise ConfigError(f"the score of best-of-n must be a number or None, not {score!r:.80}")
        return float(score)

    def settings(self) -> dict[str, Any]:
        """The score."""
        return {"score": described(self.score)}

    async def close(self) -> None:
        """Close the models, and the score where it has something to close."""
        close = getattr(self.score, "close", None)
        try:
            await super().close()
        finally:
            if close is not None:
                await close()
