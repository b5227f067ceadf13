"""The exports of a hub package: a taskset with typed settings, an environment with local defaults, and our harness.

The harness plays the environment in process, with the model at the run's own endpoint: no tool server, no program to
install, no network but the endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import types
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import Any, cast

import verifiers.v1 as vf
from openai import APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import Field, SerializeAsAny, create_model, model_validator
from pydantic_config import BaseConfig

from factgym.agents.endpoint.faults import fault_of_status
from factgym.core.env import Env
from factgym.core.episode import Stop
from factgym.core.messages import Message
from factgym.core.registry import make, spec
from factgym.integrations.frameworks import Setting, class_name, make_arguments, settings_of
from factgym.integrations.session import Session, rows, training_config
from factgym.integrations.verifiers.task import (
    FactData,
    FactTask,
    FactTaskConfig,
    FactTools,
    FactToolsConfig,
    episode_result,
)

_default_certificates = cache(ssl.create_default_context)

_STOP_CONDITIONS = {"turn_limit": "max_turns"}
"""Stop reason -> verifiers' stop condition, where it has one that marks the trace as truncated."""

_REFUSED: dict[str, Stop] = {"overflow": "context_limit", "content_filter": "content_filter"}
"""Cause of a refused request -> stop reason."""

_LIMITS = {"max_turns": "turn_limit", "too_many_turns": "turn_limit"}
"""verifiers' stop condition -> stop reason; any other condition is a limit of length."""


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
        """Play the episode to its end, or to that of the run's time, and keep it in the trace's state."""
        task = cast(FactData, data)
        session = task.open()
        try:
            async with self._client(endpoint, secret) as client:
                await _play(client, ctx.model, session, _prompter(session.env, task.system_prompt), trace)
        except asyncio.CancelledError:
            if not session.env.slow_steps:  # a step of those may still run in its thread
                session.close("turn_limit")
            raise
        finally:
            if session.done:
                trace.state.result = episode_result(session)
        task.pool.release(session)
        stop = trace.state.result["stop"]
        trace.stop(_STOP_CONDITIONS.get(stop, stop))
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    def _client(self, endpoint: str, secret: str) -> AsyncOpenAI:
        # A client of the rollout's own, with one connection: a pool for all rollouts spends its time on the search for
        # a free one.
        verify = _default_certificates() if endpoint.startswith("https") else False
        return AsyncOpenAI(
            base_url=endpoint,
            api_key=secret,
            max_retries=self.config.max_retries,
            timeout=self.config.request_timeout,
            http_client=DefaultAsyncHttpxClient(verify=verify, trust_env=False),
        )


async def _play(
    client: AsyncOpenAI, model: str, session: Session, prompt: Callable[[], list[Message]], trace: vf.Trace
) -> None:
    """Request and step until the episode is over, or a limit of the run's refuses a request.

    The endpoint adds the run's sampling. Requests and replies are plain dicts: checking every message against the
    client's types takes longer than the episode.
    """
    env, episode = session.env, session.env.episode
    slow = env.slow_steps
    while episode.stop is None:
        body: dict[str, Any] = {"model": model, "messages": prompt()}
        if tools := env.available_tools():
            body["tools"] = tools
        try:
            completion: Any = await client.post("/chat/completions", cast_to=object, body=body)
        except APIStatusError as error:
            if trace.stop_condition is not None:
                session.close(cast(Stop, _LIMITS.get(trace.stop_condition, "length_limit")))
            elif stop := _REFUSED.get(fault_of_status(error.status_code, {}, error.response.content).cause):
                session.close(stop)
            else:
                raise
            return
        message = completion["choices"][0]["message"]
        if slow:
            await session.step_async(message)
        else:
            env.step(message)


def _prompter(env: Env[Any], system_prompt: str | None) -> Callable[[], list[Message]]:
    """The messages of the next request: the environment's, with the run's system prompt in place of its own."""
    first = env.policy_prompt()[0]
    own_prompt = first["content"] if first["role"] == "system" else None
    if system_prompt is None or system_prompt == own_prompt:
        return env.policy_prompt
    system: Message = {"role": "system", "content": system_prompt}

    def prompt() -> list[Message]:
        messages = env.policy_prompt()
        if own_prompt is None:
            return [system, *messages]
        return [
            {**message, "content": system_prompt}
            if message["role"] == "system" and message["content"] == own_prompt
            else message
            for message in messages
        ]

    return prompt


class FactEnvConfig(vf.SingleAgentEnvConfig):
    """The one seat runs on this machine: no sandbox, no login."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class FactEnv(vf.SingleAgentEnv, vf.Env[FactEnvConfig]):
    """One policy on one task. The tool server is started for harnesses that need it, and not for ours."""

    @contextlib.asynccontextmanager
    async def shared_tools(self) -> AsyncIterator[dict[str, Any]]:
        """The shared tool server, or none where every seat is played by our harness."""
        if all(isinstance(harness, FactHarnessConfig) for harness in self.config.agent_harnesses().values()):
            yield {}
            return
        async with super().shared_tools() as shared:
            yield shared


class FactTasksetConfig(vf.TasksetConfig):
    """Fields of every taskset of ours beside its environment's own settings."""

    task: SerializeAsAny[FactTaskConfig] = FactTaskConfig()


class FactTaskset(vf.Taskset[FactTask, FactTasksetConfig]):
    """The tasks of one environment, made one by one on iteration. `env_id`: the environment's."""

    env_id = ""

    def load(self) -> Iterator[FactTask]:
        """Yield the tasks in their order."""
        settings = changed_settings(self.env_id, self.config)
        arguments = make_arguments(self.env_id, settings)
        max_turns = make(self.env_id, **arguments).config.max_turns
        for row in rows(self.env_id, arguments):
            messages = list(row["prompt"])
            system = messages.pop(0)["content"] if messages[0]["role"] == "system" else None
            # Every harness takes a plain text; other prompts stay messages.
            single = len(messages) == 1 and messages[0]["role"] == "user"
            data = FactData(
                id=row["task"],
                name=row["task"],
                prompt=messages[0]["content"] if single else messages,
                system_prompt=system,
                env=self.env_id,
                settings=settings,
                task=row["task"],
                max_turns=max_turns,
            )
            yield FactTask(data, self.config.task)

    @classmethod
    def toolsets(cls, config: FactTasksetConfig) -> list[vf.Toolset]:
        """One server for all tasks: a corpus is loaded once."""
        if config.task.tool_server != "shared":
            return []
        return [FactTools(FactToolsConfig(env=cls.env_id, settings=changed_settings(cls.env_id, config)))]


def changed_settings(env_id: str, config: vf.TasksetConfig) -> dict[str, Any]:
    """Return the settings that differ from the environment's defaults, as plain values; with a training split by default."""
    values = config.model_dump(mode="json", include={setting.name for setting in settings_of(env_id)})
    arguments = make_arguments(env_id, values)
    split = training_config(env_id, arguments, strict=False).get("split")
    return {name: values[name] for name in arguments} | ({"split": split} if split else {})


@cache
def taskset_of(env_id: str) -> type[vf.Taskset]:
    """Return the taskset class of an environment; its configuration's fields are the environment's own settings."""
    name = class_name(env_id)

    def check(self: Any) -> Any:
        entry = spec(env_id)
        entry.load().Config.build(env_id, {**entry.kwargs, **make_arguments(env_id, changed_settings(env_id, self))})
        return self

    validators = {"settings_fit": model_validator(mode="after")(check)}
    config = _config_model(f"{name}Config", settings_of(env_id), FactTasksetConfig, validators)
    attributes = {"env_id": env_id, "__doc__": spec(env_id).summary, "__module__": __name__}
    bases = (FactTaskset, vf.Taskset[FactTask, config])
    return types.new_class(f"{name}Taskset", bases, {}, lambda namespace: namespace.update(attributes))


def _config_model(name: str, settings: tuple[Setting, ...], base: type[Any], validators: Any = None) -> Any:
    fields: dict[str, Any] = {}
    for setting in settings:
        hint, default = setting.hint, setting.default
        if setting.inner:
            hint = _config_model(f"{name}{setting.name.capitalize()}", setting.inner, BaseConfig)
            default = hint()  # where the setting is None by default, these equal the environment's own defaults
        fields[setting.name] = (hint, Field(default, description=setting.description or None))
    clash = fields.keys() & vf.TasksetConfig.model_fields.keys()
    assert not clash or base is BaseConfig, f"settings that verifiers has names for: {sorted(clash)}"
    return create_model(name, __base__=base, __validators__=validators, __module__=__name__, **fields)


def hub_environment(env_id: str) -> tuple[type[vf.Taskset], type[FactEnv], type[FactHarness]]:
    """Return the exports of an environment's package. Raises UnknownEnvError."""
    return taskset_of(env_id), FactEnv, FactHarness
