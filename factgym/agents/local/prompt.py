"""A prompt as the model reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.core.messages import Message


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids of a rendered conversation.

    max_tokens: what the reply may have at most, at least 1. opened: the prompt ends inside a `<think>`. sent: the
    messages that were rendered, where they are not the given ones. notes: for the record. scored_from: the ids hold a
    given reply, and those from here on are scored; None where a reply is asked for.
    """

    ids: Sequence[int]
    max_tokens: int
    opened: bool = False
    sent: list[Message] | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    scored_from: int | None = None
