"""A score under a rubric, as the report that an episode keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from factgym.core.report import RewardReport, SpanCredit
from factgym.datasets.multihop.triple import Evidence
from factgym.rewards.eve.parse import Range
from factgym.rewards.eve.proposal import ProposalScore
from factgym.rewards.eve.solution import SolutionScore
from factgym.rewards.rubric import Rubric

_Places = tuple[tuple[Range | None, tuple[str, ...]], ...]
"""Blocks, and the components whose shares are credited to each."""


def report_of(
    score: ProposalScore | SolutionScore,
    rubric: Rubric,
    *,
    message: int = 0,
    metrics: Mapping[str, Any] | None = None,
) -> RewardReport:
    """The report: every component, the rubric's weights, credit on the blocks, and facts in `metrics`.

    message: the index of the message that the blocks were parsed from. The difficulty is credited to the question
    block, value and brevity to the evidence block, a solver's point to its answer block; what earns 0 has no span, and
    the format, which belongs to no block, has none. metrics: more facts, which are added to these.

    Of a proposal: question, answer, evidence, evidence_span ({"document", "start", "end"} or None), hops, format (its
    parts by name), format_guarded, difficulty, k, n, V, plus, minus (None where not measured), value_kind, brevity, valid,
    leak, gates. Of a solution: em, f1, evidence_f1 (None without gold evidence), answer, gold_answers, evidence,
    gold_evidence, evidence_present, evidence_verbatim, evidence_span, answer_tagged, gates.
    """
    shares = rubric.shares(score.components, score.gates)
    places, facts = _of_proposal(score) if isinstance(score, ProposalScore) else _of_solution(score)
    return RewardReport(
        total=rubric.total(score.components, score.gates),
        components=dict(score.components),
        weights=dict(rubric.weights),
        gates=rubric.gate_factors(score.gates),
        spans=tuple(
            SpanCredit(message, *place, credit)
            for place, names in places
            if place is not None and (credit := sum(shares.get(name, 0.0) for name in names))
        ),
        metrics={**facts, "gates": dict(score.gates), **(metrics or {})},
    )


def _of_proposal(score: ProposalScore) -> tuple[_Places, dict[str, Any]]:
    checked, proposal = score.checked, score.checked.proposal
    facts = {
        "question": proposal.question,
        "answer": proposal.answer,
        "evidence": proposal.evidence,
        "evidence_span": _place_of(checked.span),
        "hops": checked.hops,
        "format": checked.format._asdict(),
        "format_guarded": checked.format_guarded._asdict(),
        "difficulty": score.components["difficulty"],
        "k": score.correct,
        "n": score.n,
        "V": score.components["value"],
        "plus": score.plus,
        "minus": score.minus,
        "value_kind": score.value_kind,
        "brevity": checked.brevity,
        "valid": checked.valid,
        "leak": checked.leak,
    }
    return ((proposal.question_span, ("difficulty",)), (proposal.evidence_span, ("value", "brevity"))), facts


def _of_solution(score: SolutionScore) -> tuple[_Places, dict[str, Any]]:
    solution = score.solution
    facts = {
        "em": bool(score.components["correct"]),
        "f1": score.answer_f1,
        "evidence_f1": score.components["evidence"] if score.gold_evidence else None,
        "answer": solution.answer,
        "gold_answers": list(score.golds),
        "evidence": solution.evidence,
        "gold_evidence": score.gold_evidence,
        "evidence_present": bool(solution.evidence),
        "evidence_verbatim": score.span is not None,
        "evidence_span": _place_of(score.span),
        "answer_tagged": solution.tagged,
    }
    return ((solution.answer_span, ("correct",)), (solution.evidence_span, ("evidence",))), facts


def _place_of(span: Evidence | None) -> dict[str, Any] | None:
    return None if span is None else {"document": span.document, "start": span.start, "end": span.end}
