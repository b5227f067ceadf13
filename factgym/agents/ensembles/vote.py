"""Majority vote: every turn, the action that most members choose is played."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from factgym.agents.agent import Model
from factgym.agents.ensembles.members import Choice, Ensemble, Replies
from factgym.core.action import parse_action
from factgym.core.calls import ToolCall
from factgym.core.messages import Message, ToolSchema

VERDICT_ARGUMENTS = ("final_verdict", "label", "verdict")

MALFORMED: Final = ("malformed",)
"""The key of a message that holds no call. Such votes count together, and lose a tie."""

Key = Callable[[Message], Hashable]
"""What a message votes for: equal keys are votes for the same."""


@dataclass(frozen=True)
class ActionKey:
    """What an action does: its calls in order, as tool and arguments (canonical JSON); text and ids apart.

    verdicts: names of arguments that say the whole of a submission; a call with one of them (a text) votes for the
    tool and that value alone, since two submissions in free words are never equal. Empty for all arguments always.
    tags, implicit: what the environment's parser takes besides tool calls; see `factgym.core.action.parse_action`. A
    bare object with a verdict is read as a call of `submit` without being told so.
    """

    verdicts: Sequence[str] = VERDICT_ARGUMENTS
    tags: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    implicit: Mapping[str, str] | None = None

    def __call__(self, message: Message) -> Hashable:
        """The key of a message; `MALFORMED` when it holds no well-formed call."""
        implicit = dict.fromkeys(self.verdicts, "submit") if self.implicit is None else self.implicit
        parsed = parse_action(message, tags=self.tags, implicit=implicit)
        calls = tuple(self._call(one) for one in parsed.items if isinstance(one, ToolCall))
        return calls or MALFORMED

    def _call(self, call: ToolCall) -> tuple[str, str]:
        said = next((call.arguments[one] for one in self.verdicts if isinstance(call.arguments.get(one), str)), None)
        if said is not None:
            return call.name, f"verdict {said.strip().casefold()}"
        return call.name, json.dumps(call.arguments, sort_keys=True)

    def describe(self) -> dict[str, Any]:
        """As JSON data."""
        return {"name": "action", "verdicts": list(self.verdicts)}


def count(keys: Sequence[Hashable]) -> tuple[int, int]:
    """The place of the winning vote's first member in `keys`, which is not empty, and its votes.

    Most votes win; of equal ones the earliest that is not `MALFORMED`.
    """
    votes: dict[Hashable, int] = {}
    for key in keys:
        votes[key] = votes.get(key, 0) + 1
    winner = max(votes, key=lambda key: (votes[key], key != MALFORMED))  # the first of equals, in members' order
    return keys.index(winner), votes[winner]


class MajorityVote(Ensemble):
    """A model whose members vote on every action; the first member that chose the winner is the one that is played.

    key: what a message votes for, `ActionKey()` by default. The completion's notes hold "members", "votes" (of the
    winner) and "chosen". See `Ensemble` for the rest.
    """

    kind = "majority"

    def __init__(
        self,
        models: Model | Sequence[Model],
        n: int | None = None,
        *,
        key: Key | None = None,
        quorum: int | None = None,
        blocking: bool = False,
    ) -> None:
        super().__init__(models, n, quorum=quorum, blocking=blocking)
        self.key: Key = ActionKey() if key is None else key

    async def choose(self, messages: Sequence[Message], tools: Sequence[ToolSchema], replies: Replies) -> Choice:
        """The reply with most votes."""
        members = list(replies)
        first, votes = count([self.key(replies[one]) for one in members])
        return Choice(members[first], {"votes": votes})

    def settings(self) -> dict[str, Any]:
        """The key."""
        return {"key": described(self.key)}


def described(part: object) -> dict[str, Any]:
    """What a part says of itself, or its name."""
    describe: Callable[[], dict[str, Any]] | None = getattr(part, "describe", None)
    return describe() if describe else {"name": getattr(part, "__qualname__", type(part).__qualname__)}
