"""Actions that a broken or hostile policy could emit; the texts are as long as the default limits allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from factgym.core.strict_json import DEFAULT_LIMITS

SIZE = DEFAULT_LIMITS.max_chars
CALL = '<tool_call>{"name": "search", "arguments": {"query": "x"}}</tool_call>'


def fill(unit: str, head: str = "", tail: str = "") -> str:
    """`head`, then as many whole `unit`s as fit, then `tail`."""
    return head + unit * ((SIZE - len(head) - len(tail)) // len(unit)) + tail


TEXTS: dict[str, str] = {
    "open tags": fill("<tool_call>"),
    "close tags": fill("</tool_call>"),
    "open tags with a brace": fill("<tool_call>{"),
    "open tags with an open string": fill('<tool_call>{"'),
    "open tags with an empty object": fill("<tool_call>{}"),
    "open tags with a list": fill("<tool_call>["),
    "spaced open tags": fill("<tool_call>" + " " * 20),
    "empty calls": fill("<tool_call></tool_call>"),
    "calls": fill(CALL),
    "calls without closing tags": fill(CALL.removesuffix("</tool_call>")),
    "calls with rubbish behind": fill('<tool_call>{"name": "a"} x </tool_call>'),
    "one call then spaces": fill(" ", CALL),
    "one open call then spaces": fill(" ", '<tool_call>{"name": "a"}', "x"),
    "fences in a call": fill("```", "<tool_call>"),
    "fences": fill("```json\n"),
    "think open": fill("<think>"),
    "think close": fill("</think>"),
    "think pairs": fill("<think></think>"),
    "think pairs around calls": fill("<think>" + CALL + "</think>"),
    "calls, each ended by think": fill("<tool_call>{}</think>"),
    "broken calls, each ended by think": fill("<tool_call>{</think>"),
    "broken strings, each ended by think": fill('<tool_call>{"</think>'),
    "broken keys, each ended by think": fill('<tool_call>{"":"</think>'),
    "broken brackets, each ended by think": fill("<tool_call>{ [[ ]] </think>"),
    "mentions, each ended by think": fill("<tool_call> x </think>"),
    "search open": fill("<search>"),
    "search open with text": fill("<search>a"),
    "search close": fill("</search>"),
    "search pairs": fill("<search>a</search>"),
    "search empty pairs": fill("<search></search>"),
    "search, each ended by think": fill("<search>a</think>"),
    "mixed tags": fill("<search><tool_call><think></think>"),
    "braces open": fill("{"),
    "braces close": fill("}"),
    "braces paired": fill("{}"),
    "braces in lines": fill("{\n"),
    "braces and spaces": fill("{ " * 50),
    "objects never closed before pairs": fill("{}", '{"x" ' * 4),
    "objects with escaped ends": fill('{"a":"\\"'),
    "brackets open": fill("["),
    "brackets nested": "[" * (SIZE // 2) + "]" * (SIZE // 2),
    "objects nested": '{"a":' * (SIZE // 6) + "1" + "}" * (SIZE // 6),
    "objects nested and open": fill('{"a":'),
    "objects nested in prose": fill('{"a":', "prose "),
    "objects in arrays nested": fill('[{"a":', '{"name": "x", "arguments": '),
    "objects in prose": fill('{"a": 1} '),
    "objects broken in prose": fill('{"a": } '),
    "objects with open strings": fill('{"'),
    "objects with open strings in prose": fill('{"', "prose "),
    "objects nested around numbers": fill("0,", "prose " + '{"a":' * 30 + "["),
    "objects nested around doubled keys": fill('"a":0,', "prose " + '{"b":' * 30 + "{", '"a":0}' + "}" * 30),
    "objects nested around strings": fill('"x",', "prose " + '{"b":' * 30 + "["),
    "objects that hide each other": fill('"{"a":\\', "prose "),
    "objects that hide each other, in calls": fill('"<tool_call>{"a":\\</think>', "<tool_call>{"),
    "objects that hide each other, fenced": fill('[{"\\"```json\n', "'"),
    "objects with odd strings": fill('{"}'),
    "objects with single quotes": fill("{'a': 1} "),
    "calls in prose": fill('{"tool": "a", "arguments": {}} '),
    "quotes": fill('"'),
    "quotes in an object": fill('"', "{"),
    "quotes in a call": fill('"', "<tool_call>{"),
    "escaped quotes": fill('\\"', '{"a": "'),
    "backslashes": fill("\\", '{"a": "'),
    "escapes": fill("\\u0041", '{"name": "a", "arguments": {"q": "', '"}}'),
    "surrogate escapes": fill("\\ud800", '{"name": "a", "arguments": {"q": "', '"}}'),
    "raw surrogates": fill("\ud800", "<tool_call>"),
    "number in an argument": fill("9", '{"name": "a", "arguments": {"n": ', "}}"),
    "number with a fraction": fill("9", '{"name": "a", "arguments": {"n": 1.', "}}"),
    "number with an exponent": fill("9", '{"name": "a", "arguments": {"n": 1e', "}}"),
    "numbers": fill("1,", '{"name": "a", "arguments": {"n": [', "1]}}"),
    "minus signs": fill("-", '{"name": "a", "arguments": {"n": ', "}}"),
    "NaN": fill("NaN,", '{"name": "a", "arguments": {"n": [', "1]}}"),
    "duplicate keys": fill('"a":1,', '{"name": "a", "arguments": {', '"b":1}}'),
    "distinct keys": "{" + ",".join(f'"k{i}":{i}' for i in range(14_000)) + "}",
    "many keys then a duplicate": "{" + ",".join(f'"k{i}":{i}' for i in range(14_000)) + ',"k13999":0}',
    "tool name": fill("a", '{"name": "', '", "arguments": {}}'),
    "arguments as text": fill("[", '{"name": "a", "arguments": "', '"}'),
    "key": fill("a", '{"', '": 1}'),
    "spaces": fill(" "),
    "lines": fill("\n"),
    "spaces then a brace": fill(" ", "", "{"),
    "brace then spaces": fill(" ", "{"),
    "lines in an object": fill("\n", '{"name": "a", ', "x}"),
    "words": fill("word "),
    "astral letters": fill("\U0001d400"),
    "astral letters, broken calls": fill("<tool_call>{</think>", "\U0001d400"),
    "NUL": fill("\0"),
    "angle brackets": fill("<"),
    "end of text tokens": fill("<|im_end|>", CALL),
}


def _itself() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["tool"], loop["arguments"] = "search", loop
    return loop


def _list_of_itself() -> dict[str, Any]:
    loop: list[Any] = []
    loop.append(loop)
    return {"tool": "search", "arguments": {"query": loop}}


def _doubling(levels: int = 31) -> dict[str, Any]:
    value: list[Any] = ["x"]
    for _ in range(levels - 2):
        value = [value, value]
    return {"tool": "search", "arguments": {"query": value}}


def _deep(levels: int = 100_000) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return {"tool": "search", "arguments": {"query": value}}


def _native(arguments: Any, **more: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": arguments}, **more}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class Unfriendly(dict):  # type: ignore[type-arg]
    """A dict whose methods raise."""

    def _fail(self, *_: object) -> Any:
        raise RuntimeError("touched")

    __getitem__ = __iter__ = __contains__ = __len__ = __bool__ = __eq__ = get = items = keys = values = _fail  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class NoClass:
    """An object that lies about its class, and has no truth value."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("touched")

    def __bool__(self) -> bool:
        raise RuntimeError("touched")

    def __repr__(self) -> str:
        raise RuntimeError("touched")


class Key:
    """A key that cannot be compared."""

    def __hash__(self) -> int:
        return hash("role")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("touched")


OBJECTS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "int": lambda: 3,
    "huge int": lambda: 10**100_000,
    "float": lambda: float("nan"),
    "bool": lambda: True,
    "bytes": lambda: b"<tool_call>",
    "list": lambda: [CALL],
    "set": lambda: {1},
    "object": object,
    "type": lambda: dict,
    "no class": NoClass,
    "empty dict": dict,
    "unfriendly dict": lambda: Unfriendly(role="assistant", tool_calls=[]),
    "unfriendly arguments": lambda: {"tool": "a", "arguments": Unfriendly(a=1)},
    "incomparable key": lambda: {Key(): 1},
    "incomparable key in arguments": lambda: {"tool": "a", "arguments": {Key(): 1}},
    "incomparable key in a call": lambda: {"role": "assistant", "tool_calls": [{Key(): 1}]},
    "itself": _itself,
    "list of itself": _list_of_itself,
    "doubling": _doubling,
    "deep": _deep,
    "wide dict": lambda: dict.fromkeys(map(str, range(SIZE + 1))),
    "wide list": lambda: {"tool": "a", "arguments": {"x": [None] * (10 * SIZE)}},
    "wide text": lambda: {"tool": "a", "arguments": {"x": "y" * (10 * SIZE)}},
    "text that escapes lengthen": lambda: {"tool": "a", "arguments": {"x": "\0" * (SIZE - 100)}},
    "native text that escapes lengthen": lambda: _native({"x": "\0" * (SIZE - 100)}),
    "wide name": lambda: {"tool": "y" * 1_000_000, "arguments": {}},
    "surrogate keys that meet": lambda: {"tool": "a", "arguments": {chr(0xD800): 1, chr(0xD801): 2}},
    "name of surrogates": lambda: {"tool": "\ud800", "arguments": {}},
    "NaN": lambda: {"tool": "a", "arguments": {"x": float("nan")}},
    "huge number": lambda: {"tool": "a", "arguments": {"x": 10**100_000}},
    "set in arguments": lambda: {"tool": "a", "arguments": {"x": {1}}},
    "no class in arguments": lambda: {"tool": "a", "arguments": {"x": NoClass()}},
    "wrong role": lambda: {"role": "user", "content": CALL},
    "odd role": lambda: {"role": NoClass(), "content": CALL},
    "odd content": lambda: {"role": "assistant", "content": NoClass()},
    "odd parts": lambda: {"role": "assistant", "content": [None, 1, NoClass(), {"text": NoClass()}, {Key(): 1}]},
    "wide parts": lambda: {"role": "assistant", "content": [{"type": "text", "text": "y" * SIZE}] * 100_000},
    "empty parts": lambda: {"role": "assistant", "content": [{}] * 1_000_000},
    "odd reasoning": lambda: {"role": "assistant", "content": "", "reasoning_content": NoClass()},
    "wide reasoning": lambda: {"role": "assistant", "content": "", "reasoning_content": "\ud800" * (10 * SIZE)},
    "odd calls": lambda: {"role": "assistant", "tool_calls": NoClass()},
    "odd call": lambda: {"role": "assistant", "tool_calls": [NoClass(), None, 1, "x", {}, [], {"function": NoClass()}]},
    "calls that are text": lambda: {"role": "assistant", "tool_calls": "x"},
    "wide calls": lambda: {"role": "assistant", "tool_calls": [{}] * 1_000_000},
    "doubling calls": lambda: {"role": "assistant", "tool_calls": [{"function": _doubling()}] * 100},
    "content too long, calls too": lambda: {**_native("{}"), "content": "y" * (SIZE + 1)},
    "native wide text": lambda: _native("y" * (10 * SIZE)),
    "native deep text": lambda: _native("[" * SIZE),
    "native odd id": lambda: _native("{}", id=NoClass()),
    "native wide id": lambda: _native("{}", id="\ud800" * 1_000_000),
    "native itself": lambda: _native(_itself()),
    "native surrogates": lambda: _native('{"q": "\ud800\\udc00"}'),
    "native number": lambda: _native(10**100_000),
}
