"""What a hub package exports: a taskset with typed settings, an environment with local defaults, our harness."""

from __future__ import annotations

import contextlib
import types
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

import verifiers.v1 as vf
from pydantic import Field, SerializeAsAny, create_model, model_validator
from pydantic_config import BaseConfig

from factgym.core.messages import Message
from factgym.core.registry import make, spec
from factgym.integrations.session import rows
from factgym.integrations.settings import Setting, keywords, settings_of
from factgym.integrations.verifiers.harness import FactHarness, FactHarnessConfig
from factgym.integrations.verifiers.task import FactData, FactTask, FactTaskConfig, FactTools, FactToolsConfig


class FactEnvConfig(vf.SingleAgentEnvConfig):
    """The one seat runs on this machine: no sandbox, no login."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class FactEnv(vf.SingleAgentEnv, vf.Env[FactEnvConfig]):
    """One policy on one task. The tool server is started for harnesses that need it, and not for ours."""

    @contextlib.asynccontextmanager
    async def shared_tools(self) -> AsyncIterator[dict[str, Any]]:
        """The shared tool server, or none where every seat is played by our harness."""
        if all(isinstance(one, FactHarnessConfig) for one in self.config.agent_harnesses().values()):
            yield {}
            return
        async with super().shared_tools() as shared:
            yield shared


class FactTasksetConfig(vf.TasksetConfig):
    """What every taskset of ours has beside its environment's own settings."""

    task: SerializeAsAny[FactTaskConfig] = FactTaskConfig()


class FactTaskset(vf.Taskset[FactTask, FactTasksetConfig]):
    """The tasks of one environment, made one by one as they are asked for. `env_id`: whose."""

    env_id = ""

    def load(self) -> Iterator[FactTask]:
        """The tasks in their order."""
        settings = plain_settings(self.env_id, self.config)
        arguments = keywords(self.env_id, settings)
        max_turns = make(self.env_id, **arguments).config.max_turns
        for row in rows(self.env_id, arguments):
            system, prompt = _prompt(row["prompt"])
            data = FactData(
                id=row["task"],
                name=row["task"],
                prompt=prompt,
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
        return [FactTools(FactToolsConfig(env=cls.env_id, settings=plain_settings(cls.env_id, config)))]


def _prompt(messages: list[Message]) -> tuple[str | None, Any]:
    """The system prompt, and the rest: a plain text where that is one user message, which every harness takes."""
    rest = list(messages)
    system = rest.pop(0)["content"] if rest[0]["role"] == "system" else None
    if len(rest) == 1 and rest[0]["role"] == "user":
        return system, rest[0]["content"]
    return system, rest


def plain_settings(env_id: str, config: vf.TasksetConfig) -> dict[str, Any]:
    """The settings that differ from the environment's defaults, as plain values."""
    names = {one.name for one in settings_of(env_id)}
    values = config.model_dump(mode="json", include=names)
    return {name: values[name] for name in keywords(env_id, values)}


@cache
def taskset_of(env_id: str) -> type[vf.Taskset]:
    """The taskset class of an environment; its configuration's fields are the environment's own settings."""
    name = "".join(part.capitalize() for part in env_id.replace("_", "-").split("-"))
    config = _config_model(f"{name}Config", settings_of(env_id), FactTasksetConfig, _checked(env_id))

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(env_id=env_id, __doc__=spec(env_id).summary, __module__=__name__)

    return types.new_class(f"{name}Taskset", (FactTaskset, vf.Taskset[FactTask, config]), {}, fill)


def _config_model(name: str, settings: tuple[Setting, ...], base: type[Any], validators: Any = None) -> Any:
    found: dict[str, Any] = {}
    for one in settings:
        hint, default = one.hint, one.default
        if one.inner:
            hint = _config_model(f"{name}{one.name.capitalize()}", one.inner, BaseConfig)
            default = hint()  # of a configuration that is None by default: its own defaults, which say the same
        found[one.name] = (hint, Field(default, description=one.about or None))
    clash = found.keys() & vf.TasksetConfig.model_fields.keys()
    assert not clash or base is BaseConfig, f"settings that verifiers has names for: {sorted(clash)}"
    return create_model(name, __base__=base, __validators__=validators, __module__=__name__, **found)


def _checked(env_id: str) -> dict[str, Any]:
    def check(self: Any) -> Any:
        entry = spec(env_id)
        entry.load().Config.build(env_id, {**entry.kwargs, **keywords(env_id, plain_settings(env_id, self))})
        return self

    return {"settings_fit": model_validator(mode="after")(check)}


def hub_environment(env_id: str) -> tuple[type[vf.Taskset], type[FactEnv], type[FactHarness]]:
    """What the package of an environment exports. Raises UnknownEnvError."""
    return taskset_of(env_id), FactEnv, FactHarness
