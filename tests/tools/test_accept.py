"""The compiled acceptance of arguments against `jsonschema`, which is the arbiter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import factgym
from factgym.envs.claimcheck.env import TOOLBOX
from factgym.tools.accept import compile_accept

SCHEMAS = [tool.parameters for tool in TOOLBOX.tools]

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 30), st.floats(allow_nan=False), st.text(max_size=5),
    st.sampled_from(["supported", "overclaim", "E1", "", "x" * 81, "x" * 4001]),
)  # fmt: skip
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner), max_leaves=6
)
claims = st.fixed_dictionaries(
    {"claim": st.just("a claim") | values, "status": st.sampled_from(["supported", "partially_supported", 1])},
    optional={
        "evidence_ids": st.lists(st.sampled_from(["E1", ""]), max_size=18) | values,
        "quote": st.just("q") | st.lists(st.just("q"), max_size=9) | values,
        "unsupported_span": values, "reason": st.text(max_size=3), "other": values,
    },
)  # fmt: skip
arguments = values | st.fixed_dictionaries(
    {},
    optional={
        "query": st.text(max_size=4) | values, "k": st.integers(-1, 12) | values, "page": values, "id": values,
        "claims": st.lists(claims, max_size=3) | values, "final_verdict": st.sampled_from(["supported", "no"]),
        "evidence_used": st.lists(st.just("E1"), max_size=2) | values,
    },
)  # fmt: skip


@settings(max_examples=1500, deadline=None)
@given(arguments, st.sampled_from(range(len(SCHEMAS))))
def test_accepts_only_what_jsonschema_accepts(value, which):
    schema = SCHEMAS[which]
    if compile_accept(schema)(value):
        assert Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize("tool", TOOLBOX.tools, ids=lambda tool: tool.name)
def test_recognises_every_sampled_call(tool):
    """Else it would be no use: all that the action space samples is accepted without asking jsonschema."""
    space = factgym.make("claimcheck").action_space
    space.seed(0)
    accept = compile_accept(tool.parameters)
    calls = [call for call in (space.sample() for _ in range(400)) if call["tool"] == tool.name]
    assert len(calls) > 20
    assert all(accept(call["arguments"]) for call in calls)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "a+"},
        {"type": ["string", "null"]},
        {"type": "object", "properties": {}},
        {"allOf": [{"type": "string"}]},
        {},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    ],
)
def test_leaves_what_it_does_not_know_to_jsonschema(schema):
    accept = compile_accept(schema)
    assert not any(accept(value) for value in ("aaa", None, {}, [], ["a"], 1))
