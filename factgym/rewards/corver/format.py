"""Blocks, sentences and format of a completion.

    <think>The Flyers won the Cup in 1975. They beat Buffalo.</think><answer>1975</answer>
           [0                             ][1               ]                 [2 ]

Both blocks are stripped of their tags and read one after the other. A sentence ends at white space after `.`, `!` or
`?`, as in the authors' published code; abbreviations end one as well. Every offset refers to the completion.

A block begins at its first opening tag. It ends at the first closing tag after that; without one, the think block ends
at `<answer>` and the answer at the end of the text. (The published code scores closed blocks only: omitting the closing
tag, which the format allows, would hide an answer's sentences.) A text without either block is one block by itself.
Where a chat template opens the think block, the tag is no part of the completion: a `</think>` before which there is no
`<think>` closes a block that begins with the text.
All functions are linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from factgym.rewards.corver.judge import is_refusal
from factgym.rewards.corver.rubrics import DEFAULT_RULES, CorverRules

Block = Literal["think", "answer", "text"]
Faults = tuple[str, ...]

THINK, THINK_END = "<think>", "</think>"
ANSWER, ANSWER_END = "<answer>", "</answer>"

_SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+")
_LETTER = re.compile(r"[A-Za-z]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_LONG_BLANK = re.compile(r"\s{9}")
_NO_BLOCKS = ("there is no <think>…</think>…<answer>",)


class Section(NamedTuple):
    """Span [start, end) of a block's content, without tags and surrounding white space."""

    block: Block
    start: int
    end: int


class Sentence(NamedTuple):
    """Span [start, end) of a sentence in the completion; never empty, no white space at either end."""

    start: int
    end: int
    text: str
    block: Block


def find_sections(text: str) -> tuple[Section, ...]:
    """Return the blocks that contain more than white space, in order; they do not overlap."""
    blocks: list[tuple[Block, int, int]] = []
    start, think_end = think_start(text), 0
    if start >= 0:
        end = text.find(THINK_END, start)
        if end < 0:
            end = text.find(ANSWER, start)
        think_end = end if end >= 0 else len(text)
        blocks.append(("think", start, think_end))
    answer = text.find(ANSWER, think_end)
    if answer >= 0:
        start = answer + len(ANSWER)
        end = text.find(ANSWER_END, start)
        blocks.append(("answer", start, end if end >= 0 else len(text)))
    if not blocks:
        blocks.append(("text", 0, len(text)))
    sections = []
    for block, start, end in blocks:
        content = text[start:end]
        start += len(content) - len(content.lstrip())
        sections.append(Section(block, start, start + len(content.strip())))
    return tuple(section for section in sections if section.start < section.end)


def think_start(text: str) -> int:
    """Return where the think block's content starts: behind its tag, at 0 if a template opened it, -1 for no block."""
    think, end = text.find(THINK), text.find(THINK_END)
    if end >= 0 and not 0 <= think < end and text.find(ANSWER, 0, end) < 0:
        return 0
    return think + len(THINK) if think >= 0 else -1


def split_sentences(text: str, sections: Sequence[Section] | None = None) -> tuple[Sentence, ...]:
    """Return the sentences of the blocks, by default of both, in order."""
    sentences = []
    for block, start, end in find_sections(text) if sections is None else sections:
        for match in _SENTENCE_BREAK.finditer(text, start, end):
            stop = match.start()
            sentences.append(Sentence(start, stop, text[start:stop], block))
            start = match.end()
        if start < end:
            sentences.append(Sentence(start, end, text[start:end], block))
    return tuple(sentences)


def extract_answer(text: str) -> str | None:
    """Return the text from the first `<answer>` to the next `</answer>` or the end, stripped; None without the tag."""
    start = text.find(ANSWER)
    if start < 0:
        return None
    start += len(ANSWER)
    end = text.find(ANSWER_END, start)
    return text[start : end if end >= 0 else len(text)].strip()


def format_faults(text: str, rules: CorverRules = DEFAULT_RULES) -> tuple[Faults, Faults]:
    """Return the faults under the published rule and under the strict one, in plain words; none for a correct format.

    The published rule (appendix A.2): `<think>` … `</think>` … `<answer>` (a closing `</answer>` is not required, so that truncated
    outputs are not punished), and a think block of at least `min_think_chars` characters without surrounding white
    space, with a letter, that does not begin with "<".

    The strict rule: in addition nothing but white space outside the two blocks, no tag and no run of white space of
    more than 8 characters inside them (enough of it breaks the alignment, and with it every penalty), an answer, and at
    least `min_think_words` different words of two or more letters in the think block; the exact refusal of the paper's
    prompt, `<think>unknown</think>` with an answer that refuses, is correct.
    """
    start = think_start(text)
    think_end = text.find(THINK_END, start) if start >= 0 else -1
    answer = text.find(ANSWER, think_end) if think_end >= 0 else -1
    if min(start, think_end, answer) < 0:
        return _NO_BLOCKS, _NO_BLOCKS
    answer_end = text.find(ANSWER_END, answer)
    stop = answer_end if answer_end >= 0 else len(text)
    outside = (
        text[: max(start - len(THINK), 0)] + text[think_end + len(THINK_END) : answer] + text[stop + len(ANSWER_END) :]
    )
    blocks = (text[start:think_end].strip(), text[answer + len(ANSWER) : stop].strip())
    thought = blocks[0]
    published = {
        f"the think block has fewer than {rules.min_think_chars} characters": len(thought) < rules.min_think_chars,
        "the think block has no letter": not _LETTER.search(thought),
        "the think block begins with '<'": thought.startswith("<"),
    }
    is_exact_refusal = thought.lower() == "unknown" and is_refusal(extract_answer(text) or "", "boundary")
    # The space is the only printable white space, and searching for spaces alone takes a tenth of the time.
    is_stretched = any(" " * 9 in block if block.isprintable() else _LONG_BLANK.search(block) for block in blocks)
    strict = {
        "there is text outside the two blocks": bool(outside) and not outside.isspace(),
        "there is a tag inside a block": any(tag in block for block in blocks for tag in (THINK, THINK_END, ANSWER)),
        "the answer is empty": not blocks[1],
        "a block is stretched with white space": is_stretched,
        f"the think block has fewer than {rules.min_think_words} different words": (
            not is_exact_refusal and len({word.lower() for word in _WORD.findall(thought)}) < rules.min_think_words
        ),
    }
    published_faults = tuple(fault for fault, holds in published.items() if holds)
    strict_faults = tuple(fault for fault, holds in strict.items() if holds)
    return published_faults, strict_faults if is_exact_refusal else published_faults + strict_faults


def code_format_faults(text: str, rules: CorverRules = DEFAULT_RULES) -> Faults:
    """Return the faults under the rule of the authors' code, which differs from their appendix.

    It reads the text with `<think>` in front where it has none. `</think>` and `</answer>` are optional; a second
    `<think>` or `<answer>` is a fault. The text between `<think>` and `<answer>` begins with no "<", and has
    `min_think_chars` characters and a letter; something has to follow `<answer>`.
    """
    thought, tag, answer = text.removeprefix(THINK).partition(ANSWER)
    if not tag:
        return ("there is no <answer>",)
    # The expression compares nothing with the first character of the answer.
    thought, rest = thought.lstrip(), answer.lstrip()[1:]
    core = thought.rstrip()
    inner = core.removesuffix(THINK_END)
    # The shortest text of enough characters before an optional closing tag, as the code's lazy expression matches it.
    size = max(rules.min_think_chars, len(inner.rstrip()))
    size = size if size <= len(inner) else max(rules.min_think_chars, len(core))
    faults = {
        "there is a tag inside a block": THINK in thought or THINK in rest or ANSWER in rest,
        f"the think block has fewer than {rules.min_think_chars} characters": len(thought) < rules.min_think_chars,
        "the think block has no letter": not _LETTER.search(thought[:size]),
        "the think block begins with '<'": thought.startswith("<"),
        "the answer is empty": not answer.strip(),
    }
    return tuple(fault for fault, holds in faults.items() if holds)
