"""An NLI-style verifier without a model and without downloads: the honest baseline of the environments.

A statement (the hypothesis) is compared with its premise by the features of early textual-entailment systems:
alignment, polarity, modality, quantifiers, numbers, and clauses dropped or added (MacCartney et al., "Learning to
recognize features of valid textual entailments", NAACL 2006). A linear classifier weighs them; `fitting` describes how
its few hundred weights were made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from factgym.baselines.evidence import (
    PHRASES,
    Evidence,
    Sentence,
    Statement,
    alternatives,
    content_keys,
    heaviest_gap,
    keys_of,
    parse_statement,
    tokenize,
)
from factgym.baselines.premise import Premise, nearest_premise
from factgym.baselines.semantics import (
    Clause,
    Quantity,
    Span,
    clauses,
    compare_quantities,
    is_existential,
    is_hedged,
    is_superseded,
    main_clause,
    modality_conflict,
    modality_of,
    universal_spans,
)
from factgym.datasets.claims import STATUSES, Status
from factgym.text.sentences import strip_full_stop

_CLAUSE_SHARE = 0.5
"""Share of a clause's weight that has to be covered."""
_MAX_GAP = 1
_SENTENCE_START = 12
"""Characters."""
_SOLE_REASON = re.compile(r"\b(?:sole|only) (?:reason|purpose|aim)\b", re.I)


@dataclass(slots=True)
class Features:
    """Feature values in [0, 1] by name, and the span of the statement that a feature is about."""

    values: dict[str, float] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)

    def set(self, name: str, value: float, span: Span | None = None) -> None:
        """Set a feature; the first non-empty span given for it is kept."""
        self.values[name] = value
        if span is not None and span[0] < span[1]:
            self.spans.setdefault(name, span)


def compute_features(statement: Statement, premise: Premise, evidence: Evidence) -> Features:
    """Compare a statement with its premise. A feature that does not apply is 0 or absent."""
    features = Features({"bias": 1.0})
    _set_alignment(features, statement, premise, evidence)
    _set_quantities(features, statement, premise)
    _set_modality(features, statement, premise)
    _set_generality(features, statement, premise)
    _set_clauses(features, statement, premise, evidence)
    return features


def _set_alignment(features: Features, statement: Statement, premise: Premise, evidence: Evidence) -> None:
    """Coverage of the statement by the premise and the reverse, and the heaviest run of uncovered words."""
    total, shared = evidence.frequency.total, evidence.frequency.shared
    inside = premise.keys
    content = [token for token in tokenize(main_clause(statement.text)) if token.is_content and not token.is_number]
    keys = dict.fromkeys(token.key for token in content)
    weight = total(keys) or 1.0
    coverage = shared(keys, inside) / weight
    features.set("coverage", coverage)
    gap = heaviest_gap(content, inside, evidence.frequency.weight, _MAX_GAP)
    uncovered = [token.key for token in gap if token.key not in inside]
    features.set("gap", total(dict.fromkeys(uncovered)) / weight, (gap[0].start, gap[-1].end) if gap else None)
    features.set("gap_at_start", float(bool(gap) and gap[0] is content[0]))
    outside = keys_of(sentence for sentence in evidence.sentences if sentence not in premise.sentences)
    new = [key for key in keys if key not in inside]
    features.set("elsewhere", shared(new, outside) / weight)
    features.set("nowhere", total(key for key in new if key not in outside) / weight)
    features.set("gap_elsewhere", float(bool(gap) and outside.issuperset(uncovered)))
    features.set("gap_long", float(len(uncovered) >= 3))
    main_keys = content_keys(main_clause(premise.main.text))
    reverse = shared(main_keys, statement.keys) / (total(main_keys) or 1.0)
    features.set("reverse_coverage", reverse)
    features.set("foreign", max(0.0, 1.0 - coverage - reverse))
    features.set("same_words", float(coverage > 0.9 and reverse > 0.8))


def _set_quantities(features: Features, statement: Statement, premise: Premise) -> None:
    """Conflicting, missing and superseded quantities; superseded sentences count only where there are no others."""
    current = [sentence for sentence in premise.sentences if not is_superseded(sentence.text)]
    superseded = [sentence for sentence in premise.sentences if is_superseded(sentence.text)]
    comparison = compare_quantities(statement, current or premise.sentences)
    former = compare_quantities(statement, superseded).agreed if current else ()
    former_values = [quantity for quantity in (*comparison.conflicts, *comparison.missing) if quantity in former]
    by_name: Mapping[str, Sequence[Quantity]] = {
        "conflict": comparison.conflicts,
        "missing_value": comparison.missing,
        "superseded_value": former_values,
    }
    for name, group in by_name.items():
        features.set(name, float(bool(group)), (group[0].start, group[0].end) if group else None)
    copied = features.values["coverage"] > 0.8
    features.set("conflict_copy", float(bool(comparison.conflicts) and copied))
    features.set("agreed", float(bool(comparison.agreed) and not comparison.conflicts and not comparison.missing))


def _set_modality(features: Features, statement: Statement, premise: Premise) -> None:
    """Reversed and strengthened modality; of a reversal, whether it concerns a permission or a duty."""
    claimed, claimed_span = modality_of(main_clause(statement.text))
    written, _ = modality_of(main_clause(premise.main.text))
    conflict = modality_conflict(claimed, written)
    span = claimed_span if claimed_span[1] else None
    is_reversed, is_stronger = conflict == "contradicted", conflict == "overclaim"
    is_permission = {"may", "must_not"} == {claimed, written}
    is_duty = "need_not" in (claimed, written)
    copied = features.values["same_words"]
    features.set("reversed", float(is_reversed and not is_permission and not is_duty), span)
    features.set("reversed_permission", float(is_reversed and is_permission), span)
    features.set("reversed_duty", float(is_reversed and is_duty), span)
    features.set("reversed_copy", float(is_reversed) * copied, span)
    features.set("stronger_modality", float(is_stronger), span)
    features.set("stronger_copy", float(is_stronger) * copied, span)
    features.set("same_modality", float(claimed == written))


def _set_generality(features: Features, statement: Statement, premise: Premise) -> None:
    """Universal expressions that the premise lacks, and hedges that the statement drops."""
    text, main = statement.text, premise.main.text
    written = {
        sentence.text[start:end].lower()
        for sentence in premise.sentences
        for start, end in universal_spans(sentence.text)
    }
    added = [(start, end) for start, end in universal_spans(text) if text[start:end].lower() not in written]
    span = added[0] if added else None
    features.set("universal_added", float(bool(added)), span)
    features.set("universal_at_start", float(bool(added) and added[0][0] < _SENTENCE_START))
    features.set("hedged_premise", float(is_hedged(main) and not is_hedged(text)))
    features.set("universal_copy", float(bool(added)) * features.values["same_words"], span)
    features.set("existential", float(is_existential(text)))
    features.set("universal_over_hedge", float(bool(added) and is_hedged(main)), span)


def _set_clauses(features: Features, statement: Statement, premise: Premise, evidence: Evidence) -> None:
    """Limits, times and reasons that the statement adds, swaps, matches or drops."""
    claimed = clauses(statement.text)

    def drops(sentence: Sentence, kind: str) -> bool:
        """Whether the sentence has a clause of this kind that the statement lacks."""
        return any(
            clause.kind == kind and not _is_covered(sentence.text, clause, statement.keys, evidence)
            for clause in clauses(sentence.text)
        )

    near = (premise.main, *premise.followers)
    for kind in ("limit", "time", "reason"):
        of_kind = [clause for clause in claimed if clause.kind == kind]
        added = [clause for clause in of_kind if not _is_covered(statement.text, clause, premise.keys, evidence)]
        dropped = any(drops(sentence, kind) for sentence in near)
        span = (added[0].start, added[0].end) if added else None
        features.set(f"{kind}_added", float(bool(added) and not dropped), span)
        features.set(f"{kind}_swapped", float(bool(added) and dropped), span)
        features.set(f"{kind}_matched", float(bool(of_kind) and not added))
        if kind != "limit":
            features.set(f"{kind}_dropped", float(dropped and not added))
    # A dropped limit is told apart by where it is: in the sentence itself, behind it, or in another passage.
    sources = {"limit_dropped": (premise.main,), "limit_follows": premise.followers, "limit_elsewhere": premise.linked}
    has_limit = any(clause.kind == "limit" for clause in claimed)
    copied = features.values["coverage"] > 0.9
    for name, sentences in sources.items():
        dropped = not has_limit and any(drops(sentence, "limit") for sentence in sentences)
        features.set(name, float(dropped))
        features.set(f"{name}_copy", float(dropped and copied))
    is_sole = any(_SOLE_REASON.search(sentence.text) for sentence in near)
    features.set("sole_reason", float(is_sole and bool(features.values["reason_swapped"])))


def _is_covered(text: str, clause: Clause, covering: Collection[str], evidence: Evidence) -> bool:
    """Whether at least half of the weight of a clause is covered; a clause without content words is."""
    keys = content_keys(text[clause.content_start : clause.end])
    weight = evidence.frequency.total(keys)
    return not weight or evidence.frequency.shared(keys, covering) >= _CLAUSE_SHARE * weight


WEIGHTS: Mapping[str, Sequence[float]] = PHRASES["weights"]
"""Weights of the linear classifier by feature, one for each of `STATUSES`."""
HUMAN_WEIGHTS: Mapping[str, Sequence[float]] = PHRASES["human_weights"]
"""The same, fitted to people's labels of claims that they did not make from the documents' wordings."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The status of a statement, the deciding sentences, the part of the statement that they lack, and the reason."""

    statement: Statement
    status: Status
    sentences: tuple[Sentence, ...]
    unsupported_span: str
    reason: str


Verifier = Callable[[Statement, Evidence], Prediction]

REASONS: Mapping[Status, str] = {
    "supported": "The evidence says so.",
    "unsupported": "The evidence does not say this part.",
    "contradicted": "The evidence says otherwise.",
    "overclaim": "The evidence says this less generally.",
}
_SPAN_FEATURES: Mapping[Status, tuple[str, ...]] = {
    "contradicted": (
        *("superseded_value", "conflict", "missing_value"),
        *("reversed_copy", "limit_swapped", "reason_swapped"),
    ),
    "overclaim": ("universal_over_hedge", "universal_added", "stronger_modality"),
    "unsupported": ("reason_added", "reason_swapped", "limit_added"),
}
"""Features whose span is the unsupported part, by status, the most telling first."""
_LOCAL_GAP = 0.5
_LOOSE_MATCH, _MIN_COVERAGE = 0.6, 0.5
_EXCLUSIVE, _OPEN_LIST = (re.compile(alternatives("judgements", name), re.I) for name in ("exclusive", "open_list"))
_BOUND = re.compile(rf"(?:{alternatives('judgements', 'bound')}) $", re.I)
_NEXT_WORDS = re.compile(r"(?: be)? \w+")


@lru_cache(maxsize=256)
def predict_entailment(statement: Statement, evidence: Evidence) -> Prediction:
    """Verify a statement against its nearest premise; without evidence it is unsupported."""
    # Cached: most exploiters differ from the honest baseline in another respect, and an audit plays all of them.
    premise = nearest_premise(evidence, statement)
    if premise is None:
        return without_evidence(statement)
    features = compute_features(statement, premise, evidence)
    match = min(features.values["reverse_coverage"], features.values["coverage"])
    if evidence.is_dense and match < _LOOSE_MATCH:
        # A statement that is a small part of a long sentence is judged by its coverage: the weights were fitted to
        # rules of a sentence or two, where a word dropped or added tells something.
        coverage = evidence.coverage(parse_statement(main_clause(statement.text)), [premise.main])
        if _EXCLUSIVE.search(statement.text) and _OPEN_LIST.search(premise.main.text):
            status: Status = "contradicted"
        elif coverage >= _MIN_COVERAGE:
            status = "supported"
        else:
            sentences = expected_sentences(statement, evidence) or (premise.main,)
            span = _without_source(statement)
            return Prediction(statement, "unsupported", sentences, span, REASONS["unsupported"])
    else:
        status = predict_status(features)
    span = "" if status == "supported" else _unsupported_span(statement, features, status)
    return Prediction(statement, status, premise.sentences, span, REASONS[status])


def without_evidence(statement: Statement) -> Prediction:
    """Return the prediction for a statement when nothing was read."""
    return Prediction(statement, "unsupported", (), strip_full_stop(statement.text), "No evidence was found.")


def predict_status(features: Features) -> Status:
    """Return the status with the highest score, the first in the order of `STATUSES` of equals."""
    scores = score_statuses(features, WEIGHTS)
    return max(STATUSES, key=lambda status: scores[status])


def score_statuses(features: Features, weights: Mapping[str, Sequence[float]]) -> dict[Status, float]:
    """Return the linear score of each status, in the order of `STATUSES`."""
    return {
        status: sum(value * weights[name][column] for name, value in features.values.items() if name in weights)
        for column, status in enumerate(STATUSES)
    }


def expected_sentences(statement: Statement, evidence: Evidence) -> tuple[Sentence, ...]:
    """Return the best sentence of each top-ranked passage: where one would expect the statement."""
    expected = []
    for passage_id in evidence.ranked_ids:
        sentences = [sentence for sentence in evidence.sentences if sentence.passage == passage_id]
        if sentences:
            expected.append(max(sentences, key=lambda sentence: evidence.overlap(statement, sentence)))
    return tuple(expected[: evidence.silence_passages])


def _unsupported_span(statement: Statement, features: Features, status: Status) -> str:
    """Return the text that the strongest feature points at; the whole statement where none does."""
    for name in _SPAN_FEATURES[status]:
        if features.values.get(name) and name in features.spans:
            start, end = _extended(statement.text, features.spans[name], name)
            return statement.text[start:end].strip(" ,.")
    if status != "overclaim" and features.values["gap"] < _LOCAL_GAP and "gap" in features.spans:
        start, end = features.spans["gap"]
        return statement.text[start:end]
    return _without_source(statement)


def _extended(text: str, span: Span, feature: str) -> Span:
    """Extend a span by the words that belong to it: a number's bound, a quantifier's noun, a modal's verb."""
    start, end = span
    if feature in ("conflict", "superseded_value", "missing_value"):
        bound = _BOUND.search(text[:start])
        return (bound.start() if bound else start), end
    if feature == "universal_added" and start < _SENTENCE_START:
        _, (verb_start, _) = modality_of(text[end:])
        return start, end + verb_start
    if feature in ("reversed_copy", "stronger_modality"):
        following = _NEXT_WORDS.match(text, end)
        return start, following.end() if following else end
    return span


def _without_source(statement: Statement) -> str:
    """Return the statement without "according to …" at either end and without its full stop."""
    text = statement.text
    for clause in clauses(text):
        if clause.kind == "source" and clause.start < _SENTENCE_START:
            text = text[clause.end :].lstrip(" ,")
        elif clause.kind == "source" and clause.end > len(statement.text) - 4:
            text = text[: len(text) - (len(statement.text) - clause.start)].rstrip(" ,")
    return strip_full_stop(text) or strip_full_stop(statement.text)
