"""The fact model: the statements of a document, before any word of them is chosen (ClaimCheck, "Building The Benchmark").

A document is a set of `Fact`s. A claim is a `Fact` too: a faithful copy of one, or a copy with one slot corrupted.
A slot holds a `Concept` (an idea with several wordings), a number, or a `Term` that another passage defines. Labels
follow from comparing slots; wording never decides them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

Kind = Literal[
    "deadline", "notice", "may", "forbid", "approve", "cap", "keep", "every", "duty", "penalty", "state", "scope",
    "effective", "define", "extra", "waive",
]  # fmt: skip
Modality = Literal["must", "should", "may", "must_not", "need_not"]

KINDS: tuple[Kind, ...] = (
    "deadline", "notice", "may", "forbid", "approve", "cap", "keep", "every", "duty", "penalty", "state",
)  # fmt: skip
"""Kinds of rules that a lexicon has entries for."""

TERM_SLOTS = ("party", "quantity", "anchor", "authority", "condition")
"""Slots that a definition elsewhere can fill."""


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

    @property
    def is_money(self) -> bool:
        """Whether the unit is a currency."""
        return self.unit in "$£€"


class Date(NamedTuple):
    """A calendar date; `month` is 1-12."""

    year: int
    month: int
    day: int


class Term(NamedTuple):
    """A defined name in place of a slot's value ("the Gate Review"); only its definition gives the value."""

    name: str
    plural: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement, by slots; an empty slot says nothing.

    about: id of the rule; facts with the same `about` are on the same matter, for possibly different parties.
    quantity, anchor: how long (or how much), counted from which event. authority: who approves, or is responsible.
    condition, exception: cases where the rule holds or does not. only: the condition is a necessary one.
    universal: the rule says of itself that it has no exception. exceptional: the permission calls itself an exception.
    former, changed: the superseded quantity and the date on which it lapsed.
    excluded: a party that the rule expressly does not reach. term: the name that a `define` fact defines.
    per: the unit that an amount is counted by ("per night"). sole: the reason is the only one.
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
        """Iterate over the slots that a definition elsewhere fills, with their terms."""
        for slot in TERM_SLOTS:
            value = getattr(self, slot)
            if isinstance(value, Term):
                yield slot, value

    @property
    def counts(self) -> bool:
        """Whether the quantity is a limit that is no money."""
        return self.kind == "cap" and isinstance(self.quantity, Quantity) and not self.quantity.is_money


def definition_of(term: Term, slot: str, value: object) -> Fact:
    """Return the fact that defines `term` as `value` of a slot."""
    return with_slots(Fact("define", f"define:{term.name}", term=term), **{slot: value})


def with_slots(fact: Fact, **slots: Any) -> Fact:
    """Return `fact` with slots chosen at run time replaced: `dataclasses.replace` without its static types."""
    return replace(fact, **slots)


def is_everyone(party: object) -> bool:
    """Return whether a party is a topic's superset of all parties."""
    return isinstance(party, Concept) and party.id.endswith(".everyone")


def rule_in_force(rule: Fact, document: Sequence[Fact]) -> Fact:
    """Return `rule` with its terms replaced by their definitions, and with an exception that is stated elsewhere."""
    definitions = {fact.term: fact for fact in document if fact.kind == "define" and fact.term}
    values = {slot: getattr(definitions[term], slot) for slot, term in rule.terms() if term in definitions}
    waived = next((fact.exception for fact in document if fact.kind == "waive" and fact.about == rule.about), None)
    if waived is not None:
        values["exception"] = waived
    return with_slots(rule, **values) if values else rule
