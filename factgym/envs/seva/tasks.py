"""Task sets: one task is one claim and its source, as a policy sees them."""

from __future__ import annotations

import hashlib
import operator
import os
import re
import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.shared import SharedByArguments, shared
from factgym.corpora.attribution import AttributionClaim, Claims, SyntheticAttribution, read_benchmark, stratified
from factgym.envs.seva.config import SevaConfig
from factgym.rewards.seva import SevaGold
from factgym.tools.untrusted import neutralise

DATA_VARIABLE = "FACTGYM_DATA"
"""Environment variable: a folder of public data sets, used where no `path` is given."""

_KEPT = 8192
"""Tasks that stay in memory once made; beyond that the oldest are made anew."""


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


class SevaTaskSet(SharedByArguments):
    """The tasks of one configuration. Thread-safe; a task is made when it is first asked for."""

    def __init__(self, claims: Claims, config: SevaConfig) -> None:
        self._claims = claims
        self._config = config
        self._made: dict[int, SevaTask] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._claims)

    def __getitem__(self, index: int) -> SevaTask:
        task = self._made.get(index)
        return task if task is not None else self._make(index)

    def _make(self, index: int) -> SevaTask:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no task {index}: the set has {len(self)}")
        item = self._claims[index]
        source = shown_source(item.source, self._config.max_source_chars)
        gold = SevaGold(item.label, item.error_type)
        task = SevaTask(item.id, neutralise(item.claim), source, gold, item, (self, index))
        with self._lock:
            while len(self._made) >= _KEPT:
                del self._made[next(iter(self._made))]
            return self._made.setdefault(index, task)

    def index_of(self, task_id: str) -> int:
        """The position of a task id. Raises ConfigError for an id that is not in the set."""
        number = _final_number(task_id)
        if number is not None and number < len(self) and self._claims[number].id == task_id:
            return number
        first, last = self._claims[0].id, self._claims[len(self) - 1].id
        if isinstance(self._claims, SyntheticAttribution):  # numbered: no need to make them all
            raise ConfigError(f"there is no task {task_id[:80]!r} in this split: ids run from {first!r} to {last!r}")
        try:
            return self._positions[task_id]
        except KeyError:
            hint = did_you_mean(task_id, list(self._positions)[:2000])
            raise ConfigError(f"there is no task {task_id[:80]!r} here.{hint}") from None

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {self._claims[index].id: index for index in range(len(self))}

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


def _final_number(text: str) -> int | None:
    match = re.search(r"[0-9]{1,9}\Z", text[-9:])
    return int(match[0]) if match else None
