"""From chat messages to the text and ids of a prompt, and from ids back to the text of a reply.

The abilities of a chat template are probed once: which of a system message, tools, and the reasoning of an earlier reply
appear in the rendered text? A template that drops a system message gets it at the top of the first user message; one
that ignores tools gets them as text. A conversation that the template refuses is folded, as little as it takes.

Text in a message never becomes a control token: those that occur in it are broken up (see `Codec.defuse`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.agents.folding import FOLDS, REASONING_REFUSED, Fold, foldings, json_arguments
from factgym.agents.sampling import SendReasoning, ToolMode, tools_as_text
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolCallMessage, ToolSchema

PROBE = "factgymprobe"
PROBE_TOOL: ToolSchema = {
    "type": "function",
    "function": {
        "name": PROBE,
        "description": "A probe.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string", "description": "A text."}}},
    },
}
_PROBE_CALL: ToolCallMessage = {"id": PROBE, "type": "function", "function": {"name": PROBE, "arguments": "{}"}}
_PROBE_TURN: tuple[Message, ...] = (
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "", "reasoning_content": "A thought.", "tool_calls": [_PROBE_CALL]},
    {"role": "tool", "content": "Done.", "tool_call_id": PROBE, "name": PROBE},
)
_SENT_KEYS = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking", "thought", "content")
"""Keys under which templates take the reasoning of an earlier reply; in the content, it stands in `<think>`."""

_TAGS = frozenset(
    f"<{slash}{name}>"
    for name in ("think", "tool_call", "tool_calls", "tool_response", "answer", "search", "read", "submit")
    for slash in ("", "/")
)
"""Special tokens of some models that stay in a reply's text: environments and the reasoning rule read them."""

_ZERO_WIDTH_SPACE = "\u200b"
"""Breaks up a control token without changing how it reads."""

_STOP_MARGIN = 8
"""Further tokens that a search for stop strings looks at: decoding may garble the first few of a cut piece."""


class Codec:
    """Ids and text under one tokenizer. eos: ids that end a reply; stops: strings that do."""

    def __init__(self, tokenizer: Any, eos: Collection[int], stops: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        added = {str(token): token_id for token_id, token in tokenizer.added_tokens_decoder.items()}
        # "Special" and "added" differ: some models add ordinary words such as <think>, and some of their special tokens
        # are part of the answer's format (see _TAGS).
        special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
        control = (special | set(tokenizer.all_special_tokens)) - _TAGS
        self.eos = frozenset(eos) | {added[stop] for stop in stops if stop in added}
        self.stops = tuple(stops)  # those that are tokens too: a reply may spell one out
        self._hidden = self.eos | frozenset(tokenizer.convert_tokens_to_ids(sorted(control)))
        words = sorted((text for text in control if len(text) > 1), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, words))) if words else None
        # A token holds at least one byte of a text, so that a stop string spans at most as many tokens as it has bytes.
        longest = max((len(stop.encode("utf-8", "surrogatepass")) for stop in self.stops), default=0)
        self.stop_window = longest + _STOP_MARGIN
        """How many of the last tokens `stopped` looks at."""

    def encode(self, text: str) -> list[int]:
        """The ids of a rendered prompt; nothing is added to it."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        return ids

    def raw(self, ids: Sequence[int]) -> str:
        """The text of a reply with every special token."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def text(self, ids: Sequence[int]) -> str:
        """The text of a reply without special tokens (but see `_TAGS`), up to the first stop string."""
        text = self._visible(ids)
        return text[: min((text.find(stop) for stop in self.stops if stop in text), default=len(text))]

    def stopped(self, ids: Sequence[int]) -> bool:
        """Whether the last tokens of a reply hold a stop string."""
        tail = self._visible(ids[-self.stop_window :])
        return any(stop in tail for stop in self.stops)

    def ended(self, ids: Sequence[int]) -> bool:
        """Whether a reply ended with an end token or a stop string, not at its limit."""
        text = self._visible(ids) if self.stops else ""
        return bool(ids and ids[-1] in self.eos) or any(stop in text for stop in self.stops)

    def defuse(self, text: str) -> tuple[str, int]:
        """A message's text with its control tokens broken up, and how many there were.

        A document that holds `<|im_end|>` would otherwise end the message that quotes it and could begin another role's.
        """
        if self._control is None:
            return text, 0
        return self._control.subn(lambda match: match[0][0] + _ZERO_WIDTH_SPACE + match[0][1:], text)

    def _visible(self, ids: Sequence[int]) -> str:
        return self.raw([token for token in ids if token not in self._hidden])


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text of a prompt, and the messages in it as far as they were rendered.

    defused: control tokens that were broken up in the messages. adapted: changes for the template, a line for each.
    """

    text: str
    sent: list[Message]
    defused: int
    adapted: tuple[str, ...] = ()


@dataclass(slots=True)
class ChatFormat:
    """The chat template of one model. Raises ConfigError when it cannot be used.

    tokenizer: a Hugging Face tokenizer. options: further variables of the template. native: the template renders
    tools. system: it renders a system message. reasoning_key: it renders the reasoning of the current exchange's earlier
    replies under this key; empty where it does not, or `send_reasoning` is "never".
    """

    tokenizer: Any
    codec: Codec
    model: str
    tools: ToolMode = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    send_reasoning: SendReasoning = "auto"
    native: bool = field(init=False)
    system: bool = field(init=False)
    reasoning_key: str = field(init=False)

    def __post_init__(self) -> None:
        if not self.tokenizer.chat_template:
            raise ConfigError(
                f"{self.model!r} has no chat template: choose its instruct or chat variant, or give "
                "chat_template=FILE with a Jinja template"
            )
        hello: list[Message] = [{"role": "user", "content": "Hello."}]
        self.system = self._renders_probe([{"role": "system", "content": PROBE}, *hello], None)
        renders_tools = self._renders_probe(hello, [PROBE_TOOL])
        if self.tools == "native" and not renders_tools:
            raise ConfigError(f"the chat template of {self.model!r} ignores tools: set tools to 'text' or 'auto'")
        self.native = renders_tools and self.tools != "text"
        self.reasoning_key = "" if self.send_reasoning == "never" else self._probe_reasoning()
        if self.send_reasoning == "always" and not self.reasoning_key:
            raise ConfigError(
                f"the chat template of {self.model!r} drops the reasoning of earlier replies: set send_reasoning to "
                "'auto' or 'never'"
            )

    def _probe_reasoning(self) -> str:
        """The first key under which reasoning between a call and its result is rendered; empty for none."""
        tools = [PROBE_TOOL] if self.native else []
        turn = list(_PROBE_TURN) if self.native else tools_as_text(_PROBE_TURN, ())
        for _, messages in foldings(turn):
            refused = 0
            for key in _REASONING_KEYS:
                try:
                    if self._with_reasoning(messages, tools, key):
                        return key
                except template_errors():
                    refused += 1
            if refused < len(_REASONING_KEYS):
                break
        return ""

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Rendered:
        """The prompt for a conversation, up to where the reply begins."""
        sent: list[Message] = [
            {key: message[key] for key in _SENT_KEYS if key in message}  # type: ignore[literal-required,misc]
            for message in messages
        ]
        if not self.native:
            sent, tools = tools_as_text(sent, tools), ()
        keys = [self.reasoning_key] if any(message.get("reasoning_content") for message in sent) else [""]
        if keys[0] and self.send_reasoning == "auto":
            keys.append("")  # such as for templates that refuse reasoning beside a content
        refusal: Exception | None = None
        dropped = not self.system and any(message["role"] == "system" for message in sent)
        for folds, folded in foldings(sent, frozenset({"system"} if dropped else ())):
            for key in keys:
                try:
                    return self._rendered(folded, tools, folds, key)
                except template_errors() as error:
                    refusal = refusal or error
        roles = ", ".join(message["role"] for message in sent)
        raise ConfigError(
            f"the chat template of {self.model!r} refuses a conversation of {roles}: "
            f"{type(refusal).__name__}: {refusal}. Another can be given with chat_template=FILE"
        ) from refusal

    def _rendered(
        self, messages: list[Message], tools: Sequence[ToolSchema], folds: frozenset[Fold], key: str
    ) -> Rendered:
        """Render messages, with their reasoning under `key`. Reasoning that the template drops is not among those sent."""
        shaped, defused = self._shaped(messages, key)
        text = self._apply_template(shaped, tools)
        rendered = self._with_reasoning(messages, tools, key)
        sent: list[Any] = [
            {name: value for name, value in message.items() if name != "reasoning_content" or index in rendered}
            for index, message in enumerate(messages)
        ]
        adapted = [line for name, line in FOLDS.items() if name in folds]
        if self.reasoning_key and not key and any(message.get("reasoning_content") for message in messages):
            adapted.append(REASONING_REFUSED)
        return Rendered(text, sent, defused, tuple(adapted))

    def _with_reasoning(self, messages: Sequence[Message], tools: Sequence[ToolSchema], key: str) -> set[int]:
        """Indices of the messages whose reasoning is rendered under `key`."""
        marks = {
            index: f"{PROBE}{index}." for index, message in enumerate(messages) if message.get("reasoning_content")
        }
        if not key or not marks:
            return set()
        marked: list[Any] = [
            {**message, "reasoning_content": marks[index]} if index in marks else message
            for index, message in enumerate(messages)
        ]
        text = self._apply_template(self._shaped(marked, key)[0], tools)
        return {index for index, mark in marks.items() if mark in text}

    def _shaped(self, messages: Sequence[Message], key: str) -> tuple[list[dict[str, Any]], int]:
        """Messages in the form that templates take, and how many control tokens were broken up in them.

        Content is a text, arguments of calls are objects, and reasoning has the key that the template reads.
        """
        total = 0

        def defused(text: str) -> str:
            nonlocal total
            text, count = self.codec.defuse(text)
            total += count
            return text

        shaped: list[dict[str, Any]] = []
        for message in messages:
            plain: dict[str, Any] = {**message, "content": defused(message["content"] or "")}
            reasoning = plain.pop("reasoning_content", "")
            if reasoning and key == "content":
                plain["content"] = f"<think>\n{defused(reasoning)}\n</think>\n\n{plain['content']}"
            elif reasoning and key:
                plain[key] = defused(reasoning)
            if calls := message.get("tool_calls"):
                plain["tool_calls"] = [
                    {
                        **call,
                        "function": {
                            "name": call["function"]["name"],
                            "arguments": json.loads(json_arguments(defused(call["function"]["arguments"]))),
                        },
                    }
                    for call in calls
                ]
            shaped.append(plain)
        return shaped, total

    def _apply_template(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[ToolSchema] | None) -> str:
        text: str = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=list(tools) if tools else None,
            add_generation_prompt=True,
            tokenize=False,
            **self.options,
        )
        return text

    def _renders_probe(self, messages: list[Message], tools: list[ToolSchema] | None) -> bool:
        try:
            return PROBE in self._apply_template(messages, tools)
        except template_errors():
            return False


def template_errors() -> tuple[type[Exception], ...]:
    """Errors of a template: its own, or of an operation that its author did not expect."""
    from jinja2 import TemplateError

    return (TemplateError, TypeError, ValueError, LookupError, AttributeError)
