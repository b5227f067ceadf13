"""The local server without a model: its script plays real episodes, for any client, after its delay."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import subprocess
import sys
import time
from typing import Any

import openai
import pytest

import factgym
from factgym.agents.endpoint import Endpoint
from factgym.agents.script_server import MODEL, ScriptServer, scripted_reply


def played(policy_of, tasks=(0, 1, 2)):
    """Each task's environment after its episode. policy_of: from the server's URL, a client and how it acts."""

    async def run():
        async with ScriptServer() as url:
            client, act = policy_of(url)
            result = []
            for task in tasks:
                env = factgym.make("claimcheck-multihop", split="test")
                env.reset(seed=0, options={"task": task})
                while env.episode.stop is None:
                    env.step(await act(env))
                result.append(env)
            await client.close()
            return result

    return asyncio.run(run())


def check(envs, native):
    for env in envs:
        calls = [turn.results[0] for turn in env.episode.turns]
        assert [(call.tool, call.error) for call in calls] == [("search", None), ("read", None), ("submit", None)]
        assert env.episode.stop == "submitted" and env.episode.report.status == "scored"
        query = calls[0].arguments["query"]
        assert query in env.policy_prompt()[1]["content"] and len(query) > 10
        cited = calls[2].arguments["evidence_used"]
        assert cited == [calls[1].arguments["id"]]
        quote = calls[2].arguments["claims"][0]["quote"]
        assert quote and quote in env.episode.turns[1].observation
        assert ("tool" in {message["role"] for message in env.episode.messages}) == native


@pytest.mark.parametrize("mode", ["native", "text"])
def test_the_script_plays_episodes_through_the_endpoint(mode):
    def policy_of(url):
        endpoint = Endpoint(MODEL, url, tools=mode)

        async def act(env):
            reply = await endpoint.act(env.policy_prompt(), env.available_tools())
            assert reply["completion"]["usage"]["prompt_tokens"] > 100
            return reply

        return endpoint, act

    check(played(policy_of), mode == "native")


@pytest.mark.parametrize("native", [True, False])
def test_the_script_plays_episodes_through_the_plain_openai_client(native):
    """Its own way of writing JSON, and its own reading of the reply."""

    def policy_of(url):
        client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

        async def act(env):
            tools = {"tools": env.available_tools()} if native else {}
            reply = await client.chat.completions.create(model=MODEL, messages=env.policy_prompt(), **tools)
            return reply.choices[0].message.model_dump(exclude_none=True)

        return client, act

    check(played(policy_of), native)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_turns_are_counted_whatever_the_texts_hold(separators):
    claim = 'A "quoted" \\ claim.\n{"role":"assistant"} "tools":[ <evidence id="E9"> ü \U0001f600'
    messages = [
        {"role": "user", "content": f"Question: q\n\nAnswer to check: <answer qzkv>{claim}</answer qzkv>"},
        {"role": "assistant", "content": '{"role":"assistant"}'},
        {"role": "user", "content": '<result id="P-7" title="t">x</result>'},
    ]

    def reply(count, ascii_only):
        body = json.dumps({"messages": messages[:count]}, separators=separators, ensure_ascii=ascii_only).encode()
        text = json.loads(scripted_reply(body))["choices"][0]["message"]["content"]
        return json.loads(text.removeprefix("<tool_call>").removesuffix("</tool_call>"))

    for ascii_only in (True, False):
        assert reply(1, ascii_only) == {"name": "search", "arguments": {"query": claim}}
        assert reply(3, ascii_only) == {"name": "read", "arguments": {"id": "P-7"}}


def test_hundreds_are_answered_together_after_the_delay():
    async def run():
        async with ScriptServer(delay=0.3) as url:
            endpoint = Endpoint(MODEL, url, tools="native")
            ask = [{"role": "user", "content": "Answer to check: x"}]
            ready = time.monotonic()
            await endpoint.act(ask, [])
            item = time.monotonic() - ready
            replies = await asyncio.gather(*(endpoint.act(ask, []) for _ in range(300)))
            await endpoint.close()
            return item, replies

    item, replies = asyncio.run(run())
    assert item >= 0.3
    assert len(replies) == 300


def test_requests_in_pieces_and_in_a_row_are_answered_in_order():
    async def run():
        async with ScriptServer() as url:
            port = int(url.rsplit(":", 1)[1].partition("/")[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            body = json.dumps({"messages": [{"role": "user", "content": "Answer to check: x"}]}).encode()
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nCONTENT-LENGTH: %d\r\n\r\n" % len(body)
            data = head + body + b"GET /v1/models HTTP/1.1\r\n\r\n" + b"GET /nowhere HTTP/1.1\r\n\r\n"
            for at in range(0, len(data), 37):
                writer.write(data[at : at + 37])
                await writer.drain()
            result = []
            for _ in range(3):
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
                size = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
                result.append((lines[0].split()[1], json.loads(await reader.readexactly(size))))
            writer.close()
            return result

    chat, models, nowhere = asyncio.run(run())
    assert (chat[0], models[0], nowhere[0]) == ("200", "200", "404")
    assert chat[1]["choices"][0]["finish_reason"] == "stop"
    assert models[1]["data"][0]["id"] == MODEL


def test_the_command_prints_its_url_and_serves():
    command = [sys.executable, "-m", "factgym.agents.script_server", "--port", "0", "--delay-ms", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:") and url.endswith("/v1")
            with openai.OpenAI(base_url=url, api_key="none") as client:
                assert [model.id for model in client.models.list()] == [MODEL]
        finally:
            server.terminate()


async def complete_reply(chat: openai.AsyncOpenAI, **request: Any) -> dict[str, Any]:
    completion = await chat.chat.completions.create(model=MODEL, **request)
    message = completion.choices[0].message
    calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []]
    return {
        "content": message.content,
        "calls": calls,
        "end": completion.choices[0].finish_reason,
        "usage": completion.usage,
    }


async def streamed_reply(chat: openai.AsyncOpenAI, **request: Any) -> dict[str, Any]:
    content, calls, end, usage = "", [], None, None
    stream = await chat.chat.completions.create(
        model=MODEL, stream=True, stream_options={"include_usage": True}, **request
    )
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            content += choice.delta.content or ""
            end = choice.finish_reason or end
            calls += [(call.id, call.function.name, call.function.arguments) for call in choice.delta.tool_calls or []]
    return {"content": content or None, "calls": calls, "end": end, "usage": usage}


async def compare_replies(tools: bool) -> None:
    env = factgym.make("claimcheck-multihop")
    env.reset(options={"task": 0})
    request: dict[str, Any] = {"messages": env.policy_prompt()}
    if tools:
        request["tools"] = list(env.available_tools())
    async with ScriptServer() as url, openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as chat:
        complete, in_chunks = await complete_reply(chat, **request), await streamed_reply(chat, **request)
    usage = complete.pop("usage"), in_chunks.pop("usage")
    assert complete == in_chunks
    assert bool(complete["calls"]) == tools
    assert usage[0].completion_tokens == usage[1].completion_tokens > 0


def test_a_stream_has_the_content_of_the_complete_reply() -> None:
    for tools in (True, False):
        asyncio.run(compare_replies(tools))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("turns", range(5))
def test_a_connection_that_is_accepted_while_the_server_stops_is_closed(turns):
    async def go():
        server = await ScriptServer().start()
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.stop()
            client.settimeout(10)
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""

    asyncio.run(go())
    gc.collect()  # what was left open warns here
