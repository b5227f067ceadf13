"""Numbers: durations, counts and percentages ("number"), and money ("amount"). A changed value is *contradicted*.

The new value is one that people would write (30 days, not 37), in the same style ("thirty (30) days" changes in both
places), absent from the whole document in that unit, and never one that follows from the old: what is due within 30
days is not thereby due within 14, while a floor of 5 does imply a floor of 3, so floors go up and ceilings go down.
"""

from __future__ import annotations

import random
import re

from factgym.generators.corruption.base import Context, Corruption, Operator, has_words, overlaps, protected

_TO_NINETEEN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_BY_TEN = "twenty thirty forty fifty sixty seventy eighty ninety"
_ONES, _TENS = _TO_NINETEEN.split(), _BY_TEN.split()
_TIME = {
    "minute": (5, 10, 15, 20, 30, 45, 60, 90),
    "hour": (2, 4, 6, 10, 12, 24, 36, 48, 72, 96),
    "day": (2, 3, 5, 7, 10, 14, 15, 20, 21, 30, 45, 60, 75, 90, 120, 150),
    "week": (2, 3, 4, 5, 6, 10, 12, 16),
    "month": (2, 3, 4, 5, 6, 9, 12, 15, 24, 36),
    "quarter": (2, 3, 4),
    "year": (2, 3, 4, 5, 6, 7, 10, 12, 15, 20),
    "pay period": (2, 3, 4, 5, 6, 10, 12, 13, 20, 26),
}
_PERCENT = (2, 3, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 75, 90)
_ROUND = tuple(head * 10**power for power in range(8) for head in (1, 5, 25))
_FACTORS = (0.5, 0.75, 1.5, 2.0, 2.5, 3.0)
_WORDS = "|".join([*(f"{ten}(?:-(?:{'|'.join(_ONES[1:10])}))?" for ten in _TENS), *_ONES[:0:-1]])
_MIDDLE = r"(?:(?:business|calendar|working|consecutive|full|additional|more|successive|federal|credit|annual) )?"
_UNIT = r"minutes?|hours?|days?|weeks?|months?|quarters?|years?|pay periods?|percent|%"
_COUNTED = (
    r"users|employees|people|persons|members|accounts|seats|copies|sites|locations|miles|words|characters|shares|units"
    r"|participants|directors|applicants|requests|repositories|organizations|customers|contractors|notices|meetings"
    r"|credits|installments|payments|projects|gigabytes|megabytes|GB|MB|TB|kilometers|stores|franchises|times"
)
_QUANTITY = re.compile(
    rf"(?<![\w.,$€£/-])(?:(?P<word>{_WORDS})(?: \((?P<both>\d{{1,4}})\))?|(?P<digits>\d{{1,3}}(?:,\d{{3}})+|\d{{1,5}}))"
    rf"(?P<gap> ?|-)(?P<middle>{_MIDDLE})(?P<unit>{_UNIT}|{_COUNTED})(?![\w/])",
    re.I,
)
_MONEY = re.compile(
    r"(?<![\w($€£.,])(?P<sign>US\$|[$€£]|USD |EUR |GBP )(?P<gap> ?)(?P<number>\d{1,3}(?:,\d{3})+|\d{1,9})"
    r"(?P<cents>\.\d{2})?(?P<scale> (?:million|billion|thousand))?(?![\w%]|[.,-]\d| ?[-–] ?[$€£\d])"
)
_RANGE_AFTER = re.compile(r" to the next|\s?(?:-|–|to|or|and|through)\s?[$€£]?\d|\s?\(\$?\d")
_RANGE_BEFORE = re.compile(
    r"\d\s?(?:-|–|to|or|and|,)\s?$|\bbetween (?:[^.;]{0,40} )?$|(?:\bor|/|(?<!up )\bto) $|\bto the $|\((?:US ?|USD ?|AU ?|CAD ?)?$|dollars.{0,6}$",
    re.I,
)
_FLOOR = re.compile(
    r"\b(?:at least|no less than|not less than|no fewer than|minimum of|a minimum)\b[^,;]{0,15}$", re.I
)
_OVER = re.compile(
    r"\b(?:more than|over|exceed|exceeds|exceeding|longer than|greater than|beyond|above|reach|reaches)\b[^,;]{0,15}$",
    re.I,
)
_WITHIN = re.compile(r"\b(?:within|in under|no later than|not later than)\b[^,;]{0,25}$", re.I)
_CEILING = re.compile(
    r"\b(?:no more than|not more than|no longer than|not exceed|not to exceed|cannot exceed|less than|fewer than|under"
    r"|at most|never exceed|not exceeding|below)\b[^,;]{0,15}$",
    re.I,
)
_UP_TO = re.compile(r"\b(?:up to|maximum of|as many as|as much as)\b[^,;]{0,15}$", re.I)
_CONDITIONAL = re.compile(r"\b(?:if|when|who|unless|whose|where|whenever|once|provided that|whether)\b", re.I)
_REPORTED = re.compile(r"\b(?:that|which)\b", re.I)
_OR_MORE = re.compile(r" or (?:more|greater|above|longer|older|higher)\b")
_OR_LESS = re.compile(r" or (?:less|fewer|below|under|shorter|lower)\b")
_EVEN = re.compile(r"\beven (?:if|when|though)\b[^,;]*$")
_FIXED = re.compile(
    r"\b24 hours (?:a|per) day\b|\b7 days (?:a|per) week\b|\b365 days\b|\bone time\b|\b100 ?(?:%|percent)", re.I
)
_PLURAL_MAY_FOLLOW = re.compile(
    r"$|[.,;)]| (?:from|after|of|following|to|and|or|in|for|prior|before|unless|if|when|has|have|is|are|will|by|on|at|per|until)\b"
)
_AWKWARD = frozenset({8, 11, 18})


def spell(value: int) -> str:
    """A number from 1 to 99 in words, else digits."""
    if value < 20:
        return _ONES[value]
    if value > 99:
        return str(value)
    ten, one = divmod(value, 10)
    return _TENS[ten - 2] + (f"-{_ONES[one]}" if one else "")


def value_of(words: str) -> int:
    """The number that `words` spell, 1 to 99."""
    ten, _, one = words.lower().partition("-")
    if ten in _ONES:
        return _ONES.index(ten)
    return 20 + 10 * _TENS.index(ten) + (_ONES.index(one) if one else 0)


def _direction(before: str, after: str) -> int | None:
    """+1 where only a larger value is a new statement, -1 where only a smaller one is, 0 where either is.

    In a condition it is the other way round: a rule for 5 years or more covers 7 years or more. None: cannot tell.
    """
    near = before[-40:]
    if _UP_TO.search(near):
        return 1
    if _FLOOR.search(near) or _OR_MORE.match(after):
        sign = 1
    elif _CEILING.search(near) or _WITHIN.search(near) or _OR_LESS.match(after):
        sign = -1
    else:
        return -1 if _OVER.search(near) else 0
    clause = before[max(before.rfind(","), 0) :]
    if _CONDITIONAL.search(clause):
        return -sign
    return None if _REPORTED.search(clause) else sign


def _fits(old: int, new: int, direction: int) -> bool:
    near = old / 3 <= new <= old * 3
    return near and new != old and new not in _AWKWARD and (new - old) * direction >= 0


def _scaled(old: int) -> list[int]:
    """Values near `old` that are as round as it is."""
    step = max((size for size in _ROUND if old % size == 0), default=1)
    step = step // 2 if step == old and step % 2 == 0 else step
    return sorted({round(old * factor / step) * step for factor in _FACTORS} - {0, 1, old})


def _choices(unit: str, old: int) -> list[int]:
    singular = unit.lower().removesuffix("s")
    if singular in _TIME:
        ladder = list(_TIME[singular])
        return ladder if old < ladder[-1] else _scaled(old)
    return list(_PERCENT) if singular in ("percent", "%") else _scaled(old)


def _said(document: str, value: int, unit: str) -> bool:
    """Whether the document gives this value in this unit anywhere, in figures or words."""
    stem = unit.lower().removesuffix("s")
    return any(_says(document, form, stem) for form in dict.fromkeys([str(value), f"{value:,}", spell(value)]))


def _says(document: str, number: str, stem: str) -> bool:
    at = document.find(number)
    while at >= 0:
        if stem in document[at : at + 40].casefold() and not document[max(0, at - 1) : at].isalnum():
            return True
        at = document.find(number, at + 1)
    return False


def _is_single(match: re.Match[str]) -> bool:
    """Whether the unit turns plural with another number: "one year", not "one-year"."""
    unit = match["unit"].lower()
    return unit in _TIME and match["gap"] == " " and (match["word"] or match["digits"]).lower() in ("one", "1")


def _rewrite(match: re.Match[str], value: int) -> str:
    """The quantity with a new value, in the style of the old one."""
    word, both = match["word"], match["both"]
    unit = f"{match['unit']}s" if _is_single(match) else match["unit"]
    number = f"{value:,}" if "," in (match["digits"] or "") else str(value)
    if word:
        number = spell(value) + (f" ({value})" if both else "")
        number = number.capitalize() if word[0].isupper() else number
    return f"{number}{match['gap']}{match['middle']}{unit}"


def _usable(sentence: str, match: re.Match[str], taken: list[tuple[int, int]]) -> bool:
    before, after = sentence[: match.start()], sentence[match.end() :]
    ranged = _RANGE_BEFORE.search(before[-45:]) or _RANGE_AFTER.match(after) or _EVEN.search(before)
    adjective = "unit" in match.re.groupindex and _is_single(match) and not _PLURAL_MAY_FOLLOW.match(after)
    return not ranged and not adjective and not overlaps(match.span(), taken)


def change_number(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Changes one duration, count or percentage."""
    taken = protected(sentence) + [match.span() for match in _FIXED.finditer(sentence)]
    found = [match for match in _QUANTITY.finditer(sentence) if _usable(sentence, match, taken)]
    rng.shuffle(found)
    for match in found:
        old = value_of(match["word"]) if match["word"] else int(match["digits"].replace(",", ""))
        if match["both"] and int(match["both"]) != old:
            continue
        direction = _direction(sentence[: match.start()], sentence[match.end() :])
        if direction is None:
            continue
        wanted = [new for new in _choices(match["unit"], old) if _fits(old, new, direction)]
        wanted = [new for new in wanted if new < 100 or not match["word"]]
        rng.shuffle(wanted)
        new = next((new for new in wanted if not _said(context.document, new, match["unit"])), None)
        if new is None or sentence.count(match[0]) > 1:
            continue
        text = _rewrite(match, new)
        whole = sentence[: match.start()] + text + sentence[match.end() :]
        reason = f"The document says {match[0]!r}, not {text!r}."
        return Corruption(whole, "contradicted", text, "number", reason)
    return None


def change_amount(sentence: str, rng: random.Random, context: Context) -> Corruption | None:
    """Changes one amount of money."""
    taken = protected(sentence)
    found = [match for match in _MONEY.finditer(sentence) if _usable(sentence, match, taken)]
    rng.shuffle(found)
    for match in found:
        old = int(match["number"].replace(",", ""))
        direction = _direction(sentence[: match.start()], sentence[match.end() :])
        values = [new for new in _scaled(old) if _fits(old, new, direction)] if old and direction is not None else []
        texts = [_money(match, value) for value in values]
        texts = [text for text in texts if not has_words(context.document, text)]
        if texts and sentence.count(match[0]) == 1:
            text = rng.choice(texts)
            whole = sentence[: match.start()] + text + sentence[match.end() :]
            reason = f"The document says {match[0]!r}, not {text!r}."
            return Corruption(whole, "contradicted", text, "amount", reason)
    return None


def _money(match: re.Match[str], value: int) -> str:
    number = f"{value:,}" if "," in match["number"] or value > 9999 else str(value)
    return f"{match['sign']}{match['gap']}{number}{match['cents'] or ''}{match['scale'] or ''}"


NUMBER = Operator("number", "contradicted", _QUANTITY, change_number)
AMOUNT = Operator("amount", "contradicted", _MONEY, change_amount)
