"""The rules of a document: facts drawn from a topic's lexicon, with the slots that a corruption will need."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from factgym.generators.base import word_table
from factgym.generators.synthetic.facts import Concept, Date, Fact, Kind, Quantity, with_slots
from factgym.generators.synthetic.lexicon import Entry, Topic

_TABLE = word_table("rules")
FREQUENCIES = tuple(Concept(f"every.{name}", forms) for name, forms in _TABLE["frequencies"].items())
_FREQUENCY_WEIGHTS = (1, 1, 3, 4, 4, 4, 2)

_ABSOLUTE = frozenset({"deadline", "notice", "cap", "keep", "approve", "forbid", "every"})
_DATED = frozenset({"deadline", "notice", "cap", "keep", "approve"})


@dataclass(slots=True)
class Rulebook:
    """Draws facts for one document; the order of the draws decides every generated item.

    stated: ids of the rules and fillers that the document has already. numbers: the numbers already used. barred:
    parties that a scope rule leaves out. mentioned: parties that rules or claims are about.
    """

    rng: random.Random
    currency: str
    stated: set[str] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    barred: set[str] = field(default_factory=set)
    mentioned: set[str] = field(default_factory=set)

    def entry(self, topic: Topic, kind: Kind) -> Entry | None:
        """Draw an entry of this kind that the document does not use yet, or None."""
        free = [entry for entry in topic.entries.get(kind, ()) if entry.id not in self.stated]
        return self.rng.choice(free) if free else None

    def fact(self, topic: Topic, kind: Kind, need: frozenset[str] = frozenset(), plain: bool = False) -> Fact | None:
        """Draw a fact of this kind in which the slots `need` are filled; None where the topic has no words for it.

        plain: no adjuncts beyond `need`.
        """
        if kind in ("scope", "effective"):
            return self._section_rule(topic, kind)
        entry = self.entry(topic, kind)
        if entry is None:
            return None
        self.stated.add(entry.id)
        fact = self._with_adjuncts(self._core(topic, entry, need), topic, need, plain)
        if isinstance(fact.quantity, Quantity):
            self.numbers.add(fact.quantity.n)
        return fact

    def extra(self, topic: Topic, base: Fact) -> Fact | None:
        """Draw a further rule on the matter of `base`, which does not state it; None where none is natural."""
        free = [name for name in _TABLE["extras"].get(base.kind, ()) if f"{base.about}+{name}" not in self.stated]
        if base.condition is not None:
            free = [name for name in free if name != "automatic"]
        if not free or not isinstance(base.party, Concept) or base.action is None:
            return None
        name = self.rng.choice(free)
        about = f"{base.about}+{name}"
        self.stated.add(about)
        fact = Fact("extra", about, base.party, base.action)
        if name in ("fee", "fine", "bonus"):
            return replace(fact, quantity=draw("s", self.currency, self.rng))
        if name == "reminder":
            return replace(fact, quantity=draw("days", self.currency, self.rng, short=True))
        if name in ("countersign", "inform"):
            return replace(fact, authority=self.rng.choice(topic.roles))
        return fact

    def filler(self, fillers: tuple[str, ...]) -> str:
        """Draw a sentence that rules nothing, not used in the document before."""
        chosen = self.rng.choice([filler for filler in fillers if filler not in self.stated] or fillers)
        self.stated.add(chosen)
        return chosen

    def _party(self, topic: Topic, need: frozenset[str]) -> Concept:
        """Draw a party that no scope rule bars; with a probability of .22 everyone, unless `need` has "one"."""
        if "one" not in need and not self.barred and self.rng.random() < 0.22:
            self.mentioned.update(party.id for party in topic.parties)
            return topic.everyone
        party = self.rng.choice([party for party in topic.parties if party.id not in self.barred] or topic.parties)
        self.mentioned.add(party.id)
        return party

    def _core(self, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
        """Draw the slots that make up a rule of the entry's kind."""
        rng, currency = self.rng, self.currency
        fact = Fact(entry.kind, entry.id, action=entry.action, thing=entry.thing, anchor=entry.anchor, per=entry.per)
        match entry.kind:
            case "deadline":
                modality = "should" if "should" in need or (not need and rng.random() < 0.12) else "must"
                party = self._party(topic, need)
                quantity = draw(entry.size, currency, rng, short=entry.size in ("weeks", "months"))
                return with_slots(fact, party=party, modality=modality, quantity=quantity)
            case "notice" | "cap":
                quantity = draw(entry.size, currency, rng, short=entry.kind == "cap")
                modality = "may" if entry.kind == "cap" else "must"
                return with_slots(fact, party=self._party(topic, need), modality=modality, quantity=quantity)
            case "may":
                return self._permission(fact, topic, entry, need)
            case "forbid":
                has_exception = "exception" in need or (not need and rng.random() < 0.5)
                exception = rng.choice(entry.exceptions) if has_exception else None
                return replace(fact, party=self._party(topic, need), modality="must_not", exception=exception)
            case "approve" | "keep" | "duty":
                amount = draw(entry.size, currency, rng) if entry.size else None
                return replace(
                    fact, quantity=amount, authority=None if entry.kind == "keep" else rng.choice(topic.roles)
                )
            case "every":
                party = self._party(topic, need)
                return replace(fact, party=party, frequency=rng.choices(FREQUENCIES, _FREQUENCY_WEIGHTS)[0])
            case "penalty":
                counted = [result for result in entry.results if "{q}" in result.forms[0]]
                result = rng.choice(counted if "quantity" in need and counted else entry.results)
                percent = draw("percent", currency, rng) if "{q}" in result.forms[0] else None
                return replace(fact, result=result, quantity=percent)
        holds = rng.random() < 0.5
        return replace(fact, thing=Concept(f"{entry.id}.{holds}", entry.yes if holds else entry.no), holds=holds)

    def _permission(self, fact: Fact, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
        """Return the fact as a permission, with the slots that `need` demands and others drawn at random."""
        rng = self.rng
        has_condition = need & {"condition", "only"} or rng.random() < 0.62
        condition = rng.choice(entry.conditions) if has_condition else None
        exceptional = "exceptional" in need or (condition is not None and not need and rng.random() < 0.15)
        party = self._party(topic, need)
        free = [item for item in topic.parties if item.id != party.id and item.id not in self.barred]
        excluded = rng.choice(free) if "excluded" in need and free else None
        general = condition is None and not excluded and rng.random() < 0.6
        only = "only" in need or (condition is not None and not exceptional and rng.random() < 0.4)
        return replace(
            fact, party=party, modality="may", condition=condition, only=only, exceptional=exceptional,
            excluded=excluded, general=general,
        )  # fmt: skip

    def _with_adjuncts(self, fact: Fact, topic: Topic, need: frozenset[str], plain: bool) -> Fact:
        """Return the fact with adjuncts drawn from its topic; `need` forces some, `plain` leaves out the rest."""
        rng = self.rng
        likely = 0.0 if plain else 1.0
        for slot, pool, share in _TABLE["adjuncts"].get(fact.kind, ()):
            if getattr(fact, slot) is None and (slot in need or rng.random() < share * likely):
                fact = with_slots(fact, **{slot: rng.choice(getattr(topic, pool))})
        if "former" in need or (fact.kind in _DATED and rng.random() < 0.08 * likely):
            former = fact.quantity
            while former == fact.quantity:
                former = draw(size_of(topic, fact), self.currency, rng)
            fact = with_slots(fact, former=former, changed=draw_date(rng))
        unlimited = fact.condition is None and fact.exception is None
        if unlimited and fact.kind in _ABSOLUTE and fact.modality != "should" and rng.random() < 0.3 * likely:
            fact = replace(fact, universal=True)
        return replace(fact, sole=True) if "sole" in need else fact

    def _section_rule(self, topic: Topic, kind: Kind) -> Fact | None:
        """Draw the rule on the reach ("scope") or the date ("effective") of a section, at most one of each."""
        about = f"{topic.id}.{kind}"
        if about in self.stated:
            return None
        self.stated.add(about)
        if kind == "effective":
            return Fact("effective", about, thing=topic.subject, date=draw_date(self.rng))
        unmentioned = [party for party in topic.parties if party.id not in self.mentioned]
        holds = self.rng.random() < 0.5 or not unmentioned
        party = self.rng.choice(topic.parties if holds else unmentioned)
        self.mentioned.add(party.id)
        if not holds:
            self.barred.add(party.id)
        return Fact("scope", about, party=party, thing=topic.subject, holds=holds)


def size_of(topic: Topic, fact: Fact) -> str:
    """Return the size ("days", "m") of a fact's quantity, from its entry."""
    return next(entry.size for entry in topic.entries[fact.kind] if entry.id == fact.about)


# Quantities and dates that policies plausibly use, and others to put in their place.

_MONEY = frozenset("smlx")


def draw(size: str, currency: str, rng: random.Random, short: bool = False) -> Quantity:
    """Draw a plausible quantity of a size: a unit of time, "percent", or money from "s" (tens) to "x" (over 10,000).

    short: for periods, only the lower half of the plausible values.
    """
    values: tuple[int, ...] = _TABLE["sizes"][size]
    if short and size not in _MONEY:
        values = values[: len(values) // 2 + 1]
    unit = currency if size in _MONEY else "person" if size == "people" else size.removesuffix("s")
    return Quantity(rng.choice(values), unit)


def draw_other(value: Quantity, size: str, rng: random.Random, near: bool, used: Collection[int] = ()) -> Quantity:
    """Draw a different quantity in the same unit: a neighbouring value if `near`, else often a number from `used`."""
    values: tuple[int, ...] = _TABLE["sizes"][size]
    n = value.n
    if not near:
        borrowed = sorted(number for number in used if number != n and number in values)
        if borrowed and rng.random() < 0.5:
            return value._replace(n=rng.choice(borrowed))
        return value._replace(n=rng.choice([number for number in values if number != n]))
    if not value.is_money and n <= 10 and rng.random() < 0.5:
        return value._replace(n=n + 1 if n <= 2 or rng.random() < 0.6 else n - 1)
    at = values.index(n) if n in values else 0
    return value._replace(n=rng.choice([values[i] for i in (at - 1, at + 1) if 0 <= i < len(values)]))


def draw_date(rng: random.Random) -> Date:
    """Draw a date between 2019 and 2025, often a first of the month."""
    day = 1 if rng.random() < 0.5 else rng.randint(2, 28)
    return Date(rng.randint(2019, 2025), rng.randint(1, 12), day)


def draw_other_date(date: Date, rng: random.Random, near: bool) -> Date:
    """Draw a different date; if `near`, it differs in its year, its month or its day alone."""
    if near or rng.random() < 0.5:
        slot = rng.randrange(3)
        if slot == 0:
            return date._replace(year=date.year + rng.choice((-1, 1)))
        if slot == 1:
            return date._replace(month=date.month % 12 + 1)
        return date._replace(day=date.day + 1 if date.day < 28 else 27)
    while True:
        candidate = draw_date(rng)
        if candidate != date:
            return candidate
