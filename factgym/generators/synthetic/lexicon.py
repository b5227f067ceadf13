"""The lexicons: one table per domain, read on first use into typed topics and entries.

The notation in the files keeps one rule on one line. `~` separates wordings of the same idea (a document and a claim
may use different ones), `|` the verb, object and tail of an action, `@` the event that a period is counted from,
`#` the unit or size of a number, `?` a condition, `!` an exception, `=>` a consequence, `//` a statement's negation.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from factgym.generators.base import word_table
from factgym.generators.synthetic.facts import KINDS, Action, Concept, Kind, Phrase
from factgym.text.words import words_in

DOMAINS = ("company", "legal", "privacy", "hr", "contract")
OOD_DOMAINS = ("university", "hospital", "tenancy", "sports", "municipal")

_THINGS = frozenset({"approve", "keep", "penalty"})
"""Kinds of entries that begin with a noun phrase or an event instead of an action."""

_MARK = re.compile(r"\s*(@|#|\?|!|=>|//)\s*")
_PREPOSITIONS = words_in(
    "about abroad across after against ahead along as at away back before between by down early during for from in"
    " indoors into of off on onto out outside over past remotely to through towards under up with within without"
)


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A rule of one kind that a topic can state: its words, and the numbers, conditions and exceptions that fit."""

    id: str
    kind: Kind
    action: Action | None = None
    thing: Concept | None = None
    anchor: Concept | None = None
    size: str = ""
    per: str = ""
    conditions: tuple[Concept, ...] = ()
    exceptions: tuple[Concept, ...] = ()
    results: tuple[Concept, ...] = ()
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Topic:
    """The subject of a section. parties are disjoint; everyone is a superset of them."""

    id: str
    headings: tuple[str, ...]
    subject: Concept
    everyone: Concept
    parties: tuple[Concept, ...]
    roles: tuple[Concept, ...]
    events: tuple[Concept, ...]
    conditions: tuple[Concept, ...]
    exceptions: tuple[Concept, ...]
    reasons: tuple[Concept, ...]
    channels: tuple[Concept, ...]
    entries: Mapping[str, tuple[Entry, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """A document genre: its topics, titles, names and habits of style (`style` maps a habit to its options)."""

    id: str
    titles: tuple[str, ...]
    topics: tuple[Topic, ...]
    businesses: tuple[str, ...]
    fillers: tuple[str, ...]
    terms: Mapping[str, tuple[str, ...]]
    style: Mapping[str, tuple[str, ...]]


@cache
def load_domain(name: str) -> Domain:
    """Return the domain of this name, parsed once per process."""
    table = word_table(f"lexicon/{name}")
    topics = tuple(_topic(f"{name}.{row['id']}", row) for row in table["topic"])
    keys = ("titles", "businesses", "fillers", "terms", "style")
    return Domain(id=name, topics=topics, **{key: table[key] for key in keys})


def _topic(name: str, row: Mapping[str, Any]) -> Topic:
    def concepts(mark: str, key: str, plural: bool = True) -> tuple[Concept, ...]:
        return _concepts(f"{name}.{mark}", row[key], plural)

    entries: dict[str, tuple[Entry, ...]] = {
        kind: tuple(_entry(f"{name}.{kind}.{at}", kind, line) for at, line in enumerate(row.get(kind, ())))
        for kind in KINDS
    }
    return Topic(
        name, row["headings"], _concept(f"{name}.subject", row["subject"]),
        _concept(f"{name}.everyone", row["everyone"]), concepts("party", "parties"),
        concepts("role", "roles", plural=False), concepts("event", "events", plural=False), concepts("if", "if"),
        concepts("unless", "unless"), concepts("why", "why"), concepts("via", "via"), entries,
    )  # fmt: skip


def _forms(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split("~"))


def _concept(name: str, text: str, plural: bool = True) -> Concept:
    """Return a concept from its line; a leading "sg:" marks singular nouns."""
    if text.startswith("sg:"):
        text, plural = text[3:], False
    return Concept(name, _forms(text), plural)


def _concepts(name: str, lines: Sequence[str], plural: bool = True) -> tuple[Concept, ...]:
    return tuple(_concept(f"{name}.{at}", line, plural) for at, line in enumerate(lines))


def _entry(name: str, kind: Kind, line: str) -> Entry:
    """Parse an entry: its head, then marked fields."""
    head, *marked = _MARK.split(line)
    fields: defaultdict[str, list[str]] = defaultdict(list)
    for mark, text in zip(marked[::2], marked[1::2], strict=True):
        fields[mark].append(text)
    size, _, per = "".join(fields["#"]).strip().partition(" per ")
    is_state, is_thing = kind == "state", kind in _THINGS
    return Entry(
        name,
        kind,
        action=None if is_state or is_thing else Action(name, tuple(_phrase(form, kind) for form in _forms(head))),
        thing=_concept(f"{name}.of", head.strip()) if is_thing else None,
        anchor=_concept(f"{name}.at", fields["@"][0]) if fields["@"] else None,
        size=size,
        per=f"per {per}" if per else "",
        conditions=_concepts(f"{name}.if", fields["?"]),
        exceptions=_concepts(f"{name}.unless", fields["!"]),
        results=_concepts(f"{name}.so", fields["=>"]),
        yes=_forms(head) if is_state else (),
        no=_forms(fields["//"][0]) if is_state else (),
    )


def _phrase(text: str, kind: Kind) -> Phrase:
    """Parse a verb phrase; a prepositional phrase, or the tail of a limit, is no object."""
    parts = [part.strip() for part in text.split("|")]
    verb, obj, tail = (*parts, "", "")[:3]
    if kind == "cap" or obj.partition(" ")[0] in _PREPOSITIONS:
        obj, tail = "", f"{obj} {tail}".strip()
    return Phrase(verb, obj, tail)
