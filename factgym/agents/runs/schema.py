"""The format of an episode record: its JSON Schema, published beside this module, and the check of a record against it.

Properties that a schema cannot express are checked here as well: indices of existing messages, character ranges
inside their message, numbers that JSON can write.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from factgym.core.errors import DataError
from factgym.core.fast_schema import Test, schema_test
from factgym.core.messages import message_text

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_FILE = "episode.schema.json"
_MAX_MESSAGE_CHARS = 120

Fault = tuple[str, str]
"""The path in the record, as `turns[2].message`, and the message."""


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one line of `episodes.jsonl`; a copy that is the caller's own."""
    return copy.deepcopy(cast(dict[str, Any], _validator().schema))


def validate(record: Mapping[str, Any], *, parsed: bool = False) -> None:
    """Check a record. Raises DataError that names the path of the first fault.

    parsed: it was read from a file, whose numbers are checked as they are parsed.
    """
    error = None if _fits()(record) else next(_validator().iter_errors(record), None)
    path, message = _explain(error) if error is not None else next(_faults(record, parsed), ("", ""))
    if message:
        raise DataError(f"{path or 'the record'}: {message} (see {_FILE} of factgym.agents.runs)")


@cache
def _fits() -> Test:
    return schema_test(cast(dict[str, Any], _validator().schema))


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(resources.files(__package__).joinpath(_FILE).read_text("utf-8")))


def _explain(error: ValidationError) -> Fault:
    """The deepest cause: an `anyOf` with null otherwise reports only that nothing fits."""
    while error.context:
        error = max(error.context, key=lambda cause: (len(cause.path), cause.validator != "type"))
    message = error.message
    if len(message) > _MAX_MESSAGE_CHARS:  # it quotes the value, which may be a megabyte
        message = f"{message[:_MAX_MESSAGE_CHARS]}… breaks the rule {error.validator!r}"
    return path_text(error.absolute_path), message


def path_text(steps: Sequence[str | int]) -> str:
    """`turns[2].message` for `["turns", 2, "message"]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _faults(record: Mapping[str, Any], parsed: bool) -> Iterator[Fault]:
    """Faults of a record that fits the schema."""
    yield from _turn_faults(record)
    for number, (index, start, end, _) in enumerate((record["reward"] or {}).get("spans", ())):
        where = f"reward.spans[{number}]"
        if not _is_reply(record, index):
            yield where, f"{index} is not the index of a policy's message"
        elif not start <= end <= len(message_text(record["messages"][index])):
            yield where, f"[{start}, {end}) lies outside of message {index}"
    if not parsed:
        yield from _not_finite(record, [])


def _turn_faults(record: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what no schema says of turns: replies in order, messages that exist, tools of the episode."""
    messages, extra = len(record["messages"]), len(record["other_messages"])
    tools = {tool["function"]["name"] for tool in record["tools"]}
    previous = -1
    for number, turn in enumerate(record["turns"]):
        where, index = f"turns[{number}]", turn["message"]
        if not _is_reply(record, index) or index <= previous:
            yield f"{where}.message", f"{index} is not the index of the policy's next message"
        previous = index
        for sent in turn["sent"] or ():
            if sent >= messages + extra:
                yield f"{where}.sent", f"{sent} is no message: there are {messages} and {extra} others"
        for name in turn["tools"] or ():
            if name not in tools:
                yield f"{where}.tools", f"{name!r:.80} is none of the episode's tools"


def _is_reply(record: Mapping[str, Any], index: int) -> bool:
    return index < len(record["messages"]) and record["messages"][index]["role"] == "assistant"


def _not_finite(value: Any, path: list[str | int]) -> Iterator[Fault]:
    if isinstance(value, float):
        if not math.isfinite(value):
            yield path_text(path), f"{value} is no JSON number"
    elif isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _not_finite(item, [*path, key])
