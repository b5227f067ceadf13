"""EVE's corpus selector: which documents the next iteration's questions are asked about (section 3.3, appendix F).

    vectors = corpus_embeddings(corpus)
    selector = Selector(vectors, corpus.ids, settings=SelectorSettings(growth=2.0), seed=0)
    choices = selector.draw(256)                        # document, cluster and question type, 256 times
    selector.feedback(rows, run_reward(.8, .4))         # after the iteration: its valid questions

Two UCB1 bandits draw clusters and question types, and a document is drawn within each cluster. Points that the paper
leaves open: rounds begin at t = 0, with K_0 clusters; every row of an iteration is rewarded from the statistics before
it; only rows count as pulls, so an arm whose proposals were all invalid keeps its score; a document is used when it is
drawn; an old cluster that is nearest to no new centroid has no child, and its statistics end with it.

Needs the extra "selector" (scikit-learn), which is imported when a selector or an embedding is first made.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.core.config import build_checked
from factgym.core.errors import ConfigError, DataError
from factgym.core.seeds import derive
from factgym.training.eve.clusters import Clusters, Vectors, blocks, cluster, nearest

TASK_TYPES = ("factual", "comparison", "causal", "temporal", "aggregation")
VERSION = 1

QUESTION_CHARS = (20, 220)
ANSWER_CHARS = (1, 80)
UNUSUAL_QUESTION, UNUSUAL_ANSWER = 0.65, 0.55
"""Factors for a question and for an answer whose length in characters lies outside those bounds."""

_FINGERPRINT_VECTORS = 1_000
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Arms:
    """Statistics of the K ≥ 1 arms of a UCB1 bandit (EVE, equation 30). pulls: N, whole numbers, shape (K,).
    rewards: sums S, shape (K,).

    Immutable: an update makes new arms.
    """

    pulls: NDArray[np.int64]
    rewards: NDArray[np.float64]

    @classmethod
    def fresh(cls, count: int) -> Arms:
        """Arms with one virtual pull each and no reward, so that every score is finite."""
        return cls(np.ones(count, dtype=np.int64), np.zeros(count))

    def __len__(self) -> int:
        return len(self.pulls)

    @property
    def means(self) -> NDArray[np.float64]:
        """Mean reward of each arm."""
        return self.rewards / np.maximum(self.pulls, 1)

    def scores(self, exploration: float = 1.0) -> NDArray[np.float64]:
        """U, equation 30: mean reward plus `exploration` (β) · √(log of all pulls / pulls)."""
        total = max(int(self.pulls.sum()), 1)
        bonus: NDArray[np.float64] = np.sqrt(np.log(total) / np.maximum(self.pulls, 1))
        return self.means + exploration * bonus

    def probabilities(self, exploration: float = 1.0) -> NDArray[np.float64]:
        """Probability of each arm in a batch: softmax of the scores over their standard deviation; uniform if that is 0."""
        scores = self.scores(exploration)
        spread = scores.std()
        # Equal scores differ by rounding only, and a quotient of such differences is noise.
        logits = (scores - scores.max()) / spread if spread > 1e-12 * max(1.0, abs(scores.max())) else 0.0 * scores
        weights = np.exp(logits)
        probabilities: NDArray[np.float64] = weights / weights.sum()
        return probabilities

    def choose(self, count: int, rng: np.random.Generator, exploration: float = 1.0) -> list[int]:
        """Arms to pull: the arm with the best score (the first of equals) for count 1, else draws by `probabilities`."""
        if count == 1:
            return [int(self.scores(exploration).argmax())]
        arms: list[int] = rng.choice(len(self), size=count, p=self.probabilities(exploration)).tolist()
        return arms

    def updated(self, arms: Sequence[int], rewards: Iterable[float]) -> Arms:
        """The statistics after one pull of each of `arms` (repeats allowed) with these rewards."""
        pulls, sums = self.pulls.copy(), self.rewards.copy()
        np.add.at(pulls, list(arms), 1)
        np.add.at(sums, list(arms), list(rewards))
        return Arms(pulls, sums)

    def split(self, parents: Sequence[int]) -> Arms:
        """The arms that replace these: new arm i descends from old arm `parents[i]`.

        Each of an old arm's n children has max(⌊N / n⌋, 1) pulls and S / n reward. An arm without children ends.
        """
        origin = np.asarray(parents, dtype=np.int64)
        children = np.bincount(origin, minlength=len(self))[origin]
        return Arms(np.maximum(self.pulls[origin] // children, 1), self.rewards[origin] / children)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data that `from_dict` reads back exactly."""
        return {"pulls": self.pulls.tolist(), "rewards": self.rewards.tolist()}

    @classmethod
    def from_dict(cls, data: Any) -> Arms:
        """Read `to_dict`'s data. Raises DataError for other data."""
        try:
            pulls = np.asarray(data["pulls"], dtype=np.int64)
            rewards = np.asarray(data["rewards"], dtype=np.float64)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise DataError("a bandit's arms are an object with lists of pulls and rewards") from None
        if pulls.ndim != 1 or not len(pulls) or pulls.shape != rewards.shape or not np.isfinite(rewards).all():
            raise DataError("a bandit's pulls and rewards are lists of numbers of one length")
        return cls(pulls, rewards)


# Feedback: equations 32 and 33.
#
#     Q = q_len(question) · q_ans(answer) / √duplicates          r = R_run · Q
#     R_sel = −log(N_k / N + ε) + λ_u (r − mean reward of arm k before)
#
# The first term of R_sel rewards arms that were pulled rarely. The second compares, literally, a reward in [0, 1] with
# the arm's mean of R_sel itself, which is mostly the first term: it damps the diversity term more than it measures use.


def quality(question: str, answer: str, duplicates: int = 1) -> float:
    """Q, equation 32, in [0, 1]. duplicates: occurrences of the question in its batch, this one included."""
    question_factor = 1.0 if QUESTION_CHARS[0] <= len(question) <= QUESTION_CHARS[1] else UNUSUAL_QUESTION
    answer_factor = 1.0 if ANSWER_CHARS[0] <= len(answer) <= ANSWER_CHARS[1] else UNUSUAL_ANSWER
    return question_factor * answer_factor / math.sqrt(max(duplicates, 1))


def qualities(questions: Sequence[str], answers: Iterable[str]) -> list[float]:
    """Q of every row of a batch; questions with the same text are duplicates."""
    counts = Counter(questions)
    return [quality(question, answer, counts[question]) for question, answer in zip(questions, answers, strict=True)]


def run_reward(proposer: float, solver: float) -> float:
    """R_run: the average of the latest mean rewards of proposer and solver, each clipped to [0, 1].

    The proposer's mean can exceed 1 or be negative; the paper requires the average in [0, 1] without saying how.
    """
    if not (math.isfinite(proposer) and math.isfinite(solver)):
        raise ConfigError(f"mean rewards must be finite, not {proposer!r:.80} and {solver!r:.80}")
    return (min(max(proposer, 0.0), 1.0) + min(max(solver, 0.0), 1.0)) / 2


def arm_rewards(
    arms: Arms, pulled: Sequence[int], rewards: Sequence[float], *, utility: float = 0.5, smoothing: float = 1e-8
) -> NDArray[np.float64]:
    """R_sel of every row, equation 33, all from the arms as they were before this batch. Shape (rows,).

    pulled: the arm of each row. rewards: r of each row. utility, smoothing: λ_u and ε.
    """
    indices = np.asarray(pulled, dtype=np.int64)
    diversity = -np.log(arms.pulls[indices] / max(int(arms.pulls.sum()), 1) + smoothing)
    total: NDArray[np.float64] = diversity + utility * (np.asarray(rewards, dtype=np.float64) - arms.means[indices])
    return total


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

    clusters: of the present round. arms: the cluster bandit, an arm for each cluster. type_arms: the task-type bandit,
    in the order of `settings.task_types`. round: t, from 0.

    Not safe under threads. Deterministic: the same vectors, ids, settings and seed, and the same calls, give the same
    choices, also after `save` and `load`.
    """

    clusters: Clusters
    arms: Arms
    type_arms: Arms

    def __init__(
        self, vectors: Vectors, ids: Sequence[str], *, settings: SelectorSettings | None = None, seed: int = 0
    ) -> None:
        """vectors: of the documents, shape (N, D), finite; they may be memory-mapped. ids: N different ids.

        Raises ConfigError for other shapes, MissingExtraError without the extra "selector".
        """
        settings = settings or SelectorSettings()
        self._initialize(vectors, ids, settings, seed)
        self.clusters = cluster(self._vectors, settings.clusters, seed=derive(seed, "clusters", 0))
        self.arms = Arms.fresh(len(self.clusters))
        self.type_arms = Arms.fresh(len(settings.task_types))

    def _initialize(self, vectors: Vectors, ids: Sequence[str], settings: SelectorSettings, seed: int) -> None:
        """Check the documents and set everything that a new and a restored selector have in common."""
        ids = tuple(ids)
        if getattr(vectors, "ndim", 0) != 2 or not len(vectors) or len(vectors) != len(ids):
            shape = getattr(vectors, "shape", "none")
            raise ConfigError(
                f"a selector needs vectors of shape (N, D) and N ids, N at least 1, not {shape} and {len(ids)}"
            )
        if not all(np.isfinite(block).all() for block in blocks(vectors)):
            raise ConfigError("the vectors of a selector must be finite numbers")
        self._vectors, self._ids = vectors, ids
        self._row_of = {document: row for row, document in enumerate(ids)}
        if len(self._row_of) < len(ids):
            raise ConfigError("the ids of a selector's documents must differ from each other")
        self.settings = settings
        self.seed = seed
        self.round = 0
        self._draws = 0
        self._used = np.zeros(len(ids), dtype=np.int64)

    def cluster_of(self, document: str) -> int:
        """The cluster of a document. Raises DataError for an unknown id."""
        if document not in self._row_of:
            raise DataError(f"the selector has no document {document!r:.80}")
        return int(self.clusters.labels[self._row_of[document]])

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
        `cluster` is that of the round's choices. reward: R_run in [0, 1], see `run_reward`. Raises ConfigError for
        another reward, DataError for an invalid row.
        """
        if not 0.0 <= reward <= 1.0:
            raise ConfigError(f"the run's reward lies between 0 and 1, not at {reward!r:.80}: see run_reward")
        questions, answers, clusters, types = self._columns(rows)
        rewards = [reward * factor for factor in qualities(questions, answers)]
        constants = {"utility": self.settings.utility, "smoothing": self.settings.smoothing}
        cluster_rewards = arm_rewards(self.arms, clusters, rewards, **constants).tolist()
        type_rewards = arm_rewards(self.type_arms, types, rewards, **constants).tolist()
        self.arms = self.arms.updated(clusters, cluster_rewards)
        self.type_arms = self.type_arms.updated(types, type_rewards)
        self.round += 1
        self._split()
        return Feedback(rewards, cluster_rewards, type_rewards)

    def _columns(self, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str], list[int], list[int]]:
        """Questions, answers, and the arms of clusters and task types of checked rows."""
        questions, answers, clusters, types = [], [], [], []
        for number, row in enumerate(rows, 1):
            try:
                question, answer, index, task_type = (
                    row[name] for name in ("question", "answer", "cluster", "task_type")
                )
            except KeyError as error:
                raise DataError(f"row {number} of the selector's feedback lacks {error}") from None
            if type(index) is not int or not 0 <= index < len(self.clusters):
                raise DataError(f"row {number}: there is no cluster {index!r:.80}, only 0 to {len(self.clusters) - 1}")
            if task_type not in self.settings.task_types:
                raise DataError(f"row {number}: {task_type!r:.80} is none of {', '.join(self.settings.task_types)}")
            questions.append(str(question))
            answers.append(str(answer))
            clusters.append(index)
            types.append(self.settings.task_types.index(task_type))
        return questions, answers, clusters, types

    def _split(self) -> None:
        """Cluster anew into K_t clusters if that is more than now; each new arm descends from the nearest old cluster."""
        count = min(self.settings.clusters + math.floor(self.settings.growth * self.round), len(self._ids))
        if count <= len(self.clusters):
            return
        finer = cluster(self._vectors, count, seed=derive(self.seed, "clusters", self.round))
        parents, _ = nearest(finer.centroids, self.clusters.centroids)
        self.clusters, self.arms = finer, self.arms.split(parents.tolist())

    def describe(self) -> dict[str, Any]:
        """Settings, seed, and fingerprints of vectors and ids, for a manifest."""
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
            "arms": self.arms.to_dict(),
            "type_arms": self.type_arms.to_dict(),
            "used": {self._ids[row]: int(self._used[row]) for row in used},
            "centroids": self.clusters.centroids.tolist(),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any], vectors: Vectors, ids: Sequence[str]) -> Selector:
        """The selector that returned this state, over the same vectors and ids.

        Raises DataError for other data, and for the state of a selector over other vectors or ids.
        """
        selector = cls.__new__(cls)
        try:
            if state["version"] != VERSION:
                raise DataError(f"a selector's state of version {state['version']!r:.80}, not {VERSION}")
            values = {**state["settings"], "task_types": tuple(state["settings"]["task_types"])}
            settings = build_checked(SelectorSettings, "a selector", values)
            selector._initialize(vectors, ids, settings, int(state["seed"]))
            for name, content in (("ids", "documents"), ("shape", "vectors"), ("vectors", "vectors")):
                if state[name] != selector._fingerprints[name]:
                    raise DataError(
                        f"the selector was saved over other {content}: give it those that it was made with"
                    )
            selector.round, selector._draws = int(state["round"]), int(state["draws"])
            selector.arms, selector.type_arms = Arms.from_dict(state["arms"]), Arms.from_dict(state["type_arms"])
            for document, uses in state["used"].items():
                selector._used[selector._row_of[document]] = int(uses)
            selector.clusters = Clusters.of(selector._vectors, np.asarray(state["centroids"], dtype=np.float64))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"not the state of a selector ({type(error).__name__}: {error!s:.80})") from None
        if len(selector.arms) != len(selector.clusters) or len(selector.type_arms) != len(settings.task_types):
            raise DataError("the state of a selector has one arm for each cluster and for each task type")
        return selector

    def save(self, path: str | Path) -> None:
        """Write the state as JSON, whole or not at all."""
        path = Path(path)
        temporary = path.with_name(f".{path.name}.part")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(self.state(), file, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    @classmethod
    def load(cls, path: str | Path, vectors: Vectors, ids: Sequence[str]) -> Selector:
        """Read `save`'s file; draws continue where they ended. Raises DataError as `restored`."""
        try:
            state = json.loads(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is not the file of a selector: {error!s:.200}") from None
        return cls.restored(state, vectors, ids)


def fingerprints(vectors: Vectors, ids: Sequence[str]) -> dict[str, Any]:
    """Identity of vectors and ids: shape, a digest of the ids, and a digest of up to 1,000 vectors."""
    rows = np.linspace(0, len(vectors) - 1, min(len(vectors), _FINGERPRINT_VECTORS)).astype(np.int64)
    sampled = np.ascontiguousarray(vectors[rows], dtype=np.float64)
    return {
        "shape": list(vectors.shape),
        "ids": hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest(),
        "vectors": hashlib.sha256(sampled.tobytes()).hexdigest(),
    }
