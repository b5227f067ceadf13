"""What the policy sampled, as the message that the environment plays."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from factgym.agents.sampling import split_reasoning
from factgym.core.action import parse_action
from factgym.core.calls import ToolCall
from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.messages import Message, ToolSchema
from factgym.integrations.credit import read_hermes, read_message

HERMES = "hermes"
_BLOCK = re.compile(r"<tool_call>.*?(?:</tool_call>|\Z)", re.DOTALL)
_PLAIN = re.compile(r"\s*<tool_call>\s*(\{.*\})\s*</tool_call>\s*", re.DOTALL)


class Reader:
    """Reads turns in the format that `rollout.multi_turn.format` names.

    Calls in Hermes' form are read by the environment's own parser, so that one that is malformed is the environment's
    to refuse; those of other forms by verl's parser for them. Raises ConfigError for a format that verl does not know.
    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        from verl.experimental.agent_loop.tool_parser import ToolParser

        known = sorted(ToolParser._registry)
        if name not in known:
            raise ConfigError(
                f"verl has no tool format {name!r}.{did_you_mean(name, known)} It has {', '.join(known)}."
            )
        self.format = name
        self._parser = ToolParser.get_tool_parser(name, tokenizer)
        self.stop_token_ids: list[int] = list(self._parser.stop_token_ids)

    async def read(
        self, env: Env[Any], text: str, ids: Sequence[int], schemas: Sequence[ToolSchema], number: int, opened: bool
    ) -> Message:
        """The message to play: native calls where there are some, else the text.

        ids: the tokens of the text. number: of the turn, for the ids of the calls. opened: whether the prompt ended
        inside a `<think>`.
        """
        if self.format == HERMES and not opened and (message := read_hermes(text, number)):
            return message
        reasoning, answer = split_reasoning(text, opened)
        content, calls = await self._calls(env, text, answer, ids, schemas)
        parsed: dict[str, Any] = {"content": content, "tool_calls": calls}
        if reasoning:
            parsed["reasoning_content"] = reasoning
        return read_message(parsed, text, number)

    async def _calls(
        self, env: Env[Any], text: str, answer: str, ids: Sequence[int], schemas: Sequence[ToolSchema]
    ) -> tuple[str, list[dict[str, Any]]]:
        if self.format == HERMES:
            if "<tool_call>" not in answer:
                return answer, []
            if (plain := _PLAIN.fullmatch(answer)) and (call := _call(plain[1])):
                return "", [call]
            items = parse_action(text, tags=env.tags, implicit=env.implicit).items
            known = [item for item in items if isinstance(item, ToolCall)]
            if len(known) < len(items):
                return answer, []
            calls = [{"function": {"name": item.name, "arguments": item.arguments}} for item in known]
            return _BLOCK.sub("", answer).strip(), calls
        try:
            content, found = await self._parser.extract_tool_calls(list(ids), _verls(schemas))
            arguments = [json.loads(one.arguments) for one in found]
        except Exception:  # noqa: BLE001 - what a parser cannot read is a text, which the environment refuses in words
            return answer, []
        named = zip(found, arguments, strict=True)
        return content.strip(), [{"function": {"name": one.name, "arguments": values}} for one, values in named]


def _call(text: str) -> dict[str, Any] | None:
    """A call that is nothing but a name and arguments; None for what the environment's parser should see."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    usual = found.keys() == {"name", "arguments"} and type(found["name"]) is str and type(found["arguments"]) is dict
    return {"function": found} if usual else None


def _verls(schemas: Sequence[ToolSchema]) -> list[Any]:
    """The schemas in verl's type, which knows less than JSON Schema and reads what it knows."""
    from verl.tools.schemas import OpenAIFunctionToolSchema

    return [OpenAIFunctionToolSchema.model_validate(schema) for schema in schemas]
