"""The evidence front that all verdict rules share: search per statement, read a few, search again with what was read.

Follows ClaimCheck's tool loop ("search for evidence, read a snippet, decide whether it is enough, maybe search again")
and Baleen's condensed second hop. It sees search results and opened passages only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from factgym.corpora.text import sentences
from factgym.envs.claimcheck.players.script import (
    MAX_CALLS,
    Brief,
    Seen,
    Steps,
    evidence_in,
    read,
    results_in,
    search,
)
from factgym.envs.claimcheck.players.words import Weights, keys, words

_MAX_STATEMENTS = 8
_HITS = 8
_FIRST_READS = 8
_SECOND_READS = 4
_HOP_WORDS = 6


def statements(answer: str) -> list[str]:
    """The statements of an answer: its sentences, at least one and at most eight, verbatim."""
    found = [answer[start:end][:4000] for start, end in sentences(answer)]
    return found[:_MAX_STATEMENTS] or [answer[:4000].strip() or "?"]


def gather(brief: Brief) -> Steps[list[Seen]]:
    """The passages to judge by, opened, in the order of reading. Takes at most four turns, fewer where turns are short."""
    if brief.offline:
        return list(brief.shown)
    if brief.turns < 3:
        return []
    asked = statements(brief.answer)
    text = yield [search(one, _HITS) for one in asked]
    results = _responses(text)
    chosen = _choose(asked, results, (), -(-_FIRST_READS // len(asked)), _FIRST_READS)
    if not chosen:
        text = yield [search(brief.question, _HITS)]
        chosen = [one.id for one in results_in(text)[:2]] if brief.turns > 3 else []
    opened = evidence_in((yield [read(one) for one in chosen])) if chosen else []
    if not opened or brief.turns < 5:
        return opened
    text = yield [search(one, _HITS) for one in _second_queries(brief.question, asked, opened)]
    more = _choose(asked, _responses(text), [one.id for one in opened], 2, _SECOND_READS)
    if more:
        opened += evidence_in((yield [read(one) for one in more]))
    return opened


def _responses(text: str) -> list[list[Seen]]:
    """The results of each search of a turn."""
    return [results_in(piece) for piece in text.split("<tool_response>")[1:]]


def _choose(
    asked: Sequence[str], results: Sequence[Sequence[Seen]], known: Sequence[str], each: int, most: int
) -> list[str]:
    """Ids to open: for each statement the results that share most of its telling words, ties in the order of search."""
    weights = Weights(keys(f"{one.title} {one.text}") for some in results for one in some)
    chosen: dict[str, None] = {}
    for statement, some in zip(asked, results, strict=False):
        wanted = dict.fromkeys(keys(statement))
        new = [one for one in some if one.id not in known]
        ranked = sorted(enumerate(new), key=lambda pair: (-_shared(wanted, pair[1], weights), pair[0]))
        chosen.update((one.id, None) for _, one in ranked[:each])
    return list(chosen)[: min(most, MAX_CALLS)]


def _shared(wanted: Mapping[str, None], seen: Seen, weights: Weights) -> float:
    return weights.sum(key for key in dict.fromkeys(keys(f"{seen.title} {seen.text}")) if key in wanted)


def _second_queries(question: str, asked: Sequence[str], opened: Sequence[Seen]) -> list[str]:
    """For each statement: what of it is not in the nearest sentence read, and what that sentence adds to it."""
    known = [(one.title, one.text[start:end]) for one in opened for start, end in sentences(one.text)]
    weights = Weights(keys(text) for _, text in known)
    queries = []
    for statement in asked:
        wanted = dict.fromkeys(keys(statement))
        title, nearest = max(
            known,
            key=lambda pair: weights.sum(key for key in dict.fromkeys(keys(pair[1])) if key in wanted),
            default=("", ""),
        )
        covered = frozenset(keys(nearest))
        missing = [word.lower for word in words(statement) if word.content and word.key not in covered]
        added = [word for word in words(nearest) if word.content and word.key not in wanted]
        added = sorted(added, key=lambda word: -weights.of(word.key))[:_HOP_WORDS]
        query = " ".join(dict.fromkeys([*missing, *(word.lower for word in added), *title.lower().split()]))
        queries.append(query or question)
    return queries
