"""The oracle: it knows the gold, and still searches, reads and quotes like every other agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from factgym.corpora.sentences import passage_ranges
from factgym.datasets.claims import GoldClaim, GoldFact
from factgym.envs.claimcheck.agents.scripted import (
    MAX_CALLS,
    EpisodeBrief,
    ToolLoop,
    Verdict,
    claim_entry,
    make_verdict,
    read_call,
    search_call,
)
from factgym.envs.claimcheck.tasks import ClaimTask
from factgym.rewards.claimcheck import QuoteRules, Range

_MAX_QUOTES = 8
"""Limit of the published schema on the quotes of one entry."""


def play_gold(brief: EpisodeBrief, task: ClaimTask, rules: QuoteRules) -> ToolLoop[Verdict]:
    """Search for the first statement, read the gold evidence, one passage a turn if possible, and submit the gold."""
    example = task.example
    nearest = example.nearest[: rules.silence_passages]
    if not brief.is_offline and brief.turns > 1:
        ids = list(example.gold_ids or nearest)
        if brief.turns > 2:
            yield [search_call(example.claims[0].text)]
        per_turn = max(1, min(MAX_CALLS, -(-len(ids) // max(1, brief.turns - 2))))
        for start in range(0, len(ids), per_turn):
            yield [read_call(id_) for id_ in ids[start : start + per_turn]]
    entries = [entry for claim in example.claims for entry in _gold_entries(claim, nearest, task, rules)]
    return make_verdict(example.verdict, entries)


def _gold_entries(
    claim: GoldClaim, nearest: Sequence[str], task: ClaimTask, rules: QuoteRules
) -> Iterator[dict[str, Any]]:
    """Yield one entry, or several with the same statement if it takes more quotes than an entry holds."""
    facts = claim.facts
    ids = list(dict.fromkeys(fact.passage for fact in facts))
    if not facts and nearest:
        ids = list(nearest)
        facts = tuple(fact for fact in task.gold.nearest_sentences if fact.passage == ids[0])[:1]
    texts = {fact.passage: task.text_of(fact.passage) or "" for fact in facts}
    quotes = list(dict.fromkeys(quote for fact in facts for quote in _quote_fact(fact, texts[fact.passage], rules)))
    for start in range(0, len(quotes), _MAX_QUOTES) or (0,):
        batch = quotes[start : start + _MAX_QUOTES]
        field: str | list[str] = batch if len(batch) > 1 else "".join(batch)
        yield claim_entry(claim.text, claim.status, ids, field, claim.unsupported_span, claim.reason)


def _quote_fact(fact: GoldFact, text: str, rules: QuoteRules) -> Iterator[str]:
    """Yield the text of a fact, in pieces of at most as many sentences as a quote may span."""
    parts = [
        (max(start, fact.start), min(end, fact.end))
        for start, end in passage_ranges(text)
        if start < fact.end and fact.start < end
    ]
    step, min_chars = rules.max_quote_sentences, rules.min_quote_chars
    pieces = [(fact.start, fact.end)]
    if len(parts) > step:
        batches = [parts[first : first + step] for first in range(0, len(parts), step)]
        joined = [(batch[0][0], batch[-1][1]) for batch in batches]
        pieces = [(start, end) for start, end in joined if end - start >= min_chars]
    for start, end in pieces:
        if len(text[start:end].strip()) < min_chars:
            start, end = _extend(text, start, end, min_chars)
        yield text[start:end]


def _extend(text: str, start: int, end: int, min_chars: int) -> Range:
    """Extend a range too short for a quote ("4.3") by the words before it, or after it at the start of the text."""
    if start >= 2 * min_chars:
        return text.rfind(" ", 0, start - min_chars) + 1, end
    after = text.find(" ", end + 2 * min_chars)
    return start, after if after > 0 else len(text)
