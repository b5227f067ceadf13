"""Integration with the Model Context Protocol: any client of it can be the policy. `factgym serve mcp ENV`.

One session is one episode. The tools are those that are open, under their own names; where they change with the stage
the client is told. The task is the prompt "task", and the server's instructions. A new session is the next task. What
the episode earned is kept from the client, which is the policy, unless the server is told to show it.

Over HTTP an episode needs the session that the handshake versions of the protocol have; a client that asks for the
version without sessions is told which ones are spoken, and clients fall back. Over stdio the process is the session.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.agent import Agent
from factgym.agents.resolve import scripted_agents
from factgym.agents.rollout.jobs import Job, jobs_of, task_order
from factgym.agents.rollout.record import Act, Log, record
from factgym.agents.runs.collect import manifest_of
from factgym.agents.runs.write import RunWriter
from factgym.core.action import encode_json, parse_action
from factgym.core.calls import ToolCall
from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.messages import Message
from factgym.integrations.http import serve_app
from factgym.integrations.session import Session

try:
    import mcp_types as types
    from mcp.server import Server
    from mcp.server.lowlevel import NotificationOptions
    from mcp.server.stdio import stdio_server
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
    from mcp.shared.exceptions import MCPError
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] not in ("mcp", "mcp_types"):
        raise
    raise MissingExtraError("The MCP integration", "mcp") from missing

__all__ = ["Episodes", "FactServer", "serve_http", "serve_stdio"]

PROMPT = "task"
REPLY = "reply"
"""The tool through which a text is said, in environments where a text is the answer."""

META = "factgym"
"""Key of a result's `_meta` that says task, stage, error, turns_left and stop; and the report, where it is shown."""

_PLAY = "factgym.play"


class Episodes:
    """Gives every session its task and keeps what was played.

    task: an id or index, for every session; else the tasks follow in the order that `seed` gives, as in `factgym eval`,
    and begin again when all are played. out: a run's folder to which finished episodes are appended; one that is there
    is continued, with the tasks that it lacks. Raises what `make` and `RunWriter` raise; use it as a context manager.
    """

    def __init__(
        self,
        env_id: str,
        config: Mapping[str, Any] | None = None,
        *,
        task: str | int | None = None,
        seed: int = 0,
        show_reward: bool = False,
        out: Path | None = None,
    ) -> None:
        self.env_id, self.config, self.show_reward = env_id, dict(config or {}), show_reward
        self.template = self.session()
        env = self.template.env
        self._order = task_order(len(env.tasks), None, seed) if task is None else [_index(self.template, task)]
        self._seed = seed
        agent = Agent("mcp", lambda env, seed: None, lambda: {"kind": "mcp client"})  # type: ignore[arg-type,return-value]
        manifest = manifest_of(env, agent, len(self._order), 1, seed)
        self._writer = RunWriter(out, manifest, resume=True) if out is not None else None
        self._jobs = self._all_jobs()
        self._running: set[Play] = set()
        self.speaks = _text_is_the_answer(self.template)

    def session(self) -> Session:
        """A session of the environment, of which nothing is played."""
        return Session(self.env_id, **self.config)

    def _all_jobs(self) -> Iterator[Job]:
        for sample in count():
            for job in jobs_of(self._order, sample + 1, self._seed):
                if job.sample == sample:
                    left = self._writer.remaining(job) if self._writer else job
                    if left is not None:
                        yield left

    def start(self) -> Play:
        """The next episode."""
        play = Play(self, next(self._jobs))
        self._running.add(play)
        return play

    def keep(self, play: Play) -> None:
        """Append a finished episode to the run."""
        self.forget(play)
        if self._writer is not None:
            self._writer.add(record(play.session.env, "mcp", play.job, play.log))

    def forget(self, play: Play) -> None:
        """Count an episode as under way no longer."""
        self._running.discard(play)

    def close(self) -> None:
        """End the episodes that are under way, and let go of the run's folder."""
        for play in list(self._running):
            play.leave()
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Episodes:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _index(session: Session, task: str | int) -> int:
    """The index of a task by its id, or by its index as a number or text."""
    try:
        session.start(task)
    except ConfigError:
        if not isinstance(task, str) or not task.isdecimal():
            raise
        session.start(int(task))
    return session.env.episode.index


def _text_is_the_answer(template: Session) -> bool:
    """Whether episodes end with a text instead of a call: what the oracle does; without one, whether there are tools."""
    session = copy.copy(template)
    session.env = copy.deepcopy(template.env)
    session.start(0)
    oracle = next((one for one in scripted_agents(session.env.env_spec.id).values() if one.role == "oracle"), None)
    if oracle is None:
        return not session.tools()
    policy = oracle.start(session.env, 0)
    said: Any = None
    while not session.done:
        said = policy.act(session.messages, session.tools())
        session.say(said)
    env = session.env
    return not any(isinstance(one, ToolCall) for one in parse_action(said, tags=env.tags, implicit=env.implicit).items)


class Play:
    """One episode under way: what a session of the protocol holds."""

    def __init__(self, episodes: Episodes, job: Job) -> None:
        self.episodes, self.job, self.log = episodes, job, Log()
        self.session = episodes.session()
        self.first = self.session.start(job.index)
        self._one_at_a_time = asyncio.Lock()
        self._began = self._last = time.perf_counter()
        self._kept = False

    def tools(self) -> list[types.Tool]:
        """The tools that are open; none when the episode is over."""
        if self.session.done:
            return []
        found = [_tool(schema["function"]) for schema in self.session.tools()]
        return [*found, _REPLY_TOOL] if self.episodes.speaks else found

    async def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[types.CallToolResult, bool]:
        """Play a call; its result, and whether other tools are open now."""
        async with self._one_at_a_time:
            before = self._open()
            text = await self._turn(name, arguments)
            self._end_if_over()
            return self._result(text), before != self._open()

    def _open(self) -> list[str] | None:
        """The names of the tools that are open; None when the episode is over."""
        env = self.session.env
        return None if self.session.done else [schema["function"]["name"] for schema in env.available_tools()]

    async def _turn(self, name: str, arguments: Mapping[str, Any]) -> str:
        session = self.session
        asked = time.perf_counter()
        act = Act(session.messages, session.tools(), model_seconds=asked - self._last)
        if not session.done:
            self.log.acts.append(act)
        if name == REPLY and self.episodes.speaks:
            new = await session.say_async(str(arguments.get("text", "")))
            text = "\n\n".join(message["content"] or "" for message in new)
        else:
            text = await session.call_async(name, arguments)
        self._last = time.perf_counter()
        act.step_seconds = self._last - asked
        return text

    def _result(self, text: str) -> types.CallToolResult:
        session = self.session
        turn = session.env.episode.turns[-1]
        left = session.env.config.max_turns - len(session.env.episode.turns)
        meta: dict[str, Any] = {
            "task": session.task,
            "stage": session.env.stage,
            "error": turn.error,
            "turns_left": left,
        }
        content: list[Any] = [types.TextContent(text=text)]
        if session.done:
            meta["stop"] = session.stop
            if self.episodes.show_reward:
                meta["report"] = session.close().to_dict()
                content.append(types.TextContent(text=f"Reward report: {encode_json(meta['report'])}"))
        return types.CallToolResult(content=content, is_error=turn.error is not None, _meta={META: meta})

    def _end_if_over(self) -> None:
        if not self.session.done or self._kept:
            return
        self._kept = True
        report = self.session.close()
        if report.status == "error":
            self.log.error = {"cause": "environment", "message": report.error or ""}
        self.log.seconds = time.perf_counter() - self._began
        self.episodes.keep(self)

    def leave(self) -> None:
        """The client has gone: what it began is scored as it stands; an episode without a turn was none."""
        self.episodes.forget(self)
        if self.session.env.episode.turns:
            self.session.close()
            self._end_if_over()


def _tool(function: Mapping[str, Any]) -> types.Tool:
    return types.Tool(
        name=function["name"], description=function.get("description"), input_schema=dict(function["parameters"])
    )


_REPLY_TOOL = types.Tool(
    name=REPLY,
    description="Say a text, in the form that the task asks for.",
    input_schema={
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
)


class FactServer(Server[Any]):
    """The protocol's server over `episodes`, for stdio, for HTTP, and for clients in this process."""

    def __init__(self, episodes: Episodes) -> None:
        self._bus = InMemorySubscriptionBus()
        super().__init__(
            "factgym",
            version=factgym.__version__,
            title=episodes.template.env.env_spec.versioned,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        self.episodes = episodes
        self._sole: Play | None = None
        self.middleware.append(self._checked)

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *rest: Any, **options: Any
    ) -> Any:
        """The server's; clients are told that the tools change."""
        told = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(told, *rest, **options)

    async def _checked(self, ctx: Any, call_next: Callable[[Any], Any]) -> Any:
        """Refuses sessionless requests over HTTP, and puts the session's task into what opens it."""
        if ctx.request is not None and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(
                types.UNSUPPORTED_PROTOCOL_VERSION,
                "an episode needs a session: open one with the initialize handshake",
                {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": ctx.protocol_version},
            )
        result = await call_next(ctx)
        if ctx.method not in ("initialize", "server/discover"):
            return result
        return {**result, "instructions": _joined(self.play_of(ctx).first)}

    def play_of(self, ctx: Any) -> Play:
        """The episode of a request's session, begun with the session's first request."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:  # no connection outlives a request: there is one client
            if self._sole is None:
                self._sole = self.episodes.start()
            return self._sole
        connection = ctx.session._connection
        if _PLAY not in connection.state:
            play = connection.state[_PLAY] = self.episodes.start()
            connection.exit_stack.callback(play.leave)
        found: Play = connection.state[_PLAY]
        return found

    async def _list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.play_of(ctx).tools())

    async def _call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        result, changed = await self.play_of(ctx).call(params.name, params.arguments or {})
        if changed and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self._bus.publish(ToolsListChanged())
        elif changed:  # on the call's own stream, which is there in every transport
            await ctx.session.send_notification(types.ToolListChangedNotification(), ctx.request_id)
        return result

    async def _list_prompts(self, ctx: Any, params: Any) -> types.ListPromptsResult:
        prompt = types.Prompt(name=PROMPT, description="What the policy sees now: the task, and what was said since.")
        return types.ListPromptsResult(prompts=[prompt])

    async def _get_prompt(self, ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != PROMPT:
            raise MCPError(types.INVALID_PARAMS, f"there is one prompt, {PROMPT!r}")
        return types.GetPromptResult(messages=_prompt_messages(self.play_of(ctx).session.messages))


def _joined(messages: Sequence[Message]) -> str:
    return "\n\n".join(message["content"] or "" for message in messages)


def _prompt_messages(messages: Sequence[Message]) -> list[types.PromptMessage]:
    """The messages as the protocol has them: user and assistant alone, calls and their answers as text."""
    system = [message for message in messages if message["role"] == "system"]
    rest = [message for message in messages if message["role"] != "system"]
    found = []
    for number, message in enumerate(rest):
        text = _joined([*system, message]) if number == 0 else _text(message)
        role: Any = "assistant" if message["role"] == "assistant" else "user"
        found.append(types.PromptMessage(role=role, content=types.TextContent(text=text)))
    return found


def _text(message: Message) -> str:
    calls = [call["function"] for call in message.get("tool_calls") or []]
    lines = [f"{call['name']}({call['arguments']})" for call in calls]
    return "\n".join([message["content"] or "", *lines] if message["content"] else lines)


async def serve_stdio(episodes: Episodes) -> None:
    """Serve the one client at the other end of this process's standard streams, until it hangs up.

    SIGINT and SIGTERM end the process at once, the episode kept: reading from a standard stream cannot be called off.
    """
    server = FactServer(episodes)
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not everywhere, and in the main thread
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, _stop, episodes, 128 + one)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _stop(episodes: Episodes, status: int) -> None:
    episodes.close()
    os._exit(status)


async def serve_http(
    episodes: Episodes, host: str, port: int, ready: Callable[[str], None] = lambda url: None
) -> None:
    """Serve streamable HTTP at `/mcp` until the process is told to stop. port: 0 for a free one; ready gets the URL."""
    app = FactServer(episodes).streamable_http_app(host=host)
    await serve_app(app, host, port, lambda url: ready(f"{url}/mcp"))
