"""A real OpenAI-compatible server: `transformers serve` with tiny models built on the spot, driven through episodes."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from served_model import SETTINGS, build_model, check, free_port, played, serve

import factgym
from factgym.agents.endpoint import Endpoint
from factgym.core.errors import ConfigError
from factgym.core.policy import PolicyError

for name in ("torch", "transformers", "fastapi", "uvicorn"):
    pytest.importorskip(name, reason=f"needs {name}: install the extra 'local'")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    models = {kind: build_model(folder / kind, kind) for kind in ("native", "plain")}
    with serve(folder, free_port()) as url:
        yield SimpleNamespace(url=url, **models)


def test_a_template_that_takes_tools_is_probed_as_native(served):
    episodes, described = played(served.url, served.native, range(4))
    check(episodes)
    assert described["tools_found"] == "native"
    text = [message for replies, _ in episodes for message in replies]
    calls = [call["function"] for message in text for call in message.get("tool_calls", [])]
    assert {"list", "search", "read"} & {call["name"] for call in calls}
    assert all(isinstance(json.loads(call["arguments"]), dict) for call in calls)
    assert any(turn.results[0].tool and turn.error is None for _, episode in episodes for turn in episode.turns)
    assert "tool" in {message["role"] for _, episode in episodes for message in episode.messages}
    assert all("sent" not in message["completion"] for message in text)


def test_a_template_that_drops_tools_is_probed_as_text(served):
    episodes, described = played(served.url, served.plain)
    check(episodes)
    assert described["tools_found"] == "text"
    text = [message for replies, _ in episodes for message in replies]
    assert all("<tools>" in message["completion"]["sent"][0]["content"] for message in text)
    assert any("<tool_call>" in (message["content"] or "") for message in text)
    assert any(turn.results[0].tool and turn.error is None for _, episode in episodes for turn in episode.turns)
    assert {message["role"] for _, episode in episodes for message in episode.messages} == {
        "system",
        "user",
        "assistant",
    }


def test_text_mode_on_a_server_that_parses_calls_anyway(served):
    """This server reads calls out of the text although no tools were offered; the next turn shows them as text."""
    episodes, _ = played(served.url, served.native, range(4), tools="text")
    check(episodes)
    text = [message for episode, _ in episodes for message in episode]
    assert any(message.get("tool_calls") for message in text)
    for message in text:
        assert {sent["role"] for sent in message["completion"]["sent"]} <= {"system", "user", "assistant"}
        assert all("tool_calls" not in sent for sent in message["completion"]["sent"])


def test_the_same_seed_gives_the_same_reply(served):
    first, second, other = (played(served.url, served.plain, seeds)[0] for seeds in ((5,), (5,), (6,)))
    texts = [[message["content"] for message in run[0][0]] for run in (first, second, other)]
    assert texts[0] == texts[1] != texts[2]


def test_arguments_that_are_no_json_go_back_in_a_form_that_its_template_reads(served):
    call = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"query": "a'}}
    messages = [
        {"role": "user", "content": "Check."},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c", "content": "Error (invalid_json)"},
    ]

    async def run():
        endpoint = Endpoint(served.native, served.url, tools="native", **SETTINGS)
        reply = await endpoint.start(1).act(messages, factgym.make("claimcheck").available_tools())
        await endpoint.close()
        return reply["completion"]

    done = asyncio.run(run())
    assert done["requests"] == 1
    assert json.loads(done["sent"][1]["tool_calls"][0]["function"]["arguments"]) == {
        "malformed_arguments": '{"query": "a'
    }
    assert "reasoning_content" not in done["sent"][1]


def test_a_setting_that_it_does_not_know_is_refused_in_its_own_words(served):
    with pytest.raises(PolicyError, match=r"Unexpected fields.*top_k") as caught:
        played(served.url, served.native, range(1), tools="native", top_k=5)
    assert (caught.value.cause, caught.value.fatal) == ("bad_request", False)


def test_a_path_that_it_does_not_serve_is_fatal(served):
    with pytest.raises(PolicyError) as caught:
        played(f"{served.url}/nowhere", served.native, range(1), tools="native")
    assert (caught.value.cause, caught.value.fatal) == ("not_found", True)


def test_a_server_that_lists_no_model_or_several_asks_for_its_name(served):
    """Older versions of `transformers serve` list none, newer ones those that are loaded, here both."""
    with pytest.raises(ConfigError, match=r"lists no model|lists .*: name one with model="):
        played(served.url, None)
