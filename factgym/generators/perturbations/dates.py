"""Calendar dates, frequencies and version numbers of documents' sentences (all *contradicted*), decades of claims."""

from __future__ import annotations

import random
import re

from factgym.datasets.attribution import ATTRIBUTABLE
from factgym.generators.perturbations.grammar import MONTH, capitalise, overlaps, protected_spans
from factgym.generators.perturbations.numbers import ordinal_suffix
from factgym.generators.perturbations.operator import Edit, NoEdit, Operator, Statement
from factgym.generators.synthetic.grammar import MONTHS

_DATE = re.compile(
    rf"\b(?<!day )(?<!day, )(?:(?P<month>{MONTH}) (?P<day>\d{{1,2}})(?P<nth>st|nd|rd"
    rf"|th)?(?:(?P<comma>,? )(?P<year>(?:19|20)\d\d))?(?!\d)|(?P<day2>\d{{1,2}}) (?P<month2>{MONTH}) (?P<year2>(?:19"
    rf"|20)\d\d)|(?P<month3>{MONTH}) (?P<year3>(?:19|20)\d\d)"
    r"|(?<=\b(?:in|by) )(?P<year4>(?:19|20)\d\d)|(?<=\b(?:since|until|after) )(?P<year5>(?:19|20)\d\d))(?![\w/–-]"
    r"| [A-Z(]| \w+s\b)"
)
_RATES = ("day", "week", "month", "quarter", "year")
_ADVERBS = ("daily", "weekly", "monthly", "quarterly", "annually")
_FREQUENCY = re.compile(
    r"(?<!-)\b(?P<adverb>daily|weekly|monthly|quarterly|annually)\b|\b(?P<each>per|each) (?P<rate>day|week|month"
    r"|quarter|year)\b"
)
# Rates that are part of a quantity: "40 hours per week".
_RATE_FIXED = re.compile(
    r"\b(?:hours|days|times|once|weeks) (?:per|each|every) \w+|\bof (?:each|every) \w+|\) per \w+|-(?:daily|weekly)"
    r"|\bbi-?\w+ly"
)
_VERSION = re.compile(
    r"\b(?P<name>[Vv]ersion|v\.?|TLS|SSL|HTTP|OAuth|WCAG|GPL|PCI DSS|Release"
    r"|Revision) ?(?P<number>v?\d{1,2}(?:\.\d{1,2}){0,2})\b(?!\.\d)"
)
# The date of a claim, after a verb of an event; `_NO_EVENT` are words that make it more than one event.
_CLAIM_DATE = re.compile(
    rf"\b(?P<word>[Oo]n|[Ii]n) (?:(?:{MONTH})(?: \d{{1,2}}(?:st|nd|rd|th)?)? ?,? "
    rf"|\d{{1,2}} (?:{MONTH}) ?,? )?(?P<year>1[5-9]\d\d|20[01]\d)"
    r"(?![\w%]|[-–/]|[.,]\d| [A-Z(]|,? ?(?:and|or) \d)"
)
_EVENT = re.compile(r"\b(?:born|died|won|wrote|began|[a-z]+ed|built|made|met|led|sold|took)\b(?: [\w'’&.,-]+){0,7} $")
_NO_EVENT = re.compile(
    r"\b(?:not|no|never|nothing|currently|longer|yet|already|only|first|last|still|until|every|each|all)\b|n['’]t\b",
    re.I,
)


def _other_month(month: str, rng: random.Random) -> str:
    return rng.choice([other for other in MONTHS if other not in (month, "May")])


def _other_date(match: re.Match[str], rng: random.Random) -> str:
    """Another date in the same style; of a bare year another year, else the same year."""
    year = match["year4"] or match["year5"]
    if year:
        return str(int(year) + rng.choice((-3, -2, -1, 1, 2, 3)))
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
    suffix = ordinal_suffix(day) if match["nth"] else ""
    year = f"{match['comma']}{match['year']}" if match["year"] else ""
    return f"{month} {day}{suffix}{year}"


def change_date(statement: Statement) -> Edit | NoEdit:
    """Change the month, the day or (of a bare year) the year of one date."""
    matches = [match for match in _DATE.finditer(statement.text) if statement.text.count(match[0]) == 1]
    statement.rng.shuffle(matches)
    for match in matches:
        date = _other_date(match, statement.rng)
        if not statement.mentions(date):
            return Edit(*match.span(), date)
    return NoEdit()


def change_frequency(statement: Statement) -> Edit | NoEdit:
    """Change how often something happens: "annually" to "monthly", "per month" to "per week"."""
    fixed = [match.span() for match in _RATE_FIXED.finditer(statement.text)]
    matches = [match for match in _FREQUENCY.finditer(statement.text) if not overlaps(match.span(), fixed)]
    if len(matches) != 1:
        return NoEdit()
    match = matches[0]
    if match["adverb"]:
        options = [adverb for adverb in _ADVERBS[:-1] if adverb != match["adverb"]]
    else:
        options = [f"{match['each']} {rate}" for rate in _RATES if rate != match["rate"]]
    options = [option for option in options if not statement.mentions(option)]
    if not options:
        return NoEdit("no_donor")
    new = statement.rng.choice(options)
    return Edit(*match.span(), capitalise(new) if match.start() == 0 else new)


def change_version(statement: Statement) -> Edit | NoEdit:
    """Name another version than the document's."""
    text = statement.text
    taken = [span for span in protected_spans(text) if not _VERSION.search(text[span[0] : span[1]])]
    matches = [match for match in _VERSION.finditer(text) if not overlaps(match.span(), taken)]
    if len(matches) != 1:
        return NoEdit()
    match = matches[0]
    head, dot, last = match["number"].rpartition(".")
    number = int(last.lstrip("v"))
    other = statement.rng.choice([value for value in (number + 1, number + 2, number - 1) if value > 0])
    new = f"{match['name']} {head}{dot}{other}"
    return NoEdit("no_donor") if statement.mentions(new) else Edit(*match.span(), new)


def change_decade(statement: Statement) -> Edit | NoEdit:
    """Replace the date of a claim's only event by its decade, which keeps the label, or by another one."""
    text = statement.text
    matches = [match for match in _CLAIM_DATE.finditer(text) if text[: match.start()].count('"') % 2 == 0]
    if len(matches) != 1 or len(re.findall(r"\d{4}", text)) != 1:
        return NoEdit("no_site", "no single date with a year")
    match = matches[0]
    opens_past = match.start() == 0 and statement.verb is not None and statement.verb.tense == "past"
    if _NO_EVENT.search(text) or not (opens_past or _EVENT.search(text[: match.start()])):
        return NoEdit("no_site", "the date is not that of one event")
    if statement.keeps and statement.label != ATTRIBUTABLE:
        return NoEdit("no_site", "the decade of a false date can be true")
    decade = int(match["year"]) // 10 * 10
    if decade % 100 == 0 and (decade < 1850 or decade in (1900, 2000)):
        return NoEdit("no_site", "the decade has no clear name")
    shifted = [decade + shift for shift in (-30, -20, -10, 10, 20)]
    others = [other for other in shifted if other <= 2010 and other % 100 and not statement.mentions(f"{other}s")]
    decades = [decade] if statement.keeps else others
    if not decades:
        return NoEdit("no_donor", "the source names the other decades")
    new = f"{'In' if match['word'] in ('On', 'In') else 'in'} the {statement.rng.choice(decades)}s"
    variant, error_type = ("decade", None) if statement.keeps else ("wrong_decade", "temporal_shift")
    return Edit(*match.span(), new, variant=variant, error_type=error_type)


DATE = Operator("date", ("contradicted",), change_date, _DATE)
FREQUENCY = Operator("frequency", ("contradicted",), change_frequency, _FREQUENCY)
VERSION = Operator("version", ("contradicted",), change_version, _VERSION)
DECADE = Operator("decade", ("temporal_shift", None), change_decade)
