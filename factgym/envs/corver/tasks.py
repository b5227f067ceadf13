"""Configuration and task sets: questions, with the counter, extractor and library that their episodes share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from factgym.core.config import DATA_VARIABLE, AtLeastOne, DataConfig
from factgym.core.errors import ConfigError
from factgym.core.tasks import shared
from factgym.core.untrusted import neutralise
from factgym.corpora.build import check_corpus, read_passages
from factgym.corpora.cooccurrence import Counter, memory_index, open_counter
from factgym.corpora.index import check_index
from factgym.datasets.questions import (
    AUTO,
    BENCHMARKS,
    Question,
    Questions,
    question_file,
    read_questions,
    stratified_questions,
)
from factgym.envs.task_sets import ItemTask, ItemTaskSet, setting_key
from factgym.generators.question_world import SPLITS, GeneratedQuestions, World, question_world
from factgym.rewards.corver.extraction import cached_extractor, find_extractor
from factgym.rewards.corver.rubrics import COMPONENTS, GATES, CorverRules, JudgeRule, Rule, find_rubric
from factgym.rewards.corver.triplets import Extractor
from factgym.rewards.rubric import Rubric
from factgym.tools.evidence import PassageLibrary

Source = Literal["synthetic", "nq-open", "webquestions", "triviaqa", "popqa", "simpleqa", "truthfulqa", "file"]
Prompt = Literal["train", "eval", "eval-trained", "brief"]

REWARD = "strict"
"""Default reward; the environment's card gives the reasons against the published one."""


class CorverConfig(DataConfig):
    """Settings of `corver-qa*`.

    source: the questions' source; "file" is a file of yours in any supported format. split: its part. path: file or
    folder of a source that is not generated. size: number of questions: of generated ones the first, of a file's a
    sample drawn by `seed`, stratified by popularity or kind if it has them; all by default.
    reward: "strict", "reference", either with "-no-cooccurrence", "-no-judge", "-no-alignment", or a `Rubric` over the
    same components. no_cooccurrence, no_judge, no_alignment: the same ablations (A1, A2, A3). rule: how a sentence's
    triplets become one count. judge: "reference" or "boundary" in place of the reward's own judge. rules: all other
    constants of the reward.
    counter: the path of an index or of a folder of them (summed), "infini-gram:PATH", the URL of a count server, an
    object with `count_many`, or "none"; by default the generated world's own corpus, and no counter for files, where
    the sentence term is then 0. counter_options: options of a counter that is named by its path. extractor: "rule", "quco:PATH" or an object with `extract`.
    prompt: the requirements of the paper's training prompt, of its evaluation prompt, of the latter with the line that
    it adds for trained checkpoints, or "brief" for those of training and all rules in at most half the words.
    corpus: passages of the search tool, if the questions are not generated: a file or folder as
    `factgym.corpora.build.read_passages` takes it, or a folder that `factgym corpus build` wrote. index, index_options:
    as in `factgym.corpora.index.build_index`. max_passage_chars: longer passages are cut, and the cut is marked.
    """

    max_turns: AtLeastOne = 1
    source: Source = "synthetic"
    reward: str | Rubric = REWARD
    no_cooccurrence: bool = False
    no_judge: bool = False
    no_alignment: bool = False
    rule: Rule = "first"
    judge: JudgeRule | None = None
    rules: CorverRules | None = None
    counter: Any = None
    counter_options: dict[str, Any] | None = None
    extractor: Any = "rule"
    prompt: Prompt = "train"  # type: ignore[assignment]  # the paper has several prompts
    search: bool = False
    corpus: str | None = None
    index: Any = "bm25"
    index_options: dict[str, Any] | None = None
    max_passage_chars: AtLeastOne = 1200

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if self.source == "synthetic" and (self.path is not None or self.corpus is not None):
            raise ConfigError("generated questions bring their own corpus: give a source, or leave path and corpus out")
        if self.corpus is not None and not self.search:
            raise ConfigError("corpus names the passages of the search tool: use corver-qa-search")
        if self.counter_options and not (isinstance(self.counter, str) and self.counter != "none"):
            raise ConfigError("counter_options go with a counter that is named by its path")
        check_index(self.index, **(self.index_options or {}))
        self.rubric.check(COMPONENTS, GATES)

    @property
    def splits(self) -> tuple[str, ...]:
        if self.source == "synthetic":
            return ("validation", *(split for split in SPLITS if split != "validation"))
        return tuple(BENCHMARKS[self.source].splits) if self.source in BENCHMARKS and not self.is_one_file else ()

    @property
    def rubric(self) -> Rubric:
        ablations = ("no_cooccurrence", "no_judge", "no_alignment")
        suffix = "".join("-" + name.replace("_", "-") for name in ablations if getattr(self, name))
        if isinstance(self.reward, Rubric):
            if suffix:
                raise ConfigError("an ablation changes a reward given by name: leave it out of your own Rubric")
            return self.reward
        return find_rubric(self.reward + suffix, judged_by=self.judge)

    @property
    def scoring_rules(self) -> CorverRules:
        """`rules` with `rule`, and with the judge of the reported label: `judge`, else the reward's own."""
        judge: JudgeRule = self.judge or ("reference" if "judge" in self.rubric.weights else "boundary")
        return _with_rule(self.rules or CorverRules(), self.rule, judge)


@lru_cache(maxsize=64)  # made for every score, and checked when made
def _with_rule(rules: CorverRules, rule: Rule, judge: JudgeRule) -> CorverRules:
    return replace(rules, rule=rule, judge=judge)


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
        if config.corpus is not None:
            check_corpus(config.corpus)  # raises here rather than in every episode
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
                    "(a folder of `factgym corpus build`, .md, .txt, .jsonl or .tsv)"
                )
            return PassageLibrary(read_passages(config.corpus), config.index, **options)  # type: ignore[arg-type]

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
    return question_file(_benchmark(config), str(path), config.split)
