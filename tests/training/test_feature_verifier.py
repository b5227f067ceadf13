"""The trainable verifier: its optimum, its file, its features, and that it submits complete verdicts."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import factgym
from factgym.agents.agent import agent_from_model
from factgym.agents.feature_verifier import FeatureVerifier, TrainingExample, VerifierWeights, fine_tune, load_weights
from factgym.agents.resolve import find_model
from factgym.agents.rollout.engine import play
from factgym.agents.rollout.jobs import Job
from factgym.baselines.pair_features import FEATURES, extract_features
from factgym.core.errors import ConfigError, DataError
from factgym.datasets.attribution import ERROR_TYPES
from factgym.generators.attribution import SyntheticAttribution
from factgym.generators.perturbations.names import Pool
from factgym.generators.perturbations.probes import generate_probes
from factgym.training.seva.dataset import Example, FeatureTrainer, example_of, write_dataset
from factgym.training.trainer import open_dataset


def random_examples(n: int, seed: int) -> list[TrainingExample]:
    rng = random.Random(seed)
    examples = []
    for _ in range(n):
        values = {name: round(rng.random(), 3) for name in FEATURES} | {"always": 1.0}
        negative = values["unknown_words"] + 0.4 * rng.random() > 0.7
        kind = rng.choice(ERROR_TYPES) if negative and rng.random() < 0.7 else None
        examples.append(TrainingExample(values, negative, kind))
    return examples


def loss(weights: VerifierWeights, start: VerifierWeights, examples: list[TrainingExample], pull: float) -> float:
    """The penalised log loss of both heads, written down directly."""
    total = 0.0
    for example in examples:
        p = weights.negative_probability(example.values)
        total -= math.log(p if example.negative else 1 - p)
        if example.error_type:
            scores = [
                math.fsum(weights.errors[kind][name] * example.values[name] for name in FEATURES)
                for kind in ERROR_TYPES
            ]
            own = scores[ERROR_TYPES.index(example.error_type)]
            total -= own - math.log(math.fsum(math.exp(score) for score in scores))
    pairs = [(weights.label, start.label), *((weights.errors[kind], start.errors[kind]) for kind in ERROR_TYPES)]
    blocks = np.array(start.information) if start.information else np.zeros((len(pairs), len(FEATURES), len(FEATURES)))
    for (new, old), block in zip(pairs, blocks, strict=True):
        moved = np.array([new[name] - old[name] for name in FEATURES])
        total += moved @ (block + pull * np.eye(len(FEATURES))) @ moved / 2
    return total


def test_training_ends_at_the_optimum() -> None:
    examples, start = random_examples(120, 1), fine_tune(VerifierWeights(), random_examples(60, 2))
    weights = fine_tune(start, examples, pull=1.5)
    best = loss(weights, start, examples, 1.5)
    assert best < loss(start, start, examples, 1.5)
    rng = np.random.default_rng(0)
    for size in (0.1, 0.01):
        for _ in range(25):
            label = {name: value + size * rng.normal() for name, value in weights.label.items()}
            errors = {
                kind: {name: value + size * rng.normal() for name, value in own.items()}
                for kind, own in weights.errors.items()
            }
            assert loss(VerifierWeights(label, errors), start, examples, 1.5) > best


def test_it_learns_a_separable_feature() -> None:
    weights = fine_tune(VerifierWeights(), random_examples(400, 3))
    held_out = random_examples(200, 4)
    right = sum((weights.negative_probability(example.values) > 0.5) == example.negative for example in held_out)
    most_common = max(sum(example.negative for example in held_out), sum(not example.negative for example in held_out))
    assert right > most_common + 30
    assert max(weights.label, key=lambda name: weights.label[name]) == "unknown_words"


def test_the_pull_holds_the_past() -> None:
    start, examples = fine_tune(VerifierWeights(), random_examples(60, 5)), random_examples(60, 6)

    def moved(pull: float) -> float:
        return sum((fine_tune(start, examples, pull=pull).label[name] - start.label[name]) ** 2 for name in FEATURES)

    assert moved(0.5) > moved(5) > moved(500)
    assert moved(1e9) == pytest.approx(0, abs=1e-9)
    assert fine_tune(start, []) is start
    with pytest.raises(ConfigError, match="above 0"):
        fine_tune(start, examples, pull=0)


def test_training_in_two_steps_comes_near_to_training_on_both() -> None:
    """The joint fit is the judge, and the same steps without the information of the first."""
    first, second = random_examples(300, 9), random_examples(100, 10)
    joint, start = fine_tune(VerifierWeights(), [*first, *second]), fine_tune(VerifierWeights(), first)
    forgetful = VerifierWeights(start.label, start.errors)

    def distance(weights: VerifierWeights) -> float:
        values = [example.values for example in (*first, *second)]
        return max(abs(weights.negative_probability(v) - joint.negative_probability(v)) for v in values)

    assert distance(fine_tune(start, second)) < 0.05 < 0.3 * distance(fine_tune(forgetful, second))


def test_the_order_of_the_examples_does_not_matter() -> None:
    examples = random_examples(80, 7)
    first, other = fine_tune(VerifierWeights(), examples), fine_tune(VerifierWeights(), examples[::-1])
    assert all(first.label[name] == pytest.approx(other.label[name], abs=1e-4) for name in FEATURES)


def test_a_saved_verifier_is_the_same_verifier(tmp_path: Path) -> None:
    weights = fine_tune(VerifierWeights(), random_examples(50, 8))
    path = weights.save(tmp_path)
    assert load_weights(tmp_path) == weights == load_weights(path)
    assert FeatureVerifier.load(path).describe() == FeatureVerifier(weights).describe()
    assert find_model(f"features:{path}").describe()["weights_sha256"] == weights.fingerprint()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(kind="other"), "no feature verifier"),
        (lambda data: data.update(version=99), "no feature verifier"),
        (lambda data: data["label"].pop("covered"), "a number for each feature"),
        (lambda data: data["label"].update(covered=float("nan")), "finite number"),
        (lambda data: data["label"].update(covered="1"), "finite number"),
        (lambda data: data["label"].update(covered=True), "finite number"),
        (lambda data: data["errors"].pop("fabrication"), "six error types"),
        (lambda data: data.update(label=[]), "a number for each feature"),
        (lambda data: data.update(information=[[1.0]]), "shape"),
        (lambda data: data.update(information=None), "shape"),
        (lambda data: data.update(information=(-np.ones((7, len(FEATURES), len(FEATURES)))).tolist()), "negative"),
    ],
)
def test_invalid_files_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    path = VerifierWeights().save(tmp_path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(DataError, match=message):
        load_weights(path)


@given(st.text(max_size=120), st.text(max_size=200))
def test_features_of_any_text_are_in_range(claim: str, source: str) -> None:
    values = extract_features(claim, source).values
    assert tuple(values) == FEATURES
    assert all(0 <= value <= 1 for value in values.values())


def test_features_match_their_names() -> None:
    source = "Ada Byron sold 12 cars in May 2019 in Leeds."
    same = extract_features("Ada Byron sold 12 cars in May 2019 in Leeds.", source).values
    assert (same["covered_fully"], same["unknown_words"], same["words_in_order"]) == (1, 0, 1)
    assert extract_features("Ada Byron sold 90 cars in May 2019.", source).values["number_conflicts"] == 1
    assert extract_features("Ada Byron did not sell 12 cars.", source).values["denials_differ"] == 1
    assert extract_features("Ada Lovelock sold 12 cars.", source).values["has_unknown_name"] == 1
    assert extract_features("How many cars were sold?", source).values["is_question"] == 1
    assert extract_features("Who sold cars? Ada Byron.", source).values["answers_question"] == 1
    assert extract_features("Ada Byron sold the most cars.", source).values["new_superlative"] == 1


def test_its_verdicts_are_complete_and_earn_the_grounded_reward() -> None:
    import asyncio

    env = factgym.make("seva", split="validation", size=40)
    examples = [
        TrainingExample(extract_features(item.claim, item.source).values, item.error_type is not None, item.error_type)
        for item in SyntheticAttribution("train", size=100)
    ]
    model = FeatureVerifier(fine_tune(VerifierWeights(), examples))
    labels = set()
    for index in range(40):
        record, _ = asyncio.run(play(env, agent_from_model("features", model), Job(index)))
        metrics = record["reward"]["metrics"]
        assert metrics["schema_ok"]
        assert metrics["format_ok"]
        assert record["reward"]["components"]["alignment"] == record["reward"]["components"]["chain"] == 1
        assert metrics["confidence"] >= 0.5
        labels.add(metrics["verdict"])
    assert labels == {"Attributable", "Not Attributable"}


def test_the_trainer_reads_a_written_dataset(tmp_path: Path) -> None:
    items = list(SyntheticAttribution("train", size=60))
    probe = next(generate_probes(items, "negation_flip", pool=Pool(items)))
    dataset = write_dataset(tmp_path / "train.jsonl", [*map(Example, items), example_of(probe)], "RULES")
    trainer = FeatureTrainer(pull=1.0)
    (tmp_path / "model").mkdir()
    model = trainer.train(FeatureVerifier(), dataset, tmp_path / "model", 0)
    loaded = trainer.load(tmp_path / "model")
    assert model.describe() == loaded.describe()
    assert model.describe()["seen"] == 61
    expected = fine_tune(
        VerifierWeights(),
        [
            TrainingExample(
                extract_features(item.claim, item.source).values, item.label == "Not Attributable", item.error_type
            )
            for item in [*items, example_of(probe).item]
        ],
        pull=1.0,
    )
    assert isinstance(model, FeatureVerifier)
    assert model.weights == expected


def test_the_trainer_names_what_it_cannot_train(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "train.jsonl", [Example(item) for item in SyntheticAttribution("train", size=2)])
    with pytest.raises(ConfigError, match="trains feature verifiers"):
        FeatureTrainer().train(find_model("nli"), dataset, tmp_path, 0)
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "no json"}]}\n')
    with pytest.raises(DataError, match="line 1: the last message holds no verdict"):
        FeatureTrainer().train(FeatureVerifier(), open_dataset(bad), tmp_path, 0)
    bad.write_text('{"messages": []}\n')
    with pytest.raises(DataError, match="line 1: needs messages"):
        FeatureTrainer().train(FeatureVerifier(), open_dataset(bad), tmp_path, 0)
