"""From chat messages to the text and ids of a prompt, and from ids back to the text of a reply.

The abilities of a chat template are probed once: does a system message appear in the rendered text, do the tools? A
template that drops or refuses a system message gets it at the top of the first user message; one that ignores tools
gets them as text. One that then still refuses the order of roles gets neighbours of one role merged.

Text in a message never becomes a control token: those that occur in it are broken up (see `Codec.defuse`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.agents.sampling import ToolMode, tools_as_text
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema

_PROBE = "factgymprobe"
_PROBE_TOOL: ToolSchema = {
    "type": "function",
    "function": {
        "name": _PROBE,
        "description": "A probe.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string", "description": "A text."}}},
    },
}
_SENT_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name")
"""Reasoning of earlier turns is not sent back, as the models' authors advise."""

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
    """The text of a prompt, the messages in it, and how many control tokens were broken up in them."""

    text: str
    sent: list[Message]
    defused: int


@dataclass(slots=True)
class ChatFormat:
    """The chat template of one model. Raises ConfigError when it cannot be used.

    tokenizer: a Hugging Face tokenizer. options: further variables of the template. native: the template renders
    tools. system: it renders a system message.
    """

    tokenizer: Any
    codec: Codec
    model: str
    tools: ToolMode = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    native: bool = field(init=False)
    system: bool = field(init=False)

    def __post_init__(self) -> None:
        if not self.tokenizer.chat_template:
            raise ConfigError(
                f"{self.model!r} has no chat template: choose its instruct or chat variant, or give "
                "chat_template=FILE with a Jinja template"
            )
        hello: list[Message] = [{"role": "user", "content": "Hello."}]
        self.system = self._renders_probe([{"role": "system", "content": _PROBE}, *hello], None)
        renders_tools = self._renders_probe(hello, [_PROBE_TOOL])
        if self.tools == "native" and not renders_tools:
            raise ConfigError(f"the chat template of {self.model!r} ignores tools: set tools to 'text' or 'auto'")
        self.native = renders_tools and self.tools != "text"

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Rendered:
        """The prompt for a conversation, up to where the reply begins."""
        sent: list[Message] = [
            {key: message[key] for key in _SENT_KEYS if key in message}  # type: ignore[literal-required,misc]
            for message in messages
        ]
        if not self.native:
            sent, tools = tools_as_text(sent, tools), ()
        if not self.system:
            sent = fold_system(sent)
        try:
            return self._rendered(sent, tools)
        except _template_errors():
            sent = merge_neighbours(fold_system(sent))
        try:
            return self._rendered(sent, tools)
        except _template_errors() as error:
            roles = ", ".join(message["role"] for message in sent)
            raise ConfigError(
                f"the chat template of {self.model!r} refuses a conversation of {roles}: "
                f"{type(error).__name__}: {error}. Another can be given with chat_template=FILE"
            ) from error

    def _rendered(self, sent: list[Message], tools: Sequence[ToolSchema]) -> Rendered:
        """Render messages in the form that templates take: content is a text, arguments of calls are objects."""
        shaped: list[dict[str, Any]] = []
        total = 0
        for message in sent:
            content, count = self.codec.defuse(message["content"] or "")
            total += count
            shaped.append({**message, "content": content})
            if calls := message.get("tool_calls"):
                shaped[-1]["tool_calls"] = []
                for call in calls:
                    arguments, count = self.codec.defuse(call["function"]["arguments"])
                    total += count
                    function = {"name": call["function"]["name"], "arguments": arguments_object(arguments)}
                    shaped[-1]["tool_calls"].append({**call, "function": function})
        return Rendered(self._apply_template(shaped, tools), sent, total)

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
            return _PROBE in self._apply_template(messages, tools)
        except _template_errors():
            return False


def _template_errors() -> tuple[type[Exception], ...]:
    """Errors of a template: its own, or of an operation that its author did not expect."""
    from jinja2 import TemplateError

    return (TemplateError, TypeError, ValueError, LookupError, AttributeError)


def arguments_object(text: str) -> dict[str, Any]:
    """The arguments of a call for a template; text that is not a JSON object is put under "_raw"."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"_raw": text}
    return value if isinstance(value, dict) else {"_raw": text}


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """The messages with the system messages at the top of the first user message."""
    texts = [message["content"] or "" for message in messages if message["role"] == "system"]
    folded = [message for message in messages if message["role"] != "system"]
    if not texts:
        return folded
    for index, message in enumerate(folded):
        if message["role"] == "user":
            folded[index] = {**message, "content": "\n\n".join([*texts, message["content"] or ""])}
            return folded
    return [{"role": "user", "content": "\n\n".join(texts)}, *folded]


def merge_neighbours(messages: Sequence[Message]) -> list[Message]:
    """The messages with neighbours of one role made one; those with tool calls or tool results are not merged."""
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        mergeable = last is not None and last["role"] == message["role"] and message["role"] != "tool"
        if last is None or not mergeable or last.get("tool_calls") or message.get("tool_calls"):
            merged.append(message)
        else:
            merged[-1] = {**last, "content": f"{last['content'] or ''}\n\n{message['content'] or ''}"}
    return merged
