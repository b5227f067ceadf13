"""The co-occurrence index, opened: counts of queries under one of two semantics (the package's docstring has both)."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.corpora.cooccurrence import plain
from factgym.corpora.cooccurrence.clauses import DAMAGED, SEVERAL, Clause, Known, Lexicon
from factgym.corpora.cooccurrence.engine import LARGE, Engine, batch_of, kernel, run_batch
from factgym.corpora.cooccurrence.files import open_store
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
    ) -> None:
        self._store = store
        self._path = path
        self._options = _check(semantics, window, max_frequency, memory_mb, threads, engine)
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

    def _kernel(self, queries: int) -> Callable[..., None] | None:
        """The compiled kernel, if it is there; a small index does not ask for it before many queries."""
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
        if str in set(map(type, queries)):
            _refuse_text(queries)
        distinct: dict[tuple[str, ...], int] = {}
        where = [distinct.setdefault(tuple(words), len(distinct)) for words in queries]
        if () in distinct:
            raise ConfigError(_EMPTY)
        call = self._kernel(len(distinct))
        if call is None:
            plainly = [self._count_plainly([(word,) for word in words]) for words in distinct]
            counts = np.array(plainly, np.int64)
        else:
            counts = self._compiled(call, [word for words in distinct for word in words], map(len, distinct))
        chosen: NDArray[np.int64] = counts[where] if len(distinct) < len(where) else counts
        return chosen

    def count_cnf(self, cnf: Sequence[Sequence[str]]) -> int:
        """Count of an AND of ORs of words."""
        _refuse_text([cnf, *cnf])
        if not cnf or not all(cnf):
            raise ConfigError(_EMPTY)
        call = self._kernel(1)
        if call is None:
            return self._count_plainly(cnf)
        return int(self._compiled(call, [c[0] if len(c) == 1 else tuple(c) for c in cnf], [len(cnf)])[0])

    def count_detail(self, cnf: Sequence[Sequence[str]]) -> CountDetail:
        """`count_cnf` together with whether the reference engine would only have estimated it."""
        count = self.count_cnf(cnf)
        most = max(self._lexicon.clause(clause).frequency for clause in cnf)
        return CountDetail(count, most > self._options["max_frequency"])

    def _count_plainly(self, cnf: Sequence[Sequence[str]]) -> int:
        clauses = sorted(map(self._lexicon.clause, cnf), key=_frequency)
        if not clauses[0].frequency:
            return 0
        count = plain.count_chained if self._chained else plain.count_windowed
        try:
            return count([clause.places for clause in clauses], self._separators, self._window, self._chunk)
        except IndexError:
            raise DataError(f"{self._path}: {DAMAGED}") from None

    def _compiled(
        self, call: Callable[..., None], clauses: Sequence[str | tuple[str, ...]], lengths: Iterable[int]
    ) -> NDArray[np.int64]:
        """Counts of queries by the kernel; a clause is a word or a tuple of them, `lengths` are clauses per query."""
        starts = np.array(list(itertools.accumulate(lengths, initial=0)), np.int64)
        if len(starts) == 1:
            return np.empty(0, np.int64)
        known = self._lexicon.known()
        found = list(map(known.index.get, clauses))  # type: ignore[arg-type]  # a tuple is never there
        made: dict[str | tuple[str, ...], int] = {}
        for i, number in enumerate(found):
            if number is None or number < 0:
                found[i] = self._look_up(known, clauses[i], made)
        lists = [self._lexicon.clause([c] if isinstance(c, str) else c) for c in made]
        batch = batch_of(known.rows, found, starts, lists)  # type: ignore[arg-type]  # no None is left
        counts = run_batch(call, self._store, self._separator_row, batch, self._window, self._chained, self._threads)
        if counts.min() < 0:
            raise DataError(f"{self._path}: {DAMAGED}")
        return counts

    def _look_up(self, known: Known, clause: str | tuple[str, ...], made: dict[str | tuple[str, ...], int]) -> int:
        """The row of a clause, or -1 - i for the i-th that has to be made."""
        if isinstance(clause, str) and known.index.get(clause) != SEVERAL:
            number = self._lexicon.learn(known, clause)
            if number != SEVERAL:
                return number
        return -1 - made.setdefault(clause, len(made))

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
    verify: bool = False,
) -> CooccurrenceIndex:
    """Map an index file that `build_index` wrote.

    window: in positions, at least 1. max_frequency: occurrences of a clause beyond which the reference engine only
    estimates; marks counts, changes none. memory_mb: working memory of all threads together while counting; the file
    itself is mapped and counts as the system's cache. threads: of `count_many`; all cores by default. engine: "auto"
    compiles in the background (extra "counting") while NumPy answers, "numba" waits for it, "numpy" does without.
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
    )
