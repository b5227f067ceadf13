"""Configuration of `eve-proposer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from factgym.core.config import AtLeastOne
from factgym.core.errors import ConfigError, did_you_mean
from factgym.envs.eve.config import REWARD, EveConfig
from factgym.rewards.eve.rubrics import (
    DEFAULT_RULES,
    MAX_HOPS,
    PROPOSER_COMPONENTS,
    PROPOSER_GATES,
    EveRules,
    find_rubric,
)
from factgym.rewards.rubric import Rubric

SOLVER = "extractive"
"""The solver by default: a script, so that an environment can be made without a model."""

TASK_TYPES = ("factual", "comparison", "causal", "temporal", "aggregation")
"""The paper's kinds of question; the corpus selector draws among them."""

LEAST_DOCUMENT_TOKENS = 16


class EveProposerConfig(EveConfig):
    """Settings of `eve-proposer`, beside those of `EveConfig`.

    The documents are those of the source, or of `corpus`. size: how many of them, drawn by `seed`; all by default.
    documents: ids in their order, a task each; one may come again. hops: of every task, or one number for each of the
    documents; drawn 4:3:2:1 by `seed` otherwise. task_types: a kind of question for each of the documents, see
    TASK_TYPES; none are asked for otherwise. max_document_tokens: of a longer source document the beginning is shown.
    solver: who answers: text as in `--agent` (a scripted agent of `eve-solver`, openai:MODEL, http://HOST:PORT/v1,
    hf:FOLDER, file.py:Name), or an agent, a model, any object with `act`. solver_settings: of a model that is named by
    text. Answers are kept by what its `describe()` says: a solver that learns says so there. auxiliary,
    auxiliary_settings: the same for the frozen scorer without evidence; the solver itself by default.
    n, m: searching rollouts, and answers with and without evidence; those of `rules` by default. solver_turns: messages
    of a searching rollout. value: V from m answers each way, or from teacher-forced log-probabilities, where the
    policies can tell them. verify: False leaves the evidence verifier out, for a reward that has no use for V, such as
    "dr-zero"; V is 0 then. reward: "guarded", "eve" (the paper's), "dr-zero" or a `Rubric` over the same components.
    rules: constants of the reward. cache: a SQLite file of answers that processes share; in memory only by default.
    max_rollouts: rollouts of the solver at a time, over all episodes of a process.
    """

    documents: Any = None
    hops: Any = None
    task_types: Any = None
    max_document_tokens: Annotated[int, Field(ge=LEAST_DOCUMENT_TOKENS)] = 1024
    solver: Any = SOLVER
    solver_settings: dict[str, Any] | None = None
    auxiliary: Any = None
    auxiliary_settings: dict[str, Any] | None = None
    n: int | None = None
    m: int | None = None
    solver_turns: AtLeastOne = 5
    value: Literal["sampling", "logprob"] = "sampling"
    verify: bool = True
    reward: str | Rubric = REWARD
    rules: EveRules | None = None
    cache: str | None = None
    max_rollouts: AtLeastOne = 256

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings against each other."""
        super().model_post_init(context)
        self._check_documents()
        if self.auxiliary_settings and self.auxiliary is None:
            raise ConfigError("auxiliary_settings are settings of an auxiliary: name one")
        self.rubric.check(PROPOSER_COMPONENTS, PROPOSER_GATES)
        if not self.verify and self.rubric.weights.get("value"):
            raise ConfigError(f"the reward {self.rubric.name!r} pays for V: leave verify on")

    def _check_documents(self) -> None:
        listed = None if self.documents is None else _texts("documents", self.documents)
        if listed is not None and not listed:
            raise ConfigError("documents is empty: name at least one, or leave it out")
        if listed is not None and self.size is not None:
            raise ConfigError("documents are given: leave size out")
        if not isinstance(self.hops, (int, type(None))) or isinstance(self.hops, bool):
            _same_length("hops", self.hops, listed)
        for one in (self.hops,) if isinstance(self.hops, int) else self.hops or ():
            if type(one) is not int or not 1 <= one <= MAX_HOPS:
                raise ConfigError(f"hops are whole numbers from 1 to {MAX_HOPS}, not {one!r:.80}")
        for one in _texts("task_types", self.task_types or ()):
            if one not in TASK_TYPES:
                raise ConfigError(f"there is no task type {one!r:.80}.{did_you_mean(one, TASK_TYPES)}")
        if self.task_types:
            _same_length("task_types", self.task_types, listed)

    @property
    def scoring_rules(self) -> EveRules:
        """`rules` with n and m, the paper's constants by default."""
        rules = self.rules or DEFAULT_RULES
        return replace(rules, n=rules.n if self.n is None else self.n, m=rules.m if self.m is None else self.m)

    @property
    def rubric(self) -> Rubric:
        """The rubric that `reward` names. Raises ConfigError for a name that there is not."""
        if isinstance(self.reward, Rubric):
            return self.reward
        return find_rubric(self.reward, "proposer", self.scoring_rules)


def _texts(name: str, value: Any) -> Sequence[str]:
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return value
    raise ConfigError(f"{name} is a list of texts, not {value!r:.80}")


def _same_length(name: str, value: Any, documents: Sequence[str] | None) -> None:
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{name} is one number for all tasks or a list as long as documents, not {value!r:.80}")
    if documents is None or len(documents) != len(value):
        count = "none" if documents is None else str(len(documents))
        raise ConfigError(
            f"{name} has {len(value)} entries, one for each of the documents, of which {count} are given"
        )
