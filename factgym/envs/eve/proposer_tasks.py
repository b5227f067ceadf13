"""The proposer's task sets: one task is a source document, a number of hops and, where asked for, a kind of question."""

from __future__ import annotations

import hashlib
import operator
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from factgym.core.errors import ConfigError
from factgym.core.tasks import LazyTaskSet, SharedByArguments, shared
from factgym.corpora.corpus import Corpus, Passage, UnknownPassageError
from factgym.envs.eve.config import EveSolverConfig
from factgym.envs.eve.library import identity, open_library
from factgym.envs.eve.proposer_config import EveProposerConfig
from factgym.envs.eve.solver_tasks import SolverTaskSet
from factgym.generators.multihop.world import SPLITS, world
from factgym.tools.library import PassageLibrary


@dataclass(frozen=True, slots=True)
class ProposerTask(SharedByArguments):
    """A document to ask about. Immutable and shared. place: the set that made it and its position there."""

    id: str
    document: Passage
    hops: int
    task_type: str | None
    place: tuple[ProposerTaskSet, int] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return operator.getitem, self.place


class ProposerTaskSet(LazyTaskSet[ProposerTask]):
    """The documents of one configuration, with the corpus that they are part of. Thread-safe.

    Task *i* depends on the corpus, the documents that are named, `seed` and *i* alone.
    """

    def __init__(self, corpus: Corpus, config: EveProposerConfig) -> None:
        super().__init__()
        self.corpus = corpus
        self._config = config
        self._ids = _chosen(corpus, config)
        self._weights = config.scoring_rules.hop_weights

    def __len__(self) -> int:
        return len(self._ids)

    def id_at(self, index: int) -> str:
        """The id of a task: that of its document with the task's number, as a document may come again."""
        return f"{self._ids[index]}#{index:05d}"

    def make(self, index: int) -> ProposerTask:
        """A task made anew."""
        types = self._config.task_types
        document = self.corpus.get(self._ids[index])
        kind = types[index] if types else None
        return ProposerTask(self.id_at(index), document, self.hops_at(index), kind, (self, index))

    def hops_at(self, index: int) -> int:
        """The hops of a task: as configured, else drawn."""
        given = self._config.hops
        if given is not None:
            return int(given if isinstance(given, int) else given[index])
        rng = random.Random(f"factgym eve hops {self._config.seed} {index}")
        return rng.choices(range(1, len(self._weights) + 1), self._weights)[0]

    @cached_property
    def library(self) -> PassageLibrary:
        """The corpus with its index, built once a process."""
        return open_library(self.corpus, self._config.index, self._config.index_options)

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        config = self._config
        asked = [_plain(one) for one in (config.documents, config.hops, config.task_types)]
        parts = (self.corpus.fingerprint(), config.size, config.seed, self._weights, asked)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def __reduce__(self) -> tuple[object, ...]:
        return proposer_tasks, (self._config,)


def proposer_tasks(config: EveProposerConfig) -> ProposerTaskSet:
    """The shared task set of a configuration. Raises ConfigError for documents that the corpus has not."""
    corpus = _corpus(config)
    key = (
        *("eve proposer", corpus.fingerprint(), config.size, config.seed, config.scoring_rules.hop_weights),
        *(identity(_plain(one)) for one in (config.documents, config.hops, config.task_types)),
        *(identity(config.index), identity(config.index_options or {})),
    )
    return shared(key, lambda: ProposerTaskSet(corpus, config))


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _corpus(config: EveProposerConfig) -> Corpus:
    """The corpus that is given, else the documents of the source."""
    if config.corpus is None and config.source == "synthetic":
        wanted = SPLITS[config.chosen_split]
        return world(config.seed, max(wanted, -(-(config.size or 0) // 2)), config.chosen_split)[0]
    named = {"source": config.source, "path": config.path, "split": config.split, "corpus": config.corpus}
    return SolverTaskSet((), EveSolverConfig(**named, seed=config.seed)).corpus


def _chosen(corpus: Corpus, config: EveProposerConfig) -> Sequence[str]:
    """The ids of the documents, in the order of the tasks."""
    if config.documents is not None:
        for one in config.documents:
            try:
                corpus.get(one)
            except UnknownPassageError as error:
                raise ConfigError(f"documents: {error}") from None
        return tuple(config.documents)
    if config.size is None or config.size >= len(corpus):
        return corpus.ids
    drawn = random.Random(f"factgym eve documents {config.seed}").sample(range(len(corpus)), config.size)
    return [corpus.passages[index].id for index in drawn]
