"""Documents of a user's folder: Markdown, text and JSONL files, cut into passages of bounded length.

Files are turned into blocks (`factgym.corpora.markdown`, `factgym.corpora.plain_text`); blocks become passages, cut
between paragraphs, else between sentences, else between words. A passage keeps one paragraph, list item (`- …`, `1. …`)
or table row per line. ClaimCheck quotes evidence by the sentence ("Building The Benchmark"), so a passage never cuts a
sentence that fits in it.

Files that cannot be read are never dropped in silence: `read_folder` reports them in `skipped`, and a broken JSONL line
is an error that names the line, since a person means every record of such a file. Files are read in the sorted order of
their paths, so the same folder gives the same documents on every machine. Links that leave the folder are not followed,
and hidden files and folders are left out.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from tempfile import SpooledTemporaryFile
from typing import IO

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.byte_ranges import visible_files
from factgym.corpora.corpus import Passage
from factgym.corpora.extraction import MODULES, Extractor
from factgym.corpora.markdown import read_markdown
from factgym.corpora.plain_text import Block, read_plain, title_case
from factgym.corpora.rows import OnBad, parse_object, type_name
from factgym.corpora.sentences import sentences

DEFAULT_GLOB = ("**/*.md", "**/*.txt", "**/*.jsonl")
EXTRACTED_GLOB = (
    *DEFAULT_GLOB,
    "**/*.markdown",
    *(f"**/*{form(suffix)}" for suffix in MODULES for form in (str.lower, str.upper)),
)
"""With the documents that `factgym.corpora.extraction` reads."""

MAX_PASSAGE_CHARS = 900
MAX_FILE_BYTES = 8_000_000
MAX_TITLE_CHARS = 120
SLUG_CHARS = 48
"""Longest document id, in characters, before a suffix that keeps it unique."""

_MIN_PASSAGE_CHARS = 100
_SPOOL_BYTES = 32_000_000
"""Texts of a folder that are held in memory; more of them are in a temporary file."""

_MARKDOWN = (".md", ".markdown")
_EXPECTED = "*.md, *.txt or *.jsonl files with text in UTF-8"
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
    """A file that was not read, by its path inside the folder, and why."""

    path: str
    reason: str


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
    glob: str | Sequence[str] = DEFAULT_GLOB,
    max_passage_chars: int = MAX_PASSAGE_CHARS,
    max_file_bytes: int = MAX_FILE_BYTES,
    extract: bool = False,
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
        extract=extract,
        on_bad=on_bad,
        on_skipped=skipped.append,
    )
    return Folder(tuple(documents), tuple(skipped))


def iter_folder(
    path: str | Path,
    *,
    glob: str | Sequence[str] = DEFAULT_GLOB,
    max_passage_chars: int = MAX_PASSAGE_CHARS,
    max_file_bytes: int = MAX_FILE_BYTES,
    extract: bool = False,
    on_bad: OnBad | None = None,
    on_skipped: Callable[[Skipped], object] = lambda _: None,
) -> Iterator[Document]:
    """Yield the documents of a folder (or of one file) one after another, in the sorted order of their paths.

    As a title depends on those of all documents, every file is read before the first document is returned; the texts wait
    in a temporary file, and only names are held in memory.

    glob: patterns over the path inside the folder; `*` stays within one folder, `**/` crosses folders.
    max_passage_chars: at least 100. max_file_bytes: larger files are skipped. extract: read HTML, PDF and DOCX (extra
    `documents`). on_bad: takes the error of a broken JSONL line, which is left out. on_skipped: takes the files that could not
    be read, all before the first document.
    Raises DataError for a missing or empty folder and for a broken JSONL line, ConfigError for a bad limit.
    """
    if max_passage_chars < _MIN_PASSAGE_CHARS or max_file_bytes < 1:
        raise ConfigError(f"max_passage_chars must be at least {_MIN_PASSAGE_CHARS} and max_file_bytes at least 1")
    root, names = _matching_files(Path(path), (glob,) if isinstance(glob, str) else tuple(glob))
    drafts: list[_Draft] = []
    skipped: list[Skipped] = []
    with SpooledTemporaryFile(_SPOOL_BYTES) as spool:
        with Extractor() as extractor:
            for name in names:
                text = _file_text(root, name, max_file_bytes, extractor if extract else None)
                if isinstance(text, Skipped):
                    skipped.append(text)
                    continue
                is_rows = name.lower().endswith(".jsonl")
                new_drafts = _jsonl_drafts(name, text, on_bad) if is_rows else [_text_draft(name, text, extract)]
                readable = [draft.spool(spool) for draft in new_drafts if draft.blocks]
                drafts += readable
                if not readable:
                    skipped.append(Skipped(name, "it holds no text"))
        if not drafts:
            expected = (
                _EXPECTED if glob in (DEFAULT_GLOB, EXTRACTED_GLOB) else f"files matching {glob!r} with text in UTF-8"
            )
            reasons = "; ".join(f"{file.path}: {file.reason}" for file in skipped[:3])
            more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
            detail = f" (skipped {reasons}{more})" if skipped else ""
            raise DataError(f"{path}: no document found; expected {expected}{detail}.")
        for file in skipped:
            on_skipped(file)
        spool.seek(0)
        yield from _settle(drafts, spool, max_passage_chars)


def _text_draft(name: str, text: str, extract: bool) -> _Draft:
    """Return the document of a text file, with the title of its first heading or of its name."""
    suffix = PurePosixPath(name).suffix.lower()
    is_extracted = extract and suffix in MODULES
    is_markdown = suffix in _MARKDOWN or (is_extracted and suffix != ".pdf")
    title, blocks = read_markdown(text) if is_markdown else read_plain(text)
    # A file name of several words is a better title than the first line of a plain text.
    if not title or (not is_markdown and len(title_from_name(name).split()) > 2):
        title = title_from_name(name)
    title = title[:MAX_TITLE_CHARS]
    return _Draft(title, title, tuple(_name_words(name)), tuple(blocks), name, text if is_extracted else "")


def _matching_files(path: Path, patterns: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the folder, and the paths inside it (POSIX form, sorted) that match a pattern."""
    if path.is_file():
        return path.parent, [path.name]
    if not path.is_dir():
        raise DataError(f"{path}: no such folder; expected a folder of {_EXPECTED}.")
    wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    alternatives = (
        "".join(wildcards.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern))
        for pattern in patterns
    )
    regex = re.compile("|".join(alternatives), re.DOTALL)
    return path, sorted(name for name in visible_files(path) if regex.fullmatch(name))


def matching_files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the files of a folder that match a pattern, in the order in which they are read."""
    return [folder / name for name in _matching_files(folder, patterns)[1] if (folder / name).is_file()]


def _file_text(root: Path, name: str, max_bytes: int, extract: Extractor | None) -> str | Skipped:
    """Return the text of one file, or why it is skipped."""
    path = root / name
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
            return Skipped(name, "a link that leaves the folder")
        if not path.is_file():
            return Skipped(name, "not a regular file")
        if extract is not None and path.suffix.lower() in MODULES:
            return extract(path)
        size = path.stat().st_size
        if size > max_bytes:
            return Skipped(name, f"{size:,} bytes, over the limit of {max_bytes:,} (max_file_bytes)")
        raw = path.read_bytes()[:max_bytes]
    except OSError as error:
        return Skipped(name, f"cannot be read ({error.strerror or type(error).__name__})")
    except DataError as error:
        return Skipped(name, str(error))
    if b"\0" in raw:
        return Skipped(name, "a binary file")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        return Skipped(name, f"not UTF-8 at byte {error.start}: convert it to UTF-8")


def _jsonl_drafts(name: str, text: str, on_bad: OnBad | None) -> Iterator[_Draft]:
    """Yield the documents of JSON lines: `{"id": …, "title": …, "text": …}`, or `contents` as Pyserini writes it.

    Raises DataError with the file and the line for anything that is not an object with a text, or gives it to `on_bad`.
    """
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
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
    ids, titles = UniqueNames(), UniqueNames()
    for head in drafts:
        draft = head.restore(spool.readline())
        title, folded = draft.title, draft.title.casefold()
        if len(namesakes[folded]) > 1:
            common = set.intersection(*map(set, namesakes[folded]))
            words = [word for word in draft.name_words if word not in common and word.casefold() not in folded]
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
        self._used: set[str] = set()

    def take(self, base: str) -> str:
        """Return `base`, or `base-2`, `base-3` … where it is taken."""
        number, name = 1, base
        while self._fold(name) in self._used:
            number += 1
            name = f"{base}{self._separator}{number}"
        self._used.add(self._fold(name))
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
