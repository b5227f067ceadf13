"""Task sets: one task is one claim and its source, as a policy sees them."""

from __future__ import annotations

import hashlib
import operator
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError
from factgym.core.tasks import LazyTaskSet, SharedByArguments, shared
from factgym.datasets.attribution import AttributionClaim, Claims, read_benchmark, stratified
from factgym.envs.seva.config import SevaConfig
from factgym.generators.attribution import SyntheticAttribution
from factgym.rewards.seva import SevaGold
from factgym.tools.untrusted import neutralise

DATA_VARIABLE = "FACTGYM_DATA"
"""Environment variable: a folder of public data sets, used where no `path` is given."""


@dataclass(frozen=True, slots=True)
class SevaTask(SharedByArguments):
    """One claim to check. Immutable and shared.

    claim, source: as the policy sees them, harmless and within bounds. item: as it was read or generated. place: the
    set that made it and its position there, which is what a pickle holds.
    """

    id: str
    claim: str
    source: str
    gold: SevaGold
    item: AttributionClaim = field(repr=False)
    place: tuple[SevaTaskSet, int] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, self.place


class SevaTaskSet(LazyTaskSet[SevaTask]):
    """The tasks of one configuration. Thread-safe; a task is made when it is first asked for."""

    def __init__(self, claims: Claims, config: SevaConfig) -> None:
        super().__init__()
        self._claims = claims
        self._config = config

    def __len__(self) -> int:
        return len(self._claims)

    def id_at(self, index: int) -> str:
        """The id of a task."""
        return self._claims[index].id

    def make(self, index: int) -> SevaTask:
        """A task made anew."""
        item = self._claims[index]
        source = shown_source(item.source, self._config.max_source_chars)
        gold = SevaGold(item.label, item.error_type)
        return SevaTask(item.id, neutralise(item.claim), source, gold, item, (self, index))

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        content = f"{self._claims.fingerprint()}:{self._config.max_source_chars}"
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def __reduce__(self) -> tuple[Any, ...]:
        return seva_tasks, (self._config,)


def shown_source(text: str, most: int) -> str:
    """The source as it is shown: nothing in it can pass for a marker of the conversation, and a cut is marked."""
    cut = len(text) - most
    return f"{neutralise(text[:most])}… [cut: {cut} more characters]" if cut > 0 else neutralise(text)


def seva_tasks(config: SevaConfig) -> SevaTaskSet:
    """The shared task set of a configuration."""
    path = None if config.source == "synthetic" else _path(config).resolve()
    key = ("seva", config.source, config.chosen_split, config.size, path, config.seed, config.max_source_chars)
    return shared(key, lambda: SevaTaskSet(load_claims(config), config))


def load_claims(config: SevaConfig) -> Claims:
    """The claims of a configuration. Raises ConfigError for a missing path, DataError for unusable files."""
    if config.source == "synthetic":
        return SyntheticAttribution(config.chosen_split, seed=config.seed, size=config.size)
    claims = read_benchmark(config.source, _path(config))
    return (
        claims if config.size is None or config.size >= len(claims) else stratified(claims, config.size, config.seed)
    )


def _path(config: SevaConfig) -> Path:
    named = config.path or os.environ.get(DATA_VARIABLE)
    if not named:
        raise ConfigError(
            f"seva-{config.source} needs a file or folder of claims with sources and labels: give its path (path=… in "
            f"Python, --path at the command line), or set {DATA_VARIABLE} to a folder of public data sets"
        )
    return Path(named)
