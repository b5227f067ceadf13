"""Configuration and task sets: examples of a generator, a folder of documents or a public benchmark, with their libraries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from factgym.core.config import DataConfig
from factgym.core.errors import ConfigError
from factgym.core.tasks import shared
from factgym.core.untrusted import neutralise
from factgym.corpora.corpus import Passage
from factgym.corpora.index import check_index
from factgym.datasets.base import load_data_sets
from factgym.datasets.claims import ClaimExample
from factgym.envs.task_sets import ItemTask, ItemTaskSet, setting_key, text_hash
from factgym.rewards.claimcheck.evidence import DEFAULT_RULES, QuoteRules
from factgym.rewards.claimcheck.gold import ClaimGold, gold_of
from factgym.rewards.claimcheck.scoring import COMPONENTS, GATES, GUESS, RUBRICS, chance_stakes
from factgym.rewards.rubric import Rubric
from factgym.tools.evidence import PassageLibrary

if TYPE_CHECKING:
    from factgym.corpora.documents import Document

HaystackIds = Mapping[tuple[str, str], str]
"""Title and text of a passage -> its id in the haystack."""

Source = Literal["mixed", "hard", "ood", "multihop", "mini", "docs", "contracts", "wice", "fm2", "scifact"]

_STREAM_OFFSET = 1_000_000_007

SYNTHETIC: Mapping[str, Mapping[str, tuple[str, int, int]]] = {
    "mixed": {
        **{"validation": ("validation", 1000, 0), "train": ("train", 5000, 0), "ood": ("ood", 1000, 0)},
        **{"hard": ("hard", 500, 0), "multihop": ("multihop", 500, 0)},
    },
    "hard": {"test": ("hard", 500, 0), "train": ("hard", 5000, 1), "validation": ("hard", 500, 2)},
    "ood": {"test": ("ood", 1000, 0)},
    "multihop": {"test": ("multihop", 500, 0), "train": ("multihop", 5000, 1), "validation": ("multihop", 500, 2)},
    "mini": {"test": ("test", 500, 0), "train": ("train", 20_000, 0), "validation": ("validation", 500, 0)},
}
"""Source -> split -> the generator's kind, the number of examples, and the stream of seeds. The first is the default.

Streams of one kind share no example.
"""
ANNOTATED: tuple[Source, ...] = ("wice", "fm2", "scifact")
"""Sources that `factgym.datasets.grounding` reads."""
REAL: Mapping[str, tuple[str, ...]] = {
    "docs": ("test", "train", "all"),
    "contracts": ("dev",),
    **{name: tuple(load_data_sets("claims")[name].splits) for name in ANNOTATED},
}
"""Source -> splits of a source that is read. Claims over the documents of `docs` share no sentence between test and train."""


class ClaimCheckConfig(DataConfig):
    """Settings of `claimcheck*`.

    source: origin of the examples. split: part of the data, by default the first of Splits. size: number of examples,
    all by default. path: the folder (`docs`) or file (`contracts`) of a source that is not generated. reward: "judged",
    "r0", "gated", "v2" or a `Rubric` over the same components. index: "bm25", "dense", "hybrid", or an object
    with `search(queries, k)`. index_options: arguments of the index. haystack: search the passages of the whole split
    rather than the episode's own. offline: all evidence is in the prompt and there is one submission. rules: the
    definition of a quote. balance: of ContractNLI, as many tasks of each hypothesis under its most frequent label as under
    the second, so that hypotheses do not tell their labels; False for all tasks. prompt: "brief" for instructions and
    tool schemas of at most half the length, "mini" for 250 tokens with a line for each tool; the rules are the same.
    level: of the source "mini": 1 without contradictions, 2 with values of sets of four, 3 with any values.
    """

    source: Source = "mixed"
    reward: str | Rubric = "judged"
    index: Any = "bm25"
    index_options: dict[str, Any] | None = None
    haystack: bool = False
    offline: bool = False
    rules: QuoteRules = DEFAULT_RULES
    balance: bool = True
    prompt: Literal["full", "brief", "mini"] = "full"  # type: ignore[assignment]
    level: Literal[1, 2, 3] = 3

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if self.path is not None and self.source in SYNTHETIC:
            raise ConfigError("generated claims have no path: use claimcheck-docs or another environment over files")
        if self.level != 3 and self.source != "mini":
            raise ConfigError(f"level={self.level} is of source='mini': take claimcheck-mini, or leave it out")
        if self.offline and self.haystack:
            raise ConfigError("offline=True shows all evidence, so it cannot be combined with haystack=True")
        check_index(self.index, **(self.index_options or {}))
        self.rubric.check(COMPONENTS, GATES)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(SYNTHETIC[self.source]) if self.source in SYNTHETIC else REAL[self.source]

    @property
    def scoring_rules(self) -> QuoteRules:
        """`rules`, with one passage as evidence of silence unless the instructions ask for more (see `env`)."""
        is_weak = self.source in ("contracts", "wice", "scifact")
        return self.rules if is_weak else _one_silent_passage(self.rules)

    @property
    def rubric(self) -> Rubric:
        if isinstance(self.reward, Rubric):
            return self.reward
        if self.reward not in RUBRICS:
            raise ConfigError(f"there is no reward {self.reward!r:.80}: use {', '.join(RUBRICS)} or a Rubric")
        return RUBRICS[self.reward]


@lru_cache(maxsize=16)
def _one_silent_passage(rules: QuoteRules) -> QuoteRules:
    return replace(rules, silence_passages=1, silence_share=1.0)


@dataclass(frozen=True, slots=True)
class ClaimTask(ItemTask):
    """One answer to check, its gold, and the library that the episode searches.

    gold_evidence: ids of the gold passages, or else of the nearest. corruption: the operators that made the answer.
    """

    id: str
    example: ClaimExample
    gold: ClaimGold
    library: PassageLibrary = field(compare=False)
    gold_evidence: tuple[str, ...] = field(init=False, compare=False)
    corruption: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        example = self.example
        corruption = "+".join(dict.fromkeys(claim.corruption for claim in example.claims))
        object.__setattr__(self, "gold_evidence", example.gold_ids or example.nearest)
        object.__setattr__(self, "corruption", corruption)

    def text_of(self, passage_id: str) -> str | None:
        """Return a passage's text as the policy sees it, None for an unknown id."""
        passage = self.library.find(passage_id)
        return passage.text if passage is not None else None


class TaskLibrary(PassageLibrary):
    """The library of a task or of the haystack. origin: the task set and the task's index, None for the haystack."""

    origin: tuple[ClaimTaskSet, int | None]

    def __reduce__(self) -> tuple[Any, ...]:
        return ClaimTaskSet.library_at, self.origin


class ClaimTaskSet(ItemTaskSet[ClaimTask, ClaimCheckConfig]):
    """The examples of one configuration."""

    def __init__(self, examples: Any, config: ClaimCheckConfig) -> None:
        super().__init__(examples, config)
        self._haystack: tuple[PassageLibrary, HaystackIds] | None = None
        # Of all examples, so that the stakes do not depend on how many are played.
        is_annotated = config.source in ANNOTATED
        counts = Counter(example.verdict for example in examples) if is_annotated else {}
        self.stakes = chance_stakes(counts, config.scoring_rules) if is_annotated else GUESS
        """What a right and a wrong label are worth."""
        self.rules = config.scoring_rules
        """`ClaimCheckConfig.scoring_rules`; task sets are shared by configurations of the same rules."""

    @classmethod
    def of(cls, config: ClaimCheckConfig) -> ClaimTaskSet:
        path = config.data_path if config.source in REAL and config.data_path else None
        key = (
            *("claimcheck", config.source, config.chosen_split, config.size, path and path.resolve(), config.seed),
            *(config.haystack, config.balance, setting_key(config.index), setting_key(config.index_options or {})),
            *(config.rules, config.level),
        )
        return shared(key, lambda: cls(load_examples(config), config))

    def make(self, index: int) -> ClaimTask:
        example = _neutralise_example(self.items[index])
        if self.config.haystack:
            library, ids = self.haystack
            example = _localise(example, ids)
        else:
            library = self._library(index, example.passages)
        return ClaimTask(example.id, example, gold_of(example), library, origin=(self, index))

    def _library(self, index: int | None, passages: Sequence[Passage]) -> PassageLibrary:
        library = TaskLibrary(passages, self.config.index, **(self.config.index_options or {}))
        library.origin = self, index
        return library

    def library_at(self, index: int | None) -> PassageLibrary:
        """Return the library of a task, of the haystack for None."""
        return self.haystack[0] if index is None else self[index].library

    @property
    def haystack(self) -> tuple[PassageLibrary, HaystackIds]:
        """The passages of all tasks in one library, and their ids in it; built on first use.

        Passages count as one by title and text. Ids number them in the order of the split, so that they do not depend
        on the examples that are played.
        """
        with self._lock:
            if self._haystack is None:
                ids: dict[tuple[str, str], str] = {}
                for index in range(len(self)):
                    for passage in _neutralise_example(self.items[index]).passages:
                        ids.setdefault((passage.title, passage.text), f"P{len(ids) + 1:05d}")
                passages = [Passage(id_, title, text) for (title, text), id_ in ids.items()]
                self._haystack = self._library(None, passages), ids
            return self._haystack

    def __len__(self) -> int:
        return min(len(self.items), self.config.size or len(self.items))

    def fingerprint(self) -> str:
        size = f":{len(self)}" if self.config.source in ("contracts", *ANNOTATED) and self.config.size else ""
        return text_hash(f"{self.items.fingerprint()}{size}:{'haystack' if self.config.haystack else 'own'}")


def _localise(example: ClaimExample, ids: HaystackIds) -> ClaimExample:
    """Return the example with the ids of the haystack."""
    new_ids = {passage.id: ids[passage.title, passage.text] for passage in example.passages}
    claims = tuple(
        replace(claim, facts=tuple(replace(fact, passage=new_ids[fact.passage]) for fact in claim.facts))
        for claim in example.claims
    )
    passages = tuple(replace(passage, id=new_ids[passage.id]) for passage in example.passages)
    nearest = tuple(new_ids[id_] for id_ in example.nearest)
    alternatives = tuple(
        tuple(replace(fact, passage=new_ids[fact.passage]) for fact in facts) for facts in example.alternatives
    )
    return replace(example, passages=passages, claims=claims, nearest=nearest, alternatives=alternatives)


def _neutralise_example(example: ClaimExample) -> ClaimExample:
    """Return the example as a policy sees it: passages, question and answer neutralised, offsets unchanged."""
    answer = neutralise(example.answer)
    claims = list(example.claims)
    for index, claim in enumerate(claims if answer != example.answer else ()):
        # Cut from the whole answer: a part that ends inside a marker would not be neutralised by itself.
        start = example.answer.index(claim.text)
        text = answer[start : start + len(claim.text)]
        span = claim.text.index(claim.unsupported_span)
        unsupported = text[span : span + len(claim.unsupported_span)]
        claims[index] = replace(claim, text=text, unsupported_span=unsupported)
    return replace(
        example,
        question=neutralise(example.question),
        answer=answer,
        passages=tuple(replace(passage, text=neutralise(passage.text)) for passage in example.passages),
        claims=tuple(claims),
    )


_DOCUMENT_FOLDERS = (
    "policies_basecamp",
    "policies_18f",
    "policies_github_site",
    "policies_automattic",
    "cuad/contracts",
)
_CONTRACTS = "contract_nli/dev.json"


def load_examples(config: ClaimCheckConfig) -> Any:
    """Return an indexable source of the examples of a configuration, which may have more than `size`. Raises ConfigError for a missing path, DataError for unusable files."""
    if config.source in SYNTHETIC:
        from factgym.generators.miniature import MiniatureClaims
        from factgym.generators.synthetic import SyntheticClaims

        kind, size, stream = SYNTHETIC[config.source][config.chosen_split]
        if config.source == "mini":
            return MiniatureClaims(kind, seed=config.seed, size=config.size or size, level=config.level)
        return SyntheticClaims(kind, seed=config.seed + stream * _STREAM_OFFSET, size=config.size or size)
    if config.source == "docs":
        from factgym.generators.document_claims import DocumentClaims

        return DocumentClaims(
            read_documents(config),
            split=config.chosen_split,
            seed=config.seed,
            size=config.size,
            haystack=config.haystack,
        )
    if config.source in ANNOTATED:
        from factgym.datasets.grounding import read_claims

        path = config.require_path(f"the folder or file of {config.source}")
        return read_claims(config.source, path, config.chosen_split, config.seed, balanced=config.balance)
    from factgym.datasets.contractnli import ContractNliClaims

    path = config.require_path("ContractNLI's dev.json")
    path = path / _CONTRACTS if (path / _CONTRACTS).is_file() else path
    return ContractNliClaims(
        path, split=config.chosen_split, seed=config.seed, named=config.haystack, balanced=config.balance
    )


def read_documents(config: ClaimCheckConfig) -> list[Document]:
    """Read the folder that is given, or the folders of policies among the public data sets."""
    from factgym.corpora.documents import iter_folder

    base = config.require_path("a folder of documents")
    if config.path:
        return list(iter_folder(config.path))
    folders = [base / name for name in _DOCUMENT_FOLDERS if (base / name).is_dir()]
    if not folders:
        raise ConfigError(f"{base} holds none of {', '.join(_DOCUMENT_FOLDERS)}: give a folder of documents as path")
    documents = [(folder.name, document) for folder in folders for document in iter_folder(folder, glob="*")]
    # Each folder has a SOURCE.md with the folder's name as title: it describes the data and is no policy.
    return [document for name, document in documents if document.title != name]
