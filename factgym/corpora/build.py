"""Corpora of users' files and folders: opened, read into memory, or built on disk.

    corpus = read_passages("wiki")                      # a folder that `factgym corpus build` wrote
    corpus = read_passages("wiki-18.jsonl.gz")          # FlashRAG, Search-R1
    corpus = read_passages("psgs_w100.tsv.gz")          # DPR
    corpus = read_passages("hotpot_dev_distractor_v1.json")   # the questions' contexts
    corpus = read_passages("policies/")                 # Markdown and text
    build_corpus("wiki-18.jsonl.gz", "wiki")

`factgym.corpora.passage_files` lists the layouts. Large files are built once into the user's cache, by their content, and
opened from there by later processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import compress, starmap
from pathlib import Path
from typing import Any, Literal, NamedTuple

from factgym.core.errors import ConfigError, DataError
from factgym.core.paths import exists, open_file, path_error, user_path
from factgym.core.processes import lock
from factgym.core.tasks import shared
from factgym.corpora.bm25 import ANALYSER, K1, B
from factgym.corpora.cooccurrence.building import Run
from factgym.corpora.cooccurrence.sources import Article, BadRecords
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.documents import Document, Skipped, document_files
from factgym.corpora.estimates import unpacked_bytes
from factgym.corpora.extraction import MODULES, PAGE_BREAK, Extractor, ReadingBudget, read_document_text
from factgym.corpora.http_client import is_remote
from factgym.corpora.index import kind_of
from factgym.corpora.passage_files import (
    AUTO,
    dump_files,
    iter_passages,
    no_article,
    read_article,
    read_dump,
    read_texts,
    row_files,
    row_passages,
)
from factgym.corpora.retrieved import RetrievedCorpus
from factgym.corpora.rows import OnBad
from factgym.corpora.store import TEXT, VERSION, StoredCorpus, is_stored_corpus
from factgym.corpora.store_chunks import SourcedPassage
from factgym.corpora.store_writer import Items, OnProgress, write_corpus
from factgym.text.folding import fold_with_offsets
from factgym.text.sentences import sentences

CACHE_VARIABLE = "FACTGYM_CACHE"
"""Environment variable with the folder of the cache, in place of the user's."""

ON_DISK_FROM = 32_000_000
"""Bytes of rows from which on `read_passages` builds a corpus in the cache; reading that much takes some seconds."""

_MARKUP = re.compile(
    r"(?<=\])(?:\([^()\s]{1,2000}+[^()\n]{0,200}+\)|\[[^\[\]\n]{0,200}+\])|</?[A-Za-z][^<>]{0,500}+>|\{%[^%]{0,500}+%\}"
)
"""Targets and references of Markdown's links, tags and Liquid's."""

_WORD = re.compile(r"\S+")

_ANCHOR = 24
"""Letters and digits by which the beginning and the end of a passage are found in its document."""

_REACH = 200_000
"""Letters and digits, from the passage before, among which the next one is looked for."""

_TRIES = 20
"""Occurrences of a passage's beginning after which it is given up."""

BUILD_SECONDS, BUILD_CHARS = 7_200.0, 10_000_000_000
"""Default budget for the texts of a folder; passages and index are on disk."""

_MAX_NOTED = 1000
"""Names of files in the manifest that are no documents; their number comes with them."""

_logger = logging.getLogger(__name__)


class Split(NamedTuple):
    """Windows of words or sentences over a text.

    size: words or sentences of a passage. overlap: those that it shares with the one before, below `size`.
    """

    unit: Literal["words", "sentences"]
    size: int
    overlap: int = 0

    def check(self) -> None:
        """Raise ConfigError for sizes that cannot be."""
        if self.size < 1 or not 0 <= self.overlap < self.size:
            raise ConfigError(
                f"passages of {self.size} {self.unit} overlap by 0 to {self.size - 1}, not by {self.overlap}"
            )

    def ranges(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the character ranges of passages, in order; a last window that is inside the one before is left out.

        Words are what white space separates, sentences those of `factgym.text.sentences`.
        """
        units = sentences(text) if self.unit == "sentences" else [match.span() for match in _WORD.finditer(text)]
        for first in range(0, max(len(units) - self.overlap, min(len(units), 1)), self.size - self.overlap):
            window = units[first : first + self.size]
            yield window[0][0], window[-1][1]


def read_passages(path: str | Path, *, layout: str = AUTO, on_disk: bool | None = None) -> Corpus:
    """Return the passages of a file or folder as a corpus; once a process.

    path: a folder that `factgym corpus build` wrote is opened, the URL of a retrieval server stands for the passages
    that it returns (`RetrievedCorpus`), anything else is read. layout: a name of
    `passage_files.LAYOUTS`, "mediawiki" (a Wikipedia dump), "folder" (Markdown, text and JSON lines, cut into passages),
    or "auto" to detect it.
    on_disk: build the corpus in the user's cache and open it there, by default where its files of rows have
    `ON_DISK_FROM` bytes or more; False to hold the passages in memory. Raises ConfigError for a path that does not exist
    or an unknown layout, DataError with file and line for content that cannot be used.
    """
    if is_remote(path):
        return shared(("retrieved corpus", path), lambda: RetrievedCorpus(path))
    path = Path(path)
    if is_stored_corpus(path):
        return shared(("stored corpus", str(path.absolute())), lambda: StoredCorpus(path))
    if on_disk is None:
        on_disk = sum(map(unpacked_bytes, _record_files(path, layout))) >= ON_DISK_FROM

    def build() -> Corpus:
        stored = cached_corpus(path, layout) if on_disk else None
        return Corpus(iter_passages(path, layout=layout)) if stored is None else stored

    return shared(("passages", str(path.absolute()), layout, on_disk), build)


def check_corpus(path: str | Path) -> None:
    """Raise ConfigError for a path that does not exist, DataError for a corpus on disk that cannot be opened."""
    if is_remote(path):
        kind_of(str(path))
        return
    if not exists(user_path(path, "corpus")):
        raise ConfigError(f"corpus={str(path)!r} does not exist: give a file or folder of passages")
    if is_stored_corpus(path):
        read_passages(path)


def build_corpus(
    source: str | Path,
    out: str | Path,
    *,
    layout: str = AUTO,
    split: Split | None = None,
    k1: float = K1,
    b: float = B,
    replace: bool = False,
    skip_bad: bool = False,
    bad: BadRecords | None = None,
    jobs: int = 1,
    run: Run | None = None,
    budget: ReadingBudget | None = None,
    progress: OnProgress = lambda _: None,
) -> StoredCorpus:
    """Build a corpus with its BM25 index in the folder `out` and open it; the folder appears when it is whole.

    A call that was killed is continued by the next one with the same source and split, from the folder `OUT.building`.

    source, layout: as in `read_passages`. split: cut texts into windows of words or sentences, instead of Markdown and text
    by section and rows not at all; each is a range of its document, verbatim. k1, b: of BM25; source may be a corpus on disk
    that has others. replace: replace a corpus that is there. jobs: processes; with several, a script must guard its start
    with `if __name__ == "__main__":`, as processes are spawned. run: see `write_corpus`. budget: of a folder of texts; by default `BUILD_SECONDS` and `BUILD_CHARS`. Errors as of `read_passages`, and ConfigError where `out` exists.
    """
    source, out = Path(source), Path(out)
    bad = BadRecords() if bad is None else bad
    if split is not None:
        split.check()
    notes: dict[str, Any] = {"split": f"{split.size} {split.unit}, overlap {split.overlap}"} if split else {}
    options: dict[str, Any] = {"k1": k1, "b": b, "replace": replace, "jobs": jobs, "progress": progress, "run": run}
    if is_stored_corpus(source):
        _index_again(StoredCorpus(source), out, split, options)
        return StoredCorpus(out)
    budget = ReadingBudget(BUILD_SECONDS, max_chars=BUILD_CHARS) if budget is None else budget
    if source.is_dir() and not _record_files(source, layout) and (others := document_files(source)[1]):
        notes |= {"not_read": others[:_MAX_NOTED], "not_read_count": len(others)}
    items = _source_items(source, layout, bad if skip_bad else None, split, budget)
    plan = {"files": _state(source_files(source, layout)), "layout": layout, "split": split}
    write_corpus(items, out, source=source.name, plan=plan, bad=bad, notes=notes, **options)
    return StoredCorpus(out)


def _index_again(stored: StoredCorpus, out: Path, split: Split | None, options: dict[str, Any]) -> None:
    """Write a corpus on disk with other parameters of BM25. Raises ConfigError where they are its own."""
    parameters = stored.meta["bm25"]
    if split is not None or (options["k1"], options["b"]) == (parameters["k1"], parameters["b"]):
        raise ConfigError(f"{stored.path} is a corpus on disk already: only its k1 and b can be changed")
    notes = {name: stored.meta[name] for name in ("split",) if name in stored.meta}
    write_corpus(
        starmap(SourcedPassage, stored.with_sources()),
        out,
        source=str(stored.meta["source"]),
        plan={"corpus": stored.fingerprint()},
        notes=notes,
        **options,
    )


def _state(files: Iterable[Path]) -> list[list[Any]]:
    """Return what changes when files do, without reading them: paths, sizes and times of change."""
    return [[str(file.resolve()), (stat := file.stat()).st_size, stat.st_mtime_ns] for file in files]


def source_files(source: Path, layout: str = AUTO) -> list[Path]:
    """Return the files that are read of a source. Raises as `read_passages`."""
    if is_stored_corpus(source):
        return [source / TEXT]
    if files := _record_files(source, layout):
        return files
    return [source] if source.is_file() else document_files(source)[0]


def _record_files(source: Path, layout: str) -> list[Path]:
    """Return the files of rows or of a dump, whose broken records are errors; none for texts."""
    return row_files(source, layout) or dump_files(source, layout)


def _source_items(path: Path, layout: str, bad: BadRecords | None, split: Split | None, budget: ReadingBudget) -> Items:
    """Return what a source is read as. bad: counts what is left out; None to raise DataError for it."""

    def on_bad(error: DataError) -> None:
        if bad is None:
            raise DataError(f"{error} Or leave such records out (skip_bad, --skip-bad).")
        bad.add(str(error))

    taken = None if bad is None else on_bad
    if files := row_files(path, layout):
        return Items(row_passages(files, layout, taken), partial(_row_item, split), lambda item: len(item[0].text))
    if dump_files(path, layout):
        return Items(
            read_dump(path, taken),
            partial(_article_item, split),
            lambda article: len(article.wikitext),
            str(no_article(path)),
        )
    return Items(_folder_texts(path, taken, on_bad, budget), partial(_text_item, split), _text_size)


def _row_item(split: Split | None, item: tuple[Passage, str]) -> Iterator[SourcedPassage]:
    """Yield a row, or the parts of its text: their offsets are unknown where that is itself a part of its source."""
    row, source = item
    if split is None:
        yield SourcedPassage(row, source)
        return
    for part in _split_passages(row.text, split, row.id, row.title, source or row.id):
        yield SourcedPassage(part.passage, source) if source else part


def _article_item(split: Split | None, article: Article) -> Iterable[SourcedPassage]:
    document = read_article(article)
    return _document_passages(document, document.text, split)


class _Text(NamedTuple):
    """A document, and the text that offsets refer to."""

    document: Document
    original: str


def _folder_texts(path: Path, taken: OnBad | None, on_bad: OnBad, budget: ReadingBudget) -> Iterator[_Text]:
    root = path.parent if path.is_file() else path

    def on_skipped(file: Skipped) -> None:
        if not file.is_other:
            on_bad(DataError(f"{file.path}: {file.reason}."))

    for document in read_texts(path, taken, on_skipped, budget):
        original = document.text
        if not original and not document.path.lower().endswith(".jsonl"):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                original = read_document_text(root / document.path)
        yield _Text(document, original)


def _text_item(split: Split | None, item: _Text) -> Iterable[SourcedPassage]:
    has_pages = item.document.path.lower().endswith(".pdf")
    return _document_passages(item.document, item.original, split, has_pages)


def _text_size(item: _Text) -> int:
    return len(item.original) + sum(len(passage.text) for passage in item.document.passages)


def _document_passages(
    document: Document, original: str, split: Split | None, has_pages: bool = False
) -> Iterator[SourcedPassage]:
    if split is None:
        yield from _located_passages(document, original, has_pages)
    else:
        # A record of a JSONL file has no file of its own: its text is that of its passages.
        text = original or "\n".join(passage.text for passage in document.passages)
        yield from _split_passages(text, split, document.id, document.title, document.path, has_pages)


def _split_passages(
    text: str, split: Split, id_: str, title: str, document: str, has_pages: bool = False
) -> Iterator[SourcedPassage]:
    page_of = _page_numbers(text, has_pages)
    for number, (start, end) in enumerate(split.ranges(text), 1):
        yield SourcedPassage(Passage(f"{id_}#{number}", title, text[start:end]), document + page_of(start), start, end)


def _page_numbers(text: str, has_pages: bool) -> Callable[[int], str]:
    """Return a function from an offset to `#page=3`; to an empty text where there are no pages."""
    breaks = [match.start() for match in re.finditer(PAGE_BREAK, text)] if has_pages else []
    return lambda offset: f"#page={bisect_left(breaks, offset) + 1}" if has_pages else ""


def _located_passages(document: Document, original: str, has_pages: bool = False) -> Iterator[SourcedPassage]:
    """Yield the passages of a document with their offsets in its text, where it has their letters and digits in order.

    Offsets count the characters of the file as Python reads it in text mode: without a byte order mark, and with "\n" at
    the ends of lines; for HTML, DOCX and PDF, those of `document_text`. has_pages: name the page of a passage too:
    `handbook.pdf#page=3`.
    """
    name, position = document.path, 0
    letters, offsets = _letters(original)
    page_of = _page_numbers(original, has_pages)
    for passage in document.passages:
        start, stop = _find_letters(letters, _letters(passage.text)[0], position)
        if start < 0:
            yield SourcedPassage(passage, name)
            continue
        position = stop
        yield SourcedPassage(
            passage,
            name + page_of(offsets[start]),
            *_with_marks(original, passage.text, offsets[start], offsets[stop - 1] + 1),
        )


def _with_marks(original: str, passage: str, start: int, end: int) -> tuple[int, int]:
    """Extend a range by the punctuation with which a passage begins and ends."""
    bare = passage.strip()
    first = next((i for i, character in enumerate(bare) if character.isalnum()), 0)
    last = next((i for i, character in enumerate(reversed(bare)) if character.isalnum()), 0)
    while start and not original[start - 1].isspace() and original[start - 1] in bare[:first]:
        start -= 1
    while end < len(original) and not original[end].isspace() and original[end] in bare[len(bare) - last :]:
        end += 1
    return start, end


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text outside markup, folded, and the offset of each."""
    # Blanked, not removed, so that offsets stay.
    folded, offsets = fold_with_offsets(_MARKUP.sub(lambda markup: " " * len(markup[0]), text))
    chosen = [*map(str.isalnum, folded)]
    return "".join(compress(folded, chosen)), [*compress(offsets, chosen)]


def _find_letters(letters: str, passage: str, position: int) -> tuple[int, int]:
    """Return the range of a document's letters that holds a passage's, (-1, -1) where there is none.

    Where they do not occur as they are (targets of links, page headers and HTML lie between), the range from the first
    occurrence of the passage's beginning to the next one of its end, unless it is more than twice as long.
    """
    if not passage:
        return -1, -1
    reach = position + _REACH
    start = letters.find(passage, position, reach)
    if start >= 0:
        return start, start + len(passage)
    first, last = passage[:_ANCHOR], passage[-_ANCHOR:]
    start = position - 1
    for _ in range(_TRIES):
        if (start := letters.find(first, start + 1, reach)) < 0:
            break
        end = letters.find(last, start + max(len(passage) - len(last), 0), start + 2 * len(passage) + len(last))
        if end >= 0:
            return start, end + len(last)
    return -1, -1


def document_text(path: str | Path) -> str:
    """Return the text of a document that the offsets of passages refer to; of a PDF, with form feeds between its pages.

    path: a file of a folder that `build_corpus` read. Raises DataError and MissingExtraError.
    """
    path = Path(path)
    if path.suffix.lower() in MODULES:
        with Extractor() as extract:
            return extract(path).text
    try:
        return read_document_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise path_error(path, f"cannot be read as text ({error})", "name a document of the folder") from None


# The user's cache.


def cache_folder() -> Path:
    """Return the folder of the cache: `FACTGYM_CACHE`, else `factgym` in the user's cache folder."""
    if folder := os.environ.get(CACHE_VARIABLE):
        return user_path(folder, CACHE_VARIABLE)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "factgym"


def cached_corpus(source: Path, layout: str = AUTO) -> StoredCorpus | None:
    """Return the corpus of a file or folder from the user's cache, built there where it is missing or damaged.

    A corpus is named by the content of its files; a record of their paths, sizes and times of change says which one it
    is without reading them again. None, with a warning, where the cache cannot be written.
    """
    files = source_files(source, layout)
    folder = cache_folder() / "corpora"
    record = folder / f"{_digest(['record', _state(files)])}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder / f"{record.stem}.lock"):
            if (corpus := _recorded_corpus(record)) is None:
                contents = [[file.name, _file_digest(file)] for file in files]
                out = folder / _digest(["corpus", VERSION, ANALYSER, layout, contents])[:32]
                corpus = _intact_corpus(out)
                if corpus is None:
                    size = sum(file.stat().st_size for file in files)
                    _logger.warning("building the corpus of %s (%.0f MB) once, in %s", source, size / 1e6, out)
                    corpus = build_corpus(
                        source, out, layout=layout, replace=True, skip_bad=not _record_files(source, layout)
                    )
                record.write_text(json.dumps({"corpus": out.name}), encoding="utf-8")
    except OSError as error:
        _logger.warning("%s cannot hold a corpus (%s): %s is read into memory", folder, error.strerror, source)
        return None
    return corpus


def _recorded_corpus(record: Path) -> StoredCorpus | None:
    try:
        name = json.loads(record.read_text("utf-8"))["corpus"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return _intact_corpus(record.parent / Path(str(name)).name)


def _intact_corpus(path: Path) -> StoredCorpus | None:
    """Return the corpus of a folder, None where it is missing or cannot be opened."""
    with contextlib.suppress(DataError):
        return StoredCorpus(path)
    return None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode("utf-8", "replace")).hexdigest()


def _file_digest(file: Path) -> str:
    with open_file(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock that other processes wait for; without locks, the first to finish the corpus wins."""
    with path.open("w") as file:
        lock(file, wait=True)
        yield
