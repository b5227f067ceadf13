"""Generated attribution claims: balanced, deterministic, labelled as they are made, and no easier than they look."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest

from factgym.core.errors import ConfigError
from factgym.datasets.attribution import ATTRIBUTABLE, ERROR_TYPES, NOT_ATTRIBUTABLE, AttributionClaim
from factgym.generators.attribution import SPLITS, SyntheticAttribution

SIZE = 600


@cache
def made(split: str) -> tuple[AttributionClaim, ...]:
    return SyntheticAttribution(split, size=SIZE)[:]


@pytest.mark.parametrize("split", ["validation", "ood"])
def test_labels_and_errors_are_balanced_in_every_run_of_twelve(split: str) -> None:
    for start in range(0, SIZE, 12):
        run = made(split)[start : start + 12]
        assert Counter(one.label for one in run) == {ATTRIBUTABLE: 6, NOT_ATTRIBUTABLE: 6}
        assert sorted(one.error_type for one in run if one.error_type) == sorted(ERROR_TYPES)


@pytest.mark.parametrize("split", ["validation", "ood"])
def test_an_error_is_named_where_the_claim_is_wrong_and_only_there(split: str) -> None:
    for one in made(split):
        assert (one.error_type is None) == (one.label == ATTRIBUTABLE)
        assert one.meta["span"] in one.claim
        assert bool(one.meta["span"]) == (one.label == NOT_ATTRIBUTABLE)
        assert one.meta["evidence"]
        for start, end in one.meta["evidence"]:
            assert one.source[start:end].strip() == one.source[start:end] != ""


def test_the_error_is_of_the_kind_that_is_named() -> None:
    wrong = [one for one in made("validation") if one.error_type]
    numbers = [one for one in wrong if one.error_type == "numerical_exaggeration"]
    written = re.compile(r"\d|one|two|three|four|five|six|seven|eight|nine|ten|teen|ty|half|dozen|hundred", re.I)
    assert all(written.search(one.meta["span"]) for one in numbers)
    negations = [one for one in wrong if one.error_type == "negation_flip"]
    assert {one.meta["corruption"] for one in negations} == {"polarity"}
    # Of an invented thing the source must not have the words; of an entity it does not say this.
    entities = [one for one in wrong if one.error_type == "entity_substitution"]
    assert not any(re.search(r"\d", one.meta["span"]) for one in entities if one.meta["corruption"] == "party")


def test_item_i_depends_on_seed_split_and_i_alone() -> None:
    whole, prefix = SyntheticAttribution("test", seed=3, size=40), SyntheticAttribution("test", seed=3, size=7)
    assert [prefix[at] for at in (6, 0, 3)] == [whole[at] for at in (6, 0, 3)]
    assert dict(whole[5].meta) == dict(SyntheticAttribution("test", seed=3)[5].meta)
    assert whole[0] != SyntheticAttribution("test", seed=4)[0] != SyntheticAttribution("train", seed=4)[0]
    assert whole[-1] == whole[39]
    assert whole.fingerprint() != prefix.fingerprint() != SyntheticAttribution("test", seed=4, size=7).fingerprint()


def test_splits_share_no_claim_with_its_source() -> None:
    pairs = [{(one.claim, one.source) for one in made(split)} for split in ("train", "validation", "test", "ood")]
    assert len(set.union(*pairs)) == sum(map(len, pairs)) == 4 * SIZE


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def overlap(one: AttributionClaim) -> float:
    said = words(one.claim)
    return len(said & words(one.source)) / len(said)


def best_threshold(values: list[float], labels: list[bool]) -> float:
    """The accuracy of the best single threshold, in either direction, chosen on the data itself."""
    found = []
    for bound in sorted(set(values)):
        right = sum((value >= bound) == label for value, label in zip(values, labels, strict=True)) / len(labels)
        found += [right, 1 - right]
    return max(found)


@pytest.mark.parametrize("split", ["train", "validation", "test", "ood"])
def test_no_trivial_property_tells_the_label(split: str) -> None:
    """Measured over 600: word overlap .52, lengths .51 to .57; the bound leaves room for chance (1.96 s.e. = .04)."""
    labels = [one.label == ATTRIBUTABLE for one in made(split)]
    for feature in (overlap, lambda one: float(len(one.claim)), lambda one: float(len(one.source))):
        assert best_threshold([feature(one) for one in made(split)], labels) < 0.62


def test_sizes_and_bad_arguments() -> None:
    assert len(SyntheticAttribution("train")) == SPLITS["train"] == 5000
    with pytest.raises(ConfigError, match="Did you mean 'validation'"):
        SyntheticAttribution("validatoin")
    with pytest.raises(ConfigError, match="at least 1"):
        SyntheticAttribution(size=0)
    with pytest.raises(IndexError):
        SyntheticAttribution(size=3)[3]
