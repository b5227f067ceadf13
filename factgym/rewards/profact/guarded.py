"""A guard for ProFact's reward: what is said without having looked earns nothing.

The paper's sum (`PROCESS`) compares texts. A question-answer string is mostly its question, so that an answer written
without a search earns nearly as much as one that was looked up, and a label guessed without evidence earns its whole
share. Under `GUARDED` a pair counts only when its answer is grounded in evidence that was found for its question, and
questions and verdict count as far as the posed questions were answered so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from factgym.corpora.text import terms
from factgym.rewards.profact.matching import Match, Matching, match_texts
from factgym.rewards.profact.meteor import MeteorSettings
from factgym.rewards.profact.stages import (
    COMPONENTS,
    NO_ANSWER,
    RUBRICS,
    ProFactGold,
    ProFactScore,
    score_stages,
)
from factgym.rewards.profact.tokens import Tokenize, word_tokens
from factgym.rewards.rubric import Rubric

ALL_COMPONENTS = (*COMPONENTS, "grounded_qa")
GATES = ("evidence",)
LEAST_SHARE = 0.5
EVEN_METEOR = MeteorSettings(alpha=0.5)
"""Precision and recall weigh alike. METEOR's own weights are 1 to 9, so that an answer of everything found pays."""

GUARDED = Rubric(
    "guarded",
    {"question": 1.0, "grounded_qa": 1.0, "verdict": 1.0},
    {"question": "evidence", "verdict": "evidence"},
)
"""As `PROCESS`, but only grounded pairs count, and questions and verdict as far as questions were answered from evidence."""
ALL_RUBRICS: Mapping[str, Rubric] = MappingProxyType({**RUBRICS, GUARDED.name: GUARDED})


@dataclass(frozen=True, slots=True)
class GuardedScore:
    """The paper's score, the assignment of the grounded pairs alone, and the share of questions answered from evidence.

    grounded: matches whose `prediction` is the pair's place among all pairs.
    """

    stages: ProFactScore
    grounded: Matching
    evidence: float

    @property
    def components(self) -> dict[str, float]:
        """Name -> value, in the order of `ALL_COMPONENTS`."""
        return {**self.stages.components, "grounded_qa": self.grounded.score}

    @property
    def gates(self) -> dict[str, float]:
        """Name -> factor."""
        return {"evidence": self.evidence}


def score_guarded(
    questions: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    grounded: Sequence[bool],
    verdict: str | None,
    gold: ProFactGold,
    *,
    tokenize: Tokenize = word_tokens,
) -> GuardedScore:
    """Score an episode once, for every rubric.

    questions, pairs, verdict: as of `score_stages`. grounded: for each pair, whether its answer is (`is_grounded`).
    """
    stages = score_stages(questions, pairs, verdict, gold, tokenize=tokenize)
    kept = [place for place, good in enumerate(grounded) if good]
    texts = [f"{pairs[place][0]} {pairs[place][1]}" for place in kept]
    found = match_texts(texts, gold.pairs, tokenize=tokenize, settings=EVEN_METEOR)
    matches = tuple(Match(kept[one.prediction], one.gold, one.similarity) for one in found.matches)
    found = Matching(found.score, matches)
    return GuardedScore(stages, found, len(kept) / len(questions) if questions else 0.0)


def is_grounded(question: str, answer: str, evidence: Iterable[str] | None) -> bool:
    """Whether an answer rests on the evidence that was found for its question; None where nothing was looked for.

    Of the words that it adds to its question at least half, and one, must stand there. The official non-answer adds
    none and needs no more than a search.
    """
    if evidence is None:
        return False
    if is_non_answer(answer):
        return True
    seen = frozenset(term for text in evidence for term in terms(text))
    added = frozenset(terms(answer)) - frozenset(terms(question))
    present = len(added & seen)
    return present >= 1 and present >= LEAST_SHARE * len(added)


def is_non_answer(answer: str) -> bool:
    """Whether an answer says that there is none, in the official words."""
    return " ".join(answer.split()).casefold().startswith(NO_ANSWER.rstrip(".").casefold())
