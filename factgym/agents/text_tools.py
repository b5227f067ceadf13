"""Tools as text, for models whose server or template has no tool calling of its own.

The schemas go into the system message; a transcript that was made with native tool calls is rewritten into the same
text form. What the model writes back is read by the environment's own parser.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from factgym.core.messages import Message, ToolSchema
from factgym.core.prompts import prompt


def tools_as_text(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[Message]:
    """The messages with the tools described in the system message and no native calls or tool roles left."""
    plain = [_plain(message) for message in messages]
    if not tools:
        return plain
    lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
    text = prompt("factgym.agents", "tools").replace("{tools}", lines, 1)
    if plain and plain[0]["role"] == "system":
        return [{"role": "system", "content": f"{plain[0]['content'] or ''}\n\n{text}"}, *plain[1:]]
    return [{"role": "system", "content": text}, *plain]


def _plain(message: Message) -> Message:
    content = message["content"] or ""
    if message["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{content}\n</tool_response>"}
    calls = [
        f'<tool_call>\n{{"name": {json.dumps(call["function"]["name"])}, "arguments": {call["function"]["arguments"]}}}\n</tool_call>'
        for call in message.get("tool_calls") or ()
    ]
    return {"role": message["role"], "content": "\n".join([content, *calls] if content else calls or [""])}
