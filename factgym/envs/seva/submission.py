"""The `submit` tool, and what counts as a submission.

The schema of the tool is the published schema of the verdict. What arrives is taken as it is: an object that lacks
half of its fields is a poor verdict and is scored as one, because the paper's reward is defined on any JSON. An object
with none of the verdict's fields is something else and is no submission.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from factgym.core.action import ParsedAction
from factgym.core.action_text import visible_text
from factgym.core.calls import CallError, ToolCall
from factgym.core.messages import ToolSchema
from factgym.core.strict_json import DEFAULT_LIMITS
from factgym.rewards.seva import FIELDS, VERDICT_SCHEMA, read_output
from factgym.tools.untrusted import neutralise

SUBMIT = "submit"
IMPLICIT: Mapping[str, str] = dict.fromkeys(FIELDS, SUBMIT)

_ABOUT = "Submit the verdict on the claim."
_LEFT_OUT = ("$schema", "$id", "title", "description", "if", "then", "else")
"""What servers take for a tool's parameters is a small part of JSON Schema; the description stands beside it."""


@cache
def submit_schema() -> ToolSchema:
    """The tool in the OpenAI form."""
    parameters = {key: value for key, value in VERDICT_SCHEMA.items() if key not in _LEFT_OUT}
    return {"type": "function", "function": {"name": SUBMIT, "description": _ABOUT, "parameters": parameters}}


def is_verdict(data: Mapping[str, Any]) -> bool:
    """Whether an object has at least one of the verdict's fields."""
    return any(field in data for field in FIELDS)


def harmless(value: Any) -> Any:
    """A copy in which every text is neutralised, as the claim and the source were before they were shown.

    Neutralising changes no length; what was copied from a shown text stays equal to it.
    """
    if isinstance(value, str):
        return neutralise(value)
    if isinstance(value, dict):
        return {key: harmless(one) for key, one in value.items()}
    return [harmless(one) for one in value] if isinstance(value, list) else value


def salvaged(parsed: ParsedAction) -> ToolCall | None:
    """The verdict in a message in which no call was found, by the published reader, which is laxer than ours.

    It takes what stands between the first brace and the last, so a key that stands twice, NaN, or a verdict that
    carries a name of its own is read. Reasoning is left out; a message that is too long was refused whole.
    """
    errors = [item for item in parsed.items if isinstance(item, CallError)]
    if parsed.native or len(errors) < len(parsed.items) or any(one.code == "too_long" for one in errors):
        return None
    text = parsed.message.get("content") or ""
    output = read_output(visible_text(text, DEFAULT_LIMITS))
    if output is None or not is_verdict(output.data):
        return None
    return ToolCall(SUBMIT, output.data, None, 0, len(text))
