"""What a document states: facts drawn from a topic's lexicon, with the slots that a corruption will need."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from factgym.generators.synthetic.facts import Concept, Date, Fact, Kind, Quantity, with_slots
from factgym.generators.synthetic.lexicon import Entry, Topic

FREQUENCIES = (
    Concept("every.week", ("every week", "once a week", "weekly")),
    Concept("every.fortnight", ("every two weeks", "once every two weeks", "once a fortnight")),
    Concept("every.month", ("every month", "once a month", "monthly")),
    Concept("every.quarter", ("every three months", "once a quarter", "quarterly")),
    Concept("every.half", ("every six months", "twice a year", "once every six months")),
    Concept("every.year", ("every year", "once a year", "annually")),
    Concept("every.two", ("every two years", "once every two years", "every second year")),
)


_RHYTHMS = (1, 1, 3, 4, 4, 4, 2)


@dataclass(slots=True)
class Rulebook:
    """Draws facts for one document. taken: the `about`s already stated; numbers: the numbers already used.

    barred: parties that a scope rule leaves out. mentioned: parties of which rules or claims speak.
    """

    rng: random.Random
    currency: str
    taken: set[str] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    barred: set[str] = field(default_factory=set)
    mentioned: set[str] = field(default_factory=set)

    def entry(self, topic: Topic, kind: Kind) -> Entry | None:
        """An entry of this kind that the document does not use yet, or None."""
        free = [entry for entry in topic.entries.get(kind, ()) if entry.id not in self.taken]
        return self.rng.choice(free) if free else None

    def fact(self, topic: Topic, kind: Kind, need: frozenset[str] = frozenset(), plain: bool = False) -> Fact | None:
        """A fact of this kind in which the slots `need` are filled; None where the topic has no words for it.

        plain: no adjuncts beyond `need`.
        """
        if kind == "scope":
            return self._scope(topic)
        if kind == "effective":
            return self._effective(topic)
        entry = self.entry(topic, kind)
        if entry is None:
            return None
        self.taken.add(entry.id)
        fact = _MAKERS[kind](self, topic, entry, need)
        fact = self._adjuncts(fact, topic, need, plain)
        if isinstance(fact.quantity, Quantity):
            self.numbers.add(fact.quantity.n)
        return fact

    def extra(self, topic: Topic, base: Fact) -> Fact | None:
        """A further rule on the matter of `base`, which says nothing of it itself; None where none is natural."""
        free = [name for name in EXTRAS.get(base.kind, ()) if f"{base.about}+{name}" not in self.taken]
        if base.condition is not None:
            free = [name for name in free if name != "automatic"]
        if not free or not isinstance(base.party, Concept) or base.action is None:
            return None
        name = self.rng.choice(free)
        about = f"{base.about}+{name}"
        self.taken.add(about)
        fact = Fact("extra", about, base.party, base.action)
        if name in ("fee", "fine", "bonus"):
            return replace(fact, quantity=draw("s", self.currency, self.rng))
        if name == "reminder":
            return replace(fact, quantity=draw("days", self.currency, self.rng, short=True))
        if name in ("countersign", "inform"):
            return replace(fact, authority=self.rng.choice(topic.roles))
        return fact

    def filler(self, fillers: tuple[str, ...]) -> str:
        """A sentence that rules nothing, not used in the document before."""
        free = [filler for filler in fillers if filler not in self.taken]
        chosen = self.rng.choice(free or fillers)
        self.taken.add(chosen)
        return chosen

    def party(self, topic: Topic, need: frozenset[str]) -> Concept:
        """A party of the topic that no scope rule of the document bars; now and then everyone, unless `need` has "one"."""
        if "one" not in need and not self.barred and self.rng.random() < 0.16:
            self.mentioned.update(party.id for party in topic.parties)
            return topic.everyone
        free = [party for party in topic.parties if party.id not in self.barred]
        party = self.rng.choice(free or topic.parties)
        self.mentioned.add(party.id)
        return party

    def _adjuncts(self, fact: Fact, topic: Topic, need: frozenset[str], plain: bool) -> Fact:
        rng = self.rng
        likely = 0.0 if plain else 1.0
        for slot, pool, share in _ADJUNCTS.get(fact.kind, ()):
            if getattr(fact, slot) is None and (slot in need or rng.random() < share * likely):
                fact = with_slots(fact, **{slot: rng.choice(getattr(topic, pool))})
        if "former" in need or (fact.kind in _DATED and rng.random() < 0.08 * likely):
            fact = self._superseding(fact, topic)
        bare = fact.condition is None and fact.exception is None
        if bare and fact.kind in _ABSOLUTE and fact.modality != "should" and rng.random() < 0.3 * likely:
            fact = replace(fact, universal=True)
        if "sole" in need:
            fact = replace(fact, sole=True)
        return fact

    def _superseding(self, fact: Fact, topic: Topic) -> Fact:
        size = size_of(topic, fact)
        old = fact.quantity
        while old == fact.quantity:
            old = draw(size, self.currency, self.rng)
        return with_slots(fact, former=old, changed=draw_date(self.rng))

    def _scope(self, topic: Topic) -> Fact | None:
        about = f"{topic.id}.scope"
        if about in self.taken:
            return None
        self.taken.add(about)
        unspoken = [party for party in topic.parties if party.id not in self.mentioned]
        holds = self.rng.random() < 0.5 or not unspoken
        party = self.rng.choice(topic.parties if holds else unspoken)
        self.mentioned.add(party.id)
        if not holds:
            self.barred.add(party.id)
        return Fact("scope", about, party=party, thing=topic.subject, holds=holds)

    def _effective(self, topic: Topic) -> Fact | None:
        about = f"{topic.id}.effective"
        if about in self.taken:
            return None
        self.taken.add(about)
        return Fact("effective", about, thing=topic.subject, date=draw_date(self.rng))


_ADJUNCTS: dict[str, tuple[tuple[str, str, float], ...]] = {
    "deadline": (
        ("condition", "conditions", 0.22),
        ("exception", "exceptions", 0.22),
        ("reason", "reasons", 0.32),
        ("channel", "channels", 0.22),
    ),
    "notice": (("exception", "exceptions", 0.2), ("reason", "reasons", 0.3), ("channel", "channels", 0.25)),
    "every": (("reason", "reasons", 0.4),),
    "cap": (("condition", "conditions", 0.0), ("reason", "reasons", 0.28)),
    "approve": (("reason", "reasons", 0.28),),
}
EXTRAS: dict[str, tuple[str, ...]] = {
    "deadline": ("countersign", "inform", "reminder", "deputy", "register", "fine", "bonus"),
    "notice": ("countersign", "inform", "deputy", "register", "fine", "reminder"),
    "may": ("fee", "countersign", "inform", "automatic", "automatic", "register", "course", "deputy"),
    "every": ("inform", "deputy", "register", "fine", "course"),
}
"""Further rules that can be laid down for a rule of each kind."""

_ABSOLUTE = frozenset({"deadline", "notice", "cap", "keep", "approve", "forbid", "every"})
_DATED = frozenset({"deadline", "notice", "cap", "keep", "approve"})


def size_of(topic: Topic, fact: Fact) -> str:
    """The size ("days", "m") of a fact's quantity, from its entry."""
    return next(entry.size for entry in topic.entries[fact.kind] if entry.id == fact.about)


def _deadline(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    soft = "should" in need or (not need and book.rng.random() < 0.12)
    return Fact(
        "deadline",
        entry.id,
        party=book.party(topic, need),
        action=entry.action,
        modality="should" if soft else "must",
        quantity=draw(entry.size, book.currency, book.rng, short=entry.size in ("weeks", "months")),
        anchor=entry.anchor,
    )


def _notice(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    quantity = draw(entry.size, book.currency, book.rng)
    return Fact("notice", entry.id, book.party(topic, need), entry.action, quantity=quantity, anchor=entry.anchor)


def _may(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    rng = book.rng
    condition = rng.choice(entry.conditions) if need & {"condition", "only"} or rng.random() < 0.62 else None
    exceptional = "exceptional" in need or (condition is not None and not need and rng.random() < 0.15)
    party = book.party(topic, need)
    others = [other for other in topic.parties if other.id != party.id and other.id not in book.barred]
    excluded = rng.choice(others) if "excluded" in need and others else None
    general = condition is None and not excluded and rng.random() < 0.45
    only = "only" in need or (condition is not None and not exceptional and rng.random() < 0.4)
    return Fact(
        "may",
        entry.id,
        party,
        entry.action,
        modality="may",
        condition=condition,
        only=only,
        exceptional=exceptional,
        excluded=excluded,
        general=general,
    )


def _forbid(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    has_exception = "exception" in need or (not need and book.rng.random() < 0.5)
    exception = book.rng.choice(entry.exceptions) if has_exception else None
    return Fact("forbid", entry.id, book.party(topic, need), entry.action, modality="must_not", exception=exception)


def _approve(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    quantity = draw(entry.size, book.currency, book.rng)
    return Fact("approve", entry.id, thing=entry.thing, quantity=quantity, authority=book.rng.choice(topic.roles))


def _cap(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    quantity = draw(entry.size, book.currency, book.rng, short=True)
    return Fact(
        "cap", entry.id, book.party(topic, need), entry.action, modality="may", quantity=quantity, per=entry.per
    )


def _keep(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    quantity = draw(entry.size, book.currency, book.rng)
    return Fact("keep", entry.id, thing=entry.thing, quantity=quantity, anchor=entry.anchor)


def _every(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    return Fact(
        "every", entry.id, book.party(topic, need), entry.action, frequency=book.rng.choices(FREQUENCIES, _RHYTHMS)[0]
    )


def _duty(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    return Fact("duty", entry.id, action=entry.action, authority=book.rng.choice(topic.roles))


def _penalty(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    counted = [result for result in entry.results if "{q}" in result.forms[0]]
    result = book.rng.choice(counted if "quantity" in need and counted else entry.results)
    quantity = draw("percent", book.currency, book.rng) if "{q}" in result.forms[0] else None
    return Fact("penalty", entry.id, thing=entry.thing, result=result, quantity=quantity)


def _state(book: Rulebook, topic: Topic, entry: Entry, need: frozenset[str]) -> Fact:
    holds = book.rng.random() < 0.5
    return Fact("state", entry.id, thing=Concept(f"{entry.id}.{holds}", entry.yes if holds else entry.no), holds=holds)


_MAKERS: dict[str, Callable[[Rulebook, Topic, Entry, frozenset[str]], Fact]] = {
    "deadline": _deadline,
    "notice": _notice,
    "may": _may,
    "forbid": _forbid,
    "approve": _approve,
    "cap": _cap,
    "keep": _keep,
    "every": _every,
    "duty": _duty,
    "penalty": _penalty,
    "state": _state,
}


# Quantities and dates that policies plausibly use, and other ones to put in their place.

_SIZES: dict[str, tuple[int, ...]] = {
    "hours": (12, 24, 36, 48, 60, 72, 96),
    "days": (3, 5, 7, 10, 14, 15, 20, 21, 28, 30, 45, 60, 90),
    "working days": (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25),
    "business days": (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25),
    "weeks": (2, 3, 4, 5, 6, 8, 10, 12, 16),
    "months": (2, 3, 4, 6, 8, 9, 12, 15, 18, 24, 36),
    "years": (2, 3, 4, 5, 6, 7, 8, 10, 12, 15),
    "percent": (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25),
    "people": (3, 4, 5, 6, 8, 10, 12, 15, 20),
    "s": (15, 18, 20, 25, 30, 35, 40, 45, 50, 55, 60, 75, 80, 90, 110, 120),
    "m": (140, 150, 175, 180, 200, 220, 250, 300, 350, 400, 450, 500, 600, 750, 800, 900),
    "l": (1000, 1200, 1500, 2000, 2500, 3000, 4000, 5000, 6000, 7500, 8000, 9500, 10000, 12000),
    "x": (15000, 20000, 25000, 30000, 40000, 50000, 60000, 75000, 100000, 120000, 150000, 200000, 250000),
}
_MONEY = frozenset("smlx")


def draw(size: str, currency: str, rng: random.Random, short: bool = False) -> Quantity:
    """A plausible quantity of a size: a unit of time, "percent", or money from "s" (tens) to "x" (over 10,000).

    short: for periods, only the lower half of what is plausible.
    """
    ladder = _SIZES[size]
    if short and size not in _MONEY:
        ladder = ladder[: len(ladder) // 2 + 1]
    return Quantity(rng.choice(ladder), unit_of(size, currency))


def unit_of(size: str, currency: str) -> str:
    """The unit in the singular: "day", "working day", "percent", a currency sign."""
    if size in _MONEY:
        return currency
    if size == "people":
        return "person"
    return size if size == "percent" else size.removesuffix("s")


def another(value: Quantity, size: str, rng: random.Random, near: bool, seen: Collection[int] = ()) -> Quantity:
    """A different quantity in the same unit: a neighbouring value if `near`, else often a number from `seen`."""
    ladder = _SIZES[size]
    if near:
        return Quantity(_neighbour(value.n, ladder, rng, value.unit), value.unit)
    borrowed = sorted(n for n in seen if n != value.n and n in ladder)
    if borrowed and rng.random() < 0.5:
        return Quantity(rng.choice(borrowed), value.unit)
    return Quantity(rng.choice([n for n in ladder if n != value.n]), value.unit)


def _neighbour(n: int, ladder: tuple[int, ...], rng: random.Random, unit: str) -> int:
    if unit not in "$£€" and n <= 10 and rng.random() < 0.5:
        return n + 1 if n <= 2 or rng.random() < 0.6 else n - 1
    at = ladder.index(n) if n in ladder else 0
    choices = [ladder[i] for i in (at - 1, at + 1) if 0 <= i < len(ladder)]
    return rng.choice(choices)


def draw_date(rng: random.Random) -> Date:
    """A date between 2019 and 2025, often a first of the month."""
    day = 1 if rng.random() < 0.5 else rng.randint(2, 28)
    return Date(rng.randint(2019, 2025), rng.randint(1, 12), day)


def another_date(date: Date, rng: random.Random, near: bool) -> Date:
    """A different date; one slot away if `near`."""
    if near or rng.random() < 0.5:
        slot = rng.randrange(3)
        if slot == 0:
            return date._replace(year=date.year + rng.choice((-1, 1)))
        if slot == 1:
            return date._replace(month=date.month % 12 + 1)
        return date._replace(day=date.day + 1 if date.day < 28 else 27)
    while True:
        other = draw_date(rng)
        if other != date:
            return other
