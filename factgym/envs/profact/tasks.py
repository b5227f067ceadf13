"""ProFact's task sets: a task is a claim with its metadata and the search over its evidence."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from factgym.core.errors import DataError
from factgym.core.tasks import Immutable, LazyTaskSet, shared
from factgym.datasets.averitec import FactCheck, FactChecks, evidence_strings, read_fact_checks
from factgym.datasets.evidence import KnowledgeStore, open_store
from factgym.datasets.evidence_search import EvidenceHit, EvidenceSearch
from factgym.envs.profact.config import ProFactConfig
from factgym.generators.fact_checks import GeneratedFactChecks, generated_store
from factgym.rewards.profact.stages import ProFactGold


@dataclass(frozen=True, slots=True)
class ProFactTask(Immutable):
    """A claim to check. Immutable and shared. position: the task set and the index in it, by which it is pickled."""

    id: str
    check: FactCheck
    gold: ProFactGold
    position: tuple[ProFactTaskSet, int] = field(repr=False, compare=False)

    def search(self, query: str) -> list[EvidenceHit]:
        """Return the evidence for a query, best first; without later evidence where the configuration excludes it."""
        tasks = self.position[0]
        before = self.check.claim_date if tasks.config.exclude_later else None
        return tasks.search.search(self.check, [query], tasks.config.k, before=before)[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, self.position


class ProFactTaskSet(LazyTaskSet[ProFactTask]):
    """The claims of one configuration. skipped: number of claims without a text or a gold question, which are omitted."""

    def __init__(self, checks: FactChecks | GeneratedFactChecks, store: KnowledgeStore, config: ProFactConfig) -> None:
        super().__init__()
        self.config = config
        self.search = _open_search(store, config)
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
        """Return the id of a task."""
        return self._checks[self._usable[index]].id

    def make(self, index: int) -> ProFactTask:
        """Make a task."""
        check = self._checks[self._usable[index]]
        gold = ProFactGold(
            tuple(question.question for question in check.questions), evidence_strings(check), check.label
        )
        return ProFactTask(check.id, check, gold, (self, index))

    def fingerprint(self) -> str:
        """Return a hash of the claims, the search and the settings that change a task."""
        config = self.config
        settings = [len(self), config.k, config.exclude_later, self.search.fingerprint(), self._checks.fingerprint()]
        return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """Return the number of claims and the settings of their search as JSON data."""
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
    """Return the shared task set of a configuration.

    Raises ConfigError for a missing path, DataError for unusable files.
    """
    generated = config.chosen_source == "synthetic"
    path = None if generated else config.require_path("AVeriTeC's files").resolve()
    options = config.index_options or {}

    def build() -> ProFactTaskSet:
        if path is None:
            made = GeneratedFactChecks(config.chosen_split, seed=config.seed, size=config.size)
            return ProFactTaskSet(made, generated_store(made), config)
        checks = read_fact_checks(str(path), config.chosen_split)
        tasks = ProFactTaskSet(checks, open_store(checks, config.store, max_chars=config.max_passage_chars), config)
        if not len(tasks):
            raise DataError(f"{checks.path}: no claim with a text and a gold question, so nothing can be scored")
        return tasks

    key = (
        *("profact", config.chosen_source, config.chosen_split, config.size, path),
        *(config.store, config.scope, config.index, _options_key(options), config.k, config.cache_dir),
        *(config.max_passage_chars, config.exclude_later, config.seed),
    )
    return shared(key, build)


def _open_search(store: KnowledgeStore, config: ProFactConfig) -> EvidenceSearch:
    """Return the search of these settings, whose index task sets over the same evidence share."""
    options = config.index_options or {}
    key = ("profact search", store, config.scope, config.index, _options_key(options), config.cache_dir)
    return shared(
        key,
        lambda: EvidenceSearch(store, scope=config.scope, index=config.index, cache_dir=config.cache_dir, **options),
    )


def _options_key(options: Mapping[str, Any]) -> str:
    """Return a key of index options: plain data by its content, an object by its identity."""
    return json.dumps(options, sort_keys=True, default=lambda value: f"{type(value).__qualname__} {id(value)}")
