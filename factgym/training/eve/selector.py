"""EVE's corpus selector: which documents the next iteration's questions are asked about (section 3.3, appendix F).

Two UCB1 bandits draw clusters and question types, and a document is drawn within each cluster. Points that the paper
leaves open: rounds begin at t = 0, with K_0 clusters; a document is used when it is drawn; an old cluster that is nearest
to no new centroid has no child, and its statistics end with it; every row of an iteration is rewarded from the statistics
before it; only rows count as pulls, so an arm whose proposals were all invalid keeps its score. Needs the extra "selector"
(scikit-learn)."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from factgym.agents.runs.files import read_json, write_bytes
from factgym.core.config import AtLeastOne, Settings
from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.core.seeds import derive
from factgym.corpora.corpus import Passage
from factgym.text.words import terms

if TYPE_CHECKING:
    from factgym.corpora.dense import Encoder

# Clusters of a corpus: embeddings of passages, mini-batch k-means, and the nearest centroids.
#
# The paper's embeddings are E5's (`Encoder(preset="e5")`, extra "dense"). Without a model they are hashed TF-IDF, projected
# on its leading singular directions (latent semantic analysis), which keeps topics apart and runs anywhere. Labels follow
# from the centroids alone, so a saved selector holds no labels.

Vectors = NDArray[np.floating[Any]]

DIMENSIONS = 128
_HASH_FEATURES = 1 << 15
_BLOCK_ROWS = 1 << 14


def corpus_embeddings(passages: Iterable[Passage], encoder: Encoder | None = None) -> NDArray[np.float32]:
    """Unit vectors of passages (title and text), shape (passages, D). encoder: None for `text_embeddings`."""
    if encoder is not None:
        return encoder.passages(list(passages))
    return text_embeddings([f"{passage.title}\n{passage.text}" for passage in passages])


def text_embeddings(texts: Sequence[str], *, dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
    """Unit vectors of texts without a model (latent semantic analysis), shape (texts, min(dimensions, texts)).

    A text without a word has the zero vector. Deterministic in the texts and their order. Raises ConfigError for no
    text, MissingExtraError without the extra "selector".
    """
    if not texts or dimensions < 1:
        raise ConfigError("text_embeddings needs at least one text and one dimension")
    try:
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
        from sklearn.utils.extmath import randomized_svd
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError("an embedding without a model", "selector") from error
    hashed = HashingVectorizer(analyzer=terms, n_features=_HASH_FEATURES, alternate_sign=False, norm=None)
    tfidf = TfidfTransformer(sublinear_tf=True).fit_transform(hashed.transform(texts))
    components = min(dimensions, len(texts))
    # One thread: sums in another order would round differently.
    with threadpool_limits(limits=1):
        singular_vectors, singular_values, _ = randomized_svd(tfidf, n_components=components, n_iter=3, random_state=0)
    projected = singular_vectors * singular_values
    norms = np.linalg.norm(projected, axis=1, keepdims=True)
    unit = np.where(norms > 1e-9, projected / np.maximum(norms, 1e-9), 0.0)
    return np.ascontiguousarray(unit, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Clusters:
    """K clusters of N documents. centroids: (K, D). labels: the cluster of each document, (N,). distances: Euclidean,
    of each document to its centroid, (N,)."""

    centroids: NDArray[np.float64]
    labels: NDArray[np.int64]
    distances: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.centroids)

    @cached_property
    def members(self) -> list[NDArray[np.int64]]:
        """The rows of each cluster's documents, ascending; empty for an empty cluster."""
        order = np.argsort(self.labels, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.labels, minlength=len(self)))[:-1])

    @classmethod
    def of(cls, vectors: Vectors, centroids: NDArray[np.float64]) -> Clusters:
        """Assign vectors, shape (N, D), to their nearest centroids."""
        return cls(centroids, *nearest(vectors, centroids))


def cluster(vectors: Vectors, count: int, *, seed: int) -> Clusters:
    """`count` clusters, at most as many as vectors, by scikit-learn's mini-batch k-means (Sculley 2010).

    Deterministic in vectors, count and seed, for any number of threads. Raises `MissingExtraError` without the extra
    "selector".
    """
    try:
        from sklearn.cluster import MiniBatchKMeans
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError("the corpus selector", "selector") from error
    model = MiniBatchKMeans(n_clusters=min(count, len(vectors)), random_state=seed, n_init=3, compute_labels=False)
    with threadpool_limits(limits=1):
        model.fit(vectors)
    return Clusters.of(vectors, np.asarray(model.cluster_centers_, dtype=np.float64))


def nearest(vectors: Vectors, centroids: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest centroid of each vector, the first of equals, and the Euclidean distance to it."""
    labels = np.empty(len(vectors), dtype=np.int64)
    distances = np.empty(len(vectors))
    end = 0
    for block in blocks(vectors):
        start, end = end, end + len(block)
        # |v - c|² = |v|² - 2 v·c + |c|², and |v|² does not change the order of the centroids.
        indices = (-2.0 * block @ centroids.T + (centroids**2).sum(axis=1)).argmin(axis=1)
        labels[start:end] = indices
        distances[start:end] = np.sqrt(((block - centroids[indices]) ** 2).sum(axis=1))
    return labels, distances


def blocks(vectors: Vectors) -> Iterator[NDArray[np.float64]]:
    """Iterate over the vectors in blocks: they may be memory-mapped and larger than the memory."""
    for start in range(0, len(vectors), _BLOCK_ROWS):
        yield np.asarray(vectors[start : start + _BLOCK_ROWS], dtype=np.float64)


# UCB1 bandits (appendix F): scores, draws in batches, splits, and the reward of a row.

QUESTION_CHARS = (20, 220)
ANSWER_CHARS = (1, 80)
UNUSUAL_QUESTION, UNUSUAL_ANSWER = 0.65, 0.55
"""Factors for a question and for an answer whose length in characters lies outside those bounds."""


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
        bonus: NDArray[np.float64] = np.sqrt(np.log(max(int(self.pulls.sum()), 1)) / np.maximum(self.pulls, 1))
        return self.means + exploration * bonus

    def probabilities(self, exploration: float = 1.0) -> NDArray[np.float64]:
        """Probability of each arm in a batch: softmax of the scores over their standard deviation; uniform if that is 0."""
        # Standardised scores: the softmax does not depend on the scale of the rewards.
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
        """Read `to_dict`'s data."""
        return cls(np.asarray(data["pulls"], dtype=np.int64), np.asarray(data["rewards"], dtype=np.float64))


# Feedback: equations 32 and 33.
#
#     Q = q_len(question) · q_ans(answer) / √duplicates          r = R_run · Q
#     R_sel = −log(N_k / N + ε) + λ_u (r − mean reward of arm k before)
#
# The first term of R_sel rewards arms that were pulled rarely. The second compares, literally, a reward in [0, 1] with
# the arm's mean of R_sel itself, which is mostly the first term: it damps the diversity term more than it measures use.


def quality(question: str, answer: str, duplicates: int = 1) -> float:
    """Q, equation 32, in [0, 1]. duplicates: occurrences of the question in its batch, itself included."""
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


# The selector: documents drawn from the clusters that the bandits choose.

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
                    raise DataError(f"the selector was saved over other {content}: give it those that it was made with")
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
