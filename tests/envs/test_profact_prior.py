"""The labels' probabilities by the claim alone: against scikit-learn, cross-fitted, and worth nothing as a label rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from profact_claims import write_claims

import factgym
from factgym.datasets.averitec import LABELS, FactCheck, read_fact_checks
from factgym.envs.profact.prior import ClaimPrior, claim_features, label_priors
from factgym.rewards.profact.stages import ProFactGold, informed_verdict


def claims(count: int = 60) -> list[FactCheck]:
    """Claims of which the topic tells the label in three of four."""
    rng, topics = np.random.default_rng(0), ("vaccines", "roads", "schools", "elections")
    labels = [LABELS[n % 4] if rng.random() < 0.75 else LABELS[rng.integers(4)] for n in range(count)]
    return [FactCheck(f"c{n}", n, f"They said {topics[n % 4]} are bad.", label) for n, label in enumerate(labels)]


def test_a_label_takes_no_part_in_its_own_probabilities() -> None:
    checks = claims()
    priors = label_priors(checks, checks)
    for index in (0, 17, 59):
        changed = list(checks)
        changed[index] = replace(checks[index], label=LABELS[(LABELS.index(checks[index].label) + 1) % 4])
        assert label_priors(changed, changed)[index] == priors[index]
    assert ClaimPrior(checks)(checks) != priors


def test_probabilities_add_up_and_a_topic_raises_its_label() -> None:
    priors = label_priors(claims(400), claims(400))
    assert all(sum(prior.values()) == pytest.approx(1, abs=0.003) for prior in priors)
    assert priors[0]["Supported"] > 0.4 > 0.3 > priors[1]["Supported"]


def test_few_claims_have_a_prior_too() -> None:
    assert ClaimPrior([])(claims(1)) == [dict.fromkeys(LABELS, 0.25)]
    assert label_priors(claims(1), claims(1))[0] == label_priors(claims(1), [])[0]
    assert len(label_priors(claims(3), claims(3))) == 3


def test_metadata_counts_and_gold_does_not() -> None:
    check = claims(1)[0]
    assert claim_features(check) != claim_features(replace(check, speaker="Ada", reporting_source="Facebook"))
    judged = replace(check, label="Refuted", justification="It is false.", fact_checking_article="https://x/false")
    assert claim_features(check) == claim_features(judged)


def test_it_is_the_logistic_regression_of_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    from sklearn.feature_extraction import DictVectorizer

    checks = claims(400)
    rows = [claim_features(check) for check in checks]
    vectorizer = DictVectorizer()
    peer = linear.LogisticRegression(C=1 / 20, max_iter=1000).fit(
        vectorizer.fit_transform(rows), [check.label for check in checks]
    )
    probabilities = peer.predict_proba(vectorizer.transform(rows))
    own = [[prior[label] for label in peer.classes_] for prior in ClaimPrior(checks)(checks)]
    assert np.abs(np.array(own) - probabilities).max() < 0.02  # the peer does not penalise the intercept


def test_generated_claims_have_equal_labels_and_a_file_alone_its_own(tmp_path: Path) -> None:
    env = factgym.make("profact")
    assert env.tasks[0].gold.prior == dict.fromkeys(LABELS, 0.25) and env.tasks.chance == 0.25
    own = factgym.make("profact", path=write_claims(tmp_path))
    assert own.tasks[0].gold.prior == own.tasks.claim_priors[own.tasks[0].id] != own.tasks.prior
    assert any("learned from these claims" in text for text in own.warnings())


def test_on_real_claims_no_rule_of_the_claim_earns_anything(data_dir: Path) -> None:
    """Constants, the most probable label, and the label that gains most over the labels' frequencies."""
    env = factgym.make("profact", path=str(data_dir / "averitec"), split="train")
    checks = [check for check in read_fact_checks(data_dir / "averitec", "train") if check.id in env.tasks.claim_priors]
    priors = env.tasks.claim_priors
    golds = [ProFactGold(("?",), ("?",), c.label, prior=priors[c.id], chance=env.tasks.chance) for c in checks]
    rules = {label: [label] * len(checks) for label in LABELS}
    rules["probable"] = [max(LABELS, key=lambda label: priors[check.id][label]) for check in checks]
    rules["gaining"] = [
        max(LABELS, key=lambda label: priors[check.id][label] - env.tasks.prior[label]) for check in checks
    ]
    for name, labels in rules.items():
        earned = np.array([informed_verdict(label, gold) for label, gold in zip(labels, golds, strict=True)])
        assert abs(earned.mean()) < 0.05, name
    assert np.mean([informed_verdict(gold.verdict, gold) for gold in golds]) == pytest.approx(1, abs=0.05)
    right = np.mean([label == check.label for label, check in zip(rules["probable"], checks, strict=True)])
    assert right > 0.62  # which knows the topics
