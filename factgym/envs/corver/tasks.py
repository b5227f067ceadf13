"""Questions as tasks, with the counter, extractor and library that their episodes share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from factgym.core.config import DATA_VARIABLE
from factgym.core.errors import ConfigError
from factgym.core.tasks import shared
from factgym.corpora.cooccurrence import Counter, memory_index, open_counter
from factgym.corpora.documents import read_folder
from factgym.datasets.questions import AUTO, Question, Questions, question_file, read_questions, stratified_questions
from factgym.envs.corver.config import CorverConfig
from factgym.envs.task_sets import ItemTask, ItemTaskSet, setting_key
from factgym.generators.question_world import GeneratedQuestions, World, question_world
from factgym.rewards.corver.extraction import cached_extractor, find_extractor
from factgym.rewards.corver.triplets import Extractor
from factgym.tools.evidence import PassageLibrary
from factgym.tools.untrusted import neutralise

NO_COUNTER = "none"


@dataclass(frozen=True, slots=True)
class CorverTask(ItemTask):
    """A question. question: as shown to the policy, neutralised. item: as read or generated."""

    id: str
    question: str
    item: Question = field(repr=False)


class CorverTaskSet(ItemTaskSet[CorverTask, CorverConfig]):
    """The questions of a configuration, with its counter, extractor and library."""

    @classmethod
    def of(cls, config: CorverConfig) -> CorverTaskSet:
        path = None if config.source == "synthetic" else _question_file(config).resolve()
        settings = (config.counter, config.counter_options, config.extractor, config.index, config.index_options)
        key = (
            *("corver", config.source, config.chosen_split, config.size, path, config.seed),
            *(config.search, config.corpus, *map(setting_key, settings)),
        )
        return shared(key, lambda: cls(_load_questions(config), config))

    def make(self, index: int) -> CorverTask:
        item = self.items[index]
        return CorverTask(item.id, neutralise(item.question), item, origin=(self, index))

    @property
    def world(self) -> World | None:
        """The generated world of the questions, None for files."""
        return question_world(self.config.seed) if self.config.source == "synthetic" else None

    @property
    def has_counter(self) -> bool:
        """Whether there is a counter; does not open it."""
        counter = self.config.counter
        return counter != NO_COUNTER if isinstance(counter, str) else counter is not None or self.world is not None

    @cached_property
    def counter(self) -> Counter | None:
        """The counter, opened or built once a process; None for none.

        A generated world's is counted within documents ("window"): with the other semantics, articles of thirty words
        would count their neighbours.
        """
        counter, options, world = self.config.counter, self.config.counter_options or {}, self.world
        if not self.has_counter:
            return None
        if counter is None and world is not None:
            key: tuple[Any, ...] = ("corver world counter", self.config.seed)
            return shared(key, lambda: memory_index((passage.text for passage in world.corpus), semantics="window"))
        if not isinstance(counter, str):
            return counter  # type: ignore[no-any-return]  # a user's object; its faults are in the report
        return shared(("corver counter", counter, setting_key(options)), lambda: open_counter(counter, **options))

    @cached_property
    def extractor(self) -> Extractor:
        """The extractor, with a cache around it."""
        extractor = self.config.extractor
        if not isinstance(extractor, str):
            return find_extractor(extractor)
        return shared(("corver extractor", extractor), lambda: cached_extractor(find_extractor(extractor)))

    @cached_property
    def library(self) -> PassageLibrary:
        """The library of the search tool, indexed once a process."""
        config, world = self.config, self.world
        options = config.index_options or {}
        source = config.seed if world is not None else config.corpus
        key = ("corver library", world is not None, source, setting_key(config.index), setting_key(options))

        def build() -> PassageLibrary:
            if world is not None:
                return PassageLibrary(world.corpus, config.index, **options)  # type: ignore[arg-type]  # a corpus is a sequence
            if config.corpus is None:
                raise ConfigError(
                    "corver-qa-search over files needs documents to search: give their folder or file as corpus=… "
                    "(.md, .txt or .jsonl)"
                )
            passages = [passage for document in read_folder(config.corpus) for passage in document.passages]
            return PassageLibrary(passages, config.index, **options)

        return shared(key, build)


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
