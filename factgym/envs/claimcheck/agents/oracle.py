"""The oracle: it knows the gold, and still searches, reads and quotes like every other agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from factgym.corpora.sentences import passage_ranges
from factgym.datasets.claims import GoldClaim, GoldFact
from factgym.envs.claimcheck.agents.scripted import (
    MAX_CALLS,
    EpisodeBrief,
    ScriptedPolicy,
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


class Oracle(ScriptedPolicy):
    """Searches for the first statement, reads the gold evidence, and submits the gold with whole-sentence quotes."""

    def __init__(self, task: ClaimTask, turns: int, rules: QuoteRules) -> None:
        super().__init__(turns)
        self._task = task
        self._rules = rules

    def play(self, brief: EpisodeBrief) -> ToolLoop[Verdict]:
        """Search, read one passage a turn (several when turns are short), submit."""
        example = self._task.example
        if not brief.is_offline and brief.turns > 1:
            ids = list(example.gold_ids or self._nearest)
            if brief.turns > 2:
                yield [search_call(example.claims[0].text)]
            per_turn = max(1, min(MAX_CALLS, -(-len(ids) // max(1, brief.turns - 2))))
            for start in range(0, len(ids), per_turn):
                yield [read_call(id_) for id_ in ids[start : start + per_turn]]
        entries = [entry for claim in example.claims for entry in self._entries(claim)]
        return make_verdict(example.verdict, entries)

    def _entries(self, gold: GoldClaim) -> Iterator[dict[str, Any]]:
        """Yield one entry, or several with the same statement if it takes more quotes than an entry holds."""
        facts = gold.facts
        ids = list(dict.fromkeys(fact.passage for fact in facts))
        if not facts and self._nearest:
            ids = list(self._nearest)
            facts = tuple(fact for fact in self._task.gold.nearest_sentences if fact.passage == ids[0])[:1]
        quotes = list(dict.fromkeys(quote for fact in facts for quote in self._quotes(fact)))
        for start in range(0, len(quotes), _MAX_QUOTES) or (0,):
            batch = quotes[start : start + _MAX_QUOTES]
            field: str | list[str] = batch if len(batch) > 1 else "".join(batch)
            yield claim_entry(gold.text, gold.status, ids, field, gold.unsupported_span, gold.reason)

    @property
    def _nearest(self) -> tuple[str, ...]:
        """As many of the nearest passages as show a silence."""
        return self._task.example.nearest[: self._rules.silence_passages]

    def _quotes(self, fact: GoldFact) -> Iterator[str]:
        """Yield the text of a fact, in pieces of at most as many sentences as a quote may span."""
        text = self._task.text_of(fact.passage) or ""
        parts = [
            (max(start, fact.start), min(end, fact.end))
            for start, end in passage_ranges(text)
            if start < fact.end and fact.start < end
        ]
        step, min_chars = self._rules.max_quote_sentences, self._rules.min_quote_chars
        pieces = [(fact.start, fact.end)]
        if len(parts) > step:
            joined = [(batch[0][0], batch[-1][1]) for batch in _batches(parts, step)]
            pieces = [(start, end) for start, end in joined if end - start >= min_chars]
        for start, end in pieces:
            if len(text[start:end].strip()) < min_chars:
                start, end = _extend(text, start, end, min_chars)
            yield text[start:end]


def _batches(ranges: Sequence[Range], size: int) -> Iterator[Sequence[Range]]:
    return (ranges[start : start + size] for start in range(0, len(ranges), size))


def _extend(text: str, start: int, end: int, min_chars: int) -> Range:
    """Extend a range too short for a quote ("4.3") by the words before it, or after it at the start of the text."""
    if start >= 2 * min_chars:
        return text.rfind(" ", 0, start - min_chars) + 1, end
    after = text.find(" ", end + 2 * min_chars)
    return start, after if after > 0 else len(text)
