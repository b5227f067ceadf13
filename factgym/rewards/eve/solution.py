"""Score of a solution: exact match of its answer, token F1 of its evidence, and whether it was shown that evidence.

Source: EVE, equations 19 to 21. The published evidence reward compares words with the gold span, wherever they come
from; the gates, which are ours, check their origin.
"""

from __future__ import annotations

from collections.abc import Sequence

from factgym.rewards.answer_matching import exact_match, token_f1
from factgym.rewards.eve.rubrics import DEFAULT_RULES, EveRules, EveScore
from factgym.rewards.eve.spans import (
    Solution,
    Texts,
    contains_answer,
    find_span,
    is_focused,
    is_related,
    is_yes_no,
    span_json,
    stems_beyond,
)


def score_solution(
    solution: Solution,
    golds: str | Sequence[str],
    gold_evidence: str | Sequence[str] = (),
    *,
    question: str,
    texts: Texts = (),
    queries: Sequence[str] = (),
    rules: EveRules = DEFAULT_RULES,
) -> EveScore:
    """Score a solution.

    golds: the right answers. gold_evidence: the gold span, or several, which are compared as one text in their order.
    texts: (document id, text) of the passages that the solver was shown in this episode, in their order. queries: its
    search queries, which are read where there is no gold evidence; the evidence component is 0 then. In the facts
    evidence_f1 is None without gold evidence, and f1 is the token F1 of the answer, which earns nothing.
    """
    texts = list(texts)
    answers = (golds,) if isinstance(golds, str) else tuple(golds)
    spans = (gold_evidence,) if isinstance(gold_evidence, str) else gold_evidence
    gold = " ".join(span for span in spans if span.strip())
    answer = solution.answer
    evidence_f1 = token_f1(solution.evidence, gold) if gold else 0.0
    match = find_span(solution.evidence, texts)
    span = None if match is None else match[0]
    focused = anchored = backed = False
    if match is not None:
        quote = match[0].text
        focused = is_focused(*match, rules)
        if gold:
            # More than the answer, but no more than the gold evidence says beside it.
            needed = min(rules.min_evidence_terms, len(stems_beyond(answer, gold)))
            anchored = evidence_f1 >= rules.min_evidence_f1 and len(stems_beyond(answer, quote)) >= needed
        else:
            anchored = is_related(question, answer, match[0], texts, rules, queries=queries)
        # No evidence can contain yes or no, nor an answer that the gold evidence contains in none of its accepted forms.
        forms = answers if exact_match(answer, answers) else (answer,)
        in_gold = [form for form in forms if contains_answer(form, gold)]
        backed = contains_answer(answer, quote) or is_yes_no(answer)
        backed = backed or (any(contains_answer(form, quote) for form in in_gold) if in_gold else bool(gold))
    gates = {
        "verbatim": float(span is not None),
        "focused": float(focused),
        "anchored": float(anchored),
        "backed": float(backed),
        "grounded": 1.0 if focused and anchored and backed else rules.ungrounded_share,
    }
    components = {"correct": float(exact_match(answer, answers)), "evidence": evidence_f1}
    facts = {
        "em": bool(components["correct"]),
        "f1": token_f1(answer, answers),
        "evidence_f1": evidence_f1 if gold else None,
        "answer": answer,
        "gold_answers": list(answers),
        "evidence": solution.evidence,
        "gold_evidence": gold,
        "evidence_present": bool(solution.evidence),
        "evidence_verbatim": span is not None,
        "evidence_span": span_json(span),
        "answer_tagged": solution.tagged,
    }
    blocks = ((solution.answer_span, ("correct",)), (solution.evidence_span, ("evidence",)))
    return EveScore(components, gates, blocks, facts)
