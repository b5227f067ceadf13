"""One row while it grows: what the policy is shown from one beginning on, as tokens.

What the environment says is appended by verl's own builder (continuous tokens), so that sampled tokens are never
tokenised again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.core.messages import Message, ToolSchema
from factgym.integrations.turns import Turn

Rendered = dict[str, Any]


@dataclass(slots=True)
class Context:
    """shown: the messages as the environment knows them. rendered: as the template is given them. schemas: the tools.

    prompt, response: tokens. mask: 1 on those of the policy. logprobs: of the response, None without. turns: the
    policy's messages, `first` counted in the response. extra: what the server says of its replies. experts: its routing.
    """

    shown: list[Message]
    rendered: list[Rendered]
    schemas: list[ToolSchema]
    prompt: list[int] = field(default_factory=list)
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] | None = None
    turns: list[Turn] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    experts: Any = None

    @property
    def tokens(self) -> list[int]:
        """Prompt and response."""
        return self.prompt + self.response

    def extends(self, messages: Sequence[Message], names: Sequence[str]) -> bool:
        """Whether the messages only add to what is shown here, and the tools are the same."""
        same = [schema["function"]["name"] for schema in self.schemas] == list(names)
        return same and list(messages[: len(self.shown)]) == self.shown

    def merged(self, builder: Any, result: Any, logprobs: Sequence[float] | None = None) -> None:
        """Take the tokens of a merge of the builder's, which may cut at the seam."""
        known = self.logprobs
        if known is None and logprobs is not None and not self.mask:
            known = []
        if self.turns:  # the template may write the policy's last tokens itself
            last, kept = self.turns[-1], len(self.response) - result.removed_prefix_token_count
            last.ids = last.ids[: max(0, kept - last.first)]
        given = {"assistant_logprobs": list(logprobs)} if logprobs is not None and known is not None else {}
        self.mask, self.logprobs = builder.align_response_metadata(result, self.mask, known, **given)
        tokens = list(result.token_ids)
        self.prompt = tokens[: len(tokens) - len(self.mask)]
        self.response = tokens[len(tokens) - len(self.mask) :]

    def noted(self, reply: Any) -> None:
        """Keep what the server says of a reply: the first weights' version, the last one's, and sums of counts."""
        if not self.extra:
            self.extra = dict(reply.extra_fields)
        else:
            for key, value in reply.extra_fields.items():
                if key.startswith("spec_num_") and key in self.extra:
                    self.extra[key] = int(self.extra[key]) + int(value)
                elif key == "max_global_steps" and value:
                    self.extra[key] = value
        if reply.routed_experts is not None:
            self.experts = reply.routed_experts

    def closed(self) -> None:
        """Drop what was said to the policy after its last message."""
        end = self.turns[-1].first + len(self.turns[-1].ids) if self.turns else 0
        self.response, self.mask = self.response[:end], self.mask[:end]
        if self.logprobs is not None:
            self.logprobs = self.logprobs[:end]


def merger(builder: Any) -> Callable[..., Any]:
    """The builder's method that appends what is not the policy's: verl 0.9.0 and 0.9.1 call it differently."""
    found: Callable[..., Any] = getattr(builder, "merge_context_tokens", None) or builder.merge_non_assistant_tokens
    return found


def as_said(message: Message) -> Rendered:
    """A message of the policy's as templates take it: arguments as data."""
    found: Rendered = {"role": "assistant", "content": message.get("content") or ""}
    if message.get("tool_calls"):
        found["tool_calls"] = [
            {"type": "function", "id": call["id"], "function": _with_data(call["function"])}
            for call in message["tool_calls"]
        ]
    return found


def _with_data(function: Mapping[str, Any]) -> Rendered:
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = function["arguments"]
    return {"name": function["name"], "arguments": arguments}


def as_answered(messages: Sequence[Message], said: Message) -> list[Rendered]:
    """The environment's answers as templates take them: a tool's message has the tool's name."""
    names = {call["id"]: call["function"]["name"] for call in said.get("tool_calls") or []}
    found: list[Rendered] = []
    for message in messages:
        one: Rendered = {"role": message["role"], "content": message["content"] or ""}
        if message["role"] == "tool":
            one["tool_call_id"] = message["tool_call_id"]
            if message["tool_call_id"] in names:
                one["name"] = names[message["tool_call_id"]]
        found.append(one)
    return found
