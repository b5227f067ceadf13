"""Numbers and dates: quantities, money, dates, rates and versions in documents, any number or date of a probed claim.

The new value is one that people would write (30 days, not 37), in the style of the old one ("thirty (30) days" changes
in both positions), absent from the source, and never one that follows from the old: a deadline of 30 days is not a
deadline of 14, while a floor of 5 implies a floor of 3, so floors go up and ceilings go down.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from factgym.datasets.attribution import ATTRIBUTABLE
from factgym.generators.base import word_table
from factgym.generators.perturbations.grammar import MONTH, Cues, Span, in_main_clause, overlaps, protected_spans
from factgym.generators.perturbations.operator import NEGATED, Edit, NoEdit, Operator, Statement
from factgym.generators.synthetic.grammar import word_list
from factgym.text.numbers import MONTH_NAMES, ONES, ORDINALS, TENS, number_words, ordinal_suffix, parse_number
from factgym.text.sentences import capitalise

_CUES = Cues("numbers")


# Sentences of documents: quantities with a unit, and money. The evidence is a whole document.

# Usual values of each unit; anything else gets values as round as the old one.
_TIME_VALUES: Mapping[str, tuple[int, ...]] = word_table("english")["usual_values"]
_PERCENT_VALUES = (2, 3, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 75, 90)
_ROUND_STEPS = tuple(head * 10**power for power in range(8) for head in (1, 5, 25))
_FACTORS = (0.5, 0.75, 1.5, 2.0, 2.5, 3.0)
_WORDS = "|".join([*(f"{ten}(?:-(?:{'|'.join(ONES[1:10])}))?" for ten in TENS), *ONES[:0:-1]])
_MIDDLE = r"(?:(?:business|calendar|working|consecutive|full|additional|more|successive|federal|credit|annual) )?"
_UNIT = r"minutes?|hours?|days?|weeks?|months?|quarters?|years?|pay periods?|percent|%"
_COUNTED_UNITS = frozenset(word_list("counted_units"))
_COUNTED = "|".join(word_list("counted_units"))
_QUANTITY = re.compile(
    rf"(?<![\w.,$€£/-])(?:(?P<word>{_WORDS})(?: \((?P<both>\d{{1,4}})\))?|(?P<digits>\d{{1,3}}(?:,\d{{3}})+"
    rf"|\d{{1,5}}))(?P<gap> ?|-)(?P<middle>{_MIDDLE})(?P<unit>{_UNIT}|{_COUNTED})(?![\w/])",
    re.I,
)
_AWKWARD = frozenset({8, 11, 18})


def _direction(sentence: str, match: re.Match[str]) -> int | None:
    """+1 where only a larger value is a new statement, -1 where only a smaller one is, 0 where either is.

    In a condition it is the other way round: a rule for 5 years or more covers 7 years or more. None: uncertain.
    """
    # Monotonicity: a bound entails every weaker one, so only a stronger value is new. A condition is a
    # downward-entailing context and turns the direction round.
    before, after = sentence[: match.start()], sentence[match.end() :]
    near = before[-40:]
    if _CUES.up_to.search(near):
        return 1
    if _CUES.floor.search(near) or _CUES.or_more.match(after):
        sign = 1
    elif _CUES.ceiling.search(near) or _CUES.within.search(near) or _CUES.or_less.match(after):
        sign = -1
    else:
        return -1 if _CUES.over.search(near) else 0
    clause = before[max(before.rfind(","), 0) :]
    if _CUES.conditional.search(clause):
        return -sign
    return None if _CUES.reported.search(clause) else sign


def _new_values(old: int, unit: str, direction: int) -> list[int]:
    """Usual values of a unit (any unit: "") within a factor of three of `old` and in the given direction."""
    singular = unit.lower().removesuffix("s")
    if singular in _TIME_VALUES and old < _TIME_VALUES[singular][-1]:
        values = list(_TIME_VALUES[singular])
    elif singular in ("percent", "%"):
        values = list(_PERCENT_VALUES)
    else:
        # Roundness: the largest 1, 5 or 25 times a power of ten that divides the old value.
        # Values near the old one that are as round as it is.
        step = max((size for size in _ROUND_STEPS if old % size == 0), default=1)
        step = step // 2 if step == old and step % 2 == 0 else step
        values = sorted({round(old * factor / step) * step for factor in _FACTORS} - {0, 1, old})
    near = [new for new in values if old / 3 <= new <= old * 3 and new != old and new not in _AWKWARD]
    return [new for new in near if (new - old) * direction >= 0]


def _gives_quantity(document: str, value: int, unit: str) -> bool:
    """Whether the document gives this value, in figures or words, with this unit at most 40 characters later."""
    stem = unit.lower().removesuffix("s")
    for number in dict.fromkeys([str(value), f"{value:,}", number_words(value)]):
        start = document.find(number)
        while start >= 0:
            if stem in document[start : start + 40].casefold() and not document[max(0, start - 1) : start].isalnum():
                return True
            start = document.find(number, start + 1)
    return False


def _is_single(match: re.Match[str]) -> bool:
    """Whether the unit turns plural with another number: "one year", not "one-year"."""
    unit = match["unit"].lower()
    return unit in _TIME_VALUES and match["gap"] == " " and (match["word"] or match["digits"]).lower() in ("one", "1")


def _format_quantity(match: re.Match[str], value: int) -> str:
    """Return the quantity with a new value, in the style of the old one."""
    word = match["word"]
    number = f"{value:,}" if "," in (match["digits"] or "") else str(value)
    if word:
        number = number_words(value) + (f" ({value})" if match["both"] else "")
        number = number.capitalize() if word[0].isupper() else number
    return f"{number}{match['gap']}{match['middle']}{match['unit']}{'s' if _is_single(match) else ''}"


def _usable_matches(pattern: re.Pattern[str], sentence: str, protected: list[Span]) -> list[re.Match[str]]:
    """Numbers outside the protected spans that are no part of a range, of an "even if" or of an adjective."""
    usable = []
    for match in pattern.finditer(sentence):
        before, after = sentence[: match.start()], sentence[match.end() :]
        ranged = _CUES.range_before.search(before[-45:]) or _CUES.range_after.match(after) or _CUES.even.search(before)
        adjective = pattern is _QUANTITY and _is_single(match) and not _CUES.plural_may_follow.match(after)
        # "Basecamp 4 accounts": the number belongs to the name.
        named = (
            match["unit"].lower() in _COUNTED_UNITS if pattern is _QUANTITY and _CUES.product.search(before) else False
        )
        if not ranged and not adjective and not named and not overlaps(match.span(), protected):
            usable.append(match)
    return usable


def change_quantity(statement: Statement) -> Edit | NoEdit:
    """Change one duration, count or percentage of a document's sentence."""
    sentence, rng = statement.text, statement.rng
    protected = protected_spans(sentence) + [match.span() for match in _CUES.fixed.finditer(sentence)]
    matches = _usable_matches(_QUANTITY, sentence, protected)
    rng.shuffle(matches)
    for match in matches:
        unit = match["unit"]
        old = int(parse_number(match["word"] or match["digits"]))
        direction = _direction(sentence, match)
        if direction is None or (match["both"] and int(match["both"]) != old):
            continue
        values = [new for new in _new_values(old, unit, direction) if new < 100 or not match["word"]]
        rng.shuffle(values)
        value = next((new for new in values if not _gives_quantity(statement.source, new, unit)), None)
        if value is not None and sentence.count(match[0]) == 1:
            return Edit(*match.span(), _format_quantity(match, value))
    return NoEdit()


def change_amount(statement: Statement) -> Edit | NoEdit:
    """Change one amount of money of a document's sentence."""
    sentence = statement.text
    matches = _usable_matches(_CUES.money, sentence, protected_spans(sentence))
    statement.rng.shuffle(matches)
    for match in matches:
        old = int(match["number"].replace(",", ""))
        direction = _direction(sentence, match)
        values = _new_values(old, "", direction) if old and direction is not None else []
        comma = "," in match["number"]
        numbers = [f"{value:,}" if comma or value > 9999 else str(value) for value in values]
        tail = f"{match['cents'] or ''}{match['scale'] or ''}"
        amounts = [f"{match['sign']}{match['gap']}{number}{tail}" for number in numbers]
        amounts = [amount for amount in amounts if not statement.mentions(amount)]
        if amounts and sentence.count(match[0]) == 1:
            return Edit(*match.span(), statement.rng.choice(amounts))
    return NoEdit()


NUMBER = Operator("number", ("contradicted",), change_quantity, _QUANTITY)
AMOUNT = Operator("amount", ("contradicted",), change_amount, _CUES.money)


# Claims with a source: years, days and decades aim at a temporal shift; counts, amounts, shares and ranks at an
# exaggerated number. A number that belongs to a name ("Apollo 11", "Uranium-235") is left alone, and so is "one".

LATEST_YEAR = 2024
_DIGITS = "two|three|four|five|six|seven|eight|nine"
_TEENS = "|".join(ONES[10:])
_DECADES = "|".join(TENS)
_ORDINALS = ORDINALS[1:12]
_NUMBER_PATTERNS: tuple[tuple[str, str], ...] = (
    ("day", rf"(?P<before>\b(?:{MONTH}) )(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?=\b)"),
    ("day", rf"(?<![\w.,-])(?P<day2>\d{{1,2}})(?= (?:{MONTH})\b)"),
    ("decade", r"(?<![\w-])(?P<decade>1[0-9]\d0|20[012]0)s\b"),
    ("ordinal", r"(?<![\w.,-])(?P<rank>\d{1,3})(?:st|nd|rd|th)\b"),
    (
        "ordinal_word",
        rf"(?<![\w-])(?P<rankword>{'|'.join(_ORDINALS)})\b(?!-| (?:time|person|degree|hand|place|half)\b)",
    ),
    (
        "word",
        rf"(?<![\w-])(?P<word>(?:{_DECADES})(?:-(?:{_DIGITS}))?|{_TEENS}|{_DIGITS})\b(?!-(?:{_DIGITS})| (?:of|hundred"
        rf"|or|to)\b)",
    ),
    ("year", r"(?<![\w.,$€£/-])(?P<year>1\d{3}|20[0-2]\d)(?![\w%]|[.,-]\d|-\w)"),
    (
        "number",
        r"(?<![\w.,/-])(?<!\d[ .,])(?P<sign>[$€£]\s?)?(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?"
        r"|\d{1,7}(?:\.\d{1,3})?)(?![\w/]| ?[.,:-] ?\d|-)",
    ),
)
_NUMBER_KINDS = tuple((kind, re.compile(pattern)) for kind, pattern in _NUMBER_PATTERNS)
"""Kinds of numbers, each tried on the spans that the kinds before it left."""
_OUT_OF = re.compile(r"^(?: \w+){0,2} out of \d")
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
_NUMERAL = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_TEMPORAL = frozenset({"year", "day", "decade"})


@dataclass(frozen=True, slots=True)
class _Number:
    """A number of a claim, `text[start:end]`, of one of the kinds above."""

    start: int
    end: int
    kind: str
    text: str

    @property
    def error_type(self) -> str:
        return "temporal_shift" if self.kind in _TEMPORAL else "numerical_exaggeration"


def change_number(statement: Statement) -> Edit | NoEdit:
    """Change one number, day, year, decade or rank of a claim."""
    if NEGATED.search(statement.text):
        return NoEdit("no_site", "the denial of one number may be right for another")
    numbers = [number for number in _find_numbers(statement) if statement.aim in (None, number.error_type)]
    if not numbers:
        return NoEdit("no_site", "no number that could be another")
    statement.rng.shuffle(numbers)
    for number in numbers:
        values = list(dict.fromkeys(_CHOICES.get(number.kind, _near_choices)(statement, number)))
        statement.rng.shuffle(values)
        value = next((new for new in values if new != number.text and not _mentions(statement, new, number)), None)
        if value is not None:
            return Edit(number.start, number.end, value, variant=number.kind, error_type=number.error_type)
    return NoEdit("no_donor", "every plausible number follows from the source")


def _find_numbers(statement: Statement) -> list[_Number]:
    """Return the numbers that can be changed; kinds go from specific to general, the first match wins."""
    text = statement.text
    claimed = protected_spans(text)
    numbers: list[_Number] = []
    for kind, pattern in _NUMBER_KINDS:
        for match in pattern.finditer(text):
            groups = [name for name in match.groupdict() if match[name] and name not in ("before", "sign")]
            start, end = match.span(groups[-1])
            if not overlaps((start, end), claimed):
                claimed.append((start, end))
                if _is_changeable(statement, kind, start, end):
                    numbers.append(_Number(start, end, kind, text[start:end]))
    return numbers


def _is_changeable(statement: Statement, kind: str, start: int, end: int) -> bool:
    """Whether the number counts or dates something, rather than naming it or being part of a range or a title."""
    text = statement.text
    before, after = text[:start], text[end:]
    if text.count(text[start:end]) != 1 or before.count('"') % 2 or before.count("“") > before.count("”"):
        return False
    if kind == "year":
        return (
            bool(_CUES.year_cue.search(before))
            and not _CUES.title_after.match(after)
            and not _CUES.decade_after.match(after)
        )
    if kind == "decade":
        return len(_YEAR.findall(statement.lead + text)) == 1
    if kind == "day":
        return True
    if any(first <= start and end <= last for first, last in statement.name_spans):
        return False
    if kind != "number":
        return not re.match(r" [A-Z]|-[A-Z]", after)
    if _CUES.named_before.search(before) or _CUES.claim_range_before.search(before):
        return False
    return not (_CUES.claim_range_after.match(after) or _OUT_OF.search(after) or re.match(r" [A-Z]", after))


def _mentions(statement: Statement, new: str, number: _Number) -> bool:
    """Whether source or claim give the new number, in figures or words."""
    if number.kind == "day":
        return re.search(rf"(?<!\d){new}(?!\d)", statement.source + statement.lead + statement.text) is not None
    forms = {new}
    if number.kind == "word":
        forms.add(str(int(parse_number(new))))
    digits = new.replace(",", "")
    if digits.isdigit():
        value = int(digits)
        forms |= {digits, f"{value:,}"} | ({number_words(value)} if 1 < value < 100 else set())
    return any(statement.mentions(form) for form in forms)


def _near_choices(statement: Statement, number: _Number) -> list[str]:
    """Ranks, decades and numbers in words near the old one. A rank keeps its suffix, which is not part of its span."""
    if number.kind == "ordinal_word":
        index = _ORDINALS.index(number.text)
        return [_ORDINALS[near] for near in (index - 1, index + 1, index + 2) if 0 <= near < len(_ORDINALS)]
    value = int(parse_number(number.text))
    if number.kind == "decade":
        return [str(value + shift) for shift in (-30, -20, -10, 10, 20) if value + shift <= 2010]
    if number.kind == "ordinal":
        ranks = [value + shift for shift in (-4, -3, -2, -1, 1, 2, 3, 4, 5, 10) if value + shift > 1]
        return [str(rank) for rank in ranks if ordinal_suffix(rank) == ordinal_suffix(value)]
    shifts = (-3, -2, -1, 1, 2, 3) if value < 20 else (-20, -10, 10, 20)
    words = [number_words(value + shift) for shift in shifts if 1 < value + shift < 100]
    return [word.capitalize() if number.text[0].isupper() else word for word in words]


def _year_choices(statement: Statement, number: _Number) -> list[str]:
    """Years near the old one that keep the order of the claim's years."""
    old = int(number.text)
    years = [int(year) for year in re.findall(r"(?<!\d)(?:1\d{3}|20[0-2]\d)(?!\d)", statement.lead + statement.text)]
    low = max((year for year in years if year < old), default=0)
    high = min((year for year in years if year > old), default=LATEST_YEAR + 1)
    near = [old + shift for shift in (-17, -13, -9, -7, -6, -4, -3, -2, 2, 3, 4, 6, 7, 9, 13, 17)]
    return [str(year) for year in near if low < year < high and year >= 1000]


def _day_choices(statement: Statement, number: _Number) -> list[str]:
    """Other days of the month; with a suffix in the text, days of the same suffix."""
    day = int(number.text)
    if statement.text[number.end : number.end + 2] not in ("st", "nd", "rd", "th"):
        return [str(new) for new in range(1, 29) if new != day]
    days = range(4, 21) if 4 <= day <= 20 else range(1, 29)
    return [str(new) for new in days if new != day and ordinal_suffix(new) == ordinal_suffix(day)]


def _figure_choices(statement: Statement, number: _Number) -> list[str]:
    """Values as round as the old one, in its format, on the side that a bound ("at least") leaves open.

    A bounded number is left alone where the source has another number within a factor of ten on that side.
    """
    before, after = statement.text[: number.start].rstrip("$€£ ") + " ", statement.text[number.end :]
    integer, _, decimals = number.text.replace(",", "").partition(".")
    old = float(f"{integer}.{decimals or 0}")
    if old < 2 and not decimals:
        return []
    sign = 1 if _CUES.at_least.search(before) else -1 if _CUES.at_most.search(before) else 0
    ceiling = 100.0 if _CUES.ceiling_units.match(after) and old <= 100 else float("inf")
    if sign:
        numerals = (match[0].replace(",", "") for match in _NUMERAL.finditer(statement.source) if len(match[0]) < 16)
        if any(old / 10 <= value <= 10 * old and value != old for value in map(float, numerals)):
            return []
    if decimals:
        values = [round(old * factor, len(decimals)) for factor in (0.6, 0.8, 1.3, 1.6, 2.1)]
    elif old <= 12:
        values = [old + shift for shift in (-3, -2, -1, 1, 2, 3, 4)]
    else:
        step = 10 ** (len(integer) - len(integer.rstrip("0")))
        values = [float(round(old * factor / step) * step) for factor in (0.5, 0.7, 0.8, 1.2, 1.4, 1.7, 2.0)]
    values = [new for new in values if 1 < new < ceiling and new != old and (new - old) * sign >= 0]
    comma = "," if "," in number.text else ""
    return [f"{value:{comma}.{len(decimals)}f}" for value in values]


_CHOICES = {"year": _year_choices, "day": _day_choices, "number": _figure_choices}
"""Functions that list other values, by kind of number; `_near_choices` for the rest."""

CLAIM_NUMBER = Operator("number", ("numerical_exaggeration", "temporal_shift"), change_number)


# Calendar dates, frequencies and version numbers of documents' sentences; decades of claims.

_RATES = ("day", "week", "month", "quarter", "year")
_ADVERBS = ("daily", "weekly", "monthly", "quarterly", "annually")


def _shift_date(match: re.Match[str], rng: random.Random) -> str:
    """Return another date in the same style: of a bare year another year, else the same year."""
    year = match["year4"] or match["year5"]
    if year:
        return str(int(year) + rng.choice((-3, -2, -1, 1, 2, 3)))
    month = match["month"] or match["month2"] or match["month3"]
    months = [candidate for candidate in MONTH_NAMES if candidate not in (month, "May")]
    if match["month3"]:
        return f"{rng.choice(months)} {match['year3']}"
    day = int(match["day"] or match["day2"])
    if rng.random() < 0.5:
        month, day = rng.choice(months), min(day, 28)
    else:
        day = rng.choice([candidate for candidate in (1, 5, 10, 12, 15, 20, 25, 28) if candidate != day])
    if match["day2"]:
        return f"{day} {month} {match['year2']}"
    suffix = ordinal_suffix(day) if match["nth"] else ""
    return f"{month} {day}{suffix}" + (f"{match['comma']}{match['year']}" if match["year"] else "")


def change_date(statement: Statement) -> Edit | NoEdit:
    """Change the month, the day or (of a bare year) the year of one date."""
    text = statement.text
    # A rule for those after June 1 covers those after June 15.
    matches = [
        match
        for match in _CUES.date.finditer(text)
        if text.count(match[0]) == 1
        and in_main_clause(re.sub(r"\b(?:before|after|until|since|as of) $", "", text[: match.start()]))
    ]
    statement.rng.shuffle(matches)
    for match in matches:
        date = _shift_date(match, statement.rng)
        if not statement.mentions(date):
            return Edit(*match.span(), date)
    return NoEdit()


def change_frequency(statement: Statement) -> Edit | NoEdit:
    """Change how often something happens: "annually" to "monthly", "per month" to "per week"."""
    fixed = [match.span() for match in _CUES.rate_fixed.finditer(statement.text)]
    matches = [match for match in _CUES.frequency.finditer(statement.text) if not overlaps(match.span(), fixed)]
    if len(matches) != 1:
        return NoEdit()
    match = matches[0]
    if match["adverb"]:
        options = [adverb for adverb in _ADVERBS[:-1] if adverb != match["adverb"]]
    else:
        # "Thirteen days a year" are not thirteen days a day.
        options = [
            f"{match['each']} {rate}"
            for rate in _RATES
            if rate != match["rate"] and f"{rate}s" not in statement.text[: match.start()]
        ]
    options = [option for option in options if not statement.mentions(option)]
    if not options:
        return NoEdit("no_donor")
    new = statement.rng.choice(options)
    return Edit(*match.span(), capitalise(new) if match.start() == 0 else new)


def change_version(statement: Statement) -> Edit | NoEdit:
    """Name another version than the document's."""
    text = statement.text
    protected = [span for span in protected_spans(text) if not _CUES.version.search(text[slice(*span)])]
    matches = [match for match in _CUES.version.finditer(text) if not overlaps(match.span(), protected)]
    if len(matches) != 1:
        return NoEdit()
    match = matches[0]
    head, dot, last = match["number"].rpartition(".")
    number = int(last.lstrip("v"))
    number = statement.rng.choice([value for value in (number + 1, number + 2, number - 1) if value > 0])
    new = f"{match['name']} {head}{dot}{number}"
    return NoEdit("no_donor") if statement.mentions(new) else Edit(*match.span(), new)


def change_decade(statement: Statement) -> Edit | NoEdit:
    """Replace the date of a claim's only event by its decade, which keeps the label, or by another one."""
    text = statement.text
    matches = [match for match in _CUES.claim_date.finditer(text) if text[: match.start()].count('"') % 2 == 0]
    if len(matches) != 1 or len(re.findall(r"\d{4}", text)) != 1:
        return NoEdit("no_site", "no single date with a year")
    match = matches[0]
    opens_past = match.start() == 0 and statement.verb is not None and statement.verb.tense == "past"
    if _CUES.no_event.search(text) or not (opens_past or _CUES.event.search(text[: match.start()])):
        return NoEdit("no_site", "the date is not that of one event")
    if statement.keeps and statement.label != ATTRIBUTABLE:
        return NoEdit("no_site", "the decade of a false date can be true")
    decade = int(match["year"]) // 10 * 10
    if decade % 100 == 0 and (decade < 1850 or decade in (1900, 2000)):
        return NoEdit("no_site", "the decade has no clear name")
    decades = [decade]
    if not statement.keeps:
        shifted = [decade + shift for shift in (-30, -20, -10, 10, 20)]
        decades = [new for new in shifted if new <= 2010 and new % 100 and not statement.mentions(f"{new}s")]
    if not decades:
        return NoEdit("no_donor", "the source names the other decades")
    new = f"{'In' if match['word'] in ('On', 'In') else 'in'} the {statement.rng.choice(decades)}s"
    variant, error_type = ("decade", None) if statement.keeps else ("wrong_decade", "temporal_shift")
    return Edit(*match.span(), new, variant=variant, error_type=error_type)


DATE = Operator("date", ("contradicted",), change_date, _CUES.date)
FREQUENCY = Operator("frequency", ("contradicted",), change_frequency, _CUES.frequency)
VERSION = Operator("version", ("contradicted",), change_version, _CUES.version)
DECADE = Operator("decade", ("temporal_shift", None), change_decade)
