"""ProFact's reward: a score for the questions, one for the question-answer pairs, one for the verdict.

Source: ProFact, section 3.3, equations 5 and 6, with the strings and the empty cases of AVeriTeC's `eval.py`: a pair is
the question, a space and the answer; a yes-or-no answer carries its explanation; a question without an answer has the
official non-answer. The paper prints no weights, so `process` is the plain sum, 0 to 3; `noprocess` is the paper's "w/o
PR", the verdict alone. Macro-F1 and other figures over many claims belong to the evaluation.

The paper's sum compares texts. A question-answer string is mostly its question, and a question that copies the claim
shares its words with the gold questions, so that an answer written without a search earns nearly as much as one that was
looked up; and a label that most claims have earns its share without a look. Under `guarded`, which is ours, each term is a
gain over such play: a pair counts only when its answer is grounded in evidence that was found for its question; questions
and pairs earn by how much more than the claim itself they agree with the gold; a label earns what it is worth beyond its
probability by the claim's words alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.core.errors import DataError, did_you_mean
from factgym.datasets.averitec import LABELS, NO_ANSWER, NOT_ENOUGH
from factgym.rewards.profact.meteor import (
    MAX_PREDICTIONS,
    Match,
    Matching,
    MeteorSettings,
    best_matching,
    match_texts,
    meteor_matrix,
)
from factgym.rewards.rubric import Rubric
from factgym.text.numbers import value_terms
from factgym.text.sentences import sentences
from factgym.text.stems import porter_stem
from factgym.text.treebank import Tokenize, word_tokens

COMPONENTS = ("question", "qa", "verdict", "new_question", "grounded_qa", "informed_verdict")
"""Components of every score, the paper's first: 0 to 1 each, but the last, which is -1 to 2."""
GATES = ("evidence", "judgement")
"""The share of the questions that were answered from evidence; that share where the label rests on an answer."""
CUTOFFS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Cutoffs at which the official scorer reports the AVeriTeC score; the paper's is 0.25."""

MIN_GROUNDED_SHARE = 0.5
"""Share of the terms that an answer adds to its question which must occur in the evidence."""
MIN_TOPIC_SHARE, MIN_ECHO_SHARE = 0.2, 0.75
"""Share of a question's terms in a text that bears on it, and in a sentence that states it."""
MAX_FREE_TERMS, TERMS_PER_TOPIC_WORD = 8, 40
"""Terms that an answer may add before it needs words of question or claim, and how many each of these allows.

Chosen on AVeriTeC's train claims: 96 % of the gold answers are grounded, of pasted hits on another claim 37 %, of three
such hits together 29 %; without this rule 99 % of all.
"""
_NON_ANSWER = re.compile(rf"\s*{re.escape(NO_ANSWER.rstrip('.'))}[\s.!]*", re.I)
_POLARITY = re.compile(r"\A(?:yes|no|true|false|correct|incorrect)\b[\s.,;:!]*", re.I)
BALANCED_METEOR = MeteorSettings(alpha=0.5)
"""Equal weights of precision and recall. METEOR's own are 1 to 9, so that an answer of everything found pays."""

_CLAIM_FORMS = ("{}?", "Did {}?", "Is it true that {}?")

PROCESS = Rubric("process", {"question": 1.0, "qa": 1.0, "verdict": 1.0})
"""The paper's sum of the three stages: 0 to 3."""
NOPROCESS = Rubric("noprocess", {"verdict": 1.0})
"""The verdict alone, 0 or 1: the paper's "w/o PR"."""
GUARDED = Rubric(
    "guarded",
    {"new_question": 1.0, "grounded_qa": 1.0, "informed_verdict": 1.0},
    {"new_question": "evidence", "informed_verdict": "judgement"},
)
"""The gains over the claim's own words and over what they tell of the label, of grounded pairs only, gated by the evidence."""
RUBRICS: Mapping[str, Rubric] = {rubric.name: rubric for rubric in (PROCESS, NOPROCESS, GUARDED)}


@dataclass(frozen=True, slots=True)
class ProFactGold:
    """Gold of a claim: questions, question-answer strings (`evidence_strings`), and one of `LABELS`.

    claim: its text, over whose words `guarded` measures the gain. prior: label -> its probability before any evidence.
    chance: how often labels drawn from the priors are right, as a mean over the claims; by default of equal labels.
    """

    questions: tuple[str, ...]
    pairs: tuple[str, ...]
    verdict: str
    claim: str = ""
    prior: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(LABELS, 1 / len(LABELS)))
    chance: float = 1 / len(LABELS)

    def __post_init__(self) -> None:
        if self.verdict not in LABELS:
            raise DataError(
                f"the gold verdict {self.verdict!r:.80} is no label.{did_you_mean(str(self.verdict), LABELS)}"
            )
        if not self.questions or not self.pairs:
            raise DataError("the gold record has no question: the official score divides by their number")


@dataclass(frozen=True, slots=True)
class ProFactScore:
    """Components and gates by name, and the matchings behind the first four components and `grounded_qa`, by name.

    The `prediction` of a grounded match counts among all pairs.
    """

    components: Mapping[str, float]
    gates: Mapping[str, float]
    matchings: Mapping[str, Matching]


def score_stages(
    questions: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    verdict: str | None,
    gold: ProFactGold,
    *,
    grounded: Sequence[bool] = (),
    tokenize: Tokenize = word_tokens,
) -> ProFactScore:
    """Score an episode once, for every rubric.

    questions: as posed, in order. pairs: (question, answer) of those answered. verdict: a label, or None without one.
    grounded: for each pair whether its answer is (`is_grounded`). Empty and missing parts score 0.
    """
    texts = [f"{question} {answer}" for question, answer in pairs]
    indices = [index for index, holds in enumerate(grounded) if holds]
    gain = match_gains([texts[index] for index in indices], gold.pairs, gold.claim, tokenize)
    matches = (Match(indices[match.prediction], match.gold, match.similarity) for match in gain.matches)
    matchings = {
        "question": match_texts(questions, gold.questions, tokenize=tokenize),
        "qa": match_texts(texts, gold.pairs, tokenize=tokenize),
        "new_question": match_gains(questions, gold.questions, gold.claim, tokenize),
        "grounded_qa": Matching(gain.score, tuple(matches)),
    }
    components = dict.fromkeys(COMPONENTS, 0.0) | {name: matching.score for name, matching in matchings.items()}
    components["verdict"] = 1.0 if verdict == gold.verdict else 0.0
    components["informed_verdict"] = informed_verdict(verdict, gold)
    evidence = len(indices) / len(questions) if questions else 0.0
    # A decision rests on an answer that says something; that nothing was found is a reason for one label alone.
    is_based = verdict == NOT_ENOUGH or any(_NON_ANSWER.sub("", pairs[index][1]).strip() for index in indices)
    return ProFactScore(components, {"evidence": evidence, "judgement": evidence * is_based}, matchings)


def match_gains(
    predictions: Sequence[str], golds: Sequence[str], claim: str, tokenize: Tokenize = word_tokens
) -> Matching:
    """Return the best assignment by the gain of balanced METEOR over the claim's own: (m - c) / (1 - c), at least 0.

    c: the highest METEOR of a gold text with the claim as a question. A copy of the claim gains nothing, a gold text 1.
    """
    claim = claim.strip().rstrip(".!?")
    copies = [form.format(claim) for form in _CLAIM_FORMS] if claim else []
    similarities, baselines = (
        meteor_matrix(texts, golds, tokenize=tokenize, settings=BALANCED_METEOR)
        for texts in (predictions[:MAX_PREDICTIONS], copies)
    )
    baseline = baselines.max(axis=0, initial=0.0)
    # A gold text that is the claim itself leaves nothing to gain.
    gains = (similarities - baseline) / (1 - baseline).clip(min=0.05)
    return best_matching(gains.clip(0.0, 1.0))


def informed_verdict(verdict: str | None, gold: ProFactGold) -> float:
    """Return (1 if right else 0, minus the label's prior probability) / (1 - chance); 0 without a label.

    A label that is given by no more than the prior knows earns 0 on average, whichever it is, and all right ones 1. Where
    all claims have the labels' frequencies as their prior, the mean is Cohen's kappa (1960).
    """
    if verdict is None or verdict not in gold.prior:
        return 0.0
    return ((verdict == gold.verdict) - gold.prior[verdict]) / (1 - gold.chance)


def is_grounded(question: str, answer: str, evidence: Iterable[str] | None, claim: str = "") -> bool:
    """Return whether an answer rests on the evidence that was found for its question; None where nothing was searched.

    The official non-answer needs no more than a search; with a text after it, that text is judged. Else, of the terms that
    the answer adds to its question:

    - None (a bare yes or no): a text of the evidence must hold `MIN_TOPIC_SHARE` of the question's terms.
    - Numbers and dates must all occur in the evidence, as values (`factgym.text.numbers`).
    - At least half of all, and one, must occur in the evidence.
    - Of an answer that repeats its question with one more term, one sentence must hold both, and so state it.
    - Beyond `MAX_FREE_TERMS` the answer must share a word with the question or the claim, and one more for every
      `TERMS_PER_TOPIC_WORD`: pasted evidence on something else is no answer.
    """
    if evidence is None:
        return False
    rest = _NON_ANSWER.sub("", answer).strip()
    if not rest:
        return True
    texts = list(evidence)
    question_terms, answer_terms = _answer_terms(question), _answer_terms(_POLARITY.sub("", rest))
    added = answer_terms - question_terms
    if not added:
        topics = (len(question_terms & _answer_terms(text)) for text in texts)
        return bool(_POLARITY.match(rest)) and max(topics, default=0) >= max(1, MIN_TOPIC_SHARE * len(question_terms))
    present = added & frozenset().union(*map(_answer_terms, texts))
    if len(present) < MIN_GROUNDED_SHARE * len(added) or any(term[0].isdigit() for term in added - present):
        return False
    if len(added) > MAX_FREE_TERMS:
        shared = _stems(answer_terms) & _stems(question_terms | _answer_terms(claim))
        if len(shared) < 1 + len(added) // TERMS_PER_TOPIC_WORD:
            return False
    if len(added) > 1 or len(answer_terms & question_terms) < MIN_GROUNDED_SHARE * len(question_terms):
        return bool(present)
    needed = added, MIN_ECHO_SHARE * len(question_terms)
    stated = (_answer_terms(text[start:end]) for text in texts for start, end in sentences(text))
    return any(needed[0] <= terms_stated and len(question_terms & terms_stated) >= needed[1] for terms_stated in stated)


def _answer_terms(text: str) -> frozenset[str]:
    return frozenset(value_terms(text))


def _stems(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(porter_stem, words))


def comparison_strings(questions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one string per answer of a raw `questions` list of AVeriTeC, as the official scorer compares them.

    Raises KeyError, TypeError or AttributeError for another layout.
    """
    strings: list[str] = []
    for question in questions:
        answers = question["answers"] if isinstance(question["answers"], list) else [question["answers"]]
        for answer in answers:
            text = f"{question['question']} {answer['answer']}"
            boolean = answer.get("answer_type") == "Boolean"
            strings.append(f"{text}. {answer['boolean_explanation']}" if boolean else text)
        if not answers:
            strings.append(f"{question['question']} {NO_ANSWER}")
    return strings


def averitec_correct(label_right: bool, evidence: float, cutoff: float = 0.25) -> bool:
    """Return whether a claim counts for the AVeriTeC score: right label, and an evidence score that exceeds the cutoff.

    evidence: the question-answer score. The paper's "exceeds" is also that of AVeriTeC's `eval.py`.
    """
    return label_right and evidence > cutoff
