"""AVeriTeC's train and dev files, and files of the same layout, as sequences of fact-checked claims.

Read are JSON arrays and JSON lines. What makes a claim (its text and its label) must be right, or the error names
file and record; everything else may be missing or of a wrong type, is then left empty, and is counted: see `counts`.
No data is part of the package.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

from factgym.core.errors import ConfigError, DataError
from factgym.core.strict_json import clean_text
from factgym.core.tasks import SharedByArguments, shared
from factgym.datasets.attribution.files import Row, rows_of
from factgym.datasets.averitec.claims import LABELS, FactCheck, GoldAnswer, GoldQuestion, fact_check_label

MAX_TEXT_CHARS = 100_000
"""Of any one text of a record; the longest of AVeriTeC has 2,000."""

_SUFFIXES = (".json", ".jsonl", ".ndjson")
_VERSION = 1
_DAY_FIRST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})")
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ].{0,40})?")
_FOLDERS = ("", "averitec", "data")

COUNTED = (
    "blank_claim",
    "undated",
    "bad_date",
    "bad_field",
    "bad_question",
    "blank_question",
    "unanswered_question",
    "bad_answer",
    "blank_answer",
    "skipped",
)
"""The keys of `FactChecks.counts`.

blank_claim, blank_question, unanswered_question, blank_answer: kept; AVeriTeC's own train.json has one blank claim,
of which nothing can be checked, and one blank question. undated: no date is given. bad_date: one is given that is no
date. bad_field: metadata, or a part of an answer, of a wrong type. bad_question, bad_answer: no object with a text,
dropped. skipped: records left out with `strict=False`.
"""


class FactChecks(SharedByArguments, Sequence[FactCheck]):
    """The claims of one file: an immutable sequence.

    counts: how often what was found in the file (`COUNTED`). Raises DataError with file and record for a claim that is
    no text, an unknown label and a repeated claim_id; with strict=False such records are left out and counted.
    """

    def __init__(self, path: str | Path, *, name: str = "", strict: bool = True) -> None:
        self.path, self.strict = Path(path), strict
        self.name = name or self.path.stem
        digest = hashlib.sha256(f"averitec-{_VERSION}:{self.name}:{strict}:".encode())
        reader = _Reader(self.path, self.name, strict)
        self._checks = tuple(reader.read(rows_of(self.path, digest.update)))
        if not self._checks:
            raise DataError(f"{self.path}: holds no claim that can be used. {_EXPECTED}")
        self.counts: Mapping[str, int] = MappingProxyType({key: reader.counts[key] for key in COUNTED})
        self._fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._checks)

    @overload
    def __getitem__(self, index: int) -> FactCheck: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[FactCheck, ...]: ...
    def __getitem__(self, index: int | slice) -> FactCheck | tuple[FactCheck, ...]:
        return self._checks[index]

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared_checks, (str(self.path), self.name, self.strict)

    def label_counts(self) -> dict[str, int]:
        """How many claims have each of the four labels, in the order of `LABELS`."""
        found = Counter(check.label for check in self._checks)
        return {label: found[label] for label in LABELS}

    def fingerprint(self) -> str:
        """SHA-256 in hex over the name, the strictness and the bytes of the file."""
        return self._fingerprint


def read_fact_checks(path: str | Path, split: str = "dev", *, strict: bool = True) -> FactChecks:
    """The claims of a split; read once a process.

    path: a file (`split` is then only its name), a folder with `<split>.json`, or a folder that holds such a folder
    as `averitec` or `data`. Raises ConfigError where there is no such file, DataError for content that is unusable.
    """
    place = Path(path)
    file = place if place.is_file() else _file_of(place, split)
    return _shared_checks(str(file.resolve()), split, strict)


def parse_claim_date(value: object) -> dt.date | None:
    """A date as day-month-year or year-month-day with `-`, `/` or `.`; a time after it is ignored. Else None."""
    if not isinstance(value, str):
        return None
    text = value.strip()[:64]
    if match := _DAY_FIRST.fullmatch(text):
        day, month, year = map(int, match.groups())
    elif match := _YEAR_FIRST.fullmatch(text):
        year, month, day = map(int, match.groups())
    else:
        return None
    return a_date(year, month, day)


def a_date(year: int, month: int, day: int) -> dt.date | None:
    """The day, None where the calendar has no such day."""
    try:
        return dt.date(year, month, day)
    except ValueError:
        return None


_EXPECTED = "Give a JSON array or JSON lines of objects with a claim, a label and questions, as AVeriTeC's dev.json."


def _shared_checks(file: str, name: str, strict: bool) -> FactChecks:
    return shared(("averitec", file, name, strict), lambda: FactChecks(file, name=name, strict=strict))


def _file_of(folder: Path, split: str) -> Path:
    if not folder.is_dir():
        raise ConfigError(f"{folder} does not exist. {_EXPECTED}")
    if not re.fullmatch(r"[\w.-]{1,64}", split):
        raise ConfigError(f"{split[:64]!r} is no name of a split: use letters, digits, '_', '-' and '.'")
    candidates = [folder / inner / f"{split}{suffix}" for inner in _FOLDERS for suffix in _SUFFIXES]
    found = next((file for file in candidates if file.is_file()), None)
    if found is None:
        raise ConfigError(f"{folder} has no {split}.json, also not in {' or '.join(_FOLDERS[1:])}. {_EXPECTED}")
    return found


class _UnusableError(Exception):
    """A record that makes no claim; the text says why."""


class _Reader:
    """Records of one file as claims, with counts of what was not as it should be."""

    def __init__(self, file: Path, name: str, strict: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._file, self._name, self._strict = file, name, strict
        self._seen: dict[int, int] = {}

    def read(self, rows: Iterator[tuple[int, Row]]) -> Iterator[FactCheck]:
        for place, (number, row) in enumerate(rows):
            try:
                yield self._check(row, place, number)
            except _UnusableError as problem:
                if self._strict:
                    raise DataError(f"{self._file} record {number}: {problem}. Fix the record or remove it.") from None
                self.counts["skipped"] += 1

    def _check(self, row: Row, place: int, number: int) -> FactCheck:
        claim = row.get("claim")
        if not isinstance(claim, str) or len(claim) > MAX_TEXT_CHARS:
            raise _UnusableError(f"'claim' must be a text of at most {MAX_TEXT_CHARS:,} characters")
        label = fact_check_label(row.get("label"))
        if label is None:
            said = str(row.get("label"))[:40]
            raise _UnusableError(f"'label' is {said!r}, which is none of {', '.join(LABELS)}")
        claim_id = self._claim_id(row, place, number)
        self.counts["blank_claim"] += not claim.strip()
        return FactCheck(
            id=f"{self._name}-{claim_id:05d}",
            claim_id=claim_id,
            claim=clean_text(claim).strip(),
            label=label,
            justification=self._text(row, "justification") or "",
            questions=tuple(self._questions(row)),
            claim_date=self._date(row),
            speaker=self._text(row, "speaker"),
            location=self._text(row, "location_ISO_code"),
            reporting_source=self._text(row, "reporting_source"),
            original_claim_url=self._text(row, "original_claim_url"),
            fact_checking_article=self._text(row, "fact_checking_article"),
            claim_types=self._types(row),
        )

    def _claim_id(self, row: Row, place: int, number: int) -> int:
        given = row.get("claim_id", place)
        if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 10:
            given = int(given)
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 10**9:
            raise _UnusableError(f"'claim_id' is {str(given)[:40]!r}, and must be a whole number from 0")
        if given in self._seen:
            raise _UnusableError(f"the claim_id {given} is that of record {self._seen[given]} too")
        self._seen[given] = number
        return given

    def _text(self, row: Row, key: str) -> str | None:
        """A text without surrounding white space; None where there is none, counted where there is another thing."""
        value = row.get(key)
        if isinstance(value, str) and len(value) <= MAX_TEXT_CHARS:
            return clean_text(value).strip() or None
        self.counts["bad_field"] += value is not None
        return None

    def _types(self, row: Row) -> tuple[str, ...]:
        value = row.get("claim_types")
        given = value if isinstance(value, list) else [] if value is None else [None]
        kept = [clean_text(one).strip() for one in given if isinstance(one, str) and len(one) <= MAX_TEXT_CHARS]
        self.counts["bad_field"] += len(kept) != len(given)
        return tuple(one for one in kept if one)

    def _date(self, row: Row) -> dt.date | None:
        given = row.get("claim_date")
        if given is None or (isinstance(given, str) and not given.strip()):
            self.counts["undated"] += 1
            return None
        found = parse_claim_date(given)
        self.counts["bad_date"] += found is None
        return found

    def _questions(self, row: Row) -> Iterator[GoldQuestion]:
        given = row.get("questions")
        if not isinstance(given, list):
            self.counts["bad_question"] += given is not None
            return
        for one in given:
            text = self._raw(one, "question")
            if text is None:
                self.counts["bad_question"] += 1
                continue
            answers = tuple(self._answers(one.get("answers")))
            self.counts["blank_question"] += not text.strip()
            self.counts["unanswered_question"] += not answers
            yield GoldQuestion(text, answers)

    def _answers(self, given: Any) -> Iterator[GoldAnswer]:
        """The official scorer takes one answer for a list of it, and so do we."""
        for one in given if isinstance(given, list) else [] if given is None else [given]:
            text = self._raw(one, "answer")
            if text is None:
                self.counts["bad_answer"] += 1
                continue
            self.counts["blank_answer"] += not text.strip()
            yield GoldAnswer(
                text=text,
                type=self._text(one, "answer_type") or "",
                explanation=self._part(one, "boolean_explanation"),
                source_url=self._text(one, "source_url") or "",
                cached_url=self._text(one, "cached_source_url") or "",
                medium=self._text(one, "source_medium") or "",
            )

    def _part(self, row: Row, key: str) -> str:
        value = self._raw(row, key)
        self.counts["bad_field"] += value is None and row.get(key) is not None
        return value or ""

    def _raw(self, row: object, key: str) -> str | None:
        """A text as the file has it, but for lone surrogates; None for anything else."""
        value = row.get(key) if isinstance(row, dict) else None
        return clean_text(value) if isinstance(value, str) and len(value) <= MAX_TEXT_CHARS else None
