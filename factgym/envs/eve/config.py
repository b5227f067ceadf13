"""Configurations of the EVE environments."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from factgym.core.config import AtLeastOne, DataConfig, FilePath
from factgym.core.errors import ConfigError
from factgym.corpora.index import check_index
from factgym.datasets.multihop import BENCHMARKS
from factgym.envs.eve.tools import MIN_RESPONSE_TOKENS
from factgym.generators.multihop_world import SPLITS
from factgym.rewards.eve.rubrics import (
    DEFAULT_RULES,
    GUARDED,
    MAX_HOPS,
    PROPOSER_COMPONENTS,
    PROPOSER_GATES,
    SOLVER_COMPONENTS,
    SOLVER_GATES,
    EveRules,
    find_rubric,
)
from factgym.rewards.rubric import Rubric

Source = Literal[
    "synthetic", "nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle", "triples"
]

DEFAULT_SOLVER = "extractive"
"""A scripted agent, so that an environment can be made without a model."""

TaskType = Literal["factual", "comparison", "causal", "temporal", "aggregation"]
"""The paper's kinds of question; the corpus selector draws among them."""

Hops = Annotated[int, Field(ge=1, le=MAX_HOPS)]
MIN_DOCUMENT_TOKENS = 16


class EveConfig(DataConfig):
    """Settings of both EVE environments.

    source: origin of documents and questions; "synthetic" is a generated closed world. world: which one: "documents" for
    one to four hops, or for small models the "miniature", passages of three sentences and questions of one hop. split: part of it. size: how much
    of it. path: file or folder of a source that is not generated. corpus: corpus of the search tool in place of the
    source's own documents: a file or folder of passages as `factgym.corpora.build.read_passages` takes it, a folder
    that `factgym corpus build` wrote, or a `Corpus`. index, index_options: as in `factgym.corpora.index.build_index`
    ("bm25", "dense" with preset="e5" …). top_k: passages per query. max_passage_tokens: of one response of the search
    tool, by the rule of `factgym.envs.eve.tools`; a cut is marked.
    """

    max_turns: AtLeastOne = 5
    source: Source = "synthetic"
    world: Literal["documents", "miniature"] = "documents"
    corpus: Any = None
    index: Any = "bm25"
    index_options: dict[str, Any] | None = None
    top_k: Annotated[int, Field(ge=1, le=50)] = 3
    max_passage_tokens: Annotated[int, Field(ge=MIN_RESPONSE_TOKENS)] = 512

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        check_index(self.index, **(self.index_options or {}))
        if self.source == "synthetic" and self.path is not None:
            raise ConfigError("the generated world has no path: name a source, or leave path out")
        if self.source != "synthetic" and self.world != "documents":
            raise ConfigError(f"world is a setting of generated questions, not of source={self.source!r}")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that can be chosen, the default first; none for a user's own triples and for one file."""
        if self.source == "synthetic":
            return ("validation", *(split for split in SPLITS if split != "validation"))
        return tuple(BENCHMARKS[self.source].splits) if self.source in BENCHMARKS and not self.is_one_file else ()


class EveSolverConfig(EveConfig):
    """Settings of `eve-solver`, besides those of `EveConfig`.

    source "synthetic" has generated triples, the seven benchmarks are read from files, "triples" is a data set as the
    self-evolution loop writes it. size: number of questions: of generated ones the first, of a file's a slice drawn by
    `seed`. triples: a sequence of `Triple` in place of a source; it needs a corpus where there is something to search.
    reward: "guarded", "eve" (the paper's), "dr-zero" or a `Rubric` over the same components; by default "guarded", and
    "dr-zero", which needs no evidence, where no text is shown that could contain it. rules: constants of the reward.
    evidence_match: with several gold spans, compare the evidence with the nearest of those that contain the answer (of
    all, where none does), or with all of them as one text ("joined"), which no single span can equal. search: False for
    the single-turn protocol without search, which always has one turn. evidence: whether that protocol shows the gold
    evidence with the question. remind: whether a message with neither a tool call nor an answer block costs a turn;
    False ends the episode with it, as Dr. Zero's rollouts do, and it counts as a whole. removed: id of a document that the
    search never returns, to find out whether a question needs it.
    """

    triples: Any = None
    reward: str | Rubric | None = None
    rules: EveRules | None = None
    evidence_match: Literal["nearest", "joined"] = "nearest"
    search: bool = True
    evidence: bool = False
    remind: bool = True
    removed: str = ""

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings against each other; without search there is one turn."""
        super().model_post_init(context)
        if self.evidence and self.search:
            raise ConfigError("evidence is shown with the question only where nothing can be searched: search=False")
        if not self.search:
            if self.corpus is not None:
                raise ConfigError("corpus names the passages of the search tool: leave it out, or leave search on")
            self.__dict__["max_turns"] = 1
        if self.triples is not None and (self.path is not None or self.split is not None):
            raise ConfigError("triples are given: leave path and split out")
        self.rubric.check(SOLVER_COMPONENTS, SOLVER_GATES)

    @property
    def scoring_rules(self) -> EveRules:
        """`rules`, by default with the paper's constants."""
        return self.rules or DEFAULT_RULES

    @property
    def rubric(self) -> Rubric:
        if isinstance(self.reward, Rubric):
            return self.reward
        shows_texts = self.search or self.evidence
        return find_rubric(self.reward or (GUARDED if shows_texts else "dr-zero"), "solver", self.scoring_rules)


class EveProposerConfig(EveConfig):
    """Settings of `eve-proposer`, besides those of `EveConfig`.

    The documents are those of the source, or of `corpus`. size: their number, drawn by `seed`; all by default.
    documents: ids in their order, a task each; an id may come again. hops: of every task, or one number for each of the
    documents; by default drawn 4:3:2:1 by `seed`. task_types: a kind of question for each of the documents, see
    `TaskType`; none by default. max_document_tokens: of a longer source document the beginning is shown.
    solver: policy that answers: text as in `--agent` (a scripted agent of `eve-solver`, openai:MODEL,
    http://HOST:PORT/v1, hf:FOLDER, file.py:Name), or an agent, a model, any object with `act`. solver_settings: of a
    model that is named by text. Answers are cached by its `describe()`, which a solver that learns must change.
    auxiliary, auxiliary_settings: the same for the frozen scorer without evidence; the solver itself by default.
    n, m: searching rollouts, and answers with and without evidence; those of `rules` by default. solver_turns: messages
    of a searching rollout. value: V from m answers each way, or from teacher-forced log-probabilities, where the
    policies give them. verify: False omits the evidence verifier, for a reward without V such as "dr-zero"; V is 0
    then. reward: "guarded", "eve" (the paper's), "dr-zero" or a `Rubric` over the same components. rules: constants of
    the reward. cache: a SQLite file of answers that processes share; by default in memory only. max_rollouts: rollouts
    of the solver at a time, over all episodes of a process.
    """

    documents: list[str] | tuple[str, ...] | None = None
    hops: Hops | list[Hops] | tuple[Hops, ...] | None = None
    task_types: list[TaskType] | tuple[TaskType, ...] | None = None
    max_document_tokens: Annotated[int, Field(ge=MIN_DOCUMENT_TOKENS)] = 1024
    solver: Any = DEFAULT_SOLVER
    solver_settings: dict[str, Any] | None = None
    auxiliary: Any = None
    auxiliary_settings: dict[str, Any] | None = None
    n: int | None = None
    m: int | None = None
    solver_turns: AtLeastOne = 5
    value: Literal["sampling", "logprob"] = "sampling"
    verify: bool = True
    reward: str | Rubric = GUARDED
    rules: EveRules | None = None
    cache: FilePath | None = None
    max_rollouts: AtLeastOne = 256

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if self.documents is not None and not self.documents:
            raise ConfigError("documents is empty: name at least one, or leave it out")
        if self.documents and self.size is not None:
            raise ConfigError("documents are given: leave size out")
        for name, values in (("hops", self.hops), ("task_types", self.task_types)):
            if values and not isinstance(values, int) and len(values) != len(self.documents or ()):
                count = "none" if self.documents is None else str(len(self.documents))
                raise ConfigError(
                    f"{name} has {len(values)} entries, one for each of the documents, of which {count} are given"
                )
        if self.auxiliary_settings and self.auxiliary is None:
            raise ConfigError("auxiliary_settings are settings of an auxiliary: name one")
        self.rubric.check(PROPOSER_COMPONENTS, PROPOSER_GATES)
        if not self.verify and self.rubric.weights.get("value"):
            raise ConfigError(f"the reward {self.rubric.name!r} pays for V: leave verify on")
        if not self.scoring_rules.removal_chance and {"reached", "supported", "learnable"} & {
            *self.rubric.gated.values()
        }:
            raise ConfigError(f"the reward {self.rubric.name!r} pays by hops: rules need a removal_chance above 0")

    @property
    def scoring_rules(self) -> EveRules:
        """`rules`, by default with the paper's constants, with n and m."""
        rules = self.rules or DEFAULT_RULES
        return replace(rules, n=rules.n if self.n is None else self.n, m=rules.m if self.m is None else self.m)

    @property
    def rubric(self) -> Rubric:
        if isinstance(self.reward, Rubric):
            return self.reward
        return find_rubric(self.reward, "proposer", self.scoring_rules)
