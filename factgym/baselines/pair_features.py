"""Features that compare a claim with its source by words, numbers, names, negations and force, as numbers in [0, 1].

None knows the data set or the gold. Those of `RELATION` compare the two texts; the others are the form of the claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

from factgym.baselines.evidence import (
    Evidence,
    Sentence,
    Statement,
    Token,
    build_evidence,
    parse_statement,
    select_sentences,
    uncovered_span,
)
from factgym.baselines.semantics import (
    QuantityComparison,
    compare_quantities,
    modality_conflict,
    modality_of,
    universal_spans,
)
from factgym.corpora.corpus import Passage
from factgym.text.sentences import strip_full_stop

_DENIAL = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without|cannot|incapable|refused)\b|n['’]t\b", re.I
)
_SUPERLATIVE = re.compile(
    r"\b(?:only|solely|exclusively|first|last|most|highest|largest|best|always|every|all|ever)\b", re.I
)
_HEDGE = re.compile(r"\b(?:may|might|could|perhaps|probably|possibly|likely|some|often|sometimes|about|around)\b", re.I)
_STUDY = re.compile(r"\b(?:percent|significant\w*|study|studies|survey|p\s*<|confidence|according to)\b|%", re.I)
_LONG_CLAIM, _LONG_SOURCE = 60, 400
"""Tokens from which a text counts as long."""


# fmt: off
FEATURES = (
    "always", "covered", "covered_near", "covered_fully", "words_in_order", "source_in_claim", "unknown_words",
    "unknown_names", "has_unknown_name", "has_number", "number_conflicts", "number_missing", "denies", "denials_differ",
    "force_contradicted", "reaches_wide", "new_superlative", "new_hedge", "new_study", "is_question",
    "answers_question", "long_claim", "long_source", "no_sentence",
)
RELATION = (
    "covered", "covered_near", "covered_fully", "words_in_order", "source_in_claim", "unknown_words", "unknown_names",
    "has_unknown_name", "number_conflicts", "number_missing", "denials_differ", "force_contradicted",
    "new_superlative", "new_hedge", "new_study",
)
# fmt: on
"""Names of the features, in the order of a feature vector (part of the file format of `FeatureVerifier`), and those of
them that compare the two texts: none of these can be known of the claim alone."""


@dataclass(frozen=True)
class PairFeatures:
    """values: feature -> number in [0, 1]. wrong: the words of the claim that fit the source least."""

    values: Mapping[str, float]
    wrong: str


@lru_cache(maxsize=16384)
def extract_features(claim: str, source: str) -> PairFeatures:
    """Compute the features of a claim and its source."""
    return compare_pair(parse_statement(claim), build_evidence([Passage("S", "", source)]))


def compare_pair(statement: Statement, evidence: Evidence) -> PairFeatures:
    """Compute the features of a parsed claim and the sentences of its source."""
    claim = statement.text
    answer = parse_statement(claim.rpartition("? ")[2] or claim)
    nearest = tuple(select_sentences(evidence, statement))
    quantities = compare_quantities(statement, nearest)
    values = _feature_values(statement, answer, evidence, nearest, quantities)
    differing = (*quantities.conflicts, *quantities.missing)
    if differing:
        return PairFeatures(values, claim[differing[0].start : differing[0].end])
    return PairFeatures(values, uncovered_span(answer, nearest) or strip_full_stop(answer.text))


def _feature_values(
    claim: Statement, answer: Statement, source: Evidence, nearest: Sequence[Sentence], quantities: QuantityComparison
) -> Mapping[str, float]:
    """The features by name. answer: of a question with its answer the answer, else the claim."""
    written = " ".join(sentence.text for sentence in nearest)
    first_keys = nearest[0].keys if nearest else frozenset()
    coverage = source.coverage(answer, source.sentences)
    unknown_names = answer.names - source.keys
    near_bigrams = {bigram for sentence in nearest for bigram in _content_bigrams(sentence.tokens)}
    source_length = sum(len(sentence.tokens) for sentence in source.sentences)
    # The parity of negations: two of them in a sentence cancel out.
    denials, written_denials = (len(_DENIAL.findall(text)) for text in (claim.text, written))

    def has_new(pattern: re.Pattern[str]) -> bool:
        """Whether the answer has a match that the nearest sentences lack."""
        old = {match.lower() for match in pattern.findall(written)}
        return any(match.lower() not in old for match in pattern.findall(answer.text))

    def contradicts_modality(sentence: Sentence) -> bool:
        return modality_conflict(modality_of(claim.text)[0], modality_of(sentence.text)[0]) == "contradicted"

    values = {
        "always": 1.0,
        "covered": coverage,
        "covered_near": source.coverage(claim, nearest),
        "covered_fully": coverage > 0.99,
        "words_in_order": _share(_content_bigrams(answer.tokens), near_bigrams),
        "source_in_claim": _share(first_keys, claim.keys),
        "unknown_words": _share(answer.keys, set(answer.keys) - source.keys),
        "unknown_names": _share(answer.names, unknown_names),
        "has_unknown_name": bool(unknown_names),
        "has_number": bool(quantities.conflicts or quantities.missing or quantities.agreed),
        "number_conflicts": bool(quantities.conflicts),
        "number_missing": bool(quantities.missing),
        "denies": _DENIAL.search(answer.text) is not None,
        "denials_differ": denials % 2 != written_denials % 2,
        "force_contradicted": bool(nearest) and contradicts_modality(nearest[0]),
        "reaches_wide": bool(universal_spans(answer.text)),
        "new_superlative": has_new(_SUPERLATIVE),
        "new_hedge": has_new(_HEDGE),
        "new_study": has_new(_STUDY),
        "is_question": claim.text.rstrip().endswith("?"),
        "answers_question": "? " in claim.text,
        "long_claim": min(len(claim.tokens) / _LONG_CLAIM, 1.0),
        "long_source": min(source_length / _LONG_SOURCE, 1.0),
        "no_sentence": not source.sentences,
    }
    return MappingProxyType({name: float(values[name]) for name in FEATURES})


def _content_bigrams(tokens: Sequence[Token]) -> set[tuple[str, str]]:
    return set(pairwise(token.key for token in tokens if token.is_content))


def _share(part: Iterable[object], whole: Iterable[object]) -> float:
    """The share of `part` that is in `whole`; 0 for an empty part."""
    members = set(part)
    return len(members.intersection(whole)) / len(members) if members else 0.0
