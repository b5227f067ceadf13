"""Scores a solution: exact match of its answer, token F1 of its evidence, and whether that evidence was before it.

Source: EVE, equations 19 to 21. The published evidence reward compares words with the gold span and does not ask where
they come from; the gates, which are ours, do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from factgym.datasets.multihop.triple import Evidence
from factgym.rewards.eve.answers import exact_match, token_f1
from factgym.rewards.eve.parse import Solution
from factgym.rewards.eve.rules import DEFAULT_RULES, EveRules
from factgym.rewards.eve.spans import Texts, holds_answer, is_anchored, is_focused, is_yes_no, locate, words_beside


@dataclass(frozen=True, slots=True)
class SolutionScore:
    """The components and gates of a solution; see `factgym.rewards.eve.rubrics` for their names.

    golds: the gold answers. gold_evidence: the gold spans as one text, "" where there are none, and then the evidence
    component is 0. answer_f1: token F1 of the answer, which earns nothing. span: where the evidence stands in the texts
    that the solver was shown, None where it does not.
    """

    solution: Solution
    golds: tuple[str, ...]
    gold_evidence: str
    components: dict[str, float]
    gates: dict[str, float]
    answer_f1: float
    span: Evidence | None


def score_solution(
    solution: Solution,
    golds: str | Sequence[str],
    gold_evidence: str | Sequence[str] = (),
    *,
    question: str,
    texts: Texts = (),
    queries: Sequence[str] = (),
    rules: EveRules = DEFAULT_RULES,
) -> SolutionScore:
    """Score a solution.

    golds: answers that count as right. gold_evidence: the gold span, or several, which are compared as one text in
    their order. texts: (document id, text) of the passages that the solver was shown in this episode, in their order.
    queries: what it searched for; read where there is no gold evidence.
    """
    answers = (golds,) if isinstance(golds, str) else tuple(golds)
    spans = (gold_evidence,) if isinstance(gold_evidence, str) else gold_evidence
    gold = " ".join(one for one in spans if one.strip())
    components = {
        "correct": float(exact_match(solution.answer, answers)),
        "evidence": token_f1(solution.evidence, gold) if gold else 0.0,
    }
    place = locate(solution.evidence, texts)
    focused = place is not None and is_focused(*place, rules)
    if gold:
        near = components["evidence"] >= rules.min_evidence_f1
        anchored = place is not None and near and _says_enough(solution.answer, place[0].text, gold, rules)
    else:
        anchored = place is not None and is_anchored(question, solution.answer, place[0].text, rules, queries=queries)
    backed = place is not None and _is_backed(solution.answer, place[0].text, gold)
    gates = {
        "verbatim": float(place is not None),
        "focused": float(focused),
        "anchored": float(anchored),
        "backed": float(backed),
        "grounded": 1.0 if focused and anchored and backed else rules.ungrounded_share,
    }
    f1 = token_f1(solution.answer, answers)
    return SolutionScore(solution, answers, gold, components, gates, f1, place[0] if place else None)


def _says_enough(answer: str, evidence: str, gold: str, rules: EveRules) -> bool:
    """Whether the evidence says more than the answer, as much as the gold evidence does at most."""
    wanted = min(rules.min_evidence_terms, len(words_beside(answer, gold)))
    return len(words_beside(answer, evidence)) >= wanted


def _is_backed(answer: str, evidence: str, gold: str) -> bool:
    """Whether the evidence holds the answer, unless no evidence can: yes, no, and what the gold does not hold either."""
    return is_yes_no(answer) or holds_answer(answer, evidence) or bool(gold and not holds_answer(answer, gold))
