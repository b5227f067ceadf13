"""Write the vectors of a stored corpus: half precision, in blocks, resumable after a kill.

    CORPUS/dense/vectors.faiss    a FAISS index (scalar quantizer of half precision, inner product): the passages in order
    CORPUS/dense/manifest.json    encoder, preset, dimension, the corpus's fingerprint; `factgym.corpora.mapped_files`
    CORPUS/late/                  a vector for each token: `factgym.corpora.late`

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
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from factgym.core.errors import ConfigError, DataError
from factgym.core.processes import lock
from factgym.corpora.corpus import Passage
from factgym.corpora.dense import Encoder, encoder_name
from factgym.corpora.late import LATE, STARTS, LateEncoder
from factgym.corpora.mapped_files import MappedFolder, pad_file, replace_folder, write_manifest
from factgym.corpora.stored_dense import (
    APPROXIMATE,
    DENSE,
    VectorFolder,
    check_encoder,
    has_vectors,
    open_vectors,
    stored_preset,
)

if TYPE_CHECKING:
    from factgym.corpora.dense import EncoderPreset, SentenceEncoder, Vectors
    from factgym.corpora.late import Rows
    from factgym.corpora.store import StoredCorpus

EncodeBlocks = Callable[[Iterable[list[Passage]]], Iterator["Vectors | list[Rows]"]]
"""Encodes blocks of passages, in order: into a row each, or into an array of rows each."""

BLOCK = 256
"""Passages for each device between two lines of the journal; at most so many are encoded again after a kill."""

_JOURNAL = "journal.jsonl"


class EncodeProgress(NamedTuple):
    """done: passages on disk. resumed: those of them that an earlier call encoded. dimension, rows: of the vectors on disk."""

    done: int
    total: int
    resumed: int
    dimension: int
    rows: int


def is_encoded(corpus: StoredCorpus, source: str | SentenceEncoder, preset: EncoderPreset | None) -> bool:
    """Whether the corpus has the vectors of this encoder; preset: None for a model of late interaction.

    Loads no model. Raises DataError for damaged vectors.
    """
    layout = DENSE if preset else LATE
    if not has_vectors(corpus, layout):
        return False
    folder = open_vectors(corpus, layout)
    return folder.meta["encoder"] == encoder_name(source) and stored_preset(folder) == preset


def encode_corpus(
    corpus: StoredCorpus,
    encoder: Encoder | LateEncoder,
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
    preset = encoder.preset if isinstance(encoder, Encoder) else None
    layout = LATE if preset is None else DENSE
    if not replace and has_vectors(corpus, layout):
        folder = open_vectors(corpus, layout)
        check_encoder(folder, encoder.source, preset)
        return folder
    out, partial = corpus.path / layout.name, corpus.path / f".{layout.name}.partial"
    block = BLOCK * max(1, len(encoder.devices))
    meta = {
        "corpus": corpus.fingerprint(),
        "passages": len(corpus),
        "encoder": encoder.name,
        "source": encoder.source if isinstance(encoder.source, str) else "",
        **({} if preset is None else {"preset": asdict(preset)}),
    }
    try:
        with _exclusive(corpus.path / f".{layout.name}.lock", corpus.path), encoder.processes():
            partial.mkdir(exist_ok=True)
            encode: EncodeBlocks = blocks or functools.partial(map, encoder.passages)
            lengths, dimension = _encode_blocks(corpus, encode, partial, layout, {**meta, "block": block}, progress)
            (partial / _JOURNAL).unlink()
            texts = {layout.file: pad_file(partial / layout.file)}
            if layout is LATE:
                np.save(partial / STARTS, np.cumsum([0, *lengths], dtype=np.int64), allow_pickle=False)
                texts = {}
            write_manifest(partial, layout.kind, layout.version, {**meta, "dimension": dimension}, texts)
            if layout is DENSE:
                # An index of the previous vectors is of no use any more.
                shutil.rmtree(corpus.path / APPROXIMATE, ignore_errors=True)
            replace_folder(partial, out)
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror or error}). Make room, then repeat.") from None
    return open_vectors(corpus, layout)


@contextlib.contextmanager
def _exclusive(path: Path, corpus: Path) -> Iterator[None]:
    """Hold a lock for the time of an encoding; the system releases it when the process is killed."""
    with path.open("w") as file:
        if not lock(file):
            raise ConfigError(f"another process encodes {corpus}: wait for it, or stop it")
        yield


def _encode_blocks(
    corpus: StoredCorpus,
    encode: EncodeBlocks,
    folder: Path,
    layout: VectorFolder,
    meta: dict[str, Any],
    progress: Callable[..., None],
) -> tuple[list[int], int]:
    """Write the rows that are missing; return the rows of each passage and their dimension.

    A block is in the journal after its rows are on disk, so that a line promises rows. The header's number of rows is
    written last.
    """
    total, block = len(corpus), int(meta["block"])
    lengths, dimension = _resume(folder, layout, meta, total)
    resumed = len(lengths)
    with (folder / layout.file).open("r+b") as vectors, (folder / _JOURNAL).open("ab") as journal:
        vectors.seek(0, os.SEEK_END)
        passages = (list(map(corpus.read, range(i, min(i + block, total)))) for i in range(resumed, total, block))
        for arrays in encode(passages):
            rows = arrays if isinstance(arrays, np.ndarray) else np.concatenate(arrays)
            own = [1 if isinstance(arrays, np.ndarray) else len(array) for array in arrays]
            stop = len(lengths) + len(own)
            with np.errstate(over="ignore"):
                rows = rows.astype("<f2")
            if not np.isfinite(rows).all() or (dimension and rows.shape[1] != dimension):
                raise DataError(
                    f"the encoder gave vectors that half precision cannot hold for passages {len(lengths):,} to {stop:,}: "
                    "take an encoder whose vectors have unit length, or a preset that scales them"
                )
            if not lengths:
                dimension = rows.shape[1]
                vectors.write(layout.header(0, dimension))
            raw = rows.tobytes()
            vectors.write(raw)
            _sync(vectors)
            lengths += own
            record = {"stop": stop, "dimension": dimension, "sha256": hashlib.sha256(raw).hexdigest()}
            if layout is LATE:
                record["rows"] = own
            journal.write(json.dumps(record).encode() + b"\n")
            _sync(journal)
            progress(EncodeProgress(stop, total, resumed, dimension, sum(lengths)))
        if lengths:
            vectors.seek(0)
            vectors.write(layout.header(sum(lengths), dimension))
    return lengths, dimension


def _resume(folder: Path, layout: VectorFolder, meta: dict[str, Any], total: int) -> tuple[list[int], int]:
    """Return the rows of each passage that an earlier call left intact and their dimension; cut the files after them."""
    path, journal = folder / layout.file, folder / _JOURNAL
    head = json.dumps(meta).encode()
    # Rows are synced before their line in the journal, so a line promises rows; its digest finds rows that the system
    # lost nevertheless. The longest intact prefix stays and all after it is cut, which makes the result of a resumed
    # call equal byte for byte.
    lines = journal.read_bytes().split(b"\n") if journal.exists() and path.exists() else []
    lengths: list[int] = []
    dimension = end = 0
    intact = [head]
    if lines and lines[0] == head:
        with path.open("rb") as vectors:
            for line in lines[1:]:
                try:
                    record = json.loads(line)
                    stop, width, digest = int(record["stop"]), int(record["dimension"]), record["sha256"]
                    own = list(map(int, record.get("rows", [1] * (stop - len(lengths)))))
                except (ValueError, KeyError, TypeError):
                    break
                if not lengths:
                    # The header has the number of rows in the end.
                    dimension, end = width, len(layout.header(0, width))
                    vectors.seek(end)
                size = 2 * width * sum(own)
                if stop != min(len(lengths) + meta["block"], total) or width != dimension:
                    break
                if len(own) != stop - len(lengths) or hashlib.sha256(vectors.read(size)).hexdigest() != digest:
                    break
                lengths += own
                end += size
                intact.append(line)
    for file in folder.iterdir():
        if file not in (path, journal):
            file.unlink()
    path.touch()
    os.truncate(path, end if lengths else 0)
    journal.write_bytes(b"\n".join(intact) + b"\n")
    return lengths, dimension if lengths else 0


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
