"""Parsing of SEVA outputs: JSON in a policy's text, any JSON type in any field, and hostile texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seva_outputs import NEGATIVE, POSITIVE, output, reward_of

from factgym.core.strict_json import Limits
from factgym.rewards.seva.output import output_of, read_output
from factgym.rewards.seva.rubrics import RUBRICS, span_credits
from factgym.rewards.seva.scoring import score_output

TEXT = json.dumps(output())


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}```",
        f"<think>is it so?</think>\nHere it is: {TEXT} I hope that helps.",
        f"   {json.dumps(output(), indent=2)}\n",
        # Fences in the middle of the object, as a model writes that starts a second block.
        TEXT.replace('"label"', '```json\n"label"'),
    ],
)
def test_json_is_read_between_the_first_and_the_last_brace_without_fences(text):
    parsed = read_output(text)
    assert parsed is not None
    assert parsed.data == output()
    assert (parsed.label, parsed.confidence, parsed.error_type) == ("Not Attributable", 0.85, "numerical_exaggeration")
    assert (parsed.fix, len(parsed.alignments), len(parsed.chain)) == ("Change 12 to 8.", 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON at all",
        "{",
        "}",
        "}{",
        "[]",
        '["label"]',
        "{'label': 'yes'}",
        '{"label": yes}',
        '{"label": "yes",}',
        TEXT[:-1],
        TEXT + "}",
        TEXT + TEXT,
        "the set {a, b} and " + TEXT,
        '{"a": "line\nbreak"}',
    ],
)
def test_other_text_is_unparseable(text):
    assert read_output(text) is None


def test_the_last_of_equal_keys_counts_and_non_finite_numbers_are_null():
    assert read_output('{"label": "yes", "label": "no"}').label == "Not Attributable"
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        parsed = read_output(f'{{"confidence": {number}, "label": "no"}}')
        assert parsed.confidence == 0.5
        json.dumps(parsed.data, allow_nan=False)


def test_lone_surrogates_become_replacement_characters():
    for text in ('{"label": "\\ud800"}', '{"label": "\ud800"}', '{"\\udfff": 1}'):
        json.dumps(read_output(text).data, ensure_ascii=False).encode()
    assert read_output('{"label": "\\ud83d\\ude00"}').data == {"label": "\U0001f600"}


NASTY = {
    "a megabyte": '{"label": "' + "a" * 1_000_000 + '"}',
    "a megabyte of braces": "{" * 1_000_000,
    "deep lists": '{"evidence_alignment": ' + "[" * 90_000 + "]" * 90_000 + "}",
    "deep objects": '{"a":' * 30_000 + "1" + "}" * 30_000,
    "unclosed": "{" * 90_000 + "}",
    "digits": '{"confidence": ' + "9" * 150_000 + "}",
    "fences": "```json" * 25_000 + "{}",
    "fences and spaces": "{" + ("```" + " " * 50) * 3_000 + "}",
    "backslashes": '{"a": "' + "\\" * 150_001 + '"}',
    "many keys": "{" + ",".join(f'"k{i}": {i}' for i in range(15_000)) + "}",
    "many entries": '{"evidence_alignment": [' + "{}," * 60_000 + "{}]}",
    "many steps": '{"reasoning_chain": [' + ",".join(['{"claim_part": "the claim"}'] * 6_000) + "]}",
    "one long span": '{"evidence_alignment": [{"claim_span": "' + "the claim " * 15_000 + '"}]}',
}


@pytest.mark.parametrize("name", NASTY)
def test_hostile_texts_are_scored_and_bounded(name):
    text = NASTY[name]
    parsed = read_output(text)
    for gold in (POSITIVE, NEGATIVE):
        score = score_output(parsed, gold, claim="The claim is this.", source="The source says something.")
        for rubric in RUBRICS.values():
            assert 0.0 <= rubric.total(score.components, score.gates) <= 1.15
        span_credits(text, score, RUBRICS["process"])


def test_depth_and_length_are_bounded():
    deep = '{"a":' * 31 + "1" + "}" * 31
    assert read_output(deep) is not None
    assert read_output('{"a":' * 33 + "1" + "}" * 33) is None
    assert read_output(json.dumps({"a": ["[" * 400, {}]})) is not None
    assert read_output(TEXT, Limits(max_chars=len(TEXT))) is not None
    assert read_output(TEXT, Limits(max_chars=len(TEXT) - 1)) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["match", "supported", "NOT_FOUND", "Attributable", "fabrication", "not applicable"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
ENTRY = st.dictionaries(st.sampled_from(["claim_span", "source_span", "status"]), JSON) | JSON
STEP = st.dictionaries(st.sampled_from(["claim_part", "source_evidence", "judgment", "explanation"]), JSON) | JSON
DATA = st.fixed_dictionaries(
    {},
    optional={
        "evidence_alignment": st.lists(ENTRY, max_size=4) | JSON,
        "reasoning_chain": st.lists(STEP, max_size=4) | JSON,
        **dict.fromkeys(("label", "confidence", "error_type", "fix_suggestion", "other"), JSON),
    },
)


@given(DATA, st.sampled_from([POSITIVE, NEGATIVE]), st.booleans())
def test_any_json_type_may_occur_in_any_field(data, gold, as_text):
    parsed = read_output(json.dumps(data)) if as_text else output_of(data)
    assert parsed is not None
    assert 0.0 <= parsed.confidence <= 1.0
    score = score_output(parsed, gold, claim="The claim is this.", source="The source says something.")
    calibration = score.components["calibration"]
    assert -0.10 <= calibration <= 0.15
    assert -0.30 <= score.components["calibration_proper"] <= 0.15
    assert all(0.0 <= value <= 1.0 for name, value in score.components.items() if "calibration" not in name)
    for rubric in RUBRICS.values():
        report = rubric.report(score.components, score.gates, metrics=score.facts)
        assert report.total == rubric.total(score.components, score.gates)
        assert 0.0 <= report.total <= 1.15 + 1e-12


@given(st.text(alphabet='{}[]",:\\`jsonu\ud800 \n0e-NaI', max_size=80))
def test_any_text_is_read_or_refused(text):
    assert reward_of(text, POSITIVE) >= 0.0
    parsed = read_output(text)
    if parsed is not None:
        json.dumps(parsed.data, ensure_ascii=False, allow_nan=False).encode()


def read_char_by_char(text, max_depth):
    """The rule in its plainest form: first to last brace, brackets outside strings counted, then the standard library."""
    inner = text[text.find("{") : text.rfind("}") + 1] if "{" in text else ""
    depth = deepest = 0
    in_string = escaped = False
    for char in inner:
        if in_string:
            in_string, escaped = escaped or char != '"', char == "\\" and not escaped
        elif char == '"':
            in_string = True
        else:
            depth += (char in "{[") - (char in "}]")
            deepest = max(deepest, depth)
    try:
        return None if deepest > max_depth else json.loads(inner)
    except ValueError:
        return None


VALUE = st.recursive(
    st.sampled_from(["1", '"[{"', '"\\\\"', '"\\"]"']),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda values: f"[{','.join(values)}]")
        | st.lists(inner, max_size=3).map(lambda values: "{" + ",".join(f'"a": {value}' for value in values) + "}")
    ),
    max_leaves=8,
)
SNIPPET = VALUE | st.sampled_from(['{"a": 1} ', '{"', "{", "}", "[", "]", '"', "\\", ",", ":", " "])


@given(st.lists(SNIPPET, max_size=6).map("".join), st.integers(1, 4))
def test_texts_are_read_as_by_the_plainest_reader(text, max_depth):
    parsed = read_output(text, Limits(max_depth=max_depth))
    assert (parsed and parsed.data) == read_char_by_char(text, max_depth)


def test_brackets_after_the_object_are_prose():
    assert read_output(TEXT + " [" * 40) is not None
