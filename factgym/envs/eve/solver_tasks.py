"""The solver's task sets: one task is one question with its answers and, where there is some, its gold evidence."""

from __future__ import annotations

import hashlib
import operator
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError
from factgym.core.tasks import LazyTaskSet, SharedByArguments, shared
from factgym.corpora.corpus import Corpus
from factgym.datasets.multihop import TRIPLES, Triple, TripleFile, read_triples, triple_file
from factgym.envs.eve.config import EveSolverConfig
from factgym.envs.eve.library import identity, open_corpus, open_library
from factgym.generators.multihop.world import world
from factgym.tools.library import PassageLibrary

DATA_VARIABLE = "FACTGYM_DATA"
"""Environment variable: a folder of public data sets, used where no `path` is given."""


@dataclass(frozen=True, slots=True)
class SolverTask(SharedByArguments):
    """One question. Immutable and shared. place: the set that made it and its position there."""

    id: str
    triple: Triple
    place: tuple[SolverTaskSet, int] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, self.place


class SolverTaskSet(LazyTaskSet[SolverTask]):
    """The questions of one configuration and what is searched for them. Thread-safe."""

    def __init__(self, triples: Sequence[Triple], config: EveSolverConfig) -> None:
        super().__init__()
        self._triples = triples
        self._config = config

    def __len__(self) -> int:
        return len(self._triples)

    def id_at(self, index: int) -> str:
        """The id of a task."""
        return self._triples[index].id

    def make(self, index: int) -> SolverTask:
        """A task made anew."""
        triple = self._triples[index]
        if self._config.search and self._config.corpus is not None:  # the file's places are those of its own documents
            triple = triple.located_in(self.corpus)
        return SolverTask(triple.id, triple, (self, index))

    @cached_property
    def corpus(self) -> Corpus:
        """The documents that are searched."""
        return _corpus(self._config)

    @cached_property
    def library(self) -> PassageLibrary:
        """The documents with their index, built once a process."""
        return open_library(self.corpus, self._config.index, self._config.index_options)

    @cached_property
    def without_evidence(self) -> int:
        """How many of the questions have no gold evidence."""
        return sum(not one.evidence for one in self._triples)

    @cached_property
    def _fingerprint(self) -> str:
        """Of the questions, what answers them, and what is searched for them."""
        digest = hashlib.sha256()
        for one in self._triples:
            digest.update(repr((one.id, one.question, one.answers, one.evidence)).encode())
        if self._config.search:
            digest.update(self.corpus.fingerprint().encode())
        return digest.hexdigest()[:16]

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        return self._fingerprint

    def __reduce__(self) -> tuple[Any, ...]:
        return solver_tasks, (self._config,)


def solver_tasks(config: EveSolverConfig) -> SolverTaskSet:
    """The task set of a configuration, shared unless triples are given. Raises ConfigError or DataError for bad files."""
    given = None if config.triples is None else _given(config)
    if config.search and not isinstance(config.corpus, str | Path):
        _corpus(config)  # what cannot be searched is said here and not by every episode
    elif config.search and not Path(config.corpus).exists():
        raise ConfigError(f"corpus={str(config.corpus)!r} does not exist: give a file or folder of passages")
    if given is not None:
        return SolverTaskSet(given, config)
    place = None if config.source == "synthetic" else _place(config)
    key = (
        *("eve solver", config.source, config.chosen_split, config.size, place, config.seed, config.search),
        *(identity(_plain(config.corpus)), identity(config.index), identity(config.index_options or {})),
    )
    return shared(key, lambda: SolverTaskSet(load_triples(config), config))


def caveats_of(config: EveSolverConfig, tasks: SolverTaskSet) -> list[str]:
    """What must be said beside results: gold evidence that is missing, and what was searched."""
    found = []
    missing = tasks.without_evidence
    if missing:
        found.append(
            f"{missing} of {len(tasks)} questions have no gold evidence: the evidence term is 0 for them, and reports "
            "give no F1 of their evidence."
        )
    if not config.search:
        given = "the gold evidence shown with the question" if config.evidence else "the question alone"
        found.append(f"No search: one turn with {given}.")
    elif config.corpus is None and config.source != "synthetic":
        found.append(
            f"The {len(tasks.corpus)} passages that come with the questions are all that is searched, which is easier "
            "than an encyclopedia."
        )
    return found


def load_triples(config: EveSolverConfig) -> Sequence[Triple]:
    """The triples of a configuration; of a file's a slice of `size` drawn by the seed, in their order."""
    if config.triples is not None:
        return _given(config)
    if config.source == "synthetic":
        return world(config.seed, config.size, config.chosen_split)[1]
    triples = _file(config)
    if config.size is None or config.size >= len(triples):
        return triples
    drawn = random.Random(f"factgym eve slice {config.seed}").sample(range(len(triples)), config.size)
    return [triples[index] for index in sorted(drawn)]


def _given(config: EveSolverConfig) -> Sequence[Triple]:
    triples = tuple(config.triples) if isinstance(config.triples, Sequence) else ()
    if not triples or not all(isinstance(one, Triple) for one in triples):
        raise ConfigError("triples is a sequence of factgym.datasets.multihop.Triple, at least one")
    if len({one.id for one in triples}) < len(triples):
        raise ConfigError("two of the given triples have one id: ids are unique")
    return triples[: config.size]


def _corpus(config: EveSolverConfig) -> Corpus:
    if config.corpus is not None:
        return open_corpus(config.corpus)
    own = None
    if config.triples is None:
        own = (
            world(config.seed, config.size, config.chosen_split)[0]
            if config.source == "synthetic"
            else _file(config).corpus
        )
    if own is None:
        raise ConfigError(
            f"{'the given triples' if config.triples is not None else f'these questions of {config.source!r}'} bring no "
            "documents: give a file or folder of passages as corpus=…; eve-solver can do without (search=False)"
        )
    return own


def _plain(corpus: Any) -> Any:
    """What stands for a corpus in a key: a path by its resolved name, a corpus by its content."""
    if isinstance(corpus, Corpus):
        return f"corpus {corpus.fingerprint()}"
    return str(Path(corpus).resolve()) if isinstance(corpus, (str, Path)) else corpus


def _file(config: EveSolverConfig) -> TripleFile:
    return read_triples(config.source, _place(config))


def _place(config: EveSolverConfig) -> Path:
    """The file of questions. Raises ConfigError or DataError where there is none."""
    named = config.path or (os.environ.get(DATA_VARIABLE) if config.source != TRIPLES else None)
    if not named:
        folder = "" if config.source == TRIPLES else f", or set {DATA_VARIABLE} to a folder of public data sets"
        raise ConfigError(
            f"source={config.source!r} needs a file or folder of questions: give its path (path=… in Python, --path at "
            f"the command line){folder}"
        )
    if config.split is not None and Path(named).is_file():
        raise ConfigError(f"{named} is one file, so split={config.split!r} chooses nothing: leave it out")
    return triple_file(config.source, named, config.split).resolve()
