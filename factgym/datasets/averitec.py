"""AVeriTeC's fact-checked claims: the records, and the reader of its train and dev files and of files of the same layout.

The four labels are those of ProFact's "Task Definition". Texts of questions and answers are as in the file, white space
included, since the official scores are computed on them. A claim's text and its label must be right, or the error names
file and record; everything else may be missing or of a wrong type, is then left empty, and is counted: see `COUNTED`. The
strategies of the fact-checkers and the cached copy of the claim itself are left out. The data are CC BY-NC 4.0 and no
part of the package.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from factgym.core.errors import ConfigError, DataError
from factgym.core.strict_json import clean_text
from factgym.core.tasks import shared
from factgym.corpora.rows import Row, Values, read_rows
from factgym.datasets.base import Records, label_lookup

Label = Literal["Supported", "Refuted", "Not Enough Evidence", "Conflicting Evidence/Cherrypicking"]
LABELS: tuple[Label, ...] = get_args(Label)
SUPPORTED, REFUTED, NOT_ENOUGH, CONFLICTING = LABELS

NO_ANSWER = "No answer could be found."
"""The official scorer's answer to a question without one."""

MAX_TEXT_CHARS = 100_000
"""Of any one text of a record; the longest of AVeriTeC has 2,000."""

COUNTED = (
    *("blank_claim", "undated", "bad_date", "bad_field", "bad_question", "blank_question", "unanswered_question"),
    *("bad_answer", "blank_answer", "skipped"),
)
"""The keys of `FactChecks.counts`.

blank_claim, blank_question, unanswered_question, blank_answer: kept; AVeriTeC's own train.json has one blank claim,
of which nothing can be checked, and one blank question. undated: without a date. bad_date: a date that is none.
bad_field: metadata, or a part of an answer, of a wrong type. bad_question, bad_answer: no object with a text,
dropped. skipped: records left out with `strict=False`.
"""

_VERSION = 1
_SUFFIXES = (".json", ".jsonl", ".ndjson")
_FOLDERS = ("", "averitec", "data")
_EXPECTED = "Give a JSON array or JSON lines of objects with a claim, a label and questions, as AVeriTeC's dev.json."
_DAY_FIRST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})")
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ].{0,40})?")
_LABEL_OF = label_lookup(
    {
        SUPPORTED: "supported|supports|support",
        REFUTED: "refuted|refutes|refute",
        NOT_ENOUGH: "not enough evidence|not enough information|not enough info|nei|nee",
        CONFLICTING: "conflicting evidence/cherrypicking|conflicting evidence/cherry picking|conflicting evidence"
        "|cherrypicking|cherry picking|conflicting",
    }
)


def fact_check_label(value: object) -> Label | None:
    """Return a data set's label as one of the four, None for anything else.

    Text in any case, with `_` or `-` for spaces. A model's own words are read elsewhere.
    """
    return _LABEL_OF(value) if isinstance(value, str) else None


def parse_claim_date(value: object) -> dt.date | None:
    """Return a date written day-month-year or year-month-day with `-`, `/` or `.`, any time after it ignored; else None."""
    if not isinstance(value, str):
        return None
    text = value.strip()[:64]
    if match := _DAY_FIRST.fullmatch(text):
        day, month, year = map(int, match.groups())
    elif match := _YEAR_FIRST.fullmatch(text):
        year, month, day = map(int, match.groups())
    else:
        return None
    return calendar_date(year, month, day)


def calendar_date(year: int, month: int, day: int) -> dt.date | None:
    """Return the day, None where the calendar has no such day."""
    try:
        return dt.date(year, month, day)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """One annotated answer.

    type: "Extractive", "Abstractive", "Boolean" or "Unanswerable" in AVeriTeC; empty where the file has none.
    explanation: the reason of a boolean answer; else empty. source_url: empty, or the word "Metadata", where no page is
    the source. cached_url: a copy of the source in an archive, or empty. medium: such as "Web text" or "PDF".
    """

    text: str
    type: str = ""
    explanation: str = ""
    source_url: str = ""
    cached_url: str = ""
    medium: str = ""


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """One annotated question with its answers; a few questions have several, none at all is possible."""

    question: str
    answers: tuple[GoldAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class FactCheck:
    """One claim with its metadata and its annotation.

    id: unique in its set, the set's name and `claim_id`. claim_id: the claim's number in official predictions and in
    the published knowledge store: the file's own, or the position in the file counted from 0. Metadata that the file
    lacks is None. fact_checking_article: the address of the professional verdict, which is no evidence and must not be
    shown to a policy.
    """

    id: str
    claim_id: int
    claim: str
    label: Label
    justification: str = ""
    questions: tuple[GoldQuestion, ...] = ()
    claim_date: dt.date | None = None
    speaker: str | None = None
    location: str | None = None
    reporting_source: str | None = None
    original_claim_url: str | None = None
    fact_checking_article: str | None = None
    claim_types: tuple[str, ...] = ()


def evidence_strings(check: FactCheck) -> tuple[str, ...]:
    """Return the gold evidence as AVeriTeC's official scorer compares it: "question answer", one text for each answer.

    A boolean answer is followed by ". " and its explanation; a question without an answer by `NO_ANSWER`.
    """
    texts = []
    for question in check.questions:
        answers = [answer_string(answer) for answer in question.answers] or [NO_ANSWER]
        texts += [f"{question.question} {answer}" for answer in answers]
    return tuple(texts)


def answer_string(answer: GoldAnswer) -> str:
    """Return the answer as the official scorer reads it."""
    is_explained = answer.type == "Boolean" and answer.explanation
    return f"{answer.text}. {answer.explanation}" if is_explained else answer.text


class FactChecks(Records[FactCheck]):
    """The claims of one file.

    counts: how often each kind of irregularity (`COUNTED`) occurs in the file. Raises DataError with file and record for
    a claim that is no text, an unknown label and a repeated claim_id; with strict=False such records are left out and
    counted.
    """

    def __init__(self, path: str | Path, *, name: str = "", strict: bool = True) -> None:
        self.path, self.strict = Path(path), strict
        self.name = name or self.path.stem
        digest = hashlib.sha256(f"averitec-{_VERSION}:{self.name}:{strict}:".encode())
        parser = _Parser(self.path, self.name, strict)
        self._records = tuple(parser.checks(read_rows(self.path, digest.update, suffixes=None)))
        if not self._records:
            raise DataError(f"{self.path}: holds no claim that can be used. {_EXPECTED}")
        self.counts: Mapping[str, int] = MappingProxyType({key: parser.counts[key] for key in COUNTED})
        self._fingerprint = digest.hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared_checks, (str(self.path), self.name, self.strict)


def read_fact_checks(path: str | Path, split: str = "dev", *, strict: bool = True) -> FactChecks:
    """Return the claims of a split; read once a process.

    path: a file (`split` is then only its name), a folder with `<split>.json`, or a folder that holds such a folder
    as `averitec` or `data`. Raises ConfigError where there is no such file, DataError for content that is unusable.
    """
    path = Path(path)
    if path.is_file():
        return _shared_checks(str(path.resolve()), split, strict)
    if not path.is_dir():
        raise ConfigError(f"{path} does not exist. {_EXPECTED}")
    if not re.fullmatch(r"[\w.-]{1,64}", split):
        raise ConfigError(f"{split[:64]!r} is no name of a split: use letters, digits, '_', '-' and '.'")
    candidates = [path / folder / f"{split}{suffix}" for folder in _FOLDERS for suffix in _SUFFIXES]
    file = next((file for file in candidates if file.is_file()), None)
    if file is None:
        raise ConfigError(f"{path} has no {split}.json, also not in {' or '.join(_FOLDERS[1:])}. {_EXPECTED}")
    return _shared_checks(str(file.resolve()), split, strict)


def _shared_checks(file: str, name: str, strict: bool) -> FactChecks:
    return shared(("averitec", file, name, strict), lambda: FactChecks(file, name=name, strict=strict))


class _UnusableError(Exception):
    """A record that makes no claim; the text is the reason."""


class _Parser:
    """Turns the records of one file into claims, and counts their irregularities."""

    def __init__(self, file: Path, name: str, strict: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._file, self._name, self._strict = file, name, strict
        self._record_numbers: dict[int, int] = {}

    def checks(self, rows: Iterator[Row]) -> Iterator[FactCheck]:
        """Yield the claims of a file."""
        for position, row in enumerate(rows):
            try:
                yield self._check(row, position)
            except _UnusableError as problem:
                if self._strict:
                    raise DataError(
                        f"{self._file} record {row.number}: {problem}. Fix the record or remove it."
                    ) from None
                self.counts["skipped"] += 1

    def _check(self, row: Row, position: int) -> FactCheck:
        values = row.values
        claim = values.get("claim")
        if not isinstance(claim, str) or len(claim) > MAX_TEXT_CHARS:
            raise _UnusableError(f"'claim' must be a text of at most {MAX_TEXT_CHARS:,} characters")
        label = fact_check_label(values.get("label"))
        if label is None:
            raise _UnusableError(f"'label' is {str(values.get('label'))[:40]!r}, which is none of {', '.join(LABELS)}")
        claim_id = values.get("claim_id", position)
        if isinstance(claim_id, str) and claim_id.isascii() and claim_id.isdigit() and len(claim_id) < 10:
            claim_id = int(claim_id)
        if isinstance(claim_id, bool) or not isinstance(claim_id, int) or not 0 <= claim_id < 10**9:
            raise _UnusableError(f"'claim_id' is {str(claim_id)[:40]!r}, and must be a whole number from 0")
        if claim_id in self._record_numbers:
            raise _UnusableError(f"the claim_id {claim_id} is that of record {self._record_numbers[claim_id]} too")
        self._record_numbers[claim_id] = row.number
        self.counts["blank_claim"] += not claim.strip()
        date_text, types = values.get("claim_date"), values.get("claim_types")
        claim_date = parse_claim_date(date_text)
        is_dated = date_text is not None and not (isinstance(date_text, str) and not date_text.strip())
        self.counts["bad_date" if is_dated else "undated"] += claim_date is None
        type_texts = [
            _clean(entry) for entry in (types if isinstance(types, list) else [] if types is None else [None])
        ]
        self.counts["bad_field"] += None in type_texts
        return FactCheck(
            id=f"{self._name}-{claim_id:05d}",
            claim_id=claim_id,
            claim=clean_text(claim).strip(),
            label=label,
            justification=self._text(values, "justification") or "",
            questions=tuple(self._questions(values.get("questions"))),
            claim_date=claim_date,
            speaker=self._text(values, "speaker"),
            location=self._text(values, "location_ISO_code"),
            reporting_source=self._text(values, "reporting_source"),
            original_claim_url=self._text(values, "original_claim_url"),
            fact_checking_article=self._text(values, "fact_checking_article"),
            claim_types=tuple(text.strip() for text in type_texts if text is not None and text.strip()),
        )

    def _questions(self, value: Any) -> Iterator[GoldQuestion]:
        if not isinstance(value, list):
            self.counts["bad_question"] += value is not None
            return
        for entry in value:
            text = _clean(entry.get("question")) if isinstance(entry, dict) else None
            if text is None:
                self.counts["bad_question"] += 1
                continue
            answers = tuple(self._answers(entry.get("answers")))
            self.counts["blank_question"] += not text.strip()
            self.counts["unanswered_question"] += not answers
            yield GoldQuestion(text, answers)

    def _answers(self, value: Any) -> Iterator[GoldAnswer]:
        """Yield the answers; one answer counts as a list of it, as in the official scorer."""
        for entry in value if isinstance(value, list) else [] if value is None else [value]:
            text = _clean(entry.get("answer")) if isinstance(entry, dict) else None
            if text is None:
                self.counts["bad_answer"] += 1
                continue
            self.counts["blank_answer"] += not text.strip()
            explanation = _clean(entry.get("boolean_explanation"))
            self.counts["bad_field"] += explanation is None and entry.get("boolean_explanation") is not None
            yield GoldAnswer(
                text=text,
                type=self._text(entry, "answer_type") or "",
                explanation=explanation or "",
                source_url=self._text(entry, "source_url") or "",
                cached_url=self._text(entry, "cached_source_url") or "",
                medium=self._text(entry, "source_medium") or "",
            )

    def _text(self, values: Values, key: str) -> str | None:
        """Return the stripped text under a key; None where there is none, and a value of another type is counted."""
        text = _clean(values.get(key))
        self.counts["bad_field"] += text is None and values.get(key) is not None
        return (text.strip() or None) if text is not None else None


def _clean(value: object) -> str | None:
    """Return a text as in the file but for lone surrogates; None for anything else, and for one that is too long."""
    return clean_text(value) if isinstance(value, str) and len(value) <= MAX_TEXT_CHARS else None
