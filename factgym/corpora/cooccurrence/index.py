"""The co-occurrence index, opened: counts of queries under one of two semantics (the package's docstring has both)."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.corpora.cooccurrence import plain
from factgym.corpora.cooccurrence import preload as preloading
from factgym.corpora.cooccurrence.clauses import DAMAGED, Clause, Lexicon
from factgym.corpora.cooccurrence.engine import LARGE, Batch, Engine, Rules, kernel, run_batch
from factgym.corpora.cooccurrence.files import open_store
from factgym.corpora.cooccurrence.known import ClauseKey
from factgym.corpora.cooccurrence.store import Store, memory_store
from factgym.corpora.cooccurrence.tokens import Case

Semantics = Literal["infini-gram", "window"]

_MANY = 1000
"""Queries to an index that is not large from which it is worth loading numba."""

_EMPTY = "a query needs at least one word, and every clause of it too"

WINDOW = 1000
MAX_FREQUENCY = 500_000
MEMORY_MB = 256


@dataclass(frozen=True, slots=True)
class CountDetail:
    """A count, and whether a clause occurs more than `max_frequency` times (where the engine's answer is not exact)."""

    count: int
    over_cap: bool


class CooccurrenceIndex:
    """An immutable index; safe under threads. Open one with `open_index`, or make one with `memory_index`."""

    def __init__(
        self,
        store: Store,
        *,
        path: Path | None = None,
        semantics: Semantics = "infini-gram",
        window: int = WINDOW,
        max_frequency: int = MAX_FREQUENCY,
        memory_mb: int = MEMORY_MB,
        threads: int | None = None,
        engine: Engine = "auto",
        preload: bool | None = None,
    ) -> None:
        self._store = store
        self._path = path
        checked = _check(semantics, window, max_frequency, memory_mb, threads, engine)
        self._options: Mapping[str, Any] = {**checked, "preload": preload}
        if path is not None:
            preloading.begin(store.arrays(), preload)
        self._window = window
        self._chained = semantics == "infini-gram"
        self._engine: Engine = engine
        self._threads = threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads or 1
        self._separators = store.separators()
        self._chunk = max(64, (memory_mb << 19) // plain.ANCHOR_BYTES)
        self._lexicon = Lexicon(store, chunk=self._chunk, unique=not self._chained, memory=memory_mb << 20)
        self._separator_row = self._lexicon.separators()
        self._asked = 0
        self._kernel(0)

    def preload(self) -> None:
        """Read the whole index now, so that no query waits for a page of it: as long as the disk takes, or the cache."""
        preloading.touch(self._store.arrays())

    def _kernel(self, queries: int) -> Any:
        """The compiled kernels, if they are there; a small index does not ask for it before many queries."""
        self._asked += queries
        return kernel(self._engine, self.tokens >= LARGE or self._asked >= _MANY)

    @property
    def semantics(self) -> Semantics:
        """Which of the two rules counts."""
        chosen: Semantics = self._options["semantics"]
        return chosen

    @property
    def tokens(self) -> int:
        """Words in the corpus."""
        return int(self._store.meta["tokens"])

    @property
    def documents(self) -> int:
        """Documents in the corpus."""
        return int(self._store.meta["documents"])

    @property
    def words(self) -> int:
        """Different words in the corpus."""
        return len(self._store.keys)

    def frequency(self, word: str) -> int:
        """Occurrences of a word (of its tokens side by side, where it has several)."""
        return self._lexicon.clause([word]).frequency

    def count(self, words: Sequence[str]) -> int:
        """Count of an AND of words; `ConfigError` for an empty query."""
        return int(self.count_many([words])[0])

    def count_many(self, queries: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """`count` of each query, in order; equal queries are counted once."""
        return self.count_up_to(queries, plain.NO_LIMIT)

    def count_up_to(self, queries: Sequence[Sequence[str]], most: int) -> NDArray[np.int64]:
        """The smaller of `most` and the count of each query; faster, as counting stops at `most` (1 or more)."""
        if most < 1:
            raise ConfigError(f"counting stops at 1 or more, not at {most!r}")
        if str in set(map(type, queries)):
            _refuse_text(queries)
        distinct: dict[tuple[str, ...], int] = {}
        # Under "window" the order of a query does not matter: equally frequent clauses are taken by their words.
        ordered = tuple if self._chained else _in_order
        where = [distinct.setdefault(ordered(words), len(distinct)) for words in queries]
        if () in distinct:
            raise ConfigError(_EMPTY)
        compiled = self._kernel(len(distinct))
        if compiled is None:
            plainly = [self._count_plainly([(word,) for word in words], most) for words in distinct]
            counts = np.array(plainly, np.int64)
        else:
            clauses: list[ClauseKey] = [word for words in distinct for word in words]
            counts = self._count_compiled(compiled, clauses, map(len, distinct), most)
        chosen: NDArray[np.int64] = counts[where] if len(distinct) < len(where) else counts
        return chosen

    def count_cnf(self, cnf: Sequence[Sequence[str]]) -> int:
        """Count of an AND of ORs of words."""
        _refuse_text([cnf, *cnf])
        if not cnf or not all(cnf):
            raise ConfigError(_EMPTY)
        if not self._chained:
            cnf = sorted(map(_in_order, cnf))
        compiled = self._kernel(1)
        if compiled is None:
            return self._count_plainly(cnf)
        return int(self._count_compiled(compiled, [c[0] if len(c) == 1 else tuple(c) for c in cnf], [len(cnf)])[0])

    def count_detail(self, cnf: Sequence[Sequence[str]]) -> CountDetail:
        """`count_cnf` together with whether the reference engine would only have estimated it."""
        count = self.count_cnf(cnf)
        most = max(self._lexicon.clause(clause).frequency for clause in cnf)
        return CountDetail(count, most > self._options["max_frequency"])

    def _count_plainly(self, cnf: Sequence[Sequence[str]], most: int = plain.NO_LIMIT) -> int:
        clauses = sorted(map(self._lexicon.clause, cnf), key=_frequency)
        if not clauses[0].frequency:
            return 0
        count = plain.count_chained if self._chained else plain.count_windowed
        try:
            return count([clause.places for clause in clauses], self._separators, self._window, self._chunk, most)
        except IndexError:
            raise DataError(f"{self._path}: {DAMAGED}") from None

    def _count_compiled(
        self, compiled: Any, clauses: Sequence[ClauseKey], lengths: Iterable[int], most: int = plain.NO_LIMIT
    ) -> NDArray[np.int64]:
        """Counts of queries by the kernels; `lengths` are clauses per query."""
        starts = np.array(list(itertools.accumulate(lengths, initial=0)), np.int64)
        if len(starts) == 1:
            return np.empty(0, np.int64)
        known = self._lexicon.known()
        new = set(clauses).difference(known.index)
        if new:
            self._lexicon.learn(known, new, compiled, self._threads)
        numbers = np.array(list(map(known.index.__getitem__, clauses)), np.int64)
        batch = Batch(known.rows[numbers], starts, known.made())
        rules = Rules(self._window, self._chained, most)
        counts = run_batch(compiled, self._store, self._separator_row, batch, rules, self._threads)
        if counts.min() < 0:
            raise DataError(f"{self._path}: {DAMAGED}")
        return counts

    def describe(self) -> dict[str, Any]:
        """What the counts depend on, for a run's manifest: plain JSON data."""
        kept = ("semantics", "window", "max_frequency")
        made_of = {key: self._store.meta[key] for key in ("case", "tokenizer", "tokens", "documents")}
        options = {key: self._options[key] for key in kept}
        return {"kind": "cooccurrence", **options, **made_of, "words": self.words, "fingerprint": self.fingerprint()}

    def fingerprint(self) -> str:
        """SHA-256 in hex over the corpus as indexed and the semantics; equal when every count is."""
        record = [self._store.meta["fingerprint"], self._options["semantics"], self._options["window"]]
        return hashlib.sha256(json.dumps(record).encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        where = None if self._path is None else str(self._path)
        return _reopen, (where, None if where else self._store, dict(self._options))

    def __copy__(self) -> CooccurrenceIndex:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CooccurrenceIndex:
        return self


def _reopen(where: str | None, store: Store | None, options: dict[str, Any]) -> CooccurrenceIndex:
    if store is None:
        return open_index(where or "", **options)
    return CooccurrenceIndex(store, **options)


def _in_order(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(words))


def _frequency(clause: Clause) -> int:
    return clause.frequency


def _refuse_text(queries: Iterable[Sequence[Any]]) -> None:
    for words in queries:
        if isinstance(words, str):
            raise ConfigError(f"a query is a list of words: write [{words[:40]!r}], not a bare string")


def _check(
    semantics: str, window: int, max_frequency: int, memory_mb: int, threads: int | None, engine: str
) -> Mapping[str, Any]:
    for what, given, known in (("semantics", semantics, get_args(Semantics)), ("engine", engine, get_args(Engine))):
        if given not in known:
            raise ConfigError(f"{what} is one of {', '.join(known)}, not {given!r}.{did_you_mean(given, known)}")
    numbers = {"window": window, "max_frequency": max_frequency, "memory_mb": memory_mb, "threads": threads}
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ConfigError(f"{name} is at least 1, not {value!r}")
    return {"semantics": semantics, "engine": engine, **numbers}


def memory_index(texts: Iterable[str], *, case: Case = "keep", **options: Any) -> CooccurrenceIndex:
    """An index of these documents in memory, with the options of `open_index`: for tests and generated worlds."""
    return CooccurrenceIndex(memory_store(texts, case), **options)


def open_index(
    path: str | Path,
    *,
    semantics: Semantics = "infini-gram",
    window: int = WINDOW,
    max_frequency: int = MAX_FREQUENCY,
    memory_mb: int = MEMORY_MB,
    threads: int | None = None,
    engine: Engine = "auto",
    preload: bool | None = None,
    verify: bool = False,
) -> CooccurrenceIndex:
    """Map an index file that `build_index` wrote.

    window: in positions, at least 1. max_frequency: occurrences of a clause beyond which the reference engine only
    estimates; marks counts, changes none. memory_mb: working memory of all threads together while counting; the file
    itself is mapped and counts as the system's cache. threads: of `count_many`; all cores by default. engine: "auto"
    compiles in the background (extra "counting") while NumPy answers, "numba" waits for it, "numpy" does without.
    preload: read the file in the background, so that queries do not wait for its pages; by default where it takes at
    most a quarter of the machine's memory. `CooccurrenceIndex.preload` waits for it.
    verify: read the whole file and compare its checksums. Raises `DataError` for a file that is missing, cut off, damaged or foreign.
    """
    where = Path(path).absolute()
    store = open_store(where, verify=verify)
    return CooccurrenceIndex(
        store,
        path=where,
        semantics=semantics,
        window=window,
        max_frequency=max_frequency,
        memory_mb=memory_mb,
        threads=threads,
        engine=engine,
        preload=preload,
    )
