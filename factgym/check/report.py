"""Checked answers as lines for a terminal, JSON data, and one self-contained page; from Python by `check_text`."""

from __future__ import annotations

import asyncio
import json
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from factgym.benchmarks.page import STATIC_POLICY, fill_template, visible
from factgym.check.answers import Answer, checked_answer
from factgym.check.checker import CHECKED_STATUSES, DEFAULT_AGENT, CheckedAnswer, CheckedClaim, Checker
from factgym.check.documents import CheckedDocuments
from factgym.check.verifier import is_verifier
from factgym.corpora.documents import Document, skipped_lines
from factgym.text.folding import find_quote

_WIDTH = 110
_MAX_SKIPPED = 1000
"""Files that were not read in JSON; their number comes with them."""

_MAX_PASSAGES = 300
"""Passages of a document up to which all of them are on the page; of a longer one those that are quoted."""


@dataclass(frozen=True)
class CheckReport:
    """What `factgym check` prints and shows: the answers with their claims, and the documents with what was not read.

    As text it is the report for a terminal.
    """

    answers: tuple[CheckedAnswer, ...]
    checker: Checker

    @property
    def claims(self) -> tuple[CheckedClaim, ...]:
        """The claims of all answers, in order."""
        return tuple(claim for answer in self.answers for claim in answer.claims)

    def __str__(self) -> str:
        used = self.checker.resolved_agent.describe() if is_verifier(self.checker.agent_name) else {}
        weights = [f"Verifier: {used['folder']} (SHA-256 {used['sha256'][:12]}), mode {used['mode']}."] if used else []
        not_read = (f"Not read: {line}" for line in skipped_lines(self.checker.documents.skipped))
        return "\n".join([*report_lines(self.answers), *weights, *not_read])

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data, as `--json` prints it."""
        return to_dict(self.answers, self.checker)

    def to_json(self) -> str:
        """Return the same as text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def to_html(self) -> str:
        """Return the self-contained page of `--html`."""
        return report_page(self.answers, self.checker)


async def acheck_text(
    text: str,
    documents: str | Path | Mapping[str, str] | CheckedDocuments,
    *,
    question: str = "",
    agent: Any = DEFAULT_AGENT,
    **settings: Any,
) -> CheckReport:
    """Check the claims of a text against documents.

    Args:
        text: The text, of at most 400,000 characters.
        documents: A folder or file, texts by name, or documents that were read already.
        question: To which the text answers.
        agent: Who checks, as `--agent` takes it, or an `Agent`.
        settings: Of a model that is named by text.

    Raises DataError for a text without a claim and for documents that cannot be read, ConfigError for an impossible agent.
    """
    if isinstance(documents, Mapping):
        with tempfile.TemporaryDirectory() as folder:
            for number, (name, content) in enumerate(documents.items()):
                path = Path(folder) / f"{number:05d}" / (Path(name).name or "text")
                path.parent.mkdir()
                path.with_suffix(path.suffix or ".md").write_text(content, "utf-8")
            documents = CheckedDocuments(folder)
    elif not isinstance(documents, CheckedDocuments):
        documents = CheckedDocuments(documents)
    answer = checked_answer(Answer("answer", text, question), "the text")
    checker = Checker(documents, agent, settings)
    return CheckReport(tuple(await checker.check_async([answer])), checker)


def check_text(text: str, documents: str | Path | Mapping[str, str] | CheckedDocuments, **options: Any) -> CheckReport:
    """Check a text outside of an event loop; arguments and errors as of `acheck_text`."""
    return asyncio.run(acheck_text(text, documents, **options))


def summary_line(answers: Sequence[CheckedAnswer]) -> str:
    """Return the counts of all claims in a line."""
    claims = [claim for answer in answers for claim in answer.claims]
    counts = Counter("not checked" if claim.error else claim.status for claim in claims)
    parts = ", ".join(
        f"{counts[name]} {name.replace('_', ' ')}" for name in (*CHECKED_STATUSES, "not checked") if counts[name]
    )
    skipped = Counter(reason for answer in answers for _, _, reason in answer.not_judged)
    rest = ", ".join(f"{n} {reason}" for reason, n in skipped.most_common())
    return f"{len(claims)} claim{'s' * (len(claims) != 1)}: {parts}." + f" No claims: {rest}." * bool(rest)


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
    status = "not checked" if claim.error else claim.status.replace("_", " ")
    yield from _wrapped(f"{number}. ", f"{status}{confidence}: {claim.text}")
    if claim.error:
        yield from _wrapped("   error: ", claim.error)
        return
    for quote in claim.quotes:
        yield from _wrapped(
            "   nearest: " if claim.status in ("unsupported", "cannot_judge") else "   quote: ", f"“{quote.text}”"
        )
        yield from _wrapped("      in ", _location_text(quote))
    if claim.not_carried:
        yield from _wrapped("   not carried: ", f"“{claim.not_carried}”")
    if claim.reason and claim.status != "supported":
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
        **({"verifier": checker.resolved_agent.describe()} if is_verifier(checker.agent_name) else {}),
        "documents": {
            "count": len(documents.documents),
            "fingerprint": documents.library.corpus.fingerprint(),
            "skipped": [{"path": file.path, "reason": file.reason} for file in documents.skipped[:_MAX_SKIPPED]],
            "skipped_count": len(documents.skipped),
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
        "skipped": skipped_lines(checker.documents.skipped),
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
        "label": "not checked" if claim.error else claim.status.replace("_", " "),
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
