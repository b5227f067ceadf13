"""Evidence for ProFact's Search stage: dated passages of web pages, and the stores that hold them by claim.

A page's sentences are packed into windows of bounded length; ids are made of page and text alone, so that they never
reveal for which claim a page was retrieved. The day of a page is read off its address, where many sites write it
(`/2020/11/03/`). The day of an archive's copy says nothing about when the page was written, and is not used: nearly all
of AVeriTeC's copies are younger than the claims.

AVeriTeC's knowledge store has tens of gigabytes of pages and is no part of the package (`FolderStore`). Without it,
`GoldStore` makes one haystack of the gold evidence of a whole split. That is another and an easier task than searching
the web's pages; its `note` is shown in every report.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, cast

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.paths import is_folder, open_file, refusals
from factgym.core.strict_json import clean_text
from factgym.core.tasks import Immutable, shared
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import index_fingerprint
from factgym.corpora.rows import parse_line
from factgym.corpora.web_pages import (
    MAX_PASSAGE_CHARS,
    MAX_URL_CHARS,
    check_window,
    evidence_id,
    host_of,
    original_url,
    windows,
)
from factgym.datasets.averitec import FactCheck, FactChecks, calendar_date, parse_claim_date
from factgym.text.sentences import sentences

MAX_LINE_BYTES = 16_000_000
MAX_PASSAGES = 100_000
"""Of one claim; those beyond are left out and counted as "dropped"."""

HEAD_BYTES = 4_096
CACHED_CLAIMS = 4

GOLD_HAYSTACK = "gold haystack"
KNOWLEDGE_STORE = "knowledge store"

ClaimKey = int | str | FactCheck
"""A claim's `claim_id`, the name of its file in a store of one's own, or the claim."""

_MONTH_NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS = {form: number for number, name in enumerate(_MONTH_NAMES, 1) for form in (name, name[:3], name[:4])}
_YEAR = r"(19[5-9]\d|20\d\d)"
_MONTH = r"(0?[1-9]|1[0-2]|[a-z]{3,9})"
_DATED = re.compile(rf"/{_YEAR}[/-]{_MONTH}(?:[/-](0?[1-9]|[12]\d|3[01]))?(?![\da-z])", re.I)
_SUFFIXES = (".json", ".jsonl")
_COUNTED = ("pages", "empty_pages", "broken_lines", "long_lines", "bad_sentences", "repeated", "dropped", "dated")
_LAYOUT = 'files <claim number>.json with lines {"claim_id", "type", "query", "url", "url2text": [sentences]}'


@dataclass(frozen=True, slots=True)
class Evidence(Passage):
    """A passage with its page; its title is the page's host.

    url: empty where it is unknown. date: the earliest day on which the page can have been written, None if unknown.
    """

    url: str = ""
    date: dt.date | None = None


class EvidenceCorpus(Corpus):
    """A corpus of `Evidence`. counts: of the pages it was read from, by the store's own keys."""

    __slots__ = ("counts",)

    def __init__(self, passages: Iterable[Evidence], counts: Mapping[str, int] | None = None) -> None:
        super().__init__(passages)
        self.counts: Mapping[str, int] = MappingProxyType(dict(counts or {}))

    def __reduce__(self) -> tuple[object, ...]:
        return EvidenceCorpus, (self.passages, dict(self.counts))

    def get(self, passage_id: str) -> Evidence:
        """Return the evidence with this id. Raises `UnknownPassageError`."""
        return cast(Evidence, super().get(passage_id))

    def __iter__(self) -> Iterator[Evidence]:
        return cast(Iterator[Evidence], super().__iter__())


def page_evidence(url: str, texts: Iterable[str], max_chars: int, date: dt.date | None = None) -> Iterator[Evidence]:
    """Yield a page as passages of at most `max_chars` characters, in order. date: overrides the one in the address."""
    url = clean_text(url[:MAX_URL_CHARS]).strip()
    title, page_date = host_of(url), date or url_date(url)
    for text in windows(texts, max_chars):
        yield Evidence(evidence_id(url, text), title, text, url, page_date)


def url_date(url: str) -> dt.date | None:
    """Return the day in the page's address, or the first of the month where it has only that; else None."""
    for match in _DATED.finditer(original_url(url[:MAX_URL_CHARS])):
        year, month, day = match.groups()
        number = int(month) if month.isdigit() else _MONTHS.get(month.lower(), 0)
        date = calendar_date(int(year), number, int(day or 1)) if number else None
        if date:
            return date
    return None


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a running text; the text between two belongs to the first."""
    starts = [start for start, _ in sentences(text)][1:]
    return [text[start:end] for start, end in zip([0, *starts], [*starts, len(text)], strict=True)]


# Stores.


class KnowledgeStore(Immutable, ABC):
    """Evidence by claim.

    kind: `GOLD_HAYSTACK`, `KNOWLEDGE_STORE`, or a word of one's own. per_claim: whether claims have evidence of their
    own. note: the sentence about the evidence that every report shows. sizes: with the settings, for manifests.
    """

    kind: ClassVar[str]
    per_claim: ClassVar[bool]
    note: str
    sizes: Mapping[str, int]

    @abstractmethod
    def for_claim(self, claim: ClaimKey) -> EvidenceCorpus:
        """Return the evidence that a search for this claim may return."""

    @abstractmethod
    def passages(self) -> Iterator[Evidence]:
        """Yield all evidence once, in a fixed order, read on request."""

    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256 in hex."""

    def check_claims(self, claims: Iterable[FactCheck]) -> None:
        """Raise DataError where the store has no evidence of its own for one of these claims, and needs it."""

    def describe(self) -> dict[str, Any]:
        """Return kind, note, fingerprint and sizes as JSON data for manifests and reports."""
        return {"kind": self.kind, "note": self.note, "fingerprint": self.fingerprint(), **self.sizes}


class Haystack(KnowledgeStore):
    """One corpus that all claims share. settings: those that its passages depend on."""

    per_claim = False

    def __init__(self, corpus: EvidenceCorpus, note: str, **settings: int) -> None:
        self._corpus, self._settings, self.note = corpus, settings, note
        self.sizes = {**settings, "passages": len(corpus), **corpus.counts}

    def for_claim(self, claim: ClaimKey) -> EvidenceCorpus:
        """Return the whole haystack, whichever the claim."""
        return self._corpus

    def passages(self) -> Iterator[Evidence]:
        """Yield the whole haystack, in the order of ids."""
        return iter(self._corpus)

    def fingerprint(self) -> str:
        """SHA-256 in hex over the passages and the settings."""
        return index_fingerprint(self.kind, self._settings, [self._corpus.fingerprint()])


def open_store(
    checks: FactChecks, path: str | Path | None = None, *, max_chars: int = MAX_PASSAGE_CHARS
) -> FolderStore | GoldStore:
    """Return the knowledge store at `path` for these claims, or their gold haystack without a path; built once a process.

    checks: the whole split; the store's folder is chosen by its `name`. Raises ConfigError for a path without a store: a
    haystack never replaces it unrequested.
    """
    if path is None:
        key = ("averitec gold store", checks.fingerprint(), max_chars)
        return shared(key, lambda: GoldStore(checks, max_chars=max_chars))
    folder = Path(path)
    return shared(
        ("averitec store", str(folder.absolute()), checks.name, max_chars),
        lambda: FolderStore(folder, checks.name, max_chars=max_chars),
    )


class GoldStore(Haystack):
    """The gold evidence of all `checks` as one haystack, in the order of its opaque ids.

    A passage is an answer, of a boolean one the explanation; questions, labels and justifications are not in it, nor
    is an unanswerable question's non-answer. Evidence that several claims cite from one page is in it once. Raises
    DataError where the claims have no evidence at all.
    """

    kind = GOLD_HAYSTACK

    def __init__(self, checks: Iterable[FactCheck], *, max_chars: int = MAX_PASSAGE_CHARS) -> None:
        self._checks = tuple(checks)
        counts: Counter[str] = Counter(claims=len(self._checks))
        passages: dict[str, Evidence] = {}
        check_window(max_chars)
        answers = (answer for check in self._checks for question in check.questions for answer in question.answers)
        for answer in answers:
            text = (answer.explanation if answer.type == "Boolean" else answer.text).strip()
            text = "" if answer.type == "Unanswerable" else text
            counts["answers"] += 1
            counts["without_evidence"] += not text
            for passage in page_evidence(answer.source_url, split_sentences(text), max_chars):
                counts["repeated"] += passage.id in passages
                passages.setdefault(passage.id, passage)
        if not passages:
            raise DataError("the claims have no gold evidence to build a haystack of: give a split with annotations")
        counts["dated"] = sum(passage.date is not None for passage in passages.values())
        corpus = EvidenceCorpus((passages[key] for key in sorted(passages)), counts)
        note = (
            f"Evidence: a gold haystack of {len(corpus):,} passages, built from the annotated answers of all "
            f"{len(self._checks):,} claims of the split, because no knowledge store was given; scores are not "
            "comparable with those on AVeriTeC's knowledge store."
        )
        super().__init__(corpus, note, max_chars=max_chars)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(GoldStore, max_chars=self._settings["max_chars"]), (self._checks,)


class FolderStore(KnowledgeStore):
    """AVeriTeC's knowledge store in its published layout: one file of JSON lines for each claim, read on request.

        dev/0.json, dev/1.json, …   {"claim_id": "0", "type": …, "query": …, "url": …, "url2text": [sentence, …]}

    path: the folder of the claims' files, or one with a folder for each split (`dev`, `output_dev`, also inside
    `knowledge_store`); files may be one folder deeper, as the parts of the published train store are. The file's name is
    the claim's position in the split. max_chars: of a passage, which is some sentences of one page. keep: claims held in
    memory. claims: those that have a file, numbers in their order first.

    Pages are scraped and some lines are broken: these are counted and skipped; a claim without a file is an error. Of
    sentences that occur twice among a claim's pages (ignoring case) the first is used. An own key `date` on a line
    (day-month-year or year-month-day) is the day of its page. Safe under threads. Raises ConfigError where there is no
    such folder.
    """

    kind = KNOWLEDGE_STORE
    per_claim = True

    def __init__(
        self, path: str | Path, split: str = "", *, max_chars: int = MAX_PASSAGE_CHARS, keep: int = CACHED_CLAIMS
    ) -> None:
        self.path, self.split = Path(path), split
        self.max_chars = check_window(max_chars)
        self.folder, self._files = _claim_files(self.path, split)
        self.claims = tuple(self._files)
        claims = len(self.claims)
        self.note = (
            f"Evidence: the knowledge store {self.folder.name!r}, the pages of {claims:,} claims, each by itself."
        )
        # The number of passages is not among them: counting would mean reading everything.
        self.sizes = {"max_chars": max_chars, "max_passages": MAX_PASSAGES, "claims": claims}
        self._cache: ClaimCache[EvidenceCorpus] = ClaimCache(keep)
        self._fingerprint = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(FolderStore, max_chars=self.max_chars, keep=self._cache.size), (str(self.path), self.split)

    def for_claim(self, claim: ClaimKey) -> EvidenceCorpus:
        """Return the evidence of one claim, its `counts` under pages, broken_lines and so on.

        Raises DataError for a claim without a file, and for a file in which no line can be used.
        """
        name = claim_name(claim)
        return self._cache.get(name, lambda: self._read(name))

    def check_claims(self, claims: Iterable[FactCheck]) -> None:
        """Raise DataError for claims without a file, with their number; opens none."""
        names = list(map(claim_name, claims))
        absent = [name for name in names if name not in self._files]
        if absent:
            first = names.index(absent[0])
            raise DataError(
                f"{self.folder} lacks the files of {len(absent):,} of {len(names):,} claims: {', '.join(absent[:5])}"
                f"{' …' if len(absent) > 5 else ''} (.json). Is this the store of the split in use? Unpack all of it"
                f"{f', or play the first {first:,} claims with size={first}' if first else ''}."
            )

    def passages(self) -> Iterator[Evidence]:
        """Yield the evidence of all claims, shared passages once; one claim is read at a time."""
        yielded: set[bytes] = set()
        for name in self._files:
            for passage in self._read(name):
                key = bytes.fromhex(passage.id)
                if key not in yielded:
                    yielded.add(key)
                    yield passage

    def fingerprint(self) -> str:
        """SHA-256 in hex over names, sizes and first 4,096 bytes of the files, and the settings; computed once.

        Reading everything would take minutes. A change further in that keeps a file's size is therefore not detected.
        """
        if not self._fingerprint:
            digest = hashlib.sha256(f"{self.kind}-1:{self.max_chars}:{MAX_PASSAGES}".encode())
            for name, file in self._files.items():
                with open_file(file) as stream:
                    head = hashlib.sha256(stream.read(HEAD_BYTES)).hexdigest()
                digest.update(json.dumps([name, file.stat().st_size, head]).encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def _read(self, name: str) -> EvidenceCorpus:
        file = self._files.get(name)
        if file is None:
            hint = did_you_mean(name, self.claims[:2_000]) if not name.isdigit() else ""
            raise DataError(
                f"{self.folder}: no file {name}.json for claim {name!r}; there are {len(self.claims):,} files, "
                f"{self.claims[0]} to {self.claims[-1]}.{hint} Is this the store of the split in use?"
            )
        counts: Counter[str] = Counter(dict.fromkeys(_COUNTED, 0))
        corpus = list(self._passages(file, counts))
        if not counts["pages"]:
            raise DataError(f"{file}: no line is a page of a knowledge store. Expected {_LAYOUT}.")
        counts["dated"] = sum(passage.date is not None for passage in corpus)
        return EvidenceCorpus(corpus, counts)

    def _passages(self, file: Path, counts: Counter[str]) -> Iterator[Evidence]:
        """Yield the passages of a file; sentences and passages that occur again are counted and left out."""
        # Sentences are compared by 96-bit digests of their folded text: a store's claim may have a million of them.
        used_sentences: set[bytes] = set()
        used_ids: set[str] = set()
        for url, texts, date in _pages(file, counts):
            new_texts = []
            for text in texts:
                folded = " ".join(text.lower().split())
                key = hashlib.blake2b(folded.encode("utf-8", "replace"), digest_size=12).digest()
                counts["repeated"] += key in used_sentences
                if folded and key not in used_sentences:
                    used_sentences.add(key)
                    new_texts.append(text)
            counts["empty_pages"] += not new_texts
            for passage in page_evidence(url, new_texts, self.max_chars, date):
                if passage.id in used_ids:
                    counts["repeated"] += 1
                elif len(used_ids) >= MAX_PASSAGES:
                    counts["dropped"] += 1
                else:
                    used_ids.add(passage.id)
                    yield passage


def claim_name(claim: ClaimKey) -> str:
    """Return the name of a claim's file, without its suffix."""
    name = claim.claim_id if isinstance(claim, FactCheck) else claim
    if isinstance(name, bool) or not isinstance(name, int | str):
        raise ConfigError(f"a claim is given as its number, its file's name or a FactCheck, not {type(name).__name__}")
    return str(name)


def _pages(file: Path, counts: Counter[str]) -> Iterator[tuple[str, list[str], dt.date | None]]:
    """Yield (address, sentences, day) of each line that is a page."""
    with open_file(file) as stream, refusals(file):
        while raw := stream.readline(MAX_LINE_BYTES + 1):
            if len(raw) > MAX_LINE_BYTES:
                counts["long_lines"] += 1
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(MAX_LINE_BYTES + 1)
                continue
            if not raw.strip():
                continue
            try:
                values = parse_line(raw, "").values
            except DataError:
                values = {}
            content, url = values.get("url2text"), values.get("url")
            if not isinstance(content, list | str):
                counts["broken_lines"] += 1
                continue
            entries = [content] if isinstance(content, str) else content
            texts = [entry for entry in entries if isinstance(entry, str)]
            counts["bad_sentences"] += len(entries) - len(texts)
            counts["pages"] += 1
            yield url if isinstance(url, str) else "", texts, parse_claim_date(values.get("date"))


def _claim_files(path: Path, split: str) -> tuple[Path, dict[str, Path]]:
    """Return the folder of a split and its files by claim, numbers in their order first."""
    if not is_folder(path):
        raise ConfigError(f"{path} is no folder: give the unpacked knowledge store, {_LAYOUT}")
    if Path(split).name != split or split in (".", ".."):
        raise ConfigError(f"{split[:64]!r} is no name of a split")
    parents = (path, path / "knowledge_store") if split else ()
    candidates = [parent / name for parent in parents for name in (split, f"output_{split}")]
    folder = next((candidate for candidate in candidates if candidate.is_dir()), path)
    files = _json_files(folder)
    if split and folder == path and not files:
        raise ConfigError(f"{path} has neither a folder {split!r} nor {_LAYOUT}")
    if not files:
        files = [file for inner in sorted(folder.iterdir()) if inner.is_dir() for file in _json_files(inner)]
    if not files:
        raise ConfigError(f"{folder} holds no claim's file: expected {_LAYOUT}")
    files.sort(key=lambda file: (not file.stem.isdecimal(), len(file.stem), file.stem, file.as_posix()))
    by_name: dict[str, Path] = {}
    for file in files:
        if by_name.setdefault(file.stem, file) != file:
            raise DataError(f"{folder}: {by_name[file.stem]} and {file} are both of claim {file.stem!r}. Keep one.")
    return folder, by_name


def _json_files(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.suffix in _SUFFIXES and file.is_file()]


T = TypeVar("T")


class ClaimCache(Generic[T]):
    """An LRU cache of `size` values by key, each built once while others wait for it.

    Safe under threads; different keys are built concurrently.
    """

    def __init__(self, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(f"keep is the number of claims held in memory, at least 1, not {size!r}")
        self.size = size
        self._lock = threading.Lock()
        # A slot: the lock of the key's builder, and its value once it is built.
        self._slot = lru_cache(size)(lambda key: (threading.Lock(), list[T]()))

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        """Return the value of `key`; nothing is cached when `build` raises."""
        with self._lock:
            building, values = self._slot(key)
        with building:
            if not values:
                values.append(build())
            return values[0]
