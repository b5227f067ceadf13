"""Episodes for export: runs read twice, and each episode as conversations to train on.

Every record is checked against its schema when it is first read, so that later code can rely on its shape. Training
data must not hold prompts that the model never saw: where every turn was sent the transcript before it, the whole
episode is one conversation. Where turns were sent other messages (isolated contexts, reasoning taken out of earlier
turns, tools that opened later), each turn is a conversation of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from factgym.agents.runs.read import StreamedRun
from factgym.agents.runs.schema import validate
from factgym.agents.sampling import tools_as_text
from factgym.core.errors import ConfigError, DataError
from factgym.core.strict_json import StrictJsonError, loads

Episode = dict[str, Any]
EpisodeIndex = tuple[int, int]
"""Index of the run, and number of the episode's line in its file."""


class Source:
    """One or several runs.

    Raises ConfigError when they are of different environments or versions, unless `mixed`, when an oracle played one,
    unless `allow_oracle`, and when an episode is of an evaluation split, unless `allow_evaluation_split`.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        mixed: bool = False,
        allow_oracle: bool = False,
        allow_evaluation_split: bool = False,
    ) -> None:
        self.runs = [StreamedRun(folder) for folder in folders]
        self.mixed, self.allow_oracle = mixed, allow_oracle
        self.allow_evaluation_split = allow_evaluation_split
        self._kind: tuple[Any, Any] | None = None
        self._names: dict[EpisodeIndex, tuple[str, int]] = {}
        for run in self.runs:
            self._check_kind(run.manifest, run)
            self._check_agent(run.manifest, run)

    def _check_kind(self, about: Any, run: StreamedRun) -> None:
        if "env" not in about:
            return
        kind = (about["env"], about.get("version"))
        first = self._kind = self._kind or kind
        if kind != first and not self.mixed:
            raise ConfigError(
                f"{run.folder} is of {kind[0]} v{kind[1]}, the first run of {first[0]} v{first[1]}: "
                "export them one by one, or together with --mixed"
            )

    def _check_agent(self, about: Mapping[str, Any], run: StreamedRun) -> None:
        if not self.allow_oracle and _is_oracle(about):
            raise ConfigError(
                f"{run.folder} was played by an oracle, which acts on gold that it was never shown: to train on it "
                "teaches guessing. Play with `--agent teacher`, or export it all the same with --allow-oracle"
            )

    def first_pass(self) -> Iterator[tuple[EpisodeIndex, Episode]]:
        """Every episode, checked. Raises DataError that names run, task and fault."""
        # Two passes keep memory bounded: the first selects by small facts, the second reads the selected episodes again.
        self._names = {}
        for index, episode in self._numbered(StreamedRun.first_pass):
            run = self.runs[index[0]]
            try:
                validate(episode, parsed=True)
            except DataError as error:
                task = f"task {episode['task']!r:.80} sample {episode.get('sample')!r:.20}"
                raise DataError(f"{run.folder}, line {index[1]} ({task}): {error}") from None
            self._check_kind(episode, run)
            if "agent" not in run.manifest:
                self._check_agent(episode, run)
            if not self.allow_evaluation_split and episode["split"] not in (None, "", "train"):
                raise ConfigError(
                    f"{run.folder} has episodes of split {episode['split']!r:.80}, whose tasks are for evaluation: "
                    "play with `--split train`, or export them all the same with --allow-evaluation-split"
                )
            self._names[index] = episode["task"], episode["sample"]
            yield index, episode

    def second_pass(self) -> Iterator[tuple[EpisodeIndex, Episode]]:
        """The same again. Raises DataError when a run has changed in between."""
        for index, episode in self._numbered(StreamedRun.second_pass):
            if (episode["task"], episode.get("sample")) != self._names.get(index):
                folder = self.runs[index[0]].folder
                raise DataError(f"{folder} changed while it was read: export it when it is finished")
            yield index, episode

    def _numbered(
        self, read: Callable[[StreamedRun], Iterator[tuple[int, Episode]]]
    ) -> Iterator[tuple[EpisodeIndex, Episode]]:
        for number, run in enumerate(self.runs):
            yield from (((number, line), episode) for line, episode in read(run))


def _is_oracle(about: Mapping[str, Any]) -> bool:
    """Whether an oracle played, by itself or in an ensemble. Older runs do not name the role: the name decides."""

    def roles(details: Any) -> Iterator[Any]:
        if isinstance(details, Mapping):
            yield details.get("role")
        values = details.values() if isinstance(details, Mapping) else details if isinstance(details, list) else ()
        for value in values:
            yield from roles(value)

    named = [role for role in roles(about.get("agent_details")) if role is not None]
    return "oracle" in named or (not named and about.get("agent") == "oracle")


def fault_of(episode: Episode) -> str | None:
    """Why an episode has no score, or None when it has one."""
    reward = episode["reward"]
    if episode["error"] is not None or (reward or {}).get("status") == "error":
        return "failed"
    return None if reward is not None and reward["total"] is not None else "unscored"


def was_cut(episode: Episode) -> bool:
    """Whether a reply of the policy's ended at its token limit."""
    return any((turn["completion"] or {}).get("finish_reason") == "length" for turn in episode["turns"])


@dataclass(slots=True)
class Summary:
    """Counts of an export.

    episodes: read. exported: of these, in the file. lines: of the file, each one `noun`. left_out: reason -> episodes
    (or pairs, where the reason says so).
    """

    out: Path
    noun: str
    episodes: int = 0
    exported: int = 0
    lines: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        """One line for people."""
        lines, episodes = _count(self.lines, self.noun), _count(self.episodes, "episode")
        text = f"{lines} from {self.exported} of {episodes}: {self.out}"
        return f"{text}; left out: {self.reasons()}" if self.left_out else text

    def reasons(self) -> str:
        """The reasons for leaving out the others, most frequent first."""
        parts = [f"{number} {reason}" for reason, number in sorted(self.left_out.items(), key=lambda item: -item[1])]
        return ", ".join(parts) or "nothing"

    def check_not_empty(self) -> None:
        """Raises DataError when the file would hold nothing."""
        if not self.lines:
            read = _count(self.episodes, "episode")
            raise DataError(f"nothing to write: no {self.noun} came out of {read}; left out: {self.reasons()}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


Reasoning = Literal["keep", "drop", "inline"]
Arguments = Literal["text", "object"]
Chat = list[dict[str, Any]]


_KEYS = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages that end with a message of the policy's. turn: its index, None for the whole episode.

    prompt: how many of the messages come before the policy's first own. tools: schemas that were offered beside the
    messages, none where they were written into the prompt.
    """

    messages: Chat
    tools: list[dict[str, Any]]
    prompt: int
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """How messages are written. reasoning: kept apart, dropped, or inline as `<think>…</think>` before the content.

    arguments: of native calls, as JSON text (OpenAI's form, one type for Arrow) or as an object (what most chat
    templates take).
    """

    reasoning: Reasoning = "keep"
    arguments: Arguments = "text"

    def message(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message to train on. Raises StrictJsonError for arguments that are to be an object and are none."""
        if tuple(message) == _KEYS[:2]:  # most messages
            return message
        keys = [*(key for key in _KEYS if key in message), *(key for key in message if key not in _KEYS)]
        result = {key: message[key] for key in keys if key != "completion"}
        if self.reasoning != "keep":
            reasoning = result.pop("reasoning_content", None)
            if reasoning and self.reasoning == "inline":
                result["content"] = f"<think>\n{reasoning}\n</think>\n\n{result['content'] or ''}"
        if self.arguments == "object" and result.get("tool_calls"):
            result["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": _object(call["function"]["arguments"])}}
                for call in result["tool_calls"]
            ]
        return result


def _object(text: str) -> dict[str, Any]:
    arguments = loads(text) if text.strip() else {}
    if not isinstance(arguments, dict):
        raise StrictJsonError("bad_shape", "the arguments are no object", None)
    return arguments


def conversations(episode: dict[str, Any], form: Form) -> list[Conversation]:
    """The whole episode as one conversation where each turn was sent the transcript before it, else one for each turn.

    Raises StrictJsonError as `Form.message` does.
    """
    played = episode["turns"]
    if not played:
        return []
    newest = played[-1]
    if all(
        turn["sent"] is None and turn["tools"] == newest["tools"] and turn["message"] <= newest["message"]
        for turn in played
    ):
        return [replace(_turn_conversation(episode, newest, form), prompt=played[0]["message"])]
    turns = [_turn_conversation(episode, turn, form) for turn in played]
    # One conversation only if every turn was sent a prefix of the last turn's messages: then no turn is trained on a
    # prompt that the model never saw.
    last = turns[-1]
    for earlier in turns[:-1]:
        if earlier.messages != last.messages[: len(earlier.messages)] or earlier.tools != last.tools:
            return [replace(turn, turn=number) for number, turn in enumerate(turns)]
    return [Conversation(last.messages, last.tools, turns[0].prompt)]


def _turn_conversation(episode: Episode, turn: dict[str, Any], form: Form) -> Conversation:
    """The messages that one turn was sent, and its reply.

    Where the sent messages hold the tools as text (in the system message, or in the first message of a model that
    takes no system message), a template must not render them again.
    """
    messages, index, names = episode["messages"], turn["message"], turn["tools"]
    tools = episode["tools"]
    if names is not None:
        tools = [tool for tool in tools if tool["function"]["name"] in names]
    sent = messages[:index]
    if turn["sent"] is not None:
        recorded = [*messages, *episode["other_messages"]]
        sent = [recorded[position] for position in turn["sent"]]
        first = sent[0].get("content") if sent else None
        if tools and isinstance(first, str) and (tools_as_text([], tools)[0]["content"] or "") in first:
            tools = []
    return Conversation([form.message(message) for message in [*sent, messages[index]]], tools, len(sent))
