"""Questions as tasks, with the counter, extractor and library that their episodes share."""

from __future__ import annotations

import hashlib
import json
import operator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from factgym.core.config import DATA_VARIABLE
from factgym.core.errors import ConfigError
from factgym.core.tasks import Immutable, LazyTaskSet, shared
from factgym.corpora.cooccurrence import Counter, memory_index, open_counter
from factgym.corpora.corpus import Passage
from factgym.corpora.documents import read_folder
from factgym.datasets.questions import AUTO, Question, Questions, question_file, read_questions, stratified_questions
from factgym.envs.corver.config import CorverConfig
from factgym.generators.question_world import GeneratedQuestions, World, question_world
from factgym.rewards.corver.extraction import cached_extractor, find_extractor
from factgym.rewards.corver.triplets import Extractor
from factgym.tools.evidence import PassageLibrary
from factgym.tools.untrusted import neutralise

NO_COUNTER = "none"


@dataclass(frozen=True, slots=True)
class CorverTask(Immutable):
    """A question. Immutable and shared.

    question: as shown to the policy, neutralised. item: as read or generated. origin: the task set and the index in it,
    as which it is pickled.
    """

    id: str
    question: str
    item: Question = field(repr=False)
    origin: tuple[CorverTaskSet, int] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, self.origin


class CorverTaskSet(LazyTaskSet[CorverTask]):
    """Tasks of a configuration, with its counter, extractor and library. Thread-safe."""

    def __init__(self, questions: Questions, config: CorverConfig) -> None:
        super().__init__()
        self.questions = questions
        self._config = config

    def __len__(self) -> int:
        return len(self.questions)

    def id_at(self, index: int) -> str:
        """Return the id of a task."""
        return self.questions[index].id

    def make(self, index: int) -> CorverTask:
        """Make a task."""
        item = self.questions[index]
        return CorverTask(item.id, neutralise(item.question), item, (self, index))

    @property
    def world(self) -> World | None:
        """The generated world of the questions, None for files."""
        return question_world(self._config.seed) if self._config.source == "synthetic" else None

    @property
    def has_counter(self) -> bool:
        """Whether there is a counter; does not open it."""
        counter = self._config.counter
        return counter != NO_COUNTER if isinstance(counter, str) else counter is not None or self.world is not None

    @cached_property
    def counter(self) -> Counter | None:
        """The counter, opened or built once a process; None for none."""
        counter, options = self._config.counter, self._config.counter_options or {}
        if not self.has_counter:
            return None
        if counter is None:
            return _world_counter(self._config.seed)
        if not isinstance(counter, str):
            return counter  # type: ignore[no-any-return]  # a user's object; its faults are in the report
        key = ("corver counter", counter, json.dumps(options, sort_keys=True, default=str))
        return shared(key, lambda: open_counter(counter, **options))

    @cached_property
    def extractor(self) -> Extractor:
        """The extractor, with a cache around it."""
        extractor = self._config.extractor
        if not isinstance(extractor, str):
            return find_extractor(extractor)
        return shared(("corver extractor", extractor), lambda: cached_extractor(find_extractor(extractor)))

    @cached_property
    def library(self) -> PassageLibrary:
        """The library of the search tool, indexed once a process."""
        config, world = self._config, self.world
        options = config.index_options or {}
        source = config.seed if world is not None else config.corpus
        key = ("corver library", world is not None, source, _identity(config.index), _identity(options))

        def build() -> PassageLibrary:
            passages = world.corpus if world is not None else _read_corpus(config.corpus)
            return PassageLibrary(passages, config.index, **options)  # type: ignore[arg-type]  # a corpus is a sequence

        return shared(key, build)

    def fingerprint(self) -> str:
        """Return a hash of the content."""
        return hashlib.sha256(self.questions.fingerprint().encode()).hexdigest()[:16]

    def __reduce__(self) -> tuple[Any, ...]:
        return corver_tasks, (self._config,)


def _world_counter(seed: int) -> Counter:
    """Return counts over a generated world's corpus, indexed once a process.

    Within documents ("window"): with the other semantics, articles of thirty words would count their neighbours.
    """

    def build() -> Counter:
        return memory_index((passage.text for passage in question_world(seed).corpus), semantics="window")

    return shared(("corver world counter", seed), build)


def corver_tasks(config: CorverConfig) -> CorverTaskSet:
    """Return the shared task set of a configuration."""
    path = None if config.source == "synthetic" else _question_file(config).resolve()
    key = (
        *("corver", config.source, config.chosen_split, config.size, path, config.seed),
        *(_identity(config.counter), _identity(config.counter_options), _identity(config.extractor)),
        *(config.search, config.corpus, _identity(config.index), _identity(config.index_options)),
    )
    return shared(key, lambda: CorverTaskSet(_load_questions(config), config))


def _load_questions(config: CorverConfig) -> Questions:
    if config.source == "synthetic":
        return GeneratedQuestions(config.chosen_split, seed=config.seed, size=config.size)
    questions = read_questions(_benchmark(config), _question_file(config))
    if config.size is None or config.size >= len(questions):
        return questions
    return stratified_questions(questions, config.size, config.seed)


def _benchmark(config: CorverConfig) -> str:
    return AUTO if config.source == "file" else config.source


def _question_file(config: CorverConfig) -> Path:
    """Return the file of questions. Raises ConfigError for a missing path, DataError for an unusable folder."""
    path = Path(config.path) if config.path else None
    if path is None and config.source != "file":
        path = config.data_path
    if path is None:
        folder = "" if config.source == "file" else f", or set {DATA_VARIABLE} to a folder of public data sets"
        raise ConfigError(
            f"source={config.source!r} needs a file or folder of questions with answers: give its path (path=… in "
            f"Python, --path at the command line){folder}"
        )
    if config.split is not None and path.is_file():
        raise ConfigError(f"{path} is one file, so split={config.split!r} chooses nothing: leave it out")
    return question_file(_benchmark(config), str(path), config.split)


def _read_corpus(corpus: str | None) -> list[Passage]:
    if corpus is None:
        raise ConfigError(
            "corver-qa-search over files needs documents to search: give their folder or file as corpus=… "
            "(.md, .txt or .jsonl)"
        )
    return [passage for document in read_folder(corpus) for passage in document.passages]


def _identity(value: object) -> str:
    """Return JSON data by content, any other object by identity (the task set that holds it keeps it alive)."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return f"object {id(value)}"
