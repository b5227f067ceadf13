"""The `submit` tool, the salvage of a verdict from text, and the review of a draft.

The schema of the tool is the published schema of the verdict. The arguments are accepted as they are: an object that
lacks half of its fields is a poor verdict and is scored as one, because the paper's reward is defined on any JSON. An
object with none of the verdict's fields is no submission.

The review is the validator of the repair step. It compares an output with the published schema, the claim and the
source, and never with the gold, so that nothing in it reveals the label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from factgym.core.action import ParsedAction
from factgym.core.calls import CallError, ToolCall
from factgym.core.dialects import visible_text
from factgym.core.fast_schema import schema_test
from factgym.core.messages import ToolSchema
from factgym.core.strict_json import DEFAULT_LIMITS
from factgym.core.untrusted import neutralise
from factgym.rewards.seva.grounding import occurs
from factgym.rewards.seva.output import (
    FIELDS,
    JUDGMENTS,
    LABELS,
    NOT_FOUND,
    STATUSES,
    VERDICT_SCHEMA,
    SevaOutput,
    read_output,
)
from factgym.tools.schema import compact_schema

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

SUBMIT = "submit"
IMPLICIT: Mapping[str, str] = dict.fromkeys(FIELDS, SUBMIT)

_DESCRIPTION = "Submit the verdict on the claim."
_OMITTED_KEYWORDS = ("$schema", "$id", "title", "description", "if", "then", "else")
"""Servers accept a small part of JSON Schema as a tool's parameters; the description is beside it."""


@cache
def submit_schema(style: str = "full") -> ToolSchema:
    """Return the tool in the OpenAI form. style: "brief" for a compact schema."""
    parameters = {key: value for key, value in VERDICT_SCHEMA.items() if key not in _OMITTED_KEYWORDS}
    parameters = compact_schema(parameters) if style == "brief" else parameters
    return {"type": "function", "function": {"name": SUBMIT, "description": _DESCRIPTION, "parameters": parameters}}


def is_verdict(data: Mapping[str, Any]) -> bool:
    """Whether an object has at least one of the verdict's fields."""
    return any(field in data for field in FIELDS)


def neutralise_json(value: Any) -> Any:
    """Return a copy with every text neutralised, as the claim and the source were before they were shown.

    Neutralising changes no length; text copied from a shown text stays equal to it.
    """
    if isinstance(value, str):
        return neutralise(value)
    if isinstance(value, dict):
        return {key: neutralise_json(item) for key, item in value.items()}
    return [neutralise_json(item) for item in value] if isinstance(value, list) else value


def salvage_verdict(parsed: ParsedAction) -> ToolCall | None:
    """Read the verdict in a message without any tool call by the published parser, which is laxer than ours.

    It takes the text between the first brace and the last, so a repeated key, NaN, or a verdict that has a field
    "name" is read. Reasoning is left out; a message that is too long was refused whole.
    """
    errors = [item for item in parsed.items if isinstance(item, CallError)]
    if parsed.native or len(errors) < len(parsed.items) or any(error.code == "too_long" for error in errors):
        return None
    text = parsed.message.get("content") or ""
    output = read_output(visible_text(text, DEFAULT_LIMITS))
    if output is None or not is_verdict(output.data):
        return None
    return ToolCall(SUBMIT, output.data, None, 0, len(text))


MAX_COMPLAINTS = 12
_MAX_SCHEMA_ERRORS = 6
_MAX_ENTRIES = 64
_MAX_LISTED = 6
_MAX_SHOWN_CHARS = 120


def review_draft(output: SevaOutput, claim: str, source: str) -> tuple[str, ...]:
    """Return the faults of an output, a sentence each, at most `MAX_COMPLAINTS`. claim, source: as they were shown."""
    faults = [*schema_errors(output.data), *quote_errors(output, claim, source), *contradictions(output)]
    return tuple(faults[:MAX_COMPLAINTS])


def schema_errors(data: Mapping[str, Any]) -> list[str]:
    """Return at most six departures of an object from the published schema."""
    if _fits_schema()(data):
        return []
    departures = []
    for error in islice(_validator().iter_errors(data), _MAX_SCHEMA_ERRORS):
        message = error.message
        if len(message) > 2 * _MAX_SHOWN_CHARS:  # the value comes first and the reason last
            message = f"{message[:_MAX_SHOWN_CHARS]} … {message[-_MAX_SHOWN_CHARS:]}"
        departures.append(neutralise(f"Form, at {error.json_path[:_MAX_SHOWN_CHARS]}: {message}."))
    return departures


@cache
def _fits_schema() -> Callable[[Any], bool]:
    return schema_test(VERDICT_SCHEMA)


@cache
def _validator() -> Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(VERDICT_SCHEMA)


def quote_errors(output: SevaOutput, claim: str, source: str) -> Iterator[str]:
    """Yield the spans that do not occur in the text that they are taken from, as the reward compares them."""
    lists = (
        ("evidence_alignment, entry", output.alignments, "claim_span", "source_span"),
        ("reasoning_chain, step", output.chain, "", "source_evidence"),
    )
    for name, entries, claim_key, source_key in lists:
        for number, entry in enumerate(_objects(entries), start=1):
            for key, text, text_name in ((claim_key, claim, "claim"), (source_key, source, "source")):
                span = entry.get(key)
                if isinstance(span, str) and span.strip() and span != NOT_FOUND and not occurs(neutralise(span), text):
                    yield f"{name} {number}: the {key} {_quote(span)} does not occur in the {text_name} word for word."


def contradictions(output: SevaOutput) -> Iterator[str]:
    """Yield the parts of an output that do not agree with its label."""
    label = output.label
    spans = [entry for entry in _objects(output.alignments) if entry.get("status") in STATUSES[1:]]
    steps = [step for step in _objects(output.chain) if step.get("judgment") in JUDGMENTS[1:]]
    if label == LABELS[0]:
        if spans or steps:
            yield f"The label is {LABELS[0]}, but {len(spans)} spans and {len(steps)} steps speak against it."
        if output.data.get("error_type"):
            yield f"The label is {LABELS[0]}, but an error_type is named."
    elif label == LABELS[1]:
        if not spans and not steps:
            yield f"The label is {LABELS[1]}, but no span and no step speaks against the claim."
        if output.error_type is None:
            yield f"The label is {LABELS[1]}, but error_type names none of the six categories."
        if not output.fix.strip():
            yield f"The label is {LABELS[1]}, but there is no fix_suggestion."
    if "confidence" in output.data and output.confidence < 0.5:
        yield "The confidence is below 0.5, which says that the other label is more likely."


def summarise_draft(output: SevaOutput) -> str:
    """Return the output's own diagnosis in a few lines: label, matches and mismatches, error and correction."""
    lines = [f"- label {output.label}, confidence {output.confidence:.2f}"]
    lists = ((output.alignments, "status", "claim_span", STATUSES), (output.chain, "judgment", "claim_part", JUDGMENTS))
    for entries, key, part_key, values in lists:
        for value in values:
            parts = [_quote(str(entry.get(part_key))) for entry in _objects(entries) if entry.get(key) == value]
            more = f" and {len(parts) - _MAX_LISTED} more" if len(parts) > _MAX_LISTED else ""
            lines += [f"- {value}: {'; '.join(parts[:_MAX_LISTED])}{more}"] if parts else []
    if output.label == LABELS[1]:
        lines.append(f"- error type {output.error_type}; correction: {_quote(output.fix)}")
    return "\n".join(lines)


def _objects(entries: Sequence[Any]) -> list[Mapping[str, Any]]:
    return [entry for entry in entries[:_MAX_ENTRIES] if isinstance(entry, dict)]


def _quote(text: str) -> str:
    flat = " ".join(text[: 4 * _MAX_SHOWN_CHARS].split())
    return f"“{neutralise(flat[:_MAX_SHOWN_CHARS])}{'…' if len(flat) > _MAX_SHOWN_CHARS else ''}”"
