"""AVeriTeC's knowledge store in its published layout: one file of JSON lines for each claim, read when it is asked for.

    dev/0.json, dev/1.json, …   {"claim_id": "0", "type": …, "query": …, "url": …, "url2text": [sentence, …]}

The file's name is the claim's place in the split. Lines are read one at a time; what is held in memory are the
evidence of the few claims used last. Pages are scraped and some lines are broken, so that these are counted and passed
over; a claim without a file is an error. An own key `date` on a line (day-month-year or year-month-day) is taken as
the day of its page.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.tasks import SharedByArguments
from factgym.datasets.averitec.claims import FactCheck
from factgym.datasets.averitec.evidence import (
    MAX_PASSAGE_CHARS,
    Evidence,
    EvidenceCorpus,
    check_window,
    evidence_of,
)
from factgym.datasets.averitec.reading import parse_claim_date
from factgym.datasets.averitec.recent import Recent
from factgym.datasets.averitec.stores import KNOWLEDGE_STORE, ClaimKey

MAX_LINE_BYTES = 16_000_000
MAX_PASSAGES = 100_000
"""Of one claim; what is beyond is left out and counted as "dropped"."""

HEAD_BYTES = 4_096
KEEP = 4

_SUFFIXES = (".json", ".jsonl")
_COUNTED = ("pages", "empty_pages", "broken_lines", "long_lines", "bad_sentences", "repeated", "dropped", "dated")
_LAYOUT = 'files <claim number>.json with lines {"claim_id", "type", "query", "url", "url2text": [sentences]}'


class FolderStore(SharedByArguments):
    """Evidence of each claim from its own file.

    path: the folder of the claims' files, or one with a folder for each split (`dev`, `output_dev`, also inside
    `knowledge_store`); files may lie one folder deeper, as the parts of the published train store do.
    max_chars: of a passage, which is some sentences of one page. keep: claims held in memory. Of sentences that
    stand twice among a claim's pages (ignoring case) the first is kept. Safe under threads. Raises ConfigError where
    there is no such folder.
    """

    kind = KNOWLEDGE_STORE
    per_claim = True

    def __init__(
        self,
        path: str | Path,
        split: str = "",
        *,
        max_chars: int = MAX_PASSAGE_CHARS,
        max_passages: int = MAX_PASSAGES,
        keep: int = KEEP,
    ) -> None:
        self.path, self.split = Path(path), split
        self.max_chars = check_window(max_chars)
        if max_passages < 1:
            raise ConfigError(f"max_passages is at least 1, not {max_passages!r}")
        self.max_passages = max_passages
        self.folder = _folder_of(self.path, split)
        self._files = _claim_files(self.folder)
        self._recent: Recent[EvidenceCorpus] = Recent(keep)
        self._fingerprint = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _folder_store, (str(self.path), self.split, self.max_chars, self.max_passages, self._recent.size)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that have a file, by name, numbers in their order first."""
        return tuple(self._files)

    @property
    def note(self) -> str:
        """What a report says about the evidence."""
        return (
            f"Evidence: the knowledge store {self.folder.name!r}, the pages of {len(self):,} claims, each by itself."
        )

    def for_claim(self, claim: ClaimKey) -> EvidenceCorpus:
        """The evidence of one claim, its `counts` under pages, broken_lines and so on.

        Raises DataError for a claim without a file, and for a file in which no line can be used.
        """
        name = claim_name(claim)
        return self._recent.get(name, lambda: self._read(name))

    def passages(self) -> Iterator[Evidence]:
        """The evidence of all claims, what several have once; one claim is read at a time."""
        seen: set[bytes] = set()
        for name in self._files:
            for piece in self._read(name):
                key = bytes.fromhex(piece.id)
                if key not in seen:
                    seen.add(key)
                    yield piece

    def fingerprint(self) -> str:
        """SHA-256 in hex over names, sizes and first 4,096 bytes of the files, and the settings; computed once.

        Reading everything would take minutes. A change further in that keeps a file's size is therefore not seen.
        """
        if not self._fingerprint:
            digest = hashlib.sha256(f"{self.kind}-1:{self.max_chars}:{self.max_passages}".encode())
            for name, file in self._files.items():
                digest.update(json.dumps([name, *_head(file)]).encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def describe(self) -> dict[str, Any]:
        """kind, note, fingerprint and settings as JSON data; passages are not counted, which would read everything."""
        return {
            "kind": self.kind,
            "note": self.note,
            "fingerprint": self.fingerprint(),
            "max_chars": self.max_chars,
            "max_passages": self.max_passages,
            "claims": len(self),
        }

    def _read(self, name: str) -> EvidenceCorpus:
        file = self._files.get(name)
        if file is None:
            hint = did_you_mean(name, list(self._files)[:2_000]) if not name.isdigit() else ""
            raise DataError(
                f"{self.folder}: no file {name}.json for claim {name!r}; there are {len(self):,} files, "
                f"{next(iter(self._files))} to {next(reversed(self._files))}.{hint} Is this the store of the split that "
                "is played?"
            )
        counts: Counter[str] = Counter(dict.fromkeys(_COUNTED, 0))
        corpus = list(self._pieces(file, counts))
        if not counts["pages"]:
            raise DataError(f"{file}: no line is a page of a knowledge store. Expected {_LAYOUT}.")
        counts["dated"] = sum(piece.date is not None for piece in corpus)
        return EvidenceCorpus(corpus, counts)

    def _pieces(self, file: Path, counts: Counter[str]) -> Iterator[Evidence]:
        sentences: set[bytes] = set()
        pieces: set[str] = set()
        for url, texts, date in _pages(file, counts):
            fresh = [text for text in texts if _first(text, sentences, counts)]
            counts["empty_pages"] += not fresh
            for piece in evidence_of(url, fresh, self.max_chars, date):
                if piece.id in pieces:
                    counts["repeated"] += 1
                elif len(pieces) >= self.max_passages:
                    counts["dropped"] += 1
                else:
                    pieces.add(piece.id)
                    yield piece


def claim_name(claim: ClaimKey) -> str:
    """The name of a claim's file, without its ending."""
    name = claim.claim_id if isinstance(claim, FactCheck) else claim
    if isinstance(name, bool) or not isinstance(name, int | str):
        raise ConfigError(f"a claim is given as its number, its file's name or a FactCheck, not {type(name).__name__}")
    return str(name)


def _first(text: str, seen: set[bytes], counts: Counter[str]) -> bool:
    folded = " ".join(text.lower().split())
    key = hashlib.blake2b(folded.encode("utf-8", "replace"), digest_size=12).digest()
    counts["repeated"] += key in seen
    if not folded or key in seen:
        return False
    seen.add(key)
    return True


def _pages(file: Path, counts: Counter[str]) -> Iterator[tuple[str, list[str], dt.date | None]]:
    """(address, sentences, day) of each line that is a page."""
    try:
        with file.open("rb") as stream:
            for raw in _lines(stream, counts):
                row = _row(raw)
                if row is None or not isinstance(row.get("url2text"), list | str):
                    counts["broken_lines"] += 1
                    continue
                given = row["url2text"]
                texts = [one for one in ([given] if isinstance(given, str) else given) if isinstance(one, str)]
                counts["bad_sentences"] += 0 if isinstance(given, str) else len(given) - len(texts)
                counts["pages"] += 1
                url = row.get("url")
                yield url if isinstance(url, str) else "", texts, parse_claim_date(row.get("date"))
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from None


def _lines(stream: BinaryIO, counts: Counter[str]) -> Iterator[bytes]:
    """Lines that are not blank; one that is too long is read over piece by piece."""
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        if len(raw) <= MAX_LINE_BYTES:
            if raw.strip():
                yield raw
            continue
        counts["long_lines"] += 1
        while raw and not raw.endswith(b"\n"):
            raw = stream.readline(MAX_LINE_BYTES + 1)


def _row(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _head(file: Path) -> tuple[int, str]:
    try:
        with file.open("rb") as stream:
            return file.stat().st_size, hashlib.sha256(stream.read(HEAD_BYTES)).hexdigest()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from None


def _folder_of(path: Path, split: str) -> Path:
    if not path.is_dir():
        raise ConfigError(f"{path} is no folder: give the unpacked knowledge store, {_LAYOUT}")
    if not split:
        return path
    if Path(split).name != split or split in (".", ".."):
        raise ConfigError(f"{split[:64]!r} is no name of a split")
    inner = [root / name for root in (path, path / "knowledge_store") for name in (split, f"output_{split}")]
    found = next((folder for folder in inner if folder.is_dir()), None)
    if found is None and not _files_in(path):
        raise ConfigError(f"{path} has neither a folder {split!r} nor {_LAYOUT}")
    return found or path


def _files_in(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.suffix in _SUFFIXES and file.is_file()]


def _claim_files(folder: Path) -> dict[str, Path]:
    files = _files_in(folder)
    if not files:
        files = [file for inner in sorted(folder.iterdir()) if inner.is_dir() for file in _files_in(inner)]
    if not files:
        raise ConfigError(f"{folder} holds no claim's file: expected {_LAYOUT}")
    named: dict[str, Path] = {}
    for file in sorted(files, key=lambda one: (not one.stem.isdecimal(), len(one.stem), one.stem, one.as_posix())):
        if file.stem in named:
            raise DataError(f"{folder}: {named[file.stem]} and {file} are both of claim {file.stem!r}. Keep one.")
        named[file.stem] = file
    return named


def _folder_store(path: str, split: str, max_chars: int, max_passages: int, keep: int) -> FolderStore:
    return FolderStore(path, split, max_chars=max_chars, max_passages=max_passages, keep=keep)
