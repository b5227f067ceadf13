"""Numbers with their units, dates, frequencies and version numbers, as a statement and a document give them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from factgym.baselines.reading import Line, Statement
from factgym.baselines.thesaurus import word_list
from factgym.baselines.words import Word

_MONTHS = {
    name: str(number)
    for number, name in enumerate(
        word_list("january february march april may june july august september october november december"), 1
    )
}
_PERIODS = {
    "hour": (1, "h"), "day": (24, "h"), "week": (168, "h"), "fortnight": (336, "h"),
    "month": (1, "m"), "quarter": (3, "m"), "year": (12, "m"), "decade": (120, "m"),
}  # fmt: skip
"""Period -> its length in hours or months."""
_RATES = {
    "hourly": "hour", "daily": "day", "nightly": "day", "weekly": "week", "fortnightly": "fortnight", "biweekly": "fortnight",
    "monthly": "month", "quarterly": "quarter", "annually": "year", "yearly": "year", "annual": "year",
}  # fmt: skip
_EACH = frozenset(word_list("every each per a an"))
_TIMES = {"once": 1, "twice": 2, "thrice": 3}
_ORDINAL = {"second": 2, "other": 2, "third": 3, "fourth": 4}
_QUALIFIERS = frozenset(
    word_list("business working calendar full clear consecutive additional more further whole successive")
)
_CURRENCY = {
    "$": "$",
    "€": "€",
    "£": "£",
    "dollar": "$",
    "euro": "€",
    "pound": "£",
    "usd": "$",
    "eur": "€",
    "gbp": "£",
}
_NAMED = frozenset(
    word_list("section article clause paragraph exhibit schedule appendix annex chapter rule form step item part")
)


@dataclass(frozen=True, slots=True)
class Value:
    """`text[start:end]` says `amount` in `unit`; a date has the unit "date", a frequency the unit "rate"."""

    unit: str
    amount: str
    start: int
    end: int


def values(text: str, found: Sequence[Word]) -> list[Value]:
    """All values of a text, in order; `found` are its words."""
    out: list[Value] = []
    at = 0
    while at < len(found):
        value, used = _date(found, at) or _rate(found, at) or _quantity(text, found, at) or (None, 1)
        if value is not None:
            out.append(value)
        at += used
    return out


def _date(found: Sequence[Word], at: int) -> tuple[Value, int] | None:
    """As in "1 March 2024", "March 1, 2024", "March 2024" or "1 March"."""
    some = found[at : at + 3]
    months = [place for place, word in enumerate(some) if word.lower in _MONTHS]
    if not months or months[0] > 1:
        return None
    before, after = some[: months[0]], some[months[0] + 1 :]
    if before and not (before[0].number and len(before[0].key) <= 2):
        return None
    used = [*before, some[months[0]]]
    for word in after[: 1 if before else 2]:
        if not word.key.rstrip("stndrh").isdigit():
            break
        used.append(word)
    if len(used) == 1:
        return None
    parts = sorted(word.key.rstrip("stndrh") for word in used if word.number)
    amount = "-".join([_MONTHS[some[months[0]].lower], *parts])
    return Value("date", amount, used[0].start, used[-1].end), len(used)


def _rate(found: Sequence[Word], at: int) -> tuple[Value, int] | None:
    """As in "monthly", "every two weeks", "once every second year", "twice a year", "per quarter"; the amount is a length."""
    word = found[at]
    if word.lower in _RATES:
        return _length(found, at, at, 1, _RATES[word.lower])
    times, each = (_TIMES[word.lower], at + 1) if word.lower in _TIMES else (1, at)
    if each >= len(found) or found[each].lower not in _EACH or (each == at and found[each].lower in ("a", "an")):
        return None
    for place in (each + 1, each + 2):
        if place >= len(found):
            break
        period = found[place].lower.removesuffix("s")
        if period in _PERIODS:
            count = 1 if place == each + 1 else _count(found[each + 1])
            return _length(found, at, place, count / times, period) if count else None
    return None


def _count(word: Word) -> int:
    if word.lower in _ORDINAL:
        return _ORDINAL[word.lower]
    return int(word.key) if word.key.isdigit() and len(word.key) < 4 else 0


def _length(found: Sequence[Word], first: int, last: int, count: float, period: str) -> tuple[Value, int]:
    size, unit = _PERIODS[period]
    return Value("rate", f"{count * size:g}{unit}", found[first].start, found[last].end), last + 1 - first


def _quantity(text: str, found: Sequence[Word], at: int) -> tuple[Value, int] | None:
    word = found[at]
    if not word.number or (at and found[at - 1].key in _NAMED):
        return None
    used = 1
    if at + 1 < len(found) and found[at + 1].key == word.key:
        used = 2  # "thirty (30)"
    last = found[at + used - 1]
    sign = text[word.start]
    if sign in _CURRENCY:
        return Value(_CURRENCY[sign], word.key, word.start, word.end), used
    if text[last.end - 1] == "%":
        return Value("percent", word.key, word.start, last.end), used
    unit, end, more = _unit(found, at + used)
    return Value(unit, word.key, word.start, end or last.end), used + more


def _unit(found: Sequence[Word], at: int) -> tuple[str, int, int]:
    """The unit that begins at a word: its name, where it ends, and how many words it has."""
    qualifier = ""
    for place, word in enumerate(found[at : at + 3]):
        if word.lower in ("per", "cent") and place < 2:
            if word.lower == "cent":
                return "percent", word.end, place + 1
            continue
        if word.lower in _QUALIFIERS and not qualifier:
            qualifier = "working" if word.lower in ("business", "working") else ""
            continue
        if word.content and not word.number:
            unit = _CURRENCY.get(word.key, word.key)
            return f"{qualifier} {unit}".strip(), word.end, place + 1
        break
    return "", 0, 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The values of a statement against those of the evidence.

    conflicts: the evidence has other values of that unit only. missing: it has none of that unit. agreed: it has it.
    """

    conflicts: tuple[Value, ...]
    missing: tuple[Value, ...]
    agreed: tuple[Value, ...]


def compare(asked: Statement, lines: Iterable[Line]) -> Comparison:
    """Compare by unit; a bare number agrees with the same number in any unit."""
    there = [value for line in lines for value in values(line.text, line.words)]
    conflicts, missing, agreed = [], [], []
    for value in values(asked.text, asked.words):
        same_unit = [other for other in there if _alike(value.unit, other.unit)]
        if any(other.amount == value.amount for other in same_unit):
            agreed.append(value)
        elif same_unit:
            conflicts.append(value)
        else:
            missing.append(value)
    return Comparison(tuple(conflicts), tuple(missing), tuple(agreed))


def _alike(left: str, right: str) -> bool:
    if left == right or not left or not right:
        return True
    return left.split()[-1] == right.split()[-1]


def first_conflict(asked: Statement, lines: Iterable[Line]) -> str | None:
    """The words of the first value that the evidence gives otherwise, or None."""
    found = compare(asked, lines).conflicts
    return asked.text[found[0].start : found[0].end] if found else None
