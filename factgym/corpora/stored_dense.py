"""Dense search over vectors on disk, which processes on a machine share: exact, or approximate and rescored exactly.

`factgym.corpora.encode` writes the vectors into a corpus's folder, `factgym.corpora.approximate` an approximate index of
them. Both are files of FAISS, memory-mapped, whose pages are compared with their sums before FAISS reads them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.dense import (
    SPARE_HITS,
    DenseIndex,
    Encoder,
    EncoderPreset,
    VectorIndex,
    as_encoder,
    best_positions,
    encoder_name,
    load_faiss,
    resolve_encoder,
)
from factgym.corpora.device_search import CodeVectors, DeviceVectors, check_device
from factgym.corpora.index import Index, index_fingerprint
from factgym.corpora.mapped_files import MappedFolder, is_mapped_folder
from factgym.corpora.store import StoredCorpus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factgym.corpora.corpus import Corpus
    from factgym.corpora.dense import SentenceEncoder, Vectors

APPROXIMATE, INDEX = "dense-approximate", "index.faiss"
APPROXIMATE_KIND, APPROXIMATE_VERSION = "factgym-faiss", 1

_MATRIX = 3
"""Queries from which on a product of matrices takes less time than FAISS's search of each."""


class VectorFolder(NamedTuple):
    """Where vectors are beside a corpus, in a folder of `factgym.corpora.mapped_files`.

    file: of the rows, in half precision. header: its beginning for so many rows of a dimension, whose length does not depend
    on the rows. command: the one that writes it, with {} for the corpus.
    """

    name: str
    kind: str
    version: int
    file: str
    header: Callable[[int, int], bytes]
    command: str


def faiss_header(count: int, dimension: int) -> bytes:
    """Return the beginning of a file of FAISS with `count` vectors in half precision, which follow it row after row."""
    faiss = load_faiss()
    index = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    index.ntotal = count
    # The file ends with the size of the codes and the codes: here there are none yet.
    return bytes(faiss.serialize_index(index)[:-8].tobytes()) + (2 * count * dimension).to_bytes(8, "little")


def read_faiss(folder: MappedFolder, name: str) -> Any:
    """Map an index of FAISS whose bytes are intact. Raises DataError."""
    faiss = load_faiss()
    folder[name].check_all()
    try:
        return faiss.read_index(str(folder.path / name), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[-200:]
        raise DataError(f"{folder.path / name} cannot be read by FAISS ({reason}). {folder.rebuild}") from None


DENSE = VectorFolder(
    "dense", "factgym-vectors", 1, "vectors.faiss", faiss_header, "factgym corpus encode {} --encoder NAME"
)


def has_vectors(corpus: StoredCorpus, layout: VectorFolder = DENSE) -> bool:
    """Whether there are vectors beside the corpus, whatever their state."""
    return is_mapped_folder(corpus.path / layout.name)


def open_vectors(corpus: StoredCorpus, layout: VectorFolder = DENSE) -> MappedFolder:
    """Open the vectors of a corpus. Raises DataError for damaged ones and for those of another corpus."""
    path = corpus.path / layout.name
    repair = f"Encode it again with `{layout.command.format(corpus.path)} --force`."
    folder = MappedFolder(path, layout.kind, layout.version, repair)
    meta = folder.meta
    if meta.get("corpus") != corpus.fingerprint() or meta.get("passages") != len(corpus):
        raise DataError(f"{path} holds vectors of another corpus. {repair}")
    if layout.file not in folder or folder.records[layout.file].bytes < 2 * len(corpus) * meta["dimension"]:
        raise DataError(f"{path} holds another number of vectors than the corpus has passages. {repair}")
    return folder


def stored_rows(folder: MappedFolder) -> NDArray[np.float16]:
    """Map the vectors of a folder of `DENSE`: shape (passages, dimension). Raises DataError for damaged pages."""
    array, count, dimension = folder[DENSE.file], int(folder.meta["passages"]), int(folder.meta["dimension"])
    start = len(faiss_header(count, dimension))
    array.check_all()
    return array[start : start + 2 * count * dimension].view("<f2").reshape(count, dimension)


def open_approximate(corpus: StoredCorpus, vectors: MappedFolder) -> MappedFolder | None:
    """Open the approximate index of a corpus's vectors; None where there is none or it is of replaced vectors."""
    path = corpus.path / APPROXIMATE
    if not is_mapped_folder(path):
        return None
    repair = (
        f"Build it again with `{DENSE.command.format(corpus.path)} --approximate KIND --force`, or delete the folder."
    )
    folder = MappedFolder(path, APPROXIMATE_KIND, APPROXIMATE_VERSION, repair)
    if folder.meta["vectors"] != vectors.records[DENSE.file].sha256:
        raise DataError(f"{path} is an index of other vectors. {repair}")
    return folder


class StoredDense(VectorIndex):
    """Inner-product search over the vectors of a `StoredCorpus`, which processes on a machine share.

    exact: compare every vector. By default the corpus's approximate index chooses candidates where it has one.
    search_device: compare every vector on this device of torch, "cuda", "cuda:N" or "cpu", instead of with FAISS. first,
    stop: only these positions are searched. Scores are those of double precision over the stored half-precision rows,
    whichever way the hits were chosen, rounded to `SCORE_DIGITS` decimals; equal ones fall in corpus order. Pickles as
    the corpus's path and the encoder. Raises `ConfigError` for another encoder than that of the vectors and for a device
    that is not here or too small, `DataError` as `open_vectors` and, with the first search, for damaged pages.
    """

    def __init__(
        self,
        corpus: StoredCorpus,
        encoder: Encoder,
        *,
        exact: bool = False,
        search_device: str = "",
        first: int = 0,
        stop: int | None = None,
    ) -> None:
        super().__init__(corpus, encoder, first, stop)
        self.corpus, self.encoder, self.search_device = corpus, encoder, search_device
        self.exact = exact or bool(search_device)
        if search_device:
            check_device(search_device)
        self.folder = open_vectors(corpus)
        check_encoder(self.folder, encoder.source, encoder.preset)
        self._approximate = None if self.exact else open_approximate(corpus, self.folder)
        self.dimension = int(self.folder.meta["dimension"])
        self._lock = threading.Lock()  # threads that search first do not all move the vectors
        self._on_device: DeviceVectors | None = None

    def _options(self) -> dict[str, Any]:
        return {"exact": self.exact, "search_device": self.search_device}

    def __reduce__(self) -> tuple[Any, ...]:
        first, stop = self.range
        return partial(StoredDense, first=first, stop=stop, **self._options()), (self.corpus, self.encoder)

    def shard(self, first: int, stop: int) -> StoredDense:
        """Return the search of the passages at positions `first` to `stop`."""
        return StoredDense(self.corpus, self.encoder, first=first, stop=stop, **self._options())

    def search_vectors(self, queries: Vectors, k: int) -> list[list[tuple[int, float]]]:
        """Return positions in the corpus and scores, at most `k` for each row of `queries`, best first."""
        if self._approximate is not None:
            meta = self._approximate.meta
            index, parameter, value = self._index, str(meta["parameter"]), int(meta["value"])
            candidates = approximate_candidates(
                index, queries, k, parameter, value, int(meta["refine"]), self._selector()
            )
            return self.rescore(queries, candidates, k)
        if self.search_device:
            first, stop = self.range
            with self._lock:
                if self._on_device is None:
                    self._on_device = DeviceVectors(self.rows[first:stop], self.search_device)
            results = self._on_device.search(queries, k, lambda some, rows: self.rescore(some, rows + first, k))
            undecided = [i for i, hits in enumerate(results) if hits is None]
            exact = iter(self._search_exactly(queries[undecided], k) if undecided else [])
            return [next(exact) if hits is None else hits for hits in results]
        return self._search_exactly(queries, k)

    def _search_exactly(self, queries: Vectors, k: int) -> list[list[tuple[int, float]]]:
        """Compare every vector with FAISS."""
        first, stop = self.range
        # Some hits more than requested: scores of single precision may reorder those near the cut.
        parameters = None if (selector := self._selector()) is None else load_faiss().SearchParameters(sel=selector)
        positions = self._index.search(queries, min(k + SPARE_HITS, stop - first), params=parameters)[1]
        return self.rescore(queries, positions, k)

    def _selector(self) -> Any:
        """Return FAISS's selector of the positions that are searched, None for all."""
        return None if self.range == (0, len(self.corpus)) else load_faiss().IDSelectorRange(*self.range)

    def rescore(self, queries: Vectors, candidates: NDArray[np.int64], k: int) -> list[list[tuple[int, float]]]:
        """Return the best `k` of each query's candidates by their exact scores; candidates: positions, -1 for none."""
        results = []
        for query, row in zip(queries, candidates, strict=True):
            positions = np.unique(row[row >= 0])
            scores = self.rows[positions].astype(np.float64) @ query.astype(np.float64)
            results.append(best_positions(scores.tolist(), positions.tolist(), k))
        return results

    @cached_property
    def rows(self) -> NDArray[np.float16]:
        """The vectors, mapped: shape (passages, dimension)."""
        return stored_rows(self.folder)

    @cached_property
    def _index(self) -> Any:
        if self._approximate is None:
            return read_faiss(self.folder, DENSE.file)
        index = read_faiss(self._approximate, INDEX)
        if self._approximate.meta["parameter"]:
            return index
        return ScalarCodes(index, self._approximate.path / INDEX, self._approximate.records[INDEX].items, *self.range)

    def fingerprint(self) -> str:
        """SHA-256 in hex over corpus, preset, encoder, the precision of the vectors and the approximate index."""
        settings: dict[str, Any] = {"preset": asdict(self.encoder.preset), "encoder": self.encoder.name}
        settings["vectors"] = "float16"
        if self._approximate is not None:
            settings["approximate"] = json.dumps(
                [dict(self._approximate.meta), self._approximate.records[INDEX].sha256]
            )
        return index_fingerprint("dense", settings, [self.corpus.fingerprint()])


class ScalarCodes:
    """Search of FAISS's scalar quantizer of 8 bits, of several queries by products of matrices, with FAISS's rankings.

    index: FAISS's. path, size: its file and the file's bytes without padding, the last of which are the codes. first, stop:
    the positions that are searched.
    """

    def __init__(self, index: Any, path: Path, size: int, first: int, stop: int) -> None:
        torch = check_device("cpu")
        self._index, self._first, self.ntotal = index, first, stop - first
        file = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
        codes = file[size - index.ntotal * index.d :].view(index.ntotal, index.d)[first:stop]
        self._codes, self._vectors = codes.numpy(), CodeVectors(codes)
        # A code means low + span * (code + .5) / 255, which is step * (code - 128) beside a constant.
        low, span = load_faiss().vector_to_array(index.sq.trained).astype(np.float64).reshape(2, index.d)
        self._step = span / 255
        self._centre = low + 128.5 * self._step

    def search(self, queries: Vectors, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return scores and positions as FAISS's `search` does: shape (queries, count), best first."""
        count = min(count, self.ntotal)
        if len(queries) < _MATRIX:
            return self._scan(queries, count)
        scaled = (queries * self._step).astype(np.float32)
        scores, positions = np.empty((len(queries), count), np.float32), np.empty((len(queries), count), np.int64)
        for i, hits in enumerate(self._vectors.search(scaled, count, partial(self._rescore, k=count))):
            if hits is None:
                scores[i], positions[i] = self._scan(queries[i : i + 1], count)
            else:
                scores[i] = [score for _, score in hits] + queries[i] @ self._centre
                positions[i] = [position + self._first for position, _ in hits]
        return scores, positions

    def _scan(self, queries: Vectors, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        faiss = load_faiss()
        selector = faiss.IDSelectorRange(self._first, self._first + self.ntotal)
        return self._index.search(queries, count, params=faiss.SearchParameters(sel=selector))  # type: ignore[no-any-return]

    def _rescore(self, queries: Vectors, candidates: NDArray[np.int64], k: int) -> list[list[tuple[int, float]]]:
        return [
            best_positions(((self._codes[row] - 128.0) @ query.astype(np.float64)).tolist(), row.tolist(), k)
            for query, row in zip(queries, candidates, strict=True)
        ]


def approximate_candidates(
    index: Any, queries: Vectors, k: int, parameter: str, value: int, refine: int, selector: Any = None
) -> NDArray[np.int64]:
    """Return the candidates of each query, -1 for none: the nearest `refine * k` by the codes of the approximate index.

    parameter: "nprobe" or "efSearch" with its `value`; "" for `ScalarCodes`, which have none. selector: FAISS's, of the
    positions that are searched.
    """
    count = min(max(refine * k, k + SPARE_HITS), index.ntotal)
    if not parameter:
        return index.search(queries, count)[1]  # type: ignore[no-any-return]
    faiss = load_faiss()
    settings = {} if selector is None else {"sel": selector}
    if parameter == "nprobe":
        parameters = faiss.SearchParametersIVF(nprobe=value, **settings)
    else:
        parameters = faiss.SearchParametersHNSW(efSearch=max(value, count), **settings)
    return index.search(queries, count, params=parameters)[1]  # type: ignore[no-any-return]


def check_encoder(folder: MappedFolder, source: str | SentenceEncoder, preset: EncoderPreset | None = None) -> None:
    """Raise ConfigError where the vectors of a folder are of another encoder. Loads no model."""
    stored = stored_preset(folder)
    if (folder.meta["encoder"], stored) != (encoder_name(source), preset):
        raise ConfigError(
            f"{folder.path} holds vectors of the encoder {str(folder.meta['source'] or folder.meta['encoder'])[:80]!r}"
            f"{f' (preset {stored.name[:20]!r})' if stored else ''}, not of {str(source)[:80]!r}"
            f"{f' (preset {preset.name!r})' if preset else ''}: give that encoder, or encode {folder.path.parent} again "
            "with `factgym corpus encode … --force`"
        )


def stored_preset(folder: MappedFolder) -> EncoderPreset | None:
    """Return the preset of vectors on disk, None for those of late interaction."""
    return EncoderPreset(**folder.meta["preset"]) if "preset" in folder.meta else None


def build_dense(
    corpus: Corpus,
    encoder: Any = None,
    preset: str | EncoderPreset | None = None,
    vectors: Vectors | None = None,
    exact: bool = False,
    search_device: str = "",
    **options: Any,
) -> Index:
    """Open the vectors beside a corpus on disk, or encode a corpus into memory.

    encoder, preset, options: as for `as_encoder`; by default those of the vectors on disk. exact, search_device: see
    `StoredDense`; a device needs vectors on disk.
    """
    if vectors is None and isinstance(corpus, StoredCorpus) and has_vectors(corpus):
        folder = open_vectors(corpus)
        if encoder is None and preset is None:
            encoder, preset = stored_source(folder)
        if not isinstance(encoder, Encoder):
            check_encoder(folder, *resolve_encoder(encoder, preset))
        return StoredDense(corpus, _encoder(encoder, preset, options), exact=exact, search_device=search_device)
    if search_device:
        raise ConfigError(f"search_device needs vectors on disk: `{DENSE.command.format('CORPUS')}` makes them")
    return DenseIndex(corpus, _encoder(encoder, preset, options), vectors=vectors)


def stored_source(folder: MappedFolder) -> tuple[str, EncoderPreset | None]:
    """Return the encoder of vectors on disk. Raises ConfigError where it was an object or is not here any more."""
    source, name = str(folder.meta["source"]), str(folder.meta["encoder"])
    if not source or (name.startswith("folder:") and not Path(source).is_dir()):
        option = "encoder" if "preset" in folder.meta else "model"
        raise ConfigError(
            f"{folder.path} holds vectors of the encoder {source or name!r}, which is not here: give {option}="
        )
    return source, stored_preset(folder)


def _encoder(encoder: Any, preset: str | EncoderPreset | None, options: dict[str, Any]) -> Encoder:
    return as_encoder(encoder, **options, **({} if preset is None else {"preset": preset}))
