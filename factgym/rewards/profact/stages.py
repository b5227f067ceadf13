"""ProFact's reward: a score for the questions, one for the questions with their answers, one for the verdict.

Source: ProFact, section 3.3, equations 5 and 6, with the strings and the empty cases of AVeriTeC's `eval.py`: a pair is
the question, a space and the answer; a yes-or-no answer carries its explanation; a question without an answer says so.
The paper prints no weights, so `process` is the plain sum, 0 to 3; `noprocess` is the paper's "w/o PR", the verdict
alone. Macro-F1 and other figures over many claims belong to the evaluation, not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.rewards.profact.matching import Matching, match_texts
from factgym.rewards.profact.tokens import Tokenize, word_tokens
from factgym.rewards.rubric import Rubric

LABELS = ("Supported", "Refuted", "Not Enough Evidence", "Conflicting Evidence/Cherrypicking")
COMPONENTS = ("question", "qa", "verdict")
CUTOFFS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Where the official scorer reports the AVeriTeC score; the paper's is at 0.25."""
NO_ANSWER = "No answer could be found."

PROCESS = Rubric("process", dict.fromkeys(COMPONENTS, 1.0))
"""The question score, the question-answer score and the verdict, summed: 0 to 3."""
NOPROCESS = Rubric("noprocess", {"verdict": 1.0})
"""The verdict alone, 0 or 1: the paper's "w/o PR"."""
RUBRICS: Mapping[str, Rubric] = MappingProxyType({rubric.name: rubric for rubric in (PROCESS, NOPROCESS)})


@dataclass(frozen=True, slots=True)
class ProFactGold:
    """What a claim is scored against: questions, question-answer strings (`comparison_strings`), one of `LABELS`."""

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
    """The three components, 0 to 1 each, and the assignments that the first two come from."""

    question: Matching
    qa: Matching
    verdict: float

    @property
    def components(self) -> dict[str, float]:
        """Name -> value, in the order of `COMPONENTS`."""
        return {"question": self.question.score, "qa": self.qa.score, "verdict": self.verdict}


def score_stages(
    questions: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    verdict: str | None,
    gold: ProFactGold,
    *,
    tokenize: Tokenize = word_tokens,
) -> ProFactScore:
    """Score what a policy asked, answered and judged.

    questions: as posed, in order. pairs: (question, answer) of those answered. verdict: a label, or None when there is
    none. What is empty or missing scores 0.
    """
    return ProFactScore(
        question=match_texts(questions, gold.questions, tokenize=tokenize),
        qa=match_texts([f"{question} {answer}" for question, answer in pairs], gold.pairs, tokenize=tokenize),
        verdict=verdict_score(verdict, gold.verdict),
    )


def verdict_score(verdict: str | None, gold: str) -> float:
    """1 when the label is the gold one, letter by letter, else 0."""
    return 1.0 if verdict == gold else 0.0


def gold_of(record: Mapping[str, Any]) -> ProFactGold:
    """The gold of a record of AVeriTeC's train or dev file. Raises DataError when it cannot be scored."""
    try:
        questions = record["questions"]
        return ProFactGold(
            tuple(one["question"] for one in questions), tuple(comparison_strings(questions)), record["label"]
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"not a record of AVeriTeC: it needs 'label' and 'questions' ({error!r:.80})") from error


def comparison_strings(questions: Sequence[Mapping[str, Any]]) -> list[str]:
    """One string for each answer of AVeriTeC's `questions` list, as the official scorer compares them."""
    found: list[str] = []
    for one in questions:
        answers = one["answers"] if isinstance(one["answers"], list) else [one["answers"]]
        found.extend(_pair(one["question"], answer) for answer in answers)
        if not answers:
            found.append(f"{one['question']} {NO_ANSWER}")
    return found


def _pair(question: str, answer: Mapping[str, Any]) -> str:
    text = f"{question} {answer['answer']}"
    return f"{text}. {answer['boolean_explanation']}" if answer.get("answer_type") == "Boolean" else text


def averitec_correct(label_right: bool, evidence: float, cutoff: float = 0.25, *, strict: bool = False) -> bool:
    """Whether a claim counts for the AVeriTeC score: the label is right and the evidence score reaches the cutoff.

    evidence: the question-answer score. strict: it must lie above the cutoff, as in AVeriTeC's `eval.py`; the paper's
    reading, and the default, is "at least".
    """
    return label_right and (evidence > cutoff if strict else evidence >= cutoff)


def find_rubric(name: str) -> Rubric:
    """The preset of this name. Raises ConfigError for another."""
    if name not in RUBRICS:
        raise ConfigError(
            f"there is no ProFact rubric {name!r:.80}.{did_you_mean(name, RUBRICS)} Use {', '.join(RUBRICS)}."
        )
    return RUBRICS[name]
