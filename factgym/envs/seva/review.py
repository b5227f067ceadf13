"""What is noticed about a draft without knowing whether its label is right: form, spans, and contradictions in itself.

This is the validator of the repair step. It compares an output with the published schema, the claim and the source,
and never with the gold, so that nothing in it tells the label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from factgym.corpora.text import find_quote
from factgym.rewards.seva import LABELS, NOT_FOUND, VERDICT_SCHEMA, SevaOutput
from factgym.tools.untrusted import neutralise

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MAX_COMPLAINTS = 12
_MAX_SCHEMA_ERRORS = 6
_MAX_ENTRIES = 64
_SHOWN = 120
_LEAST_SURE = 0.5


def complaints(output: SevaOutput, claim: str, source: str) -> tuple[str, ...]:
    """What is wrong with an output, each in a sentence, at most `MAX_COMPLAINTS`; empty when nothing was noticed.

    claim, source: as they were shown.
    """
    found = [*schema_errors(output.data), *_unverbatim(output, claim, source), *_contradictions(output)]
    return tuple(found[:MAX_COMPLAINTS])


def schema_errors(data: Mapping[str, Any]) -> list[str]:
    """How an object departs from the published schema, at most six departures."""
    errors = islice(_validator().iter_errors(data), _MAX_SCHEMA_ERRORS)
    return [f"Form, at {error.json_path[:_SHOWN]}: {_short(error.message)}." for error in errors]


@cache
def _validator() -> Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(VERDICT_SCHEMA)


def _unverbatim(output: SevaOutput, claim: str, source: str) -> Iterator[str]:
    for number, entry in enumerate(_objects(output.alignments), start=1):
        where = f"evidence_alignment, entry {number}"
        yield from _missing(entry, "claim_span", claim, "the claim", where)
        if entry.get("source_span") != NOT_FOUND:
            yield from _missing(entry, "source_span", source, "the source", where)
    for number, step in enumerate(_objects(output.chain), start=1):
        where = f"reasoning_chain, step {number}"
        yield from _missing(step, "claim_part", claim, "the claim", where)
        if step.get("source_evidence") != NOT_FOUND:
            yield from _missing(step, "source_evidence", source, "the source", where)


def _missing(entry: Mapping[str, Any], key: str, text: str, name: str, where: str) -> Iterator[str]:
    span = entry.get(key)
    if isinstance(span, str) and span.strip() and find_quote(neutralise(span), text) is None:
        yield f"{where}: the {key} {_quoted(span)} does not stand in {name} word for word."


def _contradictions(output: SevaOutput) -> Iterator[str]:
    label = output.label
    against = [one for one in _objects(output.alignments) if one.get("status") in ("mismatch", "not_found")]
    denied = [one for one in _objects(output.chain) if one.get("judgment") in ("not_supported", "partially_supported")]
    if label == LABELS[0]:
        if against or denied:
            yield f"The label is {LABELS[0]}, but {len(against)} spans and {len(denied)} steps speak against it."
        if output.data.get("error_type"):
            yield f"The label is {LABELS[0]}, but an error_type is named."
    elif label == LABELS[1]:
        if not against and not denied:
            yield f"The label is {LABELS[1]}, but no span and no step speaks against the claim."
        if output.error_type is None:
            yield f"The label is {LABELS[1]}, but error_type names none of the six categories."
        if not output.fix.strip():
            yield f"The label is {LABELS[1]}, but there is no fix_suggestion."
    if "confidence" in output.data and output.confidence < _LEAST_SURE:
        yield "The confidence is below 0.5, which says that the other label is more likely."


def diagnosis(output: SevaOutput) -> str:
    """The output in a few lines: what matched, what did not, and what was made of it."""
    alignments, steps = _objects(output.alignments), _objects(output.chain)
    lines = [f"- label {output.label}, confidence {output.confidence:.2f}"]
    lines += _listed(alignments, "status", "claim_span", ("match", "mismatch", "not_found"))
    lines += _listed(steps, "judgment", "claim_part", ("supported", "not_supported", "partially_supported"))
    if output.label == LABELS[1]:
        lines.append(f"- error type {output.error_type}; correction: {_quoted(output.fix)}")
    return "\n".join(lines)


def _listed(entries: Sequence[Mapping[str, Any]], key: str, part: str, values: Sequence[str]) -> Iterator[str]:
    for value in values:
        parts = [_quoted(str(one.get(part))) for one in entries if one.get(key) == value]
        if parts:
            yield f"- {value}: {'; '.join(parts[:6])}" + (f" and {len(parts) - 6} more" if len(parts) > 6 else "")


def _objects(entries: Sequence[Any]) -> list[Mapping[str, Any]]:
    return [one for one in entries[:_MAX_ENTRIES] if isinstance(one, dict)]


def _short(text: str) -> str:
    """The message of a schema error, harmless; the value comes first and the reason last."""
    text = text if len(text) <= 2 * _SHOWN else f"{text[:_SHOWN]} … {text[-_SHOWN:]}"
    return neutralise(text)


def _quoted(text: str) -> str:
    flat = " ".join(text[: 4 * _SHOWN].split())
    return f"“{neutralise(flat[:_SHOWN])}{'…' if len(flat) > _SHOWN else ''}”"
