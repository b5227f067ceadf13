"""No action raises, hangs, or leaves something behind that cannot be written down.

The bound on time is kept without a clock: every shape of `hostile_actions` is as long as the limits allow, so a step
that is quadratic in it would not end while anybody waits.
"""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hostile_actions import CALL, OBJECTS, TEXTS
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.action import ParsedAction, parse_action
from factgym.core.calls import CallError, ToolCall
from factgym.core.messages import message_text
from factgym.core.strict_json import DEFAULT_LIMITS

OPTIONS: dict[str, Any] = {
    "tags": {"search": ("search", "query"), "read": ("read", "id")},
    "implicit": {"final_verdict": "submit"},
}


def check(action: object) -> ParsedAction:
    """Parse, and hold the result to what every result promises."""
    parsed = parse_action(action, **OPTIONS)
    text = message_text(parsed.message)
    assert parsed.items
    assert len(parsed.items) <= DEFAULT_LIMITS.max_calls + 1
    assert parsed.message["role"] == "assistant"
    assert len(text) <= DEFAULT_LIMITS.max_chars + 2_000 * len(parsed.items)
    assert len(parsed.text) <= DEFAULT_LIMITS.max_chars
    for item in parsed.items:
        if isinstance(item, CallError):
            assert 0 < len(item.message) < 500
            assert item.position is None or 0 <= item.position <= len(text)
        else:
            assert type(item.arguments) is dict
            assert 0 <= item.start <= item.end <= len(text)  # empty for a native call without arguments
            assert 0 < len(item.name) <= DEFAULT_LIMITS.max_name_chars
    transcript_calls = parsed.message.get("tool_calls")
    assert not parsed.native or [item.id for item in parsed.items] == [call["id"] for call in transcript_calls or []]
    written = [parsed.message, parsed.text, [_plain(item) for item in parsed.items]]
    assert json.loads(json.dumps(written, ensure_ascii=False, allow_nan=False).encode()) == written
    return parsed


def _plain(item: ToolCall | CallError) -> list[object]:
    if isinstance(item, CallError):
        return [item.code, item.message, item.position, item.id, item.name]
    return [item.name, item.arguments, item.id, item.start, item.end]


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_is_answered(name: str) -> None:
    text = TEXTS[name]
    assert len(text) <= DEFAULT_LIMITS.max_chars
    parsed = check(text)
    assert check(parsed.message).items == parsed.items


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_as_native_arguments_is_answered(name: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": TEXTS[name]}}
    parsed = check({"role": "assistant", "content": None, "tool_calls": [call]})
    assert [item.id for item in parsed.items] == ["c1"]


@pytest.mark.parametrize("name", OBJECTS)
def test_a_hostile_object_is_answered(name: str) -> None:
    check(OBJECTS[name]())


@pytest.mark.parametrize("size", [1_000_000, 5_000_000])
@pytest.mark.parametrize("unit", ["<tool_call>", "{", '{"a":', "\ud800", CALL])
def test_megabytes_are_refused_and_cut(unit: str, size: int) -> None:
    parsed = check(unit * (size // len(unit)))
    assert [_plain(item)[0] for item in parsed.items] == ["too_long"]
    assert len(parsed.message["content"] or "") == 2_000


def test_errors_are_the_same_bytes_for_the_same_action() -> None:
    for text in TEXTS.values():
        assert parse_action(text[:2_000], **OPTIONS) == parse_action(text[:2_000], **OPTIONS)


def test_a_result_pickles_and_copies() -> None:
    parsed = parse_action(CALL + "<tool_call>{", **OPTIONS)
    assert pickle.loads(pickle.dumps(parsed)) == copy.deepcopy(parsed) == parsed


PIECES = st.sampled_from(
    [
        *(
            "<tool_call>",
            "</tool_call>",
            "<think>",
            "</think>",
            "<search>",
            "</search>",
            "```json\n",
            "```",
            "\n",
            " ",
        ),
        *("{", "}", "[", "]", '"', "\\", ":", ",", "'", '{"name": ', '"search"', '"arguments": ', '{"query": "x"}'),
        *('{"final_verdict": 1}', "NaN", "1e999", "9" * 70, "\ud800", "\\ud800", "\0", "é", "😀", "prose", CALL),
    ]
)


@settings(deadline=None, max_examples=300)
@given(st.text() | st.lists(PIECES, max_size=40).map("".join))
def test_any_text_is_answered(text: str) -> None:
    parsed = check(text)
    assert check(parsed.message).items == parsed.items
    for item in parsed.items:
        if isinstance(item, ToolCall):
            (again,) = parse_action((parsed.message["content"] or "")[item.start : item.end], **OPTIONS).items
            assert isinstance(again, ToolCall)
            assert (again.name, again.arguments) == (item.name, item.arguments)


VALID = json.dumps({"name": "submit", "arguments": {"claims": [{"id": "E1", "quote": "a \\ b \n"}], "k": -1.5e3}})


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_mutated_call_is_answered(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([VALID, f"<tool_call>{VALID}</tool_call>", f"So: {VALID}.", f"<think>{VALID}"]))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(start + 10, len(text))))
        text = text[:start] + data.draw(st.just("") | PIECES | st.characters()) + text[end:]
    check(text)


KEYS = st.sampled_from(
    [
        *("role", "content", "tool_calls", "reasoning_content", "id", "type", "function", "name", "tool"),
        *("arguments", "args", "parameters", "text", "final_verdict", "\ud800", 1, None, ("a",)),
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["assistant", "user", "search", "{}", "[]", '{"query": "x"}', CALL, b"x", 10**100, 1j])
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
FUNCTION = st.fixed_dictionaries({}, optional={"name": LEAVES, "arguments": ANYTHING})
ENTRY = st.fixed_dictionaries({}, optional={"id": LEAVES, "type": LEAVES, "function": FUNCTION | ANYTHING}) | ANYTHING
MESSAGE = st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional={
        "content": ANYTHING,
        "tool_calls": st.lists(ENTRY, max_size=5) | ANYTHING,
        "reasoning_content": ANYTHING,
    },
)


@settings(deadline=None, max_examples=300)
@given(ANYTHING | MESSAGE | st.dictionaries(KEYS, ANYTHING, max_size=6))
def test_any_object_is_answered(action: object) -> None:
    parsed = check(action)
    assert check(parsed.message).native == parsed.native
