"""When, how often, and which version: calendar dates, frequencies and version numbers. All are *contradicted*."""

from __future__ import annotations

import random
import re

from factgym.generators.corruption.base import Context, Corruption, Operator, has_words, overlaps, protected, swap

_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_MONTHS = _MONTH.split("|")
_DATE = re.compile(
    rf"\b(?<!day )(?<!day, )(?:(?P<month>{_MONTH}) (?P<day>\d{{1,2}})(?P<nth>st|nd|rd|th)?(?:(?P<comma>,? )(?P<year>(?:19|20)\d\d))?(?!\d)"
    rf"|(?P<day2>\d{{1,2}}) (?P<month2>{_MONTH}) (?P<year2>(?:19|20)\d\d)"
    rf"|(?P<month3>{_MONTH}) (?P<year3>(?:19|20)\d\d)"
    r"|(?<=\b(?:in|by) )(?P<year4>(?:19|20)\d\d)|(?<=\b(?:since|until|after) )(?P<year5>(?:19|20)\d\d))(?![\w/–-]| [A-Z(]| \w+s\b)"
)
_RATES = ("day", "week", "month", "quarter", "year")
_ADVERBS = ("daily", "weekly", "monthly", "quarterly", "annually")
_FREQUENCY = re.compile(
    r"(?<!-)\b(?P<adverb>daily|weekly|monthly|quarterly|annually)\b|\b(?P<each>per|each) (?P<rate>day|week|month|quarter|year)\b"
)
_RATE_FIXED = re.compile(
    r"\b(?:hours|days|times|once|weeks) (?:per|each|every) \w+|\bof (?:each|every) \w+|\) per \w+|-(?:daily|weekly)|\bbi-?\w+ly"
)
_VERSION = re.compile(
    r"\b(?P<name>[Vv]ersion|v\.?|TLS|SSL|HTTP|OAuth|WCAG|GPL|PCI DSS|Release|Revision) ?(?P<number>v?\d{1,2}(?:\.\d{1,2}){0,2})\b(?!\.\d)"
)
_NTH = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}


def _other_year(year: int, rng: random.Random) -> int:
    return year + rng.choice((-3, -2, -1, 1, 2, 3))


def _other_date(match: re.Match[str], rng: random.Random) -> str:
    """Another date in the same style; what changes is the year alone where there is nothing else."""
    year = match["year4"] or match["year5"]
    if year:
        return str(_other_year(int(year), rng))
    month = match["month"] or match["month2"] or match["month3"]
    if match["month3"]:
        return f"{_other_month(month, rng)} {match['year3']}"
    day = int(match["day"] or match["day2"])
    if rng.random() < 0.5:
        month = _other_month(month, rng)
        day = min(day, 28)
    else:
        day = rng.choice([other for other in (1, 5, 10, 12, 15, 20, 25, 28) if other != day])
    if match["day2"]:
        return f"{day} {month} {match['year2']}"
    nth = _NTH.get(day, "th") if match["nth"] else ""
    tail = f"{match['comma']}{match['year']}" if match["year"] else ""
    return f"{month} {day}{nth}{tail}"


def _other_month(month: str, rng: random.Random) -> str:
    return rng.choice([other for other in _MONTHS if other not in (month, "May")])


def change_date(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Changes the month, the day or (for a bare year) the year of one date."""
    found = [match for match in _DATE.finditer(sentence) if sentence.count(match[0]) == 1]
    rng.shuffle(found)
    for match in found:
        new = _other_date(match, rng)
        if has_words(context.document, new):
            continue
        text = sentence[: match.start()] + new + sentence[match.end() :]
        return Corruption(text, "contradicted", new, "date", f"The document says {match[0]!r}, not {new!r}.")
    return None


def change_frequency(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Changes how often something happens: "annually" to "monthly", "per month" to "per week"."""
    fixed = [match.span() for match in _RATE_FIXED.finditer(sentence)]
    found = [match for match in _FREQUENCY.finditer(sentence) if not overlaps(match.span(), fixed)]
    if len(found) != 1:
        return None
    match = found[0]
    if match["adverb"]:
        options = [word for word in _ADVERBS[:-1] if word != match["adverb"]]
    else:
        options = [f"{match['each']} {rate}" for rate in _RATES if rate != match["rate"]]
    options = [option for option in options if not has_words(context.document, option)]
    if not options:
        return None
    new = rng.choice(options)
    text = swap(sentence, match.span(), new)
    new = text[match.start() : match.start() + len(new)]
    return Corruption(text, "contradicted", new, "frequency", f"The document says {match[0]!r}, not {new!r}.")


def change_version(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Names another version than the document's."""
    taken = [span for span in protected(sentence) if not _VERSION.search(sentence[span[0] : span[1]])]
    found = [match for match in _VERSION.finditer(sentence) if not overlaps(match.span(), taken)]
    if len(found) != 1:
        return None
    match = found[0]
    head, dot, last = match["number"].rpartition(".")
    number = int(last.lstrip("v"))
    new = f"{match['name']} {head}{dot}{rng.choice([value for value in (number + 1, number + 2, number - 1) if value > 0])}"
    if has_words(context.document, new):
        return None
    text = sentence[: match.start()] + new + sentence[match.end() :]
    return Corruption(text, "contradicted", new, "version", f"The document says {match[0]!r}, not {new!r}.")


DATE = Operator("date", "contradicted", _DATE, change_date)
FREQUENCY = Operator("frequency", "contradicted", _FREQUENCY, change_frequency)
VERSION = Operator("version", "contradicted", _VERSION, change_version)
