"""Configuration of the CorVer environments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from factgym.core.config import AtLeastOne, DataConfig
from factgym.core.errors import ConfigError
from factgym.datasets.questions import BENCHMARKS
from factgym.generators.question_world import SPLITS
from factgym.rewards.corver.rubrics import COMPONENTS, GATES, CorverRules, JudgeRule, Rule, find_rubric
from factgym.rewards.rubric import Rubric

Source = Literal["synthetic", "nq-open", "webquestions", "triviaqa", "popqa", "simpleqa", "truthfulqa", "file"]
Prompt = Literal["train", "eval", "eval-trained"]

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
    counter: the path of an index, "infini-gram:PATH", an object with `count_many`, or "none"; by default the generated
    world's own corpus, and no counter for files, where the sentence term is then 0. counter_options: options of a
    counter that is named by its path. extractor: "rule", "quco:PATH" or an object with `extract`.
    prompt: the requirements of the paper's training prompt, of its evaluation prompt, or of the latter with the line
    that it adds for trained checkpoints.
    corpus: folder or file of documents for the search tool, if the questions are not generated. index, index_options:
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
    prompt: Prompt = "train"
    search: bool = False
    corpus: str | None = None
    index: Any = "bm25"
    index_options: dict[str, Any] | None = None
    max_passage_chars: AtLeastOne = 1200

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings against each other."""
        super().model_post_init(context)
        if self.source == "synthetic" and (self.path is not None or self.corpus is not None):
            raise ConfigError(
                "generated questions bring their own corpus: give a source, or leave path and corpus out"
            )
        if self.corpus is not None and not self.search:
            raise ConfigError("corpus is what the search tool searches: use corver-qa-search")
        if self.counter_options and not (isinstance(self.counter, str) and self.counter != "none"):
            raise ConfigError("counter_options go with a counter that is named by its path")
        self.rubric.check(COMPONENTS, GATES)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of the source; the first is the default."""
        if self.source == "synthetic":
            return ("validation", *(split for split in SPLITS if split != "validation"))
        return tuple(BENCHMARKS[self.source].splits) if self.source in BENCHMARKS else ("test",)

    @property
    def rubric(self) -> Rubric:
        """The rubric that `reward` and the ablations name. Raises ConfigError for an unknown name."""
        if isinstance(self.reward, Rubric):
            if self.no_cooccurrence or self.no_judge or self.no_alignment:
                raise ConfigError("an ablation changes a reward given by name: leave it out of your own Rubric")
            return self.reward
        return find_rubric(
            self.reward,
            cooccurrence=not self.no_cooccurrence,
            judge=not self.no_judge,
            alignment=not self.no_alignment,
            judged_by=self.judge,
        )

    @property
    def scoring_rules(self) -> CorverRules:
        """`rules` with `rule`, and with the judge of the reported label: `judge`, else the reward's own."""
        judge: JudgeRule = self.judge or ("reference" if "judge" in self.rubric.weights else "boundary")
        return replace(self.rules or CorverRules(), rule=self.rule, judge=judge)
