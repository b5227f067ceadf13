"""Splits of generated fact checks, and the haystack of everything that was reported around their claims."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, overload

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.tasks import SharedByArguments, shared
from factgym.corpora.index import index_fingerprint
from factgym.datasets.averitec import FactCheck
from factgym.datasets.evidence import Evidence, EvidenceCorpus
from factgym.datasets.evidence_store import ClaimKey
from factgym.generators.factchecks.claims import Made, make_check

SPLITS: Mapping[str, int] = MappingProxyType({"dev": 500, "train": 1200, "test": 500})
"""Sizes by default; the first is the default split."""

MADE_HAYSTACK = "generated haystack"
MAX_SIZE = 1_400
"""Subjects of a split have names of their own, and there are no more names."""

_VERSION = 1


class MadeChecks(SharedByArguments, Sequence[FactCheck]):
    """A split of generated fact checks; item *i* depends on (seed, split, i) alone and is made when asked for.

    Every run of four has each of the labels once. Raises ConfigError for an unknown split or an impossible size.
    """

    def __init__(self, split: str = "dev", *, seed: int = 0, size: int | None = None) -> None:
        if split not in SPLITS:
            raise ConfigError(
                f"unknown split {split!r:.80}; there are {', '.join(SPLITS)}.{did_you_mean(split, SPLITS)}"
            )
        if size is not None and not 1 <= size <= MAX_SIZE:
            raise ConfigError(f"size is the number of generated claims, from 1 to {MAX_SIZE:,}, not {size!r}")
        self.name, self.seed = split, seed
        self._size = size or SPLITS[split]

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> FactCheck: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[FactCheck, ...]: ...
    def __getitem__(self, index: int | slice) -> FactCheck | tuple[FactCheck, ...]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(self._size)))
        return self.made(index).check

    def made(self, index: int) -> Made:
        """The check of a place with what was reported around it."""
        at = operator.index(index)
        at += self._size if at < 0 else 0
        if not 0 <= at < self._size:
            raise IndexError(f"claim {index} of {self._size}")
        return _made(self.name, self.seed, at)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_checks, (self.name, self.seed, self._size)

    def fingerprint(self) -> str:
        """SHA-256 in hex over what the split is made of."""
        return hashlib.sha256(f"made-checks-{_VERSION}:{self.name}:{self.seed}:{self._size}".encode()).hexdigest()


class MadeStore(SharedByArguments):
    """What was reported around all claims of a split, as one haystack in the order of its opaque ids."""

    kind = MADE_HAYSTACK
    per_claim = False

    def __init__(self, checks: MadeChecks) -> None:
        self._checks = checks
        found = {piece.id: piece for index in range(len(checks)) for piece in checks.made(index).evidence}
        self._corpus = EvidenceCorpus(found[key] for key in sorted(found))

    def __reduce__(self) -> tuple[Any, ...]:
        return MadeStore, (self._checks,)

    @property
    def note(self) -> str:
        """What a report says about the evidence."""
        return (
            f"Evidence: a generated haystack of {len(self._corpus):,} passages around {len(self._checks):,} generated "
            "claims; scores say nothing about real claims."
        )

    def for_claim(self, claim: ClaimKey) -> EvidenceCorpus:
        """The whole haystack, whichever the claim."""
        return self._corpus

    def passages(self) -> Iterator[Evidence]:
        """All of the haystack, in the order of ids."""
        return iter(self._corpus)

    def fingerprint(self) -> str:
        """SHA-256 in hex over the passages."""
        return index_fingerprint(self.kind, {}, [self._corpus.fingerprint()])

    def describe(self) -> dict[str, Any]:
        """kind, note, fingerprint and size as JSON data."""
        return {
            "kind": self.kind,
            "note": self.note,
            "fingerprint": self.fingerprint(),
            "passages": len(self._corpus),
            "claims": len(self._checks),
        }


def made_store(checks: MadeChecks) -> MadeStore:
    """The haystack of these claims, built once a process."""
    return shared(("made store", checks.fingerprint()), lambda: MadeStore(checks))


@lru_cache(maxsize=4096)
def _made(split: str, seed: int, index: int) -> Made:
    return make_check(split, seed, index)


def _made_checks(split: str, seed: int, size: int) -> MadeChecks:
    return MadeChecks(split, seed=seed, size=size)
