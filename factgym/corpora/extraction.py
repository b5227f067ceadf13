"""Text of HTML, DOCX and PDF files, extracted in a process of its own (extra `documents`).

    with Extractor() as extract:
        text = extract(Path("handbook.pdf"))

HTML and DOCX (by mammoth) become Markdown by markdownify, without emphasis, links and images, so that sentences read as
the document has them; a PDF becomes its pages (by pypdf) with a form feed between them. Files are untrusted: size,
expansion, memory and time are bounded, a file that breaks a bound or the library ends the worker and not the caller, and
nothing that a file refers to is opened.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import re
import sys
import zipfile
from importlib.util import find_spec
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from factgym.core.errors import DataError, MissingExtraError
from factgym.core.processes import end_with_parent

MODULES = {".html": "markdownify", ".htm": "markdownify", ".docx": "mammoth", ".pdf": "pypdf"}
"""Suffixes of files, and the library that reads each."""

PAGE_BREAK = "\f"
MAX_BYTES = 100_000_000
"""Bytes of a file, of a DOCX unpacked, and characters of the extracted text."""

MAX_SECONDS = 120.0
MAX_MEMORY_BYTES = 4 << 30

_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?([\w-]{1,40})""", re.I)
_WITHOUT_TEXT = ("script", "style", "noscript", "template", "svg", "head", "nav")
_INLINE = ["a", "b", "strong", "i", "em", "img", "code", "del", "s", "sub", "sup"]


class Extractor:
    """Extracts texts one after another in a worker process, which is started when it is needed; a context manager."""

    def __init__(self, max_seconds: float = MAX_SECONDS) -> None:
        self._max_seconds = max_seconds
        self._worker: tuple[BaseProcess, Connection] | None = None

    def __enter__(self) -> Extractor:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def __call__(self, file: Path) -> str:
        """Return the text of a file. Raises MissingExtraError, and DataError with the reason where there is no text."""
        suffix = file.suffix.lower()
        if find_spec(MODULES[suffix]) is None:
            raise MissingExtraError(f"{file.name}: reading {suffix} files", "documents")
        if (size := file.stat().st_size) > MAX_BYTES:
            raise DataError(f"{size:,} bytes, over the limit of {MAX_BYTES:,}")
        if self._worker is None:
            # A fresh interpreter: a fork would copy the threads' locks of the caller.
            spawn = multiprocessing.get_context("spawn")
            requests, worker_end = spawn.Pipe()
            process = spawn.Process(target=_serve, args=(worker_end,), daemon=True)
            process.start()
            worker_end.close()
            self._worker = (process, requests)
        connection = self._worker[1]
        try:
            connection.send_bytes(str(file.absolute()).encode("utf-8", "surrogateescape"))
            if not connection.poll(self._max_seconds):
                self._stop()
                raise DataError(f"not extracted in {self._max_seconds:g} s")
            # JSON, as a reply is not to be unpickled: the worker reads untrusted files.
            answer = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            self._stop()
            raise DataError("the library that reads it crashed") from None
        if "error" in answer:
            raise DataError(answer["error"])
        return str(answer["text"])

    def _stop(self) -> None:
        if self._worker is not None:
            process, connection = self._worker
            process.kill()
            process.join()
            process.close()
            connection.close()
            self._worker = None


def extract_text(file: Path) -> str:
    """Return the text of a file in this process. Raises DataError, and whatever its library raises."""
    suffix = file.suffix.lower()
    if suffix == ".pdf":
        return _pdf_text(file)
    return _markdown(_docx_html(file) if suffix == ".docx" else _html_text(file.read_bytes()))


def _pdf_text(file: Path) -> str:
    import pypdf

    reader = pypdf.PdfReader(file)
    if reader.is_encrypted and not reader.decrypt(""):
        raise DataError("encrypted: save it without a password")
    pages, size = [], 0
    for page in reader.pages:
        pages.append(page.extract_text().replace(PAGE_BREAK, "\n"))
        size += len(pages[-1])
        if size > MAX_BYTES:
            raise DataError(f"more than {MAX_BYTES:,} characters")
    return PAGE_BREAK.join(pages)


def _docx_html(file: Path) -> str:
    import mammoth

    with zipfile.ZipFile(file) as archive:
        if (size := sum(entry.file_size for entry in archive.infolist())) > MAX_BYTES:
            raise DataError(f"{size:,} bytes unpacked, over the limit of {MAX_BYTES:,}")
    with file.open("rb") as stream:
        # Images are left out unopened; a table of two or more rows has its names in the first.
        html = mammoth.convert_to_html(stream, convert_image=mammoth.images.img_element(lambda _: {})).value
    return str(html)


def _html_text(raw: bytes) -> str:
    charset = _CHARSET.search(raw[:4096])
    for encoding in ("utf-8-sig", charset[1].decode() if charset else "cp1252"):
        try:
            return raw.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    return raw.decode("latin-1")


def _markdown(html: str) -> str:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for tag in soup(_WITHOUT_TEXT):
        tag.decompose()
    options: dict[str, Any] = {
        **{"strip": _INLINE, "bullets": "-", "heading_style": "ATX", "table_infer_header": True},
        **dict.fromkeys(("escape_asterisks", "escape_underscores", "escape_misc"), False),
    }
    text = str(MarkdownConverter(**options).convert_soup(soup)).strip()
    return f"# {title}\n\n{text}" if title and text and not soup.find("h1") else text


def _serve(requests: Connection) -> None:
    """Answer each message, a path, by JSON with its text or the reason that there is none."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    logging.disable()
    end_with_parent()  # a file that takes long must not go on alone
    while True:
        try:
            file = Path(requests.recv_bytes().decode("utf-8", "surrogateescape"))
        except (EOFError, OSError):
            return
        try:
            answer = {"text": extract_text(file)}
            if len(answer["text"]) > MAX_BYTES:
                answer = {"error": f"more than {MAX_BYTES:,} characters"}
        except DataError as error:
            answer = {"error": str(error)}
        except (MemoryError, RecursionError) as error:
            answer = {"error": f"too large or nested too deeply ({type(error).__name__})"}
        except Exception as error:  # noqa: BLE001  # the boundary of the libraries: a broken file is a reason, not a crash
            answer = {"error": f"not readable ({type(error).__name__}: {str(error)[:120]})"}
        requests.send_bytes(json.dumps(answer).encode())
