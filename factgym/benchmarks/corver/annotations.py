"""Annotated sentences from a user's file: pairs of a count and a verdict, or sentences to be counted here.

One JSON object a line. `correct` is true or false, 1 or 0, or one of the words "correct", "incorrect", "supported",
"unsupported", "right", "wrong". `count` is the number of co-occurrences, null where there was no query. A line without
`count` has a `sentence`, and is counted when a counter is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from factgym.core.errors import DataError
from factgym.corpora.cooccurrence import Counter
from factgym.rewards.corver import Extractor, Triplet, build_query

CountSentences = Callable[[Sequence[str]], Sequence[int | None]]
"""From sentences to their counts, None for one that gives no query."""

_WORDS: Mapping[str, bool] = MappingProxyType(
    {
        "correct": True,
        "supported": True,
        "right": True,
        "true": True,
        "incorrect": False,
        "unsupported": False,
        "wrong": False,
        "false": False,
    }
)


@dataclass(frozen=True, slots=True)
class Annotation:
    """One sentence. count: None where there was no query, or where it has yet to be counted."""

    sentence: str
    count: int | None
    correct: bool
    counted: bool


def read_annotations(path: str | Path, count: CountSentences | None = None) -> list[tuple[int | None, bool]]:
    """The pairs of a file, sentences without a count counted by `count`.

    Raises DataError that names file, line and fault; also for a sentence without a count where `count` is None.
    """
    path = Path(path)
    found = list(_annotations(path))
    if not found:
        raise DataError(f"{path} holds no annotated sentence")
    missing = [one.sentence for one in found if not one.counted]
    if missing and count is None:
        raise DataError(
            f"{path}: {len(missing)} of {len(found)} lines have no 'count': add it, or give the counter that counts them"
        )
    counts = iter(count(missing) if missing and count else ())
    return [(one.count if one.counted else next(counts), one.correct) for one in found]


def sentence_counter(counter: Counter, extractor: Extractor) -> CountSentences:
    """Counts sentences as the reward does by its rule "first": the first valid triplet's query."""

    def count(sentences: Sequence[str]) -> list[int | None]:
        queries = [_query(triplets) for triplets in extractor.extract(sentences)]
        known = list(dict.fromkeys(one for one in queries if one is not None))
        counts = dict(zip(known, map(int, counter.count_many(known)), strict=True)) if known else {}
        return [None if one is None else counts[one] for one in queries]

    return count


def _query(triplets: Sequence[Triplet]) -> tuple[str, ...] | None:
    first = next((one for one in triplets if one.valid), None)
    return None if first is None else build_query(first)


def _annotations(path: Path) -> Iterator[Annotation]:
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _annotation(line, f"{path} line {number}")


def _annotation(line: str, where: str) -> Annotation:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: no valid JSON") from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: an object is needed")
    correct, count, sentence = _correct(row.get("correct"), where), row.get("count"), row.get("sentence")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise DataError(f"{where}: 'count' is a whole number from 0, or null, not {count!r:.40}")
    if "count" not in row and (not isinstance(sentence, str) or not sentence.strip()):
        raise DataError(f"{where}: 'count' or 'sentence' is needed")
    return Annotation(sentence if isinstance(sentence, str) else "", count, correct, "count" in row)


def _correct(value: Any, where: str) -> bool:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    raise DataError(f"{where}: 'correct' is true or false, not {value!r:.40}")
