"""The selector as a whole: what it draws, how clusters split, that it can be put away and taken up again."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.corpora.dense import Encoder
from factgym.generators.multihop_world import world
from factgym.training.eve.selector import (
    Arms,
    Choice,
    Clusters,
    Selector,
    SelectorSettings,
    cluster,
    corpus_embeddings,
    text_embeddings,
)

pytest.importorskip("sklearn", reason="needs scikit-learn, of the extra 'selector'")

TOPICS = 40


def topical(seed: int, documents: int = 2_000, dimensions: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around the centres of topics of very different size, and the topic of each."""
    rng = np.random.default_rng(seed)
    sizes = 1 / np.arange(1, TOPICS + 1) ** 1.2
    topics = np.concatenate([np.arange(TOPICS), rng.choice(TOPICS, documents - TOPICS, p=sizes / sizes.sum())])
    centres = rng.normal(size=(TOPICS, dimensions))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return (centres[topics] + 0.12 * rng.normal(size=(documents, dimensions))).astype(np.float32), topics


def ids_of(vectors: np.ndarray) -> list[str]:
    return [f"d{i}" for i in range(len(vectors))]


def rows_of(choices: list[Choice], start: int = 0) -> list[dict[str, object]]:
    return [
        {"question": f"Which thing is it, number {start + i}?", "answer": "x", **choice._asdict()}
        for i, choice in enumerate(choices)
    ]


def played(selector: Selector, rounds: int, count: int) -> list[Choice]:
    drawn: list[Choice] = []
    for _ in range(rounds):
        choices = selector.draw(count)
        selector.feedback(rows_of(choices, len(drawn)), 0.6)
        drawn += choices
    return drawn


def entropy(topics: np.ndarray) -> float:
    shares = np.bincount(topics)[np.bincount(topics) > 0] / len(topics)
    return float(-(shares * np.log(shares)).sum())


@pytest.mark.parametrize("growth", [0.0, 1.0])
def test_more_topics_than_uniform_sampling(growth: float) -> None:
    """Against what uniform sampling covers on average; single runs may fall behind it."""
    gains, spreads = [], []
    for seed in range(12):
        vectors, topics = topical(seed)
        selector = Selector(vectors, ids_of(vectors), settings=SelectorSettings(growth=growth), seed=seed)
        drawn = topics[[int(choice.document[1:]) for choice in played(selector, 6, 20)]]
        rng = np.random.default_rng(100 + seed)
        uniform = [rng.choice(topics, len(drawn)) for _ in range(20)]
        gains.append(len(set(drawn)) - np.mean([len(set(sample)) for sample in uniform]))
        spreads.append(entropy(drawn) - np.mean([entropy(sample) for sample in uniform]))
    assert np.mean(gains) > 1.5
    assert np.mean(np.array(gains) > 0) >= 0.75
    assert np.mean(np.array(spreads) > 0) >= 0.9
    assert np.mean(spreads) > 0.3


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    vectors, _ = topical(0, 400)
    made = [Selector(vectors, ids_of(vectors), settings=SelectorSettings(growth=1.5), seed=s) for s in (3, 3, 4)]
    first, second, other = (played(selector, 4, 12) for selector in made)
    assert first == second
    assert first != other
    np.random.seed(0)
    again = Selector(vectors, ids_of(vectors), settings=SelectorSettings(growth=1.5), seed=3)
    assert played(again, 4, 12) == first


def test_saved_and_loaded_it_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    vectors, _ = topical(1, 400)
    ids = ids_of(vectors)
    selector = Selector(vectors, ids, settings=SelectorSettings(growth=2.5, exploration=0.7), seed=11)
    played(selector, 3, 16)
    selector.draw(5)
    selector.save(tmp_path / "selector.json")
    loaded = Selector.load(tmp_path / "selector.json", vectors, ids)
    assert loaded.state() == selector.state()
    assert (loaded.clusters.labels == selector.clusters.labels).all()
    assert played(loaded, 3, 16) == played(selector, 3, 16)
    assert loaded.state() == selector.state()
    assert [path.name for path in tmp_path.iterdir()] == ["selector.json"]


def test_another_corpus_is_refused(tmp_path: Path) -> None:
    vectors, _ = topical(1, 100)
    ids = ids_of(vectors)
    path = tmp_path / "selector.json"
    Selector(vectors, ids).save(path)
    for others, names in ((vectors, ids[::-1]), (vectors + 1, ids), (vectors[:, :8], ids)):
        with pytest.raises(DataError, match="saved over other"):
            Selector.load(path, others, names)
    state = json.loads(path.read_text())
    for broken in (
        {},
        {**state, "version": 2},
        {**state, "arms": {"pulls": [1], "rewards": [0]}},
        {**state, "used": {"zebra": 1}},
        {**state, "centroids": "none"},
        {**state, "settings": {**state["settings"], "cluster": 3}},
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises((DataError, ConfigError)):
            Selector.load(path, vectors, ids)
    path.write_text("{")
    with pytest.raises(DataError, match="holds no valid JSON"):
        Selector.load(path, vectors, ids)


def test_clusters_grow_by_the_schedule_and_inherit() -> None:
    vectors, _ = topical(2, 300)
    selector = Selector(vectors, ids_of(vectors), settings=SelectorSettings(clusters=6, growth=0.75), seed=0)
    sizes = [len(selector.clusters)]
    for _ in range(5):
        before, old = selector.arms, selector.clusters
        choices = selector.draw(10)
        earned = selector.feedback(rows_of(choices), 0.5)
        updated = before.updated([choice.cluster for choice in choices], earned.clusters)
        sizes.append(len(selector.clusters))
        if len(selector.clusters) == len(old):
            assert selector.arms.rewards == pytest.approx(updated.rewards)
            assert selector.clusters is old
            continue
        nearest = [
            min(range(len(old)), key=lambda j, c=centre: math.dist(c, old.centroids[j]))
            for centre in selector.clusters.centroids
        ]
        expected = updated.split(nearest)
        assert selector.arms.rewards == pytest.approx(expected.rewards)
        assert selector.arms.pulls.tolist() == expected.pulls.tolist()
        retained = sum(updated.rewards[j] for j in set(nearest))
        assert selector.arms.rewards.sum() == pytest.approx(retained)
    assert sizes == [6 + math.floor(0.75 * t) for t in range(6)]


def test_no_more_clusters_than_documents() -> None:
    vectors = np.eye(3, dtype=np.float32)
    selector = Selector(vectors, ["a", "b", "c"], settings=SelectorSettings(clusters=10, growth=5.0))
    played(selector, 3, 4)
    assert len(selector.clusters) == 3
    assert {choice.document for choice in selector.draw(60)} == {"a", "b", "c"}


def test_a_document_is_drawn_by_its_distance_and_its_uses() -> None:
    """One cluster: chances are δ / (1 + u), brought up to date with every draw."""
    vectors = np.array([[0.0], [1.0], [2.0], [9.0]], dtype=np.float32)
    ids = ["a", "b", "c", "d"]
    selector = Selector(vectors, ids, settings=SelectorSettings(clusters=1))
    distances = selector.clusters.distances
    state = selector.state()
    pairs = [
        tuple(choice.document for choice in Selector.restored({**state, "seed": seed}, vectors, ids).draw(2))
        for seed in range(4_000)
    ]
    first = [pairs.count((a, b)) / len(pairs) for a in ids for b in ids]
    exact = []
    for i, weight in enumerate(distances):
        after = distances / np.where(np.arange(4) == i, 2, 1)
        exact += list(weight / distances.sum() * after / after.sum())
    assert first == pytest.approx(exact, abs=0.025)
    used = [Selector.restored({**state, "seed": s, "used": {"d": 5}}, vectors, ids).draw(1)[0] for s in range(3_000)]
    weights = distances / np.array([1, 1, 1, 6])
    assert sum(choice.document == "d" for choice in used) / 3_000 == pytest.approx(weights[3] / weights.sum(), abs=0.03)
    many = [choice.document for choice in selector.draw(4_000)]
    # The uses of a document grow by δ / (1 + u): in the long run they are as the square root of δ.
    roots = np.sqrt(distances)
    assert [many.count(document) / 4_000 for document in ids] == pytest.approx(roots / roots.sum(), abs=0.02)


def test_documents_that_are_all_alike_are_drawn_uniformly() -> None:
    selector = Selector(np.ones((5, 3), dtype=np.float32), list("abcde"), settings=SelectorSettings(clusters=1))
    drawn = [choice.document for choice in selector.draw(500)]
    assert min(drawn.count(document) for document in "abcde") > 60


def test_an_empty_cluster_falls_back_to_the_whole_corpus() -> None:
    vectors, _ = topical(0, 60)
    selector = Selector(vectors, ids_of(vectors), settings=SelectorSettings(clusters=2))
    far = np.vstack([vectors.mean(axis=0), np.full(vectors.shape[1], 1e3)]).astype(np.float64)
    state = {**selector.state(), "centroids": far.tolist()}
    emptied = Selector.restored(state, vectors, ids_of(vectors))
    assert [len(rows) for rows in emptied.clusters.members] == [60, 0]
    drawn = emptied.draw(200)
    assert {choice.cluster for choice in drawn} == {0, 1}
    assert len({choice.document for choice in drawn if choice.cluster == 1}) > 30


def test_choices_carry_the_types_of_the_second_bandit() -> None:
    vectors, _ = topical(0, 100)
    settings = SelectorSettings(task_types=("factual", "causal"))
    selector = Selector(vectors, ids_of(vectors), settings=settings)
    choices = selector.draw(50)
    assert {choice.task_type for choice in choices} == {"factual", "causal"}
    rows = [{**row, "task_type": "factual"} for row in rows_of(choices)]
    earned = selector.feedback(rows, 1.0)
    assert selector.type_arms.pulls.tolist() == [51, 1]
    expected = [-math.log(1 / 2 + 1e-8) + 0.5 * reward for reward in earned.rewards]
    assert earned.task_types == pytest.approx(expected)
    assert selector.draw(1)[0].task_type == settings.task_types[int(selector.type_arms.scores().argmax())]


def test_a_round_without_rows_changes_no_bandit() -> None:
    vectors, _ = topical(0, 100)
    selector = Selector(vectors, ids_of(vectors))
    assert selector.feedback([], 0.0).rewards == []
    assert selector.round == 1
    assert selector.arms.pulls.sum() == len(selector.clusters)


def test_vectors_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ConfigError, match="finite"):
        Selector(np.array([[1.0], [math.nan]]), ["a", "b"])


def test_settings_are_checked() -> None:
    for bad in (
        {"clusters": 0},
        {"growth": -1.0},
        {"utility": math.inf},
        {"task_types": ()},
        {"task_types": ("a", "a")},
    ):
        with pytest.raises(ConfigError, match=next(iter(bad))):
            SelectorSettings(**bad)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="0 or more"):
        Selector(np.eye(2), ["a", "b"]).draw(-1)


def test_labels_follow_from_the_centroids() -> None:
    vectors, _ = topical(4, 500)
    clusters = cluster(vectors, 12, seed=1)
    brute = [min(range(12), key=lambda j: math.dist(vector, clusters.centroids[j])) for vector in vectors.tolist()]
    assert clusters.labels.tolist() == brute
    distances = [math.dist(vector, clusters.centroids[j]) for vector, j in zip(vectors.tolist(), brute, strict=True)]
    assert clusters.distances == pytest.approx(distances, abs=1e-6)
    assert sorted(row for rows in clusters.members for row in rows) == list(range(500))
    assert all((clusters.labels[rows] == k).all() for k, rows in enumerate(clusters.members))
    assert isinstance(Clusters.of(vectors, clusters.centroids).labels[0], np.int64)


def test_memory_mapped_vectors_cluster_as_those_in_memory(tmp_path: Path) -> None:
    vectors, _ = topical(5, 300)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert cluster(mapped, 7, seed=2).labels.tolist() == cluster(vectors, 7, seed=2).labels.tolist()


def test_texts_on_one_subject_lie_together() -> None:
    subjects = (
        "river bank water flows valley",
        "parliament vote minister election law",
        "guitar album song singer band",
    )
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(subjects[i % 3].split(), 8)) for i in range(60)]
    vectors = text_embeddings(texts, dimensions=8)
    assert vectors.shape == (60, 8)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(60), abs=1e-5)
    alike = vectors @ vectors.T
    same = np.equal.outer(np.arange(60) % 3, np.arange(60) % 3)
    assert alike[same].min() > alike[~same].max()
    assert (text_embeddings(texts, dimensions=8) == vectors).all()


def test_a_text_without_a_word_has_no_direction() -> None:
    vectors = text_embeddings(["", "a river", "..."], dimensions=4)
    assert vectors.shape == (3, 3)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([0, 1, 0], abs=1e-6)
    assert text_embeddings(["one"]).shape == (1, 1)
    with pytest.raises(ConfigError, match="at least one text"):
        text_embeddings([])


def test_a_generated_world_can_be_selected_from() -> None:
    corpus, _ = world(0, 60, "train")
    selector = Selector(corpus_embeddings(corpus), corpus.ids, seed=1)
    choices = selector.draw(30)
    assert len({choice.document for choice in choices}) > 20
    clusters = dict(zip(corpus.ids, selector.clusters.labels.tolist(), strict=True))
    assert all(clusters[choice.document] == choice.cluster for choice in choices)


class Letters:
    """An encoder by the letters of a text, in the place of a model."""

    def encode(self, texts: list[str], **options: object) -> np.ndarray:
        return np.array([[text.count(letter) for letter in "aeiou"] for text in texts], dtype=np.float32)


def test_the_encoder_of_dense_retrieval_can_be_used() -> None:
    corpus, _ = world(0, 20, "train")
    vectors = corpus_embeddings(corpus, Encoder(Letters(), "plain"))
    assert vectors.shape == (len(corpus), 5)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(corpus)), abs=1e-5)
    first = next(iter(corpus))
    counts = np.array([f"{first.title}\n{first.text}".count(letter) for letter in "aeiou"])
    assert vectors[0] == pytest.approx(counts / np.linalg.norm(counts), abs=1e-5)


def test_more_clusters_than_different_documents() -> None:
    vectors = np.array([[0.0, 0.0], [1.0, 1.0]] * 30)
    selector = Selector(vectors, ids_of(vectors), settings=SelectorSettings(clusters=8, growth=2.0))
    assert len(selector.clusters) == 8
    assert len({choice.document for choice in played(selector, 3, 40)}) > 40


@pytest.mark.data
def test_real_passages_fall_into_topics(data_dir: Path) -> None:
    """2Wiki's passages: the clusters hold more of each document's nearest neighbours than chance would."""
    passages = json.loads((data_dir / "2wikimultihopqa/2wikimultihopqa_corpus.json").read_text("utf-8"))[:1_500]
    vectors = text_embeddings([f"{passage['title']}\n{passage['text']}" for passage in passages])
    selector = Selector(vectors, [str(i) for i in range(len(passages))], seed=0)
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -1)
    labels = selector.clusters.labels
    together = (labels == labels[alike.argmax(axis=1)]).mean()
    chance = ((np.bincount(labels) / len(labels)) ** 2).sum()
    assert together > 3 * chance


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sklearn.cluster", "sklearn.feature_extraction.text"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(MissingExtraError, match="needs the extra 'selector'"):
        Selector(np.eye(2), ["a", "b"])
    with pytest.raises(MissingExtraError, match="needs the extra 'selector'"):
        text_embeddings(["a river"])
    assert len(Arms.fresh(3)) == 3
