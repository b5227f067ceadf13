"""Conversations folded for chat templates and servers that refuse a role or an order of roles."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NoReturn

from factgym.agents.sampling import tools_as_text
from factgym.core.messages import Message

Fold = Literal["content", "arguments", "system", "neighbours", "tools"]

FOLDS: Mapping[Fold, str] = {
    "content": "empty contents are sent as null, empty replies as '(empty)'",
    "arguments": "arguments of a call that are no JSON object are sent inside one",
    "system": "system messages are sent at the top of the first user message",
    "neighbours": "messages of one role in a row are sent as one",
    "tools": "tool calls and results are sent as text",
}
"""Changes of a conversation, in the order in which they are applied after "tools"; each with a line for records."""

REASONING_REFUSED = "reasoning is not sent back: it is refused"
"""Line for records."""

MALFORMED = "malformed_arguments"
"""The key under which arguments that cannot be sent as they came are sent back to the model."""

_LADDER: tuple[frozenset[Fold], ...] = (
    frozenset(),
    frozenset({"content"}),
    frozenset({"arguments"}),
    frozenset({"system"}),
    frozenset({"neighbours"}),
    frozenset({"system", "neighbours"}),
    frozenset({"tools", "neighbours"}),
    frozenset({"tools", "system", "neighbours"}),
)
"""Combinations to try, the least change first. Results as text are user messages in a row, so they are joined, too."""


def foldings(
    messages: Sequence[Message], applied: frozenset[Fold] = frozenset()
) -> Iterator[tuple[frozenset[Fold], list[Message]]]:
    """Each combination of folds that changes the messages further, the least change first; `applied` comes first."""
    seen: list[list[Message]] = []
    for rung in _LADDER:
        folded = fold(messages, applied | rung)
        if folded not in seen:
            seen.append(folded)
            yield applied | rung, folded


def fold(messages: Sequence[Message], folds: frozenset[Fold]) -> list[Message]:
    """The messages with these folds. Without "content", calls have an empty content: templates render null as a word."""
    folded = tools_as_text(messages, ()) if "tools" in folds else list(messages)
    if "content" in folds:
        folded = [{**message, "content": message["content"] or _no_content(message)} for message in folded]
    else:
        folded = [{**message, "content": ""} if message["content"] is None else message for message in folded]
    if "arguments" in folds:
        folded = [_with_objects(message) for message in folded]
    if "system" in folds:
        folded = _fold_system(folded)
    return _merge_neighbours(folded) if "neighbours" in folds else folded


def _no_content(message: Message) -> str | None:
    empty = None if message.get("tool_calls") else "(empty)"
    return empty if message["role"] == "assistant" else ""


def _with_objects(message: Message) -> Message:
    if not (calls := message.get("tool_calls")):
        return message
    functions = [
        {**call["function"], "arguments": json_arguments(call["function"]["arguments"], only_objects=True)}
        for call in calls
    ]
    changed: Any = [{**call, "function": function} for call, function in zip(calls, functions, strict=True)]
    return {**message, "tool_calls": changed}


def json_arguments(text: str, only_objects: bool = False) -> str:
    """The arguments of a call as JSON (RFC 8259): as they came where they are JSON, and an object if `only_objects`.

    Others are put inside an object, but for an object in a JSON text and for empty arguments.
    """
    value = _parse(text)
    if isinstance(value, dict) or (value is not ... and not only_objects):
        return text
    if isinstance(value, str) and isinstance(_parse(value), dict):
        return value
    return json.dumps({MALFORMED: text}, ensure_ascii=False) if text.strip() else "{}"


def _parse(text: str) -> Any:
    """The value of a JSON text, `...` for a text that is none."""

    def refuse_constant(name: str) -> NoReturn:
        raise ValueError(name)

    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return ...


def _fold_system(messages: Sequence[Message]) -> list[Message]:
    """The messages with the system messages at the top of the first user message."""
    texts = [message["content"] or "" for message in messages if message["role"] == "system"]
    folded = [message for message in messages if message["role"] != "system"]
    if not texts:
        return folded
    for index, message in enumerate(folded):
        if message["role"] == "user":
            folded[index] = {**message, "content": "\n\n".join([*texts, message["content"] or ""])}
            return folded
    return [{"role": "user", "content": "\n\n".join(texts)}, *folded]


def _merge_neighbours(messages: Sequence[Message]) -> list[Message]:
    """The messages with neighbours of one role made one; those with tool calls or tool results are not merged."""
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        mergeable = last is not None and last["role"] == message["role"] and message["role"] != "tool"
        if last is None or not mergeable or last.get("tool_calls") or message.get("tool_calls"):
            merged.append(message)
        else:
            merged[-1] = {**last, "content": f"{last['content'] or ''}\n\n{message['content'] or ''}"}
            if thoughts := [part["reasoning_content"] for part in (last, message) if part.get("reasoning_content")]:
                merged[-1]["reasoning_content"] = "\n\n".join(thoughts)
    return merged
