"""Streams of calls in every dialect of numbering, cut anywhere, hold the calls that they were made of."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from factgym.agents.endpoint.reply import ChatReply, completion_of_stream, read_reply

NAMES = ("search", "read", "submit")
arguments = st.dictionaries(
    st.sampled_from("abc"), st.text(max_size=6) | st.integers() | st.just({"d": [{}]}), max_size=3
)
calls = st.lists(st.tuples(st.sampled_from(NAMES), arguments), min_size=1, max_size=4)
DIALECTS = {
    "index, id first": lambda number, first: {"index": number, **({"id": f"c{number}"} if first else {})},
    "index, id always": lambda number, first: {"index": number, "id": f"c{number}"},
    "index without ids": lambda number, first: {"index": number},
    "all 0, id first": lambda number, first: {"index": 0, **({"id": f"c{number}"} if first else {"id": ""})},
    "all 0, id always": lambda number, first: {"index": 0, "id": f"c{number}"},
    "no index, id first": lambda number, first: {"id": f"c{number}"} if first else {},
    "no index, id always": lambda number, first: {"index": None, "id": f"c{number}"},
    "no index, no ids": lambda number, first: {},
}
"""Keys of a part of a call: its number, and whether it is the call's first part."""


@given(calls, st.sampled_from(sorted(DIALECTS)), st.integers(1, 9), st.booleans())
def test_a_stream_holds_the_calls_that_it_was_made_of(given_calls, dialect, size, name_always):
    events = []
    for number, (name, value) in enumerate(given_calls):
        text = json.dumps(value)
        for start in range(0, len(text), size):
            named = {"name": name} if start == 0 or name_always else {}
            part = {
                **DIALECTS[dialect](number, start == 0),
                "function": {**named, "arguments": text[start : start + size]},
            }
            events.append({"choices": [{"index": 0, "delta": {"tool_calls": [part]}, "finish_reason": None}]})
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    reply = read_reply(completion_of_stream(body))
    assert isinstance(reply, ChatReply)
    functions = [call["function"] for call in reply.message["tool_calls"]]
    assert [(function["name"], json.loads(function["arguments"])) for function in functions] == given_calls
    ids = [call["id"] for call in reply.message["tool_calls"]]
    assert len(set(ids)) == len(ids)
