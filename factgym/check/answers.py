"""Texts to check: a file, a claim, or JSON lines of answers, each split into its claims."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from factgym.core.errors import DataError
from factgym.corpora.rows import Row, parse_object
from factgym.corpora.sentences import sentences
from factgym.corpora.text import terms

TEXT_KEYS = ("answer", "text", "response", "claim")
"""Columns of JSON lines that hold the text, the first that is there."""
MAX_TEXT_CHARS = 400_000
MAX_CLAIM_CHARS = 4000
"""Limit of the published schema of a verdict; a longer sentence is cut there."""

_MIN_WORDS, _MIN_TERMS = 3, 2
"""Of a sentence that states something: words, and terms that can be searched for. "See below." has fewer."""
_FENCE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*?$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"\s*#{1,6}\s")


@dataclass(frozen=True, slots=True)
class Answer:
    """A text to check. id: for reports. question: to which it answers; may be empty."""

    id: str
    text: str
    question: str = ""


def split_claims(text: str) -> list[tuple[int, int]]:
    """Return the ranges `(start, end)` of the claims of a text: its sentences, list items and table rows, in order.

    Left out, as they state nothing that could be checked: Markdown headings, fenced code, questions, and sentences of a
    word or two.
    """
    hidden = [match.span() for match in _FENCE.finditer(text)]
    claims = []
    for start, end in sentences(text):
        line_start = text.rfind("\n", 0, start) + 1
        is_code = any(first < end and start < last for first, last in hidden)
        is_heading = _HEADING.match(text, line_start) is not None
        sentence = text[start:end]
        is_long = len(sentence.split()) >= _MIN_WORDS and len(set(terms(sentence))) >= _MIN_TERMS
        if is_long and not (is_code or is_heading or sentence.endswith("?")):
            claims.append((start, min(end, start + MAX_CLAIM_CHARS)))
    return claims


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
        raise DataError(
            f"{location}: {len(answer.text):,} characters; {MAX_TEXT_CHARS:,} are allowed. Split the text."
        )
    if not split_claims(answer.text):
        raise DataError(f"{location}: no sentence in it states anything that could be checked.")
    return answer
