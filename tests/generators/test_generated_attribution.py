"""Generated attribution claims: balanced, deterministic, labelled as they are made, and no easier than they look."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest

from factgym.core.errors import ConfigError
from factgym.datasets.attribution import ATTRIBUTABLE, ERROR_TYPES, NOT_ATTRIBUTABLE, AttributionClaim
from factgym.generators.attribution import SPLITS, MiniatureAttribution, SyntheticAttribution

SIZE = 420


@cache
def items(split: str) -> tuple[AttributionClaim, ...]:
    return SyntheticAttribution(split, size=SIZE)[:]


@pytest.mark.parametrize("split", ["validation", "ood"])
def test_labels_and_errors_are_balanced_in_every_run_of_twelve(split: str) -> None:
    for start in range(0, SIZE, 12):
        run = items(split)[start : start + 12]
        assert Counter(item.label for item in run) == {ATTRIBUTABLE: 6, NOT_ATTRIBUTABLE: 6}
        assert sorted(item.error_type for item in run if item.error_type) == sorted(ERROR_TYPES)


@pytest.mark.parametrize("split", ["validation", "ood"])
def test_an_error_is_named_where_the_claim_is_wrong_and_only_there(split: str) -> None:
    for item in items(split):
        assert (item.error_type is None) == (item.label == ATTRIBUTABLE)
        assert item.meta["span"] in item.claim
        assert bool(item.meta["span"]) == (item.label == NOT_ATTRIBUTABLE)
        assert item.meta["evidence"]
        for start, end in item.meta["evidence"]:
            assert item.source[start:end].strip() == item.source[start:end] != ""


def test_the_error_is_of_the_kind_that_is_named() -> None:
    wrong = [item for item in items("validation") if item.error_type]
    numbers = [item for item in wrong if item.error_type == "numerical_exaggeration"]
    written = re.compile(
        r"\d|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|teen|ty|half|dozen|hundred", re.I
    )
    assert all(written.search(item.meta["span"]) for item in numbers)
    negations = [item for item in wrong if item.error_type == "negation_flip"]
    assert {item.meta["corruption"] for item in negations} == {"polarity"}
    # A swapped party is a name; a changed quantity would be a numerical error as well.
    entities = [item for item in wrong if item.error_type == "entity_substitution"]
    assert not any(re.search(r"\d", item.meta["span"]) for item in entities if item.meta["corruption"] == "party")


def test_item_i_depends_on_seed_split_and_i_alone() -> None:
    split, prefix = SyntheticAttribution("test", seed=3, size=40), SyntheticAttribution("test", seed=3, size=7)
    assert [prefix[at] for at in (6, 0, 3)] == [split[at] for at in (6, 0, 3)]
    assert dict(split[5].meta) == dict(SyntheticAttribution("test", seed=3)[5].meta)
    assert split[0] != SyntheticAttribution("test", seed=4)[0] != SyntheticAttribution("train", seed=4)[0]
    assert split[-1] == split[39]
    assert split.fingerprint() != prefix.fingerprint() != SyntheticAttribution("test", seed=4, size=7).fingerprint()


def test_splits_share_no_claim_with_its_source() -> None:
    pairs = [{(item.claim, item.source) for item in items(split)} for split in ("train", "validation", "test", "ood")]
    assert len(set.union(*pairs)) == sum(map(len, pairs)) == 4 * SIZE


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def overlap(item: AttributionClaim) -> float:
    claim = words(item.claim)
    return len(claim & words(item.source)) / len(claim)


def best_threshold(values: list[float], labels: list[bool]) -> float:
    """The accuracy of the best single threshold, in either direction, chosen on the data itself."""
    accuracies = []
    for bound in sorted(set(values)):
        right = sum((value >= bound) == label for value, label in zip(values, labels, strict=True)) / len(labels)
        accuracies += [right, 1 - right]
    return max(accuracies)


@pytest.mark.parametrize("split", ["train", "validation", "test", "ood"])
def test_no_trivial_property_tells_the_label(split: str) -> None:
    """Measured: word overlap .52, lengths .51 to .57; the bound leaves room for chance (1.96 s.e. = .05)."""
    labels = [item.label == ATTRIBUTABLE for item in items(split)]
    for feature in (overlap, lambda item: float(len(item.claim)), lambda item: float(len(item.source))):
        assert best_threshold([feature(item) for item in items(split)], labels) < 0.62


def test_an_excerpt_holds_the_evidence_of_the_same_claim() -> None:
    whole, excerpt = items("validation"), SyntheticAttribution("validation", size=SIZE, passages=1)
    assert excerpt.fingerprint() != SyntheticAttribution("validation", size=SIZE).fingerprint()
    for full, short in zip(whole, excerpt[:], strict=True):
        assert (short.claim, short.label, short.error_type) == (full.claim, full.label, full.error_type)
        assert all(passage in full.source.split("\n\n") for passage in short.source.split("\n\n"))
        quotes = [{item.source[start:end] for start, end in item.meta["evidence"]} for item in (full, short)]
        assert quotes[0] == quotes[1]
    assert sum(len(item.source) for item in excerpt) < 0.5 * sum(len(item.source) for item in whole)


def test_miniature_claims_are_labelled_as_their_sentences_differ() -> None:
    """By other means than the generator's: the words of the claim and of the sentence that decides."""
    split = MiniatureAttribution("validation", passages=1)
    for start in range(0, 400, 10):
        block = split[start : start + 10]
        assert [item.label for item in block].count(ATTRIBUTABLE) == 5
        assert sorted(item.error_type for item in block if item.error_type) == sorted(MiniatureAttribution.ERRORS)
        for item in block:
            ((first, last),) = item.meta["evidence"]
            claim, sentence = (
                words(text) - {"there", "are", "has", "its", "the", "at", "of", "is", "a"}
                for text in (item.claim, item.source[first:last])
            )
            missing, added = claim - sentence, sentence - claim
            if item.error_type == "fabrication":
                assert missing
            elif item.error_type == "scope_inflation":
                assert not missing
                assert added
            else:
                assert (item.label == ATTRIBUTABLE) == (not missing and not added)
                assert (item.error_type == "numerical_exaggeration") <= all(word.isdigit() for word in missing)
    assert MiniatureAttribution("train").fingerprint() != SyntheticAttribution("train").fingerprint()


def test_sizes_and_bad_arguments() -> None:
    assert len(SyntheticAttribution("train")) == SPLITS["train"] == 5000
    with pytest.raises(ConfigError, match="Did you mean 'validation'"):
        SyntheticAttribution("validatoin")
    with pytest.raises(ConfigError, match="at least 1"):
        SyntheticAttribution(size=0)
    with pytest.raises(IndexError):
        SyntheticAttribution(size=3)[3]
