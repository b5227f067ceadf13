"""Settings of an EVE evolution (sections 3.3, 3.4 and appendix C), and its passages in two disjoint splits.

The proposer is trained on one split of the passages and writes the solver's data set from the other.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from pydantic import Field

from factgym.agents.rollout.jobs import task_order
from factgym.core.config import AtLeastOne, Settings
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.registry import make
from factgym.core.seeds import derive
from factgym.corpora.build import read_passages
from factgym.corpora.corpus import Corpus, shards
from factgym.datasets.multihop import Triple
from factgym.envs.eve.tasks import generated_questions
from factgym.rewards.eve.rubrics import DEFAULT_RULES, EveRules

Draw = Literal["uniform", "selector"]


class EveSettings(Settings):
    """Settings of the two phases; the numbers of iterations are arguments of `run`.

    passages: file or folder that `read_passages` opens; None for a generated world. layout: of that file. size:
    passages at most, or the size of the generated world; None for all, or its default. index, index_options: of the
    search tool. world: the generated world, as a setting of the environments. env_options: further settings of both
    environments, such as prompt, top_k or max_turns. held_out: share of the passages, chosen by a hash of their ids, that the proposer is not trained on
    and writes the solver's data set from.

    batch: proposer rollouts of an iteration, a passage each. hop_weights: relative frequencies of 1, 2, 3 … hops. draw:
    "uniform", or "selector" for the corpus selector, whose settings are `selector` (see `SelectorSettings`).

    prompts: passages of the held-out shard that the data set is written from; None for all. samples: rollouts of each.
    select: rows of the data set, the "valid" ones as in the paper, or as a control "all" with a question and an answer.
    min_value: lower limit of V; None keeps every valid row, as the paper does. rows: rows of a solver iteration.
    group: episodes of each.

    n, m: searching answers, and search-disabled ones each way, that score a proposal. value: estimator of V, "sampling"
    or "logprob". reward, solver_reward: names of rewards; None for each environment's own.
    """

    passages: str | None = None
    layout: str = "auto"
    size: AtLeastOne | None = None
    world: Literal["documents", "miniature"] = "documents"
    env_options: Mapping[str, Any] = Field(default_factory=dict)
    index: str = "bm25"
    index_options: Mapping[str, Any] = Field(default_factory=dict)
    held_out: float = Field(default=0.2, gt=0, lt=1)
    batch: AtLeastOne = 64
    hop_weights: tuple[float, ...] = DEFAULT_RULES.hop_weights
    draw: Draw = "uniform"
    selector: Mapping[str, Any] = Field(default_factory=dict)
    prompts: AtLeastOne | None = 128
    samples: AtLeastOne = 5
    select: Literal["valid", "all"] = "valid"
    min_value: float | None = Field(default=None, ge=-1, le=1)
    rows: AtLeastOne = 64
    group: int = Field(default=5, ge=2)
    n: int = 5
    m: int = 5
    value: str = "sampling"
    reward: str | None = None
    solver_reward: str | None = None
    seed: int = 0

    def model_post_init(self, context: Any, /) -> None:
        """Check the rules of the reward."""
        EveRules(n=self.n, m=self.m, hop_weights=self.hop_weights)
        if self.passages is not None and self.world != "documents":
            raise ConfigError("passages are given: leave the world out")

    def draw_hops(self, count: int, seed: int) -> list[int]:
        """`count` independent hop counts in the ratio of the weights."""
        return random.Random(seed).choices(range(1, len(self.hop_weights) + 1), weights=self.hop_weights, k=count)

    def describe(self) -> dict[str, Any]:
        """JSON data of all settings but the path of the passages, whose content has a fingerprint."""
        source = "generated" if self.passages is None else "passages"
        return {**self.model_dump(exclude={"passages", "layout"}), "source": source}


@dataclass(frozen=True)
class PassageSplits:
    """The passages of an evolution, and environments over them. training, held_out: disjoint ids."""

    settings: EveSettings
    corpus: Corpus
    training: tuple[str, ...]
    held_out: tuple[str, ...]

    def prompts(self, seed: int) -> tuple[str, ...]:
        """The held-out passages that the data set is written from, in an order set by the seed."""
        order = task_order(len(self.held_out), self.settings.prompts, derive(seed, "prompts"))
        return tuple(self.held_out[index] for index in order)

    def proposer_env(
        self, documents: Sequence[str], hops: Sequence[int], task_types: Sequence[str] = (), **scoring: Any
    ) -> Env[Any]:
        """The proposer's environment, a task for each of these passages. scoring: solver, auxiliary, cache."""
        settings = self.settings
        tasks: dict[str, Any] = {"documents": tuple(documents), "hops": tuple(hops), "task_types": tuple(task_types)}
        estimator: dict[str, Any] = {"n": settings.n, "m": settings.m, "value": settings.value}
        if "max_turns" in settings.env_options:
            estimator["solver_turns"] = settings.env_options["max_turns"]
        return make("eve-proposer", **tasks, **estimator, **scoring, **self._search_config(settings.reward))

    def solver_env(self, triples: Sequence[Triple]) -> Env[Any]:
        """The solver's environment over these triples."""
        return make("eve-solver", triples=triples, **self._search_config(self.settings.solver_reward))

    def _search_config(self, reward: str | None) -> dict[str, Any]:
        return {
            **self.settings.env_options,
            "corpus": self.corpus,
            "index": self.settings.index,
            "index_options": dict(self.settings.index_options) or None,
            "seed": self.settings.seed,
            **({} if reward is None else {"reward": reward}),
        }

    def describe(self) -> Mapping[str, Any]:
        """Fingerprint and sizes, for a manifest."""
        return {
            "corpus": self.corpus.fingerprint(),
            "passages": len(self.corpus),
            "training": len(self.training),
            "held_out": len(self.held_out),
        }


def open_passages(settings: EveSettings) -> PassageSplits:
    """Read the passages, or generate a world. Raises ConfigError and DataError."""
    if settings.passages is None:
        corpus = generated_questions(settings.world, settings.seed, settings.size, "train").corpus
    else:
        corpus = read_passages(settings.passages, layout=settings.layout)
        if settings.size is not None:
            corpus = Corpus(islice(corpus, settings.size))
    return PassageSplits(settings, corpus, *shards(corpus, settings.held_out, settings.seed))
