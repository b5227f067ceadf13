"""The smallest environment: three tasks, four tools, no toolbox. It shows what the base class owns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from factgym.core.calls import ToolCall
from factgym.core.config import EnvConfig
from factgym.core.env import Env
from factgym.core.episode import RewardReport, ToolResult
from factgym.core.errors import ConfigError, ToolError
from factgym.core.messages import Message, ToolSchema
from factgym.core.registry import EnvSpec
from factgym.core.tasks import Immutable


@dataclass(frozen=True)
class TinyTask:
    id: str


class TinyTasks(Immutable):
    def __init__(self, size: int = 3) -> None:
        self._all = tuple(TinyTask(f"t{i}") for i in range(size))

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index: int) -> TinyTask:
        return self._all[index]

    def index_of(self, task_id: str) -> int:
        for i, task in enumerate(self._all):
            if task.id == task_id:
                return i
        raise ConfigError(f"no task {task_id!r}")

    def fingerprint(self) -> str:
        return str(len(self))


TASKS = TinyTasks()


def schema(name: str, **properties: Any) -> ToolSchema:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TOOLS = (schema("say", text={"type": "string"}), schema("submit", value={"type": "number", "minimum": 0, "maximum": 1}))


class TinyEnv(Env[TinyTask]):
    """`say` is answered with its text, `boom` raises, `submit` ends the episode with its value as the reward."""

    tags: ClassVar[Mapping[str, tuple[str, str]]] = {"say": ("say", "text")}
    implicit: ClassVar[Mapping[str, str]] = {"value": "submit"}
    fail_in_score = False
    fail_in_begin = False
    submitted_texts: list[str]

    def load_tasks(self) -> TinyTasks:
        return TASKS

    def initial_messages(self, task: TinyTask) -> list[Message]:
        if self.fail_in_begin:
            raise OSError("no first message today")
        self.submitted_texts = []
        return [{"role": "system", "content": "Speak."}, {"role": "user", "content": f"Task {task.id}."}]

    def available_tools(self) -> Sequence[ToolSchema]:
        return TOOLS

    def call_tool(self, call: ToolCall) -> ToolResult:
        if call.name == "boom":
            raise ConnectionError("the index server is away")
        if call.name == "submit":
            self.submitted_texts.append(str(call.arguments.get("value")))
            self.finish()
            return ToolResult("Thank you.", "submit", call.arguments, call_id=call.id)
        if call.name != "say":
            return ToolResult(
                f"No tool {call.name}.", call.name, error=ToolError("unknown_tool", "unknown"), call_id=call.id
            )
        self.submitted_texts.append(call.arguments["text"])
        return ToolResult(call.arguments["text"], "say", call.arguments, call_id=call.id)

    def score(self) -> RewardReport:
        if self.fail_in_score:
            raise ZeroDivisionError("scoring is broken")
        submitted = self.episode.stop == "submitted"
        value = float(self.submitted_texts[-1]) if submitted else 0.0
        return RewardReport(value, {"value": value}, {"value": 1.0})


def tiny(render_mode: str | None = None, **config: Any) -> TinyEnv:
    entry = EnvSpec("tiny", "tiny_env:TinyEnv", "for tests")
    return TinyEnv(entry, EnvConfig.build("tiny", config), render_mode=render_mode)


def say(text: str) -> dict[str, Any]:
    return {"tool": "say", "arguments": {"text": text}}


def native(*calls: tuple[str, str, str], content: str | None = None) -> dict[str, Any]:
    """An assistant message; calls are (id, name, arguments as JSON text)."""
    listed = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id_, name, arguments in calls
    ]
    return {"role": "assistant", "content": content, "tool_calls": listed}
