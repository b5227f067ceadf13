"""A turn of one call in Hermes' form is read in one pass, and as the environment's own parser reads it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.action import encode_json, parse_action
from factgym.core.calls import ToolCall
from factgym.integrations.credit import read_hermes, read_message

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(TEXTS, VALUES, max_size=4)
NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
SPACES = st.sampled_from(["", " ", "\n", "\n  "])


def written(name: str, arguments: str, space: str) -> str:
    return f'{space}<tool_call>{space}{{"name":{space}"{name}",{space}"arguments": {arguments}{space}}}{space}</tool_call>'


@given(NAMES, ARGUMENTS, SPACES, st.booleans())
def test_a_call_is_the_one_that_the_environment_would_read(
    name: str, arguments: dict[str, Any], space: str, ascii_only: bool
) -> None:
    wrote = json.dumps(arguments, ensure_ascii=ascii_only)
    text = written(name, wrote, space)
    message = read_hermes(text, 3)
    if "</think>" in text:
        assert message is None
        return
    parsed = {"content": "", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}
    assert message == read_message(parsed, text, 3)
    assert message is not None
    assert message["tool_calls"][0]["function"] == {"name": name, "arguments": wrote}
    (item,) = parse_action(text).items
    assert isinstance(item, ToolCall)
    assert (item.name, item.arguments) == (name, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The claim holds.",
        written("search", '{"query": "a"', ""),
        written("search", '["a"]', ""),
        written("search", '"a"', ""),
        written("search", '{"query": "a"}, "more": {}', ""),
        written("search", '{"query": "a</think>"}', ""),
        written('se\\"arch', '{"query": "a"}', ""),
        written("search", "{}", "") * 2,
        written("search", "{}", "") + " and so on",
        "First. " + written("search", "{}", ""),
        "<think>x</think>" + written("search", "{}", ""),
        written("search", "{}", "").removesuffix("</tool_call>"),
        written("search", '{"a":' * 100_000, ""),
    ],
)
def test_any_other_text_is_left_to_the_parsers(text: str) -> None:
    assert read_hermes(text, 0) is None


@given(VALUES)
def test_json_is_written_as_the_standard_library_writes_it(value: Any) -> None:
    assert encode_json(value) == json.dumps(value, ensure_ascii=False, allow_nan=False)


def test_what_is_no_json_is_refused() -> None:
    itself: list[Any] = []
    itself.append(itself)
    for wrong in (math.nan, [math.inf], itself):
        with pytest.raises(ValueError, match=r"JSON|Circular"):
            encode_json(wrong)
    with pytest.raises(TypeError):
        encode_json({"a": object()})
