"""EVE's corpus selector: which documents the next iteration's questions are asked about (section 3.3, appendix F).

Two UCB1 bandits draw clusters and question types, and a document is drawn within each cluster. Points that the paper
leaves open: rounds begin at t = 0, with K_0 clusters; a document is used when it is drawn; an old cluster that is nearest
to no new centroid has no child, and its statistics end with it. Needs the extra "selector" (scikit-learn)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from factgym.agents.runs.files import read_json, write_bytes
from factgym.core.config import AtLeastOne, Settings
from factgym.core.errors import ConfigError, DataError
from factgym.core.seeds import derive
from factgym.training.eve.bandit import Arms, arm_rewards, qualities
from factgym.training.eve.clusters import Clusters, Vectors, blocks, cluster, nearest

TASK_TYPES = ("factual", "comparison", "causal", "temporal", "aggregation")
VERSION = 1

_FINGERPRINT_VECTORS = 1_000
_ROUNDING = 1e-9

NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Choice(NamedTuple):
    """A document to ask about: its id, the cluster it was drawn for, and the requested type of question."""

    document: str
    cluster: int
    task_type: str


class Feedback(NamedTuple):
    """Rewards of the rows of an iteration, in order: r, and R_sel of each row's cluster and task type."""

    rewards: list[float]
    clusters: list[float]
    task_types: list[float]


class SelectorSettings(Settings):
    """The paper's constants. clusters, growth: K_t = clusters + ⌊growth · t⌋ (K_0 and α), never more than documents.

    exploration: β. utility, smoothing: λ_u and ε of the feedback. task_types: the arms of the second bandit.
    """

    clusters: AtLeastOne = 10
    growth: NonNegative = 0.0
    exploration: NonNegative = 1.0
    utility: NonNegative = 0.5
    smoothing: NonNegative = 1e-8
    task_types: tuple[str, ...] = Field(default=TASK_TYPES, min_length=1)

    def model_post_init(self, context: Any, /) -> None:
        """Check the task types."""
        if len(set(self.task_types)) < len(self.task_types):
            raise ConfigError("task_types must not name a type twice")


class ClusterSampler:
    """Samples the documents of one cluster, weighted by distance to the centroid / (1 + uses) (equation 31).

    Rejection sampling on cumulative weights that are reused between samples: a document drawn since the last cumulation
    is accepted with the ratio of its present and its cumulated weight. After a rejection the weights are cumulated
    anew, so the distribution is exact. `used` is shared with the selector, and `sample` counts in it.
    """

    def __init__(self, clusters: Clusters, index: int, used: NDArray[np.int64]) -> None:
        self._rows = clusters.members[index]
        self._distances = clusters.distances[self._rows]
        # Uniform where all documents lie on their centroid, to rounding, and over the whole corpus for an empty cluster.
        self._uniform = float(self._distances.sum()) <= _ROUNDING
        if not len(self._rows):
            self._rows = np.arange(len(used))
        self._used = used
        self._cumulate()

    def _cumulate(self) -> None:
        self._uses_before = self._used[self._rows]
        if not self._uniform:
            self._cumulated = np.cumsum(self._distances / (1.0 + self._uses_before))

    def sample(self, rng: np.random.Generator) -> int:
        """Draw the row of a document and count its use."""
        position = self._position(rng)
        if not self._uniform:
            uses = self._used[self._rows[position]]
            # Accepted with the ratio (1 + uses before) / (1 + uses now), at most 1 as uses only grow.
            if rng.random() * (1 + uses) >= 1 + self._uses_before[position]:
                self._cumulate()
                position = self._position(rng)
        row = int(self._rows[position])
        self._used[row] += 1
        return row

    def _position(self, rng: np.random.Generator) -> int:
        if self._uniform:
            return int(rng.integers(len(self._rows)))
        position = int(np.searchsorted(self._cumulated, rng.random() * self._cumulated[-1], side="right"))
        return min(position, len(self._rows) - 1)


class Selector:
    """Two UCB1 bandits, over clusters of documents and over types of question, and a draw within the chosen cluster.

    clusters: of the present round. arms: the cluster bandit, an arm for each cluster. type_arms: the task-type bandit,
    in the order of `settings.task_types`. round: t, from 0.

    Not safe under threads. Deterministic: the same vectors, ids, settings and seed, and the same calls, give the same
    choices, also after `save` and `load`.
    """

    def __init__(
        self,
        vectors: Vectors,
        ids: Sequence[str],
        *,
        settings: SelectorSettings | None = None,
        seed: int = 0,
        clusters: Clusters | None = None,
    ) -> None:
        """vectors: of the documents, shape (N, D), finite; they may be memory-mapped. ids: N different ids. clusters: of
        a saved selector, new clusters by default.

        Raises ConfigError for other vectors, MissingExtraError without the extra "selector".
        """
        if not all(np.isfinite(block).all() for block in blocks(vectors)):
            raise ConfigError("the vectors of a selector must be finite numbers")
        self.settings = settings or SelectorSettings()
        self.seed = seed
        self.round = self._draws = 0
        self._vectors, self._ids = vectors, tuple(ids)
        self._used = np.zeros(len(self._ids), dtype=np.int64)
        if clusters is None:
            clusters = cluster(vectors, self.settings.clusters, seed=derive(seed, "clusters", 0))
        self.clusters = clusters
        self.arms, self.type_arms = Arms.fresh(len(clusters)), Arms.fresh(len(self.settings.task_types))

    def draw(self, count: int) -> list[Choice]:
        """`count` choices for the coming iteration; a document may repeat, and is the less likely the more often it was
        drawn. Raises ConfigError for a count below 0."""
        if count < 0:
            raise ConfigError(f"a selector draws 0 or more documents, not {count}")
        if not count:
            return []
        rng = np.random.default_rng(derive(self.seed, "draw", self._draws))
        self._draws += 1
        clusters = self.arms.choose(count, rng, self.settings.exploration)
        types = self.type_arms.choose(count, rng, self.settings.exploration)
        samplers = {index: ClusterSampler(self.clusters, index, self._used) for index in sorted(set(clusters))}
        return [
            Choice(self._ids[samplers[index].sample(rng)], index, self.settings.task_types[task_type])
            for index, task_type in zip(clusters, types, strict=True)
        ]

    def feedback(self, rows: Sequence[Mapping[str, Any]], reward: float) -> Feedback:
        """End a round: update both bandits, and cluster anew when the next round has more clusters.

        rows: the iteration's rows, each with `question`, `answer`, `cluster` and `task_type` (other keys are ignored);
        `cluster` is that of the round's choices. reward: R_run in [0, 1], see `run_reward`.
        """
        settings = self.settings
        clusters = [row["cluster"] for row in rows]
        types = [settings.task_types.index(row["task_type"]) for row in rows]
        factors = qualities([str(row["question"]) for row in rows], [str(row["answer"]) for row in rows])
        rewards = [reward * factor for factor in factors]
        constants = {"utility": settings.utility, "smoothing": settings.smoothing}
        cluster_rewards = arm_rewards(self.arms, clusters, rewards, **constants).tolist()
        type_rewards = arm_rewards(self.type_arms, types, rewards, **constants).tolist()
        self.arms = self.arms.updated(clusters, cluster_rewards)
        self.type_arms = self.type_arms.updated(types, type_rewards)
        self.round += 1
        # Cluster anew into K_t clusters if that is more than now; each new arm descends from the nearest old cluster.
        count = min(settings.clusters + math.floor(settings.growth * self.round), len(self._ids))
        if count > len(self.clusters):
            finer = cluster(self._vectors, count, seed=derive(self.seed, "clusters", self.round))
            parents, _ = nearest(finer.centroids, self.clusters.centroids)
            self.clusters, self.arms = finer, self.arms.split(parents.tolist())
        return Feedback(rewards, cluster_rewards, type_rewards)

    def state(self) -> dict[str, Any]:
        """Everything but the vectors and ids, as plain JSON data that `restored` reads back exactly."""
        return {
            "version": VERSION,
            "settings": {**self.settings.model_dump(), "task_types": list(self.settings.task_types)},
            "seed": self.seed,
            "round": self.round,
            "draws": self._draws,
            **_fingerprints(self._vectors, self._ids),
            "arms": self.arms.to_dict(),
            "type_arms": self.type_arms.to_dict(),
            "used": {self._ids[row]: int(self._used[row]) for row in np.flatnonzero(self._used)},
            "centroids": self.clusters.centroids.tolist(),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any], vectors: Vectors, ids: Sequence[str]) -> Selector:
        """The selector that returned this state, over the same vectors and ids.

        Raises DataError for other data, and for the state of a selector over other vectors or ids.
        """
        try:
            if state["version"] != VERSION:
                raise DataError(f"a selector's state of version {state['version']!r:.80}, not {VERSION}")
            values = {**state["settings"], "task_types": tuple(state["settings"]["task_types"])}
            settings = SelectorSettings.build("a selector", values)
            fingerprints = _fingerprints(vectors, ids)
            for name, content in (("ids", "documents"), ("shape", "vectors"), ("vectors", "vectors")):
                if state[name] != fingerprints[name]:
                    raise DataError(
                        f"the selector was saved over other {content}: give it those that it was made with"
                    )
            clusters = Clusters.of(vectors, np.asarray(state["centroids"], dtype=np.float64))
            selector = cls(vectors, ids, settings=settings, seed=int(state["seed"]), clusters=clusters)
            selector.round, selector._draws = int(state["round"]), int(state["draws"])
            selector.arms, selector.type_arms = Arms.from_dict(state["arms"]), Arms.from_dict(state["type_arms"])
            rows = {document: row for row, document in enumerate(ids)}
            for document, uses in state["used"].items():
                selector._used[rows[document]] = int(uses)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"not the state of a selector ({type(error).__name__}: {error!s:.80})") from None
        if len(selector.arms) != len(selector.clusters) or len(selector.type_arms) != len(settings.task_types):
            raise DataError("the state of a selector has one arm for each cluster and for each task type")
        return selector

    def save(self, path: str | Path) -> None:
        """Write the state as JSON, whole or not at all."""
        write_bytes(Path(path), json.dumps(self.state(), allow_nan=False).encode())

    @classmethod
    def load(cls, path: str | Path, vectors: Vectors, ids: Sequence[str]) -> Selector:
        """Read `save`'s file; draws continue where they ended. Raises DataError as `restored`."""
        return cls.restored(read_json(Path(path)), vectors, ids)


def _fingerprints(vectors: Vectors, ids: Sequence[str]) -> dict[str, Any]:
    """Identity of the documents: shape, a digest of the ids, and a digest of up to 1,000 vectors."""
    rows = np.linspace(0, len(vectors) - 1, min(len(vectors), _FINGERPRINT_VECTORS)).astype(np.int64)
    sampled = np.ascontiguousarray(vectors[rows], dtype=np.float64)
    return {
        "shape": list(vectors.shape),
        "ids": hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest(),
        "vectors": hashlib.sha256(sampled.tobytes()).hexdigest(),
    }
