"""The transcript as steps that a reader can follow: prompts, the policy's turns, tool results.

A policy's message is taken apart for reading (reasoning, prose, calls); hidden parts stay available as `raw`. `made_of`
adds how the reply came about: seconds, tokens, finish reason, retries, and the reply as it came where it differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from factgym.benchmarks.costs import SECOND_KINDS, TOKEN_KINDS
from factgym.benchmarks.records import items, members, number, numbers, text_form
from factgym.core.untrusted import neutralise
from factgym.text.folding import find_quote, plain_marks

Step = dict[str, Any]

_THINK = ("<think>", "</think>")
_CALL = ("<tool_call>", "</tool_call>")
_RESPONSE = ("<tool_response>", "</tool_response>")


def steps_of(episode: Mapping[str, Any]) -> list[Step]:
    """Return a step for each message, in order.

    Keys: role, text; and for the policy's messages turn (from 1), reasoning, calls, error, credit (the summed span
    credits, or None), raw (the message as written, empty when `text` is all of it) and made (how the reply came about).
    """
    turns = {turn.get("message"): (i, turn) for i, turn in enumerate(map(members, items(episode.get("turns"))), 1)}
    credit: dict[int, float] = {}
    for span in map(items, items(members(episode.get("reward")).get("spans"))):
        if len(span) == 4 and isinstance(span[0], int) and (value := number(span[3])) is not None:
            credit[span[0]] = credit.get(span[0], 0.0) + value
    steps = []
    for index, message in enumerate(map(members, items(episode.get("messages")))):
        turn_number, turn = turns.get(index, (0, {}))
        if message.get("role") == "assistant" or turn_number:
            step = _policy_step(message, turn_number, turn)
            steps.append({**step, "credit": credit.get(index), "made": made_of(message, turn)})
        else:
            text = text_form(message.get("content"))
            if text.strip().startswith(_RESPONSE[0]):  # Tool results without the tags around them.
                text = _cut_out(text.strip(), _RESPONSE)[0]
            steps.append({"role": text_form(message.get("role")), "text": text})
    return steps


def _policy_step(message: Mapping[str, Any], turn_number: int, turn: Mapping[str, Any]) -> Step:
    content = text_form(message.get("content"))
    reasoning, prose = _cut_out(content, _THINK)
    calls = [
        {"tool": text_form(call.get("tool")), "arguments": call.get("arguments"), "error": text_form(call.get("error"))}
        for call in map(members, items(turn.get("calls")))
    ]
    if calls:
        prose = _cut_out(prose, _CALL)[1].strip()
        if prose.startswith(("{", "```", "<")):  # The whole message was a bare JSON call.
            prose = ""
    native = "\n".join(text_form(members(call).get("function")) for call in items(message.get("tool_calls")))
    raw = "\n".join(part for part in (content, native) if part)
    return {
        "role": "assistant",
        "turn": turn_number,
        "text": prose.strip(),
        "reasoning": "\n\n".join(filter(None, (text_form(message.get("reasoning_content")), reasoning))).strip(),
        "calls": calls,
        "error": text_form(turn.get("error")),
        "raw": raw if raw.strip() != prose.strip() else "",
    }


def _cut_out(text: str, tags: tuple[str, str]) -> tuple[str, str]:
    """Return the text inside the tags, and the text outside; a tag that is never closed runs to the end.

    A closing tag alone ends a reasoning whose opening tag the chat template wrote.
    """
    inside: list[str] = []
    outside: list[str] = []
    # `at` is the end of the text that has been assigned to inside or outside.
    at = 0
    if tags == _THINK and 0 <= text.find(tags[1]) < text.find(tags[0]) % (len(text) + 1):
        at = text.find(tags[1]) + len(tags[1])
        inside.append(text[: at - len(tags[1])].strip())
    while (start := text.find(tags[0], at)) >= 0:
        outside.append(text[at:start])
        end = text.find(tags[1], start)
        inside.append(text[start + len(tags[0]) : end if end >= 0 else len(text)].strip())
        at = end + len(tags[1]) if end >= 0 else len(text)
    outside.append(text[at:])
    return "\n\n".join(inside), "".join(outside)


_MESSAGE_KEYS = ("content", "tool_calls", "reasoning_content")


def made_of(message: Mapping[str, Any], turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the reply that became `message` came about; keys without a value are left out.

    seconds: kind -> seconds. tokens: kind -> tokens. finish and model: as the server reports them. retries: `[cause, seconds
    waited]`. notes: any JSON. sent: how many messages the model received, where it did not receive all. received: the reply
    of the server, empty when it equals the message in the transcript.
    """
    completion = members(turn.get("completion"))
    sent, raw = turn.get("sent"), completion.get("raw")
    if isinstance(raw, Mapping):
        unchanged = all((raw.get(key) or None) == (message.get(key) or None) for key in _MESSAGE_KEYS)
    else:
        unchanged = raw == message.get("content")
    seconds, tokens = numbers(turn.get("seconds")), numbers(completion.get("usage"))
    values = {
        "seconds": {kind: seconds[kind] for kind in SECOND_KINDS if kind in seconds},
        "tokens": {kind: tokens[kind] for kind in TOKEN_KINDS if kind in tokens},
        "finish": text_form(completion.get("finish_reason")),
        "model": text_form(completion.get("model")),
        "retries": [
            [text_form(retry.get("cause")), number(retry.get("waited"))]
            for retry in map(members, items(completion.get("retries")))
        ],
        "notes": members(completion.get("notes")),
        "sent": len(sent) if isinstance(sent, list) else None,
        "received": "" if unchanged else text_form(raw),
    }
    return {name: value for name, value in values.items() if value or value == 0}


Piece = list[str]
"""`[text, marks]`: a part of a text, and a string of one-letter marks, often empty."""
Mark = tuple[int, int, str]


def marked_pieces(text: str, marks: Iterable[Mark]) -> list[Piece]:
    """Cut `text` at the borders of the marked ranges, which may overlap; ranges are cut to the text.

    Pieces instead of offsets: Python counts characters and a browser counts UTF-16 units. A sweep over the borders keeps
    the number of open ranges of each mark.
    """
    # Sweep over the borders in ascending order; `depth` counts the open ranges of each mark.
    opened: dict[int, list[str]] = {}
    closed: dict[int, list[str]] = {}
    for start, end, mark in marks:
        start, end = max(0, start), min(len(text), end)
        if start < end:
            opened.setdefault(start, []).append(mark)
            closed.setdefault(end, []).append(mark)
    depth: dict[str, int] = {}
    parts: list[Piece] = []
    last = 0
    for border in [*sorted({*opened, *closed}), len(text)]:
        if border > last:
            parts.append([text[last:border], "".join(sorted(mark for mark, n in depth.items() if n))])
            last = border
        for mark in closed.get(border, ()):
            depth[mark] -= 1
        for mark in opened.get(border, ()):
            depth[mark] = depth.get(mark, 0) + 1
    return parts


def quote_span(quote: str, text: str) -> tuple[int, int] | None:
    """Return the range of a quote as a reward finds it: a policy reads neutralised passages, and may type other marks."""
    quote, text = neutralise(quote), neutralise(text)
    return find_quote(quote, text) or find_quote(plain_marks(quote), plain_marks(text))
