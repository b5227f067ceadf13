"""Whether a completion keeps to the format: a think block, then an answer block.

`check_format` is asked for one rule, `format_faults` gives the faults under both, which share most of the work.
"""

from __future__ import annotations

import re

from factgym.rewards.corver.judge import extract_answer, is_refusal
from factgym.rewards.corver.rules import DEFAULT_RULES, CorverRules
from factgym.rewards.corver.sentences import ANSWER, ANSWER_END, THINK, THINK_END

Faults = tuple[str, ...]

_LETTER = re.compile(r"[A-Za-z]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_BLANKS = re.compile(r"\s{9}")
_SPACES = " " * 9
_NO_BLOCKS = ("there is no <think>…</think>…<answer>",)


def check_format(text: str, *, strict: bool = False, rules: CorverRules = DEFAULT_RULES) -> Faults:
    """What is wrong with the format, in plain words; empty when nothing is.

    The published rule: `<think>` … `</think>` … `<answer>` (the closing `</answer>` is not asked for, so that a cut
    output is not punished), and a think block of at least `min_think_chars` characters without white space around
    them, with a letter, that does not begin with "<".

    strict: in addition nothing but white space outside the two blocks, no tag and no run of white space of more than 8
    characters inside them (enough of it makes the alignment fail, and with it every penalty go), an answer, and at least
    `min_think_words` different words of two or more letters in the think block; the exact refusal that the paper's
    prompt asks for, `<think>unknown</think>` with an answer that refuses, is in order.
    """
    return format_faults(text, rules)[strict]


def format_faults(text: str, rules: CorverRules = DEFAULT_RULES) -> tuple[Faults, Faults]:
    """The faults under the published rule, and those under the strict one."""
    start = text.find(THINK)
    end = text.find(THINK_END, start + len(THINK)) if start >= 0 else -1
    answer = text.find(ANSWER, end) if end >= 0 else -1
    if min(start, end, answer) < 0:
        return _NO_BLOCKS, _NO_BLOCKS
    thought = text[start + len(THINK) : end].strip()
    faults = _thought_faults(thought, rules)
    outside = _outside_faults(text, start, end, answer)
    if thought.lower() == "unknown" and is_refusal(extract_answer(text) or "", "boundary"):
        return faults, outside
    if not _has_words(thought, rules.min_think_words):
        outside += (f"the think block has fewer than {rules.min_think_words} different words",)
    return faults, faults + outside


def _has_words(text: str, least: int) -> bool:
    """Whether a text has so many different words; reads no further than it must."""
    found: set[str] = set()
    for match in _WORD.finditer(text):
        found.add(match[0].lower())
        if len(found) >= least:
            return True
    return not least


def _thought_faults(thought: str, rules: CorverRules) -> Faults:
    faults = []
    if len(thought) < rules.min_think_chars:
        faults.append(f"the think block has fewer than {rules.min_think_chars} characters")
    if not _LETTER.search(thought):
        faults.append("the think block has no letter")
    if thought.startswith("<"):
        faults.append("the think block begins with '<'")
    return tuple(faults)


def _outside_faults(text: str, start: int, end: int, answer: int) -> Faults:
    close = text.find(ANSWER_END, answer)
    stop = close if close >= 0 else len(text)
    outside = text[:start] + text[end + len(THINK_END) : answer] + text[stop + len(ANSWER_END) :]
    blocks = (text[start + len(THINK) : end], text[answer + len(ANSWER) : stop])
    faults = []
    if outside and not outside.isspace():
        faults.append("there is text outside the two blocks")
    if any(tag in block for block in blocks if "<" in block for tag in (THINK, THINK_END, ANSWER)):
        faults.append("there is a tag inside a block")
    if not blocks[1].strip():
        faults.append("the answer is empty")
    if any(_is_stretched(block.strip()) for block in blocks):
        faults.append("a block is stretched with white space")
    return tuple(faults)


def _is_stretched(block: str) -> bool:
    # Of all white space a space alone is printable, and looking for spaces alone takes a tenth of the time.
    return _SPACES in block if block.isprintable() else _BLANKS.search(block) is not None
