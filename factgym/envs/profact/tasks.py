"""Configuration and task sets: a task is a claim with its metadata and the search over its evidence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field

from factgym.core.config import AtLeastOne, DataConfig, FilePath
from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.tasks import shared
from factgym.corpora.index import check_index
from factgym.corpora.web_pages import MAX_PASSAGE_CHARS
from factgym.datasets.averitec import LABELS, FactCheck, FactChecks, evidence_strings, read_fact_checks, training_split
from factgym.datasets.evidence import KnowledgeStore, open_store
from factgym.datasets.evidence_search import EvidenceHit, EvidenceSearch
from factgym.envs.profact.prior import label_priors
from factgym.envs.task_sets import ItemTask, ItemTaskSet, setting_key, text_hash
from factgym.generators.fact_checks import SPLITS, GeneratedFactChecks, generated_store
from factgym.generators.miniature import MiniatureFactChecks, MiniatureReports
from factgym.rewards.profact.stages import COMPONENTS, GATES, RUBRICS, ProFactGold
from factgym.rewards.rubric import Rubric

Source = Literal["synthetic", "averitec"]

REWARD = "guarded"
"""The default reward; the card gives the reason why it is not the paper's own."""

ENCODER = "qwen3"
"""The paper's encoder, Qwen3-Embedding-0.6B with its instruction for queries, where index_options names none."""

MAX_QUESTIONS = 10
"""Number of questions that the official scorer reads."""


class ProFactConfig(DataConfig):
    """Settings of `profact*`.

    source: "synthetic" (generated claims) or "averitec" (files in AVeriTeC's layout), by default what `path` implies.
    split: "dev" by default; of files any name with a file. size: number of claims, from the first. path: a file or
    folder of claims. store: the folder of AVeriTeC's knowledge store; without it the gold evidence of the whole split is
    the haystack, and every report says so. world: of generated claims, the "reports" of agencies on up to three
    statements, or for small models the "miniature", one short statement and six sentences. scope: search a claim's own evidence ("claim") or all of the store
    ("global"). index: "bm25", "bm25s", "dense" or "hybrid"; index_options: its arguments (for "dense"
    encoder=…, by default "qwen3", which the paper has; preset="e5", "qwen3" or "plain"). k: pieces of evidence per search. cache_dir: folder of cached indexes.
    max_passage_chars: of one piece of evidence. exclude_later: omit evidence dated after the claim. max_questions: how
    many of the posed questions are accepted. reward: "guarded", "process" (the paper's), "noprocess" or a `Rubric` over
    the same components.
    """

    source: Source | None = None
    world: Literal["reports", "miniature"] = "reports"
    store: FilePath | None = None
    scope: Literal["claim", "global"] = "claim"
    index: str = "bm25"
    index_options: dict[str, Any] | None = None
    k: AtLeastOne = 3
    cache_dir: FilePath | None = None
    max_passage_chars: int = MAX_PASSAGE_CHARS
    exclude_later: bool = False
    max_questions: Annotated[int, Field(ge=1, le=MAX_QUESTIONS)] = 5
    reward: str | Rubric = REWARD

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if self.chosen_source == "synthetic" and self.path is not None:
            raise ConfigError("generated claims have no path: leave source out, or set source='averitec'")
        if self.chosen_source == "synthetic" and self.store is not None:
            raise ConfigError("store is the evidence of claims in files: give their path too")
        if self.chosen_source == "averitec" and self.world != "reports":
            raise ConfigError("world is of generated claims: leave path and source out")
        check_index(self.index, **(self.index_options or {}))
        self.rubric.check(COMPONENTS, GATES)

    def check_split(self) -> None:
        """Raise ConfigError for a split that generated claims do not have; files may have any."""
        if self.chosen_source == "synthetic" and self.split is not None and self.split not in SPLITS:
            raise ConfigError(
                f"generated claims have no split {self.split!r:.80}.{did_you_mean(self.split, SPLITS)} "
                f"They have: {', '.join(SPLITS)}."
            )

    @property
    def chosen_source(self) -> Source:
        """The source, with the default filled in."""
        return self.source or ("synthetic" if self.path is None else "averitec")

    @property
    def splits(self) -> tuple[str, ...]:
        """The usual splits; the first is the default."""
        return tuple(SPLITS) if self.chosen_source == "synthetic" else ("dev", "train")

    @property
    def rubric(self) -> Rubric:
        if isinstance(self.reward, Rubric):
            return self.reward
        if self.reward not in RUBRICS:
            raise ConfigError(
                f"there is no ProFact reward {self.reward!r:.80}.{did_you_mean(self.reward, RUBRICS)} "
                f"Use {', '.join(RUBRICS)} or a Rubric."
            )
        return RUBRICS[self.reward]


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

    def __init__(
        self,
        checks: FactChecks | GeneratedFactChecks | MiniatureFactChecks,
        store: KnowledgeStore,
        config: ProFactConfig,
    ) -> None:
        super().__init__(checks, config)
        options = dict(config.index_options or {})
        if config.index in ("dense", "hybrid") and not {"encoder", "preset"} & set(options):
            options["encoder"] = ENCODER
        settings = {"scope": config.scope, "index": config.index, "cache_dir": config.cache_dir}
        key = ("profact search", store, setting_key(settings), setting_key(options))
        self.search = shared(key, lambda: EvidenceSearch(store, **settings, **options))  # type: ignore[arg-type]
        usable = [index for index, check in enumerate(checks) if check.claim.strip() and check.questions]
        self.skipped = len(checks) - len(usable)
        self._usable = usable[: config.size]
        if config.scope == "claim":
            store.check_claims(checks[index] for index in self._usable)

    @classmethod
    def of(cls, config: ProFactConfig) -> ProFactTaskSet:
        path = None if config.chosen_source == "synthetic" else config.require_path("AVeriTeC's files").resolve()

        def build() -> ProFactTaskSet:
            if config.world == "miniature":
                small = MiniatureFactChecks(config.chosen_split, seed=config.seed, size=config.size)
                return cls(small, MiniatureReports(small), config)
            if path is None:
                made = GeneratedFactChecks(config.chosen_split, seed=config.seed, size=config.size)
                return cls(made, generated_store(made), config)
            checks = read_fact_checks(str(path), config.chosen_split)
            tasks = cls(checks, open_store(checks, config.store, max_chars=config.max_passage_chars), config)
            if not len(tasks):
                raise DataError(f"{checks.path}: no claim with a text and a gold question, so nothing can be scored")
            return tasks

        key = (
            *("profact", config.chosen_source, config.world, config.chosen_split, config.size),
            *(path, config.store, config.scope),
            *(config.index, setting_key(config.index_options or {}), config.k, config.cache_dir),
            *(config.max_passage_chars, config.exclude_later, config.seed),
        )
        return shared(key, build)

    @cached_property
    def prior(self) -> Mapping[str, float]:
        """Label -> its frequency in the training split, whatever `size`; equal ones for generated claims.

        Without a training split beside the file the file's own labels count. Each label is counted once more, so that
        a single claim has a prior too.
        """
        counts = Counter(dict.fromkeys(LABELS, 1))
        counts.update(check.label for check in self._training)
        return {label: count / counts.total() for label, count in counts.items()}

    @cached_property
    def claim_priors(self) -> Mapping[str, Mapping[str, float]]:
        """Claim's id -> label -> its probability by the claim alone (`factgym.envs.profact.prior`).

        By a classifier of the training split, or of the file's other claims without one; of generated claims, whose labels
        are balanced in every wording, there is none.
        """
        if not isinstance(self.items, FactChecks):
            return {}
        training = self._training
        checks = training if training_split(self.items) in (None, self.items) else list(self.items)
        return dict(zip((check.id for check in checks), label_priors(checks, training), strict=True))

    @property
    def priors(self) -> Collection[Mapping[str, float]]:
        """The labels' probabilities before any evidence: of each claim, or of all alike."""
        return self.claim_priors.values() or (self.prior,)

    @cached_property
    def chance(self) -> float:
        """Mean sum of squared probabilities of the labels: how often labels drawn by the claims alone are right."""
        return fmean(sum(share * share for share in prior.values()) for prior in self.priors)

    @cached_property
    def _training(self) -> list[FactCheck]:
        """The claims whose labels are counted: those of the training split that can be played, none for generated ones."""
        checks = (training_split(self.items) or self.items) if isinstance(self.items, FactChecks) else ()
        return [check for check in checks if check.claim.strip() and check.questions]

    @property
    def has_own_prior(self) -> bool:
        """Whether the labels' frequencies are those of the played claims, for want of a training split."""
        return isinstance(self.items, FactChecks) and training_split(self.items) is None

    @property
    def store(self) -> KnowledgeStore:
        return self.search.store

    def __len__(self) -> int:
        return len(self._usable)

    def id_at(self, index: int) -> str:
        return str(self.items[self._usable[index]].id)

    def make(self, index: int) -> ProFactTask:
        check = self.items[self._usable[index]]
        questions = tuple(question.question for question in check.questions)
        prior = self.claim_priors.get(check.id, self.prior)
        gold = ProFactGold(questions, evidence_strings(check), check.label, check.claim, prior, self.chance)
        return ProFactTask(check.id, check, gold, origin=(self, index))

    def fingerprint(self) -> str:
        config = self.config
        settings = [len(self), config.k, config.exclude_later, self.search.fingerprint(), self.items.fingerprint()]
        if isinstance(self.items, FactChecks):
            settings.append((training_split(self.items) or self.items).fingerprint())
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
