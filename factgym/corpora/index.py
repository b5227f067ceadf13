"""The retrieval contract: anything with `search(queries, k)` is an index."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from factgym.core.errors import ConfigError


class Hit(NamedTuple):
    """One retrieved passage: its id and its score (higher is better; comparable within one query only)."""

    id: str
    score: float


@runtime_checkable
class Index(Protocol):
    """Batch-first search. Returns at most `k` hits per query, best first, ties in corpus order."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Hits of each query, in the order of the queries."""
        ...


@runtime_checkable
class FingerprintedIndex(Index, Protocol):
    """An index that can say, for a run's manifest, what its rankings depend on (every index of this package can)."""

    def fingerprint(self) -> str:
        """SHA-256 in hex."""
        ...


def check_request(queries: Sequence[str], k: int) -> None:
    """Refuse what is a caller's slip rather than a search; raises `ConfigError`."""
    if isinstance(queries, str):
        raise ConfigError(f"search takes a list of queries: write search([{queries[:40]!r}], k), not a bare string")
    if k < 1:
        raise ConfigError(f"k is the number of hits wanted, at least 1, not {k!r}")


def index_fingerprint(kind: str, settings: Mapping[str, object], parts: Sequence[str]) -> str:
    """A SHA-256 in hex over an index's kind, its settings (plain JSON data) and the fingerprints of its parts."""
    record = json.dumps([kind, dict(sorted(settings.items())), list(parts)])
    return hashlib.sha256(record.encode()).hexdigest()
