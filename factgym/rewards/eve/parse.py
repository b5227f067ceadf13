"""Reads a proposer's and a solver's blocks: the last one of each kind, as Dr. Zero's published reward does.

    <think>…</think> <question>Who …?</question> <answer>Ada</answer> <evidence>Ada wrote …</evidence>

A block runs from its opening tag to the next closing tag of its name; what is not closed is no block. A solver's answer
is its last `<answer>` block, or its whole last message without one. Offsets count in the text as given, so credit can be
put where the words stand. Linear in the text, whatever it holds.
"""

from __future__ import annotations

from dataclasses import dataclass

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a proposer submitted, stripped; an absent block is empty. spans: block name -> its place in the text."""

    question: str = ""
    answer: str = ""
    evidence: str = ""
    question_span: Range | None = None
    answer_span: Range | None = None
    evidence_span: Range | None = None


@dataclass(frozen=True, slots=True)
class Solution:
    """What a solver submitted, stripped. tagged: the answer stood in a block of its own."""

    answer: str = ""
    evidence: str = ""
    answer_span: Range | None = None
    evidence_span: Range | None = None
    tagged: bool = False


def parse_proposal(text: str) -> Proposal:
    """The proposal that a text holds. Never raises for any text."""
    question, answer, evidence = (last_block(text, name) for name in ("question", "answer", "evidence"))
    return Proposal(_slice(text, question), _slice(text, answer), _slice(text, evidence), question, answer, evidence)


def parse_solution(text: str) -> Solution:
    """The solution that a solver's last message holds. Never raises for any text."""
    answer, evidence = last_block(text, "answer"), last_block(text, "evidence")
    place = answer if answer is not None else _stripped(text, 0, len(text))
    return Solution(_slice(text, place), _slice(text, evidence), place, evidence, answer is not None)


def last_block(text: str, name: str) -> Range | None:
    """Where the content of the last `<name>…</name>` stands, without white space at its ends; None without one."""
    opening, closing = f"<{name}>", f"</{name}>"
    found: Range | None = None
    start = text.find(opening)
    while start >= 0:
        start += len(opening)
        end = text.find(closing, start)
        if end < 0:
            break
        found = start, end
        start = text.find(opening, end)
    return None if found is None else _stripped(text, *found)


def _stripped(text: str, start: int, end: int) -> Range:
    inside = text[start:end]
    left = len(inside) - len(inside.lstrip())
    return start + left, start + left + len(inside.strip())


def _slice(text: str, place: Range | None) -> str:
    return "" if place is None else text[slice(*place)]
