"""JSON lines of documents: `{"id": …, "title": …, "text": …}`, or `contents` for `text` as Pyserini writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from factgym.core.errors import DataError

_TEXT_KEYS = ("text", "contents")


class Record(NamedTuple):
    """One document of a JSONL file; `title` may be empty, `id` falls back on the line number."""

    id: str
    title: str
    text: str


def read_jsonl(text: str, name: str) -> Iterator[Record]:
    """The records of a JSONL text; `name` is the file's name for messages.

    Raises DataError with the file and the line for anything that is not an object with a text.
    """
    seen: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{name} line {number}"
        record = _record(_parse(line, place), place, number)
        if record.id in seen:
            raise DataError(
                f"{place}: the id {record.id[:80]!r} stands on line {seen[record.id]} too. Make ids unique."
            )
        seen[record.id] = number
        yield record


def _parse(line: str, place: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON at column {error.colno} ({error.msg})"
        raise DataError(f"{place}: {problem}. Fix the line or remove it.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not usable JSON ({str(error)[:100]}). Fix the line or remove it.") from None
    if not isinstance(value, dict):
        raise DataError(
            f"{place}: a JSON object is expected, not a {type(value).__name__}. Fix the line or remove it."
        )
    return value


def _record(value: dict[str, Any], place: str, number: int) -> Record:
    key = next((key for key in _TEXT_KEYS if key in value), None)
    if key is None:
        found = ", ".join(sorted(map(str, value))[:8]) or "no keys"
        raise DataError(f'{place}: no "text" or "contents" (found: {found[:200]}). Add the text or remove the line.')
    text = value[key]
    if not isinstance(text, str):
        raise DataError(f"{place}: {key!r} must be a string, not a {type(text).__name__}.")
    title = value.get("title") or ""
    if not isinstance(title, str):
        raise DataError(f"{place}: 'title' must be a string, not a {type(title).__name__}.")
    if key == "contents" and not title:
        title, text = _pyserini(text)
    id_ = value.get("id", f"line-{number}")
    if not isinstance(id_, str | int) or isinstance(id_, bool) or id_ == "":
        raise DataError(f"{place}: 'id' must be a string or a whole number that is not empty.")
    return Record(_clean(str(id_)), " ".join(_clean(title).split()), _clean(text))


def _clean(text: str) -> str:
    """`text` without lone surrogates, which JSON can spell and no file or server can carry."""
    return text.encode("utf-8", "replace").decode()


def _pyserini(contents: str) -> tuple[str, str]:
    first, line_break, rest = contents.partition("\n")
    quoted = len(first) > 2 and first[0] == first[-1] == '"'
    return (first[1:-1], rest) if line_break and quoted else ("", contents)
