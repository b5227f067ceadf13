"""The honest baseline: an NLI-style verifier without a model and without downloads.

A statement is compared with the rule that is nearest to it: the sentence, what leans on it, and what its terms refer
to (`rules`). Numbers, polarity, modality, quantifiers, conditions and exceptions dropped or added, reasons, and the
words that align (`features`) are weighed by a linear classifier, as early textual-entailment systems did. The
weights were fitted on training splits only (`fitting`); there are a few hundred numbers, all in `weights`.
"""

from __future__ import annotations

import re

from factgym.baselines.features import Features, Range, compute
from factgym.baselines.parts import core, parts
from factgym.baselines.polarity import force_of
from factgym.baselines.reading import Line, Reading, Statement, statement_of
from factgym.baselines.rule import Finding, bare
from factgym.baselines.rules import Rule, nearest_rule
from factgym.baselines.weights import WEIGHTS
from factgym.datasets.claims import STATUSES, Status

_REASONS: dict[Status, str] = {
    "supported": "The evidence says so.",
    "unsupported": "The evidence does not say this part.",
    "contradicted": "The evidence says otherwise.",
    "overclaim": "The evidence says this less generally.",
}
_POINTS_AT: dict[Status, tuple[str, ...]] = {
    "contradicted": ("stale", "conflict", "missing_value", "reversed_copy", "limit_swapped", "reason_swapped"),
    "overclaim": ("wide_over_hedge", "wider", "stronger"),
    "unsupported": ("reason_added", "reason_swapped", "limit_added"),
}
_LOCAL_GAP = 0.5
_LOOSE, _COVERED = 0.6, 0.5
_ONLY = re.compile(r"\b(?:only|solely|exclusively|nothing but)\b(?! (?:if|when|where|once|after|with|on)\b)", re.I)
_AND_MORE = re.compile(
    r"\b(?:without limitation|not limited to|including|such as|any other|and other|or other|whether or not)\b", re.I
)
_BOUND = re.compile(
    r"(?:(?:no|not) (?:later|more|less|fewer|longer) than|at (?:least|most)|up to|a (?:minimum|maximum) of|more than|worth more than) $",
    re.I,
)
_NEXT_WORDS = re.compile(r"(?: be)? \w+")


def nli(asked: Statement, reading: Reading) -> Finding:
    """Judge a statement by its nearest rule."""
    rule = nearest_rule(reading, asked)
    if rule is None:
        return Finding("unsupported", (), bare(asked.text), "No evidence was found.")
    found = compute(asked, rule, reading)
    loose = reading.dense and min(found.values["back"], found.values["covered"]) < _LOOSE
    status = _by_cover(asked, rule, reading) if loose else classify(found)
    if loose and status == "unsupported":
        lines = _where_expected(asked, reading) or (rule.main,)
        return Finding(status, lines, _without_source(asked), _REASONS[status])
    span = "" if status == "supported" else _span(asked, found, status)
    return Finding(status, rule.lines, span, _REASONS[status])


def _by_cover(asked: Statement, rule: Rule, reading: Reading) -> Status:
    """For a small part of what a dense contract sentence says: whether that part is there at all.

    The weights were fitted to rules of a sentence or two, where what is left out or added tells something.
    """
    if _ONLY.search(asked.text) and _AND_MORE.search(rule.main.text):
        return "contradicted"
    said = reading.coverage(statement_of(core(asked.text)), [rule.main])
    return "supported" if said >= _COVERED else "unsupported"


def _where_expected(asked: Statement, reading: Reading) -> tuple[Line, ...]:
    """The best line of each passage that the search put first: where the matter would stand if it stood anywhere."""
    found = []
    for id_ in reading.hits:
        lines = [line for line in reading.lines if line.passage == id_]
        if lines:
            found.append(max(lines, key=lambda line: reading.overlap(asked, line)))
    return tuple(found[: reading.silence])


def classify(found: Features) -> Status:
    """The status with the highest score; of equal ones the first in the order of `STATUSES`."""
    scores = [
        sum(value * WEIGHTS[name][place] for name, value in found.values.items() if name in WEIGHTS)
        for place in range(len(STATUSES))
    ]
    return STATUSES[scores.index(max(scores))]


def _span(asked: Statement, found: Features, status: Status) -> str:
    """The words that the strongest feature points at; the whole statement where none does."""
    for name in _POINTS_AT[status]:
        if found.values.get(name) and name in found.spans:
            start, end = _rounded(asked.text, found.spans[name], name)
            return asked.text[start:end].strip(" ,.")
    if status != "overclaim" and found.values["gap"] < _LOCAL_GAP and "gap" in found.spans:
        start, end = found.spans["gap"]
        return asked.text[start:end]
    return _without_source(asked)


def _rounded(text: str, span: Range, name: str) -> Range:
    """The span with the words that belong to it: a number's bound, a quantifier's noun, a modal's verb."""
    start, end = span
    if name in ("conflict", "stale", "missing_value"):
        bound = _BOUND.search(text[:start])
        return (bound.start() if bound else start), end
    if name == "wider" and start < 12:
        _, (verb, _) = force_of(text[end:])
        return start, end + verb if verb else end
    if name in ("reversed_copy", "stronger"):
        following = _NEXT_WORDS.match(text, end)
        return start, following.end() if following else end
    return span


def _without_source(asked: Statement) -> str:
    """The statement without "according to …" and without its full stop."""
    text = asked.text
    for part in parts(text):
        if part.kind == "source" and part.start < 12:
            text = text[part.end :].lstrip(" ,")
        elif part.kind == "source" and part.end > len(asked.text) - 4:
            text = text[: len(text) - (len(asked.text) - part.start)].rstrip(" ,")
    return bare(text) or bare(asked.text)
