"""The verifier of `factgym check`: the rules of `nli`, then those for values and for polarity.

Below a coverage of .3 the sentences of `nli` speak of something else: of the claims that it calls supported there, a
quarter are (of 250 pairs of FEVER Symmetric, SufficientFacts and Climate-FEVER; above .9, nine tenths of 516).

Two readings come first. A sentence that only says where something is written ("For travel expenses, see section 4")
supports nothing. "Every pay period" is "per pay period" where the documents say that: `nli` takes "every" for a
generalisation.
"""

from __future__ import annotations

import re
from dataclasses import replace

from factgym.baselines.evidence import PHRASES, Evidence, Statement, alternatives, parse_statement
from factgym.baselines.nli import Prediction, predict_entailment
from factgym.baselines.polarity import compare_polarity
from factgym.baselines.values import compare_values
from factgym.text.sentences import strip_full_stop

_PART = rf"(?:{'|'.join(PHRASES['words']['numbered_units'].split())}|page|figure|table)s? (?:\d|[A-Z]\b)[^,;]*"
_POINTER = re.compile(rf"(?:{alternatives('values', 'pointer')})\.?".replace("{part}", _PART), re.I)
_EACH = re.compile(r"\b(?:every|each) (\w+)(?: (\w+))?", re.I)

_MIN_COVERAGE = 0.3
"""Of the weight of a statement's words by the sentences that are to support it."""


def rules(statement: Statement, evidence: Evidence) -> Prediction:
    """Verify a statement by `predict_entailment`, and by its values and its polarity where these decide."""
    evidence = without_pointers(statement, evidence)
    prediction = predict_entailment(_with_rates(statement, evidence), evidence)
    if prediction.statement != statement:
        span = prediction.unsupported_span
        visible_span = span if span in statement.text else strip_full_stop(statement.text)
        prediction = replace(prediction, statement=statement, unsupported_span=visible_span)
    prediction = compare_polarity(compare_values(prediction, evidence), evidence)
    if prediction.status == "supported" and evidence.coverage(statement, prediction.sentences) < _MIN_COVERAGE:
        text = strip_full_stop(statement.text)
        reason = "The evidence is about something else."
        return replace(prediction, status="unsupported", unsupported_span=text, reason=reason)
    return prediction


def without_pointers(statement: Statement, evidence: Evidence) -> Evidence:
    """Return the evidence without the sentences that only say where something is written."""
    if _POINTER.fullmatch(statement.text):
        return evidence
    remaining = tuple(sentence for sentence in evidence.sentences if not _POINTER.fullmatch(sentence.text))
    return replace(evidence, sentences=remaining)


def _with_rates(statement: Statement, evidence: Evidence) -> Statement:
    """Return a statement with "per" for "every" before words that follow "per" in the evidence."""

    def per(match: re.Match[str]) -> str:
        for words in (" ".join(filter(None, match.groups())), match[1]):
            if any(f"per {words}".lower() in sentence.text.lower() for sentence in evidence.sentences):
                return f"per {match[0].partition(' ')[2]}"
        return match[0]

    text = _EACH.sub(per, statement.text)
    return statement if text == statement.text else parse_statement(text)
