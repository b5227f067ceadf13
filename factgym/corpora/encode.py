"""Write the vectors of a stored corpus: half precision, in blocks, resumable after a kill.

    CORPUS/dense/vectors.faiss    a FAISS index (scalar quantizer of half precision, inner product): the passages in order
    CORPUS/dense/manifest.json    encoder, preset, dimension, the corpus's fingerprint; `factgym.corpora.mapped_files`

While an encoding runs, its rows are in `CORPUS/.dense.partial`, with a journal: a line for each block that is on disk,
with its checksum. A later call verifies the blocks of the journal and continues after the last intact one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.corpus import Passage
from factgym.corpora.dense import encoder_name
from factgym.corpora.mapped_files import MappedFolder, pad_file, replace_folder, write_manifest
from factgym.corpora.stored_dense import (
    APPROXIMATE,
    FOLDER,
    KIND,
    VECTORS,
    VERSION,
    check_encoder,
    faiss_header,
    has_vectors,
    open_vectors,
)

if TYPE_CHECKING:
    from factgym.corpora.dense import Encoder, EncoderPreset, SentenceEncoder, Vectors
    from factgym.corpora.store import StoredCorpus

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: nothing keeps two processes from encoding the same corpus at once
    fcntl = None

EncodeBlocks = Callable[[Iterable[list[Passage]]], Iterator["Vectors"]]
"""Encodes blocks of passages into vectors, in order."""

BLOCK = 256
"""Passages for each device between two lines of the journal; at most so many are encoded again after a kill."""

_JOURNAL = "journal.jsonl"


class EncodeProgress(NamedTuple):
    """done: passages on disk. resumed: those of them that an earlier call encoded. dimension: of the vectors."""

    done: int
    total: int
    resumed: int
    dimension: int


def is_encoded(corpus: StoredCorpus, source: str | SentenceEncoder, preset: EncoderPreset) -> bool:
    """Whether the corpus has the vectors of this encoder. Loads no model. Raises DataError for damaged vectors."""
    if not has_vectors(corpus):
        return False
    meta = open_vectors(corpus).meta
    return bool(meta["encoder"] == encoder_name(source) and meta["preset"] == asdict(preset))


def encode_corpus(
    corpus: StoredCorpus,
    encoder: Encoder,
    *,
    blocks: EncodeBlocks | None = None,
    replace: bool = False,
    progress: Callable[[EncodeProgress], None] = lambda _: None,
) -> MappedFolder:
    """Encode all passages into the corpus's folder and open the vectors, which appear when they are whole.

    blocks: encodes them elsewhere, such as `factgym.agents.cluster.encoding`.

    Continues an interrupted call with the same encoder; the result is that of an uninterrupted one, byte for byte. Vectors
    of the same encoder are returned as they are, unless `replace` is set. Raises ConfigError where those of another encoder
    exist and `replace` is False, and where another process encodes the corpus.
    """
    if not replace and has_vectors(corpus):
        check_encoder(open_vectors(corpus), encoder.source, encoder.preset)
        return open_vectors(corpus)
    out, partial = corpus.path / FOLDER, corpus.path / f".{FOLDER}.partial"
    block = BLOCK * max(1, len(encoder.devices))
    meta = {
        "corpus": corpus.fingerprint(),
        "passages": len(corpus),
        "encoder": encoder.name,
        "source": encoder.source if isinstance(encoder.source, str) else "",
        "preset": asdict(encoder.preset),
    }
    try:
        with _exclusive(corpus.path / f".{FOLDER}.lock", corpus.path), encoder.processes():
            partial.mkdir(exist_ok=True)
            encode = blocks or functools.partial(map, encoder.passages)
            dimension = _encode_blocks(corpus, encode, partial, {**meta, "block": block}, progress)
            (partial / _JOURNAL).unlink()
            size = pad_file(partial / VECTORS)
            write_manifest(partial, KIND, VERSION, {**meta, "dimension": dimension}, {VECTORS: size})
            # An index of the previous vectors is of no use any more.
            shutil.rmtree(corpus.path / APPROXIMATE, ignore_errors=True)
            replace_folder(partial, out)
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror or error}). Make room, then repeat.") from None
    return open_vectors(corpus)


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
    corpus: StoredCorpus, encode: EncodeBlocks, folder: Path, meta: dict[str, Any], progress: Callable[..., None]
) -> int:
    """Write the rows that are missing; return the dimension. A block is in the journal after its rows are on disk."""
    total, block = len(corpus), int(meta["block"])
    done, dimension = _resume(folder, meta, total)
    resumed = done
    with (folder / VECTORS).open("r+b") as vectors, (folder / _JOURNAL).open("ab") as journal:
        vectors.seek(0, os.SEEK_END)
        passages = (list(map(corpus.read, range(i, min(i + block, total)))) for i in range(done, total, block))
        for single in encode(passages):
            stop = min(done + block, total)
            with np.errstate(over="ignore"):
                rows = single.astype("<f2")
            if not np.isfinite(rows).all() or (dimension and rows.shape[1] != dimension):
                raise DataError(
                    f"the encoder gave vectors that half precision cannot hold for passages {done:,} to {stop:,}: "
                    "take an encoder whose vectors have unit length, or a preset that scales them"
                )
            if not done:
                dimension = rows.shape[1]
                vectors.write(faiss_header(total, dimension))
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
    path, journal = folder / VECTORS, folder / _JOURNAL
    head = json.dumps(meta).encode()
    # Rows are synced before their line in the journal, so a line promises rows; its digest finds rows that the system
    # lost nevertheless. The longest intact prefix stays and all after it is cut, which makes the result of a resumed
    # call equal byte for byte.
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
                    header = faiss_header(total, width)
                    if vectors.read(len(header)) != header:
                        break
                    dimension, end = width, len(header)
                size = 2 * width * (stop - done)
                if stop != min(done + meta["block"], total) or width != dimension:
                    break
                if hashlib.sha256(vectors.read(size)).hexdigest() != digest:
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


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
