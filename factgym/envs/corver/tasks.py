"""Task sets: one task is one question; the set holds what all its episodes share, each made when it is first needed."""

from __future__ import annotations

import hashlib
import json
import operator
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError
from factgym.core.tasks import LazyTaskSet, SharedByArguments, shared
from factgym.corpora.cooccurrence import Counter, memory_index, open_counter
from factgym.corpora.corpus import Passage
from factgym.datasets.questions import AUTO, Question, Questions, question_file, read_questions, stratified_questions
from factgym.envs.corver.config import CorverConfig
from factgym.generators.questions.generated import GeneratedQuestions
from factgym.generators.questions.world import World, question_world
from factgym.rewards.corver import Extractor, cached_extractor, find_extractor
from factgym.tools.library import PassageLibrary
from factgym.tools.untrusted import neutralise

DATA_VARIABLE = "FACTGYM_DATA"
"""Environment variable: a folder of public data sets, used where no `path` is given."""

NO_COUNTER = "none"


@dataclass(frozen=True, slots=True)
class CorverTask(SharedByArguments):
    """One question. Immutable and shared.

    asked: the question as the policy sees it, harmless. item: as it was read or generated. place: the set that made it
    and its position there, which is what a pickle holds.
    """

    id: str
    asked: str
    item: Question = field(repr=False)
    place: tuple[CorverTaskSet, int] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, self.place


class CorverTaskSet(LazyTaskSet[CorverTask]):
    """The tasks of one configuration, with its counter, extractor and library. Thread-safe."""

    def __init__(self, questions: Questions, config: CorverConfig) -> None:
        super().__init__()
        self.questions = questions
        self._config = config

    def __len__(self) -> int:
        return len(self.questions)

    def id_at(self, index: int) -> str:
        """The id of a task."""
        return self.questions[index].id

    def make(self, index: int) -> CorverTask:
        """A task made anew."""
        item = self.questions[index]
        return CorverTask(item.id, neutralise(item.question), item, (self, index))

    @property
    def world(self) -> World | None:
        """The generated world that the questions are about, None for files."""
        return question_world(self._config.seed) if self._config.source == "synthetic" else None

    @property
    def has_counter(self) -> bool:
        """Whether there is a counter; it is not opened for that."""
        chosen = self._config.counter
        return chosen != NO_COUNTER if isinstance(chosen, str) else chosen is not None or self.world is not None

    @cached_property
    def counter(self) -> Counter | None:
        """The counter of this configuration, opened or built once a process; None where there is none."""
        chosen, options = self._config.counter, self._config.counter_options or {}
        if not self.has_counter:
            return None
        if chosen is None:
            return world_counter(self._config.seed)
        if not isinstance(chosen, str):
            return chosen  # type: ignore[no-any-return]  # a user's object; what it does wrong shows in the report
        key = ("corver counter", chosen, json.dumps(options, sort_keys=True, default=str))
        return shared(key, lambda: open_counter(chosen, **options))

    @cached_property
    def extractor(self) -> Extractor:
        """The extractor of this configuration, with a cache around it."""
        chosen = self._config.extractor
        if not isinstance(chosen, str):
            return find_extractor(chosen)
        return shared(("corver extractor", chosen), lambda: cached_extractor(find_extractor(chosen)))

    @cached_property
    def library(self) -> PassageLibrary:
        """What the search tool searches, indexed once a process."""
        config = self._config
        world = self.world
        options = config.index_options or {}
        source = config.seed if world is not None else config.corpus
        key = ("corver library", world is not None, source, _identity(config.index), _identity(options))

        def build() -> PassageLibrary:
            passages = world.corpus if world is not None else _documents(config)
            return PassageLibrary(passages, config.index, **options)  # type: ignore[arg-type]  # a corpus is a sequence here

        return shared(key, build)

    def fingerprint(self) -> str:
        """A short text that differs whenever the content differs."""
        return hashlib.sha256(self.questions.fingerprint().encode()).hexdigest()[:16]

    def __reduce__(self) -> tuple[Any, ...]:
        return corver_tasks, (self._config,)


def world_counter(seed: int = 0) -> Counter:
    """Counts over the corpus of a generated world, made once a process.

    Within documents ("window"): between articles of thirty words, the engine's own semantics would see the neighbours.
    """

    def build() -> Counter:
        return memory_index((one.text for one in question_world(seed).corpus), semantics="window")

    return shared(("corver world counter", seed), build)


def corver_tasks(config: CorverConfig) -> CorverTaskSet:
    """The shared task set of a configuration."""
    path = None if config.source == "synthetic" else _file(config).resolve()
    key = (
        *("corver", config.source, config.chosen_split, config.size, path, config.seed),
        *(_identity(config.counter), _identity(config.counter_options), _identity(config.extractor)),
        *(config.search, config.corpus, _identity(config.index), _identity(config.index_options)),
    )
    return shared(key, lambda: CorverTaskSet(load_questions(config), config))


def load_questions(config: CorverConfig) -> Questions:
    """The questions of a configuration. Raises ConfigError for a missing path, DataError for unusable files."""
    if config.source == "synthetic":
        return GeneratedQuestions(config.chosen_split, seed=config.seed, size=config.size)
    questions = read_questions(_benchmark(config), _file(config))
    if config.size is None or config.size >= len(questions):
        return questions
    return stratified_questions(questions, config.size, config.seed)


def _benchmark(config: CorverConfig) -> str:
    return AUTO if config.source == "file" else config.source


def _file(config: CorverConfig) -> Path:
    named = config.path or (os.environ.get(DATA_VARIABLE) if config.source != "file" else None)
    if not named:
        folder = "" if config.source == "file" else f", or set {DATA_VARIABLE} to a folder of public data sets"
        raise ConfigError(
            f"source={config.source!r} needs a file or folder of questions with answers: give its path (path=… in "
            f"Python, --path at the command line){folder}"
        )
    if config.split is not None and Path(named).is_file():
        raise ConfigError(f"{named} is one file, so split={config.split!r} chooses nothing: leave it out")
    return question_file(_benchmark(config), named, config.split)


def _documents(config: CorverConfig) -> list[Passage]:
    if config.corpus is None:
        raise ConfigError(
            "corver-qa-search over files needs documents to search: give their folder or file as corpus=… "
            "(.md, .txt or .jsonl)"
        )
    from factgym.corpora.documents import read_folder

    return [passage for document in read_folder(config.corpus) for passage in document.passages]


def _identity(value: object) -> str:
    """Plain data by its content, anything else by which object it is (the set that holds it keeps it alive)."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return f"object {id(value)}"
