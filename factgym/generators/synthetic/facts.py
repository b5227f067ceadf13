"""The fact model: what a document states, before any word of it is chosen (ClaimCheck, "Building The Benchmark").

A document is a set of `Fact`s. A claim is a `Fact` too: a faithful copy of one, or a copy with one slot corrupted.
A slot holds a `Concept` (an idea with several wordings), a number, or a `Term` that another passage defines. Labels
follow from comparing slots (see `judge`); wording never decides them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from factgym.datasets.claims import Status

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


# Labels from slots alone: a check on the generator, independent of the operators that make the claims and of all wording.
# Terms are looked up in the document's definitions first, which is the composition that multi-hop examples ask for.

_STRENGTH = {"may": 0, "should": 1, "must": 2}
_VALUES = ("quantity", "anchor", "frequency", "authority", "result", "date")


def judge(claim: Fact, document: Sequence[Fact]) -> Status:
    """The status of `claim` against the facts of `document`.

    contradicted: the document's own rule for the claim's party gives another value, polarity, condition or sole
    reason, or expressly leaves the party out. overclaim: the values agree, but the claim holds of more parties or
    cases, or with more force. unsupported: no rule on the matter, none for the party, or a detail not given.
    """
    same = [fact for fact in document if fact.about == claim.about and fact.kind not in ("define", "waive")]
    rules = [rule_in_force(fact, document) for fact in same]
    if not rules:
        return "unsupported"
    own = [rule for rule in rules if _covers(rule, claim.party)]
    if own:
        return _compare(claim, own[0])
    if any(_id(rule.excluded) == _id(claim.party) for rule in rules if rule.excluded):
        return "contradicted"
    if _is_everyone(claim.party):
        status = _compare(replace(claim, party=rules[0].party), rules[0])
        return "overclaim" if status == "supported" else status
    return "unsupported"


def resolve(fact: Fact, definitions: dict[Term, Fact]) -> Fact:
    """Return `fact` with each defined term replaced by the value of its definition."""
    values = {slot: getattr(definitions[term], slot) for slot, term in fact.terms() if term in definitions}
    return replace(fact, **values) if values else fact


def rule_in_force(rule: Fact, document: Sequence[Fact]) -> Fact:
    """Return `rule` with its terms looked up, and with an exception that the document states elsewhere."""
    definitions = {fact.term: fact for fact in document if fact.kind == "define" and fact.term}
    waived = next((fact.exception for fact in document if fact.kind == "waive" and fact.about == rule.about), None)
    rule = resolve(rule, definitions)
    return replace(rule, exception=waived) if waived is not None else rule


def _id(value: Any) -> object:
    return value.id if isinstance(value, Concept) else value


def _is_everyone(party: object) -> bool:
    return isinstance(party, Concept) and party.id.endswith(".everyone")


def _covers(rule: Fact, party: object) -> bool:
    return rule.party is None or _is_everyone(rule.party) or _id(rule.party) == _id(party)


def _compare(claim: Fact, rule: Fact) -> Status:
    if claim.holds != rule.holds or _opposed(claim, rule):
        return "contradicted"
    missing = False
    for slot in _VALUES:
        stated, true = getattr(claim, slot), getattr(rule, slot)
        if stated is not None and _id(stated) != _id(true):
            if true is not None:
                return "contradicted"
            missing = True
    limits, missing_limit = _limits(claim, rule)
    if limits is None:
        return "contradicted"
    if limits or _STRENGTH.get(claim.modality, 0) > _STRENGTH.get(rule.modality, 0):
        return "overclaim"
    return "unsupported" if missing or missing_limit else "supported"


def _opposed(claim: Fact, rule: Fact) -> bool:
    if claim.modality == rule.modality:
        return False
    return "must_not" in (claim.modality, rule.modality) or claim.modality == "need_not"


def _limits(claim: Fact, rule: Fact) -> tuple[bool | None, bool]:
    """(whether the claim leaves out a limit, or None if it contradicts one; whether it adds what is not stated)."""
    broader = missing = False
    for slot in ("condition", "exception", "reason", "channel"):
        stated, true = getattr(claim, slot), getattr(rule, slot)
        if _id(stated) == _id(true):
            continue
        if stated is None:
            broader = broader or slot in ("condition", "exception")
        elif true is None or (slot == "reason" and not rule.sole):
            missing = True
        else:
            return None, missing
    return broader, missing
