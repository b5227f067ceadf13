"""Factual questions with their gold answers, out of public benchmarks and users' files, as `Question` records.

Choices of the readers:

- Where answers are one text, they are separated by `;`, as in the authors' training files; SimpleQA has one answer a
  question, which may hold a `;` and is not split.
- The usual answer comes first and is an alias like the others; aliases that repeat one are dropped.
- TruthfulQA's aliases are its best and its correct answers. They are whole sentences: few completions contain one.
- Popularity is PopQA's `s_pop`, the page views of the question's subject, or `popularity` in files of the user's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from factgym.core.errors import DataError
from factgym.core.strict_json import clean_text
from factgym.core.tasks import shared
from factgym.corpora.rows import Row, read_rows, stem_of, type_name
from factgym.datasets.base import (
    FrozenRecord,
    Layout,
    Records,
    RecordSet,
    RecordSlice,
    check_benchmark,
    detect_layout,
    load_data_sets,
    locate_file,
    stratified_slice,
)

BENCHMARKS = load_data_sets("questions")

AUTO = "auto"
"""The name under which any file is read, whatever its layout."""

ENTRIES_KEY = "Data"
"""TriviaQA's files are one object with their questions under this key."""

MAX_QUESTION_CHARS = 20_000
MAX_ANSWER_CHARS = 4_000
MAX_ALIASES = 2_000

_VERSION = 1
_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^\s()]+))\)')
_NOTE = "'{}': (?:'([^']{{1,60}})'|\"([^\"]{{1,60}})\")"


@dataclass(frozen=True, slots=True)
class Question(FrozenRecord):
    """One factual question.

    id: unique in its set. aliases: every answer that counts as right, the usual one first, without repeats. benchmark:
    the data set's name. popularity: of its subject, in the data set's own unit (monthly page views in PopQA, sentences
    that state the fact in the generated world), None where unknown. meta: a few small facts about its origin, JSON data;
    "kind" groups questions where the data set does.
    """

    id: str
    question: str
    aliases: tuple[str, ...]
    benchmark: str = ""
    popularity: float | None = None
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)


Questions = RecordSet[Question]
Read = Callable[[Row], Question]


class QuestionFile(Records[Question]):
    """The questions of one file.

    Ids consist of benchmark, file and line, with the data set's own id in `meta["own_id"]` where it has one. layout: the
    name of the file's layout. Raises DataError with file and line for content that cannot be used.
    """

    def __init__(self, benchmark: str, path: str | Path) -> None:
        self.benchmark, self.path = benchmark, Path(path)
        digest = hashlib.sha256(f"questions-{_VERSION}:{benchmark}:{self.path.name}:".encode())
        stem = stem_of(self.path)
        name = stem if benchmark == AUTO else benchmark
        prefix = f"{name}-{stem}" if name != stem else name
        layout: Layout[Question] | None = None
        questions: list[Question] = []
        for row in read_rows(self.path, digest.update, entries_key=ENTRIES_KEY):
            layout = layout or question_layout(row)
            question = layout.read(row)
            meta = {"file": self.path.name, "line": row.number, **question.meta}
            questions.append(replace(question, id=f"{prefix}-{row.number:06d}", benchmark=name, meta=meta))
        if layout is None:
            raise DataError(f"{self.path}: holds no question. Give a file with one question and its answers a row.")
        self.layout, self._records = layout.name, tuple(questions)
        self._fingerprint = digest.hexdigest()

    def __reduce__(self) -> tuple[object, ...]:
        return read_questions, (self.benchmark, str(self.path))


def read_questions(benchmark: str, path: str | Path, split: str | None = None) -> QuestionFile:
    """Return the questions of a benchmark (a key of `BENCHMARKS`, or "auto" for any file); read once a process.

    path: a file of any known layout, or a folder: that of all public data sets, or of one. split: which of the
    benchmark's files in a folder, default its first. Raises ConfigError for an unknown benchmark or split or a path that
    does not exist, DataError for content that is unusable.
    """
    file = question_file(benchmark, path, split)
    return shared(("questions", benchmark, file.resolve()), lambda: QuestionFile(benchmark, file))


def question_file(benchmark: str, path: str | Path, split: str | None = None) -> Path:
    """Return the file that `read_questions` reads."""
    check_benchmark(benchmark, (*BENCHMARKS, AUTO))
    data_set = BENCHMARKS.get(benchmark)
    return locate_file("questions", path, data_set, tuple(data_set.splits)[:1] if data_set else (), split)


# Layouts: how a row becomes a question.


def distinct_answers(values: Iterable[object], row: Row) -> tuple[str, ...]:
    """Return the answers without blanks and repeats. Raises DataError where there is none, or one that is no text."""
    answers: dict[str, None] = {}
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise row.error(f"an answer is {type_name(value)}; answers are texts")
        text = clean_text(str(value)).strip()
        if len(text) > MAX_ANSWER_CHARS:
            raise row.error(f"an answer has {len(text):,} characters; {MAX_ANSWER_CHARS:,} are allowed")
        if text:
            answers[text] = None
    if not answers:
        raise row.error("the question has no answer")
    if len(answers) > MAX_ALIASES:
        raise row.error(f"{len(answers):,} answers; {MAX_ALIASES:,} are allowed")
    return tuple(answers)


def _answer_list(row: Row, key: str) -> list[Any]:
    """Return the answers under a key: a list, JSON in a text, or a text of parts separated by `;`."""
    value = row.values.get(key)
    if isinstance(value, str):
        text = value.strip()
        if not text.startswith("["):
            return text.split(";")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise row.error(f"{key!r} begins like a JSON list and is none") from None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, list):
        raise row.error(f"{key!r} must be a list of texts or one text, and is {type_name(value)}")
    return value


def _number(row: Row, key: str) -> float | None:
    value = row.values.get(key)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
    except (TypeError, ValueError):
        raise row.error(f"{key!r} is {str(value)[:40]!r}, which is no number") from None
    if not 0 <= number < float("inf"):
        raise row.error(f"{key!r} must be a finite number of at least 0, not {number}")
    return number


def _meta(row: Row, id: str = "", kind: str = "") -> dict[str, Any]:
    """Return the data set's own id and its kind of question, each under a column of that name if there is one."""
    own_id, kind_value = row.values.get(id), row.values.get(kind)
    meta: dict[str, Any] = {}
    if id and isinstance(own_id, (str, int)) and not isinstance(own_id, bool) and str(own_id):
        meta["own_id"] = str(own_id)[:80]
    if kind and isinstance(kind_value, str) and kind_value:
        meta["kind"] = kind_value[:60]
    return meta


def _columns(question: str, answers: str, usual: str = "", *, id: str = "", kind: str = "") -> Read:
    """Read columns of questions and answers. usual: the column of the usual answer, which is not split."""

    def read(row: Row) -> Question:
        first = [row.text(usual, MAX_ANSWER_CHARS)] if usual else []
        aliases = distinct_answers([*first, *_answer_list(row, answers)], row)
        popularity = None if usual else _number(row, "popularity")
        text = row.text(question, MAX_QUESTION_CHARS)
        return Question("", text, aliases, popularity=popularity, meta=_meta(row, id, kind))

    return read


def _triviaqa(question: str, id: str, answer: str, value: str, aliases: str) -> Read:
    """Read TriviaQA's answer: an object with the usual answer and its aliases."""

    def read(row: Row) -> Question:
        gold = row.values.get(answer)
        if not isinstance(gold, dict):
            raise row.error(f"{answer!r} must be an object with {value!r} and {aliases!r}")
        alternatives = gold.get(aliases) or []
        if not isinstance(alternatives, list):
            raise row.error(f"{aliases!r} must be a list of texts")
        answers = distinct_answers([gold.get(value) or "", *alternatives], row)
        return Question("", row.text(question, MAX_QUESTION_CHARS), answers, meta=_meta(row, id))

    return read


def _popqa(row: Row) -> Question:
    aliases = distinct_answers([row.values.get("obj") or "", *_answer_list(row, "possible_answers")], row)
    meta = _meta(row, "id", "prop") | {"subject": str(row.values.get("subj", ""))[:200]}
    text, popularity = row.text("question", MAX_QUESTION_CHARS), _number(row, "s_pop")
    return Question("", text, aliases, popularity=popularity, meta=meta)


def _simpleqa(row: Row) -> Question:
    answer = row.text("answer", MAX_ANSWER_CHARS)
    notes = str(row.values.get("metadata") or "")
    # The metadata are a Python dict written as text.
    matches = {
        name: re.search(_NOTE.format(key), notes) for name, key in (("kind", "topic"), ("answer_type", "answer_type"))
    }
    meta = {name: match[1] or match[2] for name, match in matches.items() if match}
    return Question("", row.text("problem", MAX_QUESTION_CHARS), (answer,), meta=meta)


def _webquestions_published(row: Row) -> Question:
    """WebQuestions as it was published: answers in a list of `(description "…")`."""
    target = row.text("targetValue", MAX_QUESTION_CHARS)
    answers = [quoted.replace('\\"', '"') or word for quoted, word in _DESCRIPTION.findall(target)]
    return Question("", row.text("utterance", MAX_QUESTION_CHARS), distinct_answers(answers, row))


_COLUMNS = {
    "question": ("question", "problem", "query", "prompt"),
    "answers": ("answers", "aliases", "answer", "gold_answer", "possible_answers", "golden_answers"),
}
LAYOUTS = (
    Layout("PopQA", ("question", "possible_answers", "obj"), _popqa),
    Layout(
        "TriviaQA",
        ("Question", "QuestionId", "Answer"),
        _triviaqa("Question", "QuestionId", "Answer", "Value", "Aliases"),
    ),
    Layout(
        "TriviaQA (datasets)",
        ("question", "question_id", "answer"),
        _triviaqa("question", "question_id", "answer", "value", "aliases"),
    ),
    Layout(
        "TriviaQA (sample)",
        ("question", "gold_answer", "aliases"),
        _columns("question", "aliases", "gold_answer", id="qid"),
    ),
    Layout("TriviaQA (CSV)", ("question", "answer", "false_answer"), _columns("question", "answer")),
    Layout("CorVer", ("question", "answer", "aliases"), _columns("question", "aliases", "answer")),
    Layout("WebQuestions", ("qId", "qText", "answers"), _columns("qText", "answers", id="qId")),
    Layout("WebQuestions (published)", ("utterance", "targetValue"), _webquestions_published),
    Layout("SimpleQA", ("problem", "answer", "metadata"), _simpleqa),
    Layout(
        "TruthfulQA",
        ("Question", "Best Answer", "Correct Answers"),
        _columns("Question", "Correct Answers", "Best Answer", kind="Category"),
    ),
)
"""Layouts by the columns of their rows; the first that fits is taken."""


def question_layout(row: Row) -> Layout[Question]:
    """Return the layout of a file by its first row. Raises DataError that lists the known layouts."""
    return detect_layout(
        row, LAYOUTS, _COLUMNS, lambda name, *keys: Layout(name, keys, _columns(*keys, id="id", kind="kind"))
    )


# Slices with the strata of the whole in proportion. A stratum is a quarter of the popularity where every question has
# one, else the "kind" that a data set gives its questions, else the whole set.


def popularity_quartiles(values: Sequence[float | None]) -> list[int | None]:
    """Return the quarter, 1 (rarest) to 4, of each popularity; None where it is None.

    The bounds are the 25th, 50th and 75th percentiles (linear between neighbours) of the values that are not None; a
    value equal to a bound is in the lower quarter.
    """
    import numpy as np

    numbers = [value for value in values if value is not None]
    if not numbers:
        return [None] * len(values)
    bounds = np.percentile(numbers, [25, 50, 75])
    return [None if value is None else 1 + int(np.searchsorted(bounds, value, side="left")) for value in values]


def stratified_questions(questions: Questions, size: int, seed: int = 0) -> RecordSlice[Question]:
    """Draw `size` questions with the strata in the proportion of the whole. Raises ConfigError for a bad size."""
    records = [questions[index] for index in range(len(questions))]
    quarters = popularity_quartiles([question.popularity for question in records])
    if None not in quarters:
        strata = [f"quarter {quarter}" for quarter in quarters]
    else:
        strata = [str(question.meta.get("kind", "")) for question in records]
    return stratified_slice(questions, strata, size, f"factgym question slice {seed}", "questions")
