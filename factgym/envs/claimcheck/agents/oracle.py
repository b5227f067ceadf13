"""The oracle: it knows the gold, and still searches, reads and quotes like everybody else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from factgym.corpora.sentences import passage_ranges
from factgym.datasets.claims import GoldClaim, GoldFact
from factgym.envs.claimcheck.agents.script import (
    MAX_CALLS,
    Brief,
    Script,
    Steps,
    Verdict,
    claim,
    read,
    search,
    verdict,
)
from factgym.envs.claimcheck.tasks import ClaimTask

Range = tuple[int, int]

_QUOTES = 8
"""Quotes that the published schema admits in one entry."""


class Oracle(Script):
    """Searches for the first statement, reads the gold evidence, and submits the gold with whole-sentence quotes."""

    def __init__(self, task: ClaimTask, turns: int, rules: Any) -> None:
        super().__init__(turns)
        self._task = task
        self._rules = rules

    def play(self, brief: Brief) -> Steps[Verdict]:
        """Search, read one passage a turn (several when turns are short), submit."""
        if not brief.offline and brief.turns > 1:
            wanted = list(self._task.example.gold_ids or self._nearest)
            if brief.turns > 2:
                yield [search(self._task.example.claims[0].text)]
            for ids in _spread(wanted, max(1, brief.turns - 2)):
                yield [read(one) for one in ids]
        return self._gold()

    def _gold(self) -> Verdict:
        example = self._task.example
        entries = [entry for one in example.claims for entry in self._entries(one)]
        return verdict(example.verdict, entries)

    def _entries(self, gold: GoldClaim) -> Iterator[dict[str, Any]]:
        """One entry, or several with the same statement where it takes more quotes than an entry holds."""
        facts = gold.facts
        ids = list(dict.fromkeys(fact.passage for fact in facts))
        if not facts and self._task.example.nearest:
            ids = list(self._nearest)
            facts = tuple(one for one in self._task.gold.places if one.passage == ids[0])[:1]
        quotes = list(dict.fromkeys(quote for fact in facts for quote in self._quotes(fact)))
        for start in range(0, len(quotes), _QUOTES) or (0,):
            some = quotes[start : start + _QUOTES]
            said: str | list[str] = some if len(some) > 1 else "".join(some)
            yield claim(gold.text, gold.status, ids, said, gold.unsupported_span, gold.reason)

    @property
    def _nearest(self) -> tuple[str, ...]:
        """As many of the nearest passages as show a silence."""
        return self._task.example.nearest[: self._rules.silence_passages]

    def _quotes(self, fact: GoldFact) -> Iterator[str]:
        """The fact's words, in pieces of at most as many sentences as a quote may span."""
        text = self._task.text_of(fact.passage) or ""
        inside = [
            (max(a, fact.start), min(b, fact.end)) for a, b in passage_ranges(text) if a < fact.end and fact.start < b
        ]
        step, least = self._rules.max_quote_sentences, self._rules.min_quote_chars
        pieces = list(_pieces(inside, step, least)) if len(inside) > step else [(fact.start, fact.end)]
        for start, end in pieces:
            if len(text[start:end].strip()) < least:
                start, end = _widened(text, start, end, least)
            yield text[start:end]


def _pieces(spans: Sequence[Range], step: int, least: int) -> Iterator[Range]:
    """Neighbouring spans joined `step` at a time; what stays shorter than `least` characters is left out."""
    for start in range(0, len(spans), step):
        some = spans[start : start + step]
        if some[-1][1] - some[0][0] >= least:
            yield some[0][0], some[-1][1]


def _widened(text: str, start: int, end: int, least: int) -> Range:
    """A stretch too short to be a quote ("4.3"), with the words before it, or after it where there are none."""
    if start >= 2 * least:
        return text.rfind(" ", 0, start - least) + 1, end
    after = text.find(" ", end + 2 * least)
    return start, after if after > 0 else len(text)


def _spread(ids: Sequence[str], turns: int) -> Iterable[Sequence[str]]:
    """The ids in at most `turns` groups, one each while there are turns enough."""
    size = min(MAX_CALLS, -(-len(ids) // turns))
    return [ids[start : start + size] for start in range(0, len(ids), size)] if ids else []
