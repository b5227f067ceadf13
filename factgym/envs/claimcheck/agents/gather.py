"""The evidence front that all verdict rules share: search per statement, read a few, search again with what was read.

Follows ClaimCheck's tool loop ("search for evidence, read a snippet, decide whether it is enough, maybe search again")
and Baleen's condensed second hop. It sees search results and opened passages only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from factgym.baselines.reading import Seen
from factgym.baselines.rules import terms_of
from factgym.baselines.scope import in_scope, names_in
from factgym.baselines.words import Weights, keys, words
from factgym.corpora.sentences import sentences
from factgym.envs.claimcheck.agents.script import (
    MAX_CALLS,
    Brief,
    Steps,
    evidence_in,
    listing,
    read,
    results_in,
    search,
)

_MAX_STATEMENTS = 8
_HITS = 10
_SMALL = 8
_FIRST_READS = 8
_SECOND_READS = 6
_HOP_WORDS = 6


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was opened, in the order of reading, and for each statement the ids that its search found, best first."""

    opened: list[Seen] = field(default_factory=list)
    hits: Mapping[str, Sequence[str]] = field(default_factory=dict)


def statements(answer: str) -> list[str]:
    """The statements of an answer: its sentences, at least one and at most eight, verbatim."""
    found = [answer[start:end][:4000] for start, end in sentences(answer)]
    return found[:_MAX_STATEMENTS] or [answer[:4000].strip() or "?"]


def gather(brief: Brief) -> Steps[Gathered]:
    """The passages to judge by. Takes at most four turns before the submission, fewer where turns are short."""
    if brief.offline:
        return Gathered(list(brief.shown))
    if brief.turns < 3:
        return Gathered()
    asked = statements(brief.answer)
    names = " ".join(names_in(brief.question))
    text = yield [*(search(f"{one} {names}", _HITS) for one in asked), listing()]
    *found, listed = _responses(text)
    found = [in_scope(brief.question, some) for some in found]
    hits = {one: [hit.id for hit in some] for one, some in zip(asked, found, strict=False)}
    chosen = [one.id for one in listed] if len(listed) <= _SMALL else _choose(asked, found, (), _FIRST_READS)
    opened = evidence_in((yield [read(one) for one in chosen])) if chosen else []
    if len(listed) <= _SMALL or not opened or brief.turns < 5:
        return Gathered(opened, hits)
    text = yield [search(f"{query} {names}", _HITS) for query in _second_queries(brief.question, asked, opened)]
    found = [in_scope(brief.question, some) for some in _responses(text)]
    more = _choose(asked, found, [one.id for one in opened], _SECOND_READS)
    if more:
        opened += evidence_in((yield [read(one) for one in more]))
    return Gathered(in_scope(brief.question, opened), hits)


def _responses(text: str) -> list[list[Seen]]:
    """The results of each call of a turn."""
    return [results_in(piece) for piece in text.split("<tool_response>")[1:]]


def _choose(asked: Sequence[str], results: Sequence[Sequence[Seen]], known: Sequence[str], most: int) -> list[str]:
    """Ids to open, the statements taking turns: the first hit, then the results that share most of the telling words."""
    weights = Weights(keys(f"{one.title} {one.text}") for some in results for one in some)
    queues = []
    for statement, some in zip(asked, results, strict=False):
        wanted = dict.fromkeys(keys(statement))
        new = [one for one in some if one.id not in known]
        ranked = sorted(enumerate(new[1:]), key=lambda pair: (-_shared(wanted, pair[1], weights), pair[0]))
        queues.append([one.id for one in new[:1]] + [one.id for _, one in ranked])
    turns = [queue[place] for place in range(_HITS) for queue in queues if place < len(queue)]
    return list(dict.fromkeys(turns))[: min(most, MAX_CALLS)]


def _shared(wanted: Mapping[str, None], seen: Seen, weights: Weights) -> float:
    return weights.sum(key for key in keys(f"{seen.title} {seen.text}") if key in wanted)


def _second_queries(question: str, asked: Sequence[str], opened: Sequence[Seen]) -> list[str]:
    """For each statement: what of it is not in the nearest sentence read, and the names and words that that one adds."""
    known = [one.text[start:end] for one in opened for start, end in sentences(one.text)]
    weights = Weights(keys(text) for text in known)
    queries = []
    for statement in asked:
        wanted = dict.fromkeys(keys(statement))
        nearest = max(known, key=lambda text: weights.sum(key for key in keys(text) if key in wanted), default="")
        covered = frozenset(keys(nearest))
        missing = [word.lower for word in words(statement) if word.content and word.key not in covered]
        added = [word for word in words(nearest) if word.content and word.key not in wanted]
        added = sorted(added, key=lambda word: -weights.of(word.key))[:_HOP_WORDS]
        terms = [term for term in terms_of(nearest) for _ in range(2)]
        query = " ".join([*terms, *dict.fromkeys([*missing, *(word.lower for word in added)])])
        queries.append(query or question)
    return queries
