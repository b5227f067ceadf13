"""The passages of an evolution: one shard to train the proposer on, and one that its data set is written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from factgym.agents.rollout.jobs import task_order
from factgym.core.env import Env
from factgym.core.registry import make
from factgym.core.seeds import derive
from factgym.corpora.corpus import Corpus, shards
from factgym.corpora.passage_files import read_passages
from factgym.datasets.multihop import Triple
from factgym.generators.multihop.world import world
from factgym.training.eve.settings import EveSettings

PROPOSER, SOLVER = "eve-proposer", "eve-solver"


@dataclass(frozen=True)
class Material:
    """Passages and how they are searched. training, held_out: ids, no id in both."""

    settings: EveSettings
    corpus: Corpus
    training: tuple[str, ...]
    held_out: tuple[str, ...]

    def prompts(self) -> tuple[str, ...]:
        """The held-out passages that the data set is written from, in an order set by the seed."""
        own = self.settings
        order = task_order(len(self.held_out), own.prompts, derive(own.seed, "prompts"))
        return tuple(self.held_out[place] for place in order)

    def proposer_env(
        self, documents: Sequence[str], hops: Sequence[int], task_types: Sequence[str] = (), **scoring: Any
    ) -> Env[Any]:
        """The proposer's environment over these passages, a task each. scoring: solver, auxiliary, cache."""
        own = self.settings
        return make(
            PROPOSER,
            documents=tuple(documents),
            hops=tuple(hops),
            task_types=tuple(task_types),
            n=own.n,
            m=own.m,
            value=own.value,
            **scoring,
            **self._search(own.reward),
        )

    def solver_env(self, triples: Sequence[Triple]) -> Env[Any]:
        """The solver's environment over these triples."""
        return make(SOLVER, triples=triples, **self._search(self.settings.solver_reward))

    def _search(self, reward: str | None) -> dict[str, Any]:
        own = self.settings
        return {
            "corpus": self.corpus,
            "index": own.index,
            "index_options": dict(own.index_options) or None,
            "seed": own.seed,
            **({} if reward is None else {"reward": reward}),
        }

    def describe(self) -> Mapping[str, Any]:
        """What identifies the passages, for a manifest."""
        return {
            "corpus": self.corpus.fingerprint(),
            "passages": len(self.corpus),
            "training": len(self.training),
            "held_out": len(self.held_out),
        }


def open_material(settings: EveSettings) -> Material:
    """Read the passages, or generate a world. Raises ConfigError and DataError."""
    corpus = _corpus(settings)
    training, held_out = shards(corpus, settings.held_out, settings.seed)
    return Material(settings, corpus, training, held_out)


def _corpus(settings: EveSettings) -> Corpus:
    if settings.passages is None:
        sized = {} if settings.size is None else {"size": settings.size}
        return world(settings.seed, split="train", **sized)[0]
    corpus = read_passages(settings.passages, layout=settings.layout)
    return corpus if settings.size is None else Corpus(islice(corpus, settings.size))
