"""The corpus that is searched and its index: opened once a process, however many environments share them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError
from factgym.core.tasks import shared
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import Hit
from factgym.corpora.passage_files import read_passages
from factgym.tools.library import PassageLibrary

_REMEMBERED = 16_384
"""Queries whose hits are kept."""


class _Same:
    """A key that is equal to itself alone and keeps its object alive."""

    __slots__ = ("_one",)

    def __init__(self, one: object) -> None:
        self._one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._one is self._one

    def __hash__(self) -> int:
        return id(self._one)


def open_corpus(place: Any) -> Corpus:
    """A corpus: itself, or the passages of a file or folder. Raises ConfigError or DataError for anything else."""
    if isinstance(place, Corpus):
        return place
    if not isinstance(place, str | Path):
        raise ConfigError(f"corpus is a file or folder of passages, or a Corpus, not {type(place).__name__}")
    return read_passages(place)


class RememberingLibrary(PassageLibrary):
    """A library that keeps the hits of the latest queries: rollouts of one question ask the same ones."""

    def __init__(self, passages: Sequence[Passage], index: Any = "bm25", **options: Any) -> None:
        super().__init__(passages, index, **options)
        self._hits = lru_cache(maxsize=_REMEMBERED)(super().search)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """At most `k` hits, best first."""
        return self._hits(query, k)


def open_library(corpus: Corpus, index: Any = "bm25", options: dict[str, Any] | None = None) -> PassageLibrary:
    """What the search tool searches. index, options: as `factgym.corpora.index.build_index` takes them."""
    key = ("eve library", corpus.fingerprint(), identity(index), identity(options or {}))
    return shared(key, lambda: RememberingLibrary(corpus, index, **(options or {})))  # type: ignore[arg-type]  # a corpus is a sequence here


def identity(value: object) -> Any:
    """What stands for a setting in a key: plain data by its content, anything else by which object it is."""
    if isinstance(value, dict):
        return tuple((key, identity(one)) for key, one in sorted(value.items()))
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return _Same(value)
