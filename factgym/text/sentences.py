"""Sentence segmentation of policies, contracts and their Markdown: rules, no model, no data.

A sentence ends at `.`, `!`, `?` or `…` before white space, except after an abbreviation or a list number or before a
lower-case continuation, and at a line break unless the line is plainly a wrapped one. Headings, list items and table rows
are sentences of their own. Every scan is one pass over the text; nothing backtracks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from math import inf

from factgym.text.words import words_in

_ENDS = re.compile(r"[.!?…。！？][.!?…。！？]*+[\"'”’»)\]*_」』）]*+(?=(\s++[\"'“‘«(\[*_]*+)?+(.)?)", re.DOTALL)
"""Punctuation that may close a sentence, with the white space behind it and what may open the next one, and a character."""
_LETTERS = re.compile(r"[^\W\d_]{1,16}")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_BULLETS = re.compile(r"\s*+(?:[-*+•‣◦▪●·–—>#|]++\s++)*+")
_ITEM = re.compile(
    r"(?:[-*+•‣◦▪●·–—>#|]|\(?(?:\d{1,3}(?:\.\d{1,3}){0,5}|[ivxIVX]{1,5}|[A-Za-z])[.)](?:\s|$)|\d{1,3}(?:\.\d{1,3}){1,5}\s)"
)
_LIST_NUMBER = re.compile(r"(?:\d{1,3}(?:\.\d{1,3}){0,5}|[ivxlcIVXLC]{1,5}|[A-Za-z])[)\\]?")
_ACRONYM = re.compile(r"(?:[A-Za-z]{1,2}\.){1,8}[A-Za-z]{1,2}|[A-Za-z]")
_ROMAN = re.compile(r"[IVXLC]{2,6}|[VX]")
_LEADER = re.compile(r"[.…]{5}")

_NEVER_LAST = words_in("mr mrs ms dr prof hon sen rep gov gen st vs v cf viz e.g i.e eg ie al approx messrs esq")
_BEFORE_NUMBER = words_in(
    "no nos nr art arts sec secs sect para paras par ch chap cl fig figs eq eqs ref refs fn vol vols pp pt ver reg regs rev"
    " stat ann app ex exh sched jan feb mar apr jun jul aug sep sept oct nov dec"
)
_MAY_END = words_in("inc ltd pty corp co llc llp plc bros etc jr sr dept est assn ave blvd ext tel hrs min max incl")
_STARTERS = words_in(
    "the this that these those it its he she they we you i our your their his her if in on at by for from to with a an"
    " any all each every no not such when where while after before upon under as and but or nor however unless until"
    " there here please see both either neither except notwithstanding subject once since although because also"
    " what who how why which some most many employees customers users"
)
_UNFINISHED = words_in(
    "a an the of to in on at by for from with and or nor but that which who whose than as is are was were be been shall"
    " will may must can any all such each this these those its their our your his her if when under between not"
)
_WRAP_WIDTH = range(60, 121)
"""Lengths that a line wrapped by an editor has; shorter ones are headings and items, longer ones paragraphs."""

_ABBREVIATIONS = _NEVER_LAST | _BEFORE_NUMBER | _MAY_END
_LEAD = 32
_LOOK_BACK = 24


def sentences(text: str, limit: float = inf) -> list[tuple[int, int]]:
    """Return the ranges `(start, end)` of the sentences of `text`, in order, disjoint, without surrounding white space.

    Bullets and heading marks before a sentence, and spans without a letter or digit, belong to none; list
    numbers stay with their item. The same text gives the same ranges everywhere. After `limit` sentences it stops.
    """
    ranges = []
    for start, end in _blocks(text):
        if not _LETTER_OR_DIGIT.search(text, start, end):
            continue
        for first, last in _split_block(text, start, end):
            if content := _LETTER_OR_DIGIT.search(text, first, last):
                lead = text[first : content.start()]
                if lead and not lead.isspace():
                    bullets = _BULLETS.match(text, first, last)
                    first = bullets.end() if bullets else first
                else:
                    first = content.start()
                if text[last - 1].isspace():
                    last = first + len(text[first:last].rstrip())
                ranges.append((first, last))
                if len(ranges) >= limit:
                    return ranges
    return ranges


@lru_cache(maxsize=8192)
def passage_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """Return `sentences` of a passage, cached: the same few thousand passages are used again and again."""
    return tuple(sentences(text))


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans that no sentence crosses: paragraphs, headings, list items, table rows."""
    # Invariant: text[start:at] are the lines of the open block, and the last of them is `previous`.
    start = at = 0
    previous = ""
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        if start < at and not _continues(previous, stripped):
            if previous:  # an empty line is a block of its own, without a sentence
                yield start, at
            start = at
        at += len(line)
        previous = stripped
    if start < at:
        yield start, at


def _continues(line: str, following: str) -> bool:
    """Whether `following` continues the sentence of `line`: the break between them is only a wrapped line."""
    if not line or not following or line[0] in "#|" or _ITEM.match(following):
        return False
    if line[-1] in ":;":
        return False
    if following[0].islower() or line[-1] in ",-–—(":
        return True
    last = line[-_LOOK_BACK:].rpartition(" ")[2]
    if last in _UNFINISHED:
        return True
    return len(line) in _WRAP_WIDTH and (last[-1].isalnum() or not _ends_with(last, following[0], _word(following, 0)))


def _split_block(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for mark in _ENDS.finditer(text, start, end):
        if _is_end(text, start, mark, end):
            yield start, (start := mark.end())
    yield start, end


def _is_end(text: str, start: int, mark: re.Match[str], end: int) -> bool:
    """Whether the punctuation `mark` closes the sentence that began at `start`."""
    # From the certain cases to the doubtful ones: the end of the block and unambiguous marks; a plain word before a full
    # stop; no white space behind or a dotted leader; a lower-case continuation; "!", "?" and "…"; at last the word before a
    # single full stop.
    first, last = mark.span()
    marks, (gap, following) = text[first:last], mark.groups()
    if last == end or marks[0] in "。！？":
        return True
    before = text[start if start > first - _LOOK_BACK else first - _LOOK_BACK : first]
    word = before.rpartition(" ")[2]
    if len(word) > 3 and marks == "." and gap == " " and following and following.istitle() and _is_plain(word):
        return True
    if not gap or (len(marks) > 4 and _LEADER.match(marks)):
        return False
    if not following:
        return True
    if following.islower():
        return False
    if marks[0] != "." or marks[1:2] == ".":
        return True
    if not before or before[-1].isspace():
        return True
    word = before.split()[-1].lstrip("(\"'“‘[*_")
    number_start = first - len(word)
    opens_sentence = number_start - start <= _LEAD and not _LETTER_OR_DIGIT.search(text, start, number_start)
    if opens_sentence and _LIST_NUMBER.fullmatch(word):
        return False
    return _ends_with(word + ".", following, _word(text, last + len(gap)))


def _is_plain(word: str) -> bool:
    return word.isalpha() and word.islower() and word not in _ABBREVIATIONS


def _word(text: str, at: int) -> str:
    match = _LETTERS.match(text, at)
    return match.group() if match else ""


def _ends_with(last: str, following: str, following_word: str) -> bool:
    """Whether a sentence may end in the word `last` (with its full stop) when `following` is the next character."""
    word = last.rstrip("\"'”’»)]*_").removesuffix(".").rpartition("-")[2]
    lowered = word.lower()
    if lowered in _ABBREVIATIONS:
        if lowered in _NEVER_LAST:
            return False
        if lowered in _BEFORE_NUMBER:
            return not (following.isdigit() or following in "§#(" or _ROMAN.fullmatch(following_word))
    elif (len(word) > 1 and "." not in word) or not _ACRONYM.fullmatch(word):
        return True
    return following_word.lower() in _STARTERS


def strip_full_stop(text: str) -> str:
    """Return a text without white space and full stops at its end."""
    return text.rstrip().rstrip(".").rstrip()


def capitalise(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
