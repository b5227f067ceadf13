"""Numerical perturbation: another number of the same form, near enough to be believed and unknown to the source.

Years, days, months and decades aim at a temporal shift; counts, amounts, shares and ranks at an exaggerated number. A
number that belongs to a name ("Apollo 11", "Uranium-235", "Blade Runner 2048") is left alone, and so is "one".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from factgym.generators.corruption.base import overlaps, protected
from factgym.generators.corruption.numbers import spell, value_of
from factgym.generators.probes.base import Draft, NoProbe
from factgym.generators.probes.work import NEGATED, Work
from factgym.generators.synthetic.words import MONTHS, listed

LATEST_YEAR = 2024
_ONES = "two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_ORDINALS = listed("second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth")
_MONTH = "|".join(MONTHS)
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("day", rf"(?P<before>\b(?:{_MONTH}) )(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?=\b)"),
    ("day", rf"(?<![\w.,-])(?P<day2>\d{{1,2}})(?= (?:{_MONTH})\b)"),
    ("decade", r"(?<![\w-])(?P<decade>1[0-9]\d0|20[012]0)s\b"),
    ("ordinal", r"(?<![\w.,-])(?P<rank>\d{1,3})(?:st|nd|rd|th)\b"),
    (
        "ordinal_word",
        rf"(?<![\w-])(?P<rankword>{'|'.join(_ORDINALS)})\b(?!-| (?:time|person|degree|hand|place|half)\b)",
    ),
    (
        "word",
        rf"(?<![\w-])(?P<word>(?:{_TENS})(?:-(?:{_ONES}))?|{_TEENS}|{_ONES})\b(?!-(?:{_ONES})| (?:of|hundred|or|to)\b)",
    ),
    ("year", r"(?<![\w.,$€£/-])(?P<year>1\d{3}|20[0-2]\d)(?![\w%]|[.,-]\d|-\w)"),
    (
        "number",
        r"(?<![\w.,/-])(?<!\d[ .,])(?P<sign>[$€£]\s?)?(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,7}(?:\.\d{1,3})?)(?![\w/]| ?[.,:-] ?\d|-)",
    ),
)
_ALL = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
_YEAR_CUE = re.compile(
    rf"(?:\b(?:in|since|until|from|of|to|and|by|before|after|during|year|on|early|late|mid|between|circa|around|the)"
    rf"|\b(?:{_MONTH})(?: \d{{1,2}}(?:st|nd|rd|th)?)?,?|[(–-]) ?$",
    re.I,
)
_NAMED_BEFORE = re.compile(r"(?:[A-Z][\w'’.&:]*|#|\bNo\.) ?$")
_TITLE_AFTER = re.compile(r" ?(?:film|album|song|series|novel|video|TV|season|edition|[A-Z][a-z]+)|\)")
_DECADE_AFTER = re.compile(r" ?['’]s\b|s\b")
_UP = re.compile(r"\b(?:at least|more than|over|exceeds?|exceeding|above|minimum of|as many as|up to) $", re.I)
_DOWN = re.compile(r"\b(?:less than|fewer than|under|below|at most|no more than|maximum of) $", re.I)
_RANGE = re.compile(r"(?:\d|\bone) in $|\bout of $|\d ?(?:[-–]|to|and|or) ?$|\bbetween $|\bfrom $", re.I)
_RANGE_AFTER = re.compile(r" ?(?:[-–]|to|or) ?\d|\s?[x×°'\"]")
_OUT_OF = re.compile(r"^(?: \w+){0,2} out of \d")
_CEILING_UNITS = re.compile(r"\s?(?:%|percent)")
_YEARS = re.compile(r"(?<!\d)\d{4}(?!\d)")
_NUMERAL = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    end: int
    kind: str
    text: str


def change_number(work: Work, error_type: str | None) -> Draft | NoProbe:
    """Changes one number, day, year, decade, month or rank."""
    if NEGATED.search(work.body.text):
        return NoProbe("no_place", "what is denied of one number may be rightly denied of another")
    found = [one for one in _find(work) if error_type is None or _aim(one) == error_type]
    if not found:
        return NoProbe("no_place", "no number that could be another")
    work.rng.shuffle(found)
    for one in found:
        new = _another(work, one)
        if new is not None:
            text = work.body.text[: one.start] + new + work.body.text[one.end :]
            return Draft(work.whole(text), _aim(one), one.kind)
    return NoProbe("no_donor", "every plausible number follows from the source")


def _aim(found: _Found) -> str:
    return "temporal_shift" if found.kind in ("year", "day", "decade") else "numerical_exaggeration"


def _find(work: Work) -> list[_Found]:
    text = work.body.text
    taken = protected(text)
    found: list[_Found] = []
    for kind, pattern in _ALL:
        for match in pattern.finditer(text):
            group = next(
                name for name in reversed(list(match.groupdict())) if match[name] and name not in ("before", "sign")
            )
            start, end = match.span(group)
            if overlaps((start, end), taken):
                continue
            taken.append((start, end))
            if _usable(work, kind, start, end):
                found.append(_Found(start, end, kind, text[start:end]))
    return found


def _usable(work: Work, kind: str, start: int, end: int) -> bool:
    text = work.body.text
    before, after = text[:start], text[end:]
    if text.count(text[start:end]) != 1 or before.count('"') % 2 or before.count("“") > before.count("”"):
        return False
    if kind == "year":
        return (
            _YEAR_CUE.search(before) is not None and not _TITLE_AFTER.match(after) and not _DECADE_AFTER.match(after)
        )
    if kind == "decade":
        return len(_YEARS.findall(work.claim)) == 1
    if kind == "day":
        return True
    in_name = any(a <= start and end <= b for a, b in work.spans)
    if in_name or (start and _NAMED_BEFORE.search(before) and kind == "number"):
        return False
    if kind in ("ordinal", "ordinal_word", "word"):
        return not re.match(r" [A-Z]|-[A-Z]", after)
    return not (_RANGE.search(before) or _RANGE_AFTER.match(after) or _OUT_OF.search(after)) and not re.match(
        r" [A-Z]", after
    )


def _another(work: Work, found: _Found) -> str | None:
    choices = list(dict.fromkeys(_choices(work, found)))
    work.rng.shuffle(choices)
    return next((one for one in choices if one != found.text and not _says(work, one, found)), None)


def _says(work: Work, new: str, found: _Found) -> bool:
    """Whether source or claim give the new number, in figures or words."""
    forms = {new}
    if found.kind == "day":
        return re.search(rf"(?<!\d){new}(?!\d)", work.source + work.claim) is not None
    if found.kind == "word":
        forms.add(str(value_of(new.lower())))
    bare = new.replace(",", "")
    if bare.isdigit():
        value = int(bare)
        forms |= {bare, f"{value:,}"} | ({spell(value)} if 1 < value < 100 else set())
    return any(work.mentions(form) for form in forms)


def _choices(work: Work, found: _Found) -> list[str]:
    if found.kind == "word":
        return _word_choices(found.text)
    if found.kind == "ordinal_word":
        at = _ORDINALS.index(found.text)
        return [_ORDINALS[i] for i in (at - 1, at + 1, at + 2) if 0 <= i < len(_ORDINALS)]
    if found.kind == "ordinal":
        return _rank_choices(work, found)
    if found.kind == "year":
        return [str(year) for year in _years(work, found)]
    if found.kind == "decade":
        return [str(int(found.text) + shift) for shift in (-30, -20, -10, 10, 20) if int(found.text) + shift <= 2010]
    if found.kind == "day":
        day = int(found.text)
        suffixed = work.body.text[found.end : found.end + 2] in ("st", "nd", "rd", "th")
        days = range(4, 21) if suffixed and 4 <= day <= 20 else range(1, 29)
        same = [one for one in days if not suffixed or _suffix(one) == _suffix(day)]
        return [str(one) for one in same if one != day]
    return _figure_choices(work, found)


def _suffix(rank: int) -> str:
    return "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")


def _rank_choices(work: Work, found: _Found) -> list[str]:
    rank = int(found.text)
    near = [rank + shift for shift in (-4, -3, -2, -1, 1, 2, 3, 4, 5, 10) if rank + shift > 1]
    return [str(one) for one in near if _suffix(one) == _suffix(rank)]


def _word_choices(text: str) -> list[str]:
    value = value_of(text)
    reach = (-3, -2, -1, 1, 2, 3) if value < 20 else (-20, -10, 10, 20)
    words = [spell(value + shift) for shift in reach if 1 < value + shift < 100]
    return [word.capitalize() if text[0].isupper() else word for word in words]


def _years(work: Work, found: _Found) -> list[int]:
    """Years near the old one that keep the order of the claim's years."""
    old = int(found.text)
    others = [int(year) for year in re.findall(r"(?<!\d)(?:1\d{3}|20[0-2]\d)(?!\d)", work.claim) if int(year) != old]
    low = max((year for year in others if year < old), default=0)
    high = min((year for year in others if year > old), default=LATEST_YEAR + 1)
    near = [old + shift for shift in (-17, -13, -9, -7, -6, -4, -3, -2, 2, 3, 4, 6, 7, 9, 13, 17)]
    return [year for year in near if low < year < high and year >= 1000]


def _figure_choices(work: Work, found: _Found) -> list[str]:
    body = work.body.text
    before, after = body[: found.start].rstrip("$€£ ") + " ", body[found.end :]
    whole, _, decimals = found.text.replace(",", "").partition(".")
    old = float(f"{whole}.{decimals or 0}")
    if old < 2 and not decimals:
        return []
    sign = 1 if _UP.search(before) else -1 if _DOWN.search(before) else 0
    ceiling = 100.0 if _CEILING_UNITS.match(after) and old <= 100 else float("inf")
    if sign and any(old < other <= 10 * old or old > other >= old / 10 for other in _numbers(work.source)):
        return []
    return [_written(value, found.text) for value in _near(old, len(decimals)) if _fits(value, old, sign, ceiling)]


def _fits(value: float, old: float, sign: int, ceiling: float) -> bool:
    return value > 1 and value < ceiling and value != old and (value - old) * sign >= 0


def _near(old: float, decimals: int) -> list[float]:
    """Values as round as the old one."""
    if decimals:
        return [round(old * factor, decimals) for factor in (0.6, 0.8, 1.3, 1.6, 2.1)]
    value = int(old)
    if value <= 12:
        return [float(value + shift) for shift in (-3, -2, -1, 1, 2, 3, 4)]
    step = 10 ** (len(str(value)) - len(str(value).rstrip("0")))
    spread = [round(value * factor / step) * step for factor in (0.5, 0.7, 0.8, 1.2, 1.4, 1.7, 2.0)]
    return [float(one) for one in spread]


def _written(value: float, like: str) -> str:
    decimals = len(like.partition(".")[2])
    return f"{value:,.{decimals}f}" if "," in like else f"{value:.{decimals}f}"


def _numbers(text: str) -> list[float]:
    return [float(match[0].replace(",", "")) for match in _NUMERAL.finditer(text) if len(match[0]) < 16]
