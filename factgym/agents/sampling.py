"""Parts that every policy with a model shares: sampling settings, tools as text, reasoning apart from the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from factgym.core.config import AtLeastOne, Settings
from factgym.core.messages import Message, ToolSchema
from factgym.core.prompts import prompt
from factgym.core.spaces import example_call

ToolMode = Literal["auto", "native", "text"]
"""How a policy offers tools: by the server's or template's own tool calling, as text in the prompt, or as probed."""

ReasoningMode = Literal["split", "keep"]
SendReasoning = Literal["auto", "always", "never"]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
NonEmpty = Annotated[str, Field(min_length=1)]

_THINK, _END_THINK = "<think>", "</think>"


class Sampling(Settings):
    """Settings of a model's reply; None leaves a setting to the model or its server.

    temperature: 0 is greedy. max_tokens: of one reply, reasoning included. stop: strings that end a reply. logprobs:
    record the log-probability of each sampled token. tools: see ToolMode. reasoning: "split" takes `<think>…</think>`
    out of the content into `reasoning_content`; "keep" leaves it. send_reasoning: whether the reasoning of an episode's
    earlier replies goes back to the model; "auto" sends it as it came, until the server or the template refuses it.
    """

    temperature: NonNegative | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: AtLeastOne | None = None
    max_tokens: AtLeastOne | None = None
    stop: NonEmpty | list[NonEmpty] | None = None
    logprobs: bool = False
    tools: ToolMode = "auto"
    reasoning: ReasoningMode = "split"
    send_reasoning: SendReasoning = "auto"

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings; empty where there are none."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


def split_reasoning(text: str, opened: bool = False) -> tuple[str, str]:
    """The reasoning and the answer of a reply, each stripped of white space where there is reasoning.

    Models write reasoning in three ways: whole at the beginning, `<think>…</think>`; with the opening tag in the
    prompt (`opened`), so that the reply holds the closing one alone; or cut off before the closing tag, when the whole
    rest is reasoning. A text without reasoning is returned unchanged as the answer. Only reasoning at the beginning is
    taken out: a tag inside the answer is part of the answer.
    """
    body = text.lstrip()
    if body.startswith(_THINK):
        body = body[len(_THINK) :]
    elif (not opened and _END_THINK not in body) or (not opened and _THINK in body.partition(_END_THINK)[0]):
        return "", text
    reasoning, closing, answer = body.partition(_END_THINK)
    return reasoning.strip(), answer.strip() if closing else ""


def tools_as_text(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[Message]:
    """Rewrite a conversation for models whose server or template has no tool calling of its own.

    The schemas go into the system message, and native calls and tool roles become text in the format of Hermes and Qwen
    models; the environment's own parser reads the calls that the model writes back.
    """
    rewritten = [_as_text(message) for message in messages]
    if not tools:
        return rewritten
    lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
    text = prompt("factgym.agents", "tools").replace("{example}", example_call(tools), 1).replace("{tools}", lines, 1)
    if rewritten and rewritten[0]["role"] == "system":
        return [{"role": "system", "content": f"{rewritten[0]['content'] or ''}\n\n{text}"}, *rewritten[1:]]
    return [{"role": "system", "content": text}, *rewritten]


def _as_text(message: Message) -> Message:
    content = message["content"] or ""
    if message["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{content}\n</tool_response>"}
    parts = [content] if content else []
    for call in message.get("tool_calls") or ():
        name, arguments = json.dumps(call["function"]["name"]), call["function"]["arguments"]
        parts.append(f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>')
    rewritten: Message = {"role": message["role"], "content": "\n".join(parts)}
    if reasoning := message.get("reasoning_content"):
        rewritten["reasoning_content"] = reasoning
    return rewritten
