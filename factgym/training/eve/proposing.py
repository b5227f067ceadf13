"""Phase A: the proposer writes questions about drawn passages, and is compared within each hop count (Algorithm 1).

Iteration t begins by drawing N passages and hop counts. Uniformly, both are independent draws: any passage of the
training shard, and 1 to 4 hops in the ratio 4:3:2:1. With the selector, its clusters and question types are drawn by
its two bandits as they stand after iteration t - 1, and a passage within each cluster; hop counts are drawn as before.

Once the episodes are scored, the selector is told of them (appendix F): for each valid question its cluster, its type
and Q_i, which falls with unusual lengths and with repeats in the batch, times one run score R. R is the average of the
latest proposer's and solver's mean reward, each cut to [0, 1]; for the solver, which stays as it is through this phase,
it is the share k / n of its searching answers that were right, over the valid questions. The selector's state after the
iteration is `selector.json`; the next begins with it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factgym.core.config import build_checked
from factgym.core.env import Env
from factgym.core.seeds import derive
from factgym.training.eve.material import Material
from factgym.training.eve.measures import proposer_measures
from factgym.training.eve.phase import Batch, Episodes
from factgym.training.eve.rows import Phase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from factgym.corpora.dense import Encoder
    from factgym.training.eve.selector import Choice, Selector

SELECTOR = "selector.json"


@dataclass(frozen=True)
class Proposing:
    """The course of Phase A. folder: of the phase. scoring: what the environment scores with (solver, auxiliary, cache)."""

    folder: Path
    material: Material
    scoring: Mapping[str, Any] = field(default_factory=dict)
    phase: Phase = "proposer"

    def batch(self, number: int) -> Batch:
        """The passages of an iteration with what is asked about each."""
        rows = self._drawn(number)
        types = [row["task_type"] for row in rows if row["task_type"] is not None]
        env = self.material.proposer_env(
            [row["document"] for row in rows], [row["hops"] for row in rows], types, **self.scoring
        )
        return Batch(env, range(len(rows)), 1, rows)

    def _drawn(self, number: int) -> list[dict[str, Any]]:
        own = self.material.settings
        drawn: list[tuple[str, int | None, str | None]]
        if own.draw == "selector":
            selector = self._selector(number)
            choices = selector.draw(own.batch)
            self._used[number] = selector, choices
            drawn = [(one.document, one.cluster, one.task_type) for one in choices]
        else:
            rng = random.Random(derive(own.seed, "passages", number))
            drawn = [(one, None, None) for one in rng.choices(self.material.training, k=own.batch)]
        hops = own.drawn_hops(own.batch, derive(own.seed, "hops", number))
        return [
            {"document": document, "hops": count, "cluster": cluster, "task_type": task_type}
            for (document, cluster, task_type), count in zip(drawn, hops, strict=True)
        ]

    def after(self, number: int, folder: Path, env: Env[Any], episodes: Episodes) -> dict[str, Any]:
        """What the iteration amounts to; with the selector, its feedback."""
        measured = proposer_measures(episodes)
        if self.material.settings.draw == "selector":
            score = _run_score(measured)
            selector, choices = self._used[number]
            selector.feedback(_fed_back(choices, episodes), score)
            selector.save(folder / SELECTOR)
            measured["selector"] = {
                "run_score": score,
                "round": selector.round,
                "clusters": len(selector.clusters),
                "drawn": len({one.cluster for one in choices}),
            }
        return measured

    def _selector(self, number: int) -> Selector:
        """The selector as it stands before an iteration, which follows from the state that the one before left."""
        from factgym.training.eve.selector import Selector, SelectorSettings

        ids = self.material.training
        if number > 1:
            return Selector.load(self.folder / f"iteration-{number - 1}" / SELECTOR, self._vectors, ids)
        own = self.material.settings
        settings = build_checked(SelectorSettings, "the selector", own.selector)
        return Selector(self._vectors, ids, settings=settings, seed=derive(own.seed, "selector"))

    @cached_property
    def _used(self) -> dict[int, tuple[Selector, Sequence[Choice]]]:
        """Iteration -> the selector that drew for it, and what it drew."""
        return {}

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        from factgym.training.eve.selector import corpus_embeddings

        passages = (self.material.corpus.get(one) for one in self.material.training)
        return corpus_embeddings(passages, _encoder(self.material.settings.index_options))


def _encoder(options: Mapping[str, Any]) -> Encoder | None:
    """The encoder of a dense index, where that is what is searched; None for vectors without a model."""
    from factgym.corpora.dense import shared_encoder

    known = {name: options[name] for name in ("preset", "device", "batch_size") if name in options}
    return shared_encoder(options["encoder"], **known) if "encoder" in options else None


def _fed_back(choices: Sequence[Choice], episodes: Episodes) -> list[dict[str, Any]]:
    """The valid questions that came of the choices, as the selector is told of them."""
    found = []
    for one in episodes:
        choice, facts = choices[one["index"]], one["reward"]["metrics"]
        if facts.get("valid"):
            text = {"question": facts["question"], "answer": facts["answer"]}
            found.append({**text, "cluster": choice.cluster, "task_type": choice.task_type})
    return found


def _run_score(measured: Mapping[str, Any]) -> float:
    """R of an iteration, in [0, 1]; what was not measured counts as 0."""
    from factgym.training.eve.selector import run_reward

    return round(run_reward(measured["reward"] or 0.0, measured["solved"] or 0.0), 6)
