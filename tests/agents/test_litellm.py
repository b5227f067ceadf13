"""LiteLLM's proxy as users run it: a process of its own with a configuration and a key, in front of a chat server."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from served_model import check, free_port, played, running

from factgym.core.policy import PolicyError

pytest.importorskip("litellm.proxy", reason="needs LiteLLM's proxy: see .ci/frameworks")
pytest.importorskip("fastapi_sso", reason="needs LiteLLM's proxy: see .ci/frameworks")

SETTINGS = {"max_tokens": 4096}
MODEL = "script"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("litellm")
    server, port = free_port(), free_port()
    upstream = {"model": "openai/claimcheck-script", "api_base": f"http://127.0.0.1:{server}/v1", "api_key": "none"}
    gone = {**upstream, "api_base": f"http://127.0.0.1:{free_port()}/v1"}
    models = [{"model_name": MODEL, "litellm_params": upstream}, {"model_name": "gone", "litellm_params": gone}]
    (folder / "config.yaml").write_text(json.dumps({"model_list": models, "router_settings": {"num_retries": 0}}))
    key = f"sk-{secrets.token_hex(16)}"
    environment = {"LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    script = [sys.executable, "-m", "factgym.agents.script_server", "--port", server, "--delay-ms", 1]
    command = [Path(sys.executable).with_name("litellm"), "--config", folder / "config.yaml"]
    command += ["--host", "127.0.0.1", "--port", port]
    url = f"http://127.0.0.1:{port}"
    with (
        running(script, f"http://127.0.0.1:{server}/v1/models", folder / "script.log", {}),
        running(command, f"{url}/health/liveliness", folder / "litellm.log", environment, seconds=150),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("FACTGYM_API_KEY", key)
        yield SimpleNamespace(url=f"{url}/v1", key=key)


def test_native_tools_pass_through_it(proxy):
    episodes, described = played(proxy.url, MODEL, tools="native", **SETTINGS)
    check(episodes, SETTINGS["max_tokens"])
    assert proxy.key not in json.dumps(described)
    for replies, episode in episodes:
        calls = [call["function"]["name"] for message in replies for call in message["tool_calls"]]
        assert calls == ["search", "read", "submit"] and episode.stop == "submitted"
        assert proxy.key not in json.dumps(replies)


def test_tools_as_text_pass_through_it(proxy):
    episodes, _ = played(proxy.url, MODEL, tools="text", **SETTINGS)
    check(episodes, SETTINGS["max_tokens"])
    for replies, episode in episodes:
        assert all("<tool_call>" in message["content"] for message in replies)
        assert [turn.results[0].tool for turn in episode.turns] == ["search", "read", "submit"]
        assert episode.stop == "submitted"


def test_streams_say_the_same_as_whole_replies(proxy):
    def replies(**settings):
        episodes, _ = played(proxy.url, MODEL, range(2), tools="native", **SETTINGS, **settings)
        return [[call["function"] for call in message["tool_calls"]] for texts, _ in episodes for message in texts]

    assert replies(stream=True) == replies()


def test_a_server_behind_it_that_is_gone_is_a_fault_that_is_retried(proxy):
    with pytest.raises(PolicyError, match="after 2 requests") as caught:
        played(proxy.url, "gone", range(1), tools="native", **SETTINGS)
    assert not caught.value.fatal
    assert caught.value.cause in ("server", "connection")


def test_a_wrong_key_and_an_unknown_model_stop_the_run(proxy, monkeypatch):
    with pytest.raises(PolicyError) as unknown:
        played(proxy.url, "nobody", range(1), tools="native", **SETTINGS)
    monkeypatch.setenv("FACTGYM_API_KEY", "sk-wrong")
    with pytest.raises(PolicyError) as wrong:
        played(proxy.url, MODEL, range(1), tools="native", **SETTINGS)
    assert (wrong.value.cause, wrong.value.fatal) == ("authentication", True)
    assert (unknown.value.cause, unknown.value.fatal) == ("not_found", True)
