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
from factgym.core.paths import kind_of, user_path
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
_DATES = (
    re.compile(r"(?P<day>\d{1,2})[-/.](?P<month>\d{1,2})[-/.](?P<year>\d{4})"),
    re.compile(r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?:[T ].{0,40})?"),
)
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
    text = value.strip()[:64] if isinstance(value, str) else ""
    match = next(filter(None, (form.fullmatch(text) for form in _DATES)), None)
    return calendar_date(**{part: int(number) for part, number in match.groupdict().items()}) if match else None


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
        counts = Counter(dict.fromkeys(COUNTED, 0))
        checks: list[FactCheck] = []
        numbers: dict[int, int] = {}
        for position, row in enumerate(read_rows(self.path, digest.update, suffixes=None)):
            try:
                checks.append(_parse_check(row, position, self.name, numbers, counts))
            except DataError as problem:
                if strict:
                    message = f"{self.path} record {row.number}: {problem}. Fix the record or remove it."
                    raise DataError(message) from None
                counts["skipped"] += 1
        if not checks:
            raise DataError(f"{self.path}: holds no claim that can be used. {_EXPECTED}")
        self.counts: Mapping[str, int] = MappingProxyType(dict(counts))
        self._records, self._fingerprint = tuple(checks), digest.hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared_checks, (str(self.path), self.name, self.strict)


def read_fact_checks(path: str | Path, split: str = "dev", *, strict: bool = True) -> FactChecks:
    """Return the claims of a split; read once a process.

    path: a file (`split` is then only its name), a folder with `<split>.json`, or a folder that holds such a folder
    as `averitec` or `data`. Raises ConfigError where there is no such file, DataError for content that is unusable.
    """
    path = user_path(path)
    kind = kind_of(path)
    if kind == "file":
        return _shared_checks(str(path.resolve()), split, strict)
    if kind is None:
        raise ConfigError(f"{path} does not exist. {_EXPECTED}")
    if not re.fullmatch(r"[\w.-]{1,64}", split):
        raise ConfigError(f"{split[:64]!r} is no name of a split: use letters, digits, '_', '-' and '.'")
    candidates = [path / folder / f"{split}{suffix}" for folder in _FOLDERS for suffix in _SUFFIXES]
    file = next((file for file in candidates if file.is_file()), None)
    if file is None:
        raise ConfigError(f"{path} has no {split}.json, also not in {' or '.join(_FOLDERS[1:])}. {_EXPECTED}")
    return _shared_checks(str(file.resolve()), split, strict)


def training_split(checks: FactChecks) -> FactChecks | None:
    """Return the claims of `train.json` beside a file of claims, itself for that file; None where there is none."""
    files = [checks.path.with_name(f"train{suffix}") for suffix in (checks.path.suffix, *_SUFFIXES)]
    file = next((file for file in files if file.is_file()), None)
    if file is None or file == checks.path:
        return checks if file else None
    return _shared_checks(str(file), "train", checks.strict)


def _shared_checks(file: str, name: str, strict: bool) -> FactChecks:
    return shared(("averitec", file, name, strict), lambda: FactChecks(file, name=name, strict=strict))


def _parse_check(row: Row, position: int, set_name: str, numbers: dict[int, int], counts: Counter[str]) -> FactCheck:
    """Return the claim of a row. numbers: records by claim_id. Raises DataError with the reason where it makes none."""
    values = row.values
    claim = values.get("claim")
    if not isinstance(claim, str) or len(claim) > MAX_TEXT_CHARS:
        raise DataError(f"'claim' must be a text of at most {MAX_TEXT_CHARS:,} characters")
    label = fact_check_label(values.get("label"))
    if label is None:
        raise DataError(f"'label' is {str(values.get('label'))[:40]!r}, which is none of {', '.join(LABELS)}")
    claim_id = values.get("claim_id", position)
    if isinstance(claim_id, str) and claim_id.isascii() and claim_id.isdigit() and len(claim_id) < 10:
        claim_id = int(claim_id)
    if type(claim_id) is not int or not 0 <= claim_id < 10**9:
        raise DataError(f"'claim_id' is {str(claim_id)[:40]!r}, and must be a whole number from 0")
    if numbers.setdefault(claim_id, row.number) != row.number:
        raise DataError(f"the claim_id {claim_id} is that of record {numbers[claim_id]} too")
    counts["blank_claim"] += not claim.strip()
    date_text, types = values.get("claim_date"), values.get("claim_types")
    claim_date = parse_claim_date(date_text)
    is_dated = date_text is not None and not (isinstance(date_text, str) and not date_text.strip())
    counts["bad_date" if is_dated else "undated"] += claim_date is None
    type_texts = [_clean(entry) for entry in (types if isinstance(types, list) else [] if types is None else [None])]
    counts["bad_field"] += None in type_texts
    return FactCheck(
        id=f"{set_name}-{claim_id:05d}",
        claim_id=claim_id,
        claim=clean_text(claim).strip(),
        label=label,
        justification=_text(values, "justification", counts) or "",
        questions=tuple(_questions(values.get("questions"), counts)),
        claim_date=claim_date,
        speaker=_text(values, "speaker", counts),
        location=_text(values, "location_ISO_code", counts),
        reporting_source=_text(values, "reporting_source", counts),
        original_claim_url=_text(values, "original_claim_url", counts),
        fact_checking_article=_text(values, "fact_checking_article", counts),
        claim_types=tuple(text.strip() for text in type_texts if text is not None and text.strip()),
    )


def _questions(value: Any, counts: Counter[str]) -> Iterator[GoldQuestion]:
    if not isinstance(value, list):
        counts["bad_question"] += value is not None
        return
    for entry in value:
        text = _clean(entry.get("question")) if isinstance(entry, dict) else None
        if text is None:
            counts["bad_question"] += 1
            continue
        answers = tuple(_answers(entry.get("answers"), counts))
        counts["blank_question"] += not text.strip()
        counts["unanswered_question"] += not answers
        yield GoldQuestion(text, answers)


def _answers(value: Any, counts: Counter[str]) -> Iterator[GoldAnswer]:
    """Yield the answers; one answer counts as a list of it, as in the official scorer."""
    for entry in value if isinstance(value, list) else [] if value is None else [value]:
        text = _clean(entry.get("answer")) if isinstance(entry, dict) else None
        if text is None:
            counts["bad_answer"] += 1
            continue
        counts["blank_answer"] += not text.strip()
        explanation = _clean(entry.get("boolean_explanation"))
        counts["bad_field"] += explanation is None and entry.get("boolean_explanation") is not None
        keys = ("answer_type", "source_url", "cached_source_url", "source_medium")
        type_, source_url, cached_url, medium = (_text(entry, key, counts) or "" for key in keys)
        yield GoldAnswer(text, type_, explanation or "", source_url, cached_url, medium)


def _text(values: Values, key: str, counts: Counter[str]) -> str | None:
    """Return the stripped text under a key; None where there is none, and a value of another type is counted."""
    text = _clean(values.get(key))
    counts["bad_field"] += text is None and values.get(key) is not None
    return (text.strip() or None) if text is not None else None


def _clean(value: object) -> str | None:
    """Return a text as in the file but for lone surrogates; None for anything else, and for one that is too long."""
    return clean_text(value) if isinstance(value, str) and len(value) <= MAX_TEXT_CHARS else None
