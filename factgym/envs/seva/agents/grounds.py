"""The evidence part of a verdict: the claim in parts, the sentence of the source for each, and steps that say so.

Spans are verbatim in the texts and within the lengths of the paper's rubric. Which sentence belongs to a part is
decided by shared words, weighted by how rare they are in the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from factgym.baselines.reading import Reading, Seen, Statement, reading_of, statement_of
from factgym.corpora.text import terms
from factgym.envs.seva.agents.script import NOT_FOUND, Brief, align, step

MAX_CLAIM_SPAN, MAX_SOURCE_SPAN, MIN_SPAN = 200, 500, 3
_MAX_PARTS = 8
_LONG_PART = 90
_JOINT = re.compile(r"(?<=[.;?!])\s+|,\s+|\s+(?=(?:and|but|or|which|who|that|because|if|when|after|before|unless)\s)")


@dataclass(frozen=True, slots=True)
class Pair:
    """A part of the claim, verbatim, and the sentence of the source that is nearest to it, verbatim or empty.

    named: how an explanation calls the part; one without a content word is named with its claim.
    """

    part: str
    source: str
    named: str


def reading(source: str) -> Reading:
    """The sentences of a source."""
    return reading_of([Seen("S", "", source)])


def claim_parts(claim: str) -> list[str]:
    """The claim in two to eight verbatim parts that cover it; one where it has a single word."""
    parts = [piece for piece in _pieces(claim) if len(piece) >= MIN_SPAN]
    if len(parts) == 1:
        parts = _halved(parts[0])
    return parts[:_MAX_PARTS] or [claim.strip()[:MAX_CLAIM_SPAN]]


def _pieces(claim: str) -> Iterator[str]:
    """Clauses, short ones joined to what follows them."""
    start = 0
    for cut in [*_JOINT.finditer(claim), None]:
        end = len(claim) if cut is None else cut.start()
        if cut is not None and (end - start < _LONG_PART // 3 or len(claim) - cut.end() < _LONG_PART // 3):
            continue
        piece = claim[start:end].strip()
        while len(piece) > MAX_CLAIM_SPAN:
            at = piece.rfind(" ", 1, MAX_CLAIM_SPAN)
            at = MAX_CLAIM_SPAN if at < 0 else at
            yield piece[:at].strip()
            piece = piece[at:].strip()
        yield piece
        start = end if cut is None else cut.end()


def _halved(part: str) -> list[str]:
    middle = part.find(" ", len(part) // 2)
    middle = part.rfind(" ") if middle < 0 else middle
    halves = [part[:middle].strip(), part[middle:].strip()] if middle > 0 else [part]
    return halves if all(len(half) >= MIN_SPAN for half in halves) else [part]


def nearest(asked: Statement, sentences: Reading, source: str) -> str:
    """The sentence of the source that shares most with a statement, cut to the rubric's length."""
    if not sentences.lines:
        return cut(source)
    best = max(sentences.lines, key=lambda line: sentences.overlap(asked, line))
    return cut(best.text)


def cut(text: str) -> str:
    """The beginning of a text, whole words, within the length of a source span."""
    text = text.strip()
    if len(text) <= MAX_SOURCE_SPAN:
        return text
    at = text.rfind(" ", 1, MAX_SOURCE_SPAN)
    return text[: MAX_SOURCE_SPAN if at < 0 else at].strip()


def pairs(brief: Brief, sentences: Reading, whole: str = "") -> list[Pair]:
    """Each part of the claim with its sentence; `whole` is the sentence for the whole claim, where it is known."""
    return [
        _pair(part, whole or nearest(statement_of(part), sentences, brief.source), brief.claim)
        for part in claim_parts(brief.claim)
    ]


def _pair(part: str, sentence: str, claim: str) -> Pair:
    return Pair(part, sentence, f"“{part}”" if terms(part) else f"“{part}” of “{claim[:MAX_CLAIM_SPAN]}”")


def carried(found: Sequence[Pair]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Alignments and steps that find every part in the source."""
    alignments = [align(one.part, one.source, "match") for one in found]
    steps = [step(one.part, one.source, "supported", f"The source states {one.named}.") for one in found]
    return alignments, steps


def broken(
    found: Sequence[Pair], wrong: str, source: str, reason: str
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Alignments and steps for a claim of which `wrong`, verbatim in it, is not carried; else its last part is."""
    at = _faulty(found, wrong)
    alignments, steps = carried([one for place, one in enumerate(found) if place != at])
    one = found[at]
    lies = _contrast(one.part, one.source, source)
    alignments.insert(at, lies)
    said = f"The source does not state {one.named}. {reason}".strip()
    steps.insert(at, step(one.part, lies["source_span"], "not_supported", said))
    return alignments, steps


def _faulty(found: Sequence[Pair], wrong: str) -> int:
    holds = [place for place, one in enumerate(found) if wrong and (wrong in one.part or one.part in wrong)]
    shared = [len(set(wrong.split()) & set(one.part.split())) for one in found]
    return holds[-1] if holds else max(range(len(found)), key=lambda place: (shared[place], place))


def _contrast(part: str, sentence: str, source: str) -> dict[str, str]:
    """A mismatch with the sentence, or an absence where there is no other text to hold it against."""
    if len(sentence) >= MIN_SPAN and sentence.casefold() != part.casefold():
        return align(part, sentence, "mismatch")
    other = cut(source)
    if other.casefold() != part.casefold():
        return align(part, other, "mismatch")
    return align(part, NOT_FOUND, "not_found")
