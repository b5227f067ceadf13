"""One turn of a policy between a trainer's token ids and our messages, there and back.

There: what a framework parsed becomes the message that the environment plays; where calls were parsed their arguments are the
characters that the policy wrote. Back: a range of characters of that message becomes the tokens that hold it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from factgym.core.action import encode_json
from factgym.core.messages import FunctionCall, Message, message_text

_OPENED, _CLOSED = "<think>", "</think>"
_REASONING = ("thinking", "reasoning_content")
_KEYS = ('"arguments":', '"parameters":')
_SCAN: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # what raw_decode calls, and typeshed leaves out
_HEAD = re.compile(
    r'\s*<tool_call>\s*\{[ \t\n\r]*"name"[ \t\n\r]*:[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*,'
    r'[ \t\n\r]*"arguments"[ \t\n\r]*:[ \t\n\r]*(?=\{)'
)
_TAIL = re.compile(r"[ \t\n\r]*\}\s*</tool_call>\s*\Z")
_TRIES = 64

Offsets = npt.NDArray[np.int64]


@dataclass(slots=True)
class Turn:
    """A message of the policy's and its tokens.

    message: its index in the transcript. first: the place of its first token in the completion. ids: its tokens.
    text: what they say, without special tokens. said: the message that was played.
    """

    message: int
    first: int
    ids: Sequence[int]
    text: str
    said: Message

    @property
    def length(self) -> int:
        """Characters of the message's own text, in which credit is counted."""
        return len(message_text(self.said))

    @property
    def parts(self) -> list[tuple[int, int, int | None]]:
        """Of the message's own text, start and length of each part and where it begins in `text`, None for nowhere."""
        return locate(self.said, self.text)

    def holds(self, offsets: Offsets, start: int, end: int) -> npt.NDArray[np.bool_]:
        """(T,) bool: the tokens of characters [start, end) of the message's text, never none of them.

        A token belongs where its middle is. A range over the whole text is the whole turn, with its end token and the
        syntax around a call; so is a range of which nothing is found in the tokens.
        """
        found = np.zeros(len(self.ids), dtype=np.bool_)
        if start > 0 or end < self.length:
            wide, middle = offsets[:, 0] < offsets[:, 1], offsets.sum(axis=1)
            for low, high in self._places(start, end):
                found |= wide & (2 * low <= middle) & (middle < 2 * high)
        return found if found.any() else np.ones(len(self.ids), dtype=np.bool_)

    def _places(self, start: int, end: int) -> list[tuple[int, int]]:
        found = []
        for begin, length, place in self.parts:
            low, high = max(start, begin), min(end, begin + length)
            if low < high and place is not None:
                found.append((place + low - begin, place + high - begin))
        return found


def read_message(parsed: Mapping[str, Any], text: str, number: int) -> Message:
    """The message to play: native calls where the parser found some, else the text as it stands, reasoning included.

    number: of the turn, for the ids of the calls.
    """
    calls = parsed.get("tool_calls")
    if not calls:
        # A template may open the block itself, and then it is no part of what was sampled.
        opened = _CLOSED in text and _OPENED not in text and any(parsed.get(key) for key in _REASONING)
        return {"role": "assistant", "content": f"{_OPENED}{text}" if opened else text}
    cursor = 0
    played: list[Any] = []
    for n, call in enumerate(calls):
        function = call.get("function", call)
        written, cursor = _as_written(text, function["arguments"], cursor)
        named = {"name": function["name"], "arguments": written}
        played.append({"id": f"call_{number}_{n}", "type": "function", "function": named})
    message: Message = {"role": "assistant", "content": parsed.get("content") or None, "tool_calls": played}
    for key in _REASONING:
        if parsed.get(key):
            message["reasoning_content"] = parsed[key]
    return message


def read_hermes(text: str, number: int) -> Message | None:
    """The message of a text that is one call in Hermes' form and nothing else; None for any other text.

    What `read_message` makes of the parsed call, in one pass over the text. number: of the turn, for the call's id.
    """
    head = None if _CLOSED in text else _HEAD.match(text)
    if head is None:
        return None
    begin = head.end()
    try:
        _, end = _SCAN(text, begin)
    except (ValueError, StopIteration, RecursionError):
        return None
    if _TAIL.match(text, end) is None:
        return None
    named: FunctionCall = {"name": head[1], "arguments": text[begin:end]}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{number}_0", "type": "function", "function": named}],
    }


def locate(message: Message, text: str) -> list[tuple[int, int, int | None]]:
    """`Turn.parts` of a message in the text of its tokens."""
    pieces = [message.get("content") or ""]
    pieces += [call["function"]["arguments"] for call in message.get("tool_calls") or []]
    parts: list[tuple[int, int, int | None]] = []
    begin = cursor = 0
    for piece in pieces:
        place: int | None = text.find(piece, cursor) if piece else None
        if place == -1:
            place = -len(_OPENED) if piece == _OPENED + text else None
        if place is not None:
            cursor = max(cursor, place + len(piece))
        parts.append((begin, len(piece), place))
        begin += len(piece) + 1
    return parts


def _as_written(text: str, arguments: Any, cursor: int) -> tuple[str, int]:
    """A call's arguments as they stand in the text, or written anew where the format is not JSON; where to go on."""
    span = _object_in(text, arguments, cursor)
    return (_written(arguments), cursor) if span is None else (text[span[0] : span[1]], span[1])


def _object_in(text: str, wanted: Any, cursor: int) -> tuple[int, int] | None:
    """Where a value stands in the text as JSON, from `cursor` on; first behind the keys that calls are written with."""
    mark = "[" if isinstance(wanted, list) else "{"
    for key in _KEYS:
        place = text.find(key, cursor)
        place = text.find(mark, place + len(key)) if place >= 0 else -1
        if place >= 0 and (end := _ends(text, place, wanted)):
            return place, end
    for _ in range(_TRIES):
        cursor = text.find(mark, cursor)
        if cursor < 0:
            return None
        if end := _ends(text, cursor, wanted):
            return cursor, end
        cursor += 1
    return None


def _ends(text: str, place: int, wanted: Any) -> int | None:
    """Where the JSON value at a place ends, None where it is not the wanted one."""
    try:
        value, end = _SCAN(text, place)
    except (ValueError, StopIteration, RecursionError):
        return None
    return end if value == wanted and value is not None else None


def _written(arguments: Any) -> str:
    try:
        return encode_json(arguments)
    except (TypeError, ValueError):
        return json.dumps(arguments, default=str)


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of token ids without special tokens, not tidied up."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))
