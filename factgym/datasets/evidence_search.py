"""Search for one claim: over its own evidence or over everything, limited to evidence from before the claim.

Evidence dated after the claim is filtered out of the hits, not out of the index, so that one index serves every claim;
evidence without a known date stays (`url_date` defines the known dates). With `cache_dir` indexes are stored on disk: the
word scores of BM25, the passage vectors of a named encoder. A stored index is named by a digest of passages and
parameters and carries digests of its bytes; one that does not match them is built anew.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.tasks import Immutable
from factgym.corpora.bm25 import ANALYSER, K1, SMALL, B, Bm25sIndex
from factgym.corpora.dense import Encoder, as_encoder
from factgym.corpora.http_client import is_remote
from factgym.corpora.index import Index, build_index, check_index, check_request, index_fingerprint
from factgym.corpora.retrieved import read_health
from factgym.datasets.evidence import (
    CACHED_CLAIMS,
    ClaimCache,
    ClaimKey,
    Evidence,
    EvidenceCorpus,
    KnowledgeStore,
    claim_name,
)

Scope = Literal["claim", "global"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

MAX_GLOBAL_PASSAGES = 2_000_000
"""A global index holds all passages in memory, a gigabyte or two of them at this number."""

_CACHEABLE = ("bm25", "bm25s", "dense")
_ENCODING = ("dense", "hybrid", "rerank", "late")
"""Indexes that load a model: their options are checked when one is built, those of others at once."""

_DIGESTS = "digests.json"
_WORDS = "words.json"
_VECTORS = "vectors.f32"


class EvidenceHit(NamedTuple):
    """A passage of evidence and its score, which compares within one query only."""

    evidence: Evidence
    score: float


class EvidenceSearch(Immutable):
    """Search in a store by claim.

    scope: "claim" for an index of each claim's own evidence, the `keep` used last held in memory; "global" for one
    over everything. A store in which all claims share their evidence has one index in either. index: the name of an
    index and options as of `factgym.corpora.index.build_index`, "bm25" by default. cache_dir: where indexes are stored,
    for "bm25", "bm25s", and "dense" with an encoder given by name; a corpus of `SMALL` passages or fewer is built
    faster than read, and is not stored for "bm25". Immutable and safe under threads; indexes are built on first use.
    Raises ConfigError for unknown names, and for a global index over more than `MAX_GLOBAL_PASSAGES` passages.
    """

    def __init__(
        self,
        store: KnowledgeStore,
        *,
        scope: Scope = "claim",
        index: str = "bm25",
        cache_dir: str | Path | None = None,
        keep: int = CACHED_CLAIMS,
        **options: Any,
    ) -> None:
        if scope not in SCOPES:
            raise ConfigError(f"scope is 'claim' or 'global', not {scope!r}.{did_you_mean(str(scope), SCOPES)}")
        if cache_dir is not None and index not in _CACHEABLE:
            raise ConfigError(f"cache_dir is for index={' or '.join(map(repr, _CACHEABLE))}, not {index!r}")
        if is_remote(index):
            check_index(index, **options)
        elif index not in _ENCODING:
            build_index([], index, **options)
        self.store, self.index = store, index
        self._settings: dict[str, Any] = {"scope": scope, "index": index, "cache_dir": cache_dir, "keep": keep}
        self._options = options
        self._cache_dir = None if cache_dir is None else Path(cache_dir)
        # A store in which all claims share their evidence has one index.
        self.scope: Scope = scope if store.per_claim else "global"
        self._indexes: ClaimCache[tuple[EvidenceCorpus, Index]] = ClaimCache(keep if self.scope == "claim" else 1)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(EvidenceSearch, **self._settings, **self._options), (self.store,)

    def search(
        self, claim: ClaimKey, queries: Sequence[str], k: int = 3, *, before: dt.date | None = None
    ) -> list[list[EvidenceHit]]:
        """Return at most `k` pieces of evidence for each query, best first, ties in the order of the store.

        before: the claim's date; evidence dated later is left out, that of the same day stays.
        """
        check_request(queries, k)
        corpus, engine = self._searchable(claim)
        # Iterative deepening: hits are filtered by date after the search, so the search goes four times as deep each
        # round until enough remain. The depth grows geometrically, and so the last search dominates the cost.
        depth = k
        while True:
            rows = [
                [EvidenceHit(corpus.get(hit.id), hit.score) for hit in hits] for hits in engine.search(queries, depth)
            ]
            in_time = [
                [hit for hit in hits if not (before and hit.evidence.date and hit.evidence.date > before)][:k]
                for hits in rows
            ]
            # A query is settled when it has k hits, or when the index had no more to give.
            settled = all(len(hits) == k or len(row) < depth for hits, row in zip(in_time, rows, strict=True))
            if settled or depth >= len(corpus):
                return in_time
            depth = min(4 * depth, len(corpus))

    def corpus(self, claim: ClaimKey) -> EvidenceCorpus:
        """Return the evidence that is searched for this claim, whatever the dates."""
        return self._searchable(claim)[0]

    def fingerprint(self) -> str:
        """SHA-256 in hex over the store's fingerprint, scope, index and options; builds nothing.

        A server counts by the fingerprint of its index, which is asked for: ServerUnavailableError where none answers.
        """
        # JSON scalars as they are, an encoder by its name, other objects by their type.
        options: dict[str, Any] = {}
        for key, value in self._options.items():
            name = getattr(value, "name", None)
            type_name = name if isinstance(name, str) else f"{type(value).__module__}.{type(value).__qualname__}"
            options[key] = value if value is None or isinstance(value, bool | int | float | str) else type_name
        settings = {"scope": self.scope, "index": self.index, **options}
        if is_remote(self.index):  # what a server searches with: not its address, nor how it is reached
            settings = {"scope": self.scope, "index": "remote", "server": read_health(self.index).get("index")}
        return index_fingerprint("averitec-search", settings, [self.store.fingerprint()])

    def describe(self) -> dict[str, Any]:
        """Return the store's description with scope, index and fingerprint of the search as JSON data."""
        return {
            "store": self.store.describe(),
            "scope": self.scope,
            "index": self.index,
            "fingerprint": self.fingerprint(),
        }

    def _searchable(self, claim: ClaimKey) -> tuple[EvidenceCorpus, Index]:
        if self.scope == "global":
            return self._indexes.get("", lambda: self._build(self._all_evidence()))
        return self._indexes.get(claim_name(claim), lambda: self._build(self.store.for_claim(claim)))

    def _build(self, corpus: EvidenceCorpus) -> tuple[EvidenceCorpus, Index]:
        if self.index == "dense":
            return corpus, dense_index(corpus, self._cache_dir, **self._options)
        if self._cache_dir is not None and len(corpus) > (SMALL if self.index == "bm25" else 0):
            return corpus, CachedBm25(corpus, self._cache_dir, **self._options)
        return corpus, build_index(corpus, self.index, **self._options)

    def _all_evidence(self) -> EvidenceCorpus:
        if not self.store.per_claim:
            return self.store.for_claim("")
        passages = list(islice(self.store.passages(), MAX_GLOBAL_PASSAGES + 1))
        if len(passages) > MAX_GLOBAL_PASSAGES:
            raise ConfigError(
                f"the store has more than {MAX_GLOBAL_PASSAGES:,} passages, which a global index would hold in memory: "
                "use scope='claim'"
            )
        return EvidenceCorpus(passages)


# Indexes on disk.


class CachedBm25(Bm25sIndex):
    """`Bm25sIndex` over `corpus`, read from a folder inside `cache_dir` or written there; scores are the same.

    A folder holds the index as bm25s writes it, without pickled objects and memory-mapped when read; passages are not
    written. loaded: whether it was read. Raises ConfigError where it cannot be written.
    """

    __slots__ = ("loaded",)

    def __init__(self, corpus: EvidenceCorpus, cache_dir: Path, *, k1: float = K1, b: float = B) -> None:
        import bm25s

        settings = {"k1": k1, "b": b, "analyser": ANALYSER, "bm25s": str(bm25s.__version__)}
        folder = cache_dir / f"bm25-{index_fingerprint('averitec-bm25-1', settings, [corpus.fingerprint()])[:32]}"
        self.loaded = _is_intact(folder)
        super().__init__(() if self.loaded else corpus, k1=k1, b=b)
        if self.loaded:
            self._corpus, self._ids = corpus, corpus.ids
            self._engine = bm25s.BM25.load(str(folder), mmap=True, load_vocab=False)
            self._vocabulary = json.loads((folder / _WORDS).read_text(encoding="utf-8"))
        elif self._engine is not None:

            def write(part: Path) -> None:
                self._engine.save(str(part), show_progress=False)
                (part / _WORDS).write_text(json.dumps(self._vocabulary), encoding="utf-8")

            _write_folder(folder, write)


def dense_index(corpus: EvidenceCorpus, cache_dir: Path | None, encoder: Any = None, **options: Any) -> Index:
    """Return a dense index, with vectors from `cache_dir` where it is given; options as of `build_index`.

    Raises ConfigError where vectors of an encoder that is an object are to be stored: nothing distinguishes two of its
    type.
    """
    if cache_dir is None or not len(corpus):
        return build_index(corpus, "dense", encoder=encoder, **options)
    model = as_encoder(encoder, **options)
    if not isinstance(model.source, str):
        raise ConfigError("cache_dir needs an encoder given by a model's name or folder, not an object")
    return build_index(corpus, "dense", encoder=model, vectors=cached_vectors(corpus, model, cache_dir))


def cached_vectors(corpus: EvidenceCorpus, encoder: Encoder, cache_dir: Path) -> Any:
    """Return the vectors of `corpus`, float32 of shape (passages, dimension), read from `cache_dir` or written there."""
    settings = {"preset": asdict(encoder.preset), "encoder": encoder.name}
    folder = cache_dir / f"dense-{index_fingerprint('averitec-vectors-2', settings, [corpus.fingerprint()])[:32]}"
    if _is_intact(folder):
        return np.fromfile(folder / _VECTORS, dtype="<f4").reshape(len(corpus), -1)
    vectors = np.ascontiguousarray(encoder.passages(corpus), dtype=np.float32)
    _write_folder(folder, lambda part: vectors.astype("<f4").tofile(part / _VECTORS))
    return vectors


def _write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Write to a temporary folder and rename it, so that readers never see a part; the first writer wins.

    The digests of the files are written with them. Raises ConfigError.
    """
    part: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.part-"))
        write(part)
        digests = {file.name: _file_digest(file) for file in sorted(part.iterdir())}
        (part / _DIGESTS).write_text(json.dumps(digests), encoding="utf-8")
        if folder.exists() and not _is_intact(folder):
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            part.rename(folder)
    except OSError as error:
        if not _is_intact(folder):
            raise ConfigError(f"{folder}: an index cannot be stored there ({error.strerror})") from None
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)


def _is_intact(folder: Path) -> bool:
    """Whether the folder's files have the digests that were written with them."""
    try:
        digests = json.loads((folder / _DIGESTS).read_text(encoding="utf-8"))
        if not isinstance(digests, dict) or not digests:
            return False
        return all(os.sep not in name and _file_digest(folder / name) == digest for name, digest in digests.items())
    except (OSError, ValueError):
        return False


def _file_digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
