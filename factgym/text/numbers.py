"""Numbers and dates of a text as values: "Twenty people", "20 people" and "20.0 people" hold the same number.

    "1.5 million", "1,500,000", "one and a half million"    1500000
    "4.50 %", "4.5 per cent"                                4.5 percent
    "third", "3rd"                                          3th
    "March 3rd, 2020", "3 March 2020"                      3_3 march 2020
    "2020-03-03", "3/3/2020"                               3_3 2020

A day and a month are one value, the smaller number first, since "03/04" may be either. English number words, the scales
of English and of South Asia. Not read: fractions but halves, Roman numerals, decimal commas, signs.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache

from factgym.text.words import terms

_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_FIRST = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_YEAR = "january february march april may june july august september october november december"
ONES, MONTHS = _NUMBERS.split(), _YEAR.split()
MONTH_NAMES = tuple(map(str.capitalize, MONTHS))
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

ORDINALS = [*_FIRST.split(), *(f"{word}th" for word in ONES[13:])]
"""From "first" to "nineteenth"."""
_RANKS = {word: rank for rank, word in enumerate(ORDINALS, 1)}
_RANKS |= {f"{word[:-1]}ieth": 10 * tens for tens, word in enumerate(TENS, 2)}
_VALUES = {word: Decimal(value) for value, word in enumerate(ONES)}
_VALUES |= {word: Decimal(10 * tens) for tens, word in enumerate(TENS, 2)} | {"half": Decimal("0.5")}
_SCALES = {
    **dict.fromkeys(("k", "thousand"), Decimal(10**3)),
    **dict.fromkeys(("m", "mn", "million"), Decimal(10**6)),
    **dict.fromkeys(("bn", "billion"), Decimal(10**9)),
    **dict.fromkeys(("tn", "trillion"), Decimal(10**12)),
    **{"dozen": Decimal(12), "hundred": Decimal(100), "lakh": Decimal(10**5), "crore": Decimal(10**7)},
}

_SMALL = rf"(?:(?:{'|'.join(TENS)})(?:[-\s](?:{'|'.join(ONES[1:10])}))?|{'|'.join(reversed(ONES))})(?!\w)"
_WORDS = rf"(?:(?:{_SMALL}|a)[-\s]hundred(?!\w)(?:(?:\sand\s|[-\s]){_SMALL})?|{_SMALL})"
_FIGURES = r"\d{1,30}+(?:,\d{1,30}+)*+(?:\.\d{1,30}+)?(?![.,]?\d)"
_SCALE = r"(?:(?:hundred|thousand|million|billion|trillion|lakh|crore|dozen)s?|mn|bn|tn|(?<=\d)k)(?!\w)"
MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|(?-i:May|MAY)|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)(?!\w)\.?"
)
"""Pattern of a month in full or short, for `re.I`; "may" is none."""
_DAY = r"\d{1,2}(?:st|nd|rd|th)?(?!\w|[.,:]\d)"
_DAYS = rf"{_DAY}(?:(?:\s?[-–]\s?|\s(?:and|to|or)\s){_DAY})?"
_VALUE = re.compile(
    r"(?<!\w)(?<!\d[.,])(?:"
    rf"(?P<days>{_DAYS})\s(?:of\s)?(?P<month>{MONTH})"
    rf"|(?P<month_first>{MONTH})\s(?:the\s)?(?P<days_last>{_DAYS})"
    r"|(?P<date>\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})(?![-/.]?\w)"
    rf"|(?:(?P<rank>\d{{1,9}})(?:st|nd|rd|th)|(?P<tens>(?:{'|'.join(TENS)})[-\s])?(?P<ordinal>{'|'.join(_RANKS)}))(?!\w)"
    rf"|(?P<number>(?<=[$£€₹]){_FIGURES}\s?m(?!\w)"
    rf"|(?:(?:{_FIGURES}|{_WORDS})(?:\sand\sa\shalf)?|half\san?|an?)[-\s]?{_SCALE}"
    rf"(?:(?:,?\sand\s|,?\s|-){_WORDS}(?:[-\s]{_SCALE})?)*"
    rf"|{_WORDS}(?:\sand\sa\shalf(?!\w))?)"
    rf"|(?P<figures>{_FIGURES})(?P<unit>(?!s(?!\w))[a-z]{{1,3}})?(?!\w)"
    r")|(?P<percent>\s?%|\bper[-\s]cent\b)",
    re.I,
)
_ATOM = re.compile(r"\d+(?:,\d+)*(?:\.\d+)?|[a-z]+")
_PRONOUN = re.compile(r"(?<=\bno\s)one|(?<=\b(?:any|the)\s)one|one(?=\s(?:of|another)\b|['’]s\b)", re.I)


def value_terms(text: str) -> list[str]:
    """Return the `terms` of a text in order, with numbers and dates as values; these terms begin with a digit."""
    return terms(fold_values(text))


def fold_values(text: str) -> str:
    """Return the text with its numbers and dates as values."""
    return _VALUE.sub(_value, text)


def parse_number(text: str) -> Decimal:
    """Return the number that figures or number words give: "twenty-one", "2 million", "one and a half"."""
    total = group = Decimal(0)
    for atom in _ATOM.findall(text.lower()):
        scale = _SCALES.get(atom) or _SCALES.get(atom.removesuffix("s"))
        if atom in _VALUES or atom[0].isdigit():
            group += _VALUES[atom] if atom in _VALUES else Decimal(atom.replace(",", ""))
        elif scale == 100:
            group = (group or 1) * scale
        elif scale is not None:
            total, group = total + (group or 1) * scale, Decimal(0)
    return total + group


@cache
def number_words(value: int) -> str:
    """Return a number in words ("twenty-one"), from 100 on in digits."""
    if value >= 100:
        return str(value)
    tens, ones = divmod(value, 10)
    return ONES[value] if value < 20 else TENS[tens - 2] + (f"-{ONES[ones]}" if ones else "")


def ordinal_suffix(rank: int) -> str:
    """Return the suffix of an ordinal in figures: "st", "nd", "rd" or "th"."""
    return "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")


def _value(match: re.Match[str]) -> str:
    """Return a number, rank, date or percent sign as text that `terms` leaves whole."""
    month = match["month"] or match["month_first"]
    if match["percent"]:
        return " percent "
    if month:
        number = next(number for number, name in enumerate(MONTHS, 1) if name.startswith(month[:3].lower()))
        days = re.findall(r"\d+", match["days"] or match["days_last"])
        return f" {' '.join(_day(int(day), number) for day in days)} {MONTHS[number - 1]} "
    if match["date"]:
        year, *day = sorted(re.split(r"[-/.]", match["date"]), key=len, reverse=True)
        return f" {_day(*map(int, day))} {year} "
    if match["rank"] or match["ordinal"]:
        tens = parse_number(match["tens"] or "")
        rank = int(match["rank"]) if match["rank"] else tens + _RANKS[match["ordinal"].lower()]
        return f" {rank}th "
    if match[0].lower() == "one" and _PRONOUN.match(match.string, match.start()):
        return match[0]
    return f" {parse_number(match['figures'] or match[0]).normalize():f} {match['unit'] or ''} "


def _day(first: int, second: int) -> str:
    return f"{min(first, second)}_{max(first, second)}"
