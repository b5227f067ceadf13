"""A fixed division of a corpus: documents to train a proposer on, and held-out ones that its data set is written from."""

from __future__ import annotations

import hashlib

from factgym.core.errors import ConfigError
from factgym.corpora.corpus import Corpus

_STEPS = 1 << 64


def shards(corpus: Corpus, held_out: float, seed: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(training ids, held-out ids), each in corpus order, drawn by a hash of seed and id.

    held_out: the share of held-out documents, above 0 and below 1. Whether a document is held out depends on nothing
    but its id, the seed and the share: a larger share holds out the same documents and more. Raises ConfigError for a
    share out of range, or one that leaves a side empty.
    """
    if not 0 < held_out < 1:
        raise ConfigError(f"held_out is a share above 0 and below 1, not {held_out!r}")
    bound = int(held_out * _STEPS)
    held = tuple(id_ for id_ in corpus.ids if _draw(seed, id_) < bound)
    chosen = frozenset(held)
    training = tuple(id_ for id_ in corpus.ids if id_ not in chosen)
    if not held or not training:
        raise ConfigError(
            f"held_out={held_out!r} of {len(corpus):,} documents leaves {len(training):,} to train on and"
            f" {len(held):,} held out: both need some. Change the share or give more documents."
        )
    return training, held


def _draw(seed: int, id_: str) -> int:
    digest = hashlib.sha256(f"factgym shard {seed} {id_}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big")
