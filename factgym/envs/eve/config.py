"""Configuration of the EVE environments: what both share, and the solver's own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from factgym.core.config import AtLeastOne, DataConfig
from factgym.core.errors import ConfigError
from factgym.corpora.index import check_index
from factgym.datasets.multihop import BENCHMARKS
from factgym.envs.eve.search import LEAST_TOKENS
from factgym.generators.multihop.world import SPLITS
from factgym.rewards.eve.rubrics import DEFAULT_RULES, GUARDED, SOLVER_COMPONENTS, SOLVER_GATES, EveRules, find_rubric
from factgym.rewards.rubric import Rubric

Source = Literal[
    "synthetic", "nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle", "triples"
]

REWARD = GUARDED
"""The reward by default; the cards say why it is not the published one."""


class EveConfig(DataConfig):
    """What both EVE environments can be told.

    source: where the material comes from; "synthetic" is a generated closed world. split: which part. size: how much of
    it. path: file or folder of a source that is not generated. corpus: what the search tool searches, in place of the
    source's own documents: a file or folder of passages as `factgym.corpora.passage_files.read_passages` takes it, or a
    `Corpus`. index, index_options: as in `factgym.corpora.index.build_index` ("bm25", "dense" with preset="e5" …).
    top_k: passages for one query. max_passage_tokens: of one response of the search tool, by the rule of
    `factgym.envs.eve.tokens`; a cut is marked.
    """

    max_turns: AtLeastOne = 5
    source: Source = "synthetic"
    corpus: Any = None
    index: Any = "bm25"
    index_options: dict[str, Any] | None = None
    top_k: Annotated[int, Field(ge=1, le=50)] = 3
    max_passage_tokens: Annotated[int, Field(ge=LEAST_TOKENS)] = 512

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings against each other."""
        super().model_post_init(context)
        check_index(self.index, **(self.index_options or {}))
        if self.source == "synthetic" and self.path is not None:
            raise ConfigError("the generated world has no path: name a source, or leave path out")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that can be chosen, the default first; of one's own triples there is none."""
        if self.source == "synthetic":
            return ("validation", *(split for split in SPLITS if split != "validation"))
        return tuple(BENCHMARKS[self.source].splits) if self.source in BENCHMARKS else ()


class EveSolverConfig(EveConfig):
    """Settings of `eve-solver`, beside those of `EveConfig`.

    source "synthetic" has generated triples, the seven benchmarks are read from files, "triples" is a data set as the
    loop writes it. size: how many questions: of generated ones the first, of a file's a slice drawn by `seed`. triples:
    a sequence of `Triple` to play in place of a source; it needs a corpus where there is something to search.
    reward: "guarded", "eve" (the paper's), "dr-zero" or a `Rubric` over the same components; by default "guarded", and
    "dr-zero", which asks for no evidence, where no text is shown that could hold it. rules: constants of the reward.
    evidence_match: where there are several gold spans, compare the evidence with the nearest of those that say the
    answer (of all, where none does), or with all of them as one text ("joined"), which no single span can equal.
    search: False for the single-turn protocol without search, which always has one turn. evidence: there, whether the
    gold evidence is shown with the question. remind: whether a message that neither calls a tool nor holds an answer
    block costs a turn; False ends the episode with it, as Dr. Zero's rollouts do, and it counts as a whole.
    """

    triples: Any = None
    reward: str | Rubric | None = None
    rules: EveRules | None = None
    evidence_match: Literal["nearest", "joined"] = "nearest"
    search: bool = True
    evidence: bool = False
    remind: bool = True

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings against each other; without search there is one turn."""
        super().model_post_init(context)
        if self.evidence and self.search:
            raise ConfigError("evidence is shown with the question only where nothing can be searched: search=False")
        if not self.search:
            if self.corpus is not None:
                raise ConfigError("corpus is what the search tool searches: leave it out, or leave search on")
            self.__dict__["max_turns"] = 1
        if self.triples is not None and (self.path is not None or self.split is not None):
            raise ConfigError("triples are given: leave path and split out")
        self.rubric.check(SOLVER_COMPONENTS, SOLVER_GATES)

    @property
    def scoring_rules(self) -> EveRules:
        """`rules`, with the paper's constants by default."""
        return self.rules or DEFAULT_RULES

    @property
    def rubric(self) -> Rubric:
        """The rubric that `reward` names. Raises ConfigError for a name that there is not."""
        if isinstance(self.reward, Rubric):
            return self.reward
        name = self.reward or (REWARD if self.shows_texts else "dr-zero")
        return find_rubric(name, "solver", self.scoring_rules)

    @property
    def shows_texts(self) -> bool:
        """Whether an episode shows texts in which evidence can stand."""
        return self.search or self.evidence
