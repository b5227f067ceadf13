"""Values of a statement against those of the sentences that say the same of something: 64 MB where the text has 32 MB.

`nli` weighs a conflict of numbers among other features, over all sentences of a premise: in long sentences it does not
look at numbers, and between short ones it compares those of unrelated sentences. Here a value counts against a value of
the same unit in a sentence that has the words around it, as numeric expressions are compared in the evaluation of textual
entailment (de Marneffe, Rafferty and Manning, "Finding contradictions in text", ACL 2008). A bound holds for all values
within it; "about" allows a tenth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from factgym.baselines.evidence import PHRASES, Evidence, Sentence, Statement, Token, alternatives, content_keys
from factgym.baselines.nli import REASONS, Prediction, compute_features, predict_status
from factgym.baselines.premise import nearest_premise
from factgym.baselines.semantics import Quantity, quantities, unit_at
from factgym.text.sentences import strip_full_stop

_SCALES = {"hundr": 1e2, "hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_BOUNDS = {
    kind: re.compile(rf"\b(?:{alternatives('values', kind)}) (?:the |an? |[$€£] ?)?$", re.I)
    for kind in ("lower", "upper", "about")
}
_YEAR_BEFORE = re.compile(rf"\b(?:{alternatives('values', 'year_before')}) (?:the )?$", re.I)
_WORD_BEFORE = re.compile(r"([a-z]+)[ (]*$", re.I)
_PRONOUN = re.compile(rf"\b(?:{alternatives('values', 'pronouns')})\b", re.I)
_SIGNS = frozenset({*PHRASES["quantities"]["currencies"].values(), "percent"})
_CONFLICTS = ("conflict", "conflict_copy", "superseded_value")
_TOLERANCE = 0.1
_MIN_ALIGNMENT = 0.65
"""Share of the weight of the words around the values."""

Relation = Literal["agrees", "conflicts", "open"]


@dataclass(frozen=True, slots=True)
class Value:
    """A number, date or rate at `text[start:end]`.

    unit: the stem of its noun, "year", "date", "rate" or a currency; of a bare number "@" and the word before it. bound:
    "lower", "upper" or "about", empty for none.
    """

    unit: str
    amount: str
    bound: str
    start: int
    end: int

    @property
    def number(self) -> float | None:
        """The amount as a number, None for a date, a rate or a time of day."""
        try:
            return float(self.amount)
        except ValueError:
            return None


@lru_cache(maxsize=8192)
def values_of(text: str, tokens: tuple[Token, ...]) -> tuple[Value, ...]:
    """Return the values of a text in order. tokens: those of the text. The word "one" is none, it counts little."""
    parsed: list[Value] = []
    for quantity in quantities(text, tokens):
        before = text[: quantity.start]
        bound = next((kind for kind, pattern in _BOUNDS.items() if pattern.search(before)), "")
        if quantity.unit == "date":
            month, *numbers = quantity.amount.split("-")
            years, days = [n for n in numbers if len(n) == 4], [n for n in numbers if len(n) < 4]
            parsed += [Value("year", year, bound, quantity.start, quantity.end) for year in years]
            if bound not in ("lower", "upper"):
                parsed.append(Value("date", "-".join([month, *days]), bound, quantity.start, quantity.end))
        elif not _is_no_value(text, quantity):
            parsed.append(_number(text, tokens, quantity, bound))
    return tuple(parsed)


def _is_no_value(text: str, quantity: Quantity) -> bool:
    """Whether a quantity is a pronoun ("one"), a part of a name ("Daily Mail") or a decade, which no number equals."""
    word = text[quantity.start : quantity.end].split()[0]
    is_name = quantity.unit == "rate" and quantity.start > 0 and word[0].isupper()
    return (
        word.lower() == "one"
        or is_name
        or (quantity.amount.isdigit() and text[quantity.start :].startswith(f"{quantity.amount}s"))
    )


def _number(text: str, tokens: Sequence[Token], quantity: Quantity, bound: str) -> Value:
    """Return a quantity with the scale of its number ("5 million people") and a unit where it is bare."""
    unit, amount, end = quantity.unit, quantity.amount, quantity.end
    is_scaled = unit in _SCALES
    following = next((index for index, token in enumerate(tokens) if token.start >= end), len(tokens))
    scale = unit if is_scaled else tokens[following].key if unit in _SIGNS and following < len(tokens) else ""
    if scale in _SCALES and amount.replace(".", "", 1).isdigit():
        amount = f"{float(amount) * _SCALES[scale]:.15g}"
        if is_scaled:
            unit, unit_end, _ = unit_at(tokens, following)
            end = unit_end or end
    before = text[: quantity.start]
    is_year = (
        len(amount) == 4
        and amount.isdigit()
        and 1000 <= int(amount) <= 2100
        and "," not in text[quantity.start : quantity.end]
    )
    if is_year and unit not in _SIGNS and (not unit or _YEAR_BEFORE.search(before)):
        return Value("year", amount, bound, quantity.start, quantity.start + 4)
    if not unit:
        word = _WORD_BEFORE.search(before)
        unit = f"@{word[1].lower() if word else ''}"
    return Value(unit, amount, bound, quantity.start, end)


def relation(claimed: Value, written: Value) -> Relation:
    """Return whether a text with one value agrees with a claim of another one of the same unit, or rules it out."""
    if claimed.amount == written.amount:
        return "agrees"
    claim, text = claimed.number, written.number
    if claim is None or text is None:
        shorter, longer = sorted((claimed.amount, written.amount), key=len)
        return "agrees" if claimed.unit == "date" and longer.startswith(f"{shorter}-") else "conflicts"
    if "about" in (claimed.bound, written.bound) and abs(claim - text) <= _TOLERANCE * max(abs(claim), abs(text)):
        return "agrees"
    if is_rounded(claimed.amount, claim, text):
        return "agrees"
    bounds = [bound if bound in ("lower", "upper") else "" for bound in (claimed.bound, written.bound)]
    if bounds[0] == bounds[1]:
        return "conflicts"
    if not bounds[1]:
        return "agrees" if (text > claim) == (bounds[0] == "lower") else "conflicts"
    # The text gives a bound, the claim none or the opposite one.
    return "open" if (claim > text) == (bounds[1] == "lower") else "conflicts"


def is_rounded(amount: str, claim: float, text: float) -> bool:
    """Whether a decimal fraction or a round multiple of a million is what another number is rounded to."""
    digits = amount.rstrip("0") if "." not in amount else amount
    if "." not in amount and len(amount) - len(digits) < 5:
        return False
    unit = 10.0 ** -len(amount.partition(".")[2]) if "." in amount else 10.0 ** (len(amount) - len(digits))
    return abs(claim - text) <= unit / 2


def aligned_sentences(statement: Statement, claimed: Sequence[Value], evidence: Evidence) -> list[Sentence]:
    """Return the sentences that cover the words of a statement but its values, the best first.

    A sentence is read with its title, and with the sentence before it where it has a pronoun.
    """
    inside = [(claim.start, claim.end) for claim in claimed]
    keys = dict.fromkeys(
        token.key
        for token in statement.tokens
        if token.is_content and not token.is_number and not any(start <= token.start < end for start, end in inside)
    )
    total = evidence.frequency.total(keys)
    shares: list[tuple[float, Sentence]] = []
    previous: Sentence | None = None
    for sentence in evidence.sentences if total else ():
        covering = sentence.keys.union(content_keys(sentence.title))
        if previous is not None and previous.passage == sentence.passage and _PRONOUN.search(sentence.text):
            covering |= previous.keys
        shares.append((evidence.frequency.shared(keys, covering) / total, sentence))
        previous = sentence
    shares.sort(key=lambda entry: -entry[0])
    return [sentence for share, sentence in shares if share >= _MIN_ALIGNMENT]


def relations(claimed: Sequence[Value], sentence: Sentence) -> list[Relation | None]:
    """Return for each value how a sentence relates to it; None where the sentence has no value of its unit."""
    written = values_of(sentence.text, sentence.tokens)
    related: list[Relation | None] = []
    for claim in claimed:
        kinds = [relation(claim, value) for value in written if _same_unit(claim.unit, value.unit)]
        related.append(next((kind for kind in ("agrees", "open", "conflicts") if kind in kinds), None))
    return related


def _same_unit(first: str, second: str) -> bool:
    return first == second or (first[:1] != "@" and first.split()[-1] == second.split()[-1])


def compare_values(prediction: Prediction, evidence: Evidence) -> Prediction:
    """Correct a prediction by the values of its statement.

    A value that conflicts in a well aligned sentence contradicts, unless another such sentence has it. Without such a
    sentence a statement is not contradicted for its values, and not supported where the quotes lack one.
    """
    statement = prediction.statement
    claimed = values_of(statement.text, statement.tokens)
    if not claimed:
        return prediction
    near = aligned_sentences(statement, claimed, evidence)
    related = [(sentence, relations(claimed, sentence)) for sentence in near]
    holding = next((sentence for sentence, kinds in related if all(kind == "agrees" for kind in kinds)), None)
    for number, claim in enumerate(claimed):
        kinds = [kind[number] for _, kind in related]
        if "conflicts" in kinds and "agrees" not in kinds and "open" not in kinds:
            span, sentence = statement.text[claim.start : claim.end], near[kinds.index("conflicts")]
            return Prediction(statement, "contradicted", (sentence,), span, "The evidence has another value.")
    if prediction.status == "contradicted":
        prediction = _without_conflict(prediction, evidence, is_agreed=holding is not None)
    missing = [claim for claim in claimed if not _is_written(claim, prediction.sentences)]
    if prediction.status != "supported" or not missing:
        return prediction
    if holding is not None:
        return replace(prediction, sentences=(holding,))
    span = statement.text[missing[0].start : missing[0].end]
    return replace(prediction, status="unsupported", unsupported_span=span, reason="The evidence lacks this value.")


def _without_conflict(prediction: Prediction, evidence: Evidence, *, is_agreed: bool) -> Prediction:
    """Return what the features of `nli` give where no sentence that says the same has a value that conflicts."""
    statement = prediction.statement
    premise = nearest_premise(evidence, statement)
    if premise is None:
        return prediction
    features = compute_features(statement, premise, evidence)
    for name in _CONFLICTS:
        features.set(name, 0.0)
    features.set("agreed", float(is_agreed))
    features.set("missing_value", float(not is_agreed))
    status = predict_status(features)
    if status == "contradicted":
        return prediction
    span = "" if status == "supported" else strip_full_stop(statement.text)
    return Prediction(statement, status, premise.sentences, span, REASONS[status])


def _is_written(claim: Value, sentences: Iterable[Sentence]) -> bool:
    """Whether sentences have a value: its amount in any unit, or one of its unit that agrees."""
    return any(
        value.amount == claim.amount or (_same_unit(claim.unit, value.unit) and relation(claim, value) == "agrees")
        for sentence in sentences
        for value in values_of(sentence.text, sentence.tokens)
    )
