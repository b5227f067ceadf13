"""ProFact's reward: a score for the questions, one for the question-answer pairs, one for the verdict.

Source: ProFact, section 3.3, equations 5 and 6, with the strings and the empty cases of AVeriTeC's `eval.py`: a pair is
the question, a space and the answer; a yes-or-no answer carries its explanation; a question without an answer has the
official non-answer. The paper prints no weights, so `process` is the plain sum, 0 to 3; `noprocess` is the paper's "w/o
PR", the verdict alone. Macro-F1 and other figures over many claims belong to the evaluation.

The paper's sum compares texts. A question-answer string is mostly its question, so that an answer written without a
search earns nearly as much as one that was looked up, and a label guessed without evidence earns its whole share. Under
`guarded`, which is ours, a pair counts only when its answer is grounded in evidence that was found for its question, and
questions and verdict count by the share of the questions that were answered so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from factgym.core.errors import DataError, did_you_mean
from factgym.corpora.text import terms
from factgym.datasets.averitec import LABELS, NO_ANSWER
from factgym.rewards.profact.meteor import Match, Matching, MeteorSettings, match_texts
from factgym.rewards.profact.tokens import Tokenize, word_tokens
from factgym.rewards.rubric import Rubric

COMPONENTS = ("question", "qa", "verdict", "grounded_qa")
"""Components of every score, 0 to 1 each; the paper's are the first three."""
GATES = ("evidence",)
"""The share of the questions that were answered from evidence."""
CUTOFFS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Cutoffs at which the official scorer reports the AVeriTeC score; the paper's is 0.25."""

MIN_GROUNDED_SHARE = 0.5
"""Share of an answer's own words that must occur in the evidence."""
BALANCED_METEOR = MeteorSettings(alpha=0.5)
"""Equal weights of precision and recall. METEOR's own are 1 to 9, so that an answer of everything found pays."""

PROCESS = Rubric("process", {"question": 1.0, "qa": 1.0, "verdict": 1.0})
"""The paper's sum of the three stages: 0 to 3."""
NOPROCESS = Rubric("noprocess", {"verdict": 1.0})
"""The verdict alone, 0 or 1: the paper's "w/o PR"."""
_GUARDED_WEIGHTS = {"question": 1.0, "grounded_qa": 1.0, "verdict": 1.0}
GUARDED = Rubric("guarded", _GUARDED_WEIGHTS, dict.fromkeys(("question", "verdict"), "evidence"))
"""`PROCESS` with grounded pairs only, and questions and verdict gated by the evidence."""
RUBRICS: Mapping[str, Rubric] = {rubric.name: rubric for rubric in (PROCESS, NOPROCESS, GUARDED)}


@dataclass(frozen=True, slots=True)
class ProFactGold:
    """Gold of a claim: questions, question-answer strings (`evidence_strings`), and one of `LABELS`."""

    questions: tuple[str, ...]
    pairs: tuple[str, ...]
    verdict: str

    def __post_init__(self) -> None:
        if self.verdict not in LABELS:
            raise DataError(
                f"the gold verdict {self.verdict!r:.80} is no label.{did_you_mean(str(self.verdict), LABELS)}"
            )
        if not self.questions or not self.pairs:
            raise DataError("the gold record has no question: the official score divides by their number")


@dataclass(frozen=True, slots=True)
class ProFactScore:
    """Components and gates by name, and the assignments behind them: of questions, of pairs, of grounded pairs alone.

    The `prediction` of a grounded match counts among all pairs.
    """

    components: Mapping[str, float]
    gates: Mapping[str, float]
    question: Matching
    qa: Matching
    grounded: Matching


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
    matching = match_texts(
        [texts[index] for index in indices], gold.pairs, tokenize=tokenize, settings=BALANCED_METEOR
    )
    matches = (Match(indices[match.prediction], match.gold, match.similarity) for match in matching.matches)
    grounded_pairs = Matching(matching.score, tuple(matches))
    question = match_texts(questions, gold.questions, tokenize=tokenize)
    qa = match_texts(texts, gold.pairs, tokenize=tokenize)
    right = 1.0 if verdict == gold.verdict else 0.0
    components = dict(zip(COMPONENTS, (question.score, qa.score, right, grounded_pairs.score), strict=True))
    gates = {"evidence": len(indices) / len(questions) if questions else 0.0}
    return ProFactScore(components, gates, question, qa, grounded_pairs)


def is_grounded(question: str, answer: str, evidence: Iterable[str] | None) -> bool:
    """Return whether an answer rests on the evidence that was found for its question; None where nothing was searched.

    Of the words that it adds to its question at least half, and one, must occur in the evidence. The official
    non-answer adds none and needs no more than a search.
    """
    if evidence is None:
        return False
    if " ".join(answer.split()).casefold().startswith(NO_ANSWER.rstrip(".").casefold()):
        return True
    # Containment of sets of terms: how often a word occurs makes no difference.
    evidence_terms = frozenset(term for text in evidence for term in terms(text))
    added = frozenset(terms(answer)) - frozenset(terms(question))
    present = len(added & evidence_terms)
    return present >= 1 and present >= MIN_GROUNDED_SHARE * len(added)


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


def averitec_correct(label_right: bool, evidence: float, cutoff: float = 0.25, *, strict: bool = False) -> bool:
    """Return whether a claim counts for the AVeriTeC score: right label, and an evidence score that reaches the cutoff.

    evidence: the question-answer score. strict: it must exceed the cutoff, as in AVeriTeC's `eval.py`; the paper's
    reading, and the default, is "at least".
    """
    return label_right and (evidence > cutoff if strict else evidence >= cutoff)
