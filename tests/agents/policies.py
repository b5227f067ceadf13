"""Policies for the tests of the engine; the file is also given to `--agent` as a user's own."""

from __future__ import annotations

import asyncio
import json
import random
import time

from factgym.core.policy import ContextOverflowError, PolicyError


def submission(verdict="supported"):
    claim = {"claim": "x", "status": "supported", "evidence_ids": [], "quote": "", "unsupported_span": ""}
    arguments = json.dumps({"claims": [claim], "final_verdict": verdict})
    call = {"id": "1", "type": "function", "function": {"name": "submit", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def search(words):
    return f'<tool_call>{{"name": "search", "arguments": {{"query": "{words}"}}}}</tool_call>'


VERDICTS = ("supported", "contradicted", "unsupported", "overclaim", "partially_supported")


class Seeded:
    """Waits a little, searches, then submits a verdict that its seed chose. One object an episode."""

    def __init__(self, seed=0, wait=0.0):
        self.seed = seed
        self.wait = wait

    def start(self, seed):
        return Seeded(seed, self.wait)

    async def act(self, messages, tools):
        await asyncio.sleep(self.wait)
        if len(messages) < 4:
            return search("days of notice")
        message = submission(random.Random(self.seed).choice(VERDICTS))
        message["completion"] = {
            "raw": {"content": "…"},
            "model": "seeded",
            "finish_reason": "stop",
            "usage": {"prompt_tokens": 100, "completion_tokens": 7, "reasoning_tokens": 2},
            "requests": 2,
            "retries": [{"cause": "rate_limit", "waited": 0.5}],
        }
        return message


class Flaky(Seeded):
    """Fails for the infrastructure's sake in a third of its episodes, as long as `broken` holds."""

    broken = True

    def start(self, seed):
        if self.broken and seed % 3 == 0:
            raise PolicyError("rate_limit", "the server is busy")
        return Seeded(seed)


class Slow:
    """Blocks; counts how many calls ran at a time."""

    running = peak = 0

    def act(self, messages, tools):
        Slow.running += 1
        Slow.peak = max(Slow.peak, Slow.running)
        time.sleep(0.002)
        Slow.running -= 1
        return submission()


class Overflowing:
    async def act(self, messages, tools):
        if len(messages) > 2:
            raise ContextOverflowError("8192 tokens and no more")
        return search("days")


class Hanging:
    async def act(self, messages, tools):
        if len(messages) > 2:
            await asyncio.sleep(3600)
        return search("days")


class Broken:
    def act(self, messages, tools):
        raise ZeroDivisionError("a bug of the user's")


class Wanting:
    """Takes a setting."""

    def __init__(self, verdict):
        self.verdict = verdict

    def act(self, messages, tools):
        return submission(self.verdict)


def answer(messages, tools):
    return submission()


def answer_object():
    return Wanting("supported")


ready = Wanting("contradicted")

nothing = 5
