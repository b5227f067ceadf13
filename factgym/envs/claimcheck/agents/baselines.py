"""Static baselines share the collection of evidence and differ in the verifier that judges a statement.

`lexical`, `numbers` and `embedding` are three of the paper's static baselines; the fourth, the NLI-style one, is the
honest baseline of the audit and lives in `factgym.baselines.nli`. Thresholds were chosen on training splits.
`play_at_random` is the floor of every table.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from factgym.baselines.evidence import (
    Evidence,
    Sentence,
    Statement,
    build_evidence,
    parse_statement,
    select_sentences,
    uncovered_span,
    without_full_stop,
)
from factgym.baselines.nli import Prediction, Verifier, without_evidence
from factgym.baselines.semantics import compare_quantities
from factgym.corpora.corpus import Passage
from factgym.corpora.sentences import sentences
from factgym.datasets.claims import STATUSES, VERDICTS, Status, final_verdict
from factgym.envs.claimcheck.agents.scripted import (
    Call,
    CollectedEvidence,
    EpisodeBrief,
    ToolLoop,
    Verdict,
    claim_entry,
    collect_evidence,
    list_call,
    make_verdict,
    parse_evidence,
    parse_results,
    prediction_entry,
    read_call,
    search_call,
    split_statements,
)


def judge_honestly(predictions: Sequence[Prediction], opened: Sequence[Passage]) -> Verdict:
    """Return the verdict that follows from the predictions."""
    final = final_verdict(prediction.status for prediction in predictions)
    return make_verdict(final, [prediction_entry(prediction) for prediction in predictions])


def verify(
    brief: EpisodeBrief,
    verifier: Verifier,
    collect: Callable[[EpisodeBrief], ToolLoop[CollectedEvidence]] = collect_evidence,
    conclude: Callable[[Sequence[Prediction], Sequence[Passage]], Verdict] = judge_honestly,
) -> ToolLoop[Verdict]:
    """Collect evidence, apply a verifier to each statement, and return the verdict.

    collect, conclude: replaced by exploiters, which cheat in one respect.
    """
    collected = yield from collect(brief)
    evidence = replace(build_evidence(collected.passages), silence_passages=brief.silence_passages)
    predictions = []
    for text in split_statements(brief.answer):
        statement = parse_statement(text)
        ranked = replace(evidence, ranked_ids=tuple(collected.ranked_ids.get(text, ())))
        predictions.append(verifier(statement, ranked) if evidence.sentences else without_evidence(statement))
    return conclude(predictions, collected.passages)


_LEXICAL_THRESHOLDS = (0.55, 0.45)
_NUMBERS_THRESHOLDS = (0.55, 0.55)
_EMBEDDING_THRESHOLDS = (0.5, 0.4)
_BUCKETS = 4096
_GRAM = 4


def lexical(statement: Statement, evidence: Evidence) -> Prediction:
    """Judge by the share of the statement's words in the evidence."""
    selected = select_sentences(evidence, statement)
    return _predict_by_threshold(statement, selected, evidence.coverage(statement, selected), _LEXICAL_THRESHOLDS)


def numbers(statement: Statement, evidence: Evidence) -> Prediction:
    """Judge by word overlap, but contradicted where a number, date or frequency differs from the evidence."""
    selected = select_sentences(evidence, statement)
    conflicts = compare_quantities(statement, selected).conflicts
    if conflicts:
        span = statement.text[conflicts[0].start : conflicts[0].end]
        reason = f"The evidence gives another value than {span!r}."
        return Prediction(statement, "contradicted", tuple(selected), span, reason)
    return _predict_by_threshold(statement, selected, evidence.coverage(statement, selected), _NUMBERS_THRESHOLDS)


def embedding(statement: Statement, evidence: Evidence) -> Prediction:
    """Judge by the cosine of hashed character n-grams, a proxy of a sentence embedding that needs no download."""
    vector = _hashed_ngrams(statement.text)

    def similarity(_: Statement, sentence: Sentence) -> float:
        return _cosine(vector, _hashed_ngrams(sentence.text))

    nearest = select_sentences(evidence, statement, similarity)[:1]
    return _predict_by_threshold(statement, nearest, similarity(statement, nearest[0]), _EMBEDDING_THRESHOLDS)


def _predict_by_threshold(
    statement: Statement, selected: Iterable[Sentence], value: float, thresholds: tuple[float, float]
) -> Prediction:
    """Predict supported from the first threshold, overclaim from the second, unsupported below."""
    selected = tuple(selected)
    if value >= thresholds[0]:
        return Prediction(statement, "supported", selected, "", "The evidence states it in nearly the same words.")
    status: Status = "overclaim" if value >= thresholds[1] else "unsupported"
    span = uncovered_span(statement, selected) if status == "overclaim" else without_full_stop(statement.text)
    return Prediction(statement, status, selected, span, "The evidence does not have all of these words.")


@lru_cache(maxsize=4096)
def _hashed_ngrams(text: str) -> Mapping[int, float]:
    """Return the hashed character n-grams of a text: sublinear counts, unit norm."""
    counts: dict[int, int] = {}
    folded = f" {' '.join(text.lower().split())[:2000]} "
    for start in range(len(folded) - _GRAM + 1):
        bucket = zlib.crc32(folded[start : start + _GRAM].encode()) % _BUCKETS
        counts[bucket] = counts.get(bucket, 0) + 1
    weights = {bucket: 1.0 + math.log(count) for bucket, count in counts.items()}
    norm = math.sqrt(math.fsum(weight * weight for weight in weights.values())) or 1.0
    return {bucket: weight / norm for bucket, weight in weights.items()}


def _cosine(left: Mapping[int, float], right: Mapping[int, float]) -> float:
    if len(right) < len(left):
        left, right = right, left
    return math.fsum(weight * right[bucket] for bucket, weight in left.items() if bucket in right)


_MAX_RANDOM_TURNS = 6


def play_at_random(brief: EpisodeBrief, seed: int) -> ToolLoop[Verdict]:
    """List, search and read at random for a few turns, then submit a random verdict."""
    rng = random.Random(f"random policy {seed} {brief.question} {brief.answer}")
    ids = [passage.id for passage in brief.passages]
    opened = list(brief.passages)
    if not brief.is_offline:
        for _ in range(rng.randint(0, min(_MAX_RANDOM_TURNS, brief.turns - 1))):
            text = yield [_random_call(rng, brief, ids)]
            ids = list(dict.fromkeys([*ids, *(hit.id for hit in parse_results(text))]))
            opened += parse_evidence(text)
    statements = [brief.answer[start:end] for start, end in sentences(brief.answer)] or [brief.answer or "?"]
    entries = [_random_entry(rng, statement, ids, opened) for statement in statements[:16]]
    return make_verdict(rng.choice(VERDICTS), entries)


def _random_call(rng: random.Random, brief: EpisodeBrief, ids: Sequence[str]) -> Call:
    name = rng.choice(("list", "search", "read") if ids else ("list", "search"))
    if name == "list":
        return list_call()
    if name == "read":
        return read_call(rng.choice(ids))
    words = f"{brief.question} {brief.answer}".split() or ["policy"]
    return search_call(" ".join(rng.choices(words, k=rng.randint(1, 5))), rng.randint(1, 10))


def _random_entry(rng: random.Random, statement: str, ids: Sequence[str], opened: Sequence[Passage]) -> dict[str, Any]:
    cited = rng.sample(ids, min(len(ids), rng.randint(0, 2)))
    quote = ""
    if opened:
        text = rng.choice(opened).text
        spans = sentences(text)
        start, end = rng.choice(spans) if spans else (0, len(text))
        quote = text[start:end][:4000]
    words = statement.split()
    first = rng.randint(0, len(words))
    span = " ".join(words[first : first + rng.randint(0, 6)])
    return claim_entry(statement[:4000], rng.choice(STATUSES), cited, quote, span, "Drawn at random.")
