"""Task sets: each task is a claim and its source, as a policy sees them."""

from __future__ import annotations

import hashlib
import operator
from dataclasses import dataclass, field
from typing import Any

from factgym.core.tasks import Immutable, LazyTaskSet, shared
from factgym.datasets.attribution import AttributionClaim, Claims, read_benchmark, stratified
from factgym.envs.seva.config import SevaConfig
from factgym.generators.attribution import SyntheticAttribution
from factgym.rewards.seva.scoring import SevaGold
from factgym.tools.untrusted import neutralise

_CONTENT = "a file or folder of claims with sources and labels"


@dataclass(frozen=True, slots=True)
class SevaTask(Immutable):
    """One claim to check. Immutable and shared.

    claim, source: as the policy sees them, neutralised and within bounds. item: as read or generated. origin: the
    task set and the index in it, which is the content of a pickle.
    """

    id: str
    claim: str
    source: str
    gold: SevaGold
    item: AttributionClaim = field(repr=False)
    origin: tuple[SevaTaskSet, int] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, self.origin


class SevaTaskSet(LazyTaskSet[SevaTask]):
    """The tasks of one configuration. Thread-safe; a task is made on first use."""

    def __init__(self, claims: Claims, config: SevaConfig) -> None:
        super().__init__()
        self._claims = claims
        self._config = config

    def __len__(self) -> int:
        return len(self._claims)

    def id_at(self, index: int) -> str:
        """Return the id of a task."""
        return self._claims[index].id

    def make(self, index: int) -> SevaTask:
        """Make a task."""
        item = self._claims[index]
        source = truncate_source(item.source, self._config.max_source_chars)
        gold = SevaGold(item.label, item.error_type)
        return SevaTask(item.id, neutralise(item.claim), source, gold, item, (self, index))

    def fingerprint(self) -> str:
        """Return a short text that differs whenever the content differs."""
        content = f"{self._claims.fingerprint()}:{self._config.max_source_chars}"
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def __reduce__(self) -> tuple[Any, ...]:
        return seva_tasks, (self._config,)


def truncate_source(text: str, max_chars: int) -> str:
    """Return the source as it is shown: neutralised, and with a mark where it was cut."""
    cut = len(text) - max_chars
    return f"{neutralise(text[:max_chars])}… [cut: {cut} more characters]" if cut > 0 else neutralise(text)


def seva_tasks(config: SevaConfig) -> SevaTaskSet:
    """Return the shared task set of a configuration."""
    path = None if config.source == "synthetic" else config.require_path(_CONTENT).resolve()
    key = ("seva", config.source, config.chosen_split, config.size, path, config.seed, config.max_source_chars)
    return shared(key, lambda: SevaTaskSet(load_claims(config), config))


def load_claims(config: SevaConfig) -> Claims:
    """Return the claims of a configuration. Raises ConfigError for a missing path, DataError for unusable files."""
    if config.source == "synthetic":
        return SyntheticAttribution(config.chosen_split, seed=config.seed, size=config.size)
    claims = read_benchmark(config.source, config.require_path(_CONTENT))
    if config.size is None or config.size >= len(claims):
        return claims
    return stratified(claims, config.size, config.seed)
