"""An index as a file: its sections by name, and what makes its fingerprint."""

from __future__ import annotations

from pathlib import Path

from factgym.core.errors import DataError
from factgym.corpora.cooccurrence.container import open_container
from factgym.corpora.cooccurrence.store import Store, content_digest
from factgym.corpora.cooccurrence.tokens import TOKENIZER

INDEX = "cooccurrence-index"


def open_store(path: Path, *, verify: bool = False) -> Store:
    """Map an index; `DataError` names the file where it is not whole, not one of ours, or of another tokenizer."""
    meta, arrays, checksums = open_container(path, INDEX, verify=verify)
    if meta["tokenizer"] != TOKENIZER:
        raise DataError(
            f"{path} was made with the tokenizer {meta['tokenizer']!r}; this factgym's is {TOKENIZER!r}. Build it again."
        )
    sizes = {name: len(array) for name, array in arrays.items()}
    words, blocks = sizes["keys"], sizes["firsts"]
    fits = sizes["ends"] == words and sizes["frequencies"] == words + 1 and sizes["block_starts"] == words + 2
    if not fits or sizes["offsets"] != blocks + 1 or int(arrays["block_starts"][-1]) != blocks:
        raise DataError(f"{path} is damaged: its sections do not fit each other. Build it again.")
    meta["fingerprint"] = content_digest(meta, checksums)
    return Store(meta=meta, **arrays)
