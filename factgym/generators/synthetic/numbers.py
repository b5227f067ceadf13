"""Numbers that policies plausibly use, and other ones to put in their place."""

from __future__ import annotations

import random
from collections.abc import Collection

from factgym.generators.synthetic.facts import Date, Quantity

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
