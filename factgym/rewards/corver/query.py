"""From a triplet to the words that are counted together.

    (Philadelphia Flyers, won, Stanley Cup)  ->  Philadelphia AND Flyers AND Stanley AND Cup

The rules are those of the authors' published code. An entity's content words are its capitalised words of two or more
characters that are no stop words; where it has none, its words of more than two characters that are no stop words;
where it has none of these either, the entity itself. Words that repeat (ignoring case) are dropped, and under two
words there is no query. The relation is not counted, but for the rule "relcheck".
"""

from __future__ import annotations

from collections.abc import Sequence

from factgym.rewards.corver.triplets import Triplet

_STOP = (
    "the a an of in at on for by with to from and or is was are were be been being has had have do does did not no but "
    "if so as its it"
)
STOP_WORDS = frozenset(_STOP.split())
"""The closed class of words that never count: articles, common prepositions, auxiliaries, connectives, "it"."""

Query = tuple[str, ...]


def content_words(entity: str) -> list[str]:
    """The content words of an entity, in order, repetitions included. Never empty unless the entity is."""
    words = (entity.replace(",", " ") if "," in entity else entity).split()
    # Longer words than the longest stop word need not be looked up.
    proper = [
        one for one in words if one[0].isupper() and (len(one) > 5 or (len(one) > 1 and one.lower() not in STOP_WORDS))
    ]
    if proper:
        return proper
    long = [one for one in words if len(one) > 2 and one.lower() not in STOP_WORDS]
    return long or ([entity.strip()] if words else [])


def query_of(triplet: Triplet, *, relation: bool = False) -> Query | None:
    """The words to count together; None under two words.

    relation: add the words of the relation, stop words left out ("relcheck"); a relation of stop words adds none.
    """
    words = [*content_words(triplet.head), *content_words(triplet.tail)]
    query = _distinct(words)
    if len(query) < 2:
        return None
    if relation:
        extra = [one for one in triplet.relation.replace(",", " ").split() if one.lower() not in STOP_WORDS]
        query = _distinct([*query, *extra])
    return query


def _distinct(words: Sequence[str]) -> Query:
    """The words without repetitions, ignoring case; of those the first spelling stays."""
    if len(set(map(str.lower, words))) == len(words):
        return tuple(words)
    found: dict[str, str] = {}
    for word in words:
        key = word.lower()
        if key not in found:
            found[key] = word
    return tuple(found.values())
