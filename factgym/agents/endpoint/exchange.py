"""The requests that one reply takes: faults that can pass are waited out, each one recorded.

What the model really said is never asked for again, however bad it is: that would be rejection sampling, and flatter
it. A reply without anything in it is asked for once more only where the server reports no token of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from factgym.agents.endpoint.client import Client
from factgym.agents.endpoint.faults import Fault
from factgym.agents.endpoint.reply import Reply, read_reply
from factgym.agents.endpoint.retry import backoff
from factgym.agents.endpoint.settings import EndpointSettings
from factgym.core.messages import Retry

_EMPTY = Fault("empty_reply", "the reply is empty, and no token of it is reported", again=True)


class Exchange:
    """Requests for one reply. requests, retries, notes: what it took, for the record."""

    def __init__(self, client: Client, settings: EndpointSettings, random: Callable[[], Random]) -> None:
        self._client = client
        self._settings = settings
        self._random = random
        self.requests = 0
        self.retries: list[Retry] = []
        self.notes: dict[str, Any] = {}

    async def reply(self, body: Callable[[int | None], bytes]) -> Reply | Fault:
        """The model's reply. body: the request, given the `max_tokens` that fit (None: as set, 0: left out)."""
        limit: int | None = None
        while True:
            outcome = await self._once(body(limit))
            if isinstance(outcome, Reply):
                if not outcome.empty:
                    return outcome
                if "empty_reply" in self.notes or not self._may_retry(_EMPTY):
                    self.notes["empty_reply"] = "returned as it came"
                    return outcome
                self.notes["empty_reply"] = "asked again"
                await self._wait(_EMPTY)
            elif outcome.room is not None and limit is None:
                limit = self.notes["max_tokens"] = outcome.room
            elif self._may_retry(outcome):
                await self._wait(outcome)
            else:
                return self._final(outcome)

    async def _once(self, body: bytes) -> Reply | Fault:
        self.requests += 1
        answer = await self._client.chat(body)
        if isinstance(answer, Fault):
            return answer
        outcome = read_reply(answer, self._settings.reasoning == "keep")
        return self._client.redacted(outcome) if isinstance(outcome, Fault) else outcome

    async def ask(
        self, request: Callable[[], Any], hopeless: Callable[[Fault], bool] = lambda _: False
    ) -> bytes | Fault:
        """The bytes of any other answer. hopeless: faults that asking again cannot help, although they look like it."""
        while True:
            self.requests += 1
            answer: bytes | Fault = await request()
            if not isinstance(answer, Fault):
                return answer
            if hopeless(answer) or not self._may_retry(answer):
                return self._final(answer)
            await self._wait(answer)

    def _may_retry(self, fault: Fault) -> bool:
        if not fault.again or len(self.retries) >= self._settings.max_retries:
            return False
        return fault.asked is None or fault.asked <= self._settings.max_wait

    async def _wait(self, fault: Fault) -> None:
        waited = backoff(self._random(), len(self.retries), self._settings.max_wait, fault.asked)
        self.retries.append({"cause": fault.cause, "waited": round(waited, 4)})
        await asyncio.sleep(waited)

    def _final(self, fault: Fault) -> Fault:
        """The fault with what is known of its history."""
        parts = [fault.message]
        if fault.asked is not None and fault.asked > self._settings.max_wait:
            parts.append(f"; it asks to wait {fault.asked:.0f} s, above max_wait ({self._settings.max_wait:g} s)")
        if self.requests > 1:
            parts.append(f" (after {self.requests} requests)")
        return replace(fault, message="".join(parts))
