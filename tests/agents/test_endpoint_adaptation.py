"""Servers that want other requests: they are adapted to, or named with the setting; streams; redirects and protocols."""

from __future__ import annotations

import asyncio
import json

import pytest
from fault_server import OK, FaultServer, error, reply
from test_endpoint_client import certificate
from test_endpoint_faults import ASK, ask, fails

import factgym
from factgym.agents.agent import agent_from_model
from factgym.agents.endpoint import Endpoint
from factgym.agents.endpoint.faults import fault_of_status
from factgym.agents.endpoint.reply import FIRST_TOKEN, completion_of_stream, read_reply
from factgym.agents.resolve import find_agent
from factgym.agents.runs.collect import collect_async
from factgym.agents.script_server import ScriptServer, as_events, completion, scripted_reply
from factgym.benchmarks.metrics import summarise
from factgym.benchmarks.tables import effort
from factgym.core.errors import ConfigError
from factgym.core.policy import PolicyError

REFUSALS = {
    "max_tokens": (
        400,
        {
            "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "type": "invalid_request_error",
            "param": "max_tokens",
            "code": "unsupported_parameter",
        },
    ),
    "seed": (400, {"message": "Unrecognized request argument supplied: seed", "type": "invalid_request_error"}),
}
"""As OpenAI words them."""
OTHERS = {
    "seed": [
        (
            422,
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
        ),
        (400, {"error": {"message": "litellm.UnsupportedParamsError: x does not support parameters: ['seed'], for y"}}),
        (422, {"detail": "Unexpected fields in the request: {'seed'}"}),
    ],
    "temperature": [
        (400, {"error": {"message": "Unsupported value: 'temperature' does not support 0.7", "param": "temperature"}})
    ],
    "stream": [
        (400, {"error": {"message": "This model only supports streaming: set stream to true"}}),
        (400, {"error": {"message": "stream must be set to true"}}),
    ],
    "": [
        (400, {"error": {"message": "the stream ended unexpectedly"}}),
        (400, {"error": {"message": "max_tokens is too large", "param": "max_tokens"}}),
        (500, {"error": {"message": "seed is not supported"}}),
    ],
}
"""As Mistral (pydantic), LiteLLM, transformers serve and gateways word them."""


class Picky(ScriptServer):
    """Refuses requests with some keys, as OpenAI does."""

    def __init__(self, *keys, stream_only=False):
        super().__init__()
        self.keys, self.stream_only = keys, stream_only
        self.taken = []

    def chat(self, connection, request):
        body = json.loads(request.body)
        for key in self.keys:
            if key in body:
                status, fault = REFUSALS[key]
                connection.send(status, json.dumps({"error": fault}).encode())
                return
        if self.stream_only and not body.get("stream"):
            connection.send(400, b'{"error":{"message":"stream must be set to true"}}')
            return
        self.taken.append(body)
        super().chat(connection, request)


@pytest.mark.parametrize("setting", OTHERS)
def test_the_refused_setting_is_read_from_the_words_of_servers(setting):
    for status, body in OTHERS[setting]:
        assert fault_of_status(status, {}, json.dumps(body).encode()).setting == setting


def played(server, tmp_path, n=6, **settings):
    """A run, its agent's description, and the summary."""

    async def run():
        async with server as url:
            agent = agent_from_model("m", Endpoint(base_url=url, **{"max_tokens": 64, "max_retries": 0, **settings}))
            env = factgym.make("claimcheck-multihop", split="train")
            return await collect_async(env, agent, tmp_path, n=n)

    run = asyncio.run(run())
    return run, summarise(run.episodes())


def test_a_server_that_wants_another_limit_and_no_seed_is_adapted_to(tmp_path):
    server = Picky("max_tokens", "seed")
    run, summary = played(server, tmp_path)
    assert (summary.scored, summary.errors) == (6, 0)
    assert all(body["max_completion_tokens"] == 64 and "seed" not in body for body in server.taken[3:])
    assert server.requests - len(server.taken) <= 7  # the probe's, and that of each episode in flight
    assert run.manifest["agent_details"]["adapted"] == [
        "max_tokens is sent as max_completion_tokens",
        "seed is not sent: replies cannot be repeated",
    ]
    assert "seed is not sent" in str(list(effort(summary.usage)))


def test_the_tool_mode_that_was_probed_is_in_table_and_manifest(tmp_path):
    run, summary = played(Picky(), tmp_path)
    assert run.manifest["agent_details"]["tools_found"] == "native"
    assert run.manifest["agent_details"]["tools"] == "auto"
    assert ("tools, as probed", f"native ({summary.usage.requests:,} replies)") in list(effort(summary.usage))
    again, _ = played(Picky(), tmp_path / "2", tools="text")
    assert "tools_found" not in again.manifest["agent_details"]


def test_a_run_goes_on_after_its_server_was_found_out_about(tmp_path):
    async def run(resume):
        async with Picky("seed") as url:
            agent = agent_from_model("m", Endpoint("m", base_url=url, max_tokens=64))
            return await collect_async(factgym.make("claimcheck-multihop"), agent, tmp_path, n=3, resume=resume)

    asyncio.run(run(False))
    (tmp_path / "episodes.jsonl").write_bytes((tmp_path / "episodes.jsonl").read_bytes()[:-40])
    assert len(list(asyncio.run(run(True)).episodes())) == 3


def test_a_setting_that_cannot_be_adapted_is_named():
    temperature = error(400, "Unsupported value: 'temperature' does not support 0.7.", param="temperature")
    failed = fails(FaultServer(schedule=[temperature]), temperature=0.7)
    assert failed.cause == "bad_request" and "the setting is temperature" in str(failed)
    seed = error(400, "Unrecognized request argument supplied: seed")
    failed = fails(FaultServer(schedule=[seed] * 3), extra_body={"seed": 5})
    assert "the setting is seed" in str(failed)


@pytest.mark.parametrize("settings", [{}, {"stream": True}])
def test_streams_are_read_and_the_time_to_the_first_token_is_recorded(tmp_path, settings):
    server = Picky(stream_only=True)
    run, summary = played(server, tmp_path, **settings)
    plain, expected = played(ScriptServer(), tmp_path / "plain")
    assert (summary.scored, summary.reward) == (6, expected.reward)
    turns = [turn["completion"] for episode in run.episodes() for turn in episode["turns"]]
    assert all(turn["notes"][FIRST_TOKEN] > 0 for turn in turns)
    assert summary.usage.tokens["completion_tokens"].total > 0
    assert "first token" in dict(list(effort(summary.usage)))["time per turn"]
    assert plain.manifest["agent_details"]["stream"] is False


def test_a_stream_is_the_reply_that_it_streams():
    """Cut into many deltas in the way of OpenAI's API: texts in pieces, two calls, arguments in pieces, usage at the end."""
    function = {"name": "search", "arguments": '{"query": "a ü"}'}
    calls = [{"id": f"c{number}", "type": "function", "function": function} for number in range(2)]
    whole = {"role": "assistant", "content": "one two", "reasoning_content": "hm, so", "tool_calls": calls}
    deltas = [{"role": "assistant", "content": ""}, *({"reasoning_content": part} for part in ("hm", ", so"))]
    deltas += [{"content": part} for part in ("one", " ", "two")]
    for number in range(2):
        head = {"index": number, "id": f"c{number}", "function": {"name": "search", "arguments": ""}}
        pieces = [{"index": number, "function": {"arguments": part}} for part in ('{"query"', ': "a ü', '"}')]
        deltas += [{"tool_calls": [piece]} for piece in (head, *pieces)]
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])
    usage = {"prompt_tokens": 5, "completion_tokens": 7}
    events = [{"model": "m", "choices": choice} for choice in choices] + [{"choices": [], "usage": usage}]
    lines = [b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\r\n\r\n" for event in events]
    body = b": keep-alive\n\n" + b"".join(lines) + b"data: [DONE]\n\n"
    arrivals = [
        (len(b"".join([b": keep-alive\n\n", *lines[: count + 1]])), float(count)) for count in range(len(lines))
    ]
    result = read_reply(completion_of_stream(body, arrivals))
    expected = read_reply(completion(whole, prompt_tokens=5, completion_tokens=7))
    assert result.message == expected.message
    assert result.completion["usage"] == usage and result.completion["finish_reason"] == "tool_calls"
    assert result.completion["notes"] == {FIRST_TOKEN: 1.0}  # not the empty delta with the role


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_a_stream_that_breaks_off_is_requested_again(cut):
    body = as_events(scripted_reply(b"{}"))
    broken = reply(200, body[: int(cut * len(body) / 2)], kind=b"text/event-stream")
    message = ask(FaultServer(schedule=[broken, OK]))
    assert message["completion"]["retries"][0]["cause"] == "bad_reply"


def test_an_error_within_a_stream_is_the_servers():
    fault = reply(200, b'data: {"error": {"message": "out of memory", "code": 503}}\n\n', kind=b"text/event-stream")
    assert ask(FaultServer(schedule=[fault, OK]))["completion"]["retries"][0]["cause"] == "server"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_named_with_its_address_and_not_followed(status):
    server = FaultServer(schedule=[reply(status, {}, b"Location: https://elsewhere.example/v1/chat/completions\r\n")])
    failed = fails(server)
    assert (failed.cause, failed.fatal, server.requests) == ("connection", True, 1)
    assert "redirects to https://elsewhere.example/v1" in str(failed) and "base URL" in str(failed)


def test_http_to_a_server_that_speaks_https_is_named_at_once(tmp_path):
    async def run():
        server = ScriptServer()
        server.tls, _ = certificate(tmp_path)
        async with server as url:
            endpoint = Endpoint("m", url.replace("https:", "http:"), tools="native")
            try:
                await endpoint.act(ASK, [])
            finally:
                await endpoint.close()

    with pytest.raises(PolicyError) as caught:
        asyncio.run(run())
    fault = caught.value
    assert (fault.cause, fault.fatal) == ("connection", True)
    assert "write https://" in str(fault) and "requests)" not in str(fault)


def test_nginx_says_that_its_port_is_https():
    body = b"<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>"
    fault = fault_of_status(400, {}, body)
    assert fault.fatal and "write https://" in fault.message


def test_uvloop_runs_endpoints(tmp_path):
    uvloop = pytest.importorskip("uvloop", reason="needs uvloop")

    async def run():
        async with ScriptServer() as url:
            agent = agent_from_model("m", Endpoint("m", base_url=url))
            return await collect_async(factgym.make("claimcheck-multihop"), agent, tmp_path, n=4)

    assert all(episode["error"] is None for episode in uvloop.run(run()).episodes())


@pytest.mark.parametrize(
    ("agent", "settings"),
    [
        ("openai:m", {"base_url": 5}),
        ("openai:m", {"base_url": "http://127.0.0.1:9/v1", "model": "x"}),
        ("http://127.0.0.1:9/v1", {"model": 5}),
        ("http://127.0.0.1:9/v1", {"self": 1}),
        ("majority:3:http://127.0.0.1:9/v1", {"self": 1}),
        ("hf:folder", {"model": "x"}),
        ("http://127.0.0.1:9/v1", {"temperature": "hot"}),
        ("http://127.0.0.1:9/v1", {"": 1}),
    ],
)
def test_a_bad_setting_of_an_agent_is_an_error_for_people(agent, settings):
    with pytest.raises(ConfigError):
        find_agent(agent, "claimcheck-multihop", settings)
