"""Clauses, modality and quantities of a sentence, by patterns and word lists of English policies and contracts.

Pattern order matters: of two overlapping modality patterns the one listed first holds ("must not" before "must").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from factgym.baselines.evidence import PHRASES, Sentence, Statement, Token, alternatives
from factgym.text.numbers import MONTHS

Span = tuple[int, int]

# Clauses

ClauseKind = Literal["limit", "time", "reason", "source"]

_LIMIT, _TIME, _REASON, _REASON_IN_CONTEXT, _SOURCE = (
    alternatives("clauses", name) for name in ("limit", "time", "reason", "reason_in_context", "source")
)
_CLAUSE_OPENERS = re.compile(
    rf"(?P<reason>\b(?:{_REASON})\b|{_REASON_IN_CONTEXT})|(?P<source>{_SOURCE})|(?P<limit>\b(?:{_LIMIT})(?!\w))"
    rf"|(?P<time>\b(?:{_TIME})\b)",
    re.I,
)
_CLAUSE_END = re.compile(r"[,;](?!\d)")
_EXAMPLES = re.compile(r"\((?:including|e\.g\.|such as|for example|like)[^()]*\)", re.I)


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause at `text[start:end]`; its content begins at `content_start`, after the words that open it."""

    kind: ClauseKind
    start: int
    content_start: int
    end: int


@lru_cache(maxsize=8192)
def clauses(text: str) -> tuple[Clause, ...]:
    """Return the limiting, temporal, causal and source clauses of a sentence, in order and without overlap.

    Each runs to the next comma or semicolon, the next opener or the end. A source clause names where the statement
    comes from ("according to the Handbook").
    """
    parsed: list[Clause] = []
    for match in _CLAUSE_OPENERS.finditer(text):
        kind: ClauseKind = match.lastgroup  # type: ignore[assignment]  # the groups are the kinds
        start = match.start() + len(match[0]) - len(match[0].lstrip(" ,"))
        if parsed and start < parsed[-1].end:
            previous = parsed[-1]
            # An opener right behind another, or a preposition of time, is part of the clause before.
            if previous.kind == "source" or start - previous.content_start < 4 or kind == "time":
                continue
            parsed[-1] = Clause(previous.kind, previous.start, previous.content_start, start)
        if kind == "source" and match[0].endswith("that"):
            end = match.end()
        else:
            separator = _CLAUSE_END.search(text, match.end())
            end = separator.start() if separator else len(text.rstrip().rstrip("."))
        parsed.append(Clause(kind, start, match.end(), end))
    return tuple(parsed)


def main_clause(text: str) -> str:
    """Blank out limits, reasons, sources and examples in brackets; offsets stay the same."""
    masked = [(clause.start, clause.end) for clause in clauses(text) if clause.kind != "time"]
    letters = list(text)
    for start, end in (*masked, *(match.span() for match in _EXAMPLES.finditer(text))):
        letters[start:end] = " " * (end - start)
    return "".join(letters)


# Modality, generality and validity in time

Modality = Literal["must", "should", "may", "need_not", "must_not", "is", "is_not"]
ModalityConflict = Literal["contradicted", "overclaim"]

NOT_A_BOUND = r"(?! (?:\w+ ){0,6}(?:more|less|later|longer|fewer|earlier|greater|higher|lower) than\b| (?:\w+ ){0,3}(?:exceed|wait more|wait longer|take more)\b| only\b)"
"""A negation before a comparison is a bound: "must not take more than six weeks" forbids nothing."""
_NEGATIVE = ("must_not", "is_not")
_MODALITY_PATTERNS: Mapping[Modality, re.Pattern[str]] = {
    modality: re.compile(
        rf"\b(?:{alternatives('modality', modality)})\b{NOT_A_BOUND if modality in _NEGATIVE else ''}", re.I
    )
    for modality in PHRASES["modality"]
}
_MODALITY_CONFLICTS: Mapping[tuple[Modality, Modality], ModalityConflict] = {
    (claimed, written): kind
    for claimed, conflicts in PHRASES["modality_conflicts"].items()
    for kind, modalities in conflicts.items()
    for written in modalities.split()
}
"""(modality of the claim, modality of the text) -> kind of the conflict."""

_UNIVERSAL, _HEDGES, _EXISTENTIAL = (
    re.compile(rf"\b(?:{alternatives('generality', name)})\b", re.I) for name in ("universal", "hedges", "existential")
)
_SUPERSEDED = re.compile(alternatives("generality", "superseded"), re.I)


@lru_cache(maxsize=8192)
def modality_of(text: str) -> tuple[Modality, Span]:
    """Return the first modality of a text and its span; a plain statement is "is" with the span (0, 0)."""
    # The leftmost match; of overlapping ones that of the pattern listed first.
    first: tuple[Modality, Span] | None = None
    for modality, pattern in _MODALITY_PATTERNS.items():
        match = pattern.search(text)
        if match is not None and (first is None or match.end() <= first[1][0]):
            first = modality, match.span()
    return first or ("is", (0, 0))


def modality_conflict(claimed: Modality, written: Modality) -> ModalityConflict | None:
    """Return how a claim departs from a text of another modality; None where both can be true."""
    return _MODALITY_CONFLICTS.get((claimed, written))


def universal_spans(text: str) -> list[Span]:
    """Return the spans of expressions that generalise ("all", "without exception")."""
    return [match.span() for match in _UNIVERSAL.finditer(text)]


def is_hedged(text: str) -> bool:
    """Whether a text is limited to some cases or some of the time."""
    return _HEDGES.search(text) is not None


def is_existential(text: str) -> bool:
    """Whether a text claims that there is something, and no more."""
    return _EXISTENTIAL.search(text) is not None


def is_superseded(text: str) -> bool:
    """Whether a text describes a rule that no longer holds."""
    return _SUPERSEDED.search(text) is not None


# Quantities: numbers with their units, dates and frequencies

_MONTHS = {name: str(number) for number, name in enumerate(MONTHS, 1)}
_PERIODS: Mapping[str, tuple[int, str]] = PHRASES["quantities"]["periods"]
"""Period -> length and unit: hours or months."""
_RATES: Mapping[str, str] = PHRASES["quantities"]["rates"]
_DETERMINERS = frozenset({"every", "each", "per", "a", "an"})
_FREQUENCY_ADVERBS: Mapping[str, int] = PHRASES["quantities"]["adverbs"]
_ORDINAL: Mapping[str, int] = PHRASES["quantities"]["ordinals"]
_QUALIFIERS = frozenset(PHRASES["words"]["unit_qualifiers"].split())
_CURRENCY: Mapping[str, str] = PHRASES["quantities"]["currencies"]
_NUMBERED_UNITS = frozenset(PHRASES["words"]["numbered_units"].split())


@dataclass(frozen=True, slots=True)
class Quantity:
    """An `amount` in a `unit` at `text[start:end]`; a date has the unit "date", a frequency the unit "rate"."""

    unit: str
    amount: str
    start: int
    end: int


def quantities(text: str, tokens: Sequence[Token]) -> list[Quantity]:
    """Return all quantities of a text in order. tokens: those of the text."""
    # A left-to-right parser without backtracking: at each token the first of date, rate and number that fits.
    parsed: list[Quantity] = []
    index = 0
    while index < len(tokens):
        quantity, length = (
            _date_at(tokens, index) or _rate_at(tokens, index) or _number_at(text, tokens, index) or (None, 1)
        )
        if quantity is not None:
            parsed.append(quantity)
        index += length
    return parsed


def _date_at(tokens: Sequence[Token], index: int) -> tuple[Quantity, int] | None:
    """Parse "1 March 2024", "March 1, 2024", "March 2024" or "1 March": the date and its number of tokens."""
    window = tokens[index : index + 3]
    month = next((position for position, token in enumerate(window) if token.lower in _MONTHS), None)
    if month is None or month > 1:
        return None
    before, after = window[:month], window[month + 1 :]
    if before and not (before[0].is_number and len(before[0].key) <= 2):
        return None
    used = [*before, window[month]]
    for token in after[: 1 if before else 2]:
        if not token.key.rstrip("stndrh").isdigit():
            break
        used.append(token)
    if len(used) == 1:
        return None
    numbers = sorted(token.key.rstrip("stndrh") for token in used if token.is_number)
    amount = "-".join([_MONTHS[window[month].lower], *numbers])
    return Quantity("date", amount, used[0].start, used[-1].end), len(used)


def _rate_at(tokens: Sequence[Token], index: int) -> tuple[Quantity, int] | None:
    """Parse "monthly", "every two weeks", "once every second year", "twice a year", "per quarter".

    The amount is the length of the period.
    """

    def rate(last: int, count: float, period: str) -> tuple[Quantity, int]:
        size, unit = _PERIODS[period]
        return Quantity("rate", f"{count * size:g}{unit}", tokens[index].start, tokens[last].end), last + 1 - index

    token = tokens[index]
    if token.lower in _RATES:
        return rate(index, 1, _RATES[token.lower])
    is_adverb = token.lower in _FREQUENCY_ADVERBS
    times, determiner = (_FREQUENCY_ADVERBS[token.lower], index + 1) if is_adverb else (1, index)
    if determiner >= len(tokens) or tokens[determiner].lower not in _DETERMINERS:
        return None
    if not is_adverb and tokens[determiner].lower in ("a", "an"):
        return None
    for last in range(determiner + 1, min(determiner + 3, len(tokens))):
        period = tokens[last].lower.removesuffix("s")
        if period in _PERIODS:
            number = tokens[determiner + 1]
            if last == determiner + 1:
                count = 1
            elif number.lower in _ORDINAL:
                count = _ORDINAL[number.lower]
            else:
                count = int(number.key) if number.key.isdigit() and len(number.key) < 4 else 0
            return rate(last, count / times, period) if count else None
    return None


def _number_at(text: str, tokens: Sequence[Token], index: int) -> tuple[Quantity, int] | None:
    """Return the quantity that starts at a token and how many tokens it spans; None where none does."""
    token = tokens[index]
    # The number of a section or an article is a name.
    if not token.is_number or (index and tokens[index - 1].key in _NUMBERED_UNITS):
        return None
    repeated = index + 1 < len(tokens) and tokens[index + 1].key == token.key  # "thirty (30)"
    length = 2 if repeated else 1
    last = tokens[index + length - 1]
    sign = text[token.start]
    if sign in _CURRENCY:
        return Quantity(_CURRENCY[sign], token.key, token.start, token.end), length
    if text[last.end - 1] == "%":
        return Quantity("percent", token.key, token.start, last.end), length
    unit, end, unit_length = unit_at(tokens, index + length)
    return Quantity(unit, token.key, token.start, end or last.end), length + unit_length


def unit_at(tokens: Sequence[Token], index: int) -> tuple[str, int, int]:
    """Return the unit that begins at a token, its end offset and its number of tokens; ("", 0, 0) for none."""
    qualifier = ""
    for position, token in enumerate(tokens[index : index + 3]):
        if token.lower in ("per", "cent") and position < 2:
            if token.lower == "cent":
                return "percent", token.end, position + 1
        elif token.lower in _QUALIFIERS and not qualifier:
            qualifier = "working" if token.lower in ("business", "working") else ""
        elif token.is_content and not token.is_number:
            unit = _CURRENCY.get(token.key, token.key)
            return f"{qualifier} {unit}".strip(), token.end, position + 1
        else:
            break
    return "", 0, 0


@dataclass(frozen=True, slots=True)
class QuantityComparison:
    """The quantities of a statement against the evidence.

    conflicts: the evidence has only other amounts of that unit. missing: it has none of that unit. agreed: it has it.
    """

    conflicts: tuple[Quantity, ...]
    missing: tuple[Quantity, ...]
    agreed: tuple[Quantity, ...]


def compare_quantities(statement: Statement, sentences: Iterable[Sentence]) -> QuantityComparison:
    """Compare quantities unit by unit; a bare number agrees with the same number in any unit."""
    written = [quantity for sentence in sentences for quantity in quantities(sentence.text, sentence.tokens)]
    conflicts, missing, agreed = [], [], []
    for quantity in quantities(statement.text, statement.tokens):
        units = {"", quantity.unit, *quantity.unit.split()[-1:]}  # "working day" and "day" agree
        amounts = [
            candidate.amount
            for candidate in written
            if not quantity.unit or candidate.unit in units or candidate.unit.split()[-1] in units
        ]
        if quantity.amount in amounts:
            agreed.append(quantity)
        elif amounts:
            conflicts.append(quantity)
        else:
            missing.append(quantity)
    return QuantityComparison(tuple(conflicts), tuple(missing), tuple(agreed))
