"""Fallback judges: deterministic, by the words of a case. English only.

They make every loop and report run without a model. They are no judges of meaning: their judgements and descriptions
are marked `stand_in`.
"""

from __future__ import annotations

from typing import Any

from factgym.agents.judges.base import Case, Judge, Judgement
from factgym.agents.judges.prompt import EVIDENCE_SUPPORT, PROBE_CHECK, JudgePrompt
from factgym.core.errors import ConfigError
from factgym.rewards.answer_matching import normalise_answer
from factgym.text.folding import fold
from factgym.text.numbers import ONES
from factgym.text.sentences import sentences
from factgym.text.words import terms, words_in


class _FallbackJudge(Judge):
    name: str
    how: str
    rubric: JudgePrompt

    def describe(self) -> dict[str, Any]:
        """Rubric, scale and rule."""
        about = self.rubric.describe() | {"prompt_sha256": None, "by": f"stand-in: {self.name}"}
        return about | {"stand_in": True, "how": self.how}

    def _judgement(self, label: str, reason: str) -> Judgement:
        return Judgement(self.rubric.grades[label], label, f"stand-in: {self.name}", stand_in=True, reason=reason)


class ContainmentJudge(_FallbackJudge):
    """Fallback for EVE's evidence judge: sufficient when the evidence contains the answer.

    Both are normalised like SQuAD's answers and compared word by word, so that "1" is not in "1975". It does not read
    the question: evidence that names the answer in passing passes, and an answer in other words fails.
    """

    name = "containment"
    how = "the normalised answer is in the evidence, word by word; the question is not read"
    rubric = EVIDENCE_SUPPORT

    async def judge(self, case: Case) -> Judgement:
        """Judge a case; see `Judge.judge`."""
        texts = self.rubric.check(case)
        answer, evidence = (normalise_answer(texts[name]) for name in ("answer", "evidence"))
        if not answer:
            return self._judgement("insufficient", "the answer is empty")
        if f" {answer} " in f" {evidence} ":
            return self._judgement("sufficient", "the evidence contains the answer")
        return self._judgement("insufficient", "the evidence does not contain the answer")


_NEGATIONS = words_in(
    "no not never none nor neither without nothing cannot can't don't doesn't didn't won't isn't aren't wasn't weren't"
)
_SMALL = {word: str(value) for value, word in enumerate(ONES[:13])}
_MIN_STEM = 4


class LexicalCheckJudge(_FallbackJudge):
    """Fallback for SEVA's cross-check of probes, by words, numbers and negations.

    A probe counts as attributable when the one sentence of the source that shares most words with it has its numbers,
    as many negations (even or odd) and at least `coverage` of its content words. It fails as undetectable when it
    equals its original, as wrong-label when the label is the other, and as wrong-type when a numerical error is
    claimed and no number differs. Fluency and the other error types are not examined.
    """

    name = "lexical check"
    how = "words, numbers and negations against the nearest sentence of the source; fluency is not looked at"
    rubric = PROBE_CHECK

    def __init__(self, coverage: float = 0.8) -> None:
        if not 0 < coverage <= 1:
            raise ConfigError(f"coverage must be in (0, 1], not {coverage!r}")
        self.coverage = coverage

    def describe(self) -> dict[str, Any]:
        """Rubric, scale, rule, and its coverage."""
        return super().describe() | {"coverage": self.coverage}

    async def judge(self, case: Case) -> Judgement:
        """Judge a case; see `Judge.judge`. Raises ConfigError for a label that is none of the two."""
        texts = self.rubric.check(case)
        labels = {"attributable": True, "not attributable": False}
        attributable = labels.get(" ".join(texts["label"].casefold().replace("_", " ").split()))
        if attributable is None:
            expected = "label is 'Attributable' or 'Not Attributable'"
            raise ConfigError(f"a case of {PROBE_CHECK.name!r}: {expected}, not {texts['label']!r:.80}")
        original, probe = texts["original"], texts["probe"]
        if not attributable and original and fold(original).casefold() == fold(probe).casefold():
            return self._judgement("undetectable", "the probe says what its original says")
        reason = self._mismatch(texts["source"], probe)
        if attributable and reason:
            return self._judgement("wrong-label", reason)
        if not attributable and not reason:
            return self._judgement(
                "wrong-label", "a sentence of the source has the probe's words, numbers and negations"
            )
        numerical = not attributable and texts["error_type"] == "numerical_exaggeration"
        if numerical and original and _numbers(original) == _numbers(probe):
            return self._judgement("wrong-type", "no number differs from the original")
        return self._judgement("pass", reason or "a sentence of the source carries the probe")

    def _mismatch(self, source: str, probe: str) -> str:
        """Why the nearest sentence of the source does not support the probe; empty when it does."""
        words = _words(probe)
        spans = sentences(source)
        if not words or not spans:
            return "the probe or the source has no words"
        nearest = max((source[start:end] for start, end in spans), key=lambda sentence: len(words & _words(sentence)))
        numbers = _numbers(probe) - _numbers(nearest)
        if numbers:
            return f"the nearest sentence does not have the number {min(numbers)}"
        # Parity: two negations cancel each other out.
        if _negations(nearest) % 2 != _negations(probe) % 2:
            return "the probe and the nearest sentence differ in a negation"
        if len(words & _words(nearest)) < self.coverage * len(words):
            return "the nearest sentence lacks words of the probe"
        return ""


def _words(text: str) -> set[str]:
    """Content words without a plural or a verb's s: enough for a changed subject, too little to join different words."""
    words = (_SMALL.get(word, word) for word in terms(text) if word not in _NEGATIONS)
    return {
        word[:-1] if len(word) > _MIN_STEM and word.endswith("s") and not word.endswith("ss") else word
        for word in words
    }


def _numbers(text: str) -> set[str]:
    return {word for word in _words(text) if word[0].isdigit()}


def _negations(text: str) -> int:
    folded = text.casefold().replace("’", "'").replace("can not", "cannot")
    return sum(word.strip(".,;:!?()\"'") in _NEGATIONS for word in folded.split())
