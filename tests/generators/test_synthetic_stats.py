"""What the benchmark says of its synthetic data: varied, balanced, no shortcut by word overlap, several hops needed."""

from __future__ import annotations

import pytest

from factgym.corpora.corpus import Passage
from factgym.datasets.claims import VERDICTS, ClaimExample
from factgym.generators.synthetic import SPLITS, SyntheticClaims
from factgym.generators.synthetic.lexicon import DOMAINS, OOD_DOMAINS
from factgym.generators.synthetic.statistics import SplitStats, describe, recall_at, sentence_shapes, skeleton, words

PAPER_CORRUPTIONS = {
    "number", "date", "entity", "party", "cause", "scope", "condition", "condition_dropped", "exception_dropped",
    "exception_generalised", "version", "irrelevant", "invented", "modality", "polarity",
}  # fmt: skip


@pytest.fixture(scope="module")
def examples() -> dict[str, list[ClaimExample]]:
    return {split: SyntheticClaims(split)[:1000] for split in SPLITS}


@pytest.fixture(scope="module")
def stats(examples: dict[str, list[ClaimExample]]) -> dict[str, SplitStats]:
    return {split: describe(items) for split, items in examples.items()}


def test_skeletons_by_the_hundred_in_every_domain(stats: dict[str, SplitStats]) -> None:
    for split, domains in (("train", DOMAINS), ("ood", OOD_DOMAINS)):
        assert set(stats[split].skeletons) == set(domains)
        assert min(stats[split].skeletons.values()) > 1500
        assert stats[split].commonest < 0.02


def test_sentence_shapes_by_the_hundred_with_every_lexicon_word_masked() -> None:
    """The stricter count: only the sentences that decide claims, all lexical material reduced to letters."""
    for counter in sentence_shapes(SyntheticClaims("train"), 2500).values():
        assert len(counter) > 500
        assert max(counter.values()) / counter.total() < 0.06


def test_verdicts_are_balanced_and_every_corruption_of_the_paper_occurs(stats: dict[str, SplitStats]) -> None:
    for split, found in stats.items():
        assert found.verdicts == dict.fromkeys(VERDICTS, found.examples // 5)
        if split != "multihop":
            assert set(found.corruptions) >= PAPER_CORRUPTIONS


def test_word_overlap_does_not_tell_the_labels_apart(stats: dict[str, SplitStats]) -> None:
    """Chance is 0.2 for five balanced labels."""
    for split, found in stats.items():
        assert found.overlap_accuracy < 0.40, split


def test_the_answer_alone_does_not_give_the_label_away(stats: dict[str, SplitStats]) -> None:
    for split, found in stats.items():
        assert found.answer_accuracy < 0.40, split


def test_overlap_of_faithful_claims_is_not_higher_than_of_the_others(examples: dict[str, list[ClaimExample]]) -> None:
    means = {}
    for status in ("supported", "contradicted", "overclaim", "unsupported"):
        shares = [
            len(set(words(claim.text)) & {w for p in example.passages for w in words(p.text)})
            / len(set(words(claim.text)))
            for example in examples["train"]
            for claim in example.claims
            if claim.status == status
        ]
        means[status] = sum(shares) / len(shares)
    assert max(means.values()) - min(means.values()) < 0.10
    assert means["supported"] < max(means.values())


def test_gold_passages_have_no_favourite_place(examples: dict[str, list[ClaimExample]]) -> None:
    for split, items in examples.items():
        for size in {len(example.passages) for example in items}:
            group = [example for example in items if len(example.passages) == size]
            if len(group) < 200:
                continue
            first = sum("E1" in example.gold_ids for example in group) / sum(len(e.gold_ids) for e in group)
            assert abs(first - 1 / size) < 0.08, (split, size)


def bm25_oracle(query: str, passages: tuple[Passage, ...] | list[Passage]) -> list[str]:
    """The ranking of the rank-bm25 package, as a check on our own measure."""
    import rank_bm25

    index = rank_bm25.BM25Plus([words(f"{passage.title} {passage.text}") for passage in passages])
    scores = index.get_scores(words(query))
    return [passages[at].id for at in sorted(range(len(passages)), key=lambda at: (-scores[at], at))]


def test_multihop_needs_more_than_one_search(
    stats: dict[str, SplitStats], examples: dict[str, list[ClaimExample]]
) -> None:
    found = stats["multihop"]
    assert set(found.gold_sizes) == {2, 3}
    assert found.recall[1] == 0.0
    assert found.recall[2] < 0.35
    assert found.recall[3] < 0.65
    assert found.recall[5] == 1.0
    for k, most in ((1, 0.0), (2, 0.35), (3, 0.65)):
        assert recall_at(examples["multihop"], k, bm25_oracle) <= most


def test_one_search_is_often_enough_elsewhere_but_not_always(stats: dict[str, SplitStats]) -> None:
    for split in ("train", "validation", "ood", "hard"):
        assert 0.3 < stats[split].recall[1] < 0.8


def test_a_second_search_with_the_defined_term_finds_the_missing_passage(
    examples: dict[str, list[ClaimExample]],
) -> None:
    """The bridging passage is found by the words of the rule's own sentence, read after the first search."""
    found = 0
    for example in examples["multihop"]:
        rule = example.claims[0].facts[0]
        passage = next(p for p in example.passages if p.id == rule.passage)
        rest = [p for p in example.passages if p.id != passage.id]
        order = bm25_oracle(passage.text[rule.start : rule.end], rest)
        found += bool(set(order[:2]) & (set(example.gold_ids) - {passage.id}))
    assert found / len(examples["multihop"]) > 0.6


def test_ood_differs_in_vocabulary_genre_and_style(
    stats: dict[str, SplitStats], examples: dict[str, list[ClaimExample]]
) -> None:
    train, ood, validation = (stats[split].vocabulary for split in ("train", "ood", "validation"))
    assert len(ood - train) / len(ood) > 0.35
    assert len(validation - train) / len(validation) < 0.06
    lined = {
        split: sum("\n" in passage.text for example in items for passage in example.passages)
        / sum(len(example.passages) for example in items)
        for split, items in examples.items()
    }
    assert lined["train"] == 0.0
    assert lined["ood"] > 0.6
    assert not {example.domain for example in examples["ood"]} & {example.domain for example in examples["train"]}


def test_hard_numbers_are_nearer_than_ordinary_ones(examples: dict[str, list[ClaimExample]]) -> None:
    assert examples["hard"] and stats_of(examples["hard"], "invented") < stats_of(examples["train"], "invented")


def stats_of(items: list[ClaimExample], corruption: str) -> float:
    claims = [claim for example in items for claim in example.claims]
    return sum(claim.corruption == corruption for claim in claims) / len(claims)


def test_the_skeleton_keeps_syntax_and_drops_content() -> None:
    one = skeleton("Employees must return unused laptops within 7 days of the last day, unless the desk is closed.")
    two = skeleton(
        "Contractors must submit signed forms within 14 days of the final session, unless the office is full."
    )
    assert one == two == "X must X within # X of the X , unless the X is X"
