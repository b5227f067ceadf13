"""The benchmark's claims on its synthetic data: varied, balanced, no shortcut by word overlap, several hops needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import pytest

from factgym.corpora.corpus import Passage
from factgym.datasets.claims import VERDICTS, ClaimExample
from factgym.generators.synthetic import SPLITS
from factgym.generators.synthetic.lexicon import DOMAINS, OOD_DOMAINS
from tests.generators.claim_statistics import (
    answer_accuracy,
    overlap_accuracy,
    recalls,
    scenarios,
    sentence_shapes,
    skeleton,
    skeletons,
    vocabulary,
    words,
)

PAPER_CORRUPTIONS = {
    "number", "date", "entity", "party", "cause", "scope", "condition", "condition_dropped", "exception_dropped",
    "exception_generalised", "version", "irrelevant", "invented", "modality", "polarity",
}  # fmt: skip

every_split = pytest.mark.parametrize("split", SPLITS)


@cache
def examples(split: str) -> list[ClaimExample]:
    return [scenario.example for scenario in scenarios(split)[:500]]


@pytest.mark.parametrize(("split", "domains"), [("train", DOMAINS), ("ood", OOD_DOMAINS)])
def test_skeletons_by_the_hundred_in_every_domain(split: str, domains: tuple[str, ...]) -> None:
    counts = skeletons(examples(split))
    assert set(counts) == set(domains)
    assert min(map(len, counts.values())) > 1000
    assert max(max(counter.values()) for counter in counts.values()) / sum(map(Counter.total, counts.values())) < 0.02


def test_sentence_shapes_by_the_hundred_with_every_lexicon_word_masked() -> None:
    """The stricter count: only the sentences that decide claims, all lexical material reduced to letters."""
    for counter in sentence_shapes("train", 1000).values():
        assert len(counter) > 300
        assert max(counter.values()) / counter.total() < 0.06


@every_split
def test_verdicts_are_balanced_and_every_corruption_of_the_paper_occurs(split: str) -> None:
    assert Counter(example.verdict for example in examples(split)) == dict.fromkeys(VERDICTS, 100)
    if split != "multihop":
        assert {claim.corruption for example in examples(split) for claim in example.claims} >= PAPER_CORRUPTIONS


@every_split
def test_word_overlap_does_not_tell_the_labels_apart(split: str) -> None:
    """Chance is 0.2 for five balanced labels."""
    assert overlap_accuracy(examples(split)) < 0.40


@every_split
def test_the_answer_alone_does_not_give_the_label_away(split: str) -> None:
    assert answer_accuracy(examples(split)) < 0.40


def test_overlap_of_faithful_claims_is_not_higher_than_of_corrupted_ones() -> None:
    shares: dict[str, list[float]] = {}
    for example in examples("train"):
        document = {word for passage in example.passages for word in words(passage.text)}
        for claim in example.claims:
            claim_words = set(words(claim.text))
            shares.setdefault(claim.status, []).append(len(claim_words & document) / len(claim_words))
    means = {status: sum(values) / len(values) for status, values in shares.items()}
    assert len(means) == 4
    assert max(means.values()) - min(means.values()) < 0.10
    assert means["supported"] < max(means.values())


@every_split
def test_gold_passages_have_no_favourite_position(split: str) -> None:
    by_size: dict[int, list[ClaimExample]] = {}
    for scenario in scenarios(split):
        by_size.setdefault(len(scenario.example.passages), []).append(scenario.example)
    for size, group in by_size.items():
        if len(group) >= 100:
            first = sum("E1" in example.gold_ids for example in group) / sum(len(e.gold_ids) for e in group)
            assert abs(first - 1 / size) < 0.08, size


def rank_bm25_order(query: str, passages: Sequence[Passage]) -> list[str]:
    """The ranking of the rank-bm25 package, as a check on our own measure."""
    import rank_bm25

    index = rank_bm25.BM25Plus([words(f"{passage.title} {passage.text}") for passage in passages])
    scores = index.get_scores(words(query))
    return [passages[at].id for at in sorted(range(len(passages)), key=lambda at: (-scores[at], at))]


def test_multihop_needs_more_than_one_search() -> None:
    assert {len(example.gold_ids) for example in examples("multihop")} == {2, 3}
    for recall in (recalls(examples("multihop")), recalls(examples("multihop"), rank_bm25_order)):
        assert recall[1] == 0.0
        assert recall[2] < 0.35
        assert recall[3] < 0.65
        assert recall[5] == 1.0


@pytest.mark.parametrize("split", ["train", "validation", "ood", "hard"])
def test_one_search_is_often_enough_elsewhere_but_not_always(split: str) -> None:
    assert 0.3 < recalls(examples(split))[1] < 0.8


def test_a_second_search_with_the_defined_term_finds_the_missing_passage() -> None:
    """The bridging passage is found by the words of the rule's own sentence, read after the first search."""
    hits = 0
    for example in examples("multihop"):
        rule = example.claims[0].facts[0]
        passage = next(passage for passage in example.passages if passage.id == rule.passage)
        candidates = [passage for passage in example.passages if passage.id != rule.passage]
        order = rank_bm25_order(passage.text[rule.start : rule.end], candidates)
        hits += bool(set(order[:2]) & (set(example.gold_ids) - {passage.id}))
    assert hits / len(examples("multihop")) > 0.6


def test_ood_differs_in_vocabulary_genre_and_style() -> None:
    train, ood, validation = (
        vocabulary([scenario.example for scenario in scenarios(split)]) for split in ("train", "ood", "validation")
    )
    assert len(ood - train) / len(ood) > 0.35
    assert len(validation - train) / len(validation) < 0.06
    lined = {
        split: sum("\n" in passage.text for example in examples(split) for passage in example.passages)
        / sum(len(example.passages) for example in examples(split))
        for split in ("train", "ood")
    }
    assert lined["train"] == 0.0
    assert lined["ood"] > 0.6
    assert not {example.domain for example in examples("ood")} & {example.domain for example in examples("train")}


def test_hard_claims_are_less_often_invented_than_ordinary_ones() -> None:
    hard, ordinary = (
        [claim.corruption for example in examples(split) for claim in example.claims] for split in ("hard", "train")
    )
    assert hard.count("invented") / len(hard) < ordinary.count("invented") / len(ordinary)


def test_the_skeleton_keeps_syntax_and_drops_content() -> None:
    sentences = (
        "Employees must return unused laptops within 7 days of the last day, unless the desk is closed.",
        "Contractors must submit signed forms within 14 days of the final session, unless the office is full.",
    )
    assert {skeleton(sentence) for sentence in sentences} == {"X must X within # X of the X , unless the X is X"}
