"""Task sets: one task is one claim with its metadata and the search over its evidence."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError, DataError
from factgym.core.tasks import LazyTaskSet, SharedByArguments, shared
from factgym.datasets.averitec import FactCheck, FactChecks, evidence_strings, read_fact_checks
from factgym.datasets.evidence_search import EvidenceHit, EvidenceSearch
from factgym.datasets.evidence_store import KnowledgeStore, open_store
from factgym.envs.profact.config import ProFactConfig
from factgym.generators.factchecks import MadeChecks, made_store
from factgym.rewards.profact.stages import ProFactGold

DATA_VARIABLE = "FACTGYM_DATA"
"""Environment variable: a folder of public data sets, used where source is "averitec" and no `path` is given."""


@dataclass(frozen=True, slots=True)
class ProFactTask(SharedByArguments):
    """One claim to check. Immutable and shared. place: the set that made it and its position there."""

    id: str
    check: FactCheck
    gold: ProFactGold
    place: tuple[ProFactTaskSet, int] = field(repr=False, compare=False)

    @property
    def before(self) -> dt.date | None:
        """The day after which evidence is not found, None where there is none."""
        return self.check.claim_date if self.place[0].config.exclude_later else None

    def search(self, query: str) -> list[EvidenceHit]:
        """The evidence for a query, best first."""
        tasks = self.place[0]
        return tasks.search.search(self.check, [query], tasks.config.k, before=self.before)[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, self.place


class ProFactTaskSet(LazyTaskSet[ProFactTask]):
    """The tasks of one configuration: its claims but those of which nothing can be checked or scored.

    skipped: how many claims were left out because they are blank or have no gold question.
    """

    def __init__(self, checks: FactChecks | MadeChecks, store: KnowledgeStore, config: ProFactConfig) -> None:
        super().__init__()
        self.config = config
        self.search = _search(store, config)
        self._checks = checks
        usable = [index for index, check in enumerate(checks) if check.claim.strip() and check.questions]
        self.skipped = len(checks) - len(usable)
        self._usable = usable[: config.size]

    @property
    def store(self) -> KnowledgeStore:
        """The evidence."""
        return self.search.store

    def __len__(self) -> int:
        return len(self._usable)

    def id_at(self, index: int) -> str:
        """The id of a task."""
        return self._checks[self._usable[index]].id

    def make(self, index: int) -> ProFactTask:
        """A task made anew."""
        check = self._checks[self._usable[index]]
        gold = ProFactGold(tuple(one.question for one in check.questions), evidence_strings(check), check.label)
        return ProFactTask(check.id, check, gold, (self, index))

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        config = self.config
        settings = [len(self), config.k, config.exclude_later, self.search.fingerprint(), self._checks.fingerprint()]
        return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """What the claims are checked against, with the store's note, as JSON data."""
        return {
            "claims": len(self),
            "skipped": self.skipped,
            "search": self.search.describe(),
            "k": self.config.k,
            "exclude_later": self.config.exclude_later,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return profact_tasks, (self.config,)


def profact_tasks(config: ProFactConfig) -> ProFactTaskSet:
    """The shared task set of a configuration. Raises ConfigError for a missing path, DataError for unusable files."""
    key = (
        "profact",
        config.chosen_source,
        config.chosen_split,
        config.size,
        _path(config),
        *(config.store, config.scope, config.index, _text(config.index_options or {}), config.k, config.cache_dir),
        *(config.max_passage_chars, config.exclude_later, config.seed),
    )
    return shared(key, lambda: _load(config))


def _search(store: KnowledgeStore, config: ProFactConfig) -> EvidenceSearch:
    """The search of these settings, whose index task sets over the same evidence share."""
    options = config.index_options or {}
    key = ("profact search", store, config.scope, config.index, _text(options), config.cache_dir)
    return shared(
        key,
        lambda: EvidenceSearch(store, scope=config.scope, index=config.index, cache_dir=config.cache_dir, **options),
    )


def _load(config: ProFactConfig) -> ProFactTaskSet:
    if config.chosen_source == "synthetic":
        made = MadeChecks(config.chosen_split, seed=config.seed, size=config.size)
        return ProFactTaskSet(made, made_store(made), config)
    path = _path(config)
    if path is None:
        raise ConfigError(
            "source='averitec' needs AVeriTeC's files: give the path of a file or folder (path=… in Python, --path at "
            f"the command line), or set {DATA_VARIABLE} to a folder of public data sets"
        )
    checks = read_fact_checks(path, config.chosen_split)
    found = ProFactTaskSet(checks, open_store(checks, config.store, max_chars=config.max_passage_chars), config)
    if not len(found):
        raise DataError(f"{checks.path}: no claim with a text and a gold question, so nothing can be scored")
    return found


def _path(config: ProFactConfig) -> str | None:
    if config.chosen_source == "synthetic":
        return None
    named = config.path or os.environ.get(DATA_VARIABLE)
    return str(Path(named).resolve()) if named else None


def _text(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True, default=_identity)


def _identity(value: Any) -> str:
    """An option that is no JSON data counts as itself alone."""
    return f"{type(value).__qualname__} {id(value)}"
