"""A BM25 index on disk: the same passages are taken apart into words once, and their scores memory-mapped after that.

A folder holds the index as bm25s writes it, without pickled objects, and the digests of its files; its name is a
digest of passages and parameters. One whose files do not fit their digests is built anew. The passages themselves are
the store's, and are not written again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError
from factgym.corpora.bm25 import ANALYSER, K1, B, Bm25sIndex
from factgym.corpora.index import index_fingerprint
from factgym.datasets.averitec.evidence import EvidenceCorpus

_DIGESTS = "digests.json"
_CHUNK = 1 << 20


class KeptBm25(Bm25sIndex):
    """`Bm25sIndex` over `corpus`, read from a folder inside `cache_dir` or put there; scores are the same.

    loaded: whether it was read. Raises ConfigError where nothing can be written.
    """

    __slots__ = ("loaded",)

    def __init__(self, corpus: EvidenceCorpus, cache_dir: Path, *, k1: float = K1, b: float = B) -> None:
        folder = cache_dir / bm25_name(corpus, k1, b)
        self.loaded = _sound(folder)
        if self.loaded:
            super().__init__((), k1=k1, b=b)
            self._corpus, self._ids = corpus, corpus.ids
            self._engine, self._vocabulary = _load(folder)
            return
        super().__init__(corpus, k1=k1, b=b)
        if self._engine is not None:
            _save(folder, self._engine, self._vocabulary)


def bm25_name(corpus: EvidenceCorpus, k1: float, b: float) -> str:
    """The name of the folder: "bm25-" and 32 hex digits over passages, parameters, analyser and bm25s."""
    import bm25s

    settings = {"k1": k1, "b": b, "analyser": ANALYSER, "bm25s": str(bm25s.__version__)}
    return "bm25-" + index_fingerprint("averitec-bm25-1", settings, [corpus.fingerprint()])[:32]


def _load(folder: Path) -> tuple[Any, dict[str, int]]:
    import bm25s

    engine = bm25s.BM25.load(str(folder), mmap=True, load_vocab=False)
    return engine, json.loads((folder / "words.json").read_text(encoding="utf-8"))


def _save(folder: Path, engine: Any, vocabulary: dict[str, int]) -> None:
    """Written beside its place and moved there whole; who comes second keeps what the first has put there."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.part-"))
    except OSError as error:
        raise ConfigError(f"{folder.parent}: an index cannot be kept there ({error.strerror})") from None
    try:
        engine.save(str(part), show_progress=False)
        (part / "words.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        digests = {file.name: _digest(file) for file in sorted(part.iterdir())}
        (part / _DIGESTS).write_text(json.dumps(digests), encoding="utf-8")
        if folder.exists() and not _sound(folder):
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            part.rename(folder)
    except OSError as error:
        if not _sound(folder):
            raise ConfigError(f"{folder}: an index cannot be kept there ({error.strerror})") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _sound(folder: Path) -> bool:
    """Whether the folder's files are those that were written."""
    try:
        digests = json.loads((folder / _DIGESTS).read_text(encoding="utf-8"))
        if not isinstance(digests, dict) or "words.json" not in digests:
            return False
        return all(os.sep not in name and _digest(folder / name) == digest for name, digest in digests.items())
    except (OSError, ValueError):
        return False


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
