"""Passage vectors on disk: a dense index over the same passages by the same model is encoded once, not every run.

A file is the SHA-256 of its numbers and then the numbers, little-endian float32 row by row; its name is a digest of
passages and model. One that does not fit its own digest is written anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from factgym.core.errors import ConfigError
from factgym.corpora.build import build_index
from factgym.corpora.dense import Encoder, shared_encoder
from factgym.corpora.index import Index, index_fingerprint
from factgym.datasets.averitec.evidence import EvidenceCorpus

_DIGEST_BYTES = 32


def dense_index(corpus: EvidenceCorpus, cache_dir: Path | None, encoder: Any = None, **options: Any) -> Index:
    """A dense index, with vectors from `cache_dir` where it is given; options as of `build_index`.

    Raises ConfigError where vectors are to be kept of an encoder that is an object: nothing tells two of its kind
    apart.
    """
    if cache_dir is None or not len(corpus):
        return build_index(corpus, "dense", encoder=encoder, **options)
    ready = encoder if isinstance(encoder, Encoder) else _named(encoder, options)
    if not isinstance(ready.source, str):
        raise ConfigError("cache_dir needs an encoder given by a model's name or folder, not an object")
    return build_index(corpus, "dense", encoder=ready, vectors=cached_vectors(corpus, ready, cache_dir))


def cached_vectors(corpus: EvidenceCorpus, encoder: Encoder, folder: Path) -> Any:
    """The vectors of `corpus`, float32 of shape (passages, dimension), from `folder` or put there."""
    file = folder / f"{vectors_name(corpus, encoder)}.f32"
    found = _load(file, len(corpus))
    if found is not None:
        return found
    made = np.ascontiguousarray(encoder.passages(corpus), dtype=np.float32)
    _save(file, made)
    return made


def vectors_name(corpus: EvidenceCorpus, encoder: Encoder) -> str:
    """32 hex digits over passages, model and preset."""
    settings = {"preset": asdict(encoder.preset), "encoder": encoder.name}
    text = index_fingerprint("averitec-vectors-1", settings, [corpus.fingerprint()])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _named(encoder: Any, options: dict[str, Any]) -> Encoder:
    if encoder is None or isinstance(encoder, str | Path):
        return shared_encoder(encoder, **options)
    return Encoder(encoder, **options)


def _load(file: Path, rows: int) -> Any:
    """The vectors of a file as a read-only array, None where it is missing or spoilt."""
    try:
        content = memoryview(file.read_bytes())
    except OSError:
        return None
    digest, numbers = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if not len(numbers) or len(numbers) % (4 * rows) or hashlib.sha256(numbers).digest() != digest:
        return None
    return np.frombuffer(numbers, dtype="<f4").reshape(rows, -1)


def _save(file: Path, vectors: Any) -> None:
    """Written beside its place and moved there, so that a reader never sees half a file."""
    numbers = np.ascontiguousarray(vectors, dtype="<f4").tobytes()
    part: Path | None = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
        part = Path(name)
        with os.fdopen(handle, "wb") as stream:
            stream.write(hashlib.sha256(numbers).digest())
            stream.write(numbers)
        part.replace(file)
    except OSError as error:
        raise ConfigError(f"{file.parent}: vectors cannot be kept there ({error.strerror})") from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
