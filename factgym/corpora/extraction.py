"""Texts and blocks of files, within one budget for all: text, HTML and XLSX, and with the extra `documents` DOCX and PDF.

    with Extractor(ReadingBudget(seconds=60)) as extract:
        text = extract(Path("handbook.pdf")).text

HTML, and DOCX by mammoth, become lines, one for each heading, paragraph, list item or row of a table; a PDF becomes its
pages (by pypdf) with a form feed between them. Files are untrusted: size,
expansion, memory and time are bounded. These formats and long Markdown are read in a separate process, so that a file
that breaks a bound or the library ends the worker and not the caller. Nothing that a file refers to is opened.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import re
import sys
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.core.processes import end_with_parent
from factgym.corpora.html import read_html
from factgym.corpora.markdown import read_markdown
from factgym.corpora.plain_text import Block, read_plain
from factgym.corpora.tables import Cell, read_sheets, row_lines
from factgym.text.folding import LINE_END_HYPHEN

TEXTS = (".md", ".markdown", ".txt", ".text", ".jsonl", ".ndjson", ".csv", ".tsv")
TABLES = (".csv", ".tsv")
MODULES = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **{".xlsx": "zipfile", ".xlsm": "zipfile", ".docx": "mammoth", ".docm": "mammoth", ".pdf": "pypdf"},
}
"""Suffixes of files that are no text, and the library that reads each."""
READABLE = (*TEXTS, *MODULES)
"""Suffixes of the documents that `factgym check`, `corpus build` and `claimcheck-docs` read, in lower case."""

PAGE_BREAK = "\f"
MAX_BYTES = 100_000_000
"""Bytes of a file, of a DOCX unpacked, and characters of the extracted text."""

MAX_SECONDS = 120.0
"""Seconds for one file, so that a hostile one does not use up the budget of the others."""

MARKDOWN = (".md", ".markdown")
_IN_PROCESS_CHARS = 200_000
"""Longest Markdown that is converted by the caller itself; hostile one of this length takes two seconds and 100 MB."""

# Measured as the growth of a process (`ru_maxrss`, CPU seconds) that reads and indexes 3.6 million characters. Bytes per
# character: public policies 6 to 7, unique words 23, of three letters 30; unique Chinese 205; 450,000 headings 108.
_BYTES_PER_CHAR = 40
"""Memory of a character of text in passages and index."""
_CHARS_PER_BYTE = 3
"""How many of them each byte of a character counts as that ASCII does not have: two letters may be a word of the index."""
_CHARS_PER_BLOCK = 25
"""How many of them a block counts as, since each is a passage."""
_SECONDS_PER_CHAR = 1.5e-6
"""Seconds to cut and index a character (policies 0.4, Chinese 1.3), kept free at the end of the budget."""

_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?([\w-]{1,40})""", re.I)
_ITEM = re.compile(r"\W*(?:(?:\d[\d.]*|\w{1,3})[.)])?\W*")
"""The mark of a list item."""
_ALIGNED, _PROSE_CHARS = 3, 25
"""Lines of a page that make columns, and characters of a column's line from which on it is prose and no table."""

_DOCX_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


class BudgetError(DataError):
    """A file that is left out as the budget for all files is used up."""


@dataclass
class ReadingBudget:
    """Limits of reading documents: one for all files, from extraction and conversion to cutting and the index.

    Attributes:
        seconds: Deadline; the clock starts with the first file.
        memory_mb: Memory of the process that reads hostile formats.
        max_chars: Text, by default what this memory holds as passages and index.
        chars_left: Characters of text that may still be read.
    """

    seconds: float = 600.0
    memory_mb: int = 4096
    max_chars: int | None = None
    chars_left: int = field(init=False)
    _chars: int = field(init=False, default=0, repr=False)
    _start: float | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < float("inf") or self.memory_mb < 1:
            raise ConfigError(
                "the budget for reading documents needs seconds of at least 0 and memory of at least 1 MB"
            )
        self.chars_left = self.max_chars or (self.memory_mb << 20) // _BYTES_PER_CHAR

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, less those that cutting and indexing the text so far will take."""
        self._start = time.monotonic() if self._start is None else self._start
        return self._start + self.seconds - time.monotonic() - self._chars * _SECONDS_PER_CHAR

    def check(self) -> None:
        """Raise BudgetError after the deadline."""
        if self.seconds_left <= 0:
            raise BudgetError(f"not reached in the {self.seconds:g} s for all files (read_seconds)")

    def take(self, text: str) -> None:
        """Count the characters of a text. Raises BudgetError where they do not fit any more."""
        extra = 0 if text.isascii() else len(text.encode("utf-8", "replace")) - len(text)
        chars = len(text) + _CHARS_PER_BYTE * extra
        if chars > self.chars_left:
            kind = " (as letters of ASCII)" if extra else ""
            raise BudgetError(
                f"{chars:,} characters{kind}; {self.chars_left:,} are left of the text that fits into {self.memory_mb:,} MB"
                " (read_memory_mb)"
            )
        self._count(chars)

    def take_blocks(self, blocks: Sequence[Block]) -> None:
        """Count the passages that a text which was taken becomes at least."""
        self._count(min(_CHARS_PER_BLOCK * len(blocks), self.chars_left))

    def _count(self, chars: int) -> None:
        self.chars_left -= chars
        self._chars += chars


class ReadText(NamedTuple):
    """The text of a file, its title, and its blocks."""

    text: str
    title: str
    blocks: list[Block]


class Extractor:
    """Reads files one after another, the hostile ones in a worker process, which is started when it is needed."""

    def __init__(self, budget: ReadingBudget | None = None) -> None:
        self.budget = ReadingBudget() if budget is None else budget
        self._worker: tuple[BaseProcess, Connection] | None = None

    def __enter__(self) -> Extractor:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def __call__(self, file: Path, text: str | None = None) -> ReadText:
        """Return the text and blocks of a file. text: of a file that is text, as decoded.

        Raises MissingExtraError, BudgetError, and DataError with the reason where there is no text.
        """
        self.budget.check()
        if text is not None:
            self.budget.take(text)
        document = self._read(file, text)
        if text is None:
            self.budget.take(document.text)
        self.budget.take_blocks(document.blocks)
        return document

    def _read(self, file: Path, text: str | None) -> ReadText:
        suffix = file.suffix.lower()
        if text is not None:
            if suffix not in MARKDOWN:
                return ReadText(text, *read_plain(text))
            return ReadText(text, *read_markdown(text)) if len(text) <= _IN_PROCESS_CHARS else self._ask(file)
        if find_spec(MODULES[suffix]) is None:
            raise MissingExtraError(f"reading {suffix} files", "documents")
        if (size := file.stat().st_size) > MAX_BYTES:
            raise DataError(f"{size:,} bytes, over the limit of {MAX_BYTES:,}")
        return self._ask(file)

    def _ask(self, file: Path) -> ReadText:
        """Let the worker read a file."""
        if self._worker is None:
            # A fresh interpreter: a fork would copy the threads' locks of the caller.
            spawn = multiprocessing.get_context("spawn")
            requests, worker_end = spawn.Pipe()
            process = spawn.Process(target=_serve, args=(worker_end, self.budget.memory_mb << 20), daemon=True)
            # The worker would import the caller's script again, which need not be guarded by `__name__`.
            main = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                process.start()
            finally:
                sys.modules["__main__"] = main
            worker_end.close()
            self._worker = (process, requests)
        connection = self._worker[1]
        seconds = min(MAX_SECONDS, max(self.budget.seconds_left, 0.0))
        try:
            connection.send_bytes(str(file.absolute()).encode("utf-8", "surrogateescape"))
            if not connection.poll(seconds):
                self._stop()
                self.budget.check()
                raise DataError(f"not extracted in {seconds:g} s")
            # JSON, as a reply is not to be unpickled: the worker reads untrusted files.
            answer = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            self._stop()
            raise DataError("the library that reads it crashed") from None
        if "error" in answer:
            raise DataError(answer["error"])
        blocks = [Block(tuple(path), tuple(paragraphs)) for path, paragraphs in answer["blocks"]]
        return ReadText(answer["text"], answer["title"], blocks)

    def _stop(self) -> None:
        if self._worker is not None:
            process, connection = self._worker
            process.kill()
            process.join()
            process.close()
            connection.close()
            self._worker = None


def read_file(file: Path) -> ReadText:
    """Return the text of a file, read in this process. Raises DataError, and whatever its library raises."""
    suffix = file.suffix.lower()
    if suffix in (".pdf", *MARKDOWN):
        text = _pdf_text(file) if suffix == ".pdf" else decode_document(file.read_bytes(), suffix)
        document = ReadText(text, *(read_plain(text) if suffix == ".pdf" else read_markdown(text)))
    elif suffix in (".xlsx", ".xlsm"):
        blocks = [
            Block((name,) if name else (), tuple(f"- {line}" for line in lines)) for name, lines in read_sheets(file)
        ]
        document = ReadText(
            "\n".join(line for block in blocks for line in (*block.path, *block.paragraphs)), "", blocks
        )
    else:
        is_page = MODULES[suffix] == "html"
        builder = read_html(decode_document(file.read_bytes(), suffix) if is_page else _docx_html(file))
        document = ReadText("\n".join(builder.lines), builder.title, builder.blocks)
    if len(document.text) > MAX_BYTES:
        raise DataError(f"more than {MAX_BYTES:,} characters")
    return document


def _pdf_text(file: Path) -> str:
    import pypdf

    reader = pypdf.PdfReader(file)
    if reader.is_encrypted and not reader.decrypt(""):
        raise DataError("encrypted: save it without a password")
    pages, size = [], 0
    for page in reader.pages:
        pages.append(LINE_END_HYPHEN.sub("", _page_text(page).replace(PAGE_BREAK, "\n")))
        size += len(pages[-1])
        if size > MAX_BYTES:
            raise DataError(f"more than {MAX_BYTES:,} characters")
    return PAGE_BREAK.join(pages)


class _Row(list[tuple[float, str]]):
    """The texts of a line with where they begin, from left to right. y: height of the line on the page."""

    y = 0.0

    @property
    def starts(self) -> tuple[int, ...]:
        """The places where its texts begin."""
        return tuple(round(x) for x, _ in self)


def _page_text(page: Any) -> str:
    """Return the text of a page, of which pypdf gives lines across the columns: columns and tables by their places."""
    rows: list[_Row] = []

    def visit(text: str, matrix: Sequence[float], text_matrix: Sequence[float], *_: object) -> None:
        x, y = text_matrix[4] * matrix[0] + matrix[4], text_matrix[5] * matrix[3] + matrix[5]
        if not rows or (text.strip() and round(y) != round(rows[-1].y)):
            rows.append(_Row())
            rows[-1].y = y
        if text.strip() or not rows[-1]:
            rows[-1].append((x, text))
        else:
            rows[-1][-1] = (rows[-1][-1][0], rows[-1][-1][1] + text)

    page.extract_text(visitor_text=visit)
    parts = []
    while rows:
        end = _aligned_rows(rows)
        parts += _aligned_lines(rows[:end]) if end > 1 else [text for _, text in rows[0]]
        del rows[:end]
    return "".join(parts)


def _aligned_rows(rows: Sequence[_Row]) -> int:
    """Return how many rows at the top are of columns: three or more with texts at the same places; else 1."""
    starts = rows[0].starts
    if len(starts) < 2 or len(rows) < _ALIGNED or [*starts] != sorted({*starts}):
        return 1
    step, end, complete = rows[0].y - rows[1].y, 1, 1
    widths = {start: len(text) for start, (_, text) in zip(starts, rows[0], strict=True)}
    for previous, row in pairwise(rows):
        is_near = 0 < previous.y - row.y <= 2.2 * step
        if not is_near or not all(len(text) <= 1.5 * widths.get(round(x), -99) + 10 for x, text in row):
            break
        widths |= {round(x): max(widths[round(x)], len(text)) for x, text in row}
        end, complete = end + 1, complete + (row.starts == starts)
    return end if complete >= _ALIGNED else 1


def _aligned_lines(rows: Sequence[_Row]) -> list[str]:
    """Return each column of prose as a paragraph, the lines of a table, and list items with their marks."""
    starts = rows[0].starts
    grid = [[next((text for x, text in row if round(x) == start), "").strip() for start in starts] for row in rows]
    columns = [[text for text in column if text] for column in zip(*grid, strict=True)]
    if min(sum(map(len, column)) / len(column) for column in columns) >= _PROSE_CHARS:
        return [LINE_END_HYPHEN.sub("", "\n".join(column)).replace("\n", " ") + "\n" for column in columns]
    if all(map(_ITEM.fullmatch, columns[0])):
        return [f"{' '.join(filter(None, row))}\n" for row in grid]
    return [f"- {line}\n" for line in row_lines([[Cell(text) for text in row] for row in grid])]


def _docx_html(file: Path) -> str:
    import mammoth

    with zipfile.ZipFile(file) as archive:
        if (size := sum(entry.file_size for entry in archive.infolist())) > MAX_BYTES:
            raise DataError(f"{size:,} bytes unpacked, over the limit of {MAX_BYTES:,}")
    with file.open("rb") as stream:
        # Images are left out unopened.
        no_image = mammoth.images.img_element(lambda _: {})
        html = mammoth.convert_to_html(stream, convert_image=no_image, style_map=_DOCX_STYLES).value
    return str(html)


def decode_document(raw: bytes, suffix: str) -> str:
    """Return the text of a file: in the encoding of its byte order mark, in that of a page's `<meta>`, or in UTF-8.

    Pages and tables in neither are in Windows' encoding. Raises UnicodeDecodeError.
    """
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16")
    is_page = MODULES.get(suffix) == "html"
    charset = _CHARSET.search(raw[:4096]) if is_page else None
    encodings = ("utf-8-sig", charset[1].decode() if charset else "cp1252", "latin-1")
    for encoding in encodings if is_page or suffix in TABLES else ():
        with contextlib.suppress(UnicodeDecodeError, LookupError):
            return raw.decode(encoding)
    return raw.decode("utf-8-sig")


def read_document_text(file: Path) -> str:
    """Return the text of a text file, with one character at the ends of lines. Raises OSError and UnicodeDecodeError."""
    return decode_document(file.read_bytes(), file.suffix.lower()).replace("\r\n", "\n").replace("\r", "\n")


def _serve(requests: Connection, memory: int) -> None:
    """Answer each message, a path, by JSON with its text and blocks or the reason that there are none."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    logging.disable()
    end_with_parent()  # a file that takes long must not go on alone
    while True:
        try:
            file = Path(requests.recv_bytes().decode("utf-8", "surrogateescape"))
        except (EOFError, OSError):
            return
        try:
            document = read_file(file)
            blocks = [[block.path, block.paragraphs] for block in document.blocks]
            answer = json.dumps({"text": document.text, "title": document.title, "blocks": blocks}).encode()
        except DataError as error:
            answer = json.dumps({"error": str(error)}).encode()
        except (MemoryError, RecursionError) as error:
            answer = json.dumps({"error": f"too large or nested too deeply ({type(error).__name__})"}).encode()
        except Exception as error:  # noqa: BLE001  # the boundary of the libraries: a broken file is a reason, not a crash
            answer = json.dumps({"error": f"not readable ({type(error).__name__}: {str(error)[:120]})"}).encode()
        requests.send_bytes(answer)
