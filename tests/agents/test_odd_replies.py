"""Replies that are odd but legal, through the real client; a server that is dead for a while; fuzzed replies and runs."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import pytest
from fault_server import FaultServer, call, calls, message
from hypothesis import given
from hypothesis import strategies as st
from test_endpoint_faults import ASK, TOOLS, ask, fails

import factgym
from factgym.agents.agent import agent_from_model
from factgym.agents.endpoint import Endpoint
from factgym.agents.endpoint.client import MAX_BODY
from factgym.agents.endpoint.faults import Fault, fault_of_status
from factgym.agents.endpoint.reply import ChatReply, completion_of_stream, read_reply
from factgym.agents.runs.collect import collect_async
from factgym.agents.runs.files import EPISODES, MANIFEST, check_same
from factgym.agents.runs.read import read_run, repair_run
from factgym.agents.runs.schema import validate
from factgym.agents.script_server import ScriptServer, completion, scripted_reply
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


def changed(**members):
    """The scripted reply with other members; `...` leaves one out."""
    return sized(
        json.dumps({key: value for key, value in (json.loads(BODY) | members).items() if value != ...}).encode()
    )


def choice(**members):
    """The scripted reply with another choice; `...` leaves a member out."""
    first = json.loads(BODY)["choices"][0] | members
    return changed(choices=[{key: value for key, value in first.items() if value != ...}])


def headed(head, body=BODY):
    return raw(body, head=b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")


def in_chunks(body, size, head=b""):
    """Chunked transfer, in pieces that end anywhere, inside a character too."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    return raw(*chunks, b"0\r\n\r\n", head=b"HTTP/1.1 200 OK\r\n" + head + b"Transfer-Encoding: Chunked\r\n\r\n")


def streamed(*deltas, size=7, before=b"", end=b"data: [DONE]\n\n", line_end=b"\n"):
    """A stream of these deltas, cut into chunks of `size` bytes."""
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    text = before + b"".join(b"data: %b\n\n" % json.dumps(event, ensure_ascii=False).encode() for event in events) + end
    return in_chunks(text.replace(b"\n", line_end), size, b"Content-Type: text/event-stream\r\n")


def piece(index=0, call_id=None, name=None, arguments=None, **members):
    """A part of a streamed call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    members |= {} if index is None else {"index": index}
    return {"tool_calls": [members | ({} if call_id is None else {"id": call_id}) | {"function": function}]}


WIDE = "§ 4 – Kündigung 😀 日本"
ODD |= {
    "gzip unasked": headed(b"Content-Encoding: gzip\r\n", gzip.compress(BODY)),
    "deflate unasked": headed(b"content-encoding: deflate\r\n", zlib.compress(BODY)),
    "gzip in two members": headed(b"Content-Encoding: gzip\r\n", gzip.compress(BODY[:90]) + gzip.compress(BODY[90:])),
    "a byte order mark": sized(b"\xef\xbb\xbf" + BODY),
    "chunks of three bytes inside characters": in_chunks(
        completion({"role": "assistant", "content": WIDE * 9}), 3, b"content-type: application/json\r\n"
    ),
    "no type": headed(b"content-length: %d\r\n" % len(BODY)),
    "a type with parameters": headed(b'Content-Type: Application/JSON; charset=UTF-8; x="y"\r\n'),
    "cookies and odd headers": headed(b"Set-Cookie: a=b\r\nSet-Cookie: c\r\nX-Odd: \xe9\xff\r\nX-Empty:\r\n"),
    "two interim answers": raw(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(BODY),
        BODY,
        head=b"HTTP/1.1 100 Continue\r\n\r\n",
    ),
    "a length with zeros before": headed(b"Content-Length: 000%d\r\n" % len(BODY)),
    "a connection that closes": headed(b"Connection: close\r\n"),
    "usage left out": changed(usage=...),
    "huge and fractional usage": changed(usage={"prompt_tokens": 10**30, "completion_tokens": 2.5}),
    "negative usage": changed(usage={"prompt_tokens": -5, "completion_tokens": -1}),
    "no finish": choice(finish_reason=...),
    "an unknown finish": choice(finish_reason="eos"),
    "the finish of the API before tools": choice(finish_reason="function_call"),
    "a finish that is a number": choice(finish_reason=3),
    "null log-probabilities": choice(logprobs=None),
    "a choice of another index": choice(index=3),
    "an index that is text": choice(index="0"),
    "a fractional time": changed(created=1.5, model=None, object=None),
    "null error beside the choices": changed(error=None),
    "doubled members": sized(BODY.replace(b'{"id":', b'{"choices":[],"id":', 1)),
    "every member of OpenAI's message": message(
        {"role": "assistant", "content": "hm", "refusal": None, "audio": None, "annotations": [], "function_call": None}
    ),
    "a refusal in parts": message({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}),
    "parts of unknown kinds": message(
        {"role": "assistant", "content": [{"type": "output_text", "text": "hm"}, {"type": "image", "url": "x"}, None]}
    ),
    "reasoning as an object": message({"role": "assistant", "content": "hm", "reasoning": {"text": ["so"]}}),
    "details of reasoning": message({"role": "assistant", "content": "hm", "reasoning_details": [{"text": "so"}]}),
    "an open thought": message({"role": "assistant", "content": "<think>so it"}),
    "white space alone before a call": message(
        {"role": "assistant", "content": " \n", "tool_calls": [call("list", "{}")]}
    ),
    "a call of no name": calls(call("", "{}")),
    "a call of a null name": calls(call(None, "{}")),
    "a name in white space": calls(call(" search\n", '{"query": "a"}')),
    "arguments in JSON twice": calls(call("search", json.dumps('{"query": "a"}'))),
    "arguments as a list": calls(call("search", [])),
    "arguments of white space": calls(call("list", " \n")),
    "a call of another kind": calls({"id": "c", "type": "custom", "custom": {"name": "search", "input": "a"}}),
    "a megabyte": message({"role": "assistant", "content": "word " * 200_000}),
    "streamed: characters across chunks": streamed({"role": "assistant"}, {"content": WIDE}, {"content": WIDE}),
    "streamed: a byte order mark and an id first": streamed({"content": "hm"}, before=b"\xef\xbb\xbfid: 1\n"),
    "streamed: comments, names and retries": streamed(
        {"content": "hm"}, before=b": ping\n\nevent: message\nretry: 10\nid: 7\n"
    ),
    "streamed: line ends of the web": streamed({"content": "hm"}, line_end=b"\r\n"),
    "streamed: no end": streamed({"content": "hm"}, end=b""),
    "streamed: null content first": streamed({"role": "assistant", "content": None}, {"content": "hm"}),
    "streamed: usage without choices": streamed(
        {"content": "hm"}, end=b'data: {"choices": [], "usage": {"completion_tokens": 1}}\n\ndata: [DONE]\n\n'
    ),
    "streamed: arguments in parts": streamed(
        piece(0, "c", "search", ""), piece(0, arguments='{"que'), piece(0, arguments='ry": "ä"}')
    ),
    "streamed: calls that alternate": streamed(
        piece(0, "c", "search", '{"query"'),
        piece(1, "d", "list", "{"),
        piece(0, arguments=': "a"}'),
        piece(1, arguments="}"),
    ),
    "streamed: parts without an index": streamed(piece(None, "c", "search", '{"query": "a"}')),
    "streamed: the id in every part": streamed(piece(0, "c", "search", '{"query":'), piece(0, "c", arguments=' "a"}')),
    "streamed: a whole call with arguments as an object": streamed(piece(0, "c", "search", {"query": "a"})),
    "streamed: reasoning before content": streamed({"reasoning_content": "so"}, {"content": "hm"}),
}


def test_the_list_of_odd_replies_has_not_shrunk():
    assert len(ODD) >= 58


NOT_ODD = {
    "null among the calls": calls(None, call("list", "{}")),
    "calls as an object": message({"role": "assistant", "content": "hm", "tool_calls": {"0": call("list", "{}")}}),
    "204": raw(head=b"HTTP/1.1 204 No Content\r\n\r\n"),
    "an empty body": sized(b""),
    "null": sized(b"null"),
    "a list": sized(b"[]"),
    "an error with status 200": sized(b'{"error": {"message": "overloaded", "code": 500}}'),
    "no choice": sized(b'{"choices": null}'),
    "a null message": sized(b'{"choices": [{"message": null}]}'),
    "broken gzip": headed(b"Content-Encoding: gzip\r\n", gzip.compress(BODY)[:-20]),
    "gzip that is none": headed(b"Content-Encoding: gzip\r\n"),
    "an unknown compression": headed(b"Content-Encoding: br\r\n"),
}


@pytest.mark.parametrize("kind", NOT_ODD)
def test_a_reply_that_is_none_is_requested_again(kind):
    reply = ask(FaultServer(schedule=[NOT_ODD[kind]]))
    assert reply["completion"]["requests"] == 2 and len(reply["completion"]["retries"]) == 1


def test_a_compressed_reply_of_endless_zeros_is_a_fault():
    bomb = gzip.compress(bytes(MAX_BODY + 1))
    failed = fails(FaultServer(schedule=[headed(b"Content-Encoding: gzip\r\n", bomb)]), max_retries=0)
    assert "more than" in str(failed)


def test_connections_that_close_without_a_word_after_each_reply_lose_nothing():
    class Closing(ScriptServer):
        def reply(self, connection, request, completion):
            super().reply(connection, request, completion)
            asyncio.get_running_loop().call_later(0, asyncio.get_running_loop().call_soon, connection.close)

    async def run():
        async with Closing() as url:
            endpoint = Endpoint("m", url, tools="native", max_wait=0.01)
            replies = [await endpoint.start(seed).act(ASK, TOOLS) for seed in range(20)]
            await endpoint.close()
            return replies

    assert all(reply["tool_calls"] for reply in asyncio.run(run()))


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


class _SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock leaps to the next timer when nothing else is ready: what waits a minute is over at once."""

    def __init__(self):
        super().__init__()
        self._skipped = 0.0
        select = self._selector.select

        def skip(timeout=None):
            events = select(0.01 if timeout is None else min(timeout, 0.002))
            if not events and timeout is not None:
                self._skipped += timeout
            return events

        self._selector.select = skip

    def time(self):
        return super().time() + self._skipped


class _DyingServer(ScriptServer):
    """Stops at its 60th request, with every connection cut, and comes back on its port after `seconds`.

    loading: seconds of these, at their end, in which it answers 503, as llama.cpp's server does while it loads a model.
    """

    def __init__(self, seconds, loading=0.0):
        super().__init__(delay=0.002)
        self.seconds, self.loading = seconds, loading
        self.is_loading = False

    def chat(self, connection, request):
        if self.is_loading:
            connection.send(503, b'{"error":{"message":"Loading model"}}')
            return
        super().chat(connection, request)
        if self.requests == 60:
            self.restart = asyncio.get_running_loop().create_task(self.die())

    async def die(self):
        await self.stop()
        await asyncio.sleep(self.seconds - self.loading)
        self.is_loading = True
        await self.start()
        await asyncio.sleep(self.loading)
        self.is_loading = False


def _run_with(server, folder, **settings):
    async def run():
        async with server as url:
            agent = agent_from_model("m", Endpoint("m", url, tools="native", **settings))
            return await collect_async(factgym.make("claimcheck-multihop", split="train"), agent, folder, n=30)

    with asyncio.Runner(loop_factory=_SkippingLoop) as runner:
        return list(runner.run(run()).episodes())


@pytest.mark.parametrize(("seconds", "loading"), [(8, 0), (60, 0), (60, 30)])
def test_a_server_that_dies_for_a_while_loses_no_episode(tmp_path, seconds, loading):
    """With the endpoint's default settings."""
    episodes = _run_with(_DyingServer(seconds, loading), tmp_path)
    assert len(episodes) == 30 and not [episode["error"] for episode in episodes if episode["error"]]
    retries = [turn["completion"].get("retries", []) for episode in episodes for turn in episode["turns"]]
    waited = [sum(retry["waited"] for retry in turn) for turn in retries]
    assert seconds / 2 < max(waited) < seconds + 10
    causes = {retry["cause"] for turn in retries for retry in turn}
    assert causes == ({"connection", "server"} if loading else {"connection"})


def test_a_server_that_stays_away_longer_than_max_outage_ends_episodes_with_its_fault(tmp_path):
    episodes = _run_with(_DyingServer(600), tmp_path, max_outage=30)
    faults = [episode["error"] for episode in episodes if episode["error"]]
    assert faults and {fault["cause"] for fault in faults} == {"connection"}
    assert all("is the server running?" in fault["message"] for fault in faults)


def test_without_retries_a_server_that_is_gone_is_not_waited_for(tmp_path):
    episodes = _run_with(_DyingServer(8), tmp_path, max_retries=0)
    assert any(episode["error"] for episode in episodes)


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
