"""The look of a passage: prose, numbered clauses, bullets, questions and answers, or a memo; with exact offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from factgym.generators.synthetic.adjuncts import Sentence
from factgym.generators.synthetic.facts import Fact
from factgym.generators.synthetic.style import Voice

Form = Literal["prose", "numbered", "lettered", "bullets", "faq", "memo"]


class Layout(NamedTuple):
    """form: see the module. title: format of a passage's title. label: index of the style's section label."""

    form: Form
    title: str
    label: int


class Block(NamedTuple):
    """The sentences of one fact (or of a filler, when `fact` is None)."""

    fact: Fact | None
    sentences: tuple[Sentence, ...]


def lay_out(
    blocks: Sequence[Block], layout: Layout, number: int, heading: str, voice: Voice
) -> tuple[str, list[list[tuple[int, int]]]]:
    """The passage's text, and for each block the ranges of its sentences in it."""
    text = ""
    spans: list[list[tuple[int, int]]] = []
    for at, (block, lead) in enumerate(zip(blocks, _leads(blocks, layout.form, number, heading, voice), strict=True)):
        text += lead if at or lead.strip() else ""
        ranges = []
        for index, sentence in enumerate(block.sentences):
            text += " " if index else ""
            ranges.append((len(text), len(text) + len(sentence.text)))
            text += sentence.text
        spans.append(ranges)
    return text, spans


def _leads(blocks: Sequence[Block], form: Form, number: int, heading: str, voice: Voice) -> Iterator[str]:
    """What stands before each block."""
    for at, block in enumerate(blocks, 1):
        gap = "\n" if at > 1 else ""
        if form == "numbered":
            yield f"{gap}{number}.{at} "
        elif form == "lettered":
            yield f"{gap}({chr(96 + at)}) "
        elif form == "bullets":
            yield f"{gap}- "
        elif form == "faq":
            yield f"{gap}Q: {_faq(block, heading, voice)}\nA: "
        elif form == "memo" and at == 1:
            yield f"Subject: {heading}\n\n"
        else:
            yield " "


def _faq(block: Block, heading: str, voice: Voice) -> str:
    from factgym.generators.synthetic.questions import question_clause
    from factgym.generators.synthetic.words import sentence_case

    if block.fact is None:
        return "Is there anything else to know?"
    return sentence_case(question_clause(block.fact, voice, heading.lower())) + "?"
