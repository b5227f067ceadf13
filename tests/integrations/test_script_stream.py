"""The script server streams what it says, to harnesses that ask for a stream."""

from __future__ import annotations

import asyncio
from typing import Any

from openai import AsyncOpenAI

from factgym.agents.script_server import MODEL, ScriptServer
from factgym.integrations.session import Session


async def said(chat: AsyncOpenAI, **request: Any) -> dict[str, Any]:
    whole = await chat.chat.completions.create(model=MODEL, **request)
    message = whole.choices[0].message
    calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []]
    return {"content": message.content, "calls": calls, "end": whole.choices[0].finish_reason, "usage": whole.usage}


async def streamed(chat: AsyncOpenAI, **request: Any) -> dict[str, Any]:
    content, calls, end, usage = "", [], None, None
    stream = await chat.chat.completions.create(
        model=MODEL, stream=True, stream_options={"include_usage": True}, **request
    )
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            content += choice.delta.content or ""
            end = choice.finish_reason or end
            calls += [(one.id, one.function.name, one.function.arguments) for one in choice.delta.tool_calls or []]
    return {"content": content or None, "calls": calls, "end": end, "usage": usage}


async def both(tools: bool) -> None:
    session = Session("claimcheck-multihop")
    request: dict[str, Any] = {"messages": session.start(0), **({"tools": session.tools()} if tools else {})}
    async with ScriptServer() as url, AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as chat:
        whole, pieces = await said(chat, **request), await streamed(chat, **request)
    asked = whole.pop("usage"), pieces.pop("usage")
    assert whole == pieces
    assert bool(whole["calls"]) == tools
    assert asked[0].completion_tokens == asked[1].completion_tokens > 0


def test_a_stream_holds_what_the_whole_answer_holds() -> None:
    for tools in (True, False):
        asyncio.run(both(tools))
