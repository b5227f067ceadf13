"""Texts to check: a file, a claim, or JSON lines of answers, each split into its claims."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from factgym.check.words import TABLES
from factgym.core.errors import DataError
from factgym.corpora.rows import Row, parse_object
from factgym.text.folding import visible
from factgym.text.languages import is_unspaced
from factgym.text.sentences import sentences
from factgym.text.words import terms

TEXT_KEYS = ("answer", "text", "response", "claim")
"""Columns of JSON lines that hold the text, the first that is there."""
MAX_TEXT_CHARS, MAX_SENTENCES = 400_000, 5_000
MAX_CLAIM_CHARS = 4000
"""Limit of the published schema of a verdict; a longer sentence is cut there."""

_REFERENCE = re.compile(r"\W*(?:see|cf\.?|compare|refer to) [^.;,]{1,40}\W*", re.I)
_COURTESY = re.compile(rf"\W*(?:{'|'.join(TABLES['courtesies'].strip().splitlines())})\W*", re.I)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d[\d.,]*")
_FENCE = re.compile(r"^(```+|~~~+)(.*)", re.MULTILINE)
_HEADING = re.compile(r"\s*#{1,6}\s")


@dataclass(frozen=True, slots=True)
class Answer:
    """A text to check. id: for reports. question: to which it answers; may be empty."""

    id: str
    text: str
    question: str = ""


def split_claims(text: str) -> list[tuple[int, int]]:
    """Return the ranges `(start, end)` of the claims of a text: its sentences, list items and table rows, in order."""
    return [(start, end) for start, end, reason in split_text(text) if not reason]


def split_text(text: str) -> list[tuple[int, int, str]]:
    """Return the ranges of the sentences of a text, each with the reason why it is no claim, empty for a claim.

    No claims, as they state nothing to check: Markdown headings, fenced code, questions, courtesies, single words, marks.
    After 5,001 of them it stops.
    """
    hidden = list(_fenced_code(text))
    split = []
    code = previous = 0
    is_heading = _HEADING.match(text) is not None
    for start, end in sentences(text, MAX_SENTENCES + 1):
        if line_break := text.rfind("\n", previous, start) + 1:
            is_heading = _HEADING.match(text, line_break) is not None
        previous = start
        while code < len(hidden) and hidden[code][1] <= start:
            code += 1
        is_code = code < len(hidden) and hidden[code][0] < end
        sentence = text[start:end]
        reason = "code" if is_code else "heading" if is_heading else _no_claim(sentence)
        split.append((start, min(end, start + MAX_CLAIM_CHARS), reason))
    return split


def _no_claim(sentence: str) -> str:
    if sentence.rstrip(" \"'”’)*_").endswith(("?", "？", "؟")):
        return "question"
    plain = visible(sentence[:MAX_CLAIM_CHARS])[0]
    if _REFERENCE.fullmatch(plain):
        return "reference"
    if len(plain) < 300 and _COURTESY.fullmatch(plain):
        return "courtesy"
    words = _WORD.findall(plain[:2000])
    if len(words) < 2 and not (words and is_unspaced(words[0]) and len(words[0]) > 3):
        return "single word"
    return "" if terms(plain) or not plain.isascii() else "no words of its own"


def _fenced_code(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of fenced code (CommonMark 0.31, section 4.5); a fence that nothing closes hides nothing."""
    fences = list(_FENCE.finditer(text))
    # From the end: the longest closing fence after each one, so that an opening one without an end costs no search.
    longest = dict.fromkeys("`~", 0)
    after: list[int] = []
    for fence in reversed(fences):
        after.append(longest[fence[1][0]])
        if not fence[2].strip():
            longest[fence[1][0]] = max(after[-1], len(fence[1]))
    opening = None
    for fence, longest_after in zip(fences, reversed(after), strict=True):
        if opening is None:
            opening = fence if len(fence[1]) <= longest_after else None
        elif fence[1].startswith(opening[1]) and not fence[2].strip():
            yield opening.start(), fence.end()
            opening = None


def read_answers(text: str, name: str) -> Iterator[Answer]:
    """Yield the answers of a file's text: one for each line of `*.jsonl`, else one.

    name: of the file, "-" for standard input. A line is `{"answer": …}` (or `text`, `response`, `claim`), with `id` and
    `question` if you like. Raises DataError with the line for anything else, and for a text without a claim.
    """
    if not name.endswith(".jsonl"):
        yield checked_answer(Answer(Path(name).name if name != "-" else "answer", text), name)
        return
    is_empty = True
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            is_empty = False
            location = f"{name} line {number}"
            yield checked_answer(_answer_of(Row(number, location, parse_object(line, location))), location)
    if is_empty:
        raise DataError(f"{name}: holds no line. Expected JSON lines with {' or '.join(TEXT_KEYS)}.")


def _answer_of(row: Row) -> Answer:
    key = next((key for key in TEXT_KEYS if key in row.values), None)
    if key is None:
        keys = ", ".join(sorted(map(str, row.values))[:8]) or "no keys"
        raise DataError(f"{row.location}: has none of {', '.join(TEXT_KEYS)} (its keys: {keys[:200]}). Add the text.")
    question = row.values.get("question") or row.values.get("prompt") or ""
    id_ = row.values.get("id", f"line-{row.number}")
    if not isinstance(question, str) or not isinstance(id_, str | int):
        raise row.error("'question' must be a text, and 'id' a text or a whole number")
    return Answer(str(id_)[:200], row.text(key, MAX_TEXT_CHARS), question[:MAX_CLAIM_CHARS])


def checked_answer(answer: Answer, location: str) -> Answer:
    """Return an answer that can be checked. Raises DataError for a text that is too long or has no claim."""
    if len(answer.text) > MAX_TEXT_CHARS:
        raise DataError(f"{location}: {len(answer.text):,} characters; {MAX_TEXT_CHARS:,} are allowed. Split the text.")
    split = split_text(answer.text)
    if len(split) > MAX_SENTENCES:
        raise DataError(f"{location}: more than {MAX_SENTENCES:,} sentences, the most that is allowed. Split the text.")
    if all(reason for _, _, reason in split):
        raise DataError(f"{location}: no sentence in it states anything that could be checked.")
    return answer
