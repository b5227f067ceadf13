"""Documents of a user's folder, in the formats of `factgym.corpora.extraction`, cut into passages of bounded length.

Files are turned into blocks (`factgym.corpora.markdown`, `factgym.corpora.plain_text`); blocks become passages, cut
between paragraphs, else between sentences, else between words. A passage keeps one paragraph, list item (`- …`, `1. …`)
or table row per line. ClaimCheck quotes evidence by the sentence ("Building The Benchmark"), so a passage never cuts a
sentence that fits in it.

Files that cannot be read are never dropped in silence: `read_folder` reports them in `skipped`, and a broken JSONL line
is an error that names the line, since a person means every record of such a file. Files are read in the sorted order of
their paths, so the same folder gives the same documents on every machine. Links that leave the folder are not followed,
nor hidden files and folders read; they are in `skipped` too.
"""

from __future__ import annotations

import json
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from tempfile import SpooledTemporaryFile
from typing import IO

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.core.paths import kind_of
from factgym.corpora.byte_ranges import visible_files
from factgym.corpora.corpus import Passage
from factgym.corpora.extraction import (
    MARKDOWN,
    MODULES,
    READABLE,
    TABLES,
    BudgetError,
    Extractor,
    ReadingBudget,
    ReadText,
    read_document_text,
)
from factgym.corpora.http_client import printable
from factgym.corpora.plain_text import Block, read_plain, title_case
from factgym.corpora.rows import OnBad, parse_object, type_name
from factgym.corpora.tables import text_lines
from factgym.text.sentences import sentences

_logger = logging.getLogger(__name__)

MAX_PASSAGE_CHARS = 900
MAX_FILE_BYTES = 8_000_000
MAX_TITLE_CHARS = 120
SLUG_CHARS = 48
"""Longest document id, in characters, before a suffix that keeps it unique."""

_MIN_PASSAGE_CHARS = 100
_SPOOL_BYTES = 32_000_000
"""Texts of a folder that are held in memory; more of them are in a temporary file."""

_EXPECTED = f"files with text in a kind that is read ({', '.join(READABLE)})"
_OTHER = "of a kind that is not read: give text, Markdown, JSON lines, HTML, CSV, XLSX, DOCX or PDF"
_SLUG = re.compile(r"[^a-z0-9]+")
_NAME_SEPARATOR = re.compile(r"[_\s]+|-")
_NAME_CODE = re.compile(r"\d+[^a-zA-Z]?.*|EX|SB|SC|A|S|K|K\d+|KA|Q", re.I)
"""Words of a file name that are numbers, dates or exhibit codes."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document. `id` is unique in its folder; a passage's id is `<document id>#<number from 1>`.

    path: of its file inside the folder, "" where it comes from none. text: as extracted, "" of a text file.
    """

    id: str
    title: str
    passages: tuple[Passage, ...]
    path: str = field(default="", compare=False)
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, by its path inside the folder, and why. is_other: it is no document by its name."""

    path: str
    reason: str
    is_other: bool = False


def skipped_lines(skipped: Sequence[Skipped], limit: int = 20) -> list[str]:
    """Return a line for each of the first files that were not read, and one that counts the others by their reasons."""
    lines = [f"{printable(file.path)[:200]}: {printable(file.reason)[:300]}" for file in skipped[:limit]]
    if len(skipped) > limit:
        reasons = Counter(printable(file.reason)[:100] for file in skipped[limit:]).most_common(3)
        counts = "; ".join(f"{count:,} × {reason}" for reason, count in reasons)
        lines.append(f"and {len(skipped) - limit:,} more ({counts})")
    return lines


@dataclass(frozen=True, slots=True)
class Folder:
    """The documents of a folder, and the files that could not be read."""

    documents: tuple[Document, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A document before its id and title are settled. name_words: of its file, which tell it from its namesakes."""

    id: str
    title: str
    name_words: tuple[str, ...]
    blocks: tuple[Block, ...]
    path: str
    text: str = ""

    def spool(self, file: IO[bytes]) -> _Draft:
        """Write blocks and text to the end of a file; return the draft without them."""
        blocks = [[block.path, block.paragraphs] for block in self.blocks]
        file.write(json.dumps([blocks, self.text]).encode() + b"\n")
        return replace(self, blocks=(), text="")

    def restore(self, line: bytes) -> _Draft:
        """Return the draft with the blocks and the text of its line."""
        blocks, text = json.loads(line)
        restored = tuple(Block(tuple(path), tuple(paragraphs)) for path, paragraphs in blocks)
        return replace(self, blocks=restored, text=text)


def read_folder(
    path: str | Path,
    *,
    glob: str | Sequence[str] | None = None,
    max_passage_chars: int = MAX_PASSAGE_CHARS,
    max_file_bytes: int = MAX_FILE_BYTES,
    budget: ReadingBudget | None = None,
    on_bad: OnBad | None = None,
) -> Folder:
    """Return the documents of a folder (or of one file), in the sorted order of their paths, and the skipped files.

    Arguments and errors as of `iter_folder`.
    """
    skipped: list[Skipped] = []
    documents = iter_folder(
        path,
        glob=glob,
        max_passage_chars=max_passage_chars,
        max_file_bytes=max_file_bytes,
        budget=budget,
        on_bad=on_bad,
        on_skipped=skipped.append,
    )
    return Folder(tuple(documents), tuple(skipped))


def iter_folder(
    path: str | Path,
    *,
    glob: str | Sequence[str] | None = None,
    max_passage_chars: int = MAX_PASSAGE_CHARS,
    max_file_bytes: int = MAX_FILE_BYTES,
    budget: ReadingBudget | None = None,
    on_bad: OnBad | None = None,
    on_skipped: Callable[[Skipped], object] | None = None,
) -> Iterator[Document]:
    """Yield the documents of a folder (or of one file) one after another, in the sorted order of their paths.

    As a title depends on those of all documents, every file is read before the first document is returned; the texts wait
    in a temporary file, and only names are held in memory.

    glob: patterns over the path inside the folder; `*` stays within one folder, `**/` crosses folders. By default all
    files that can be read (`READABLE`); the others are skipped. max_passage_chars: at least 100. max_file_bytes: larger
    files of text are skipped. budget: for all files together; what does not fit is skipped. on_bad: takes the error of a broken JSONL
    line, which is left out. on_skipped: takes the files that could not be read; by default a warning names them.
    Raises DataError for a missing or empty folder and for a broken JSONL line, ConfigError for a bad limit.
    """
    if max_passage_chars < _MIN_PASSAGE_CHARS or max_file_bytes < 1:
        raise ConfigError(f"max_passage_chars must be at least {_MIN_PASSAGE_CHARS} and max_file_bytes at least 1")
    root, names, others = _matching_files(Path(path), (glob,) if isinstance(glob, str) else glob)
    drafts: list[_Draft] = []
    skipped = [Skipped(name, _reason_of_other(name), is_other=True) for name in others]
    with SpooledTemporaryFile(_SPOOL_BYTES) as spool:
        with Extractor(budget) as extractor:
            for name in names:
                read = _file_drafts(root, name, max_file_bytes, extractor, on_bad)
                new_drafts, reason = _readable_drafts(read, spool)
                drafts += new_drafts
                if reason:
                    skipped.append(Skipped(name, reason))
        if not drafts:
            expected = f"files matching {glob!r} with text" if glob else _EXPECTED
            detail = f" (skipped {'; '.join(skipped_lines(skipped, 3))})" if skipped else ""
            raise DataError(f"{path}: no document found; expected {expected}{detail}.")
        if on_skipped is not None:
            for file in skipped:
                on_skipped(file)
        elif skipped:
            _logger.warning("%s: not read: %s", path, "; ".join(skipped_lines(skipped, 3)))
        spool.seek(0)
        yield from _settle(drafts, spool, max_passage_chars)


class _SkippedError(Exception):
    """A file that is not read; the message says why."""


def _readable_drafts(read: Iterable[_Draft], spool: IO[bytes]) -> tuple[list[_Draft], str]:
    """Return the documents with text of a file, spooled, and why the file or a part of it is left out, else empty."""
    drafts: list[_Draft] = []
    try:
        drafts += (draft.spool(spool) for draft in read if draft.blocks)
    except BudgetError as error:
        return drafts, f"in part: {error}" if drafts else str(error)
    except _SkippedError as error:
        return drafts, str(error)
    return drafts, "" if drafts else "it holds no text"


def _text_draft(name: str, document: ReadText, is_extracted: bool) -> _Draft:
    """Return the document of a text file, with the title of its first heading or of its name."""
    suffix, title = PurePosixPath(name).suffix.lower(), document.title
    is_markdown = suffix in MARKDOWN or (is_extracted and suffix != ".pdf")
    # A file name of several words is a better title than the first line of a plain text.
    if not title or (not is_markdown and len(title_from_name(name).split()) > 2):
        title = title_from_name(name)
    title = title[:MAX_TITLE_CHARS]
    text = document.text if is_extracted else ""
    return _Draft(title, title, tuple(_name_words(name)), tuple(document.blocks), name, text)


def _matching_files(path: Path, patterns: Sequence[str] | None = None) -> tuple[Path, list[str], list[str]]:
    """Return the folder, and the paths inside it (POSIX form, sorted) that match a pattern, or can be read.

    The last list has the other files, and the folders that are not entered, if there are no patterns.
    """
    kind = kind_of(path)
    if kind == "file":
        return path.parent, [path.name], []
    if kind is None:
        raise DataError(f"{path}: no such folder; expected a folder of {_EXPECTED}.")
    if patterns is None:
        passed_over: list[str] = []
        names = sorted(visible_files(path, passed_over))
        readable = [name for name in names if name.lower().endswith(READABLE)]
        return path, readable, sorted({*names, *passed_over}.difference(readable))
    wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    alternatives = (
        "".join(wildcards.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern))
        for pattern in patterns
    )
    regex = re.compile("|".join(alternatives), re.DOTALL)
    return path, sorted(name for name in visible_files(path) if regex.fullmatch(name)), []


def _reason_of_other(name: str) -> str:
    if name.rstrip("/").rpartition("/")[2].startswith("."):
        return "hidden by the dot before its name"
    return "a link to a folder: name the folder itself" if name.endswith("/") else _OTHER


def document_files(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the documents of a folder in the order in which they are read, and the names of its other files."""
    _, names, others = _matching_files(folder)
    return [folder / name for name in names if (folder / name).is_file()], others


def _file_text(path: Path, max_bytes: int) -> str:
    """Return the text of a file. Raises _SkippedError, OSError and UnicodeDecodeError."""
    size = path.stat().st_size
    if size > max_bytes:
        raise _SkippedError(f"{size:,} bytes, over the limit of {max_bytes:,} (max_file_bytes)")
    text = read_document_text(path)
    if "\0" in text:
        raise _SkippedError("a binary file")
    return text


def _file_drafts(root: Path, name: str, max_bytes: int, extractor: Extractor, on_bad: OnBad | None) -> Iterator[_Draft]:
    """Yield the documents of one file. Raises _SkippedError with the reason where it is not read, and BudgetError."""
    path = root / name
    suffix = path.suffix.lower()
    extractor.budget.check()
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
            raise _SkippedError("a link that leaves the folder")
        if not path.is_file():
            raise _SkippedError("not a regular file")
        if suffix in MODULES:
            yield _text_draft(name, extractor(path), True)
            return
        text = _file_text(path, max_bytes)
        if suffix in TABLES:
            extractor.budget.take(text)
            lines = tuple(f"- {line}" for line in text_lines(text, name))
            extractor.budget.take("\n".join(lines))
            yield _text_draft(name, ReadText(text, "", [Block((), lines)] if lines else []), True)
            return
        if suffix not in (".jsonl", ".ndjson"):
            yield _text_draft(name, extractor(path, text), False)
            return
    except OSError as error:
        raise _SkippedError(f"cannot be read ({error.strerror or type(error).__name__})") from None
    except UnicodeDecodeError as error:
        raise _SkippedError(f"not UTF-8 at byte {error.start}: convert it to UTF-8") from None
    except (DataError, MissingExtraError) as error:
        raise error if isinstance(error, BudgetError) else _SkippedError(str(error)) from None
    yield from _jsonl_drafts(name, text, extractor.budget, on_bad)


def _jsonl_drafts(name: str, text: str, budget: ReadingBudget, on_bad: OnBad | None) -> Iterator[_Draft]:
    """Yield the documents of JSON lines: `{"id": …, "title": …, "text": …}`, or `contents` as Pyserini writes it.

    Raises DataError with the file and the line for anything that is not an object with a text, or gives it to `on_bad`.
    """
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        budget.check()
        budget.take(line)
        try:
            draft = _jsonl_draft(name, number, line)
            if draft.id in lines:
                first = f"the id {draft.id[:80]!r} is on line {lines[draft.id]} too"
                raise DataError(f"{name} line {number}: {first}. Make ids unique.")
        except DataError as error:
            if on_bad is None:
                raise
            on_bad(error)
        else:
            lines[draft.id] = number
            yield draft


def _jsonl_draft(name: str, number: int, line: str) -> _Draft:
    """Return the document of a line; FlashRAG's `contents` holds the title as a quoted first line."""
    location = f"{name} line {number}"
    values = parse_object(line, location)
    key = next((key for key in ("text", "contents") if key in values), None)
    if key is None:
        keys = ", ".join(sorted(map(str, values))[:8]) or "no keys"
        raise DataError(f'{location}: no "text" or "contents" (found: {keys[:200]}). Add the text or remove the line.')
    body, title = values[key], values.get("title") or ""
    id_ = values.get("id", f"line-{number}")
    for column, value in ((key, body), ("title", title)):
        if not isinstance(value, str):
            raise DataError(f"{location}: {column!r} must be a string, not {type_name(value)}.")
    if not isinstance(id_, str | int) or isinstance(id_, bool) or id_ == "":
        raise DataError(f"{location}: 'id' must be a string or a whole number that is not empty.")
    first, newline, remainder = body.partition("\n")
    if key == "contents" and not title and newline and len(first) > 2 and first[0] == first[-1] == '"':
        title, body = first[1:-1], remainder
    # JSON can spell lone surrogates, which no file or server can carry.
    id_, title, body = (text.encode("utf-8", "replace").decode() for text in (str(id_), title, body))
    return _Draft(id_, " ".join(title.split()) or id_, tuple(id_.split()), tuple(read_plain(body)[1]), name)


def _settle(drafts: Sequence[_Draft], spool: IO[bytes], max_chars: int) -> Iterator[Document]:
    """Make ids and titles unique, since a question names a document by its title, and cut the blocks.

    spool: the lines of the drafts.

    A title that several documents have is followed by those words of the file name that the others lack.
    """
    namesakes: dict[str, list[tuple[str, ...]]] = {}
    for draft in drafts:
        namesakes.setdefault(draft.title.casefold(), []).append(draft.name_words)
    common_words = {folded: set.intersection(*map(set, words)) for folded, words in namesakes.items()}
    ids, titles = UniqueNames(), UniqueNames()
    for head in drafts:
        draft = head.restore(spool.readline())
        title, folded = draft.title, draft.title.casefold()
        if len(namesakes[folded]) > 1:
            words = [
                word for word in draft.name_words if word not in common_words[folded] and word.casefold() not in folded
            ]
            title = f"{title} ({' '.join(words[:6])})" if words else title
        document = make_document(ids.take(slug(draft.id)), titles.take(title), draft.blocks, max_chars)
        yield replace(document, path=draft.path, text=draft.text)


def title_from_name(name: str) -> str:
    """Return a title from a file name: "Refund policy" for `refund-policy.md`; exhibit numbers and dates left out.

    Of a name that repeats itself ("Terms of Service__Shop__EN-Terms-of-Service") its last part counts.
    """
    words = _name_words(name)
    last = _name_words(name.rpartition("__")[2])
    if set(map(str.casefold, last)) & set(map(str.casefold, words[: -len(last)])):
        words = last
    text = " ".join(words).strip(" .,") or PurePosixPath(name).stem
    text = title_case(text)
    return (text[:1].upper() + text[1:])[:MAX_TITLE_CHARS]


def _name_words(name: str) -> list[str]:
    """Return the words of a file name; in one with numbers, exhibit codes and dates are left out."""
    stem = PurePosixPath(name).stem
    has_codes = any(char.isdigit() for char in stem)
    words = [word for word in _NAME_SEPARATOR.split(stem) if word and word.casefold() != "index"]
    return [word for word in words if not (has_codes and _NAME_CODE.fullmatch(word))]


def slug(text: str) -> str:
    """Return lower-case ASCII words joined by hyphens, cut at a word: `"Refund Policy – HEY"` -> `"refund-policy-hey"`."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower().replace("'", "")
    name = _SLUG.sub("-", ascii_text).strip("-")
    if len(name) <= SLUG_CHARS:
        return name or "document"
    return name[: SLUG_CHARS + 1].rpartition("-")[0] or name[:SLUG_CHARS]


class UniqueNames:
    """Names that are unique after `fold`, by default without regard to case: the second `x` becomes `x-2`."""

    def __init__(self, separator: str = "-", fold: Callable[[str], str] = str.lower) -> None:
        self._separator, self._fold = separator, fold
        self._used: dict[str, int] = {}

    def take(self, base: str) -> str:
        """Return `base`, or `base-2`, `base-3` … where it is taken."""
        # The numbers up to that of a name are taken, so that the next search begins there.
        folded, name = self._fold(base), base
        while (key := self._fold(name)) in self._used:
            self._used[folded] += 1
            name = f"{base}{self._separator}{self._used[folded]}"
        self._used[key] = 1
        return name


def cut(paragraph: str, limit: int) -> Iterator[str]:
    """Yield `paragraph` in parts of at most `limit` characters: whole sentences while they fit, else words, else letters."""
    if len(paragraph) <= limit:
        yield paragraph
        return
    # Greedy: `paragraph[start:end]` are whole sentences that fit; one that does not begins a new part, and is itself
    # split between words while it is too long.
    start = end = 0
    parts: list[str] = []
    for sentence_end in [*(stop for _, stop in sentences(paragraph)), len(paragraph)]:
        if sentence_end - start > limit and end > start:
            parts.append(paragraph[start:end])
            start = end
        while sentence_end - start > limit:
            space = paragraph.rfind(" ", start + 1, start + limit + 1)
            stop = space if space > start else start + limit
            parts.append(paragraph[start:stop])
            start = stop
        end = sentence_end
    parts.append(paragraph[start:])
    yield from filter(None, map(str.strip, parts))


def pack(paragraphs: Iterable[str], limit: int) -> Iterator[str]:
    """Join paragraphs by line breaks into texts of at most `limit` characters."""
    # Next-fit packing: order is kept, so a text is closed as soon as the next part does not fit.
    lines: list[str] = []
    length = 0
    for paragraph in paragraphs:
        for part in cut(paragraph, limit):
            if lines and length + 1 + len(part) > limit:
                yield "\n".join(lines)
                lines, length = [], 0
            length += len(part) + bool(lines)
            lines.append(part)
    if lines:
        yield "\n".join(lines)


def passage_title(title: str, path: Sequence[str]) -> str:
    """Return `"Refund Policy › Annual plans"`: the document and the last two headings that differ from its title."""
    below = [part for part in path if part.casefold() != title.casefold()]
    return " › ".join([title, *below[-2:]])


def make_document(id_: str, title: str, blocks: Iterable[Block], max_passage_chars: int) -> Document:
    """Cut blocks into passages; a document without text has none."""
    passages: list[Passage] = []
    for block in blocks:
        name = passage_title(title, block.path)
        for text in pack(block.paragraphs, max_passage_chars):
            passages.append(Passage(f"{id_}#{len(passages) + 1}", name, text))
    return Document(id_, title, tuple(passages))
