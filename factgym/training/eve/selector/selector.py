"""The selector: draws documents and question types, is told what became of them, and splits its clusters as it goes.

Source: EVE, section 3.3 and appendix F. What the paper leaves open is settled so: the rounds begin at t = 0, with K_0
clusters; every row of an iteration is rewarded from the statistics before it; only rows count as pulls, so an arm whose
proposals were all invalid keeps its score; a document is used when it is drawn; an old cluster that no new centroid is
nearest to has no child, and its statistics end with it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from factgym.core.config import build_checked
from factgym.core.errors import ConfigError, DataError
from factgym.core.seeds import derive
from factgym.training.eve.selector.bag import Bag
from factgym.training.eve.selector.bandit import Arms
from factgym.training.eve.selector.clusters import Clusters, Vectors, blocks, cluster, nearest
from factgym.training.eve.selector.feedback import arm_rewards, qualities

TASK_TYPES = ("factual", "comparison", "causal", "temporal", "aggregation")
VERSION = 1

_SAMPLED = 1_000


class Choice(NamedTuple):
    """What to ask about: a document's id, the cluster it was drawn for, and the wanted type of question."""

    document: str
    cluster: int
    task_type: str


class Feedback(NamedTuple):
    """What each row of an iteration earned, in its order: r, and R_sel of its cluster and of its task type."""

    rewards: list[float]
    clusters: list[float]
    task_types: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorSettings:
    """The paper's constants. clusters, growth: K_t = clusters + ⌊growth · t⌋ (K_0 and α), never more than documents.

    exploration: β. utility, smoothing: λ_u and ε of the feedback. task_types: the arms of the second bandit.
    Raises ConfigError for a value out of range.
    """

    clusters: int = 10
    growth: float = 0.0
    exploration: float = 1.0
    utility: float = 0.5
    smoothing: float = 1e-8
    task_types: tuple[str, ...] = TASK_TYPES

    def __post_init__(self) -> None:
        if self.clusters < 1:
            raise ConfigError(f"a selector has at least one cluster, not {self.clusters}")
        for name in ("growth", "exploration", "utility", "smoothing"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"SelectorSettings.{name} must be a finite number of at least 0, not {value!r:.80}")
        if not self.task_types or len(set(self.task_types)) < len(self.task_types):
            raise ConfigError("SelectorSettings.task_types must name at least one type, and none twice")


class Selector:
    """Two UCB1 bandits, over clusters of documents and over types of question, and a draw within the chosen cluster.

    Not safe under threads. Deterministic: the same vectors, ids, settings and seed, and the same calls, give the same
    choices, also after `save` and `load`.
    """

    def __init__(
        self, vectors: Vectors, ids: Sequence[str], *, settings: SelectorSettings | None = None, seed: int = 0
    ) -> None:
        """vectors: of the documents, shape (N, D), finite; they may be memory-mapped. ids: N different ids.

        Raises ConfigError for other shapes, MissingExtraError without the extra "selector".
        """
        settings = settings or SelectorSettings()
        self._open(vectors, ids, settings, seed)
        self._clusters = cluster(self._vectors, settings.clusters, seed=derive(seed, "clusters", 0))
        self._arms = Arms.fresh(len(self._clusters))
        self._type_arms = Arms.fresh(len(settings.task_types))

    def _open(self, vectors: Vectors, ids: Sequence[str], settings: SelectorSettings, seed: int) -> None:
        self._vectors, self._ids = _checked(vectors, ids)
        self._row_of = {one: row for row, one in enumerate(self._ids)}
        if len(self._row_of) < len(self._ids):
            raise ConfigError("the ids of a selector's documents must differ from each other")
        self.settings = settings
        self.seed = seed
        self.round = 0
        self._draws = 0
        self._used = np.zeros(len(self._ids), dtype=np.int64)

    @property
    def clusters(self) -> Clusters:
        """The clusters of the present round."""
        return self._clusters

    @property
    def arms(self) -> Arms:
        """The cluster bandit, one arm a cluster."""
        return self._arms

    @property
    def type_arms(self) -> Arms:
        """The task-type bandit, in the order of `settings.task_types`."""
        return self._type_arms

    def cluster_of(self, document: str) -> int:
        """The cluster that a document lies in. Raises DataError for an id that it does not know."""
        if document not in self._row_of:
            raise DataError(f"the selector has no document {document!r:.80}")
        return int(self._clusters.labels[self._row_of[document]])

    def draw(self, count: int) -> list[Choice]:
        """`count` choices for the coming iteration; a document may come more than once, the more rarely the more often
        it was drawn. Raises ConfigError for a count below 0."""
        if count < 0:
            raise ConfigError(f"a selector draws 0 or more documents, not {count}")
        if not count:
            return []
        rng = np.random.default_rng(derive(self.seed, "draw", self._draws))
        self._draws += 1
        beta = self.settings.exploration
        clusters = self._arms.choose(count, rng, beta)
        types = self._type_arms.choose(count, rng, beta)
        bags = {one: Bag(self._clusters, one, self._used) for one in sorted(set(clusters))}
        return [
            Choice(self._ids[bags[one].pick(rng)], one, self.settings.task_types[kind])
            for one, kind in zip(clusters, types, strict=True)
        ]

    def feedback(self, rows: Sequence[Mapping[str, Any]], reward: float) -> Feedback:
        """End a round: update both bandits, and cluster anew when the next round has more clusters.

        rows: the iteration's rows, each with `question`, `answer`, `cluster` and `task_type` (other keys are ignored);
        `cluster` is that of the round's choices. reward: R_run in [0, 1], see `run_reward`. Returns what the rows
        earned. Raises ConfigError for another reward, DataError for a row that lacks something.
        """
        if not 0.0 <= reward <= 1.0:
            raise ConfigError(f"the run's reward lies between 0 and 1, not at {reward!r:.80}: see run_reward")
        questions, answers, clusters, types = self._columns(rows)
        rewards = [reward * one for one in qualities(questions, answers)]
        how = {"utility": self.settings.utility, "smoothing": self.settings.smoothing}
        of_clusters = arm_rewards(self._arms, clusters, rewards, **how).tolist()
        of_types = arm_rewards(self._type_arms, types, rewards, **how).tolist()
        self._arms = self._arms.updated(clusters, of_clusters)
        self._type_arms = self._type_arms.updated(types, of_types)
        self.round += 1
        self._split()
        return Feedback(rewards, of_clusters, of_types)

    def _columns(self, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str], list[int], list[int]]:
        questions, answers, clusters, types = [], [], [], []
        for number, row in enumerate(rows, 1):
            try:
                question, answer, at, kind = (row[name] for name in ("question", "answer", "cluster", "task_type"))
            except KeyError as error:
                raise DataError(f"row {number} of the selector's feedback lacks {error}") from None
            if type(at) is not int or not 0 <= at < len(self._clusters):
                raise DataError(f"row {number}: there is no cluster {at!r:.80}, only 0 to {len(self._clusters) - 1}")
            if kind not in self.settings.task_types:
                raise DataError(f"row {number}: {kind!r:.80} is none of {', '.join(self.settings.task_types)}")
            questions.append(str(question))
            answers.append(str(answer))
            clusters.append(at)
            types.append(self.settings.task_types.index(kind))
        return questions, answers, clusters, types

    def _split(self) -> None:
        wanted = min(self.settings.clusters + math.floor(self.settings.growth * self.round), len(self._ids))
        if wanted <= len(self._clusters):
            return
        finer = cluster(self._vectors, wanted, seed=derive(self.seed, "clusters", self.round))
        parents, _ = nearest(finer.centroids, self._clusters.centroids)
        self._clusters, self._arms = finer, self._arms.split(parents.tolist())

    def describe(self) -> dict[str, Any]:
        """What a manifest keeps: settings, seed, and what the vectors and ids were."""
        return {**asdict(self.settings), "seed": self.seed, **self._fingerprints}

    @cached_property
    def _fingerprints(self) -> dict[str, Any]:
        return fingerprints(self._vectors, self._ids)

    def state(self) -> dict[str, Any]:
        """Everything but the vectors and ids, as plain JSON data that `restored` reads back exactly."""
        used = np.flatnonzero(self._used)
        return {
            "version": VERSION,
            "settings": {**asdict(self.settings), "task_types": list(self.settings.task_types)},
            "seed": self.seed,
            "round": self.round,
            "draws": self._draws,
            **self._fingerprints,
            "arms": self._arms.to_dict(),
            "type_arms": self._type_arms.to_dict(),
            "used": {self._ids[row]: int(self._used[row]) for row in used},
            "centroids": self._clusters.centroids.tolist(),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any], vectors: Vectors, ids: Sequence[str]) -> Selector:
        """The selector that gave this state, over the same vectors and ids.

        Raises DataError when the state is none, or was of other vectors or ids.
        """
        made = cls.__new__(cls)
        try:
            if state["version"] != VERSION:
                raise DataError(f"a selector's state of version {state['version']!r:.80}, not {VERSION}")
            settings = {**state["settings"], "task_types": tuple(state["settings"]["task_types"])}
            made._open(vectors, ids, build_checked(SelectorSettings, "a selector", settings), int(state["seed"]))
            _check_same(state, made._fingerprints)
            made.round, made._draws = int(state["round"]), int(state["draws"])
            made._arms, made._type_arms = Arms.from_dict(state["arms"]), Arms.from_dict(state["type_arms"])
            for document, uses in state["used"].items():
                made._used[made._row_of[document]] = int(uses)
            made._clusters = Clusters.of(made._vectors, np.asarray(state["centroids"], dtype=np.float64))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"not the state of a selector ({type(error).__name__}: {error!s:.80})") from None
        if len(made._arms) != len(made._clusters) or len(made._type_arms) != len(made.settings.task_types):
            raise DataError("the state of a selector has one arm for each cluster and for each task type")
        return made

    def save(self, path: str | Path) -> None:
        """Write the state as JSON, whole or not at all."""
        path = Path(path)
        beside = path.with_name(f".{path.name}.part")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(self.state(), file, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    @classmethod
    def load(cls, path: str | Path, vectors: Vectors, ids: Sequence[str]) -> Selector:
        """The selector that `save` wrote; draws go on as if it had never been away. Raises DataError as `restored`."""
        try:
            state = json.loads(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is not the file of a selector: {error!s:.200}") from None
        return cls.restored(state, vectors, ids)


def fingerprints(vectors: Vectors, ids: Sequence[str]) -> dict[str, Any]:
    """What tells other vectors and ids from these: shape, a digest of the ids, and one of up to 1,000 vectors."""
    rows = np.linspace(0, len(vectors) - 1, min(len(vectors), _SAMPLED)).astype(np.int64)
    sampled = np.ascontiguousarray(vectors[rows], dtype=np.float64)
    return {
        "shape": list(vectors.shape),
        "ids": hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest(),
        "vectors": hashlib.sha256(sampled.tobytes()).hexdigest(),
    }


def _check_same(state: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    for name, what in (("ids", "documents"), ("shape", "vectors"), ("vectors", "vectors")):
        if state[name] != found[name]:
            raise DataError(f"the selector was saved over other {what}: give it those that it was made with")


def _checked(vectors: Vectors, ids: Sequence[str]) -> tuple[Vectors, tuple[str, ...]]:
    ids = tuple(ids)
    if getattr(vectors, "ndim", 0) != 2 or not len(vectors) or len(vectors) != len(ids):
        shape = getattr(vectors, "shape", "none")
        raise ConfigError(
            f"a selector needs vectors of shape (N, D) and N ids, N at least 1, not {shape} and {len(ids)}"
        )
    if not all(np.isfinite(block).all() for block in blocks(vectors)):
        raise ConfigError("the vectors of a selector must be finite numbers")
    return vectors, ids
