"""The paper's static verifiers but the NLI-style one: word overlap, numbers and dates, a proxy of sentence embeddings.

Thresholds were chosen on training splits. `differences` is ours, for the miniature, and so is `human_labels`, for claims
that people labelled.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from factgym.baselines.evidence import Evidence, Sentence, Statement, content_keys, select_sentences, uncovered_span
from factgym.baselines.nli import HUMAN_WEIGHTS, Prediction, compute_features, expected_sentences, score_statuses
from factgym.baselines.premise import nearest_premise
from factgym.baselines.semantics import compare_quantities
from factgym.datasets.claims import Status
from factgym.text.sentences import strip_full_stop

_NUMBERS_THRESHOLDS = (0.55, 0.55)
_LEXICAL_THRESHOLDS = (0.55, 0.45)
_EMBEDDING_THRESHOLDS = (0.5, 0.4)
_BUCKETS = 4096
_GRAM = 4


def numbers(statement: Statement, evidence: Evidence) -> Prediction:
    """Judge by word overlap, but contradicted where a number, date or frequency differs from the evidence."""
    selected = select_sentences(evidence, statement)
    conflicts = compare_quantities(statement, selected).conflicts
    if conflicts:
        span = statement.text[conflicts[0].start : conflicts[0].end]
        reason = f"The evidence gives another value than {span!r}."
        return Prediction(statement, "contradicted", tuple(selected), span, reason)
    return _predict_by_threshold(statement, selected, evidence.coverage(statement, selected), _NUMBERS_THRESHOLDS)


def lexical(statement: Statement, evidence: Evidence) -> Prediction:
    """Judge by the share of the statement's words in the evidence."""
    selected = select_sentences(evidence, statement)
    return _predict_by_threshold(statement, selected, evidence.coverage(statement, selected), _LEXICAL_THRESHOLDS)


def embedding(statement: Statement, evidence: Evidence) -> Prediction:
    """Judge by the cosine of hashed character n-grams, a proxy of a sentence embedding that needs no download."""
    vector = _hashed_ngrams(statement.text)

    def similarity(_: Statement, sentence: Sentence) -> float:
        smaller, larger = sorted((vector, _hashed_ngrams(sentence.text)), key=len)
        return math.fsum(weight * larger[bucket] for bucket, weight in smaller.items() if bucket in larger)

    nearest = select_sentences(evidence, statement, similarity)[:1]
    return _predict_by_threshold(statement, nearest, similarity(statement, nearest[0]), _EMBEDDING_THRESHOLDS)


def differences(statement: Statement, evidence: Evidence) -> Prediction:
    """Judge by the words that the statement and the nearest sentence do not share, among passages on its subject.

    Contradicted where the sentence has other numbers or names and all other words; unsupported where it lacks another
    word; an overclaim where only the sentence has more words. For documents of short sentences with few wordings.
    """
    own = [s for s in evidence.sentences if statement.names.intersection(content_keys(s.title))] or evidence.sentences
    nearest = max(own, key=lambda sentence: evidence.overlap(statement, sentence))
    missing = [token for token in statement.tokens if token.is_content and token.key not in nearest.keys]
    text = statement.text
    if any(not token.is_number and token.lower == text[token.start : token.end] for token in missing):
        reason = "The evidence is about something else."
        return Prediction(statement, "unsupported", (own[0],), strip_full_stop(text), reason)
    if missing:
        span = text[missing[0].start : missing[-1].end]
        return Prediction(statement, "contradicted", (nearest,), span, "The evidence gives another value.")
    if nearest.keys.difference(statement.keys):
        reason = "The evidence has a condition."
        return Prediction(statement, "overclaim", (nearest,), strip_full_stop(text), reason)
    return Prediction(statement, "supported", (nearest,), "", "The evidence has all of these words.")


def human_labels(statement: Statement, evidence: Evidence, stakes: Mapping[Status, tuple[float, float]]) -> Prediction:
    """Judge by a linear classifier that was fitted to people's labels, over the two most similar sentences.

    stakes: by status, the gain of a right and the loss of a wrong one, as the instructions give them; the statuses that
    the data set has. The one with the highest expected gain is given.
    """
    premise = nearest_premise(evidence, statement)
    assert premise is not None
    scores = score_statuses(compute_features(statement, premise, evidence), HUMAN_WEIGHTS)
    # The classifier was fitted with equal weight for each status. A status at odds of loss : gain has the prior that
    # makes a constant worth nothing.
    priors = {status: -loss / ((gain - loss) or 1.0) for status, (gain, loss) in stakes.items()}
    joint = {status: prior * math.exp(scores[status]) for status, prior in priors.items()}
    total = math.fsum(joint.values()) or 1.0

    def expected(status: Status) -> float:
        (gain, loss), probability = stakes[status], joint[status] / total
        return gain * probability + loss * (1.0 - probability)

    status = max(stakes, key=expected)
    if status == "unsupported":
        sentences = expected_sentences(statement, evidence)
    else:
        sentences = tuple(sorted(evidence.sentences, key=lambda s: -evidence.overlap(statement, s))[:2])
    span = "" if status == "supported" else strip_full_stop(statement.text)
    return Prediction(statement, status, sentences or premise.sentences, span, _HUMAN_REASONS[status])


_HUMAN_REASONS: Mapping[Status, str] = {
    "supported": "The evidence has what the statement says.",
    "overclaim": "The evidence has a part of what the statement says.",
    "contradicted": "The evidence says otherwise.",
    "unsupported": "The evidence lacks the statement's words.",
}


def _predict_by_threshold(
    statement: Statement, selected: Iterable[Sentence], value: float, thresholds: tuple[float, float]
) -> Prediction:
    """Predict supported from the first threshold, overclaim from the second, unsupported below."""
    selected = tuple(selected)
    if value >= thresholds[0]:
        return Prediction(statement, "supported", selected, "", "The evidence states it in nearly the same words.")
    status: Status = "overclaim" if value >= thresholds[1] else "unsupported"
    span = uncovered_span(statement, selected) if status == "overclaim" else strip_full_stop(statement.text)
    return Prediction(statement, status, selected, span, "The evidence does not have all of these words.")


@lru_cache(maxsize=4096)
def _hashed_ngrams(text: str) -> Mapping[int, float]:
    """Return the hashed character n-grams of a text: sublinear counts, unit norm."""
    # The hashing trick (Weinberger et al., 2009): a gram's bucket is its CRC, so no vocabulary is held.
    folded = f" {' '.join(text.lower().split())[:2000]} "
    grams = (folded[start : start + _GRAM].encode() for start in range(len(folded) - _GRAM + 1))
    counts = Counter(zlib.crc32(gram) % _BUCKETS for gram in grams)
    weights = {bucket: 1.0 + math.log(count) for bucket, count in counts.items()}
    norm = math.sqrt(math.fsum(weight * weight for weight in weights.values())) or 1.0
    return {bucket: weight / norm for bucket, weight in weights.items()}
