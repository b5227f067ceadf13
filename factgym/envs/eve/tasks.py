"""Task sets of both EVE environments, and the corpus with its index that they share.

A solver's task is a question with its answers and, where there is some, its gold evidence; a proposer's task is a source
document, a number of hops and, where requested, a kind of question.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from factgym.core.config import DATA_VARIABLE
from factgym.core.errors import ConfigError
from factgym.core.tasks import shared
from factgym.corpora.build import check_corpus, read_passages
from factgym.corpora.corpus import Corpus, Passage, UnknownPassageError
from factgym.corpora.index import Hit
from factgym.corpora.retrieved import RetrievedCorpus
from factgym.datasets.multihop import TRIPLES, Triple, read_triples, triple_file
from factgym.envs.eve.config import EveProposerConfig, EveSolverConfig
from factgym.envs.task_sets import ItemTask, ItemTaskSet, setting_key, text_hash
from factgym.generators.miniature import MiniatureQuestions, miniature_questions
from factgym.generators.multihop_world import SPLITS, GeneratedTriples, world
from factgym.tools.evidence import PassageLibrary

_CACHED_QUERIES = 16_384


@dataclass(frozen=True, slots=True)
class SolverTask(ItemTask):
    """A question."""

    id: str
    triple: Triple


class SolverTaskSet(ItemTaskSet[SolverTask, EveSolverConfig]):
    """The questions of one configuration and the corpus that is searched for them."""

    @classmethod
    def of(cls, config: EveSolverConfig) -> SolverTaskSet:
        """Return the task set of a configuration, shared unless triples are given.

        Raises ConfigError or DataError for bad files, and where there is no corpus to search.
        """
        triples = None if config.triples is None else load_triples(config)
        if config.search and not isinstance(config.corpus, str | Path):
            solver_corpus(config)  # raises here rather than in every episode
        elif config.search:
            check_corpus(config.corpus)
        if triples is not None:
            return cls(triples, config)
        corpus: Any = config.corpus
        if isinstance(corpus, Corpus):
            corpus = f"corpus {corpus.fingerprint()}"
        elif isinstance(corpus, (str, Path)):
            corpus = str(Path(corpus).resolve())
        path = None if config.source == "synthetic" else _questions_path(config)
        key = (
            *("eve solver", config.source, config.world, config.chosen_split, config.size),
            *(path, config.seed, config.search),
            *map(setting_key, (corpus, config.index, config.index_options or {})),
        )
        return shared(key, lambda: cls(load_triples(config), config))

    def make(self, index: int) -> SolverTask:
        triple = self.items[index]
        if self.config.search and self.config.corpus is not None:  # spans in a file refer to its own documents
            here = Corpus(()) if isinstance(self.corpus, RetrievedCorpus) else self.corpus
            triple = triple.located_in(here)
        return SolverTask(triple.id, triple, origin=(self, index))

    @cached_property
    def corpus(self) -> Corpus:
        return solver_corpus(self.config)

    @cached_property
    def library(self) -> PassageLibrary:
        return open_library(self.corpus, self.config.index, self.config.index_options)

    @cached_property
    def without_evidence(self) -> int:
        return sum(not triple.evidence for triple in self.items)

    @cached_property
    def _fingerprint(self) -> str:
        rows = [repr((triple.id, triple.question, triple.answers, triple.evidence)) for triple in self.items]
        return text_hash("".join([*rows, self.corpus.fingerprint() if self.config.search else ""]))

    def fingerprint(self) -> str:
        return self._fingerprint


@dataclass(frozen=True, slots=True)
class ProposerTask(ItemTask):
    """A source document to ask about, with a number of hops and a kind of question."""

    id: str
    document: Passage
    hops: int
    task_type: str | None


class ProposerTaskSet(ItemTaskSet[ProposerTask, EveProposerConfig]):
    """The documents of one configuration, with the corpus that they are part of; its items are their ids.

    Task *i* depends on the corpus, the named documents, `seed` and *i* alone.
    """

    def __init__(self, corpus: Corpus, config: EveProposerConfig) -> None:
        super().__init__(document_ids(corpus, config), config)
        self.corpus = corpus
        self._weights = config.scoring_rules.hop_weights

    @classmethod
    def of(cls, config: EveProposerConfig) -> ProposerTaskSet:
        """Return the shared task set of a configuration. Raises ConfigError for documents not in the corpus."""
        if config.corpus is None and config.source == "synthetic":
            # A world has so many documents for each of its questions at least, and is never smaller than its default.
            sizes, documents = (MiniatureQuestions.SPLITS, 1) if config.world == "miniature" else (SPLITS, 2)
            size = max(sizes[config.chosen_split], -(-(config.size or 0) // documents))
            corpus = generated_questions(config.world, config.seed, size, config.chosen_split).corpus
        else:
            names = {"source": config.source, "path": config.path, "split": config.split, "corpus": config.corpus}
            corpus = solver_corpus(EveSolverConfig(**names, seed=config.seed))
        key = (
            *("eve proposer", corpus.fingerprint(), config.size, config.seed, config.scoring_rules.hop_weights),
            *map(setting_key, (config.documents, config.hops, config.task_types)),
            *map(setting_key, (config.index, config.index_options or {})),
        )
        return shared(key, lambda: cls(corpus, config))

    def id_at(self, index: int) -> str:
        """The id of a task: that of its document with the task's number, as a document may come again."""
        return f"{self.items[index]}#{index:05d}"

    def make(self, index: int) -> ProposerTask:
        config = self.config
        if config.hops:
            hops = int(config.hops if isinstance(config.hops, int) else config.hops[index])
        else:
            rng = random.Random(f"factgym eve hops {config.seed} {index}")
            hops = rng.choices(range(1, len(self._weights) + 1), self._weights)[0]
        document = self.corpus.get(self.items[index])
        task_type = config.task_types[index] if config.task_types else None
        return ProposerTask(self.id_at(index), document, hops, task_type, origin=(self, index))

    @cached_property
    def library(self) -> PassageLibrary:
        return open_library(self.corpus, self.config.index, self.config.index_options)

    def fingerprint(self) -> str:
        config = self.config
        settings = (config.documents, config.hops, config.task_types)
        requested = [list(value) if isinstance(value, tuple) else value for value in settings]
        return text_hash(repr((self.corpus.fingerprint(), config.size, config.seed, self._weights, requested)))


def generated_questions(name: str, seed: int, size: int | None, split: str) -> GeneratedTriples | MiniatureQuestions:
    """Return the questions of a generated world by its name, with their corpus."""
    return miniature_questions(seed, size, split) if name == "miniature" else world(seed, size, split)[1]


def load_triples(config: EveSolverConfig) -> Sequence[Triple]:
    """Return the triples of a configuration; of a file's a slice of `size` drawn by the seed, in their order."""
    if config.triples is not None:
        triples = tuple(config.triples) if isinstance(config.triples, Sequence) else ()
        if not triples or not all(isinstance(triple, Triple) for triple in triples):
            raise ConfigError("triples is a sequence of factgym.datasets.multihop.Triple, at least one")
        if len({triple.id for triple in triples}) < len(triples):
            raise ConfigError("two of the given triples have one id: ids are unique")
        return triples[: config.size]
    if config.source == "synthetic":
        return generated_questions(config.world, config.seed, config.size, config.chosen_split)
    file = read_triples(config.source, _questions_path(config))
    if config.size is None or config.size >= len(file):
        return file
    indices = random.Random(f"factgym eve slice {config.seed}").sample(range(len(file)), config.size)
    return [file[index] for index in sorted(indices)]


def _questions_path(config: EveSolverConfig) -> Path:
    """Return the file of questions. Raises ConfigError or DataError where there is none."""
    path = config.path if config.source == TRIPLES else config.data_path
    if not path:
        folder = "" if config.source == TRIPLES else f", or set {DATA_VARIABLE} to a folder of public data sets"
        raise ConfigError(
            f"source={config.source!r} needs a file or folder of questions: give its path (path=… in Python, --path at "
            f"the command line){folder}"
        )
    return triple_file(config.source, str(path), config.split).resolve()


def solver_corpus(config: EveSolverConfig) -> Corpus:
    """Return the configured corpus, else the documents of the source. Raises ConfigError where there are none."""
    if config.corpus is not None:
        return open_corpus(config.corpus)
    corpus, questions = None, "the given triples"
    if config.triples is None and config.source == "synthetic":
        corpus = generated_questions(config.world, config.seed, config.size, config.chosen_split).corpus
    elif config.triples is None:
        corpus, questions = (
            read_triples(config.source, _questions_path(config)).corpus,
            f"these questions of {config.source!r}",
        )
    if corpus is None:
        raise ConfigError(
            f"{questions} bring no documents: give a file or folder of passages as corpus=…; eve-solver can do without "
            "(search=False)"
        )
    return corpus


def document_ids(corpus: Corpus, config: EveProposerConfig) -> Sequence[str]:
    """Return the ids of the source documents, in the order of the tasks."""
    if config.documents is not None:
        for document in config.documents:
            try:
                corpus.get(document)
            except UnknownPassageError as error:
                raise ConfigError(f"documents: {error}") from None
        return tuple(config.documents)
    if config.size is None or config.size >= len(corpus):
        return corpus.ids
    indices = random.Random(f"factgym eve documents {config.seed}").sample(range(len(corpus)), config.size)
    return [corpus.passages[index].id for index in indices]


def open_corpus(corpus: Any) -> Corpus:
    """Return a corpus: itself, or the passages of a file or folder. Raises ConfigError or DataError for others."""
    if isinstance(corpus, Corpus):
        return corpus
    if not isinstance(corpus, str | Path):
        raise ConfigError(f"corpus is a file or folder of passages, or a Corpus, not {type(corpus).__name__}")
    return read_passages(corpus)


class CachingLibrary(PassageLibrary):
    """A library that caches the hits of the latest queries: rollouts of one question repeat them."""

    def __init__(self, passages: Sequence[Passage], index: Any = "bm25", **options: Any) -> None:
        super().__init__(passages, index, **options)
        self._hits = lru_cache(maxsize=_CACHED_QUERIES)(super().search)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        return self._hits(query, k)


def open_library(corpus: Corpus, index: Any = "bm25", options: dict[str, Any] | None = None) -> PassageLibrary:
    """Return the corpus with its index, built once a process. Arguments: as `factgym.corpora.index.build_index`."""
    key = ("eve library", corpus.fingerprint(), setting_key(index), setting_key(options or {}))
    return shared(key, lambda: CachingLibrary(corpus, index, **(options or {})))  # type: ignore[arg-type]  # a corpus is a sequence here
