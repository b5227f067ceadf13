"""The layouts of question files: which keys tell one, and how a row of it gives a question with its answers.

A layout is told by the keys of the first row. What is a choice:

- Where answers are one text, they are separated by `;`, as in the authors' training files; SimpleQA has one answer a
  question, which may hold a `;` and is not split.
- The usual answer comes first and is an alias like the others; aliases that repeat one are dropped.
- TruthfulQA's aliases are its best and its correct answers. They are whole sentences: few completions contain one.
- Popularity is PopQA's `s_pop`, the page views of the question's subject, or `popularity` in files of the user's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from factgym.core.errors import DataError
from factgym.core.strict_json import clean_text
from factgym.datasets.attribution.files import Row

MAX_QUESTION_CHARS = 20_000
MAX_ANSWER_CHARS = 4_000
MAX_ALIASES = 2_000

_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^\s()]+))\)')
_NOTE = "'{}': (?:'([^']{{1,60}})'|\"([^\"]{{1,60}})\")"


@dataclass(frozen=True, slots=True)
class Reading:
    """A question of a row. id: the data set's own, or empty. meta: what is worth keeping of the row."""

    question: str
    aliases: tuple[str, ...]
    id: str = ""
    popularity: float | None = None
    meta: dict[str, Any] = field(default_factory=dict)


Read = Callable[[Row, str], Reading]
"""The question of a row; the text is its place, for errors."""


@dataclass(frozen=True, slots=True)
class Layout:
    """keys: all of them are in a row of this layout."""

    name: str
    keys: tuple[str, ...]
    read: Read


def text_at(row: Row, key: str, place: str, most: int = MAX_QUESTION_CHARS) -> str:
    """A text of the row. Raises DataError where it is missing, blank, no text, or too long."""
    value = row.get(key)
    if not isinstance(value, str):
        kind = "missing" if value is None else f"a {type(value).__name__}"
        raise DataError(f"{place}: {key!r} must be a text, and is {kind}. Fix the row or remove it.")
    text = clean_text(value).strip()
    if not text:
        raise DataError(f"{place}: {key!r} is empty. Fix the row or remove it.")
    if len(text) > most:
        raise DataError(f"{place}: {key!r} has {len(text):,} characters; {most:,} are allowed.")
    return text


def distinct_answers(found: Iterable[object], place: str) -> tuple[str, ...]:
    """Texts without blanks and repeats. Raises DataError where there is none, or something that is no text."""
    kept: dict[str, None] = {}
    for one in found:
        if isinstance(one, bool) or not isinstance(one, (str, int, float)):
            raise DataError(f"{place}: an answer is a {type(one).__name__}; answers are texts. Fix the row.")
        text = clean_text(str(one)).strip()
        if len(text) > MAX_ANSWER_CHARS:
            raise DataError(f"{place}: an answer has {len(text):,} characters; {MAX_ANSWER_CHARS:,} are allowed.")
        if text:
            kept[text] = None
    if not kept:
        raise DataError(f"{place}: the question has no answer. Give one, or remove the row.")
    if len(kept) > MAX_ALIASES:
        raise DataError(f"{place}: {len(kept):,} answers; {MAX_ALIASES:,} are allowed.")
    return tuple(kept)


def _listed(row: Row, key: str, place: str) -> list[Any]:
    """A list under a key: as it is, as JSON in a text, or as a text of parts separated by `;`."""
    value = row.get(key)
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                raise DataError(f"{place}: {key!r} begins like a JSON list and is none. Fix the row.") from None
        else:
            return text.split(";")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, list):
        kind = "missing" if value is None else f"a {type(value).__name__}"
        raise DataError(f"{place}: {key!r} must be a list of texts or one text, and is {kind}. Fix the row.")
    return value


def _plain(question: str, answers: str, kind: str = "", id: str = "") -> Read:
    def read(row: Row, place: str) -> Reading:
        aliases = distinct_answers(_listed(row, answers, place), place)
        popularity = _number(row, "popularity", place)
        return Reading(text_at(row, question, place), aliases, _id(row, id), popularity, _kind(row, kind))

    return read


def _kind(row: Row, key: str) -> dict[str, Any]:
    value = row.get(key)
    return {"kind": value[:60]} if key and isinstance(value, str) and value else {}


def _id(row: Row, key: str) -> str:
    value = row.get(key)
    return str(value)[:80] if key and isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _with_aliases(question: str, answer: str, id: str = "") -> Read:
    """A usual answer, which is not split, and a list of aliases."""

    def read(row: Row, place: str) -> Reading:
        usual = text_at(row, answer, place, MAX_ANSWER_CHARS)
        aliases = distinct_answers([usual, *_listed(row, "aliases", place)], place)
        return Reading(text_at(row, question, place), aliases, _id(row, id))

    return read


def _popqa(row: Row, place: str) -> Reading:
    aliases = distinct_answers([row.get("obj") or "", *_listed(row, "possible_answers", place)], place)
    meta = _kind(row, "prop") | {"subject": str(row.get("subj", ""))[:200]}
    return Reading(text_at(row, "question", place), aliases, _id(row, "id"), _number(row, "s_pop", place), meta)


def _number(row: Row, key: str, place: str) -> float | None:
    value = row.get(key)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
    except (TypeError, ValueError):
        raise DataError(f"{place}: {key!r} is {str(value)[:40]!r}, which is no number. Fix the row.") from None
    if not 0 <= number < float("inf"):
        raise DataError(f"{place}: {key!r} must be a finite number of at least 0, not {number}.")
    return number


def _simpleqa(row: Row, place: str) -> Reading:
    answer = text_at(row, "answer", place, MAX_ANSWER_CHARS)
    notes = str(row.get("metadata") or "")
    meta = {"kind": _note(notes, "topic"), "answer_type": _note(notes, "answer_type")}
    return Reading(text_at(row, "problem", place), (answer,), meta={key: one for key, one in meta.items() if one})


def _note(notes: str, key: str) -> str:
    """A value of the dict that SimpleQA writes as text."""
    match = re.search(_NOTE.format(key), notes)
    return (match[1] or match[2]) if match else ""


def _truthful(row: Row, place: str) -> Reading:
    right = [text_at(row, "Best Answer", place, MAX_ANSWER_CHARS), *_listed(row, "Correct Answers", place)]
    return Reading(text_at(row, "Question", place), distinct_answers(right, place), meta=_kind(row, "Category"))


def _trivia(question: str, id: str, answer: str, value: str, aliases: str) -> Read:
    def read(row: Row, place: str) -> Reading:
        gold = row.get(answer)
        if not isinstance(gold, dict):
            raise DataError(f"{place}: {answer!r} must be an object with {value!r} and {aliases!r}. Fix the row.")
        known = gold.get(aliases) or []
        if not isinstance(known, list):
            raise DataError(f"{place}: {aliases!r} must be a list of texts. Fix the row.")
        found = distinct_answers([gold.get(value) or "", *known], place)
        return Reading(text_at(row, question, place), found, _id(row, id))

    return read


def _target_values(row: Row, place: str) -> Reading:
    """WebQuestions as it was published: answers in a list of `(description "…")`."""
    target = text_at(row, "targetValue", place, MAX_QUESTION_CHARS)
    found = [quoted.replace('\\"', '"') or bare for quoted, bare in _DESCRIPTION.findall(target)]
    return Reading(text_at(row, "utterance", place), distinct_answers(found, place))


_QUESTION = ("question", "problem", "query", "prompt")
_ANSWERS = ("answers", "aliases", "answer", "gold_answer", "possible_answers", "golden_answers")

_KNOWN = (
    Layout("PopQA", ("question", "possible_answers", "obj"), _popqa),
    Layout("TriviaQA", ("Question", "QuestionId", "Answer"), _trivia("Question", "QuestionId", "Answer", "Value", "Aliases")),
    Layout("TriviaQA (datasets)", ("question", "question_id", "answer"), _trivia("question", "question_id", "answer", "value", "aliases")),
    Layout("TriviaQA (sample)", ("question", "gold_answer", "aliases"), _with_aliases("question", "gold_answer", "qid")),
    Layout("TriviaQA (CSV)", ("question", "answer", "false_answer"), _plain("question", "answer")),
    Layout("CorVer", ("question", "answer", "aliases"), _with_aliases("question", "answer")),
    Layout("WebQuestions", ("qId", "qText", "answers"), _plain("qText", "answers", id="qId")),
    Layout("WebQuestions (published)", ("utterance", "targetValue"), _target_values),
    Layout("SimpleQA", ("problem", "answer", "metadata"), _simpleqa),
    Layout("TruthfulQA", ("Question", "Best Answer", "Correct Answers"), _truthful),
)  # fmt: skip


def layout_of(row: Row, place: str) -> Layout:
    """The layout of a row. Raises DataError that lists what is understood."""
    for layout in _KNOWN:
        if all(key in row for key in layout.keys):
            return layout
    question = next((key for key in _QUESTION if key in row), None)
    answers = next((key for key in _ANSWERS if key in row), None)
    if question is not None and answers is not None:
        return Layout("question, answers", (question, answers), _plain(question, answers, "kind", "id"))
    seen = ", ".join(sorted(str(key) for key in list(row)[:12])) or "no keys"
    known = "; ".join(f"{layout.name} ({', '.join(layout.keys)})" for layout in _KNOWN)
    raise DataError(
        f"{place}: no layout that is understood; its keys are {seen[:200]}. Understood are {known}; and for files of "
        f"your own a question ({' or '.join(_QUESTION)}) with its answers ({' or '.join(_ANSWERS)})."
    )
