"""Public question sets, and files of one's own, as sequences of questions. No data is part of the package."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import overload

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.tasks import SharedByArguments, shared
from factgym.datasets.attribution.files import Row
from factgym.datasets.questions.files import QUESTION_SUFFIXES, question_rows
from factgym.datasets.questions.layouts import Layout, layout_of
from factgym.datasets.questions.question import Question

BENCHMARKS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "nq-open": {
            "dev": ("nq_open/NQ-open.dev.jsonl", "corver_official/nq_open_validation.json"),
            "efficientqa": ("nq_open/NQ-open.efficientqa.dev.1.1.jsonl",),
            "train": ("nq_open/NQ-open.train.jsonl",),
        },
        "webquestions": {
            "test": ("webquestions/test.json", "webquestions/webquestions.examples.test.json"),
            "val": ("webquestions/val.json",),
            "devtest": ("webquestions/devtest.json",),
            "train": ("webquestions/trainmodel.json", "webquestions/webquestions.examples.train.json"),
        },
        "triviaqa": {
            "validation": ("triviaqa/qa/wikipedia-dev.json", "triviaqa/unfiltered-web-dev.json", "triviaqa/TriviaQA.csv"),
            "train": ("triviaqa/qa/wikipedia-train.json", "triviaqa/unfiltered-web-train.json"),
        },
        "popqa": {"test": ("corver_official/popqa_test.json", "popqa/popQA.tsv", "popqa/popqa.json")},
        "simpleqa": {"test": ("simpleqa/simple_qa_test_set.csv",)},
        "truthfulqa": {"test": ("truthfulqa/TruthfulQA.csv", "corver_official/truthfulqa.json")},
    }
)  # fmt: skip
"""Benchmark -> split, the default first -> the files that are looked for, in this order, where a folder is given.

A file is looked for in the folder of all public data sets, and by its bare name in a folder of one data set.
"""

AUTO = "auto"
"""The name under which any file is read, whatever its layout."""

_VERSION = 1


class QuestionFile(SharedByArguments, Sequence[Question]):
    """The questions of one file: an immutable sequence.

    Ids are made of benchmark, file and line, with the data set's own id in `meta["own_id"]` where it has one. layout:
    the name of the layout that was found. Raises DataError with file and line for what cannot be used.
    """

    def __init__(self, benchmark: str, path: str | Path) -> None:
        self.benchmark, self.path = benchmark, Path(path)
        digest = hashlib.sha256(f"questions-{_VERSION}:{benchmark}:{self.path.name}:".encode())
        self.layout, self._questions = _read(self.path, benchmark, digest.update)
        self._fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._questions)

    @overload
    def __getitem__(self, index: int) -> Question: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Question, ...]: ...
    def __getitem__(self, index: int | slice) -> Question | tuple[Question, ...]:
        return self._questions[index]

    def __reduce__(self) -> tuple[object, ...]:
        return read_questions, (self.benchmark, str(self.path))

    def fingerprint(self) -> str:
        """SHA-256 in hex over the benchmark's name, and the name and the bytes of the file."""
        return self._fingerprint


def read_questions(benchmark: str, path: str | Path, split: str | None = None) -> QuestionFile:
    """The questions of a benchmark (a key of `BENCHMARKS`, or "auto" for any file); read once a process.

    path: a file of any understood layout, or a folder: that of all public data sets, or of one. split: which of the
    benchmark's files in a folder, default its first. Raises ConfigError for an unknown benchmark or split or a path
    that does not exist, DataError for content that is unusable.
    """
    place = question_file(benchmark, path, split)
    return shared(("questions", benchmark, place.resolve()), lambda: QuestionFile(benchmark, place))


def question_file(benchmark: str, path: str | Path, split: str | None = None) -> Path:
    """The file that `read_questions` reads."""
    if benchmark != AUTO and benchmark not in BENCHMARKS:
        known = ", ".join((*BENCHMARKS, AUTO))
        raise ConfigError(
            f"there is no benchmark {benchmark!r:.80}.{did_you_mean(benchmark, BENCHMARKS)} There are: {known}."
        )
    place = Path(path)
    if place.is_file():
        return place
    if not place.exists():
        raise ConfigError(f"{place} does not exist: give a file or folder of questions with their answers")
    if benchmark == AUTO:
        raise ConfigError(f"{place} is a folder: name the file, or the benchmark ({', '.join(BENCHMARKS)})")
    return _in_folder(benchmark, place, split)


def _in_folder(benchmark: str, folder: Path, split: str | None) -> Path:
    splits = BENCHMARKS[benchmark]
    chosen = split if split is not None else next(iter(splits))
    if chosen not in splits:
        hint = did_you_mean(chosen, splits)
        raise ConfigError(f"{benchmark} has no split {chosen!r:.80}.{hint} It has: {', '.join(splits)}.")
    candidates = [folder / file for file in splits[chosen]]
    candidates += [folder / Path(file).name for file in splits[chosen]]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise DataError(
        f"{folder}: holds no {benchmark} {chosen}: looked for {', '.join(splits[chosen])}. Give the file itself as path."
    )


def _read(file: Path, benchmark: str, update: object) -> tuple[str, tuple[Question, ...]]:
    if file.suffix not in QUESTION_SUFFIXES:
        raise DataError(f"{file}: question files end in {', '.join(QUESTION_SUFFIXES)}. Convert or rename it.")
    layout: Layout | None = None
    found: list[Question] = []
    for line, row in _rows(file, update):
        if layout is None:
            layout = layout_of(row, f"{file} line {line}")
        found.append(_question(benchmark, file, line, row, layout))
    if layout is None:
        raise DataError(f"{file}: holds no question. Give a file with one question and its answers a row.")
    return layout.name, tuple(found)


def _rows(file: Path, update: object) -> Iterator[tuple[int, Row]]:
    return question_rows(file, update)  # type: ignore[arg-type]  # a hash's update takes bytes


def _question(benchmark: str, file: Path, line: int, row: Row, layout: Layout) -> Question:
    reading = layout.read(row, f"{file} line {line}")
    meta = {"file": file.name, "line": line, **({"own_id": reading.id} if reading.id else {}), **reading.meta}
    name = file.stem if benchmark == AUTO else benchmark
    id_ = f"{name}-{file.stem}-{line:06d}" if name != file.stem else f"{name}-{line:06d}"
    return Question(id_, reading.question, reading.aliases, name, reading.popularity, meta)
