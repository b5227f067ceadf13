"""Replies that are odd but legal, through the real client; a server that is dead for a while; fuzzed replies and runs."""

from __future__ import annotations

import asyncio
import json

import pytest
from fault_server import FaultServer, call, calls, message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_endpoint_faults import ask

import factgym
from factgym.agents.agent import agent_from_model
from factgym.agents.endpoint import Endpoint
from factgym.agents.endpoint.reply import ChatReply, Fault, completion_of_stream, fault_of_status, read_reply
from factgym.agents.runs.collect import collect_async
from factgym.agents.runs.files import EPISODES, MANIFEST, check_same
from factgym.agents.runs.read import read_run, repair_run
from factgym.agents.runs.schema import validate
from factgym.agents.script_server import ScriptServer, scripted_reply
from factgym.benchmarks.comparison import read_gate
from factgym.benchmarks.costs import read_prices
from factgym.core.errors import FactgymError

SEARCH = {"name": "search", "arguments": '{"query": "a"}'}


def raw(*parts, head=b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n", pause=0.0):
    """A reply sent in these pieces as they are; the connection is closed after the last."""

    def fault(server, connection, request):
        loop = asyncio.get_running_loop()
        for number, part in enumerate([head, *parts]):
            loop.call_later(number * pause, connection.write, part)
        loop.call_later((len(parts) + 1) * pause, connection.close)

    return fault


def trickled(server, connection, request):
    body = scripted_reply(request.body)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
    size = -(-len(body) // 40)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    raw(*pieces, head=head, pause=0.002)(server, connection, request)


def sized(body, status=b"HTTP/1.1 200 OK"):
    return raw(body, head=status + b"\r\nContent-Length: %d\r\n\r\n" % len(body))


BODY = scripted_reply(b'{"tools": [], "messages": "Answer to check: x"}')
CHUNKED = b"%x;note=1\r\n%b\r\n0\r\nx-trailer: 1\r\n\r\n" % (len(BODY), BODY)
ODD = {
    "an empty id": calls(call("search", '{"query": "a"}', "")),
    "a null id": calls(call("search", '{"query": "a"}', None)),
    "a number as id": calls(call("search", '{"query": "a"}', 7)),
    "equal ids": calls(call("search", '{"query": "a"}'), call("search", '{"query": "b"}')),
    "a long id": calls(call("search", '{"query": "a"}', "x" * 5000)),
    "arguments as an object": calls(call("search", {"query": "a"})),
    "no arguments": calls({"id": "c", "function": {"name": "list"}}),
    "null arguments": calls(call("list", None)),
    "a call without its type": calls({"id": "c", "function": SEARCH}),
    "a call without its function's object": calls({"id": "c", **SEARCH}),
    "the API before tools": message({"role": "assistant", "content": None, "function_call": SEARCH}),
    "no content": message({"role": "assistant", "tool_calls": [call("list", "{}")]}),
    "empty content beside a call": message({"role": "assistant", "content": "", "tool_calls": [call("list", "{}")]}),
    "null calls": message({"role": "assistant", "content": "hm", "tool_calls": None}),
    "no calls": message({"role": "assistant", "content": "hm", "tool_calls": []}),
    "content in parts": message({"role": "assistant", "content": [{"type": "text", "text": "h"}, "m"]}),
    "no role": message({"content": "hm"}),
    "a refusal": message({"role": "assistant", "content": None, "refusal": "no"}),
    "reasoning alone": message({"role": "assistant", "content": None, "reasoning": "so"}, completion_tokens=3),
    "half a surrogate pair": sized(b'{"choices":[{"message":{"role":"assistant","content":"a \\ud800 b"}}]}'),
    "a surrogate in arguments": calls(call("search", '{"query": "\\ud800"}')),
    "control characters": message({"role": "assistant", "content": "a\x00\x1b[31m\u202eb"}),
    "null usage": sized(json.dumps({**json.loads(BODY), "usage": None}).encode()),
    "odd usage": sized(json.dumps({**json.loads(BODY), "usage": {"prompt_tokens": "5", "x": [1]}}).encode()),
    "no ids at all": sized(json.dumps({"choices": json.loads(BODY)["choices"]}).encode()),
    "two choices": sized(json.dumps({**json.loads(BODY), "choices": json.loads(BODY)["choices"] * 2}).encode()),
    "a null finish": sized(BODY.replace(b'"finish_reason":"tool_calls"', b'"finish_reason":null')),
    "unknown members": sized(json.dumps({**json.loads(BODY), "x": {"y": [None] * 99}}).encode()),
    "white space around": sized(b" \r\n\t" + BODY + b"\n\n"),
    "HTTP/1.0": sized(BODY, b"HTTP/1.0 200 OK"),
    "no length, closed at the end": raw(BODY, head=b"HTTP/1.0 200 OK\r\n\r\n"),
    "chunks with extensions and trailers": raw(CHUNKED, head=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
    "an interim answer": raw(
        b"HTTP/1.1 200\r\ncontent-length: %d\r\n\r\n" % len(BODY), BODY, head=b"HTTP/1.1 103 Early Hints\r\n\r\n"
    ),
    "a status without words": sized(BODY, b"HTTP/1.1 200"),
    "another 2xx": sized(BODY, b"HTTP/1.1 201 Created"),
    "another type": raw(
        BODY, head=b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-length: %d\r\n\r\n" % len(BODY)
    ),
    "a trickle": trickled,
    "a stream unasked": raw(
        b'data:{"choices":[{"delta":{"content":"h"}}]}\n\ndata:{"choices":[{"delta":{"content":"m"},"finish_reason":"stop"}]}\n\n',
        head=b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
    ),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_reply_is_taken_at_the_first_request(kind):
    reply = ask(FaultServer(schedule=[ODD[kind]]))
    assert reply["completion"]["requests"] == 1 and "retries" not in reply["completion"]
    assert reply["content"] or reply.get("tool_calls") or reply.get("reasoning_content")
    ids = [made["id"] for made in reply.get("tool_calls", [])]
    assert len(set(ids)) == len(ids) and all(ids)
    assert all(isinstance(made["function"]["arguments"], str) for made in reply.get("tool_calls", []))
    env = factgym.make("claimcheck-multihop")
    env.reset(seed=1)
    env.step(reply)  # answered, whatever it is
    json.dumps(env.episode.messages).encode()


def test_a_server_that_dies_for_a_while_loses_no_episode(tmp_path):
    """It stops in the middle of the run, with every connection cut, and comes back on its port after a second."""

    class Dying(ScriptServer):
        def chat(self, connection, request):
            super().chat(connection, request)
            if self.requests == 20:
                self.restart = asyncio.get_running_loop().create_task(self.die())

        async def die(self):
            await self.stop()
            await asyncio.sleep(1.0)
            await self.start()

    server = Dying(delay=0.002)

    async def run():
        async with server as url:
            agent = agent_from_model("m", Endpoint("m", url, tools="native", max_retries=20, max_wait=0.2))
            return await collect_async(factgym.make("claimcheck-multihop", split="train"), agent, tmp_path, n=30)

    episodes = list(asyncio.run(run()).episodes())
    assert len(episodes) == 30 and not [episode["error"] for episode in episodes if episode["error"]]
    retried = [turn["completion"].get("retries", []) for episode in episodes for turn in episode["turns"]]
    assert {retry["cause"] for retries in retried for retry in retries} == {"connection"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=15,
)
KEYS = ("choices", "message", "content", "tool_calls", "function", "arguments", "name", "usage", "logprobs", "id")
KEYS += ("delta", "index", "error", "code", "message", "param", "detail", "loc", "finish_reason", "type")
shaped = st.recursive(
    st.none() | st.integers(-2, 600) | st.sampled_from(["stop", "seed is not supported", "{", "\ud800", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)
bodies = st.binary(max_size=300) | (json_values | shaped).map(lambda value: json.dumps(value).encode())
streams = st.lists(bodies, max_size=6).map(lambda events: b"".join(b"data: " + event + b"\n\n" for event in events))


@given(bodies | streams, st.integers(300, 599))
def test_any_answer_is_a_reply_or_a_fault(body, status):
    for answer in (read_reply(body), read_reply(completion_of_stream(body, [(len(body), 0.5)]))):
        assert isinstance(answer, (ChatReply, Fault))
        if isinstance(answer, ChatReply):
            json.dumps([answer.message, answer.completion], allow_nan=False).encode()
    assert isinstance(fault_of_status(status, {"retry-after": "x"}, body), Fault)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The files of a small run."""
    folder = tmp_path_factory.mktemp("recorded")

    async def run():
        async with ScriptServer() as url:
            agent = agent_from_model("m", Endpoint("m", url, tools="native"))
            await collect_async(factgym.make("claimcheck-mini", split="train"), agent, folder, n=3)

    asyncio.run(run())
    return (folder / EPISODES).read_bytes().splitlines(keepends=True), (folder / MANIFEST).read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.data())
def test_damaged_runs_are_errors_for_people_and_can_be_repaired(recorded, tmp_path, data):
    lines, manifest = recorded
    damaged = data.draw(st.lists(st.sampled_from(lines) | bodies.map(lambda body: body + b"\n"), max_size=6))
    cut = data.draw(st.integers(0, 40))
    (tmp_path / EPISODES).write_bytes(b"".join(damaged)[: -cut or None])
    (tmp_path / MANIFEST).write_bytes(manifest)
    try:
        for episode in read_run(tmp_path).episodes():
            assert isinstance(episode, dict)
    except FactgymError:
        pass
    repair_run(tmp_path)
    repaired = list(read_run(tmp_path).episodes())
    assert len({(episode["task"], episode.get("sample")) for episode in repaired}) == len(repaired)
    for episode in repaired:
        if "schema" in episode:
            validate(episode)
    assert not repair_run(tmp_path).removed
    for file in tmp_path.iterdir():
        file.unlink()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(body=bodies | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_any_manifest_price_table_or_gate_is_read_or_is_an_error_for_people(tmp_path, body):
    (tmp_path / EPISODES).write_bytes(b"")
    for name in (MANIFEST, "prices.json", "prices.toml", "gate.toml"):
        (tmp_path / name).write_bytes(body)
    for read in (
        lambda: read_run(tmp_path),
        lambda: check_same(tmp_path, {"env": "x"}),
        lambda: read_prices(tmp_path / "prices.json"),
        lambda: read_prices(tmp_path / "prices.toml"),
        lambda: read_gate(tmp_path / "gate.toml"),
    ):
        try:
            read()
        except FactgymError as error:
            assert str(error) and "\x1b" not in str(error)
