"""The think and answer blocks of a completion, and their sentences with their places.

    <think>The Flyers won the Cup in 1975. They beat Buffalo.</think><answer>1975</answer>
           [0                             ][1               ]                 [2 ]

Both blocks are stripped of their tags and read one after the other. A sentence ends at white space after `.`, `!` or
`?`, as in the authors' published code; abbreviations end one as well. Every place is an offset into the completion.

A block begins at its first opening tag. It ends at the first closing tag after that; where none follows, the think
block ends at `<answer>` and the answer at the end of the text. (The published code scores closed blocks only: leaving
the closing tag out, which the format allows, would hide an answer's sentences.) A text without either block is one
block by itself. Everything here is linear in the length of the text, whatever it holds.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Block = Literal["think", "answer", "text"]

THINK, THINK_END = "<think>", "</think>"
ANSWER, ANSWER_END = "<answer>", "</answer>"

_BREAK = re.compile(r"(?<=[.!?])\s+")
_SPACE = re.compile(r"\s*+")


class Section(NamedTuple):
    """The characters [start, end) of a block without its tags and without white space around it."""

    block: Block
    start: int
    end: int


class Sentence(NamedTuple):
    """The characters [start, end) of the completion; never empty, no white space at either end."""

    start: int
    end: int
    text: str
    block: Block


def sections_of(text: str) -> tuple[Section, ...]:
    """The blocks that hold more than white space, in order of place; none overlaps another."""
    found: list[tuple[Block, int, int]] = []
    open_think, after = text.find(THINK), 0
    if open_think >= 0:
        start = open_think + len(THINK)
        end = text.find(THINK_END, start)
        if end < 0:
            end = text.find(ANSWER, start)
        after = end if end >= 0 else len(text)
        found.append(("think", start, after))
    open_answer = text.find(ANSWER, after)
    if open_answer >= 0:
        start = open_answer + len(ANSWER)
        end = text.find(ANSWER_END, start)
        found.append(("answer", start, end if end >= 0 else len(text)))
    if not found:
        found.append(("text", 0, len(text)))
    return tuple(one for one in (_trimmed(text, *place) for place in found) if one.start < one.end)


def split_sentences(text: str) -> tuple[Sentence, ...]:
    """The sentences of both blocks, in order of place."""
    return tuple(one for section in sections_of(text) for one in sentences_in(text, section))


def sentences_in(text: str, section: Section) -> list[Sentence]:
    """The sentences of one block."""
    start, end, block = section.start, section.end, section.block
    found = []
    for match in _BREAK.finditer(text, start, end):
        stop = match.start()
        found.append(Sentence(start, stop, text[start:stop], block))
        start = match.end()
    if start < end:
        found.append(Sentence(start, end, text[start:end], block))
    return found


def _trimmed(text: str, block: Block, start: int, end: int) -> Section:
    start = min(end, _SPACE.match(text, start, end).end())  # type: ignore[union-attr]  # an empty match is a match
    while end > start and text[end - 1].isspace():
        end -= 1
    return Section(block, start, end)
