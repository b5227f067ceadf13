"""Every format of an action and what each mistake is answered with."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hostile_actions import CALL, OBJECTS, TEXTS
from hypothesis import given
from hypothesis import strategies as st

from factgym.core import strict_json
from factgym.core.action import ParsedAction, parse_action
from factgym.core.calls import CallError, ToolCall
from factgym.core.errors import ConfigError
from factgym.core.messages import message_text
from factgym.core.strict_json import DEFAULT_LIMITS, Limits

TAGS = {"search": ("search", "query"), "read": ("read", "id")}
IMPLICIT = {"final_verdict": "submit"}


def parse(action: object, **options: Any) -> ParsedAction:
    return parse_action(action, **{"tags": TAGS, "implicit": IMPLICIT, **options})


def calls(action: object, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    """Name and arguments of each item; fails if one is an error."""
    result = []
    for item in parse(action, **options).items:
        assert isinstance(item, ToolCall), item
        result.append((item.name, item.arguments))
    return result


def error(action: object, **options: Any) -> CallError:
    """The one item, which must be an error."""
    (item,) = parse(action, **options).items
    assert isinstance(item, CallError), item
    return item


def codes(action: object) -> list[str]:
    """The code of each error, the name of each call."""
    return [item.code if isinstance(item, CallError) else item.name for item in parse(action).items]


SEARCH = ("search", {"query": "late fees"})
OBJECT = '{"name": "search", "arguments": {"query": "late fees"}}'
TAGGED = f"<tool_call>\n{OBJECT}\n</tool_call>"

ONE_SEARCH = {
    "tagged": TAGGED,
    "tagged in prose": f"I will look it up.\n{TAGGED}\nDone.",
    "tagged on one line": f"<tool_call>{OBJECT}</tool_call>",
    "tagged, fence inside": f"<tool_call>\n```json\n{OBJECT}\n```\n</tool_call>",
    "closing tag missing": f"<tool_call>\n{OBJECT}",
    "closing tag missing, end token": f"<tool_call>\n{OBJECT}<|im_end|>",
    "after a mention of the tag": f"I write a <tool_call> now: {TAGGED}",
    "after reasoning": f"<think>\nHm. {{ <tool_call> \n</think>\n{TAGGED}",
    "after reasoning that the template opened": f"Perhaps <tool_call>{{}}</tool_call>?\n</think>\n{TAGGED}",
    "after reasoning within reasoning": f"<think>a <think>b</think> {OBJECT} </think>{TAGGED}",
    "tool and args": '<tool_call>{"tool": "search", "args": {"query": "late fees"}}</tool_call>',
    "tool_name and parameters": '<tool_call>{"tool_name": "search", "parameters": {"query": "late fees"}}</tool_call>',
    "function is the name": '<tool_call>{"function": "search", "parameters": {"query": "late fees"}}</tool_call>',
    "function is an object": f'<tool_call>{{"type": "function", "function": {OBJECT}}}</tool_call>',
    "arguments as text": '<tool_call>{"name": "search", "arguments": "{\\"query\\": \\"late fees\\"}"}</tool_call>',
    "space around the name": '<tool_call>{"name": " search ", "arguments": {"query": "late fees"}}</tool_call>',
    "more keys": '<tool_call>{"thought": "hm", "name": "search", "arguments": {"query": "late fees"}}</tool_call>',
    "bare": OBJECT,
    "bare with space": f"\n {OBJECT} \n",
    "bare, end token": f"{OBJECT}<|im_end|>",
    "bare in prose": f"I call {OBJECT} now.",
    "bare after LaTeX": f"With $\\frac{{a}}{{b}}$ and {{x, y: {OBJECT}",
    "bare after another object": f'Seen: {{"id": "E1", "name": "Fees"}}. So: {OBJECT}',
    "bare in a list": f"[{OBJECT}]",
    "bare after reasoning": f"<think>{{}}</think>{OBJECT}",
    "the last of two": f'First {{"name": "list", "arguments": {{}}}}, no: {OBJECT}',
    "fenced": f"Here:\n```json\n{OBJECT}\n```\nDone.",
    "fenced without a language": f"```\n{OBJECT}\n```",
    "fenced before a quoted one": f'```json\n{OBJECT}\n```\nIt says {{"tool": "submit", "arguments": {{}}}}.',
    "a tag": "<search>late fees</search>",
    "a tag in prose": "Let me see. <search> late fees\n</search> Then I read.",
    "a tag, closing tag missing": "Let me see. <search>late fees",
    "dict": {"tool": "search", "arguments": {"query": "late fees"}},
    "dict with name and args": {"name": "search", "args": {"query": "late fees"}},
    "dict with parameters as text": {"tool": "search", "parameters": '{"query": "late fees"}'},
    "dict of a native call": {
        "id": "c1",
        "type": "function",
        "function": {"name": "search", "arguments": '{"query": "late fees"}'},
    },
    "message": {"role": "assistant", "content": TAGGED},
    "message without a role": {"content": TAGGED},
    "message with empty tool_calls": {"role": "assistant", "content": TAGGED, "tool_calls": []},
    "message in parts": {
        "role": "assistant",
        "content": [{"type": "text", "text": TAGGED[:30]}, {"type": "text", "text": TAGGED[30:]}],
    },
    "message with other parts": {"role": "assistant", "content": [{"type": "image_url"}, TAGGED]},
}


@pytest.mark.parametrize("name", ONE_SEARCH)
def test_every_format_gives_the_same_call(name: str) -> None:
    assert calls(ONE_SEARCH[name]) == [SEARCH]


@pytest.mark.parametrize("name", [name for name, action in ONE_SEARCH.items() if isinstance(action, str)])
def test_a_call_holds_its_range_in_the_message(name: str) -> None:
    parsed = parse(ONE_SEARCH[name])
    (item,) = parsed.items
    assert isinstance(item, ToolCall)
    text = message_text(parsed.message)
    assert text == ONE_SEARCH[name]
    assert calls(text[item.start : item.end]) == [SEARCH]
    assert "late fees" in text[item.start : item.end]


def test_tagged_calls_agree_with_the_usual_regular_expression() -> None:
    text = f"a {TAGGED} b <tool_call>{{'name': 'x'}}</tool_call>".replace("'", '"') + TAGGED
    usual = [json.loads(body) for body in re.findall(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL)]
    assert calls(text) == [(call["name"], call.get("arguments", {})) for call in usual]


def test_several_calls_keep_their_order() -> None:
    text = f"<read>E1</read> {TAGGED} <search>x</search><tool_call>{{]</tool_call><read>E2</read>"
    assert codes(text) == ["read", "search", "search", "invalid_json", "read"]


def test_an_unclosed_call_ends_where_the_next_begins() -> None:
    assert calls(f"<tool_call>{OBJECT}\n{TAGGED}") == [SEARCH, SEARCH]


def test_arguments_may_be_left_out() -> None:
    for action in (
        '<tool_call>{"name": "list"}</tool_call>',
        '{"tool": "list"}',
        {"tool": "list"},
        {"tool": "list", "arguments": None},
        {"tool": "list", "arguments": " "},
    ):
        assert calls(action) == [("list", {})]


def test_an_implicit_object_is_the_arguments() -> None:
    verdict = {"final_verdict": "supported", "claims": []}
    for action in (
        json.dumps(verdict),
        f"My verdict:\n```json\n{json.dumps(verdict)}\n```",
        f"<tool_call>{json.dumps(verdict)}</tool_call>",
        verdict,
    ):
        assert calls(action) == [("submit", verdict)]
    assert error(json.dumps(verdict), implicit={}).code == "bad_shape"


def test_free_text_excludes_calls_and_reasoning() -> None:
    assert parse(f"<think>no</think> Before {TAGGED} after <search>x</search>!").text == "Before  after !"
    assert parse(f"say {OBJECT} now").text == "say  now"
    assert parse("just talk").text == "just talk"
    assert parse(OBJECT).text == ""


def test_the_transcript_keeps_a_completion_as_it_was() -> None:
    text = f" <think>a</think>\n{TAGGED}\n"
    parsed = parse(text)
    assert parsed.message == {"role": "assistant", "content": text}
    assert not parsed.native


def test_the_transcript_of_a_dict_is_a_tagged_call_that_reads_the_same() -> None:
    arguments = {"quote": 'Ends with </tool_call> and <think>, "é" \n', "n": [1, 0.5, None, True]}
    parsed = parse({"tool": "submit", "arguments": arguments})
    content = parsed.message["content"]
    assert content == "<tool_call>\n" + json.dumps({"name": "submit", "arguments": arguments}, ensure_ascii=False) + (
        "\n</tool_call>"
    )
    assert parse(content).items == parsed.items
    assert parsed.items == (ToolCall("submit", arguments, None, 0, len(content)),)


def test_a_dict_is_copied() -> None:
    arguments = {"claims": [{"id": "E1"}]}
    (item,) = parse({"tool": "submit", "arguments": arguments}).items
    assert isinstance(item, ToolCall)
    arguments["claims"][0]["id"] = "E2"
    assert item.arguments == {"claims": [{"id": "E1"}]}


# --- what is never a call


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{TAGGED}</think>",
        f"<think>{TAGGED}",
        f"{TAGGED}</think>",
        f"<think>{OBJECT}",
        "<think><search>x</search></think>",
        "<search>x</search></think>",
        f"<think></think>{TAGGED}</think>",
    ],
)
def test_reasoning_never_yields_a_call(text: str) -> None:
    assert error(text).code == "only_reasoning"


def test_calls_before_unclosed_reasoning_count() -> None:
    assert calls(f"{TAGGED}<think>{TAGGED}") == [SEARCH]


@pytest.mark.parametrize("inner", [TAGGED, "<search>x</search>", "<think>", "</think>", "</tool_call>", OBJECT])
def test_tags_in_a_string_of_a_call_are_text(inner: str) -> None:
    verdict = {"final_verdict": "supported", "quote": inner}
    written = json.dumps({"name": "submit", "arguments": verdict})
    for text in (
        f"<tool_call>{written}</tool_call>",
        written,
        f"So:\n```json\n{written}\n```",
        f"I say {json.dumps(verdict)}!",
        f"I say {written}!",
    ):
        assert calls(text) == [("submit", verdict)]


def test_a_call_copied_into_a_broken_string_does_not_run() -> None:
    copied = '<tool_call>{"name": "submit", "arguments": {}}</tool_call>'
    text = f'<tool_call>{{"name": "search", "arguments": {{"query": "{copied}"}}}}</tool_call>'
    assert codes(text) == ["invalid_json"]
    bare = '{"name": "search", "arguments": {"query": "{"name": "submit", "arguments": {}}"}}'
    assert codes(bare) == ["invalid_json"]
    assert codes(f"So: {bare} (done)") == ["invalid_json"]
    quoting = '{"final_verdict": "supported", "quote": "<search>x</search>",}'
    assert codes(quoting) == codes(f"So: {quoting}") == ["invalid_json"]


# --- what is wrong, and where


def test_messages_without_a_call() -> None:
    assert error("").code == error(" \n").code == "empty"
    assert error({"role": "assistant", "content": None}).code == "empty"
    assert error("The claim is supported.").code == "no_tool_call"
    assert error({"role": "assistant", "content": "", "reasoning_content": "hm"}).code == "only_reasoning"
    for text in ("", "The claim is supported.", "<think>hm"):  # the environment adds an example of a call that is open
        assert not re.search(r"[<{…]|\.\.\.", error(text).message)


@pytest.mark.parametrize("head", ["", "Prose, 'quoted'. ", "<tool_call>", "x <tool_call> \n", "```json\n"])
@pytest.mark.parametrize(
    ("code", "broken", "fault"),
    [
        ("invalid_json", '{"name": "search", "arguments": {"query": "x",}}', "}}"),
        ("invalid_json", '{"name": "search", "arguments": {"query": "x"}', ""),
        ("invalid_json", '{"name": "search", "arguments": {"query": "x', '"x'),
        ("invalid_json", "{'name': 'search', 'arguments': {}}", "'name"),
        ("duplicate_key", '{"name": "search", "name": "submit", "arguments": {}}', '"name": "submit'),
        ("not_a_number", '{"name": "search", "arguments": {"k": NaN}}', "NaN"),
        ("not_a_number", '{"name": "search", "arguments": {"k": 1e999}}', "1e999"),
        ("number_too_long", '{"name": "search", "arguments": {"k": ' + "1" * 10_000 + "}}", "1" * 10_000),
        ("too_deep", '{"name": "search", "arguments": ' + '{"a":' * 50 + "1" + "}" * 51, '{"a":' * 19 + "1"),
    ],
)
def test_broken_json_is_reported_with_its_position(head: str, code: str, broken: str, fault: str) -> None:
    result = error(head + broken)
    assert result.code == code
    assert (head + broken)[result.position :].startswith(fault)
    assert f"(character {(result.position or 0) - len(head)})" in result.message
    assert len(result.message) < 500


def test_text_behind_the_json_of_a_call_is_an_error() -> None:
    text = f"<tool_call>{OBJECT}}}</tool_call>"
    result = error(text)
    assert (result.code, result.position) == ("invalid_json", text.index("}</tool_call>"))
    assert "expected nothing after the JSON object" in result.message


@pytest.mark.parametrize(
    ("code", "phrase", "action"),
    [
        ("invalid_json", "must be followed by a JSON object", "<tool_call>search late fees</tool_call>"),
        ("invalid_json", "must be followed by a JSON object", "<tool_call></tool_call>"),
        ("invalid_json", "the end of the message", "I see. <tool_call>"),
        ("bad_shape", "names no tool: it is an empty object", "{}"),
        ("bad_shape", "the keys 'query', 'k'", '{"query": "x", "k": 3}'),
        ("bad_shape", "'query' is outside of it", '{"name": "search", "query": "x"}'),
        ("bad_shape", "'final_verdict' is outside of it", {"tool": "submit", "final_verdict": "supported"}),
        ("bad_shape", "must be a JSON object, not an array", '{"name": "search", "arguments": ["x"]}'),
        ("bad_shape", "must be a JSON object, not a number", '{"name": "search", "arguments": 3}'),
        ("bad_shape", "must be a JSON object, not a string", '{"name": "search", "arguments": "\\"x\\""}'),
        ("invalid_json", "arguments of search are not valid JSON", '{"name": "search", "arguments": "query=x"}'),
        ("bad_name", "must be a string, not null", '{"name": null, "arguments": {}}'),
        ("bad_name", "must be a string, not an array", {"tool": ["search"], "arguments": {}}),
        ("bad_name", "1000000 characters, 64 are allowed", {"tool": "x" * 1_000_000, "arguments": {}}),
        ("bad_name", "must be one or more letters", {"tool": "", "arguments": {}}),
        ("bad_name", "'search the web'", {"tool": "search the web", "arguments": {}}),
        ("bad_name", "'sea\\nrch'", {"tool": "sea\nrch", "arguments": {}}),
        ("bad_shape", "The tag search is empty", "<search> </search>"),
        ("unsupported_action", "not NoneType", None),
        ("unsupported_action", "not bytes", b"x"),
        ("unsupported_action", "not list", [TAGGED]),
        ("unsupported_action", 'has the role "assistant"', {"role": "user", "content": TAGGED}),
        ("bad_shape", "keys must be strings", {1: 2}),
        ("bad_shape", "at 'arguments': a key of type int", {"tool": "a", "arguments": {1: 2}}),
        ("bad_shape", "at 'arguments.x': a value of type set", {"tool": "a", "arguments": {"x": set()}}),
        ("not_a_number", "at 'arguments.x': nan", {"tool": "a", "arguments": {"x": float("nan")}}),
        ("too_long", "more than 200000", {"tool": "a", "arguments": {"x": "y" * 200_000}}),
        ("bad_shape", "tool_calls must be a list, not an object", {"role": "assistant", "tool_calls": {}}),
        ("bad_shape", "a string or a list of parts, not a number", {"role": "assistant", "content": 3}),
    ],
)
def test_a_mistake_is_named(code: str, phrase: str, action: object) -> None:
    result = error(action, limits=Limits(max_chars=2_000_000) if code == "bad_name" else Limits())
    assert result.code == code
    assert phrase in result.message


def test_one_character_too_many_is_refused_and_the_transcript_keeps_the_beginning() -> None:
    limits = Limits(max_chars=5_000)
    assert error("a" * 5_000, limits=limits).code == "no_tool_call"
    for action in ("a" * 5_001, {"role": "assistant", "content": "a" * 5_001}, {"content": ["a" * 3_000] * 2}):
        parsed = parse(action, limits=limits)
        assert [item.code for item in parsed.items if isinstance(item, CallError)] == ["too_long"]
        assert parsed.message == {"role": "assistant", "content": "a" * 2_000}
        assert parsed.text == ""


def test_calls_above_the_limit_are_dropped_with_an_error() -> None:
    result = codes(TAGGED * 16), codes(TAGGED * 17), codes(TAGGED * 40)
    assert result == (["search"] * 16, ["search"] * 16 + ["too_many_calls"], ["search"] * 16 + ["too_many_calls"])
    assert codes(TAGGED * 40 + "</think>" + TAGGED) == ["search"]


def test_a_tag_must_be_a_name() -> None:
    for tag in ("a b", "", "think", "tool_call", "x>"):
        with pytest.raises(ConfigError, match="cannot be a tag"):
            parse_action("x", tags={tag: ("search", "query")})


def test_without_tags_they_are_text() -> None:
    assert error("<search>x</search>", tags={}).code == "no_tool_call"


def test_lone_surrogates_are_replaced_in_place() -> None:
    call = '<tool_call>{"name": "search", "arguments": {"query": "\udfff \\ud800"}}</tool_call>'
    parsed = parse(f"a\ud800 {call}")
    assert parsed.items == (ToolCall("search", {"query": "\ufffd \ufffd"}, None, 3, 3 + len(call)),)
    assert (parsed.message["content"] or "").startswith("a\ufffd <tool_call>")


# --- native calls


def native(*entries: object, **more: object) -> dict[str, object]:
    return {"role": "assistant", "content": None, "tool_calls": list(entries), **more}


def entry(arguments: object = '{"query": "late fees"}', name: object = "search", **more: object) -> dict[str, object]:
    return {"id": "call_a", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def test_native_calls_keep_ids_and_positions() -> None:
    parsed = parse(native(entry(), entry({"id": "E1"}, "read", id="b"), content="Well.", reasoning_content="hm"))
    first, second = parsed.items
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    text = message_text(parsed.message)
    assert (first.name, first.arguments, first.id) == (*SEARCH, "call_a")
    assert text[first.start : first.end] == '{"query": "late fees"}'
    assert (second.name, second.arguments, second.id) == ("read", {"id": "E1"}, "b")
    assert text[second.start : second.end] == '{"id": "E1"}'
    assert parsed.native
    assert parsed.text == "Well."
    assert parsed.message.get("reasoning_content") == "hm"
    assert parsed.message.get("tool_calls") == [entry(), entry('{"id": "E1"}', "read", id="b")]


def test_a_well_formed_native_message_is_kept_as_it_is() -> None:
    message = native(entry(), content="<think>a</think>b")
    parsed = parse(message)
    assert parsed.message == message
    assert parsed.text == "b"
    assert parse(parsed.message) == parsed


def test_native_calls_leave_tags_in_the_content_alone() -> None:
    assert calls(native(entry(), content=TAGGED)) == [SEARCH]


@pytest.mark.parametrize("arguments", [None, "", " ", "{}", {}])
def test_native_arguments_may_be_left_out(arguments: object) -> None:
    assert calls(native(entry(arguments))) == [("search", {})]


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        ("invalid_json", entry('{"query": "x",}')),
        ("duplicate_key", entry('{"query": "x", "query": "y"}')),
        ("not_a_number", entry('{"k": Infinity}')),
        ("number_too_long", entry('{"k": ' + "9" * 10_000 + "}")),
        ("number_too_long", entry({"k": 10**10_000})),
        ("too_deep", entry("[" * 100_000)),
        ("too_long", entry("x" * 200_001)),
        ("bad_shape", entry("[]")),
        ("bad_shape", entry(3)),
        ("bad_shape", entry({"k": {1}})),
        ("bad_name", entry(name=None)),
        ("bad_name", entry(name="")),
        ("bad_name", entry(name="x" * 1_000_000)),
        ("bad_name", {"id": "call_a"}),
    ],
)
def test_a_broken_native_call_is_answered_by_its_id(code: str, broken: dict[str, object]) -> None:
    parsed = parse(native(entry(id="first"), broken, entry(id="last")))
    first, middle, last = parsed.items
    assert isinstance(middle, CallError)
    assert (middle.code, middle.id) == (code, "call_a")
    assert isinstance(first, ToolCall)
    assert isinstance(last, ToolCall)
    transcript_calls = parsed.message.get("tool_calls") or []
    assert [call["id"] for call in transcript_calls] == [item.id for item in parsed.items]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call["function"]["name"]) for call in transcript_calls)
    if middle.position is not None:
        assert 0 <= middle.position <= len(message_text(parsed.message))


def test_the_position_of_a_native_error_is_in_the_message_text() -> None:
    parsed = parse(native(entry(id="a"), entry('{"query": oops}', id="b"), content="Hm."))
    item = parsed.items[1]
    assert isinstance(item, CallError)
    assert message_text(parsed.message)[item.position :] == "oops}"
    assert item.name == "search"


@pytest.mark.parametrize("given", [None, "", 3, "x" * 257, "same"])
def test_ids_are_made_unique(given: object) -> None:
    parsed = parse(native(entry(id="same"), entry(id=given), entry(id="call_1"), None))
    ids = [item.id for item in parsed.items]
    assert ids == [call["id"] for call in parsed.message.get("tool_calls") or []]
    assert len(set(ids)) == 4
    assert ids[:2] == ["same", "call_1"]


def test_a_missing_id_follows_from_the_index() -> None:
    assert [item.id for item in parse(native(entry(id=None), entry(id=None))).items] == ["call_0", "call_1"]


def test_native_calls_above_the_limit_are_answered_once() -> None:
    parsed = parse(native(*(entry(id=f"c{i}") for i in range(40))))
    assert [item.id for item in parsed.items] == [f"c{i}" for i in range(17)]
    assert codes(parsed.message) == ["search"] * 16 + ["too_many_calls"]
    assert len(parsed.message.get("tool_calls") or []) == 17


# No action raises, hangs, or leaves something behind that cannot be written down

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
        *("<tool_call>", "</tool_call>", "<think>", "</think>", "<search>", "</search>", "```json\n", "```", "\n", " "),
        *("{", "}", "[", "]", '"', "\\", ":", ",", "'", '{"name": ', '"search"', '"arguments": ', '{"query": "x"}'),
        *('{"final_verdict": 1}', "NaN", "1e999", "9" * 70, "\ud800", "\\ud800", "\0", "é", "😀", "prose", CALL),
    ]
)


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
    optional={"content": ANYTHING, "tool_calls": st.lists(ENTRY, max_size=5) | ANYTHING, "reasoning_content": ANYTHING},
)


@given(ANYTHING | MESSAGE | st.dictionaries(KEYS, ANYTHING, max_size=6))
def test_any_object_is_answered(action: object) -> None:
    parsed = check(action)
    assert check(parsed.message).native == parsed.native


class _Counted:
    """A pattern that counts the tokens it yields."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern, self.tokens = pattern, 0

    def finditer(self, *args: Any) -> Iterator[re.Match[str]]:
        for match in self.pattern.finditer(*args):
            self.tokens += 1
            yield match


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_is_scanned_about_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work as a number of tokens of JSON, not of seconds: at most one for each character, whatever the text repeats."""
    patterns = [_Counted(strict_json._BRACKETS), _Counted(strict_json._TOKENS)]
    monkeypatch.setattr(strict_json, "_BRACKETS", patterns[0])
    monkeypatch.setattr(strict_json, "_TOKENS", patterns[1])
    parse_action(TEXTS[name])
    assert sum(pattern.tokens for pattern in patterns) <= 1.1 * len(TEXTS[name]) + 1_000
