"""Triplets, the interface of their extractors, and the queries that are counted for them.

    (Philadelphia Flyers, won, Stanley Cup)  ->  Philadelphia AND Flyers AND Stanley AND Cup

The query rules are those of the authors' published code. An entity's content words are its capitalised words of two or
more characters that are no stop words; without any, its words of more than two characters that are no stop words;
without these either, the entity itself. Repeated words (ignoring case) are dropped; fewer than two words are no query.
The relation is not counted, except under the rule "relcheck".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from factgym.text.words import words_in

PRONOUNS = words_in(
    "he him his she her hers it its they them their theirs we us our ours i me my mine you your yours this that these "
    "those who whom which himself herself itself themselves myself yourself there here someone something anyone "
    "anything everyone everything nobody nothing"
)
"""A head or tail among these makes a triplet invalid: it has no referent to count."""

STOP_WORDS = words_in(
    "the a an of in at on for by with to from and or is was are were be been being has had have do does did not no but "
    "if so as its it"
)
"""Words that are never counted: articles, common prepositions, auxiliaries, connectives, "it"."""

_MAX_STOP_WORD_CHARS = max(map(len, STOP_WORDS))

Query = tuple[str, ...]


class Triplet(NamedTuple):
    """A relation between two entities, in the sentence's own words."""

    head: str
    relation: str
    tail: str

    @property
    def valid(self) -> bool:
        """Whether head and tail are neither empty nor a pronoun."""
        head, tail = self.head.strip().lower(), self.tail.strip().lower()
        return bool(head and tail) and head not in PRONOUNS and tail not in PRONOUNS


@runtime_checkable
class Extractor(Protocol):
    """Extracts triplets. Must be deterministic: the same sentence has the same triplets."""

    def extract(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        """Return the triplets of each sentence, in order; an empty list for none."""

    def describe(self) -> dict[str, Any]:
        """Return JSON data for a manifest, equal for extractors with equal results."""


def content_words(entity: str) -> list[str]:
    """Return the content words of an entity, in order, with repetitions. Never empty unless the entity is."""
    words = (entity.replace(",", " ") if "," in entity else entity).split()
    capitalised = [
        word
        for word in words
        if word[0].isupper()
        # Words longer than every stop word need no look-up.
        and (len(word) > _MAX_STOP_WORD_CHARS or (len(word) > 1 and word.lower() not in STOP_WORDS))
    ]
    if capitalised:
        return capitalised
    long_words = [word for word in words if len(word) > 2 and word.lower() not in STOP_WORDS]
    return long_words or ([entity.strip()] if words else [])


def build_query(triplet: Triplet, *, relation: bool = False) -> Query | None:
    """Return the words to count together; None for fewer than two.

    relation: add the words of the relation without stop words ("relcheck").
    """
    query = _distinct([*content_words(triplet.head), *content_words(triplet.tail)])
    if len(query) < 2:
        return None
    if relation:
        words = [word for word in triplet.relation.replace(",", " ").split() if word.lower() not in STOP_WORDS]
        query = _distinct([*query, *words])
    return query


def _distinct(words: Sequence[str]) -> Query:
    """Return the words without repetitions, ignoring case; the first spelling of each is used."""
    spellings: dict[str, str] = {}
    for word in words:
        spellings.setdefault(word.lower(), word)
    return tuple(spellings.values())
