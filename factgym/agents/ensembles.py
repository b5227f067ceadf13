"""Ensembles: several members play as one model, by majority vote or as the best of n replies."""

from __future__ import annotations

import inspect
import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from factgym.agents.agent import Model, call_optional
from factgym.core.action import parse_action
from factgym.core.caching import gather_all
from factgym.core.calls import ToolCall
from factgym.core.errors import ConfigError
from factgym.core.messages import Completion, Message, ToolSchema, Usage
from factgym.core.policy import Policy, PolicyError, PromptRefusedError, add_usage, call_policy
from factgym.core.seeds import derive

Replies = dict[int, Message]
"""Member -> its reply; in the members' order, without those that failed."""


Choice = tuple[int, dict[str, Any]]
"""The member whose reply is played, and notes for the record."""


class Ensemble(ABC):
    """Several members play as one model: each answers every turn, and one of the replies is chosen.

    models: one model, which plays all members, or several, which take turns at being members. n: members; needed for
    one model, by default one each for several. quorum: members that must not fail for an infrastructure reason,
    n // 2 + 1 by default. blocking: plain `act` methods take long and are called in threads.

    A turn raises PolicyError "quorum" when too many members failed, a member's own PolicyError at once when it is
    fatal, and PromptRefusedError when none of those that did not fail can answer the prompt.
    """

    kind: str

    def __init__(
        self,
        models: Model | Sequence[Model],
        n: int | None = None,
        *,
        quorum: int | None = None,
        blocking: bool = False,
    ) -> None:
        self.models: tuple[Model, ...] = tuple(models) if isinstance(models, Sequence) else (models,)
        if not self.models:
            raise ConfigError("an ensemble needs at least one model")
        if n is None and len(self.models) == 1:
            raise ConfigError("an ensemble of one model needs n, the number of its members")
        self.n = len(self.models) if n is None else n
        if self.n < len(self.models) or self.n < 1:
            raise ConfigError(f"n must be at least the number of models, {len(self.models)}, not {self.n}")
        self.quorum = self.n // 2 + 1 if quorum is None else quorum
        if not 1 <= self.quorum <= self.n:
            raise ConfigError(f"quorum must be from 1 to {self.n}, the number of members, not {self.quorum}")
        self.blocking = blocking
        self._distinct_models = list({id(model): model for model in self.models}.values())

    @property
    def members(self) -> tuple[Model, ...]:
        """The model of each member."""
        return tuple(self.models[i % len(self.models)] for i in range(self.n))

    @abstractmethod
    async def choose(self, messages: Sequence[Message], tools: Sequence[ToolSchema], replies: Replies) -> Choice:
        """Choose among the replies, of which there is at least one."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Settings of the rule of choice, as JSON data."""

    def start(self, seed: int) -> Policy:
        """The policy of one episode; the members' seeds follow from `seed` and their number."""
        return _Episode(self, [model.start(derive(seed, "member", i)) for i, model in enumerate(self.members)])

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """The chosen reply to a request outside of episodes, where the members have no seeds."""
        return await self.turn(cast(Sequence[Policy], self.members), messages, tools)

    def describe(self) -> dict[str, Any]:
        """Number of members, rule of choice, and each model's own description."""
        about = {"kind": self.kind, "n": self.n, "quorum": self.quorum} | self.settings()
        return about | {"models": [model.describe() for model in self.models]}

    async def prepare(self) -> None:
        """Prepare every model that has something to prepare, once."""
        for model in self._distinct_models:
            await call_optional(model, "prepare")

    async def close(self) -> None:
        """Close every model once, also when closing one fails; the first failure is raised."""
        failures: list[BaseException] = []
        for model in self._distinct_models:
            try:
                await model.close()
            except Exception as error:  # noqa: BLE001 - raised again below, after the others were closed
                failures.append(error)
        if failures:
            raise failures[0]

    async def turn(
        self, policies: Sequence[Policy], messages: Sequence[Message], tools: Sequence[ToolSchema]
    ) -> Message:
        """Call every member and return the chosen reply, its completion with the sums and the notes."""

        async def reply_or_fault(policy: Policy) -> Message | PolicyError | PromptRefusedError:
            try:
                return await call_policy(policy, messages, tools, self.blocking)
            except PolicyError as error:
                if error.fatal:
                    raise
                return error
            except PromptRefusedError as error:
                return error

        outcomes = await gather_all(reply_or_fault(policy) for policy in policies)
        replies = {i: outcome for i, outcome in enumerate(outcomes) if isinstance(outcome, dict)}
        failures = [outcome for outcome in outcomes if isinstance(outcome, PolicyError)]
        working = self.n - len(failures)
        if working < self.quorum:
            counts = Counter(f"{error.cause} ({str(error)[:200]})" for error in failures)
            causes = "; ".join(f"{number} × {text}" for text, number in counts.items())
            raise PolicyError("quorum", f"{working} of {self.n} members answered, {self.quorum} must: {causes}")
        if not replies:
            raise next(outcome for outcome in outcomes if isinstance(outcome, PromptRefusedError))
        chosen, about = await self.choose(messages, tools, replies)
        notes: dict[str, Any] = {"members": self.n, "chosen": chosen} | about
        if len(replies) < self.n:
            notes["answered"] = len(replies)
        if failures:
            notes["failed"] = dict(sorted(Counter(error.cause for error in failures).items()))
        return _combined(replies, chosen, notes)


@dataclass(frozen=True, slots=True)
class _Episode:
    ensemble: Ensemble
    policies: Sequence[Policy]

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        return await self.ensemble.turn(self.policies, messages, tools)


def _combined(replies: Replies, chosen: int, notes: dict[str, Any]) -> Message:
    """The chosen reply with the tokens, requests and retries of all."""
    completions = [reply.get("completion") or Completion() for reply in replies.values()]
    combined = Completion(**(replies[chosen].get("completion") or {}))
    usage = Usage()
    for completion in completions:
        add_usage(usage, completion.get("usage"))
    if usage:
        combined["usage"] = usage
    if any("requests" in completion for completion in completions):
        combined["requests"] = sum(completion.get("requests", 0) for completion in completions)
    if any("retries" in completion for completion in completions):
        combined["retries"] = [retry for completion in completions for retry in completion.get("retries") or ()]
    combined["notes"] = {**(combined.get("notes") or {}), **notes}
    message = Message(**replies[chosen])
    message["completion"] = combined
    return message


def _description(part: object) -> dict[str, Any]:
    """A key's or score's own description, or its name."""
    describe: Callable[[], dict[str, Any]] | None = getattr(part, "describe", None)
    return describe() if describe else {"name": getattr(part, "__qualname__", type(part).__qualname__)}


VERDICT_ARGUMENTS = ("final_verdict", "label", "verdict")

MALFORMED: Final = ("malformed",)
"""The key of a message that holds no call. Such votes count together, and lose a tie."""

Key = Callable[[Message], Hashable]
"""The vote of a message: equal keys are votes for the same action."""


@dataclass(frozen=True)
class ActionKey:
    """The effect of an action: its calls in order, as tool and arguments (canonical JSON); text and ids apart.

    verdicts: names of arguments that are the essence of a submission; a call with one of them (a text) votes for the
    tool and that value alone, since two submissions in free words are never equal. Empty for all arguments always.
    tags, implicit: actions of the environment's parser besides tool calls; see `factgym.core.action.parse_action`. By
    default a bare object with a verdict is read as a call of `submit`.
    """

    verdicts: Sequence[str] = VERDICT_ARGUMENTS
    tags: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    implicit: Mapping[str, str] | None = None

    def __call__(self, message: Message) -> Hashable:
        """The key of a message; `MALFORMED` when it holds no well-formed call."""
        implicit = dict.fromkeys(self.verdicts, "submit") if self.implicit is None else self.implicit
        key = []
        for call in parse_action(message, tags=self.tags, implicit=implicit).items:
            if isinstance(call, ToolCall):
                values = (call.arguments.get(name) for name in self.verdicts)
                verdict = next((value for value in values if isinstance(value, str)), None)
                if verdict is None:
                    key.append((call.name, json.dumps(call.arguments, sort_keys=True)))
                else:
                    key.append((call.name, f"verdict {verdict.strip().casefold()}"))
        return tuple(key) or MALFORMED

    def describe(self) -> dict[str, Any]:
        """As JSON data."""
        return {"name": "action", "verdicts": list(self.verdicts)}


def count(keys: Sequence[Hashable]) -> tuple[int, int]:
    """The index in `keys` (not empty) of the first vote for the winner, and the winner's votes.

    Plurality vote; of equal counts the earliest key that is not `MALFORMED` wins.
    """
    # Counter and max keep the order of first votes, so that of equals the earliest member's wins.
    votes = Counter(keys)
    winner = max(votes, key=lambda key: (votes[key], key != MALFORMED))
    return keys.index(winner), votes[winner]


class MajorityVote(Ensemble):
    """A model whose members vote on every action; the reply of the first member that voted for the winner is played.

    key: the vote of a message, `ActionKey()` by default. The completion's notes hold "members", "votes" (of the
    winner) and "chosen". See `Ensemble` for models, n and the options.
    """

    kind = "majority"

    def __init__(
        self, models: Model | Sequence[Model], n: int | None = None, *, key: Key | None = None, **options: Any
    ) -> None:
        super().__init__(models, n, **options)
        self.key: Key = ActionKey() if key is None else key

    async def choose(self, messages: Sequence[Message], tools: Sequence[ToolSchema], replies: Replies) -> Choice:
        """The reply with most votes."""
        members = list(replies)
        first, votes = count([self.key(replies[member]) for member in members])
        return members[first], {"votes": votes}

    def settings(self) -> dict[str, Any]:
        """The key."""
        return {"key": _description(self.key)}


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
        return math.fsum(token["logprob"] for token in logprobs) / len(logprobs) if logprobs else None

    def describe(self) -> dict[str, Any]:
        """As JSON data."""
        return {"name": "mean log-probability"}


class BestOf(Ensemble):
    """A model that samples n replies a turn and plays the reply with the best score, the earliest of equals.

    score: `MeanLogprob()` by default. The completion's notes hold "members", "chosen" and "scores" (one for each
    reply, None where it has none or an infinite one). Raises ConfigError for a score that is no number, and
    PolicyError "unscored" when no reply could be scored. See `Ensemble` for models, n and the options.
    """

    kind = "best-of"

    def __init__(
        self, models: Model | Sequence[Model], n: int | None = None, *, score: Score | None = None, **options: Any
    ) -> None:
        super().__init__(models, n, **options)
        self.score: Score = MeanLogprob() if score is None else score

    async def choose(self, messages: Sequence[Message], tools: Sequence[ToolSchema], replies: Replies) -> Choice:
        """The reply with the best score."""

        async def score_of(reply: Message) -> float | None:
            result = self.score(messages, tools, reply)
            score = await result if inspect.isawaitable(result) else result
            if score is not None and (not isinstance(score, (int, float)) or math.isnan(score)):
                raise ConfigError(f"the score of best-of-n must be a number or None, not {score!r:.80}")
            return score

        scores = await gather_all(score_of(reply) for reply in replies.values())
        scored = {member: score for member, score in zip(replies, scores, strict=True) if score is not None}
        if not scored:
            raise PolicyError("unscored", f"none of the {len(replies)} replies could be scored")
        best = max(scored, key=lambda member: scored[member])
        finite = [float(score) if score is not None and math.isfinite(score) else None for score in scores]
        return best, {"scores": finite}

    def settings(self) -> dict[str, Any]:
        """The score."""
        return {"score": _description(self.score)}

    async def close(self) -> None:
        """Close the models, and the score where it has something to close."""
        try:
            await super().close()
        finally:
            await call_optional(self.score, "close")
