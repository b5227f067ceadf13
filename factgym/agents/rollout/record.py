"""An episode as JSON data: what `episodes.jsonl` holds, described by `factgym/agents/runs/episode.schema.json`.

All of it but the fields `seconds` follows from environment, agent, task and seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import factgym
from factgym.agents.rollout.completion import TOKENS
from factgym.agents.rollout.order import Job
from factgym.core.env import Env
from factgym.core.episode import Turn
from factgym.core.messages import Completion, Message, ToolSchema

Record = dict[str, Any]

SCHEMA = 1

_KEPT = ("raw", "model", "finish_reason", "usage", "logprobs", "requests", "retries", "notes")


@dataclass(slots=True)
class Act:
    """What the engine saw of one turn: the prompt, the tools that were open, the reply's own account, the seconds."""

    prompt: Sequence[Message]
    tools: Sequence[ToolSchema]
    completion: Completion | None = None
    model_seconds: float = 0.0
    tool_seconds: float = 0.0
    step_seconds: float = 0.0


@dataclass(slots=True)
class Log:
    """What the engine saw of an episode. error: the cause and message of the infrastructure fault that ended it."""

    acts: list[Act] = field(default_factory=list)
    error: dict[str, str] | None = None
    seconds: float = 0.0


def record(env: Env[Any], agent: str, job: Job, log: Log) -> Record:
    """The finished episode of `env`."""
    episode = env.episode
    sent = _SentMessages(episode.messages)
    tools: list[ToolSchema] = []
    for act in log.acts:
        tools += [tool for tool in act.tools if tool not in tools]
    return {
        "schema": SCHEMA,
        "env": env.env_spec.id,
        "version": env.env_spec.version,
        "factgym": factgym.__version__,
        "task": episode.task.id,
        "index": episode.index,
        "split": getattr(env.config, "chosen_split", None),
        "sample": job.sample,
        "seed": job.seed,
        "attempt": job.attempt,
        "agent": agent,
        "messages": episode.messages,
        "turns": [_turn(turn, act, sent, len(tools)) for turn, act in zip(episode.turns, log.acts, strict=False)],
        "other_messages": sent.other,
        "tools": tools,
        "reward": episode.report.to_dict() if episode.report else None,
        "stop": episode.stop,
        "error": log.error,
        "usage": _usage(log.acts),
        "seconds": round(log.seconds, 6),
        "task_view": env.view_task(episode.task),
    }


class _SentMessages:
    """Which messages of the transcript a policy was sent, by index; others are collected behind them."""

    def __init__(self, transcript: Sequence[Message]) -> None:
        self.transcript = transcript
        self.other: list[Message] = []

    def refer(self, sent: Sequence[Message], before: int) -> list[int] | None:
        """Indices into transcript + other, or None where the transcript before the turn was sent as it is."""
        if len(sent) == before and all(
            one is kept or one == kept for one, kept in zip(sent, self.transcript, strict=False)
        ):
            return None
        return [self._place(one, position) for position, one in enumerate(sent)]

    def _place(self, one: Message, position: int) -> int:
        if position < len(self.transcript) and one == self.transcript[position]:
            return position
        if one in self.transcript:
            return self.transcript.index(one)
        if one not in self.other:
            self.other.append(one)
        return len(self.transcript) + self.other.index(one)


def _turn(turn: Turn, act: Act, sent: _SentMessages, tools: int) -> Record:
    said = act.completion or {}
    calls = [
        {"tool": result.tool, "arguments": result.arguments, "error": result.error_code}
        for result in turn.results
        if result.tool
    ]
    return {
        "message": turn.message,
        "sent": sent.refer(said.get("sent") or act.prompt, turn.message),
        "tools": None if len(act.tools) == tools else [_name(tool) for tool in act.tools],
        "calls": calls,
        "observation": turn.observation,
        "error": turn.error,
        "completion": {key: said[key] for key in _KEPT if key in said} if said else None,  # type: ignore[literal-required]
        "seconds": {
            "model": round(act.model_seconds, 6),
            "tool": round(act.tool_seconds, 6),
            "environment": round(max(act.step_seconds - act.tool_seconds, 0.0), 6),
        },
    }


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool.get("function", tool).get("name"))


def _usage(acts: Sequence[Act]) -> dict[str, int] | None:
    """Tokens and requests of all turns together; None where no policy told any."""
    total: Counter[str] = Counter()
    for act in acts:
        said = act.completion or {}
        for name in TOKENS:
            tokens = (said.get("usage") or {}).get(name)
            if isinstance(tokens, int):
                total[name] += tokens
        if said:
            total["requests"] += said.get("requests", 1)
    return dict(total) if total else None
