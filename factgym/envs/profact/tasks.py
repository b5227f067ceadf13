"""ProFact's task sets: a task is a claim with its metadata and the search over its evidence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from factgym.core.errors import DataError
from factgym.core.tasks import shared
from factgym.datasets.averitec import FactCheck, FactChecks, evidence_strings, read_fact_checks
from factgym.datasets.evidence import KnowledgeStore, open_store
from factgym.datasets.evidence_search import EvidenceHit, EvidenceSearch
from factgym.envs.profact.config import ProFactConfig
from factgym.envs.task_sets import ItemTask, ItemTaskSet, setting_key, text_hash
from factgym.generators.fact_checks import GeneratedFactChecks, generated_store
from factgym.rewards.profact.stages import ProFactGold


@dataclass(frozen=True, slots=True)
class ProFactTask(ItemTask):
    """A claim to check."""

    id: str
    check: FactCheck
    gold: ProFactGold

    def search(self, query: str) -> list[EvidenceHit]:
        """Return the evidence for a query, best first; without later evidence where the configuration excludes it."""
        tasks: ProFactTaskSet = self.origin[0]
        before = self.check.claim_date if tasks.config.exclude_later else None
        return tasks.search.search(self.check, [query], tasks.config.k, before=before)[0]


class ProFactTaskSet(ItemTaskSet[ProFactTask, ProFactConfig]):
    """The claims of one configuration. skipped: number of claims without a text or a gold question, which are omitted.

    search: task sets over the same evidence share its index.
    """

    def __init__(self, checks: FactChecks | GeneratedFactChecks, store: KnowledgeStore, config: ProFactConfig) -> None:
        super().__init__(checks, config)
        options = config.index_options or {}
        settings = {"scope": config.scope, "index": config.index, "cache_dir": config.cache_dir}
        key = ("profact search", store, setting_key(settings), setting_key(options))
        self.search = shared(key, lambda: EvidenceSearch(store, **settings, **options))  # type: ignore[arg-type]
        usable = [index for index, check in enumerate(checks) if check.claim.strip() and check.questions]
        self.skipped = len(checks) - len(usable)
        self._usable = usable[: config.size]

    @classmethod
    def of(cls, config: ProFactConfig) -> ProFactTaskSet:
        path = None if config.chosen_source == "synthetic" else config.require_path("AVeriTeC's files").resolve()

        def build() -> ProFactTaskSet:
            if path is None:
                made = GeneratedFactChecks(config.chosen_split, seed=config.seed, size=config.size)
                return cls(made, generated_store(made), config)
            checks = read_fact_checks(str(path), config.chosen_split)
            tasks = cls(checks, open_store(checks, config.store, max_chars=config.max_passage_chars), config)
            if not len(tasks):
                raise DataError(f"{checks.path}: no claim with a text and a gold question, so nothing can be scored")
            return tasks

        key = (
            *("profact", config.chosen_source, config.chosen_split, config.size, path, config.store, config.scope),
            *(config.index, setting_key(config.index_options or {}), config.k, config.cache_dir),
            *(config.max_passage_chars, config.exclude_later, config.seed),
        )
        return shared(key, build)

    @property
    def store(self) -> KnowledgeStore:
        """The evidence."""
        return self.search.store

    def __len__(self) -> int:
        return len(self._usable)

    def id_at(self, index: int) -> str:
        return str(self.items[self._usable[index]].id)

    def make(self, index: int) -> ProFactTask:
        check = self.items[self._usable[index]]
        questions = tuple(question.question for question in check.questions)
        gold = ProFactGold(questions, evidence_strings(check), check.label)
        return ProFactTask(check.id, check, gold, origin=(self, index))

    def fingerprint(self) -> str:
        config = self.config
        settings = [len(self), config.k, config.exclude_later, self.search.fingerprint(), self.items.fingerprint()]
        return text_hash(json.dumps(settings))

    def describe(self) -> dict[str, Any]:
        """Return the number of claims and the settings of their search as JSON data."""
        return {
            "claims": len(self),
            "skipped": self.skipped,
            "search": self.search.describe(),
            "k": self.config.k,
            "exclude_later": self.config.exclude_later,
        }
