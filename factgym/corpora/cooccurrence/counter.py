"""Who counts: this package's index, or an infini-gram index through its own engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.index import open_index

ENGINE_PREFIX = "infini-gram:"


@runtime_checkable
class Counter(Protocol):
    """Counts ANDs of words over a corpus, many queries at a time.

    One that can stop early has `count_up_to(queries, most)` as well, which gives the smaller of `most` and each count.
    """

    def count_many(self, queries: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """The count of each query; an unknown word makes it 0, an empty query is a `ConfigError`."""
        ...

    def describe(self) -> dict[str, Any]:
        """What the counts depend on, for a run's manifest: plain JSON data."""
        ...

    def fingerprint(self) -> str:
        """SHA-256 in hex; equal when every count is."""
        ...


def open_counter(where: str | Path, **options: Any) -> Counter:
    """The counter at `"PATH"` (an index of this package) or `"infini-gram:PATH"` (one of that engine's)."""
    if isinstance(where, str) and where.startswith(ENGINE_PREFIX):
        from factgym.corpora.cooccurrence.infinigram import open_infinigram

        counter: Counter = open_infinigram(where.removeprefix(ENGINE_PREFIX), **options)
        return counter
    return open_index(where, **options)
