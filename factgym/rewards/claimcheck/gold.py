"""The gold of ClaimCheck's examples: a verdict, the facts to quote, and the evidence that shows a silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact
from factgym.text.sentences import passage_ranges

Range = tuple[int, int]
"""Start and end, in characters."""


def merge_ranges(ranges: Sequence[Range]) -> list[Range]:
    """Join ranges that overlap or touch; sorted."""
    # Interval union by a sweep over the sorted starts.
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


@dataclass(frozen=True, slots=True)
class ClaimGold:
    """The gold of an example, or of one of its statements as an answer of its own.

    passages: ids that hold gold facts. nearest, nearest_sentences: where the documents are silent, passages where one would
    expect a fact, and sentences close to the answer, of which each shows it. unsupported_spans: ranges of `answer`.

    Derived: evidence, the passages or else the nearest ones; quotable, the facts or else the nearest sentences; fact_chars,
    their length; marked, the unsupported spans without overlaps; marked_chars, their length; shown_by, ids of the passages
    that decide the statements.
    """

    verdict: str
    answer: str
    passages: frozenset[str]
    nearest: frozenset[str]
    facts: tuple[GoldFact, ...]
    unsupported_spans: tuple[Range, ...]
    nearest_sentences: tuple[GoldFact, ...] = ()
    statements: tuple[ClaimGold, ...] = ()
    evidence: frozenset[str] = field(init=False, repr=False, compare=False)
    quotable: tuple[GoldFact, ...] = field(init=False, repr=False, compare=False)
    fact_chars: int = field(init=False, repr=False, compare=False)
    marked: tuple[Range, ...] = field(init=False, repr=False, compare=False)
    marked_chars: int = field(init=False, repr=False, compare=False)
    shown_by: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shown_by = frozenset[str]().union(*(statement.passages | statement.nearest for statement in self.statements))
        object.__setattr__(self, "evidence", self.passages or self.nearest)
        object.__setattr__(self, "quotable", self.facts or self.nearest_sentences)
        object.__setattr__(self, "fact_chars", sum(fact.end - fact.start for fact in self.facts))
        object.__setattr__(self, "marked", tuple(merge_ranges(self.unsupported_spans)))
        object.__setattr__(self, "marked_chars", sum(end - start for start, end in self.marked))
        object.__setattr__(self, "shown_by", shown_by)


def gold_of(example: ClaimExample) -> ClaimGold:
    """Derive the gold of an example."""
    # Some human annotations have empty facts, which cannot be quoted.
    facts = tuple(dict.fromkeys(fact for claim in example.claims for fact in claim.facts if fact.end > fact.start))
    spans = []
    for claim in example.claims:
        if claim.unsupported_span:
            start = example.answer.index(claim.text) + claim.text.index(claim.unsupported_span)
            spans.append((start, start + len(claim.unsupported_span)))
    return ClaimGold(
        verdict=example.verdict,
        answer=example.answer,
        passages=frozenset(example.gold_ids),
        nearest=frozenset(example.nearest),
        facts=facts,
        unsupported_spans=tuple(spans),
        nearest_sentences=() if facts else tuple(_nearest_sentences(example, example.answer)),
        statements=tuple(_statement_gold(example, claim) for claim in example.claims),
    )


def _statement_gold(example: ClaimExample, claim: GoldClaim) -> ClaimGold:
    """Return a statement's gold evidence; of a silent one, every sentence that shows the silence."""
    facts = tuple(dict.fromkeys(fact for fact in claim.facts if fact.end > fact.start))
    gold = ClaimGold(claim.status, claim.text, frozenset(fact.passage for fact in facts), frozenset(), facts, ())
    if facts and not claim.is_silent:
        return gold
    # The rule from which the statement was made, if any, shows the silence no better than another close sentence.
    sentences = dict.fromkeys((*facts, *_nearest_sentences(example, claim.text)))
    nearest = frozenset(example.nearest) or frozenset(fact.passage for fact in sentences)
    return replace(gold, passages=frozenset(), nearest=nearest, facts=(), nearest_sentences=tuple(sentences))


_NEAREST_SHARE = 0.8


def _nearest_sentences(example: ClaimExample, text: str) -> Iterator[GoldFact]:
    """Yield the sentences whose BM25 score for the text is at least 0.8 of the highest.

    Of an example with nearest passages, the highest of each of them; else the highest of all passages.
    """
    # A small BM25 index over the sentences alone, so that a long passage has no advantage.
    candidates = [
        (GoldFact(passage.id, start, end), passage.text[start:end])
        for passage in example.passages
        if passage.id in example.nearest or not example.nearest
        for start, end in passage_ranges(passage.text)
    ]
    index = SmallBM25([Passage(str(number), "", text) for number, (_, text) in enumerate(candidates)])
    scores = {int(hit.id): hit.score for hit in index.search([text], max(1, len(candidates)))[0]}
    best: dict[str, float] = {}
    for number, (fact, _) in enumerate(candidates):
        group = fact.passage if example.nearest else ""
        best[group] = max(best.get(group, 0.0), scores.get(number, 0.0))
    for number, (fact, _) in enumerate(candidates):
        if scores.get(number, 0.0) >= _NEAREST_SHARE * best[fact.passage if example.nearest else ""]:
            yield fact
