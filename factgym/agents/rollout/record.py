"""An episode as JSON data: one line of `episodes.jsonl`, described by `factgym/agents/runs/episode.schema.json`.

Notes and faults hold no text that looks like a key, or that the agent names as secret. All of it but the fields `seconds` follows from environment, agent, task and seed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

import factgym
from factgym.agents.rollout.jobs import Job, Progress
from factgym.core.config import AtLeastOne, FiniteFloat
from factgym.core.env import Env
from factgym.core.episode import Turn
from factgym.core.messages import Completion, Message, ToolSchema
from factgym.core.secrets import redact

Record = dict[str, Any]

SCHEMA = 1

MAX_RAW_CHARS = 1_000_000
"""Characters of a raw reply, a note or a list of retries in a record, as JSON text."""

TOKENS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens")

_LOGPROBS = "top_logprobs"
_COMPLETION_FIELDS = ("raw", "model", "finish_reason", "usage", "logprobs", "requests", "retries", "notes")


@dataclass(slots=True)
class Act:
    """One turn as the engine saw it: the prompt, the tools that were offered, the reply's completion, the seconds."""

    prompt: Sequence[Message]
    tools: Sequence[ToolSchema]
    completion: Completion | None = None
    model_seconds: float = 0.0
    tool_seconds: float = 0.0
    step_seconds: float = 0.0


@dataclass(slots=True)
class Log:
    """An episode as the engine saw it. error: cause and message of the infrastructure fault that ended it.

    secrets: texts of the agent's settings that the record must not hold. progress: counters, updated with each turn.
    policy: that plays; its attribute `trouble` says what it is waiting for.
    """

    acts: list[Act] = field(default_factory=list)
    error: dict[str, str] | None = None
    seconds: float = 0.0
    secrets: tuple[str, ...] = ()
    progress: Progress | None = None
    policy: Any = None


def episode_line(episode: Record) -> bytes:
    """Return an episode as a line of `episodes.jsonl`."""
    # A lone surrogate cannot be encoded; as an escape it is valid JSON and is read back unchanged.
    return (json.dumps(episode, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRecord(Mapping[str, Any]):
    """A record that was written as its line where it was played; read from the line only where a member is asked for.

    counted: the members that a run counts. completions: of each turn, with requests and retries only.
    """

    line: bytes
    counted: Mapping[str, Any]
    completions: Sequence[Mapping[str, Any] | None]

    @classmethod
    def of(cls, episode: Record) -> EncodedRecord:
        """Encode a record."""
        completions = [
            completion and {"requests": completion.get("requests", 1), "retries": completion.get("retries", ())}
            for completion in (turn["completion"] for turn in episode["turns"])
        ]
        return cls(episode_line(episode), {key: episode[key] for key in ("error", "reward", "usage")}, completions)

    def __getitem__(self, name: str) -> Any:
        return self.counted[name] if name in self.counted else json.loads(self.line)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(json.loads(self.line))

    def __len__(self) -> int:
        return len(json.loads(self.line))


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
        "turns": [
            _turn(turn, act, sent, len(tools), log.secrets) for turn, act in zip(episode.turns, log.acts, strict=False)
        ],
        "other_messages": sent.extra,
        "tools": tools,
        "reward": episode.report.to_dict() if episode.report else None,
        "stop": episode.stop,
        "error": log.error,
        "usage": _usage(log.acts),
        "seconds": round(log.seconds, 6),
        "task_view": env.view_task(episode.task),
    }


class _SentMessages:
    """Refers to the messages that a policy was sent by their index in the transcript, or in the list `extra`."""

    def __init__(self, transcript: Sequence[Message]) -> None:
        self.transcript = transcript
        self.extra: list[Message] = []

    def refer(self, sent: Sequence[Message], before: int) -> list[int] | None:
        """Indices into transcript + extra, or None where the transcript before the turn was sent as it is."""
        # Identity first: an ordinary turn is sent the transcript's own objects, and comparing texts would be quadratic.
        pairs = zip(sent, self.transcript, strict=False)
        if len(sent) == before and all(message is original or message == original for message, original in pairs):
            return None
        return [self._index(message, position) for position, message in enumerate(sent)]

    def _index(self, message: Message, position: int) -> int:
        if position < len(self.transcript) and message == self.transcript[position]:
            return position
        if message in self.transcript:
            return self.transcript.index(message)
        if message not in self.extra:
            self.extra.append(message)
        return len(self.transcript) + self.extra.index(message)


def _turn(turn: Turn, act: Act, sent: _SentMessages, tools: int, secrets: tuple[str, ...]) -> Record:
    """Return a turn as data: message, calls, observation, what was sent, and the seconds of each side."""
    completion = act.completion or {}
    names = [str(tool.get("function", tool).get("name")) for tool in act.tools]
    recorded: dict[str, Any] = {key: completion[key] for key in _COMPLETION_FIELDS if key in completion}  # type: ignore[literal-required]
    if notes := recorded.get("notes"):
        # Names of log-probabilities, such as "token", say nothing of a secret.
        recorded["notes"] = {
            key: value if key == _LOGPROBS else redact({key: value}, secrets)[key] for key, value in notes.items()
        }
    return {
        "message": turn.message,
        "sent": sent.refer(completion.get("sent") or act.prompt, turn.message),
        "tools": None if len(act.tools) == tools else names,
        "calls": [
            {"tool": result.tool, "arguments": result.arguments, "error": result.error_code}
            for result in turn.results
            if result.tool
        ],
        "observation": turn.observation,
        "error": turn.error,
        "completion": recorded if completion else None,
        "seconds": {
            "model": round(act.model_seconds, 6),
            "tool": round(act.tool_seconds, 6),
            "environment": round(max(act.step_seconds - act.tool_seconds, 0.0), 6),
        },
    }


def _usage(acts: Sequence[Act]) -> dict[str, int] | None:
    """Tokens and requests of all turns together; None where no policy reported any."""
    total: Counter[str] = Counter()
    for act in acts:
        completion = act.completion or {}
        for name in TOKENS:
            tokens = (completion.get("usage") or {}).get(name)
            if isinstance(tokens, int):
                total[name] += tokens
        if completion:
            total["requests"] += completion.get("requests", 1)
    return dict(total) if total else None


def _check_json(value: Any) -> Any:
    try:
        fits = len(json.dumps(value, allow_nan=False)) <= MAX_RAW_CHARS
    except (TypeError, RecursionError):
        fits = False
    if not fits:
        raise ValueError("no JSON data, or too large")
    return value


_JsonData = AfterValidator(_check_json)
_Count = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Token(_Strict):
    token: str
    logprob: FiniteFloat


class _Retry(_Strict):
    cause: str
    waited: FiniteFloat


class _Completion(_Strict):
    raw: Annotated[Any, _JsonData] = None
    model: str = ""
    finish_reason: str = ""
    usage: dict[Literal["prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens"], _Count] = {}
    logprobs: list[_Token] | tuple[_Token, ...] = ()
    requests: AtLeastOne = 1
    retries: list[_Retry] | tuple[_Retry, ...] = ()
    sent: Annotated[list[dict[Any, Any]] | tuple[dict[Any, Any], ...], _JsonData] = ()
    notes: Annotated[dict[Any, Any], _JsonData] = {}


def read_completion(reply: object) -> Completion | None:
    """The completion of a reply, checked; None where a policy gave none. Never raises.

    Policies are a user's code: a value without the type that the record promises is left out and named under `notes`,
    so that one odd value never makes a run unreadable.
    """
    completion = reply.get("completion") if isinstance(reply, dict) else None
    if not isinstance(completion, Mapping):
        return None
    checked = {key: completion[key] for key in _Completion.model_fields if key in completion}
    checked = {key: value for key, value in checked.items() if value is not None or key == "raw"}
    try:
        _Completion.model_validate(checked)
    except ValidationError as error:
        left_out = list(dict.fromkeys(fault["loc"][0] for fault in error.errors()))
        checked = {key: value for key, value in checked.items() if key not in left_out}
        checked["notes"] = {**checked.get("notes", {}), "left_out": left_out}
    return cast(Completion, checked) if checked else None
