"""The harness that packages bring along: the environment in process, the model through the run's own endpoint.

No tool server, no program to install, no network but the endpoint. Calls that are malformed are the environment's to
answer; requests that fail for the server's sake are made again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import verifiers.v1 as vf
from openai import APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient

from factgym.agents.endpoint.faults import fault_of_status
from factgym.core.env import Env
from factgym.core.episode import Stop
from factgym.core.messages import Message
from factgym.integrations.session import Session
from factgym.integrations.verifiers.task import FactData, result_of

_STOPS = {"turn_limit": "max_turns"}
"""Our word for a stop -> verifiers', where it has one that marks the trace as truncated."""

_LIMITS = {"max_turns": "turn_limit", "too_many_turns": "turn_limit"}


class FactHarnessConfig(vf.HarnessConfig):
    """max_retries: of a request that met 408, 409, 429, 5xx or a broken connection. request_timeout: seconds for a reply."""

    max_retries: int = 6
    request_timeout: float = 600.0


class FactHarness(vf.Harness[FactHarnessConfig]):
    """Plays the environment of a `FactTask` in this process."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Play the episode to its end, or to that of the run's time, and leave it in the trace's state."""
        task = cast(FactData, data)
        session = task.open()
        try:
            async with self._client(endpoint, secret) as chat:
                await _play(chat, ctx.model, session, _shown_by(session.env, task.system_prompt), trace)
        except asyncio.CancelledError:
            if not session.env.slow_steps:  # a step of those may still run in its thread
                session.close("turn_limit")
            raise
        finally:
            if session.done:
                trace.state.result = result_of(session)
        task.release(session)
        stop = trace.state.result["stop"]
        trace.stop(_STOPS.get(stop, stop))
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    def _client(self, endpoint: str, secret: str) -> AsyncOpenAI:
        """A client of the rollout's own, with one connection: a pool for all rollouts spends its time looking for a
        free one."""
        http = DefaultAsyncHttpxClient(
            verify=_certificates() if endpoint.startswith("https") else False, trust_env=False
        )
        return AsyncOpenAI(
            base_url=endpoint,
            api_key=secret,
            max_retries=self.config.max_retries,
            timeout=self.config.request_timeout,
            http_client=http,
        )


@cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


async def _play(
    chat: AsyncOpenAI, model: str, session: Session, shown: Callable[[], list[Message]], trace: vf.Trace
) -> None:
    """Ask and step until the episode is over, or a limit of the run's refuses a request.

    The run's sampling is put in by the endpoint. Requests go out as they stand, and messages come in as the server sent
    them: checking every message against the client's types takes longer than the episode.
    """
    env, episode = session.env, session.env.episode
    slow = env.slow_steps
    while episode.stop is None:
        body: dict[str, Any] = {"model": model, "messages": shown()}
        if tools := env.available_tools():
            body["tools"] = tools
        try:
            answer: Any = await chat.post("/chat/completions", cast_to=object, body=body)
        except APIStatusError as error:
            session.close(_limit(error, trace))
            return
        message = answer["choices"][0]["message"]
        if slow:
            await session.say_async(message)
        else:
            env.step(message)


def _shown_by(env: Env[Any], system_prompt: str | None) -> Callable[[], list[Message]]:
    """The messages of the next request: the environment's, with the system prompt that the run puts in its place."""
    first = env.policy_prompt()[0]
    own = first["content"] if first["role"] == "system" else None
    if system_prompt is None or system_prompt == own:
        return env.policy_prompt

    def shown() -> list[Message]:
        messages = env.policy_prompt()
        if own is None:
            return [{"role": "system", "content": system_prompt}, *messages]
        return [
            _with(one, system_prompt) if one["role"] == "system" and one["content"] == own else one for one in messages
        ]

    return shown


def _with(message: Message, content: str | None) -> Message:
    changed = message.copy()
    changed["content"] = content
    return changed


def _limit(error: APIStatusError, trace: vf.Trace) -> Stop:
    """The limit that refused a request; the error itself where it was none."""
    if trace.stop_condition is not None:
        return cast(Stop, _LIMITS.get(trace.stop_condition, "length_limit"))
    body = error.response.content
    if fault_of_status(error.status_code, {}, body).cause == "overflow":
        return "context_limit"
    raise error
