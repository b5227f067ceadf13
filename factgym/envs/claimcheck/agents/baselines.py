"""Three of the paper's static baselines: lexical overlap, number and date rules, and an embedding-similarity proxy.

They share the evidence front and differ in the verdict rule. The fourth, the NLI-style proxy, is the honest baseline
of the audit and has a module of its own. Thresholds were chosen on training splits.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache

from factgym.baselines.reading import Line, Reading, Statement, pick
from factgym.baselines.rule import Finding, bare
from factgym.baselines.spans import missing_span
from factgym.baselines.values import first_conflict
from factgym.datasets.claims import Status

_LEXICAL = (0.55, 0.45)
_NUMBERS = 0.55
_EMBEDDING = (0.5, 0.4)
_BUCKETS = 4096
_GRAM = 4


def lexical(asked: Statement, reading: Reading) -> Finding:
    """By the share of the statement's words in the evidence: most supported, fewer overclaim, few unsupported."""
    lines = pick(reading, asked)
    return _by_threshold(asked, lines, reading.coverage(asked, lines), _LEXICAL)


def numbers(asked: Statement, reading: Reading) -> Finding:
    """Supported when the subject is there, unless a number, date or frequency of the statement is another one there."""
    lines = pick(reading, asked)
    conflict = first_conflict(asked, lines)
    if conflict is not None:
        return Finding("contradicted", tuple(lines), conflict, f"The evidence gives another value than {conflict!r}.")
    high = _NUMBERS
    return _by_threshold(asked, lines, reading.coverage(asked, lines), (high, high))


def embedding(asked: Statement, reading: Reading) -> Finding:
    """By the cosine of hashed character n-grams, the stand-in for a sentence embedding that needs no download."""
    mine = _vector(asked.text)

    def likeness(_: Statement, line: Line) -> float:
        return _cosine(mine, _vector(line.text))

    lines = pick(reading, asked, likeness)[:1]
    return _by_threshold(asked, lines, likeness(asked, lines[0]), _EMBEDDING)


def _by_threshold(asked: Statement, lines: Iterable[Line], value: float, bounds: tuple[float, float]) -> Finding:
    lines = tuple(lines)
    if value >= bounds[0]:
        return Finding("supported", lines, "", "The evidence states it in nearly the same words.")
    status: Status = "overclaim" if value >= bounds[1] else "unsupported"
    span = missing_span(asked, lines) if status == "overclaim" else bare(asked.text)
    return Finding(status, lines, span, "The evidence does not have all of these words.")


@lru_cache(maxsize=4096)
def _vector(text: str) -> Mapping[int, float]:
    """Hashed character n-grams of the words, sublinear counts, unit norm."""
    counts: dict[int, int] = {}
    folded = f" {' '.join(text.lower().split())[:2000]} "
    for start in range(len(folded) - _GRAM + 1):
        bucket = zlib.crc32(folded[start : start + _GRAM].encode()) % _BUCKETS
        counts[bucket] = counts.get(bucket, 0) + 1
    weights = {bucket: 1.0 + math.log(count) for bucket, count in counts.items()}
    norm = math.sqrt(math.fsum(weight * weight for weight in weights.values())) or 1.0
    return {bucket: weight / norm for bucket, weight in weights.items()}


def _cosine(left: Mapping[int, float], right: Mapping[int, float]) -> float:
    if len(right) < len(left):
        left, right = right, left
    return math.fsum(weight * right[bucket] for bucket, weight in left.items() if bucket in right)
