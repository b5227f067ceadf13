"""The grounded variant of SEVA's process components: what an output says is held against the claim and the source.

The published rubric looks at form alone: spans that stand in no text, one explanation repeated and a label that its
own steps deny earn all that honest work earns. Here an alignment or a step counts only when it can be true, and the
components are the share of the claim that the ones that count cover. Leaving something out therefore never pays.

An alignment counts when its claim span stands verbatim in the claim, its lengths are within equation 8's bounds, its
status is of the schema, and the source span stands verbatim in the source; or the span is NOT_FOUND, the status
`not_found`, and the claim span does not stand in the source. A `mismatch` of two equal texts is none.

A step counts when its part stands verbatim in the claim, its judgment is of the schema, its explanation has the length
that equation 9 asks for and names a content word of the claim, and its evidence stands verbatim in the source, or is
NOT_FOUND for a part that is not judged supported.

"Verbatim" is the package's one definition (`factgym.corpora.text.fold`): after Unicode NFKC and white-space folding.
Left out: whether a source span is the right one for its claim span, which needs a judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from factgym.corpora.text import STOP_WORDS, fold
from factgym.rewards.seva.labels import JUDGMENTS, LABELS, NOT_FOUND, STATUSES, Label
from factgym.rewards.seva.output import SevaOutput, text_in
from factgym.rewards.seva.rules import SevaRules

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Grounding:
    """alignment, chain: in [0, 1]. consistent: the label follows from the alignments and steps."""

    alignment: float
    chain: float
    consistent: bool


NOTHING_GROUNDED = Grounding(0.0, 0.0, False)
"""Of an output that cannot be parsed."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A text as shown, folded for comparison; `words` are the ranges of the content words of `folded`."""

    folded: str
    lower: str
    words: tuple[tuple[int, int], ...]

    @property
    def vocabulary(self) -> set[str]:
        return {self.lower[start:end] for start, end in self.words}

    def cover(self, place: tuple[int, int]) -> set[int]:
        """Which content words a range holds."""
        return {i for i, (start, end) in enumerate(self.words) if place[0] <= start and end <= place[1]}

    def find(self, folded: str) -> tuple[int, int] | None:
        at = self.folded.find(folded) if folded else -1
        return None if at < 0 else (at, at + len(folded))


@lru_cache(maxsize=512)
def _claim_text(text: str) -> _Text:
    folded = fold(text)
    all_words = [match.span() for match in _WORD.finditer(folded)]
    words = [(start, end) for start, end in all_words if folded[start:end].lower() not in STOP_WORDS]
    # Lower case may change the length of a text, and positions have to stay.
    lower = "".join(char.lower() if len(char.lower()) == 1 else char for char in folded)
    return _Text(folded, lower, tuple(words or all_words))


@lru_cache(maxsize=512)
def _source_text(text: str) -> tuple[str, str]:
    folded = fold(text)
    return folded, folded.casefold()


def ground(output: SevaOutput, label: Label | None, claim: str, source: str, rules: SevaRules) -> Grounding:
    """Hold an output against the texts. `label` is the one that it predicts."""
    shown = _claim_text(claim)
    alignments = list(_alignments(output.alignments, shown, source, rules))
    steps = list(_steps(output.chain, shown, source, rules))
    return Grounding(
        _coverage((one.place for one in alignments), shown, rules),
        _chain(steps, shown, rules),
        _is_consistent(output, label, [*alignments, *steps], bool(steps)),
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """An alignment or a step that counts: its place in the claim, and whether it speaks against the claim."""

    place: tuple[int, int]
    objects: bool
    explanation: str = ""


def _alignments(entries: list[Any], claim: _Text, source: str, rules: SevaRules) -> Iterator[_Counted]:
    folded, lower = _source_text(source)
    for entry in entries:
        status = entry.get("status") if isinstance(entry, dict) else None
        if not isinstance(status, str) or status not in STATUSES:
            continue
        ours, theirs = fold(text_in(entry, "claim_span")), fold(text_in(entry, "source_span"))
        place = claim.find(ours)
        if place is None or not rules.min_span_chars <= len(ours) <= rules.max_claim_span_chars:
            continue
        if status == "not_found":
            holds = theirs == NOT_FOUND and ours.casefold() not in lower
        else:
            holds = rules.min_span_chars <= len(theirs) <= rules.max_source_span_chars and theirs in folded
            holds = holds and (status == "match" or ours.casefold() != theirs.casefold())
        if holds:
            yield _Counted(place, status != "match")


def _steps(steps: list[Any], claim: _Text, source: str, rules: SevaRules) -> Iterator[_Counted]:
    folded, _ = _source_text(source)
    vocabulary = claim.vocabulary
    for step in steps:
        judgment = step.get("judgment") if isinstance(step, dict) else None
        if not isinstance(judgment, str) or judgment not in JUDGMENTS:
            continue
        part, explanation = fold(text_in(step, "claim_part")), fold(text_in(step, "explanation"))
        place = claim.find(part)
        if place is None or len(part) < rules.min_span_chars or len(explanation) < rules.min_explanation_chars:
            continue
        if vocabulary.isdisjoint(_WORD.findall(explanation.lower())):
            continue
        evidence = fold(text_in(step, "source_evidence"))
        if evidence == NOT_FOUND:
            holds = judgment != "supported"
        else:
            holds = len(evidence) >= rules.min_evidence_chars and evidence in folded
        if holds:
            yield _Counted(place, judgment != "supported", explanation)


def _coverage(places: Iterator[tuple[int, int]], claim: _Text, rules: SevaRules) -> float:
    """The share of the claim's content words that the places hold, as a share of what earns everything."""
    if not claim.words:
        return 0.0
    covered: set[int] = set()
    for place in set(places):
        covered |= claim.cover(place)
    return min(1.0, len(covered) / len(claim.words) / rules.full_coverage)


def _chain(steps: list[_Counted], claim: _Text, rules: SevaRules) -> float:
    """Coverage, and the bonus for different steps: other parts, with other explanations."""
    different = min(len({one.place for one in steps}), len({one.explanation for one in steps}))
    bonus = rules.length_bonus * min(1.0, different / rules.full_grounded_steps)
    return (1.0 - rules.length_bonus) * _coverage((one.place for one in steps), claim, rules) + bonus


def _is_consistent(output: SevaOutput, label: Label | None, counted: list[_Counted], has_step: bool) -> bool:
    """Positive: a step counts, and nothing at all speaks against the claim. Negative: something that counts does."""
    if label is None or not has_step:
        return False
    if label != LABELS[0]:
        return any(one.objects for one in counted)
    return not any(
        one.get("status") in STATUSES[1:] for one in output.alignments if _has_text(one, "status")
    ) and not any(one.get("judgment") in JUDGMENTS[1:] for one in output.chain if _has_text(one, "judgment"))


def _has_text(entry: object, key: str) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get(key), str)
