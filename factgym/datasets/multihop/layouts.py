"""How a row of a benchmark's file gives a triple: question, answers, hops, and the gold evidence that it is annotated with.

Evidence is what the data set marks, and nothing finer is made up: sentences in HotpotQA and 2WikiMultiHopQA, paragraphs
in MuSiQue, PopQA and Natural Questions. A question may have several answers in the files of NQ, TriviaQA and PopQA,
which are read as `factgym.datasets.questions` reads them; in the multi-hop sets a `;` belongs to the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.core.errors import DataError
from factgym.corpora.passages.paragraphs import Paragraph, Titles, paragraphs_of, title_of, with_metadata
from factgym.corpora.passages.rows import Row, Values
from factgym.datasets.multihop.triple import Evidence
from factgym.datasets.questions.layouts import Layout, distinct_answers, layout_of, text_at

_ANSWERS = ("golden_answers", "answers", "answer")
_ALIASES = ("answer_aliases", "aliases")
_OWN_IDS = ("_id", "id", "qid", "idx")
_MUSIQUE_ID = re.compile(r"([2-4])hop\d?__")


@dataclass(slots=True)
class Reading:
    """What a row says.

    paragraphs: how many it carries. facts: how many pieces of evidence it marks in them; fewer may have been found.
    """

    question: str
    answers: tuple[str, ...]
    evidence: tuple[Evidence, ...] = ()
    hops: int | None = None
    kind: str | None = None
    paragraphs: int = 0
    facts: int = 0
    meta: dict[str, Any] = field(default_factory=dict)


class Reader:
    """Reads the rows of one file in order; the ids of paragraphs depend on those before them.

    hops: of every question of the data set, where its rows do not say it. several: whether questions have several answers.
    """

    def __init__(self, *, hops: int | None = None, several: bool = False) -> None:
        self._hops, self._several = hops, several
        self._titles = Titles()
        self._layout: Layout | None = None

    def read(self, row: Row) -> Reading:
        """The reading of a row. Raises DataError with its place."""
        values = with_metadata(row.values)
        reading = self._asked(values, row.place)
        paragraphs = paragraphs_of(values, row.place)
        reading.paragraphs = len(paragraphs)
        ids = [self._titles.id_of(one.title or f"passage {row.number}", one.text) for one in paragraphs]
        facts = _supporting(values, row.place)
        if facts and paragraphs:
            reading.facts = len(facts)
            reading.evidence = tuple(_sentences(facts, paragraphs, ids))
        elif facts:
            reading.meta["supporting_facts"] = [list(fact) for fact in facts]
        else:
            marked = [(id_, one) for id_, one in zip(ids, paragraphs, strict=True) if one.gold]
            reading.facts = len(marked)
            reading.evidence = tuple(Evidence(id_, 0, len(one.text), one.text) for id_, one in marked)
        reading.hops = _hops_of(values, facts) or self._hops
        return reading

    def _asked(self, row: Values, place: str) -> Reading:
        if self._several:
            self._layout = self._layout or layout_of(row, place)
            found = self._layout.read(row, place)
            meta = {**({"own_id": found.id} if found.id else {}), **found.meta}
            if found.popularity is not None:
                meta["popularity"] = found.popularity
            kind = meta.pop("kind", None)
            return Reading(found.question, found.aliases, kind=kind, meta=meta)
        kind = row.get("type")
        meta = {key: row[key] for key in ("level",) if isinstance(row.get(key), str)}
        own = next((row[key] for key in _OWN_IDS if isinstance(row.get(key), str | int)), None)
        meta |= {} if own is None else {"own_id": str(own)[:80]}
        answers = answers_of(row, place)
        return Reading(
            text_at(row, "question", place), answers, kind=kind if isinstance(kind, str) else None, meta=meta
        )


def answers_of(row: Values, place: str) -> tuple[str, ...]:
    """The answers of a row, the usual one first, none twice and none split. Raises DataError where there is none."""
    key = next((key for key in _ANSWERS if row.get(key) is not None), None)
    if key is None:
        raise DataError(f"{place}: no answer under {' or '.join(_ANSWERS)}. Add it or remove the row.")
    found = list(row[key]) if isinstance(row[key], list) else [row[key]]
    for alias in _ALIASES:
        if isinstance(row.get(alias), list):
            found += row[alias]
    return distinct_answers(found, place)


def _supporting(row: Values, place: str) -> list[tuple[str, int]]:
    """The supporting facts of HotpotQA and 2WikiMultiHopQA: title and number of the sentence, from 0."""
    value = row.get("supporting_facts")
    if value is None:
        return []
    if isinstance(value, dict):
        titles, numbers = value.get("title"), value.get("sent_id")
        if not isinstance(titles, list) or not isinstance(numbers, list) or len(titles) != len(numbers):
            raise DataError(f"{place}: 'supporting_facts' must hold as many titles as sentence numbers. Fix the row.")
        value = list(zip(titles, numbers, strict=True))
    if not isinstance(value, list):
        raise DataError(f"{place}: 'supporting_facts' must be a list, not a {type(value).__name__}. Fix the row.")
    facts: list[tuple[str, int]] = []
    for one in value:
        if not isinstance(one, list | tuple) or len(one) != 2 or type(one[1]) is not int or one[1] < 0:
            raise DataError(f"{place}: a supporting fact must be a title and a sentence's number. Fix the row.")
        facts.append((title_of(one[0], place), one[1]))
    return list(dict.fromkeys(facts))


def _sentences(
    facts: Sequence[tuple[str, int]], paragraphs: Sequence[Paragraph], ids: Sequence[str]
) -> Iterator[Evidence]:
    """The sentences that facts name; one whose title or number the context lacks is passed over."""
    places = {one.title: (id_, one) for id_, one in zip(reversed(ids), reversed(paragraphs), strict=True)}
    for title, number in facts:
        id_, paragraph = places.get(title, ("", None))
        if paragraph is not None and number < len(paragraph.sentences):
            start, end = paragraph.sentences[number]
            if start < end:
                yield Evidence(id_, start, end, paragraph.text[start:end])


def _hops_of(row: Values, facts: Sequence[tuple[str, int]]) -> int | None:
    """MuSiQue's from its decomposition or id; elsewhere as many as documents hold supporting facts."""
    steps = row.get("question_decomposition")
    if isinstance(steps, list) and steps:
        return len(steps)
    own = row.get("id")
    named = _MUSIQUE_ID.match(own) if isinstance(own, str) else None
    if named:
        return int(named[1])
    return len({title for title, _ in facts}) or None
