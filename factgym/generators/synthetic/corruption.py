"""Controlled corruptions: each takes a rule that the document states and makes one claim that fails in one known way.

Strict meanings (ClaimCheck, "Building The Benchmark"), decided inside the scope in which the document's rule holds:
contradicted: even there, the document says otherwise. overclaim: there the claim is right, but it reaches further
(more parties, no condition, no exception, more force). unsupported: the document says nothing on what is claimed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from factgym.datasets.claims import Status
from factgym.generators.synthetic.facts import Concept, Fact, Kind, Modality, Quantity, Term, with_slots
from factgym.generators.synthetic.lexicon import Topic
from factgym.generators.synthetic.numbers import another, another_date, draw
from factgym.generators.synthetic.rules import FREQUENCIES, Rulebook, size_of

WHOLE = frozenset({"whole"})
"""The focus of a claim in which no smaller part is at fault: the whole sentence without its full stop."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A claim before it is worded.

    rule: the document's fact that decides it. told: slots of the rule, stated outside its main sentence, that a
    quote must cover. focus: the slots of the claim that the document does not carry. siblings: further facts that the
    document must state. alone: the rule speaks of a whole section, so its topic may have only one.
    """

    topic: Topic
    rule: Fact
    claim: Fact
    status: Status
    corruption: str
    focus: frozenset[str] = frozenset()
    told: frozenset[str] = frozenset()
    siblings: tuple[Fact, ...] = ()
    alone: bool = False
    subtle: bool = False


Operator = Callable[[Topic, Kind, Rulebook, bool], Draft | None]


def faithful(rule: Fact, topic: Topic, book: Rulebook) -> Fact:
    """What a careful answer says of a rule: all that limits it, and some of what only explains it."""
    rng = book.rng
    return replace(
        rule,
        party=_instance(rule, topic, book),
        reason=rule.reason if rng.random() < 0.65 and not rule.sole else None,
        channel=rule.channel if rng.random() < 0.6 else None,
        universal=rule.universal and rng.random() < 0.8,
        general=rule.general and rng.random() < 0.8,
        former=None,
        changed=None,
        excluded=None,
        sole=False,
    )


def _instance(rule: Fact, topic: Topic, book: Rulebook) -> Concept | Term | None:
    """The rule's party; of a rule for everyone, half the time one party, of whom it then holds too."""
    if rule.party is not topic.everyone or book.rng.random() < 0.5:
        return rule.party
    return book.rng.choice(topic.parties)


def told(claim: Fact) -> frozenset[str]:
    """The slots of a claim that the document may state outside the main sentence of the rule."""
    return frozenset(slot for slot in ("condition", "exception", "reason", "channel") if getattr(claim, slot)) | (
        {"universal"} if claim.universal else frozenset()
    )


def supported(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    """A faithful claim."""
    rule = book.fact(topic, kind)
    if rule is None:
        return None
    claim = faithful(rule, topic, book)
    alone = kind in ("scope", "effective")
    return Draft(topic, rule, claim, "supported", "none", told=told(claim), alone=alone, subtle=subtle)


def _number(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind, frozenset({"quantity"}))
    if rule is None or not isinstance(rule.quantity, Quantity):
        return None
    size = "percent" if kind == "penalty" else size_of(topic, rule)
    wrong = another(rule.quantity, size, book.rng, subtle, book.numbers)
    claim = replace(faithful(rule, topic, book), quantity=wrong)
    return _contradicted(topic, rule, claim, "number", "quantity", subtle=subtle)


def _contradicted(
    topic: Topic,
    rule: Fact,
    claim: Fact,
    name: str,
    slot: str,
    also: frozenset[str] = frozenset(),
    subtle: bool = False,
) -> Draft:
    return Draft(topic, rule, claim, "contradicted", name, frozenset({slot}), also | told(claim), subtle=subtle)


def _version(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind, frozenset({"quantity", "former"}))
    if rule is None:
        return None
    claim = replace(faithful(rule, topic, book), quantity=rule.former)
    return _contradicted(topic, rule, claim, "version", "quantity", frozenset({"former"}), subtle)


def _trigger(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind, frozenset({"quantity"}))
    if rule is None:
        return None
    claim = replace(faithful(rule, topic, book), anchor=book.rng.choice(topic.events))
    return _contradicted(topic, rule, claim, "trigger", "anchor", subtle=subtle)


def _party(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    """The rule of one party, stated of another for which the document has a rule of its own."""
    rule = book.fact(topic, kind, frozenset({"quantity", "one"}))
    others = other_parties(topic, rule, book) if rule else []
    if rule is None or not others:
        return None
    source = replace(rule, party=book.rng.choice(others))
    book.mentioned.update(party.id for party in others)
    if isinstance(rule.quantity, Quantity):
        wrong = another(rule.quantity, size_of(topic, rule), book.rng, subtle)
        source = replace(source, quantity=wrong, former=None, changed=None)
        claim = replace(faithful(rule, topic, book), quantity=wrong)
    else:
        wrong_rhythm = book.rng.choice([rhythm for rhythm in FREQUENCIES if rhythm is not rule.frequency])
        source = replace(source, frequency=wrong_rhythm)
        claim = replace(faithful(rule, topic, book), frequency=wrong_rhythm)
    slot = "quantity" if claim.quantity else "frequency"
    draft = _contradicted(topic, rule, claim, "party", slot, subtle=subtle)
    return replace(draft, siblings=(source,))


def other_parties(topic: Topic, rule: Fact, book: Rulebook) -> list[Concept]:
    """Parties of the topic besides the rule's own that no scope rule bars."""
    return [party for party in topic.parties if party != rule.party and party.id not in book.barred]


def _excluded(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    """A permission given to the party that the document expressly leaves out."""
    rule = book.fact(topic, kind, frozenset({"excluded", "plain", "one"}))
    if rule is None or rule.excluded is None:
        return None
    claim = replace(faithful(rule, topic, book), party=rule.excluded, exceptional=False, only=False)
    return _contradicted(topic, rule, claim, "party", "party", frozenset({"excluded"}), subtle)


def _entity(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind)
    if rule is None:
        return None
    wrong = book.rng.choice([role for role in topic.roles if role != rule.authority])
    claim = replace(faithful(rule, topic, book), authority=wrong)
    return _contradicted(topic, rule, claim, "entity", "authority", subtle=subtle)


def _consequence(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind)
    if rule is None:
        return None
    entry = next(entry for entry in topic.entries["penalty"] if entry.id == rule.about)
    wrong = book.rng.choice([result for result in entry.results if result != rule.result])
    quantity = draw("percent", book.currency, book.rng) if "{q}" in wrong.forms[0] else None
    claim = replace(faithful(rule, topic, book), result=wrong, quantity=quantity)
    return _contradicted(topic, rule, claim, "consequence", "result", subtle=subtle)


def _polarity(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    """Permission for prohibition, the reverse, or no duty where there is one; for statements, their negation."""
    rule = book.fact(topic, kind, frozenset({"plain"}))
    if rule is None:
        return None
    if kind == "state":
        return _negated_statement(topic, rule, subtle)
    if kind == "scope":
        claim = replace(rule, holds=not rule.holds)
        draft = Draft(topic, rule, claim, "contradicted", "polarity", WHOLE, alone=True, subtle=subtle)
        return draft
    opposite = _OPPOSITES[rule.modality]
    claim = replace(
        faithful(rule, topic, book), modality=opposite, condition=None, exception=None, only=False, exceptional=False,
        universal=False, frequency=None, quantity=None, anchor=None, reason=None,
    )  # fmt: skip
    return _contradicted(topic, rule, claim, "polarity", "modality", subtle=subtle)


_OPPOSITES: dict[Modality, Modality] = {
    "may": "must_not",
    "must_not": "may",
    "must": "need_not",
    "should": "need_not",
}


def _negated_statement(topic: Topic, rule: Fact, subtle: bool) -> Draft:
    entry = next(entry for entry in topic.entries["state"] if entry.id == rule.about)
    forms = entry.no if rule.holds else entry.yes
    claim = replace(rule, thing=Concept(f"{entry.id}.{not rule.holds}", forms), holds=not rule.holds)
    return Draft(topic, rule, claim, "contradicted", "polarity", WHOLE, subtle=subtle)


def _condition_changed(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind, frozenset({"only"}))
    if rule is None or rule.condition is None:
        return None
    entry = next(entry for entry in topic.entries[kind] if entry.id == rule.about)
    others = [condition for condition in entry.conditions if condition != rule.condition]
    if not others:
        return None
    claim = replace(faithful(rule, topic, book), condition=book.rng.choice(others))
    return _contradicted(topic, rule, claim, "condition", "condition", frozenset({"condition"}), subtle)


def _channel_changed(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind, frozenset({"channel"}))
    if rule is None:
        return None
    wrong = book.rng.choice([channel for channel in topic.channels if channel != rule.channel])
    claim = replace(faithful(rule, topic, book), channel=wrong)
    return _contradicted(topic, rule, claim, "channel", "channel", frozenset({"channel"}), subtle)


def _cause_changed(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind, frozenset({"reason", "sole"}))
    if rule is None:
        return None
    wrong = book.rng.choice([reason for reason in topic.reasons if reason != rule.reason])
    claim = replace(faithful(rule, topic, book), reason=wrong)
    return _contradicted(topic, rule, claim, "cause", "reason", frozenset({"reason"}), subtle)


def _date(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind)
    if rule is None or rule.date is None:
        return None
    claim = replace(rule, date=another_date(rule.date, book.rng, subtle))
    return replace(_contradicted(topic, rule, claim, "date", "date", subtle=subtle), alone=True)


def _frequency(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind)
    if rule is None or rule.frequency is None:
        return None
    wrong = book.rng.choice([rhythm for rhythm in FREQUENCIES if rhythm is not rule.frequency])
    claim = replace(faithful(rule, topic, book), frequency=wrong)
    return _contradicted(topic, rule, claim, "number", "frequency", subtle=subtle)


def _overclaim(
    topic: Topic, rule: Fact, claim: Fact, name: str, focus: frozenset[str], slot: str, subtle: bool
) -> Draft:
    limits = told(claim) | ({slot} if slot else frozenset())
    return Draft(topic, rule, claim, "overclaim", name, focus, limits, subtle=subtle)


def _scope(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind, frozenset({"plain", "one"}))
    if rule is None:
        return None
    claim = replace(faithful(rule, topic, book), party=topic.everyone)
    return _overclaim(topic, rule, claim, "scope", frozenset({"party"}), "", subtle)


def _dropped(slot: str) -> Operator:
    """A limit left out: silently, or with words that deny that there is any."""

    def operator(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
        rule = book.fact(topic, kind, frozenset({slot}))
        if rule is None or getattr(rule, slot) is None:
            return None
        kept = faithful(rule, topic, book)
        claim = with_slots(kept, **{slot: None}, only=False, exceptional=False)
        if claim.condition is None and claim.exception is None and book.rng.random() < (0.2 if subtle else 0.35):
            claim, focus = replace(claim, universal=True), frozenset({"universal"})
        else:
            focus = WHOLE
        return _overclaim(topic, rule, claim, f"{slot}_dropped", focus, slot, subtle)

    return operator


def _generalised(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    """A narrow exception told as the general rule."""
    rule = book.fact(topic, kind, frozenset({"exceptional", "condition"}))
    if rule is None or not rule.exceptional:
        return None
    claim = replace(faithful(rule, topic, book), condition=None, only=False, exceptional=False, general=True)
    return _overclaim(topic, rule, claim, "exception_generalised", frozenset({"general"}), "condition", subtle)


def _strengthened(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    rule = book.fact(topic, kind, frozenset({"should", "condition"} if kind == "may" else {"should"}))
    if rule is None or rule.modality == "must":
        return None
    claim = replace(faithful(rule, topic, book), modality="must", exceptional=False, only=False)
    return _overclaim(topic, rule, claim, "modality", frozenset({"modality"}), "", subtle)


def _invented(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    """A further rule on a matter that the document regulates, but not in this respect."""
    rule = book.fact(topic, kind)
    return addition(topic, rule, book, subtle) if rule else None


def addition(topic: Topic, rule: Fact, book: Rulebook, subtle: bool) -> Draft | None:
    """An invented further rule on the matter of `rule`; None where none is natural."""
    claim = book.extra(topic, rule)
    return Draft(topic, rule, claim, "unsupported", "invented", WHOLE, subtle=subtle) if claim else None


def _extra(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    """A further rule that the document does state."""
    base = book.fact(topic, kind)
    rule = book.extra(topic, base) if base else None
    if base is None or rule is None:
        return None
    return Draft(topic, rule, rule, "supported", "none", siblings=(base,), subtle=subtle)


def _extra_changed(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    """A further rule with another amount or another person in it."""
    made = _extra(topic, kind, book, subtle)
    if made is None:
        return None
    rule = made.rule
    if isinstance(rule.quantity, Quantity):
        size = "days" if rule.quantity.unit == "day" else "s"
        claim = replace(rule, quantity=another(rule.quantity, size, book.rng, subtle, book.numbers))
        draft = _contradicted(topic, rule, claim, "number", "quantity", subtle=subtle)
    elif rule.authority is not None:
        claim = replace(rule, authority=book.rng.choice([role for role in topic.roles if role != rule.authority]))
        draft = _contradicted(topic, rule, claim, "entity", "authority", subtle=subtle)
    else:
        return None
    return replace(draft, siblings=made.siblings)


def _irrelevant(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    """A rule of the same kind on a sibling matter, with the values of the rule that the document does state."""
    rule = book.fact(topic, kind)
    entry = book.entry(topic, kind)
    if rule is None or entry is None:
        return None
    book.taken.add(entry.id)
    quantity = rule.quantity
    if isinstance(quantity, Quantity) and entry.size and quantity.unit not in _unit_of(entry.size):
        quantity = draw(entry.size, book.currency, book.rng)
    claim = replace(
        faithful(rule, topic, book), about=entry.id, action=entry.action, thing=entry.thing, quantity=quantity, per=entry.per,
        anchor=entry.anchor, condition=None, exception=None, only=False, exceptional=False, modality=_force(rule),
    )  # fmt: skip
    return Draft(topic, rule, claim, "unsupported", "irrelevant", WHOLE, subtle=subtle)


def _force(rule: Fact) -> Modality:
    return "must" if rule.modality == "should" else rule.modality


def _unit_of(size: str) -> tuple[str, ...]:
    return ("$", "£", "€") if size in "smlx" else (size.removesuffix("s"),)


def _unlisted(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
    """A rule stated of a party on which the document has no such rule."""
    rule = book.fact(topic, kind, frozenset({"plain", "one"}))
    others = other_parties(topic, rule, book) if rule else []
    if rule is None or not others:
        return None
    party = book.rng.choice(others)
    book.mentioned.add(party.id)
    claim = replace(faithful(rule, topic, book), party=party, exceptional=False, only=False)
    return Draft(topic, rule, claim, "unsupported", "party", frozenset({"party"}), told(claim), subtle=subtle)


def _added(slot: str, name: str, pool: str) -> Operator:
    """A reason or a channel that the document does not give."""

    def operator(topic: Topic, kind: Kind, book: Rulebook, subtle: bool) -> Draft | None:
        rule = book.fact(topic, kind)
        if rule is None:
            return None
        rule = with_slots(rule, **{slot: None}, sole=False)
        claim = with_slots(faithful(rule, topic, book), **{slot: book.rng.choice(getattr(topic, pool))})
        return Draft(topic, rule, claim, "unsupported", name, frozenset({slot}), told(claim) - {slot}, subtle=subtle)

    return operator


_TIMED: tuple[Kind, ...] = ("deadline", "notice", "cap", "keep", "approve")
_PERSONAL: tuple[Kind, ...] = ("deadline", "notice", "cap", "every")

OPERATORS: dict[Status, tuple[tuple[Operator, tuple[Kind, ...], float, float], ...]] = {
    "supported": (
        (
            supported,
            ("deadline", "notice", "may", "forbid", "approve", "cap", "keep", "every", "duty", "penalty"),
            1.8,
            1.8,
        ),
        (supported, ("deadline", "deadline", "notice", "may", "may", "forbid", "cap", "every"), 2.2, 2.2),
        (supported, ("state",), 0.7, 0.5),
        (_extra, ("deadline", "notice", "may", "every"), 1.5, 1.0),
        (supported, ("scope", "effective"), 0.3, 0.2),
    ),
    "contradicted": (
        (_number, (*_TIMED, "penalty"), 3, 3),
        (_frequency, ("every",), 0.7, 0.7),
        (_extra_changed, ("deadline", "notice", "may", "every"), 1.0, 0.8),
        (_version, _TIMED, 1.2, 1.5),
        (_trigger, ("deadline", "keep"), 1, 1.2),
        (_party, _PERSONAL, 1.5, 2),
        (_excluded, ("may",), 0.6, 0.6),
        (_entity, ("approve", "duty"), 1.4, 1.6),
        (_consequence, ("penalty",), 0.6, 0.4),
        (_polarity, ("may", "forbid", "every", "state", "scope"), 1.6, 0.6),
        (_condition_changed, ("may",), 0.8, 0.8),
        (_channel_changed, ("deadline", "notice"), 0.7, 0.7),
        (_cause_changed, ("deadline", "notice", "every"), 0.6, 0.6),
        (_date, ("effective",), 0.7, 0.7),
    ),
    "overclaim": (
        (_scope, ("deadline", "notice", "cap", "may", "every", "forbid"), 2, 2),
        (_dropped("condition"), ("deadline", "cap", "may"), 2, 2),
        (_dropped("exception"), ("deadline", "notice", "forbid"), 2, 2),
        (_generalised, ("may",), 0.8, 0.8),
        (_strengthened, ("deadline", "may"), 1.2, 1.6),
    ),
    "unsupported": (
        (_invented, ("deadline", "notice", "may", "every"), 2, 1.2),
        (_irrelevant, ("deadline", "notice", "may", "forbid", "approve", "cap", "keep", "every", "duty"), 2, 3),
        (_unlisted, ("deadline", "notice", "cap", "may", "every", "forbid"), 1.5, 2),
        (_added("reason", "cause", "reasons"), ("deadline", "notice", "every", "approve", "cap"), 1.5, 1.2),
        (_added("channel", "detail", "channels"), ("deadline", "notice"), 0.8, 1),
    ),
}
"""For each status: operator, the kinds of rule that it works on, its weight in general and in the hard split."""


def draft(status: Status, topic: Topic, book: Rulebook, subtle: bool) -> Draft:
    """A claim of this status on this topic; tries operators until one finds its words."""
    rows = OPERATORS[status]
    weights = [hard if subtle else usual for _, _, usual, hard in rows]
    for _ in range(40):
        operator, kinds, _, _ = book.rng.choices(rows, weights)[0]
        before = set(book.taken), set(book.barred), set(book.mentioned)
        made = operator(topic, book.rng.choice(kinds), book, subtle)
        if made is not None:
            return made
        book.taken, book.barred, book.mentioned = before
    raise LookupError(f"the topic {topic.id} has too few entries for a claim that is {status}")
