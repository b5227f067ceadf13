"""Checked answers as lines for a terminal, JSON data, and one self-contained page."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from factgym.benchmarks.page import STATIC_POLICY, fill_template, visible
from factgym.check.checker import CheckedAnswer, CheckedClaim, Checker
from factgym.corpora.documents import Document
from factgym.corpora.text import find_quote
from factgym.datasets.claims import STATUSES

_WIDTH = 110
_MAX_PASSAGES = 300
"""Passages of a document up to which all of them are on the page; of a longer one those that are quoted."""


def summary_line(answers: Sequence[CheckedAnswer]) -> str:
    """Return the counts of all claims in a line."""
    claims = [claim for answer in answers for claim in answer.claims]
    counts = Counter("not checked" if claim.error else claim.status for claim in claims)
    parts = ", ".join(f"{counts[name]} {name}" for name in (*STATUSES, "not checked") if counts[name])
    return f"{len(claims)} claim{'s' * (len(claims) != 1)}: {parts}."


def report_lines(answers: Sequence[CheckedAnswer]) -> Iterator[str]:
    """Yield the report of answers, line by line."""
    number = 0
    for answer in answers:
        if len(answers) > 1:
            yield f"{visible(answer.answer.id)}: {answer.verdict.replace('_', ' ')}"
        for claim in answer.claims:
            number += 1
            yield from _claim_lines(number, claim)
            yield ""
    yield summary_line(answers)


def _claim_lines(number: int, claim: CheckedClaim) -> Iterator[str]:
    confidence = "" if claim.confidence is None else f" ({claim.confidence:.2f})"
    status = "not checked" if claim.error else claim.status
    yield from _wrapped(f"{number}. ", f"{status}{confidence}: {claim.text}")
    if claim.error:
        yield from _wrapped("   error: ", claim.error)
        return
    for quote in claim.quotes:
        yield from _wrapped("   nearest: " if claim.status == "unsupported" else "   quote: ", f"“{quote.text}”")
        yield from _wrapped("      in ", _location_text(quote))
    if claim.not_carried:
        yield from _wrapped("   not carried: ", f"“{claim.not_carried}”")
    if not claim.quotes and claim.reason:
        yield from _wrapped("   ", claim.reason)


def _location_text(quote: Any) -> str:
    location = quote.location
    characters = "" if location.start is None else f", characters {location.start} to {location.end}"
    return f"{location}{characters}"


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        visible(" ".join(text.split())), _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)
    )


def to_dict(answers: Sequence[CheckedAnswer], checker: Checker) -> dict[str, Any]:
    """Return the report as JSON data, documents and agent included."""
    import factgym

    documents = checker.documents
    return {
        "factgym": factgym.__version__,
        "agent": checker.agent_name,
        "documents": {
            "count": len(documents.documents),
            "fingerprint": documents.library.corpus.fingerprint(),
            "skipped": [{"path": file.path, "reason": file.reason} for file in documents.skipped],
        },
        "answers": [answer.to_dict() for answer in answers],
    }


# The page


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of text. claims: numbers of the claims that it belongs to or is quoted for, from 1. anchor: its id."""

    text: str
    claims: tuple[int, ...] = ()
    status: str = ""
    anchor: str = ""


def report_page(answers: Sequence[CheckedAnswer], checker: Checker) -> str:
    """Return the page: claims beside the documents, with the quotes highlighted. All foreign text is escaped."""
    import factgym

    values = {
        "title": "Checked against the documents",
        "by": f"factgym {factgym.__version__}, {checker.agent_name}",
        "policy": STATIC_POLICY,
        "styles": ("base.css", "check.css"),
        **page_values(answers, checker),
    }
    return fill_template("check.html", values)


def page_values(answers: Sequence[CheckedAnswer], checker: Checker) -> dict[str, Any]:
    """Return the arguments of the template macro `result`: summary, unread files, answers with claims, documents with quotes."""
    claims = [claim for answer in answers for claim in answer.claims]
    numbers = {id(claim): number for number, claim in enumerate(claims, start=1)}
    return {
        "summary": summary_line(answers),
        "skipped": [f"{file.path}: {file.reason}" for file in checker.documents.skipped],
        **_page_parts(answers, checker, numbers),
    }


def _page_parts(answers: Sequence[CheckedAnswer], checker: Checker, numbers: dict[int, int]) -> dict[str, Any]:
    claims = [claim for answer in answers for claim in answer.claims]
    quotes = [
        (quote, numbers[id(claim)], claim.status) for claim in claims if not claim.error for quote in claim.quotes
    ]
    by_document: dict[str, list[tuple[Any, int, str]]] = {}
    for entry in quotes:
        by_document.setdefault(checker.documents.document_of(entry[0].location.passage).id, []).append(entry)
    documents = [document for document in checker.documents.documents if document.id in by_document]
    return {
        "answers": [
            {
                "id": answer.answer.id,
                "verdict": answer.verdict,
                "segments": list(_answer_segments(answer, numbers)),
                "claims": [_claim_view(claim, numbers[id(claim)]) for claim in answer.claims],
            }
            for answer in answers
        ],
        "documents": [_document_view(document, by_document[document.id]) for document in documents],
    }


def _answer_segments(answer: CheckedAnswer, numbers: dict[int, int]) -> Iterator[Segment]:
    at = 0
    for claim in answer.claims:
        yield Segment(answer.answer.text[at : claim.start])
        status = "unchecked" if claim.error else claim.status
        yield Segment(claim.text, (numbers[id(claim)],), status)
        at = claim.end
    yield Segment(answer.answer.text[at:])


def _claim_view(claim: CheckedClaim, number: int) -> dict[str, Any]:
    span = find_quote(claim.not_carried, claim.text) if claim.not_carried else None
    start, end = span or (len(claim.text), len(claim.text))
    return {
        "number": number,
        "status": "unchecked" if claim.error else claim.status,
        "label": "not checked" if claim.error else claim.status,
        "confidence": claim.confidence,
        "parts": (claim.text[:start], claim.text[start:end], claim.text[end:]),
        "quotes": [(quote.text, _location_text(quote), quote.location.passage) for quote in claim.quotes],
        "note": claim.error or claim.reason,
    }


def _document_view(document: Document, quotes: Sequence[tuple[Any, int, str]]) -> dict[str, Any]:
    quoted = {quote.location.passage for quote, _, _ in quotes}
    is_whole = len(document.passages) <= _MAX_PASSAGES
    selected = [passage for passage in document.passages if is_whole or passage.id in quoted]
    passages = []
    for passage in selected:
        section = passage.title.removeprefix(document.title).removeprefix(" › ")
        ranges = [(q.start, q.end, number, status) for q, number, status in quotes if q.location.passage == passage.id]
        passages.append({"id": passage.id, "section": section, "segments": list(highlight(passage.text, ranges))})
    return {
        "title": document.title,
        "path": document.path,
        "passages": passages,
        "left_out": len(document.passages) - len(selected),
    }


def highlight(text: str, ranges: Iterable[tuple[int, int, int, str]]) -> Iterator[Segment]:
    """Yield a text in stretches, split at the ends of the ranges `(start, end, claim, status)`, which may overlap."""
    ranges = list(ranges)
    cuts = sorted({0, len(text), *(offset for start, end, _, _ in ranges for offset in (start, end))})
    for start, end in pairwise(cuts):
        over = [(number, status) for first, last, number, status in ranges if first <= start and end <= last]
        yield Segment(text[start:end], tuple(number for number, _ in over), over[0][1] if over else "")
