"""The opened index and its counters: counts of queries under one of two semantics (see the package's docstring)."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.paths import is_folder, list_folder, user_path
from factgym.core.tasks import Immutable
from factgym.corpora.cooccurrence.clauses import DAMAGED, ClauseIndex, ClauseKey
from factgym.corpora.cooccurrence.engine import (
    ANCHOR_BYTES,
    LARGE_INDEX,
    NO_LIMIT,
    Batch,
    CountRules,
    Engine,
    core_count,
    count_lists,
    counting_kernels,
    run_batch,
)
from factgym.corpora.cooccurrence.infinigram import InfinigramCounter
from factgym.corpora.cooccurrence.remote import RemoteCounter
from factgym.corpora.cooccurrence.store import Store, memory_store, open_store, preload_store, start_preload
from factgym.corpora.cooccurrence.tokenizer import Case
from factgym.corpora.http_client import is_remote

Semantics = Literal["infini-gram", "window"]

ENGINE_PREFIX = "infini-gram:"
WINDOW = 1000
MAX_FREQUENCY = 500_000
MEMORY_MB = 256

_MANY_QUERIES = 1000
"""Queries to an index that is not large from which it is worth loading numba."""
_EMPTY_QUERY = "a query needs at least one word, and every clause of it too"


@runtime_checkable
class Counter(Protocol):
    """Counts conjunctive queries over a corpus, in batches.

    A counter that can stop early also has `count_up_to(queries, limit)`: the smaller of `limit` and each count.
    """

    def count_many(self, queries: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """Return the count of each query, 0 for one with an unknown word. An empty query is a `ConfigError`.

        Negative for a query without a count: see `factgym.corpora.cooccurrence.remote`.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Return the settings and sources that determine the counts, as JSON data for a run's manifest."""
        ...

    def fingerprint(self) -> str:
        """Return SHA-256 in hex; equal when every count is."""
        ...


class CooccurrenceIndex(Immutable):
    """An immutable index; safe in threads. `open_index` opens a file, `memory_index` builds one in memory."""

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
        self._options: dict[str, Any] = {
            "semantics": semantics,
            "engine": engine,
            "window": window,
            "max_frequency": max_frequency,
            "memory_mb": memory_mb,
            "threads": threads,
            "preload": preload,
        }
        for name, choices in (("semantics", get_args(Semantics)), ("engine", get_args(Engine))):
            choice = self._options[name]
            if choice not in choices:
                hint = did_you_mean(choice, choices)
                raise ConfigError(f"{name} is one of {', '.join(choices)}, not {choice!r}.{hint}")
        for name in ("window", "max_frequency", "memory_mb", "threads"):
            if (number := self._options[name]) is not None and number < 1:
                raise ConfigError(f"{name} is at least 1, not {number!r}")
        if path is not None:
            start_preload(store, preload)
        self._window = window
        self._chained = semantics == "infini-gram"
        self._engine: Engine = engine
        self._threads = threads or core_count()
        self._separators = store.separators()
        self._chunk = max(64, (memory_mb << 19) // ANCHOR_BYTES)
        self._clauses = ClauseIndex(store, chunk=self._chunk, unique=not self._chained, memory=memory_mb << 20)
        self._separator_row = self._clauses.separators()
        self._query_count = 0
        self._kernels(0)

    def preload(self) -> None:
        """Read the whole index into memory now, so that no query waits for a page of the file, and compare its sums."""
        preload_store(self._store)

    def _kernels(self, queries: int) -> Any:
        """Return the kernels if they are loaded; a small index starts loading them after many queries."""
        self._query_count += queries
        return counting_kernels(self._engine, self.tokens >= LARGE_INDEX or self._query_count >= _MANY_QUERIES)

    @property
    def semantics(self) -> Semantics:
        """The semantics of its counts."""
        semantics: Semantics = self._options["semantics"]
        return semantics

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
        """Distinct words in the corpus."""
        return len(self._store.keys)

    def frequency(self, word: str) -> int:
        """Return the occurrences of a word (of its tokens side by side, if it has several)."""
        return self._clauses.clause([word]).frequency

    def count(self, words: Sequence[str]) -> int:
        """Count an AND of words; `ConfigError` for an empty query."""
        return int(self.count_many([words])[0])

    def count_many(self, queries: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """`count` of each query, in order; equal queries are counted once."""
        return self.count_up_to(queries, NO_LIMIT)

    def count_up_to(self, queries: Sequence[Sequence[str]], limit: int) -> NDArray[np.int64]:
        """Return the smaller of `limit` (1 or more) and the count of each query; faster, as counting stops there."""
        if limit < 1:
            raise ConfigError(f"counting stops at 1 or more, not at {limit!r}")
        if str in set(map(type, queries)):
            _check_types(queries)
        distinct: dict[tuple[str, ...], int] = {}
        # Under "window" the order of a query does not matter: equally frequent clauses are taken by their words.
        key = tuple if self._chained else _sorted_words
        indexes = [distinct.setdefault(key(words), len(distinct)) for words in queries]
        if () in distinct:
            raise ConfigError(_EMPTY_QUERY)
        kernels = self._kernels(len(distinct))
        if kernels is None:
            counts = np.array([self._count([(word,) for word in words], limit) for words in distinct], np.int64)
        else:
            clauses: list[ClauseKey] = [word for words in distinct for word in words]
            counts = self._count_compiled(kernels, clauses, map(len, distinct), limit)
        result: NDArray[np.int64] = counts[indexes] if len(distinct) < len(indexes) else counts
        return result

    def count_cnf(self, cnf: Sequence[Sequence[str]]) -> int:
        """Count an AND of ORs of words."""
        _check_types([cnf, *cnf])
        if not cnf or not all(cnf):
            raise ConfigError(_EMPTY_QUERY)
        if not self._chained:
            cnf = sorted(map(_sorted_words, cnf))
        kernels = self._kernels(1)
        if kernels is None:
            return self._count(cnf)
        clauses = [words[0] if len(words) == 1 else tuple(words) for words in cnf]
        return int(self._count_compiled(kernels, clauses, [len(cnf)])[0])

    def _count(self, cnf: Sequence[Sequence[str]], limit: int = NO_LIMIT) -> int:
        """Count a query in NumPy."""
        clauses = sorted(map(self._clauses.clause, cnf), key=lambda clause: clause.frequency)
        if not clauses[0].frequency:
            return 0
        rules = CountRules(self._window, self._chained, limit)
        try:
            return count_lists([clause.postings for clause in clauses], self._separators, rules, self._chunk)
        except IndexError:
            raise DataError(f"{self._path}: {DAMAGED}") from None

    def _count_compiled(
        self, kernels: Any, clauses: Sequence[ClauseKey], lengths: Iterable[int], limit: int = NO_LIMIT
    ) -> NDArray[np.int64]:
        """Count queries by the kernels; `lengths` are clauses per query."""
        starts = np.array(list(itertools.accumulate(lengths, initial=0)), np.int64)
        if len(starts) == 1:
            return np.empty(0, np.int64)
        table = self._clauses.table()
        new = set(clauses).difference(table.numbers)
        if new:
            self._clauses.add_to_table(table, new, kernels, self._threads)
        numbers = np.array(list(map(table.numbers.__getitem__, clauses)), np.int64)
        # `derived` is read after the rows that refer to it, as another thread may be adding to both.
        batch = Batch(table.rows[numbers], starts, table.derived)
        rules = CountRules(self._window, self._chained, limit)
        counts = run_batch(kernels, self._store, self._separator_row, batch, rules, self._threads)
        if counts.min() < 0:
            raise DataError(f"{self._path}: {DAMAGED}")
        return counts

    def describe(self) -> dict[str, Any]:
        """Return the settings and sources that determine the counts, as JSON data for a run's manifest."""
        options = {key: self._options[key] for key in ("semantics", "window", "max_frequency")}
        corpus = {key: self._store.meta[key] for key in ("case", "tokenizer", "tokens", "documents")}
        return {"kind": "cooccurrence", **options, **corpus, "words": self.words, "fingerprint": self.fingerprint()}

    def fingerprint(self) -> str:
        """Return SHA-256 in hex over the corpus as indexed and the semantics; equal when every count is."""
        record = [self._store.meta["fingerprint"], self._options["semantics"], self._options["window"]]
        return hashlib.sha256(json.dumps(record).encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            return partial(CooccurrenceIndex, **self._options), (self._store,)
        return partial(open_index, **self._options), (str(self._path),)


class SummedIndex(Immutable):
    """The indexes of a folder, whose counts are summed: for corpora beyond the positions of one index.

    Equal to one index over the whole corpus but for two things, both as in infini-gram over several folders: an index
    ends where a document ends, and each of them takes the clauses by its own frequencies. Safe in threads.
    """

    def __init__(self, indexes: Sequence[CooccurrenceIndex], *, path: Path | None = None, **options: Any) -> None:
        if len({index.describe()["case"] for index in indexes}) > 1:
            raise ConfigError(
                f"{path}: some of these indexes keep capitals, others fold them: build all with one --case"
            )
        self.indexes, self._path, self._options = tuple(indexes), path, options
        self.tokens = sum(index.tokens for index in indexes)
        self.documents = sum(index.documents for index in indexes)
        self.semantics = indexes[0].semantics

    def preload(self) -> None:
        """Read all indexes into memory now, and compare their sums."""
        for index in self.indexes:
            index.preload()

    def frequency(self, word: str) -> int:
        """Return the occurrences of a word."""
        return sum(index.frequency(word) for index in self.indexes)

    def count(self, words: Sequence[str]) -> int:
        """Count an AND of words; `ConfigError` for an empty query."""
        return int(self.count_many([words])[0])

    def count_many(self, queries: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """`count` of each query, in order."""
        return self.count_up_to(queries, NO_LIMIT)

    def count_up_to(self, queries: Sequence[Sequence[str]], limit: int) -> NDArray[np.int64]:
        """Return the smaller of `limit` (1 or more) and the count of each query; later indexes skip those at the limit."""
        counts = self.indexes[0].count_up_to(queries, limit)
        for index in self.indexes[1:]:
            rest = np.flatnonzero(counts < limit)
            more = index.count_up_to([queries[number] for number in rest.tolist()], limit)
            # Not the sum itself, which overflows where the limit is the largest integer.
            counts[rest] += np.minimum(more, limit - counts[rest])
        return counts

    def count_cnf(self, cnf: Sequence[Sequence[str]]) -> int:
        """Count an AND of ORs of words."""
        return sum(index.count_cnf(cnf) for index in self.indexes)

    def describe(self) -> dict[str, Any]:
        """Return the settings and sources that determine the counts, as JSON data for a run's manifest."""
        totals = {"indexes": len(self.indexes), "tokens": self.tokens, "documents": self.documents}
        common = {key: value for key, value in self.indexes[0].describe().items() if key != "words"}
        return {**common, **totals, "fingerprint": self.fingerprint()}

    def fingerprint(self) -> str:
        """Return SHA-256 in hex over the indexes' fingerprints, in any order."""
        return hashlib.sha256(json.dumps(sorted(index.fingerprint() for index in self.indexes)).encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(open_folder, **self._options), (str(self._path),)


def _sorted_words(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(words))


def _check_types(queries: Iterable[Sequence[Any]]) -> None:
    for words in queries:
        if isinstance(words, str):
            raise ConfigError(f"a query is a list of words: write [{words[:40]!r}], not a bare string")


def memory_index(texts: Iterable[str], *, case: Case = "keep", **options: Any) -> CooccurrenceIndex:
    """Index documents in memory, with the options of `open_index`: for tests and generated worlds."""
    return CooccurrenceIndex(memory_store(texts, case), **options)


def open_index(path: str | Path, *, verify: bool = False, **options: Any) -> CooccurrenceIndex:
    """Map an index file that `build_index` wrote.

    semantics: "infini-gram" (default) or "window". window: in positions, at least 1; default 1,000. max_frequency:
    occurrences of a clause beyond which the reference engine only estimates; described, changes no count. memory_mb:
    working memory of all threads together while counting; the file itself is mapped and counts as the system's cache.
    threads: of `count_many`; all cores by default. engine: "auto" compiles in the background (extra "counting") while
    NumPy counts, "numba" waits for it, "numpy" does without. preload: read the file in the background, so that queries
    do not wait for its pages; by default if it takes at most a quarter of the machine's memory.
    verify: read the whole file and compare its checksums.
    Raises `DataError` for a file that is missing, cut off, damaged or foreign. Counting raises it for a damaged page of
    the posting lists when a query first needs one of its lists.
    """
    absolute = Path(path).absolute()
    return CooccurrenceIndex(open_store(absolute, verify=verify), path=absolute, **options)


def open_folder(path: str | Path, **options: Any) -> SummedIndex:
    """Open all index files of a folder as one, with the options of `open_index`; names that begin with a dot are skipped.

    Raises `ConfigError` for a folder without files, `DataError` for a file that is no index.
    """
    absolute = Path(path).absolute()
    files = sorted(file for file in list_folder(absolute) if file.is_file() and not file.name.startswith("."))
    if not files:
        raise ConfigError(
            f"{path} is a folder without a co-occurrence index: factgym corpus index SOURCE --out {path}/1"
        )
    return SummedIndex([open_index(file, **options) for file in files], path=absolute, **options)


def open_counter(path: str | Path, **options: Any) -> Counter:
    """Open an index file, a folder of them (summed), `"infini-gram:PATH"` (that engine's), or a count server's URL."""
    if is_remote(path):
        return RemoteCounter(str(path), **options)
    if isinstance(path, str) and path.startswith(ENGINE_PREFIX):
        return InfinigramCounter(path.removeprefix(ENGINE_PREFIX), **options)
    if is_folder(user_path(path, "counter")):
        return open_folder(path, **options)
    return open_index(path, **options)
