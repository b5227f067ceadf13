"""How a claim compares with its source, in numbers from 0 to 1 that a person can read.

Each looks at words, numbers, names, negations or the form of the claim. None knows the data set, the gold, or a probe's
strategy; what a verifier makes of them is learned. The form of the claim is among them on purpose: that a verifier may
learn a benchmark's style in place of its matter is what the per-benchmark table shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

from factgym.baselines.polarity import force_of, opposed, wide
from factgym.baselines.reading import Line, Reading, Statement, pick, statement_of
from factgym.baselines.rule import bare
from factgym.baselines.spans import missing_span
from factgym.baselines.values import Comparison, compare
from factgym.envs.seva.agents.grounds import reading

_DENIAL = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without|cannot|incapable|refused)\b|n['’]t\b", re.I
)
_ONLY = re.compile(r"\b(?:only|solely|exclusively|first|last|most|highest|largest|best|always|every|all|ever)\b", re.I)
_HEDGE = re.compile(
    r"\b(?:may|might|could|perhaps|probably|possibly|likely|some|often|sometimes|about|around)\b", re.I
)
_STUDY = re.compile(r"\b(?:percent|significant\w*|study|studies|survey|p\s*<|confidence|according to)\b|%", re.I)
_LONG_CLAIM, _LONG_SOURCE = 60, 400
"""Words at which a text counts as long."""


@dataclass(frozen=True)
class Look:
    """A claim beside its source. values: feature -> number in [0, 1]. wrong: the words of the claim that fit least."""

    values: Mapping[str, float]
    wrong: str


@dataclass(frozen=True)
class _Pair:
    asked: Statement
    answer: Statement
    sentences: Reading
    near: tuple[Line, ...]
    values: Comparison
    there: frozenset[str]

    @property
    def near_text(self) -> str:
        return " ".join(line.text for line in self.near)

    def unknown(self, keys: frozenset[str]) -> float:
        return _share(len(keys - self.there), len(keys))


@lru_cache(maxsize=16384)
def look_at(claim: str, source: str) -> Look:
    """The features of a pair."""
    sentences = reading(source)
    asked = statement_of(claim)
    answer = statement_of(claim.rpartition("? ")[2] or claim)
    near = tuple(pick(sentences, asked))
    there = frozenset().union(*(line.keys for line in sentences.lines))
    pair = _Pair(asked, answer, sentences, near, compare(asked, near), there)
    return Look(MappingProxyType({name: _FEATURES[name](pair) for name in FEATURES}), _wrong(pair))


def _wrong(pair: _Pair) -> str:
    for value in (*pair.values.conflicts, *pair.values.missing):
        return pair.asked.text[value.start : value.end]
    return missing_span(pair.answer, pair.near) or bare(pair.answer.text)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _capped(number: float, most: float) -> float:
    return min(number / most, 1.0)


def _odd_denials(pair: _Pair) -> float:
    return float(len(_DENIAL.findall(pair.asked.text)) % 2 != len(_DENIAL.findall(pair.near_text)) % 2)


def _back(pair: _Pair) -> float:
    """The share of the nearest sentence that the claim has."""
    if not pair.near:
        return 0.0
    return _share(len(pair.near[0].keys.intersection(pair.asked.keys)), len(pair.near[0].keys))


def _pairs_of_words(statement: Statement) -> set[tuple[str, str]]:
    found = [word.key for word in statement.words if word.content]
    return set(pairwise(found))


def _in_order(pair: _Pair) -> float:
    """The share of the answer's neighbouring content words that are neighbours in the source as well."""
    asked = _pairs_of_words(pair.answer)
    there: set[tuple[str, str]] = set()
    for line in pair.near:
        there |= _pairs_of_words(Statement(line.text, line.words, (), frozenset()))
    return _share(len(asked & there), len(asked))


def _numbers(pair: _Pair) -> int:
    found = pair.values
    return len(found.conflicts) + len(found.missing) + len(found.agreed)


def _contradicted_force(pair: _Pair) -> float:
    return float(
        bool(pair.near) and opposed(force_of(pair.asked.text)[0], force_of(pair.near[0].text)[0]) == "contradicted"
    )


def _said_but_not_there(pattern: re.Pattern[str]) -> Callable[[_Pair], float]:
    def feature(pair: _Pair) -> float:
        there = {one.lower() for one in pattern.findall(pair.near_text)}
        return float(any(one.lower() not in there for one in pattern.findall(pair.answer.text)))

    return feature


_FEATURES: Mapping[str, Callable[[_Pair], float]] = {
    "always": lambda pair: 1.0,
    "covered": lambda pair: pair.sentences.coverage(pair.answer, pair.sentences.lines),
    "covered_near": lambda pair: pair.sentences.coverage(pair.asked, pair.near),
    "covered_fully": lambda pair: float(pair.sentences.coverage(pair.answer, pair.sentences.lines) > 0.99),
    "words_in_order": _in_order,
    "source_in_claim": _back,
    "unknown_words": lambda pair: pair.unknown(frozenset(pair.answer.keys)),
    "unknown_names": lambda pair: pair.unknown(pair.answer.names),
    "has_unknown_name": lambda pair: float(bool(pair.answer.names - pair.there)),
    "has_number": lambda pair: float(_numbers(pair) > 0),
    "number_conflicts": lambda pair: float(bool(pair.values.conflicts)),
    "number_missing": lambda pair: float(bool(pair.values.missing)),
    "denies": lambda pair: float(_DENIAL.search(pair.answer.text) is not None),
    "denials_differ": _odd_denials,
    "force_contradicted": _contradicted_force,
    "reaches_wide": lambda pair: float(bool(wide(pair.answer.text))),
    "new_superlative": _said_but_not_there(_ONLY),
    "new_hedge": _said_but_not_there(_HEDGE),
    "new_study": _said_but_not_there(_STUDY),
    "is_question": lambda pair: float(pair.asked.text.rstrip().endswith("?")),
    "answers_question": lambda pair: float("? " in pair.asked.text),
    "long_claim": lambda pair: _capped(len(pair.asked.words), _LONG_CLAIM),
    "long_source": lambda pair: _capped(sum(len(line.words) for line in pair.sentences.lines), _LONG_SOURCE),
    "no_sentence": lambda pair: float(not pair.sentences.lines),
}

FEATURES = tuple(_FEATURES)
"""The names of the features, in the order in which they are computed."""
