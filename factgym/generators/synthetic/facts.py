"""The fact model: what a document states, before any word of it is chosen (ClaimCheck, "Building The Benchmark").

A document is a set of `Fact`s. A claim is a `Fact` too: a faithful copy of one, or a copy with one slot corrupted.
A slot holds a `Concept` (an idea with several wordings), a number, or a `Term` that another passage defines. Labels
follow from comparing slots (see `factgym.generators.synthetic.judge`); wording never decides them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

Kind = Literal[
    "deadline",
    "notice",
    "may",
    "forbid",
    "approve",
    "cap",
    "keep",
    "every",
    "duty",
    "penalty",
    "state",
    "scope",
    "effective",
    "define",
    "extra",
    "waive",
]
Modality = Literal["must", "should", "may", "must_not", "need_not"]


class Phrase(NamedTuple):
    """A verb phrase in parts: "return | laptops | to the IT desk". `obj` is empty for a verb without an object."""

    verb: str
    obj: str
    tail: str


@dataclass(frozen=True, slots=True)
class Concept:
    """An idea with one or more wordings that mean the same; two concepts differ when their ids do."""

    id: str
    forms: tuple[str, ...]
    plural: bool = True


@dataclass(frozen=True, slots=True)
class Action:
    """Something to be done, with one or more wordings of it."""

    id: str
    forms: tuple[Phrase, ...]


class Quantity(NamedTuple):
    """A whole number of a unit: "day", "working day", "percent", or a currency sign."""

    n: int
    unit: str


class Date(NamedTuple):
    """A calendar date; `month` is 1-12."""

    year: int
    month: int
    day: int


class Term(NamedTuple):
    """A defined name that stands for a slot's value ("the Gate Review"); only its definition says which."""

    name: str
    plural: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement, by slots; an empty slot says nothing.

    about: which rule this is; facts with the same `about` speak of the same thing, for possibly different parties.
    quantity, anchor: how long (or how much), counted from what. authority: who approves, or who is responsible.
    condition, exception: where the rule holds, where it does not. only: the condition is a necessary one.
    universal: the rule says of itself that it has no exception. exceptional: the permission calls itself an exception.
    former, changed: the superseded quantity and the date on which it lapsed.
    excluded: a party that the rule expressly does not reach. term: the name that a `define` fact defines.
    per: what an amount is counted by ("per night"). sole: the reason is said to be the only one.
    general: the statement calls itself the general rule.
    """

    kind: Kind
    about: str
    party: Concept | Term | None = None
    action: Action | None = None
    thing: Concept | None = None
    modality: Modality = "must"
    quantity: Quantity | Term | None = None
    anchor: Concept | Term | None = None
    frequency: Concept | None = None
    authority: Concept | Term | None = None
    condition: Concept | Term | None = None
    exception: Concept | None = None
    reason: Concept | None = None
    channel: Concept | None = None
    result: Concept | None = None
    date: Date | None = None
    holds: bool = True
    universal: bool = False
    only: bool = False
    exceptional: bool = False
    former: Quantity | None = None
    changed: Date | None = None
    excluded: Concept | None = None
    term: Term | None = None
    per: str = ""
    sole: bool = False
    general: bool = False

    def terms(self) -> Iterator[tuple[str, Term]]:
        """The slots that a definition elsewhere fills, with their terms."""
        for slot in ("party", "quantity", "anchor", "authority", "condition"):
            value = getattr(self, slot)
            if isinstance(value, Term):
                yield slot, value


def definition_of(term: Term, slot: str, value: object) -> Fact:
    """The fact that `term` stands for `value` in a slot."""
    return with_slots(Fact("define", f"define:{term.name}", term=term), **{slot: value})


def with_slots(fact: Fact, **slots: Any) -> Fact:
    """`fact` with slots chosen at run time replaced; `dataclasses.replace` without its static types."""
    return replace(fact, **slots)
