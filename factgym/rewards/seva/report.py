"""A score under a rubric: as a number, and as the report that an episode keeps."""

from __future__ import annotations

from factgym.core.episode import RewardReport, SpanCredit
from factgym.rewards.rubric import Rubric
from factgym.rewards.seva.output import read_output
from factgym.rewards.seva.rubrics import PROCESS
from factgym.rewards.seva.rules import DEFAULT_RULES, SevaRules
from factgym.rewards.seva.score import SevaGold, SevaScore, score_output


def reward_of(
    text: str,
    gold: SevaGold,
    rubric: Rubric = PROCESS,
    *,
    claim: str | None = None,
    source: str | None = None,
    rules: SevaRules = DEFAULT_RULES,
) -> float:
    """The reward of a policy's text, as a trainer's reward function needs it. Never raises for any text.

    Raises ConfigError when the rubric weighs grounded components and the claim or the source is missing.
    """
    score = score_output(read_output(text), gold, claim=claim, source=source, rules=rules)
    return rubric.total(score.components, score.gates)


def report_of(score: SevaScore, rubric: Rubric, spans: tuple[SpanCredit, ...] = ()) -> RewardReport:
    """The report: every component, the rubric's weights, and in `metrics` the facts.

    Metrics: gold_verdict and verdict (labels; None for none), gold_error_type and error_type, confidence (None when
    unparsed), parsed, format_ok, correct, spans, steps, and gates by name.
    """
    return RewardReport(
        total=rubric.total(score.components, score.gates),
        components=dict(score.components),
        weights=dict(rubric.weights),
        gates=rubric.gate_factors(score.gates),
        spans=spans,
        metrics={
            "gold_verdict": score.gold.label,
            "verdict": score.label,
            "gold_error_type": score.gold.error_type,
            "error_type": score.error_type,
            "confidence": score.confidence if score.parsed else None,
            "parsed": score.parsed,
            "format_ok": score.format_ok,
            "correct": score.correct,
            "spans": score.spans,
            "steps": score.steps,
            "gates": dict(score.gates),
        },
    )
