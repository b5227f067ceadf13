"""Strict JSON. The oracle is the standard library's writer, and the grammar and examples of RFC 8259."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core import strict_json
from factgym.core.errors import ConfigError
from factgym.core.strict_json import Limits, Reader, StrictJsonError, clean_text, loads, plain_json

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**60), 10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_reads_what_the_standard_library_writes(value: object, ascii_only: bool, indent: int | str | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert loads(f" \t\r\n{text}\n") == value


@given(JSON)
def test_plain_data_is_copied_as_it_is(value: object) -> None:
    assert plain_json(value) == value


# RFC 8259, section 13.
RFC_EXAMPLES = [
    '{"Image": {"Width": 800, "Height": 600, "Title": "View from 15th Floor", "Thumbnail": {"Url": '
    '"http://www.example.com/image/481989943", "Height": 125, "Width": 100}, "Animated": false, "IDs": [116, 943, '
    "234, 38793]}}",
    '[{"precision": "zip", "Latitude": 37.7668, "Longitude": -122.3959, "State": "CA"}, {"precision": "zip", '
    '"Latitude": 37.371991, "Longitude": -122.026020, "Zip": "94085"}]',
    '"Hello world!"',
    "42",
    "true",
]


@pytest.mark.parametrize("text", RFC_EXAMPLES)
def test_reads_the_examples_of_the_rfc(text: str) -> None:
    assert loads(text) == json.loads(text)


# One or more for each production of the RFC's grammar: code, position of the fault, text.
REFUSED = [
    ("invalid_json", 0, ""),
    ("invalid_json", 2, "  "),
    ("invalid_json", 0, "\ufeff{}"),
    ("invalid_json", 0, "\u00a0{}"),
    ("invalid_json", 0, "\f1"),
    ("invalid_json", 0, "tru"),
    ("invalid_json", 0, "True"),
    ("invalid_json", 0, "None"),
    ("invalid_json", 0, "nan"),
    ("invalid_json", 0, "undefined"),
    ("invalid_json", 0, "'a'"),
    ("invalid_json", 0, '"a'),
    ("invalid_json", 1, '"\\x"'),
    ("invalid_json", 2, '"\\u12"'),
    ("invalid_json", 2, '"\\u12_4"'),
    ("invalid_json", 0, "+1"),
    ("invalid_json", 0, ".5"),
    ("invalid_json", 1, "1."),
    ("invalid_json", 1, "01"),
    ("invalid_json", 2, "-01"),
    ("invalid_json", 1, "1e"),
    ("invalid_json", 1, "1e+"),
    ("invalid_json", 1, "0x1F"),
    ("invalid_json", 1, "1_000"),
    ("invalid_json", 0, "-"),
    ("invalid_json", 0, "１"),
    ("invalid_json", 1, "["),
    ("invalid_json", 2, "[1"),
    ("invalid_json", 3, "[1,]"),
    ("invalid_json", 3, "[1,"),
    ("invalid_json", 1, "[,1]"),
    ("invalid_json", 3, "[1 2]"),
    ("invalid_json", 2, "[1}"),
    ("invalid_json", 1, "{"),
    ("invalid_json", 1, "{a: 1}"),
    ("invalid_json", 1, "{'a': 1}"),
    ("invalid_json", 1, "{1: 1}"),
    ("invalid_json", 5, '{"a" 1}'),
    ("invalid_json", 5, '{"a":}'),
    ("invalid_json", 8, '{"a":1, }'),
    ("invalid_json", 8, '{"a":1, // why\n"b":2}'),
    ("invalid_json", 3, "[1]]"),
    ("invalid_json", 3, "{} {}"),
    ("not_a_number", 1, "[NaN]"),
    ("not_a_number", 6, '{"a": -Infinity}'),
    ("not_a_number", 10, '["NaN",1,\nInfinity]'),
    ("not_a_number", 4, "[1, 1e400]"),
    ("duplicate_key", 8, '{"a": 1,"a": 1}'),
    ("duplicate_key", 8, '{"a": 1,"\\u0061": 1}'),
    ("duplicate_key", 25, '[{"a": {"a": 1}, "b": 1, "b": 2}]'),
    ("number_too_long", 1, "[" + "1" * 65 + "]"),
    ("number_too_long", 9, '["12345",0.' + "1" * 65 + "]"),
    ("too_deep", 32, "[" * 33 + "]" * 33),
    ("too_deep", 32, "[" * 100_000),
    ("too_long", None, " " * 200_001),
]


@pytest.mark.parametrize(("code", "position", "text"), REFUSED)
def test_refuses_with_code_and_position(code: str, position: int | None, text: str) -> None:
    with pytest.raises(StrictJsonError) as caught:
        loads(text)
    assert (caught.value.code, caught.value.position) == (code, position)
    assert len(caught.value.message) < 400


def test_the_message_holds_line_column_expectation_and_excerpt() -> None:
    with pytest.raises(StrictJsonError) as caught:
        loads('{\n "verdict": "supported",\n "quote": \'yes\'\n}')
    assert caught.value.message == (
        'expected a JSON value, found "\'"; JSON strings and keys take double quotes, at line 3, column 11 '
        "(character 37), near ' \"supported\",\\n \"quote\": \\'yes\\'\\n}'"
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('{"a": 1,}', "remove the trailing comma before '}'"),
        ("[1, ]", "remove the trailing comma before ']'"),
        ('{"a": True}', "write true in lower case"),
        ('{"a": None}', "write null"),
        ('{"a": [1, 2}', "expected ',' or a closing bracket, found '}'"),
        ('{"a": {"b": 1}', "found the end of the text; close every string, bracket and brace"),
        ('{"a": "the ', "this string is never closed"),
        ('{"a": "C:\\dir"}', "write a backslash itself as \\\\"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice in one object"),
    ],
)
def test_message_helps_with_a_common_mistake(text: str, hint: str) -> None:
    with pytest.raises(StrictJsonError) as caught:
        loads(text)
    assert hint in caught.value.message


def test_excerpts_are_escaped() -> None:
    with pytest.raises(StrictJsonError) as caught:
        loads('{"a": \u202e\x1b[31m\u2028}')
    assert caught.value.message.isprintable()


def test_control_characters_may_occur_in_strings() -> None:
    assert loads('{"quote": "line 1\nline 2\tend"}') == {"quote": "line 1\nline 2\tend"}


def test_lone_surrogates_are_replaced_and_pairs_are_not() -> None:
    assert loads('["\\ud83d\\ude00", "\\ud83d", "\\uDE00x", "\ud800", "\\\\ud800"]') == [
        "😀",
        "\ufffd",
        "\ufffdx",
        "\ufffd",
        "\\ud800",
    ]


def test_keys_that_become_the_same_are_refused() -> None:
    with pytest.raises(StrictJsonError) as caught:
        loads('{"\\ud800": 1, "\\ud801": 2}')
    assert caught.value.code == "duplicate_key"


def test_limits_are_met_exactly() -> None:
    limits = Limits(max_chars=20, max_depth=2, max_number_chars=3)
    assert loads("[[-12]]", limits) == [[-12]]
    for code, text in [("too_deep", "[[[1]]]"), ("number_too_long", "-123"), ("too_long", " " * 21)]:
        with pytest.raises(StrictJsonError) as caught:
            loads(text, limits)
        assert caught.value.code == code


def test_brackets_in_strings_do_not_nest() -> None:
    text = json.dumps({"quote": "[" * 500 + '\\"{'})
    assert loads(text) == json.loads(text)
    assert loads("[" + ",".join(["[]"] * 500) + "]") == [[]] * 500


@pytest.mark.parametrize(("name", "value"), [("max_depth", 201), ("max_number_chars", 641), ("max_chars", 0)])
def test_limits_out_of_range_are_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"Limits: {name} should be "):
        Limits(**{name: value})


def test_a_reader_counts_from_where_the_value_begins() -> None:
    text = 'say\n {"a": 1,\n  oops} end'
    with pytest.raises(StrictJsonError, match="line 2, column 3") as caught:
        Reader(text).read(5)
    assert text[caught.value.position or 0 :].startswith("oops")
    assert Reader("x [1] y").read(2) == ([1], 5)


@pytest.mark.parametrize(
    ("text", "end"), [("{}x", 2), ('{"}"}x', 5), ('{"\\"}"}', 7), ("{[}]", 4), ("{", None), ('{"}', None)]
)
def test_a_span_ends_where_brackets_are_balanced(text: str, end: int | None) -> None:
    assert Reader(text).span(0, len(text)) == end


@given(st.text(st.sampled_from('{}[]",:\\u0019eE+-.dD8aA tfn\n\ud800')))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = loads(text)
    except StrictJsonError as error:
        assert len(error.message) < 400
        assert error.position is None or 0 <= error.position <= len(text)
    else:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        assert value == json.loads(clean_text(text), strict=False) or "\\ud" in text.lower()


class Text(str):
    __slots__ = ()


def test_subclasses_become_their_base_type() -> None:
    class Count(int):
        pass

    class Share(float):
        pass

    copy = plain_json({Text("a"): Text("b"), "n": (Count(3), Share(0.5))})
    assert copy == {"a": "b", "n": [3, 0.5]}
    assert [type(x) for x in (*copy, copy["a"], copy["n"], *copy["n"])] == [str, str, str, list, int, float]


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        ({"claims": [{"quote": {1}}]}, "bad_shape", "claims[0].quote"),
        ({"claims": [{2: 1}]}, "bad_shape", "claims[0]"),
        ({"score": math.nan}, "not_a_number", "score"),
        ({"score": [1.0, -math.inf]}, "not_a_number", "score[1]"),
        ({"n": 10**64}, "number_too_long", "n"),
        ({"n": -(10**63)}, "number_too_long", "n"),
        ({"b": b"x"}, "bad_shape", "b"),
    ],
)
def test_a_refused_value_is_named_by_its_path(value: object, code: str, path: str) -> None:
    with pytest.raises(StrictJsonError) as caught:
        plain_json(value)
    assert caught.value.code == code
    assert f"'{path}'" in caught.value.message


def test_the_longest_number_is_taken() -> None:
    assert plain_json([10**63, -(10**62)]) == [10**63, -(10**62)]


@given(st.text(alphabet='{}[]":,a1\\ \n', max_size=40))
def test_an_object_of_one_level_ends_where_its_brackets_close(text: str) -> None:
    for start in range(len(text)):
        if match := strict_json._FLAT.match(text, start):
            assert match.end() == Reader(text).closing(start, max_depth=1)
