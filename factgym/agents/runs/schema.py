"""The format of an episode record: its JSON Schema, published beside this module, and the check of a record against it.

What the schema cannot say is checked here as well: indices that point somewhere, character ranges inside their
message, numbers that JSON can write.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from factgym.core.errors import DataError
from factgym.core.messages import message_text

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_FILE = "episode.schema.json"
_MAX_SHOWN_CHARS = 120

Fault = tuple[str, str]
"""Where in the record, as `turns[2].message`, and what is wrong there."""


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one line of `episodes.jsonl`; a copy that is the caller's own."""
    return copy.deepcopy(_loaded())


def validate(record: Mapping[str, Any]) -> None:
    """Check a record. Raises DataError that names the path of the first fault and what is wrong there."""
    error = next(_validator().iter_errors(record), None)
    if error is not None:
        path, said = _explain(error)
    else:
        path, said = next(_faults(record), ("", ""))
    if said:
        raise DataError(f"{path or 'the record'}: {said} (see {_FILE} of factgym.agents.runs)")


@cache
def _loaded() -> dict[str, Any]:
    text = resources.files("factgym.agents.runs").joinpath(_FILE).read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(_loaded())


def _explain(error: ValidationError) -> Fault:
    """The deepest cause: an `anyOf` with null otherwise says only that nothing fits."""
    while error.context:
        error = max(error.context, key=lambda one: (len(one.path), one.validator != "type"))
    said = error.message
    if len(said) > _MAX_SHOWN_CHARS:  # the message quotes the value, which may be a megabyte
        said = f"{said[:_MAX_SHOWN_CHARS]}… breaks the rule {error.validator!r}"
    return path_text(error.absolute_path), said


def path_text(steps: Sequence[str | int]) -> str:
    """`turns[2].message` for `["turns", 2, "message"]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _faults(record: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with a record that fits the schema."""
    yield from _places(record)
    yield from _spans(record)
    yield from _not_finite(record, [])


def _places(record: Mapping[str, Any]) -> Iterator[Fault]:
    messages, others = record["messages"], record["other_messages"]
    known = {tool["function"]["name"] for tool in record["tools"]}
    last = -1
    for number, turn in enumerate(record["turns"]):
        where, place = f"turns[{number}]", turn["message"]
        if place >= len(messages) or messages[place]["role"] != "assistant" or place <= last:
            yield f"{where}.message", f"{place} is not the place of the policy's next message"
        last = place
        for index in turn["sent"] or ():
            if index >= len(messages) + len(others):
                yield f"{where}.sent", f"{index} is no message: there are {len(messages)} and {len(others)} others"
        for name in turn["tools"] or ():
            if name not in known:
                yield f"{where}.tools", f"{name!r:.80} is none of the episode's tools"


def _spans(record: Mapping[str, Any]) -> Iterator[Fault]:
    messages = record["messages"]
    for number, (place, start, end, _) in enumerate((record["reward"] or {}).get("spans", ())):
        where = f"reward.spans[{number}]"
        if place >= len(messages) or messages[place]["role"] != "assistant":
            yield where, f"{place} is not the place of a policy's message"
        elif not start <= end <= len(message_text(messages[place])):
            yield where, f"[{start}, {end}) lies outside of message {place}"


def _not_finite(value: Any, path: list[str | int]) -> Iterator[Fault]:
    if isinstance(value, float):
        if not math.isfinite(value):
            yield path_text(path), f"{value} is no JSON number"
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _not_finite(one, [*path, key])
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _not_finite(one, [*path, index])
