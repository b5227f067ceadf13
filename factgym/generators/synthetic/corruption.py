"""Controlled corruptions of generated rules: each makes a claim of a rule that fails in one known way.

Strict meanings (ClaimCheck, "Building The Benchmark"), decided inside the scope in which the document's rule holds:
contradicted: even there, the document says otherwise. overclaim: there the claim is right, but it reaches further
(more parties, no condition, no exception, more force). unsupported: the document is silent on the claim.

`OPERATORS` is the table: each operator draws a rule with the slots that it needs, and changes a faithful copy of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

from factgym.datasets.claims import Status
from factgym.generators.synthetic.facts import Concept, Fact, Kind, Modality, Quantity, with_slots
from factgym.generators.synthetic.lexicon import Entry, Topic
from factgym.generators.synthetic.rules import FREQUENCIES, Rulebook, draw, draw_other, draw_other_date, size_of

WHOLE = frozenset({"whole"})
"""The focus of a claim in which no smaller part is at fault: the whole sentence without its full stop."""
_ATTEMPTS = 40
_VALUES = {"authority": "roles", "channel": "channels", "reason": "reasons"}
"""The attribute of a topic that lists the values of a slot."""
_NEEDS_OF_KIND: dict[tuple[str, Kind], str] = {("modality", "may"): "should condition"}
"""Needs of an operator that differ for one kind of rule: a permission becomes a duty only with its condition."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A claim before it is worded.

    rule: the document's fact that decides it. focus: the slots of the claim that the document does not support.
    quoted: slots of the rule, stated outside its main sentence, that a quote must cover. siblings: further facts that
    the document must state. alone: the rule speaks of a whole section, so its topic may have only one.
    """

    topic: Topic
    rule: Fact
    claim: Fact
    status: Status
    corruption: str
    focus: frozenset[str] = frozenset()
    quoted: frozenset[str] = frozenset()
    siblings: tuple[Fact, ...] = ()
    alone: bool = False


def faithful(rule: Fact, topic: Topic, book: Rulebook) -> Fact:
    """Return a careful answer's version of a rule: all its limits, and some of its mere explanations.

    The claim of a rule for everyone is sometimes about one party.
    """
    rng = book.rng
    party = rule.party
    if party is topic.everyone and rng.random() < 0.2:
        party = rng.choice(topic.parties)
    return replace(
        rule,
        party=party,
        reason=rule.reason if rng.random() < 0.9 and not rule.sole else None,
        channel=rule.channel if rng.random() < 0.9 else None,
        universal=rule.universal and rng.random() < 0.95,
        general=rule.general and rng.random() < 0.95,
        former=None,
        changed=None,
        excluded=None,
        sole=False,
    )


def on_matter(claim: Fact, entry: Entry, **slots: Any) -> Fact:
    """Return a claim's rule on the matter of another entry, without its limits."""
    return with_slots(
        claim, about=entry.id, action=entry.action, thing=entry.thing, anchor=entry.anchor, per=entry.per,
        condition=None, exception=None, only=False, **slots,
    )  # fmt: skip


def quoted_slots(claim: Fact) -> frozenset[str]:
    """Return the slots of a claim that the document may state outside the main sentence of the rule."""
    slots = ("condition", "exception", "reason", "channel", "universal")
    return frozenset(slot for slot in slots if getattr(claim, slot))


@dataclass(frozen=True)
class Operator:
    """A corruption of a rule; see `OPERATORS`.

    name: recorded as the claim's corruption. change: returns the changed claim, a whole draft where the columns do not
    fit, or None where the rule does not allow it. kinds: of rules that it works on. weights: its share of the claims of
    its status, in general and in the hard split. slot: the focus. needs: slots that the rule must have, separated by
    spaces. quoted: slot of the rule that a quote must cover besides those of the claim.
    """

    name: str
    change: Callable[[Case], Fact | Draft | None]
    kinds: tuple[Kind, ...]
    weights: tuple[float, float]
    slot: str = ""
    needs: str = ""
    quoted: str = ""

    def apply(self, status: Status, topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
        """Draw a rule of a kind and change it."""
        needs = _NEEDS_OF_KIND.get((self.name, kind), self.needs)
        rule = book.fact(topic, kind, frozenset(needs.split()))
        if rule is None:
            return None
        case = Case(self, status, topic, kind, book, subtle, rule)
        changed = self.change(case)
        return case.draft(changed) if isinstance(changed, Fact) else changed


@dataclass(frozen=True)
class Case:
    """One rule under an operator. `claim` is its faithful copy, drawn when it is first used."""

    operator: Operator
    status: Status
    topic: Topic
    kind: Kind
    book: Rulebook
    subtle: bool
    rule: Fact

    @cached_property
    def claim(self) -> Fact:
        """A faithful claim of the rule."""
        return faithful(self.rule, self.topic, self.book)

    @property
    def entry(self) -> Entry:
        """The lexicon's entry of the rule."""
        return next(entry for entry in self.topic.entries[self.kind] if entry.id == self.rule.about)

    @property
    def other_parties(self) -> list[Concept]:
        """Parties of the topic besides the rule's own that no scope rule bars."""
        return [party for party in self.topic.parties if party != self.rule.party and party.id not in self.book.barred]

    def draft(self, claim: Fact) -> Draft:
        """The draft of a changed claim, with the operator's label and slots."""
        return Draft(
            self.topic,
            self.rule,
            claim,
            self.status,
            self.operator.name,
            focus=frozenset(self.operator.slot.split()),
            quoted=quoted_slots(claim).union(self.operator.quoted.split()),
            alone=self.kind in ("scope", "effective"),
        )


# Draws happen in a fixed order, which decides every generated item: some operators draw the new value before the
# faithful copy (`case.claim`), some after.


def change_quantity(case: Case) -> Fact | None:
    """Change the quantity, in the same unit."""
    if not isinstance(case.rule.quantity, Quantity):
        return None
    size = "percent" if case.kind == "penalty" else size_of(case.topic, case.rule)
    wrong = draw_other(case.rule.quantity, size, case.book.rng, case.subtle, case.book.numbers)
    return replace(case.claim, quantity=wrong)


def borrow_value(case: Case) -> Draft | None:
    """State the value of another party, for which the document has a rule of its own."""
    rule, book, parties = case.rule, case.book, case.other_parties
    if not parties:
        return None
    sibling = replace(rule, party=book.rng.choice(parties))
    book.mentioned.update(party.id for party in parties)
    if isinstance(rule.quantity, Quantity):
        quantity = draw_other(rule.quantity, size_of(case.topic, rule), book.rng, case.subtle)
        sibling = replace(sibling, quantity=quantity, former=None, changed=None)
        claim, slot = replace(case.claim, quantity=quantity), "quantity"
    else:
        frequency = book.rng.choice([frequency for frequency in FREQUENCIES if frequency is not rule.frequency])
        sibling = replace(sibling, frequency=frequency)
        claim, slot = replace(case.claim, frequency=frequency), "frequency"
    return replace(case.draft(claim), focus=frozenset({slot}), siblings=(sibling,))


def permit_excluded(case: Case) -> Fact | None:
    """Give a permission to the party that the document expressly leaves out."""
    if case.rule.excluded is None:
        return None
    return replace(case.claim, party=case.rule.excluded, exceptional=False, only=False)


def swap_value(case: Case) -> Fact:
    """Put another value of the topic into the operator's slot."""
    slot = case.operator.slot
    values = FREQUENCIES if slot == "frequency" else getattr(case.topic, _VALUES[slot])
    wrong = case.book.rng.choice([value for value in values if value != getattr(case.rule, slot)])
    return with_slots(case.claim, **{slot: wrong})


def change_consequence(case: Case) -> Fact:
    """Attach another consequence to the same breach."""
    rng = case.book.rng
    wrong = rng.choice([result for result in case.entry.results if result != case.rule.result])
    quantity = draw("percent", case.book.currency, rng) if "{q}" in wrong.forms[0] else None
    return replace(case.claim, result=wrong, quantity=quantity)


_OPPOSITES: dict[Modality, Modality] = {"may": "must_not", "must_not": "may", "must": "need_not", "should": "need_not"}


def reverse_rule(case: Case) -> Fact | Draft:
    """Turn permission into prohibition, prohibition into permission, a duty into none, a statement into its negation."""
    rule = case.rule
    if case.kind in ("state", "scope"):
        claim = replace(rule, holds=not rule.holds)
        if case.kind == "state":
            forms = case.entry.no if rule.holds else case.entry.yes
            claim = replace(claim, thing=Concept(f"{rule.about}.{not rule.holds}", forms))
        return replace(case.draft(claim), focus=WHOLE, quoted=frozenset())
    return replace(
        case.claim, modality=_OPPOSITES[rule.modality], condition=None, exception=None, only=False, exceptional=False,
        universal=False, frequency=None, quantity=None, anchor=None, reason=None,
    )  # fmt: skip


def change_condition(case: Case) -> Fact | None:
    """Change the only condition."""
    conditions = [condition for condition in case.entry.conditions if condition != case.rule.condition]
    return replace(case.claim, condition=case.book.rng.choice(conditions)) if conditions else None


def change_date(case: Case) -> Fact:
    """Change the date."""
    assert case.rule.date is not None
    return replace(case.rule, date=draw_other_date(case.rule.date, case.book.rng, case.subtle))


def drop_limit(case: Case) -> Draft:
    """Leave out the limit that a quote must cover: silently, or with words that deny that there is any."""
    claim, focus = with_slots(case.claim, **{case.operator.quoted: None}, only=False, exceptional=False), WHOLE
    unlimited = claim.condition is None and claim.exception is None
    if unlimited and case.book.rng.random() < (0.1 if case.subtle else 0.2):
        claim, focus = replace(claim, universal=True), frozenset({"universal"})
    return replace(case.draft(claim), focus=focus)


def invent_rule(topic: Topic, rule: Fact, book: Rulebook) -> Draft | None:
    """Invent a further rule on the matter of `rule`; None where none is natural."""
    claim = book.extra(topic, rule)
    return Draft(topic, rule, claim, "unsupported", "invented", WHOLE) if claim else None


def state_further_rule(case: Case) -> Draft | None:
    """State a further rule that the document states too."""
    rule = case.book.extra(case.topic, case.rule)
    if rule is None:
        return None
    return Draft(case.topic, rule, rule, "supported", "none", siblings=(case.rule,))


def widen_further_rule(case: Case) -> Draft | None:
    """State a further rule of one party as a rule for everyone, where every wording of the rule names the party."""
    rule = case.book.extra(case.topic, case.rule)
    if rule is None or rule.about.endswith(("+automatic", "+countersign", "+fee")):
        return None
    draft = case.draft(replace(rule, party=case.topic.everyone))
    return replace(draft, rule=rule, focus=frozenset({"party"}), siblings=(case.rule,))


def state_other_rule(case: Case) -> Draft | None:
    """State another rule of the same kind, in all the forms of a faithful claim, on which the document is silent."""
    other = case.book.fact(case.topic, case.kind)
    if other is None:
        return None
    return replace(case.draft(faithful(other, case.topic, case.book)), focus=WHOLE, quoted=frozenset())


def change_further_rule(case: Case) -> Draft | None:
    """State a further rule with another amount or another person in it."""
    rule = case.book.extra(case.topic, case.rule)
    if rule is None:
        return None
    if isinstance(rule.quantity, Quantity):
        name, slot, size = "number", "quantity", "days" if rule.quantity.unit == "day" else "s"
        claim = replace(rule, quantity=draw_other(rule.quantity, size, case.book.rng, case.subtle, case.book.numbers))
    elif rule.authority is not None:
        name, slot = "entity", "authority"
        roles = [role for role in case.topic.roles if role != rule.authority]
        claim = replace(rule, authority=case.book.rng.choice(roles))
    else:
        return None
    return replace(case.draft(claim), rule=rule, corruption=name, focus=frozenset({slot}), siblings=(case.rule,))


def change_matter(case: Case) -> Draft | None:
    """State a rule of the same kind on a sibling matter, with the values of the rule that the document states."""
    rule, book = case.rule, case.book
    entry = book.entry(case.topic, case.kind)
    if entry is None:
        return None
    book.stated.add(entry.id)
    quantity = rule.quantity
    if isinstance(quantity, Quantity) and entry.size:
        units = ("$", "£", "€") if entry.size in "smlx" else (entry.size.removesuffix("s"),)
        if quantity.unit not in units:
            quantity = draw(entry.size, book.currency, book.rng)
    modality = "must" if rule.modality == "should" else rule.modality
    claim = on_matter(case.claim, entry, quantity=quantity, exceptional=False, modality=modality)
    return replace(case.draft(claim), quoted=frozenset())


def state_of_other_party(case: Case) -> Fact | None:
    """State a rule of a party for which the document has no such rule."""
    parties = case.other_parties
    if not parties:
        return None
    party = case.book.rng.choice(parties)
    case.book.mentioned.add(party.id)
    return replace(case.claim, party=party, exceptional=False, only=False)


def add_value(case: Case) -> Draft:
    """Add a reason or a channel that the document does not give."""
    slot = case.operator.slot
    case = replace(case, rule=with_slots(case.rule, **{slot: None}, sole=False))
    draft = case.draft(with_slots(case.claim, **{slot: case.book.rng.choice(getattr(case.topic, _VALUES[slot]))}))
    return replace(draft, quoted=draft.quoted - {slot})


_STATED: tuple[Kind, ...] = ("deadline", "notice", "may", "forbid", "approve", "cap", "keep", "every", "duty")
_COMMON: tuple[Kind, ...] = ("deadline", "deadline", "notice", "may", "may", "forbid", "cap", "every")
_PARTIED: tuple[Kind, ...] = ("deadline", "notice", "cap", "may", "every", "forbid")
_COUNTED: tuple[Kind, ...] = ("deadline", "notice", "cap", "every")
_VARIED: tuple[Kind, ...] = ("state", "state", "penalty", "forbid", "may", "may", "duty")
_TIMED_MORE: tuple[Kind, ...] = ("deadline", "notice", "cap", "deadline", "notice", "cap", "keep", "approve")
_EXTENSIBLE: tuple[Kind, ...] = ("deadline", "notice", "may", "every")
_REVERSIBLE: tuple[Kind, ...] = ("may", "may", "forbid", "every", "state", "state", "scope")
_MOTIVATED: tuple[Kind, ...] = ("deadline", "notice", "every", "approve", "cap")

OPERATORS: dict[Status, tuple[Operator, ...]] = {
    "supported": (
        Operator("none", attrgetter("claim"), (*_STATED, "penalty"), (1.8, 1.8)),
        Operator("none", attrgetter("claim"), _COMMON, (2.2, 2.2)),
        Operator("none", attrgetter("claim"), ("state",), (0.35, 0.3)),
        Operator("none", state_further_rule, _EXTENSIBLE, (0.8, 0.7)),
        Operator("none", attrgetter("claim"), ("scope", "effective"), (0.25, 0.2)),
    ),
    "contradicted": (
        Operator("number", change_quantity, (*_TIMED_MORE, "penalty"), (3, 3), "quantity", "quantity"),
        Operator("number", swap_value, ("every",), (0.7, 0.7), "frequency"),
        Operator("number", change_further_rule, _EXTENSIBLE, (1.8, 1.6)),
        Operator("version", lambda case: replace(case.claim, quantity=case.rule.former), _TIMED_MORE, (1.2, 1.5),
                 "quantity", "quantity former", "former"),
        Operator("trigger", lambda case: replace(case.claim, anchor=case.book.rng.choice(case.topic.events)),
                 ("deadline", "deadline", "keep"), (0.8, 1), "anchor", "quantity"),
        Operator("party", borrow_value, _COUNTED, (1.5, 2), "", "quantity one"),
        Operator("party", permit_excluded, ("may",), (0.6, 0.6), "party", "excluded plain one", "excluded"),
        Operator("entity", swap_value, ("approve", "duty"), (0.8, 0.9), "authority"),
        Operator("consequence", change_consequence, ("penalty",), (0.25, 0.2), "result"),
        Operator("polarity", reverse_rule, _REVERSIBLE, (2.4, 1.6), "modality", "plain"),
        Operator("condition", change_condition, ("may",), (0.5, 0.5), "condition", "only", "condition"),
        Operator("channel", swap_value, ("deadline", "notice"), (0.7, 0.7), "channel", "channel", "channel"),
        Operator("cause", swap_value, ("deadline", "notice", "every"), (0.6, 0.6), "reason", "reason sole", "reason"),
        Operator("date", change_date, ("effective",), (0.25, 0.25), "date"),
    ),
    "overclaim": (
        Operator("scope", lambda case: replace(case.claim, party=case.topic.everyone), _PARTIED, (1, 1), "party",
                 "plain one"),
        Operator("scope", widen_further_rule, _EXTENSIBLE, (0.7, 0.6), needs="plain one"),
        Operator("condition_dropped", drop_limit, ("deadline", "cap", "may"), (1.6, 1.6), "", "condition", "condition"),
        Operator("exception_dropped", drop_limit, ("deadline", "notice", "forbid"), (2, 2), "", "exception",
                 "exception"),
        Operator("exception_generalised", lambda case: replace(case.claim, condition=None, only=False,
                 exceptional=False, general=True), ("may",), (0.3, 0.3), "general", "exceptional condition",
                 "condition"),
        Operator("modality", lambda case: replace(case.claim, modality="must", exceptional=False, only=False),
                 ("deadline", "may"), (0.8, 1.1), "modality", "should"),
    ),
    "unsupported": (
        Operator("invented", lambda case: invent_rule(case.topic, case.rule, case.book), _EXTENSIBLE, (0.8, 0.7)),
        Operator("invented", state_other_rule, _VARIED, (1.0, 0.9)),
        Operator("irrelevant", change_matter, _STATED, (2, 3), "whole"),
        Operator("party", state_of_other_party, _PARTIED, (1.5, 2), "party", "plain one"),
        Operator("cause", add_value, _MOTIVATED, (0.7, 0.6), "reason"),
        Operator("detail", add_value, ("deadline", "notice"), (0.4, 0.5), "channel"),
    ),
}  # fmt: skip
"""The operators of each status. The order and the weights decide every generated item."""


def draft_claim(status: Status, topic: Topic, book: Rulebook, subtle: bool) -> Draft:
    """Draft a claim of this status on this topic, by the first drawn operator that has words for it."""
    operators = OPERATORS[status]
    weights = [operator.weights[subtle] for operator in operators]
    # Rejection sampling; an operator that fails leaves no trace in the rulebook.
    for _ in range(_ATTEMPTS):
        operator = book.rng.choices(operators, weights)[0]
        saved = set(book.stated), set(book.barred), set(book.mentioned)
        draft = operator.apply(status, topic, book.rng.choice(operator.kinds), book, subtle)
        if draft is not None:
            return draft
        book.stated, book.barred, book.mentioned = saved
    raise LookupError(f"the topic {topic.id} has too few entries for a claim that is {status}")
