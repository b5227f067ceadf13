"""The documents that claims are checked against, and the location of a quote in the file that it comes from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from factgym.core.errors import DataError
from factgym.core.paths import is_file
from factgym.core.untrusted import neutralise
from factgym.corpora.corpus import Passage
from factgym.corpora.documents import Document, Skipped, iter_folder
from factgym.corpora.extraction import PAGE_BREAK, ReadingBudget, read_document_text
from factgym.tools.evidence import PassageLibrary

_WORD = re.compile(r"[^\W_]+")
_ITEM = re.compile(r"(?:[-•]|\(?\w{1,4}[.)]) +(?=\S)")
"""The mark of a list item, which a file may number in another way."""
_COLUMN_NAME = re.compile(r"(?:^[-\s]*|(?<=; ))[^:;]{1,200}: ")
"""The name of a column, which the line of a row in a file lacks."""
_EDGES = re.compile(r"^\W*")
_CONTEXT_WORDS = 12
"""Words before a quote that tell its location from other occurrences of the same words."""
_MAX_GAP = 16
"""Words of markup, such as a link's address, that may lie between two words of a quote in its file."""
_MAX_STEPS = 50_000
"""Words compared to find a quote: a file that repeats one word offers a beginning of the quote at each."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a quote is.

    document: path of the file inside the folder. title, section: of the document, and the headings above the quote.
    passage: id of the passage that was read. start, end: characters of the file's text from 0, the end excluded, with
    line ends as one character; None where the file writes the words in another order, as a table does. line: from 1,
    None where not even the line is known. page: of a PDF, from 1.
    """

    document: str
    title: str
    section: str
    passage: str
    start: int | None = None
    end: int | None = None
    line: int | None = None
    page: int | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        if self.page is not None:
            line = f", p. {self.page}"
        section = f" › {self.section}" if self.section else ""
        return f"{self.document}{line}, {self.title}{section}"


class FileText:
    """The text of a file, and where a run of words is in it."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _words(self) -> list[tuple[str, int, int]]:
        return [(match[0].casefold(), match.start(), match.end()) for match in _WORD.finditer(self.text)]

    @cached_property
    def _positions(self) -> dict[str, list[int]]:
        positions: dict[str, list[int]] = {}
        for number, (word, _, _) in enumerate(self._words):
            positions.setdefault(word, []).append(number)
        return positions

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def line_at(self, offset: int) -> int:
        """Return the line of a character, from 1."""
        return bisect_right(self._line_starts, offset)

    def find(self, quote: str, context: str = "") -> tuple[int, int] | None:
        """Return the characters of the words of a quote, preceded by those of a context; None where they are not there.

        Markup may lie between the words. Of several matches the tightest, then the first.
        """
        words = [match[0].casefold() for match in _WORD.finditer(quote)]
        before = [match[0].casefold() for match in _WORD.finditer(context)][-_CONTEXT_WORDS:]
        if not words:
            return None
        matches = [match for match in self._runs([*before, *words]) if match]
        if not matches:
            return None
        best = min(matches, key=lambda match: (match[-1] - match[0], match[0]))
        start, end = self._words[best[len(before)]][1], self._words[best[-1]][2]
        # The marks around the outer words, as far as the file has them too.
        quote = quote.strip()
        head, tail = _EDGES.findall(quote)[0], _EDGES.findall(quote[::-1])[0][::-1]
        start -= len(head) if self.text.endswith(head, 0, start) else 0
        return start, end + (len(tail) if self.text.startswith(tail, end) else 0)

    def _runs(self, words: Sequence[str]) -> Iterator[list[int]]:
        """Yield the word numbers of greedy matches of `words`, with at most `_MAX_GAP` words between two, up to one without any."""
        steps = _MAX_STEPS
        for first in self._positions.get(words[0], ()):
            run = [first]
            for word in words[1:]:
                window = range(run[-1] + 1, min(run[-1] + 2 + _MAX_GAP, len(self._words)))
                following = next((number for number in window if self._words[number][0] == word), None)
                steps -= 1 + (following or window.stop) - window.start
                if following is None or steps < 0:
                    break
                run.append(following)
            else:
                yield run
                if run[-1] - first == len(words) - 1:
                    return  # no later one is tighter
            steps -= 1
            if steps < 0:
                return

    def nearest_line(self, quote: str) -> int | None:
        """Return the line that shares most words with a quote, if it has half of them."""
        words = Counter(match[0].casefold() for match in _WORD.finditer(quote))
        best, line = 0, None
        for number, text in enumerate(self.text.split("\n"), start=1):
            own = _WORD.findall(text)
            if len(own) <= best:
                continue
            # Not the intersection of two counters, which goes through all words of the quote for each line.
            counts = Counter(map(str.casefold, own))
            shared = sum(min(count, words.get(word, 0)) for word, count in counts.items())
            if shared > best:
                best, line = shared, number
        return line if 2 * best >= words.total() else None


class CheckedDocuments:
    """The documents of a folder or file, as one searchable library.

    skipped: files that could not be read, or did not fit into the budget. Raises DataError for a missing or empty folder.
    """

    def __init__(self, path: str | Path, budget: ReadingBudget | None = None) -> None:
        self.path = Path(path)
        skipped: list[Skipped] = []
        self.documents = tuple(iter_folder(self.path, budget=budget, on_skipped=skipped.append))
        self.skipped = tuple(skipped)
        # As a policy sees them, so that quotes are compared in the same form; offsets are unchanged.
        self.passages = tuple(
            Passage(passage.id, passage.title, neutralise(passage.text))
            for document in self.documents
            for passage in document.passages
        )
        if not self.passages:
            raise DataError(f"{self.path}: its documents have no text")
        self.library = PassageLibrary(self.passages)
        self._by_passage = {
            passage.id: (document, number)
            for document in self.documents
            for number, passage in enumerate(document.passages)
        }
        self._texts: dict[str, FileText] = {}

    def document_of(self, passage_id: str) -> Document:
        """Return the document of a passage."""
        return self._by_passage[passage_id][0]

    def locate(self, passage_id: str, start: int, end: int) -> Location:
        """Return the location of characters of a passage in its file."""
        document, number = self._by_passage[passage_id]
        passage = document.passages[number]
        section = passage.title.removeprefix(document.title).removeprefix(" › ")
        name = document.path or document.id
        location = Location(name, document.title, section, passage_id)
        text = self._text(document)
        if text is None:
            return location
        quote = passage.text[start:end]
        item = _ITEM.match(quote)
        span = (
            text.find(quote, passage.text[:start]) or text.find(quote) or text.find(quote[item.end() :] if item else "")
        )
        if span is None:
            line = text.nearest_line(_COLUMN_NAME.sub("", quote)) or text.nearest_line(quote)
            return Location(name, document.title, section, passage_id, line=line)
        is_paged = name.lower().endswith(".pdf")
        page = text.text.count(PAGE_BREAK, 0, span[0]) + 1 if is_paged else None
        return Location(name, document.title, section, passage_id, *span, text.line_at(span[0]), page)

    def _text(self, document: Document) -> FileText | None:
        """Return the text of a document's file; None where it cannot be read as text any more."""
        if document.text:
            return self._texts.setdefault(document.id, FileText(document.text))
        if document.path not in self._texts:
            file = self.path if is_file(self.path) else self.path / document.path
            try:
                self._texts[document.path] = FileText(read_document_text(file))
            except (OSError, UnicodeDecodeError):
                return None
        return self._texts[document.path]
