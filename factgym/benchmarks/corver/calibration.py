"""Do counts separate right from wrong sentences? Shares with Wilson intervals by bucket of the count (section 6.1, B.5).

The paper's five buckets: 0, 1-4, 5-9, 10-19, 20 and more. A threshold of the reward belongs where the share jumps, and
the jump of a boundary has an interval too: Newcombe's hybrid of the two Wilson intervals (1998, method 10).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from factgym.benchmarks.statistics.classification import share_difference
from factgym.benchmarks.statistics.intervals import Estimate, wilson
from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence import Counter
from factgym.corpora.rows import Row, read_rows
from factgym.rewards.corver.triplets import Extractor, build_query

EDGES = (0, 1, 5, 10, 20)
"""The lowest count of each bucket."""

Pair = tuple[int, bool]
"""A sentence's count, and whether the sentence is right."""


def with_bounds(name: str, estimate: Estimate) -> dict[str, float | None]:
    """Return an estimate as JSON data under a name, its interval beside it."""
    return {name: estimate.value, "low_95": estimate.low, "high_95": estimate.high}


@dataclass(frozen=True, slots=True)
class CountBucket:
    """Sentences with low <= count <= high; high is None in the last bucket. share: of right sentences, with its interval."""

    low: int
    high: int | None
    correct: int
    n: int
    share: Estimate

    @property
    def name(self) -> str:
        """`c = 0`, `1 ≤ c ≤ 4`, `c ≥ 20`."""
        if self.high is None:
            return f"c ≥ {self.low}"
        return f"c = {self.low}" if self.low == self.high else f"{self.low} ≤ c ≤ {self.high}"


@dataclass(frozen=True, slots=True)
class Jump:
    """How much the share rises where the count reaches `at`, with its interval; between buckets that hold sentences."""

    at: int
    rise: Estimate


@dataclass(frozen=True, slots=True)
class CountCalibration:
    """The curve. skipped: sentences without a count. auc: the chance that a right sentence has the higher count, ties half."""

    buckets: tuple[CountBucket, ...]
    jumps: tuple[Jump, ...]
    n: int
    skipped: int
    auc: float | None

    @property
    def monotone(self) -> bool:
        """Whether no jump goes down."""
        return all((jump.rise.value or 0.0) >= 0 for jump in self.jumps)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        return {
            "n": self.n,
            "skipped": self.skipped,
            "monotone": self.monotone,
            "auc": self.auc,
            "buckets": [
                {"low": b.low, "high": b.high, "n": b.n, "correct": b.correct, **with_bounds("share", b.share)}
                for b in self.buckets
            ],
            "jumps": [{"at": jump.at, **with_bounds("rise", jump.rise)} for jump in self.jumps],
        }


def calibrate(pairs: Iterable[tuple[int | None, bool]], edges: Sequence[int] = EDGES) -> CountCalibration:
    """Return the curve of any pairs of count and correctness. A count of None (no query) is skipped and counted.

    edges: the lowest count of each bucket, from 0 upwards. Raises ConfigError for other edges or a negative count.
    """
    if not edges or edges[0] != 0 or any(b <= a for a, b in pairwise(edges)):
        raise ConfigError(f"edges start at 0 and rise, such as 0, 1, 5, 10, 20; not {list(edges)}")
    right, wrong = [0] * len(edges), [0] * len(edges)
    counted: list[Pair] = []
    skipped = 0
    for count, correct in pairs:
        if count is None:
            skipped += 1
            continue
        if count < 0:
            raise ConfigError(f"a count is 0 or more, not {count}")
        (right if correct else wrong)[bisect_right(edges, count) - 1] += 1
        counted.append((count, bool(correct)))
    buckets = []
    for low, next_low, good, bad in zip(edges, [*edges[1:], None], right, wrong, strict=True):
        high = None if next_low is None else next_low - 1
        buckets.append(CountBucket(low, high, good, good + bad, wilson(good, good + bad)))
    filled = [bucket for bucket in buckets if bucket.n]
    jumps = tuple(Jump(b.low, share_difference(a.share, b.share)) for a, b in pairwise(filled))
    return CountCalibration(tuple(buckets), jumps, len(counted), skipped, auc(counted))


def auc(pairs: Sequence[Pair]) -> float | None:
    """Return the chance that a right sentence has a higher count than a wrong sentence, ties by half; None unless there are both."""
    right = [count for count, correct in pairs if correct]
    wrong = sorted(count for count, correct in pairs if not correct)
    if not right or not wrong:
        return None
    # Mann-Whitney: a right sentence wins against every wrong one with a lower count, and against half of the equal.
    wins = sum(int(np.searchsorted(wrong, right, side).sum()) for side in ("left", "right"))
    return wins / 2 / (len(right) * len(wrong))


CountSentences = Callable[[Sequence[str]], Sequence[int | None]]
"""From sentences to their counts, None for a sentence that gives no query."""

_WORDS: Mapping[str, bool] = MappingProxyType(
    dict.fromkeys(["correct", "supported", "right", "true"], True)
    | dict.fromkeys(["incorrect", "unsupported", "wrong", "false"], False)
)


def read_annotations(path: str | Path, count: CountSentences | None = None) -> list[tuple[int | None, bool]]:
    """Return the pairs of a file of JSON lines, sentences without a count counted by `count`.

    A line has `correct` (true or false, 1 or 0, or a word of `_WORDS`) and `count` (of co-occurrences, null where there
    was no query) or `sentence`. Raises DataError that names file, line and fault; also for a sentence without a count where `count` is None.
    """
    rows = [(row.values, _correctness(row)) for row in read_rows(Path(path), suffixes=None)]
    if not rows:
        raise DataError(f"{path} holds no annotated sentence")
    missing = [row["sentence"] for row, _ in rows if "count" not in row]
    if missing and count is None:
        raise DataError(
            f"{path}: {len(missing)} of {len(rows)} lines have no 'count': add it, or give the counter that counts them"
        )
    counts = iter(count(missing) if missing and count else ())
    return [(row["count"] if "count" in row else next(counts), correct) for row, correct in rows]


def _correctness(row: Row) -> bool:
    """Return whether a row's sentence is right. Raises DataError for a row out of shape."""
    correct, count, sentence = (row.values.get(key) for key in ("correct", "count", "sentence"))
    if isinstance(correct, str):
        correct = _WORDS.get(correct.strip().lower(), correct)
    if not (isinstance(correct, bool) or (isinstance(correct, int) and correct in (0, 1))):
        raise row.error(f"'correct' is true or false, not {correct!r:.40}")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise row.error(f"'count' is a whole number from 0, or null, not {count!r:.40}")
    if "count" not in row.values and (not isinstance(sentence, str) or not sentence.strip()):
        raise row.error("'count' or 'sentence' is needed")
    return bool(correct)


def sentence_counter(counter: Counter, extractor: Extractor) -> CountSentences:
    """Return a function that counts sentences as the reward does by its rule "first": the first valid triplet's query."""

    def count(sentences: Sequence[str]) -> list[int | None]:
        queries = []
        for triplets in extractor.extract(sentences):
            first = next((triplet for triplet in triplets if triplet.valid), None)
            queries.append(None if first is None else build_query(first))
        distinct = list(dict.fromkeys(query for query in queries if query is not None))
        counts = dict(zip(distinct, map(int, counter.count_many(distinct)), strict=True)) if distinct else {}
        return [None if query is None or counts[query] < 0 else counts[query] for query in queries]

    return count
