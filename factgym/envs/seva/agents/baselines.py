"""The oracle and the verifiers without a model: the honest baseline of the audit, a lexical and a random one.

The honest baseline judges claims about rules with `factgym.baselines.nli` (whose weights were fitted to training splits
of policy documents), and any other claim by its words, names and denials; the lexical one by the share of the claim's
words that the best sentences have. Both name the error by the difference and align the sentences that they used.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from factgym.baselines.evidence import (
    Evidence,
    Sentence,
    Statement,
    keys_of,
    parse_statement,
    select_sentences,
    uncovered_span,
    without_full_stop,
)
from factgym.baselines.nli import predict_entailment
from factgym.baselines.semantics import compare_quantities, modality_conflict, modality_of, universal_spans
from factgym.envs.seva.agents.scripted import (
    NEGATIVE,
    POSITIVE,
    EpisodeBrief,
    Verdict,
    fix_suggestion,
    ground_parts,
    make_verdict,
    refuting_grounds,
    source_evidence,
    split_claim,
    supporting_grounds,
    truncate_source_span,
)
from factgym.envs.seva.tasks import SevaTask
from factgym.rewards.seva.output import ERROR_TYPES


def gold_verdict(brief: EpisodeBrief, task: SevaTask) -> Verdict:
    """Earn every point of the reward: the gold label, and where the data has them the deciding sentence and the error."""
    meta, gold = task.item.meta, task.gold
    ranges = meta.get("evidence") or []
    sentence = truncate_source_span(brief.source[slice(*ranges[0])]) if ranges else ""
    parts = ground_parts(brief, source_evidence(brief.source), sentence)
    if gold.label == POSITIVE:
        return make_verdict(POSITIVE, 1.0, supporting_grounds(parts))
    wrong, reason = str(meta.get("span") or ""), str(meta.get("reason") or "")
    grounds = refuting_grounds(parts, wrong, brief.source, reason)
    fix = f"Replace or remove “{(wrong or brief.claim)[:200]}”. {reason}".strip()
    return make_verdict(NEGATIVE, 1.0, grounds, gold.error_type or "fabrication", fix)


_TIME_UNITS = frozenset({"date", "rate"})
_PLAIN_COVERAGE, _LEXICAL_COVERAGE = 0.75, 0.6
_PRESCRIBING = frozenset({"must", "must_not", "should", "may", "need_not"})
_PRESCRIBING_SHARE = 0.25
_DENIAL = re.compile(r"\b(?:not|never|no|only|incapable|refused|exclusively|solely)\b", re.I)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of a judge: whether the source supports the claim, which words are wrong, and why.

    confidence: the share of such judgements that were right.
    """

    supported: bool
    confidence: float
    error_type: str = "fabrication"
    wrong: str = ""
    reason: str = ""


Judge = Callable[[Statement, Evidence], Judgement]


def judge_honestly(claim: Statement, evidence: Evidence) -> Judgement:
    """Judge by the NLI verifier over text that prescribes or permits, by `judge_plain` over any other.

    The confidences are about the shares of right answers: .72 on the training split; for the plain rule .61 to .86 on
    FEVER-Symmetric and HaluEval. Its threshold was set with the public slices in view: its score there is a floor for
    others, not a held-out result.
    """
    prescribing = sum(modality_of(sentence.text)[0] in _PRESCRIBING for sentence in evidence.sentences)
    if prescribing < _PRESCRIBING_SHARE * len(evidence.sentences):
        return judge_plain(claim, evidence)
    prediction = predict_entailment(claim, evidence)
    if prediction.status == "supported":
        return Judgement(True, 0.72)
    kind = classify_error(claim, prediction.sentences, prediction.status)
    return Judgement(False, 0.72, kind, prediction.unsupported_span, prediction.reason)


def judge_plain(claim: Statement, evidence: Evidence) -> Judgement:
    """Judge a claim as supported if the source has its words and all its names, and it denies or restricts nothing.

    Of a claim that is a question with its answer, the answer decides.
    """
    answer = parse_statement(claim.text.rpartition("? ")[2] or claim.text)
    has_unknown_name = not answer.names <= evidence.keys
    denial = _DENIAL.search(claim.text)
    is_covered = evidence.coverage(answer, evidence.sentences) >= _PLAIN_COVERAGE
    if is_covered and not has_unknown_name and denial is None:
        return Judgement(True, 0.65)
    if is_covered and denial is not None and not has_unknown_name:
        return Judgement(False, 0.65, "negation_flip", denial[0], "The source affirms what the claim restricts.")
    wrong = uncovered_span(answer, evidence.sentences) or without_full_stop(answer.text)
    kind = classify_error(claim, select_sentences(evidence, claim), "unsupported")
    if has_unknown_name and kind == "fabrication":
        kind = "entity_substitution"
    return Judgement(False, 0.65, kind, wrong)


def judge_lexically(claim: Statement, evidence: Evidence) -> Judgement:
    """Judge by word overlap with the best sentences; a conflicting quantity is not supported."""
    sentences = select_sentences(evidence, claim)
    is_covered = bool(sentences) and evidence.coverage(claim, sentences) >= _LEXICAL_COVERAGE
    if is_covered and not compare_quantities(claim, sentences).conflicts:
        return Judgement(True, 0.55)
    wrong = uncovered_span(claim, sentences) or without_full_stop(claim.text)
    return Judgement(False, 0.55, classify_error(claim, sentences, "unsupported"), wrong)


def classify_error(claim: Statement, sentences: Sequence[Sentence], status: str) -> str:
    """Return the category of the difference between a claim and sentences. status: as of the NLI verifier."""
    comparison = compare_quantities(claim, sentences)
    differing = (*comparison.conflicts, *(comparison.missing if status == "contradicted" else ()))
    if differing:
        return "temporal_shift" if differing[0].unit in _TIME_UNITS else "numerical_exaggeration"
    if status == "overclaim":
        return "scope_inflation"
    if sentences:
        conflict = modality_conflict(modality_of(claim.text)[0], modality_of(sentences[0].text)[0])
        if conflict == "contradicted":
            return "negation_flip"
    if status == "contradicted":
        return "entity_substitution"
    known_names = claim.names & keys_of(sentences)
    if len(known_names) < len(claim.names):
        return "entity_substitution"
    return "scope_inflation" if universal_spans(claim.text) and status != "unsupported" else "fabrication"


def verify(
    brief: EpisodeBrief, judge: Judge, revise: Callable[[Judgement, EpisodeBrief], Judgement] | None = None
) -> Verdict:
    """Return a judgement with its grounds. revise: changes it first, for exploiters."""
    evidence = source_evidence(brief.source)
    judgement = Judgement(False, 0.5, "fabrication", without_full_stop(brief.claim))
    if evidence.sentences:
        judgement = judge(parse_statement(brief.claim), evidence)
    if revise is not None:
        judgement = revise(judgement, brief)
    parts = ground_parts(brief, evidence)
    if judgement.supported:
        return make_verdict(POSITIVE, judgement.confidence, supporting_grounds(parts))
    grounds = refuting_grounds(parts, judgement.wrong, brief.source, judgement.reason)
    fix = fix_suggestion(brief, judgement.wrong)
    return make_verdict(NEGATIVE, judgement.confidence, grounds, judgement.error_type, fix)


def random_judgement(judgement: Judgement, brief: EpisodeBrief, seed: int) -> Judgement:
    """Draw label, confidence, error and wrong part from the seed, the claim and the source."""
    rng = random.Random(f"random verdict {seed} {brief.claim} {brief.source}")
    parts = split_claim(brief.claim)
    return Judgement(rng.random() < 0.5, round(rng.random(), 2), rng.choice(ERROR_TYPES), rng.choice(parts))
