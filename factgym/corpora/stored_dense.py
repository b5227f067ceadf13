"""Passage vectors on disk beside a stored corpus: encoded once, resumable, memory-mapped, searched exactly.

    CORPUS/dense/vectors.npy      half precision, passages in corpus order, one row after the other
    CORPUS/dense/manifest.json    encoder, preset, dimension, the corpus's fingerprint; `factgym.corpora.mapped_files`

While an encoding runs, its rows are in `CORPUS/.dense.partial`, with a journal: a line for each block that is on disk,
with its checksum. A later call verifies the blocks of the journal and continues after the last intact one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from factgym.core.errors import ConfigError, DataError
from factgym.core.tasks import Immutable
from factgym.corpora.dense import SCORE_DIGITS, SPARE_HITS, DenseIndex, Encoder, as_encoder
from factgym.corpora.index import Hit, Index, check_request, index_fingerprint
from factgym.corpora.mapped_files import MappedFolder, is_mapped_folder, write_manifest
from factgym.corpora.store import StoredCorpus

if TYPE_CHECKING:
    from factgym.corpora.corpus import Corpus
    from factgym.corpora.dense import Vectors

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: nothing keeps two processes from encoding the same corpus at once
    fcntl = None

FOLDER = "dense"
KIND = "factgym-vectors"
VERSION = 1
BLOCK = 256
"""Passages that are encoded between two lines of the journal; at most so many are encoded again after a kill."""

_VECTORS = "vectors.npy"
_JOURNAL = "journal.jsonl"
_SEARCH_ROWS = 16_384
"""Rows that are converted to single precision at a time."""


class EncodeProgress(NamedTuple):
    """done: passages on disk. resumed: those of them that an earlier call encoded. dimension: of the vectors."""

    done: int
    total: int
    resumed: int
    dimension: int


def encode_command(path: Path) -> str:
    """Return the command that encodes a corpus."""
    return f"factgym corpus encode {path} --encoder NAME"


def has_vectors(corpus: StoredCorpus) -> bool:
    """Whether there are vectors beside the corpus, whatever their state."""
    return is_mapped_folder(corpus.path / FOLDER)


def encode_corpus(
    corpus: StoredCorpus,
    encoder: Encoder,
    *,
    replace: bool = False,
    progress: Callable[[EncodeProgress], None] = lambda _: None,
) -> MappedFolder:
    """Encode all passages into the corpus's folder and open the vectors, which appear when they are whole.

    Continues an interrupted call with the same encoder; the result is that of an uninterrupted one, byte for byte. Raises
    ConfigError where vectors exist and `replace` is False, and where another process encodes the corpus.
    """
    out, partial = corpus.path / FOLDER, corpus.path / f".{FOLDER}.partial"
    if out.exists() and not (replace and is_mapped_folder(out)):
        raise ConfigError(f"{out} exists: replace it with --force")
    meta = _description(corpus, encoder)
    try:
        with _exclusive(corpus.path / f".{FOLDER}.lock", corpus.path):
            partial.mkdir(exist_ok=True)
            dimension = _encode_blocks(corpus, encoder, partial, meta, progress)
            (partial / _JOURNAL).unlink()
            write_manifest(partial, KIND, VERSION, {**meta, "dimension": dimension, "dtype": "float16"}, {})
            if out.exists():
                shutil.rmtree(out)
            partial.rename(out)
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror or error}). Make room, then repeat.") from None
    return open_vectors(corpus)


def _description(corpus: StoredCorpus, encoder: Encoder) -> dict[str, Any]:
    return {
        "corpus": corpus.fingerprint(),
        "passages": len(corpus),
        "encoder": encoder.name,
        "source": encoder.source if isinstance(encoder.source, str) else "",
        "preset": asdict(encoder.preset),
    }


@contextlib.contextmanager
def _exclusive(path: Path, corpus: Path) -> Iterator[None]:
    """Hold a lock for the time of an encoding; the system releases it when the process is killed."""
    with path.open("w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(f"another process encodes {corpus}: wait for it, or stop it") from None
        yield


def _encode_blocks(
    corpus: StoredCorpus, encoder: Encoder, folder: Path, meta: dict[str, Any], progress: Callable[..., None]
) -> int:
    """Write the rows that are missing; return the dimension. A block is in the journal after its rows are on disk."""
    total = len(corpus)
    done, dimension = _resume(folder, meta, total)
    resumed = done
    with (folder / _VECTORS).open("r+b") as vectors, (folder / _JOURNAL).open("ab") as journal:
        vectors.seek(0, os.SEEK_END)
        while done < total:
            stop = min(done + BLOCK, total)
            rows = encoder.passages([corpus.read(i) for i in range(done, stop)]).astype("<f2")
            if not np.isfinite(rows).all() or (dimension and rows.shape[1] != dimension):
                raise DataError(
                    f"the encoder gave vectors that half precision cannot hold for passages {done} to {stop}"
                )
            if not done:
                dimension = rows.shape[1]
                _write_header(vectors, total * dimension)
            raw = rows.tobytes()
            vectors.write(raw)
            _sync(vectors)
            record = {"stop": stop, "dimension": dimension, "sha256": hashlib.sha256(raw).hexdigest()}
            journal.write(json.dumps(record).encode() + b"\n")
            _sync(journal)
            done = stop
            progress(EncodeProgress(done, total, resumed, dimension))
    return dimension


def _resume(folder: Path, meta: dict[str, Any], total: int) -> tuple[int, int]:
    """Return the rows that an earlier call left intact and their dimension; cut the files after them."""
    path, journal = folder / _VECTORS, folder / _JOURNAL
    head = json.dumps(meta).encode()
    lines = journal.read_bytes().split(b"\n") if journal.exists() and path.exists() else []
    done = dimension = end = 0
    intact = [head]
    if lines and lines[0] == head:
        with path.open("rb") as vectors:
            for line in lines[1:]:
                try:
                    record = json.loads(line)
                    stop, width, digest = int(record["stop"]), int(record["dimension"]), record["sha256"]
                except (ValueError, KeyError, TypeError):
                    break
                if not done:
                    dimension, end = width, _header_bytes(total * width)
                    vectors.seek(end)
                size = 2 * width * (stop - done)
                if stop != min(done + BLOCK, total) or width != dimension or len(raw := vectors.read(size)) != size:
                    break
                if hashlib.sha256(raw).hexdigest() != digest:
                    break
                done, end = stop, end + size
                intact.append(line)
    for file in folder.iterdir():
        if file not in (path, journal):
            file.unlink()
    path.touch()
    os.truncate(path, end if done else 0)
    journal.write_bytes(b"\n".join(intact) + b"\n")
    return done, dimension if done else 0


def _write_header(file: BinaryIO, items: int) -> None:
    header = {"descr": "<f2", "fortran_order": False, "shape": (items,)}
    np.lib.format.write_array_header_1_0(file, header)


def _header_bytes(items: int) -> int:
    buffer = io.BytesIO()
    _write_header(buffer, items)
    return buffer.tell()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def open_vectors(corpus: StoredCorpus) -> MappedFolder:
    """Open the vectors of a corpus. Raises DataError for damaged ones and for those of another corpus."""
    path = corpus.path / FOLDER
    repair = f"Encode it again with `{encode_command(corpus.path)} --force`."
    folder = MappedFolder(path, KIND, VERSION, repair)
    meta = folder.meta
    if meta.get("corpus") != corpus.fingerprint() or meta.get("passages") != len(corpus):
        raise DataError(f"{path} holds vectors of another corpus. {repair}")
    if _VECTORS not in folder or len(folder[_VECTORS]) != len(corpus) * meta["dimension"]:
        raise DataError(f"{path} holds another number of vectors than the corpus has passages. {repair}")
    return folder


class StoredDense(Immutable):
    """Exact inner-product search over the vectors of a `StoredCorpus`, which processes on a machine share.

    Scores are those of single precision over the stored half-precision rows, rounded to `SCORE_DIGITS` decimals; equal
    ones fall in corpus order. Pickles as the corpus's path and the encoder. Raises `ConfigError` for another encoder than
    that of the vectors, `DataError` as `open_vectors` and when a damaged page is first needed.
    """

    def __init__(self, corpus: StoredCorpus, encoder: Encoder) -> None:
        self._corpus, self._encoder = corpus, encoder
        folder = open_vectors(corpus)
        stored = (folder.meta["encoder"], dict(folder.meta["preset"]))
        if stored != (encoder.name, asdict(encoder.preset)):
            raise ConfigError(
                f"{folder.path} holds vectors of the encoder {str(folder.meta['source'] or stored[0])[:80]!r} (preset "
                f"{str(stored[1].get('name'))[:20]!r}), not of {str(encoder.source)[:80]!r} (preset "
                f"{encoder.preset.name!r}): give that encoder, or run `{encode_command(corpus.path)} --force`"
            )
        self._rows, self._dimension = folder[_VECTORS], int(folder.meta["dimension"])

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredDense, (self._corpus, self._encoder)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most `k` hits per query, best first; the batch is encoded at once and reads the vectors once."""
        check_request(queries, k)
        nonblank = [i for i, query in enumerate(queries) if query.strip()]
        results: list[list[Hit]] = [[] for _ in queries]
        if nonblank:
            hits = self._top(self._encoder.queries([queries[i] for i in nonblank]), k)
            for i, query_hits in zip(nonblank, hits, strict=True):
                results[i] = query_hits
        return results

    def _top(self, queries: Vectors, k: int) -> list[list[Hit]]:
        # More hits than requested are held through the scan: rounding may reorder those near the cut.
        total, limit = len(self._corpus), min(k + SPARE_HITS, len(self._corpus))
        scores, positions = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        for start in range(0, total, _SEARCH_ROWS):
            stop = min(start + _SEARCH_ROWS, total)
            block = self._rows[start * self._dimension : stop * self._dimension].reshape(-1, self._dimension)
            scores = np.concatenate([scores, queries @ block.astype(np.float32).T], axis=1)
            indices = np.broadcast_to(np.arange(start, stop), (len(queries), stop - start))
            positions = np.concatenate([positions, indices], axis=1)
            if scores.shape[1] > limit:
                top = np.argpartition(-scores, limit - 1, axis=1)[:, :limit]
                scores, positions = np.take_along_axis(scores, top, 1), np.take_along_axis(positions, top, 1)
        results = []
        for query_scores, query_positions in zip(scores.tolist(), positions.tolist(), strict=True):
            ranked = sorted(zip((-round(score, SCORE_DIGITS) for score in query_scores), query_positions, strict=True))
            results.append([Hit(self._corpus.id_at(position), -score) for score, position in ranked[:k]])
        return results

    def fingerprint(self) -> str:
        """SHA-256 in hex over corpus, preset, encoder and the precision of the vectors."""
        settings = {"preset": asdict(self._encoder.preset), "encoder": self._encoder.name, "vectors": "float16"}
        return index_fingerprint("dense", settings, [self._corpus.fingerprint()])


def build_dense(corpus: Corpus, encoder: Any = None, vectors: Vectors | None = None, **options: Any) -> Index:
    """Open the vectors beside a corpus on disk, or encode it into memory; encoder and options as for `as_encoder`."""
    encoder = as_encoder(encoder, **options)
    if vectors is None and isinstance(corpus, StoredCorpus) and has_vectors(corpus):
        return StoredDense(corpus, encoder)
    return DenseIndex(corpus, encoder, vectors=vectors)
