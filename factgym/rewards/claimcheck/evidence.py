"""Quotes and cited passages of a submission: matched once, and compared with the gold facts.

Components E (`evidence_f1`), Q (`join_quotes`) and C (`coverage`) of the paper, for the entries of one statement or of all; see
`scoring` for the rules.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from factgym.datasets.claims import GoldFact
from factgym.rewards.claimcheck.gold import ClaimGold, Range, merge_ranges
from factgym.text.folding import find_folded, find_quote, fold, plain_marks
from factgym.text.sentences import passage_ranges

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

Quoted = Mapping[str, Sequence[Range]]
"""Passage -> ranges of its characters that valid quotes hold, disjoint and sorted."""


class QuoteMatch(NamedTuple):
    """A submitted quote and its range in a passage. is_verbatim: without `plain_marks`."""

    quote: str
    passage: str
    start: int
    end: int
    is_verbatim: bool = True


class Source(NamedTuple):
    """A passage in which quotes are looked for.

    folded: `fold` of its text, the text itself where that is equal. starts, ends: of its sentences; both ascend, as
    sentences are disjoint.
    """

    text: str
    folded: str
    starts: Sequence[int]
    ends: Sequence[int]

    def sentences_in(self, start: int, end: int) -> int:
        """Return how many sentences a range overlaps."""
        return bisect_left(self.starts, end) - bisect_right(self.ends, start)


@lru_cache(maxsize=8192)  # a passage is quoted in many episodes
def _source(text: str) -> Source:
    folded, ranges = fold(text), passage_ranges(text)
    starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
    return Source(text, text if folded == text else folded, starts, ends)


class Entry(NamedTuple):
    """An entry of a verdict. cited: ids of passages. quotes: each with its white space folded, and its match in a source."""

    claim: Mapping[str, Any]
    cited: Sequence[str]
    quotes: list[tuple[str, QuoteMatch | None]]


class Entries(NamedTuple):
    """The entries of a verdict, over which the whole answer and its statements are scored.

    texts: of all cited passages by id, None for one that does not exist. sources: of those that were read.
    """

    claims: list[Entry]
    texts: Mapping[str, str | None]
    sources: Mapping[str, Source]


def read_entries(submission: Mapping[str, Any], text_of: TextOf, read: Collection[str], rules: QuoteRules) -> Entries:
    """Return the entries of a submission; each passage and each quote is looked up once."""
    claims = submission["claims"]
    cited = dict.fromkeys([id_ for claim in claims for id_ in claim["evidence_ids"]])
    texts = {id_: text_of(id_) for id_ in cited | dict.fromkeys(submission.get("evidence_used", ()))}
    sources = {id_: _source(text) for id_, text in texts.items() if text is not None and id_ in read}
    entries = []
    for claim in claims:
        own = [(id_, sources[id_]) for id_ in dict.fromkeys(claim["evidence_ids"]) if id_ in sources]
        matched: list[tuple[str, QuoteMatch | None]] = []
        quotes = claim["quote"]
        for quote in [quotes] if isinstance(quotes, str) else quotes:
            if key := " ".join(quote.split()):
                matched.append((key, _match_quote(quote, key if key.isascii() else fold(key), own, rules)))
        entries.append(Entry(claim, claim["evidence_ids"], matched))
    return Entries(entries, texts, sources)


def _match_quote(
    quote: str, folded: str, sources: Sequence[tuple[str, Source]], rules: QuoteRules
) -> QuoteMatch | None:
    """Return a quote's range in the first passage in which it is valid: verbatim, else but for typographic marks."""
    if len(quote.strip()) < rules.min_quote_chars:
        return None
    for passage, source in sources:
        at = source.folded.find(folded)
        if at >= 0:
            span = (at, at + len(folded)) if source.folded is source.text else find_folded(folded, source.text)
            if span is not None and source.sentences_in(*span) <= rules.max_quote_sentences:
                return QuoteMatch(quote, passage, *span)
    plain_quote = plain_marks(quote)
    for passage, source in sources:
        plain = _plain_text(source.text)
        # Where neither has such a mark, nothing is new. Lengths are kept, so that a range is one of the passage itself.
        if plain is source.text and plain_quote is quote:
            continue
        span = find_quote(plain_quote, plain)
        if span is not None and source.sentences_in(*span) <= rules.max_quote_sentences:
            return QuoteMatch(quote, passage, *span, is_verbatim=False)
    return None


_plain_text = lru_cache(maxsize=1024)(plain_marks)  # a hostile verdict has 128 quotes, each looked for in 16 passages


def join_quotes(entries: Iterable[Entry], verbatim: bool) -> tuple[float, Quoted]:
    """Return Q, the share of the distinct quotes that are valid wherever they were given, and the ranges of the valid ones.

    verbatim: whether only quotes count that match without `plain_marks`. A repeated quote counts once, so that repeating
    a true one does not make up for a false one.
    """
    keys, false_keys = set(), set()
    quoted: dict[str, Sequence[Range]] = {}
    for _, _, quotes in entries:
        for key, match in quotes:
            keys.add(key)
            if match is None or (verbatim and not match.is_verbatim):
                false_keys.add(key)
            else:
                span = match.start, match.end
                # A union, so that a character that is quoted twice counts once.
                ranges = quoted.get(match.passage)
                quoted[match.passage] = merge_ranges([*ranges, span]) if ranges else [span]
    return ((len(keys) - len(false_keys)) / len(keys) if keys else 0.0), quoted


def evidence_f1(counted: Collection[str], unfounded: int, gold: ClaimGold, rules: QuoteRules) -> float:
    """E: F1 of the cited passages that count. Ids that do not exist lower precision.

    One that was not read is ignored in the paper's components, and statement by statement counted as if it were invented.
    """
    correct = len(gold.evidence.intersection(counted))
    if not correct:
        return 0.0
    required = len(gold.passages) or max(1, min(rules.silence_passages, len(gold.nearest)))
    precision = correct / (len(counted) + unfounded)
    recall = min(1.0, correct / required)
    return 2 * precision * recall / (precision + recall)


def coverage(quoted: Quoted, sources: Mapping[str, Source], gold: ClaimGold, rules: QuoteRules) -> float:
    """C: the share of the gold facts that the quotes cover, reduced for quotes far longer than the facts."""
    covered = expected = 0
    for fact in gold.quotable:
        ranges = quoted.get(fact.passage)
        # Most quotes are a fact as it is.
        if ranges and (
            (fact.start, fact.end) in ranges or _is_covered(fact, ranges, sources[fact.passage].text, rules)
        ):
            covered += 1
            expected += fact.end - fact.start
    if not covered:
        return 0.0
    # Of the sentences that show a silence any one suffices.
    share = 1.0
    if gold.facts:
        share = covered / len(gold.facts)
        expected = gold.fact_chars
    length = sum([end - start for ranges in quoted.values() for start, end in ranges])
    return share * min(1.0, (rules.allowance_factor * expected + rules.allowance_chars) / length)


def _is_covered(fact: GoldFact, ranges: Sequence[Range], text: str, rules: QuoteRules) -> bool:
    """Whether disjoint ranges of its passage cover enough of a fact."""
    first, last = fact.start, fact.end
    if overlap(ranges, (first, last)) >= rules.fact_share * (last - first):
        return True
    # A sentence may occur twice in a passage, and a quote matches its first occurrence.
    return any(text[first:last] in text[start:end] for start, end in ranges)


def overlap(ranges: Sequence[Range], target: Range) -> int:
    """Return how many characters of the target the disjoint ranges cover."""
    first, last = target
    return sum([min(end, last) - max(start, first) for start, end in ranges if start < last and first < end])
