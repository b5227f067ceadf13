"""A score under a rubric, as the report that an episode keeps."""

from __future__ import annotations

from typing import Any

from factgym.core.report import RewardReport, SpanCredit
from factgym.rewards.corver.rubrics import STRICT
from factgym.rewards.corver.score import CorverScore
from factgym.rewards.corver.tokens import sentence_returns
from factgym.rewards.rubric import Rubric


def report_of(score: CorverScore, rubric: Rubric = STRICT, *, message: int = 0) -> RewardReport:
    """The report: every component, the rubric's weights, each sentence's reward as a span, and facts in `metrics`.

    message: the index of the message that the completion is, for the spans; a sentence that earns 0 has none.
    Metrics: label (good, bad, na) with label_reference and label_boundary, refusal, format_ok and format_faults,
    strict_format_ok, answer (None without one), answer_chars, counts (one for each sentence, None without a query),
    sentences, repeated (sentences that say again what was said), counted (whether there was a counter), notes, and
    gates by name.
    """
    values = sentence_returns(score, rubric)
    spans = tuple(
        SpanCredit(message, one.sentence.start, one.sentence.end, float(value))
        for one, value in zip(score.sentences, values, strict=True)
        if value
    )
    return RewardReport(
        total=rubric.total(score.components, score.gates),
        components=dict(score.components),
        weights=dict(rubric.weights),
        gates=rubric.gate_factors(score.gates),
        spans=spans,
        metrics=_metrics(score),
    )


def _metrics(score: CorverScore) -> dict[str, Any]:
    notes = [] if score.counted else ["no counter: the sentence term is 0"]
    return {
        "label": score.label,
        "label_reference": score.labels["reference"],
        "label_boundary": score.labels["boundary"],
        "refusal": score.label == "na",
        "format_ok": score.format_ok,
        "format_faults": list(score.format_faults),
        "strict_format_ok": not score.strict_faults,
        "answer": score.answer,
        "answer_chars": len(score.answer or ""),
        "counts": list(score.counts),
        "sentences": len(score.sentences),
        "repeated": sum(one.note in ("repeated", "same words") for one in score.sentences),
        "counted": score.counted,
        "notes": notes,
        "gates": score.gates,
    }
