"""Quotes and cited passages of a submission: matched once, and compared with the gold facts.

Components E (`evidence_f1`), Q (`Evidence.quote`) and C (`coverage`) of the paper, for the entries of one statement or of all; see
`scoring` for the rules.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from factgym.corpora.sentences import passage_ranges
from factgym.corpora.text import find_folded, find_quote, fold, plain_marks
from factgym.datasets.claims import GoldFact
from factgym.rewards.claimcheck.gold import ClaimGold, Range

TextOf = Callable[[str], str | None]
"""The text of a passage by id, None for an unknown id."""


@dataclass(frozen=True, slots=True)
class QuoteRules:
    """Rules for quotes and for evidence of silence. Lengths are characters of the passage as shown.

    fact_share: share of a gold fact to quote. allowance_factor, allowance_chars: coverage is reduced once the quotes are
    longer than factor · length of the gold facts + chars. silence_passages: how many of the nearest passages show that a
    text is silent. silence_share: how much such evidence, at hand for every statement, counts in the judged reward.
    """

    min_quote_chars: int = 12
    max_quote_sentences: int = 2
    fact_share: float = 0.8
    allowance_factor: float = 2.0
    allowance_chars: int = 300
    silence_passages: int = 3
    silence_share: float = 1 / 3


DEFAULT_RULES = QuoteRules()


class QuoteMatch(NamedTuple):
    """A submitted quote and its range in a passage. is_verbatim: without `plain_marks`."""

    quote: str
    passage: str
    start: int
    end: int
    is_verbatim: bool = True


class Entry(NamedTuple):
    """An entry of a verdict with its evidence.

    texts: of the cited passages by id, None for one that does not exist. sources: of those that were read. quotes: each
    with its white space folded, and its match in a source.
    """

    claim: Mapping[str, Any]
    texts: Mapping[str, str | None]
    sources: Mapping[str, str]
    quotes: list[tuple[str, QuoteMatch | None]]


def read_entries(
    submission: Mapping[str, Any], text_of: TextOf, read: Collection[str], rules: QuoteRules
) -> list[Entry]:
    """Return the entries of a submission, and `evidence_used` as a last one without a claim.

    The whole answer and its statements are then scored over these: each quote is looked up once.
    """
    entries = []
    for claim in [*submission["claims"], {"evidence_ids": submission.get("evidence_used", ())}]:
        texts: dict[str, str | None] = {}
        sources: dict[str, str] = {}
        for id_ in claim["evidence_ids"]:
            text = texts[id_] = text_of(id_)
            if text is not None and id_ in read:
                sources[id_] = text
        matched: list[tuple[str, QuoteMatch | None]] = []
        quotes = claim.get("quote", "")
        for quote in [quotes] if isinstance(quotes, str) else quotes:
            if key := " ".join(quote.split()):
                matched.append((key, _match_quote(quote, key if key.isascii() else fold(key), sources, rules)))
        entries.append(Entry(claim, texts, sources, matched))
    return entries


def _match_quote(quote: str, folded: str, sources: Mapping[str, str], rules: QuoteRules) -> QuoteMatch | None:
    """Return a quote's range in the first passage in which it is valid: verbatim, else but for typographic marks."""
    if len(quote.strip()) < rules.min_quote_chars:
        return None
    for passage, text in sources.items():
        span = find_folded(folded, text)
        if span is not None and _is_short(text, *span, rules):
            return QuoteMatch(quote, passage, *span)
    plain_quote = plain_marks(quote)
    for passage, text in sources.items():
        plain = _plain_source(text)
        # Where neither has such a mark, nothing is new. Lengths are kept, so that a range is one of the passage itself.
        if plain is text and plain_quote is quote:
            continue
        span = find_quote(plain_quote, plain)
        if span is not None and _is_short(text, *span, rules):
            return QuoteMatch(quote, passage, *span, is_verbatim=False)
    return None


_plain_source = lru_cache(maxsize=1024)(
    plain_marks
)  # a hostile verdict has 128 quotes, each looked for in 16 passages


def _is_short(text: str, first: int, last: int, rules: QuoteRules) -> bool:
    """Whether a range overlaps no more sentences than a quote may."""
    starts, ends = _sentence_bounds(text)
    return bisect_left(starts, last) - bisect_right(ends, first) <= rules.max_quote_sentences


@lru_cache(maxsize=8192)
def _sentence_bounds(text: str) -> tuple[list[int], list[int]]:
    """Return the starts of a passage's sentences, and their ends; both ascend, as sentences are disjoint."""
    ranges = passage_ranges(text)
    return [start for start, _ in ranges], [end for _, end in ranges]


class Evidence(NamedTuple):
    """The evidence of some entries together.

    counted: ids of the passages that count. invented: number of ids that do not exist. matches: the valid quotes. quote:
    Q, the share of the distinct quotes that are valid wherever they were given. texts: of the cited passages by id.
    verbatim: whether only quotes count, in Q and C, that match without `plain_marks`.
    """

    counted: tuple[str, ...]
    invented: int
    matches: list[QuoteMatch]
    quote: float
    texts: Mapping[str, str | None]
    verbatim: bool

    @classmethod
    def of(cls, entries: Sequence[Entry], verbatim: bool) -> Evidence:
        """Join entries. A repeated quote counts once, so that repeating a true one does not make up for a false one."""
        texts: dict[str, str | None] = {}
        counted: dict[str, str] = {}
        keys, false_keys = set(), set()
        matches: dict[tuple[str, str], QuoteMatch] = {}
        for _, entry_texts, sources, quotes in entries:
            texts.update(entry_texts)
            counted.update(sources)
            for key, match in quotes:
                keys.add(key)
                if match is not None:
                    matches.setdefault((key, match.passage), match)
                if match is None or (verbatim and not match.is_verbatim):
                    false_keys.add(key)
        quote = (len(keys) - len(false_keys)) / len(keys) if keys else 0.0
        invented = list(texts.values()).count(None)
        return cls(tuple(counted), invented, list(matches.values()), quote, texts, verbatim)


def evidence_f1(counted: Collection[str], invented: int, gold: ClaimGold, rules: QuoteRules) -> float:
    """E: F1 of the cited passages that count. Ids that do not exist lower precision.

    One that was not read is ignored in the paper's components, and statement by statement counted as if it were invented.
    """
    correct = len(gold.evidence.intersection(counted))
    if not correct:
        return 0.0
    required = len(gold.passages) or max(1, min(rules.silence_passages, len(gold.nearest)))
    precision = correct / (len(counted) + invented)
    recall = min(1.0, correct / required)
    return 2 * precision * recall / (precision + recall)


def coverage(evidence: Evidence, gold: ClaimGold, rules: QuoteRules) -> float:
    """C: the share of the gold facts that the quotes cover, reduced for quotes far longer than the facts."""
    quoted: dict[str, list[Range]] = {}
    for _, passage, start, end, is_verbatim in evidence.matches:
        if is_verbatim or not evidence.verbatim:
            quoted.setdefault(passage, []).append((start, end))
    length = covered = expected = 0
    # The union of the quotes, so that a character that is quoted twice counts once.
    for passage, ranges in quoted.items():
        if len(ranges) > 1:
            quoted[passage] = ranges = merge_ranges(ranges)
        for start, end in ranges:
            length += end - start
    for fact in gold.quotable:
        ranges = quoted.get(fact.passage)  # type: ignore[assignment]  # None where nothing was quoted
        # Most quotes are a fact as it is.
        if ranges and ((fact.start, fact.end) in ranges or _is_covered(fact, ranges, evidence, rules)):
            covered += 1
            expected += fact.end - fact.start
    if not covered:
        return 0.0
    # Of the sentences that show a silence any one suffices.
    share = 1.0
    if gold.facts:
        share = covered / len(gold.facts)
        expected = sum([fact.end - fact.start for fact in gold.facts])
    return share * min(1.0, (rules.allowance_factor * expected + rules.allowance_chars) / length)


def _is_covered(fact: GoldFact, ranges: Sequence[Range], evidence: Evidence, rules: QuoteRules) -> bool:
    """Whether disjoint ranges of its passage cover enough of a fact."""
    first, last = fact.start, fact.end
    if overlap(ranges, (first, last)) >= rules.fact_share * (last - first):
        return True
    # A sentence may occur twice in a passage, and a quote matches its first occurrence.
    text = evidence.texts[fact.passage] or ""
    return any(text[first:last] in text[start:end] for start, end in ranges)


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


def overlap(ranges: Sequence[Range], target: Range) -> int:
    """Return how many characters of the target the disjoint ranges cover."""
    first, last = target
    return sum([min(end, last) - max(start, first) for start, end in ranges if start < last and first < end])
