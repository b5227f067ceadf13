"""Whether a server takes tools natively, found out by asking it: once for each model.

A server that cannot refuses the request, or leaves the tools out of the prompt without a word; the second shows in its
count of the prompt's tokens. A server that takes the tools but parses no calls out of the text stays native: the
environment reads calls in text, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from factgym.agents.endpoint.faults import Fault
from factgym.agents.endpoint.reply import read_reply

FoundMode = Literal["native", "text"]

Ask = Callable[[bytes | None], Awaitable[bytes | Fault]]
"""Asks a tiny question, with tools (a JSON list) or without, infrastructure faults being retried."""


async def probe(ask: Ask, tools: bytes) -> FoundMode | Fault:
    """The mode that the server can do, or the fault that kept us from finding out."""
    with_tools = await ask(tools)
    if isinstance(with_tools, Fault):
        if with_tools.about_tools:
            return "text"
        if with_tools.cause != "bad_request":
            return with_tools
        return with_tools if isinstance(await ask(None), Fault) else "text"
    without = await ask(None)
    if isinstance(without, Fault):
        return "native"
    counts = [_prompt_tokens(one) for one in (with_tools, without)]
    return "text" if counts[0] is not None and counts[0] == counts[1] else "native"


def _prompt_tokens(body: bytes) -> int | None:
    reply = read_reply(body)
    usage = {} if isinstance(reply, Fault) else reply.completion.get("usage", {})
    return usage.get("prompt_tokens") or None
