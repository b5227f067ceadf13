"""What ensembles share: members that answer every turn at the same time, and what becomes of those that cannot."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from factgym.agents.agent import Model
from factgym.core.caching import gather_all
from factgym.core.errors import ConfigError
from factgym.core.messages import Completion, Message, ToolSchema, Usage
from factgym.core.policy import ContextOverflowError, Policy, PolicyError, add_usage, call_policy
from factgym.core.seeds import derive

Replies = dict[int, Message]
"""Member -> its reply; in the members' order, without those that gave none."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The member whose reply is played, and what the record says about it."""

    member: int
    notes: dict[str, Any] = field(default_factory=dict)


class Ensemble(ABC):
    """Several members play as one model: each answers every turn, and one of the replies is chosen.

    models: one model, which plays all members, or several, which take turns at being members. n: members; needed for
    one model, by default one each for several. quorum: members that must not fail for an infrastructure reason,
    n // 2 + 1 by default. blocking: plain `act` methods take long and are called in threads.

    A turn raises PolicyError "quorum" when too many members failed, a member's own PolicyError at once when it is
    fatal, and ContextOverflowError when the prompt fits none of those that did not fail.
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

    @property
    def members(self) -> tuple[Model, ...]:
        """The model of each member."""
        return tuple(self.models[i % len(self.models)] for i in range(self.n))

    @abstractmethod
    async def choose(self, messages: Sequence[Message], tools: Sequence[ToolSchema], replies: Replies) -> Choice:
        """Which of the replies, at least one, is played."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """How it chooses, as JSON data."""

    def start(self, seed: int) -> Policy:
        """The policy of one episode; member i starts with `derive(seed, "member", i)`."""
        return _Episode(self, [one.start(derive(seed, "member", i)) for i, one in enumerate(self.members)])

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """One turn, asked of the models directly."""
        return await self.turn(cast(Sequence[Policy], self.members), messages, tools)

    def describe(self) -> dict[str, Any]:
        """How many members choose how, and each model's own description."""
        about = {"kind": self.kind, "n": self.n, "quorum": self.quorum} | self.settings()
        return about | {"models": [one.describe() for one in self.models]}

    async def prepare(self) -> None:
        """Prepare every model that has something to prepare, once."""
        for one in {id(one): one for one in self.models}.values():
            found = getattr(one, "prepare", None)
            if found is not None:
                await found()

    async def close(self) -> None:
        """Close every model once, also when closing one fails; the first failure is raised."""
        distinct = {id(one): one for one in self.models}
        failures: list[BaseException] = []
        for one in distinct.values():
            try:
                await one.close()
            except Exception as error:  # noqa: BLE001 - raised again below, after the others were closed
                failures.append(error)
        if failures:
            raise failures[0]

    async def turn(
        self, policies: Sequence[Policy], messages: Sequence[Message], tools: Sequence[ToolSchema]
    ) -> Message:
        """Ask every member and return the chosen reply, its completion holding the sums and the notes."""
        answers = await gather_all(self._ask(one, messages, tools) for one in policies)
        replies = {i: one for i, one in enumerate(answers) if isinstance(one, dict)}
        failures = [one for one in answers if isinstance(one, PolicyError)]
        self._check(replies, failures)
        choice = await self.choose(messages, tools, replies)
        notes: dict[str, Any] = {"members": self.n, "chosen": choice.member} | choice.notes
        if len(replies) < self.n:
            notes["answered"] = len(replies)
        if failures:
            notes["failed"] = dict(sorted(Counter(one.cause for one in failures).items()))
        return _combined(replies, choice.member, notes)

    async def _ask(
        self, policy: Policy, messages: Sequence[Message], tools: Sequence[ToolSchema]
    ) -> Message | PolicyError | ContextOverflowError:
        try:
            return await call_policy(policy, messages, tools, self.blocking)
        except PolicyError as error:
            if error.fatal:
                raise
            return error
        except ContextOverflowError as error:
            return error

    def _check(self, replies: Replies, failures: Sequence[PolicyError]) -> None:
        if self.n - len(failures) < self.quorum:
            causes = "; ".join(f"{count} × {said}" for said, count in Counter(map(_said, failures)).items())
            sound = self.n - len(failures)
            raise PolicyError("quorum", f"{sound} of {self.n} members answered, {self.quorum} must: {causes}")
        if not replies:
            raise ContextOverflowError("the prompt fits the context of no member that answered")


def _said(error: PolicyError) -> str:
    return f"{error.cause} ({str(error)[:200]})"


class _Episode:
    """The members of one episode."""

    def __init__(self, ensemble: Ensemble, policies: Sequence[Policy]) -> None:
        self._ensemble = ensemble
        self._policies = policies

    async def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        return await self._ensemble.turn(self._policies, messages, tools)


def _combined(replies: Replies, chosen: int, notes: dict[str, Any]) -> Message:
    """The chosen reply with the tokens, requests and retries of all."""
    completions = [one.get("completion") or Completion() for one in replies.values()]
    combined = Completion(**(replies[chosen].get("completion") or {}))
    usage = Usage()
    for one in completions:
        add_usage(usage, one.get("usage"))
    if usage:
        combined["usage"] = usage
    if any("requests" in one for one in completions):
        combined["requests"] = sum(one.get("requests", 0) for one in completions)
    if any("retries" in one for one in completions):
        combined["retries"] = [retry for one in completions for retry in one.get("retries") or ()]
    combined["notes"] = {**(combined.get("notes") or {}), **notes}
    message = Message(**replies[chosen])
    message["completion"] = combined
    return message


def finite(value: float) -> float | None:
    """A number as JSON has it: None for an infinite one."""
    return value if math.isfinite(value) else None
