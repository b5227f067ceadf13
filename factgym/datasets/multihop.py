"""Questions whose answers need one fact or several, with gold evidence: EVE's seven benchmarks and users' own data sets.

All are read into `Triple` records: question, answers and gold `Evidence`, verbatim spans of documents. Evidence has
the granularity of the data set: sentences in HotpotQA and 2WikiMultiHopQA, paragraphs in MuSiQue, PopQA and Natural
Questions. NQ, TriviaQA and PopQA have several answers a question and are read as `factgym.datasets.questions` reads
them; in the multi-hop sets a `;` belongs to the answer.

EVE's frozen proposer writes data sets for the solver, one JSON object a line, with the offsets of every piece of evidence
and how much the evidence helped (`V`, from -1 to 1, or null):

    {"schema": 1, "id": …, "question": …, "answer": …, "answers": […],
     "evidence": [{"document": …, "start": …, "end": …, "text": …}], "hops": …, "V": …, "benchmark": …, "kind": …, "meta": {…}}
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from factgym.core.errors import DataError
from factgym.core.tasks import shared
from factgym.corpora.build import read_passages
from factgym.corpora.corpus import Corpus
from factgym.corpora.passage_files import Paragraph, TitleIds, pairs_of, paragraphs_of, title_of, with_metadata
from factgym.corpora.rows import Row, read_rows, stem_of, type_name
from factgym.datasets.base import FrozenRecord, Records, check_benchmark, load_data_sets, locate_file
from factgym.datasets.questions import ENTRIES_KEY, MAX_QUESTION_CHARS, Question, distinct_answers, question_layout
from factgym.text.folding import find_quote

BENCHMARKS = load_data_sets("multihop")

TRIPLES = "triples"
"""The name under which users' own data sets are read: lines of `triple_row`s."""

SCHEMA = 1

_VERSION = 1
_MAX_ID_CHARS = 300
_MAX_HOPS = 100
_ANSWERS = ("golden_answers", "answers", "answer")
_ALIASES = ("answer_aliases", "aliases")
_OWN_IDS = ("_id", "id", "qid", "idx")
_MUSIQUE_ID = re.compile(r"([2-4])hop\d?__")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A verbatim span of a document.

    document: its id in the corpus, "" where only the text is known. start, end: `text` is exactly that slice of the
    document's text, offsets in characters; both None where they are not known.
    """

    document: str
    start: int | None
    end: int | None
    text: str

    @property
    def is_placed(self) -> bool:
        """Whether document and offsets are known."""
        return bool(self.document) and self.start is not None and self.end is not None

    def matches(self, corpus: Corpus) -> bool:
        """Whether the corpus has exactly this text at exactly these offsets."""
        if not self.is_placed or self.document not in corpus:
            return False
        return corpus.get(self.document).text[self.start : self.end] == self.text

    def locate(self, corpus: Corpus, documents: Sequence[str] = ()) -> Evidence | None:
        """Return the same evidence with its span in this corpus, None where the corpus lacks it.

        Searched in its own document first, then in `documents`; verbatim after NFKC and white-space folding, as quotes
        are. The text becomes the corpus's own.
        """
        if self.matches(corpus):
            return self
        for id_ in (self.document, *documents):
            if id_ in corpus:
                text = corpus.get(id_).text
                span = find_quote(self.text, text)
                if span is not None:
                    return Evidence(id_, *span, text[slice(*span)])
        return None


@dataclass(frozen=True, slots=True)
class Triple(FrozenRecord):
    """One question with its answers and the evidence for them.

    id: unique in its set. answers: every text that counts as right, the usual one first, without repeats. evidence: gold
    spans, in the order of the hops where that is known; empty where there are none. hops: facts that have to be joined,
    None where unknown. benchmark: the data set's name. kind: the data set's own type of question, None without one.
    meta: a few small facts about its origin, JSON data.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    evidence: tuple[Evidence, ...] = ()
    hops: int | None = None
    benchmark: str = ""
    kind: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def answer(self) -> str:
        """The usual answer."""
        return self.answers[0]

    def located_in(self, corpus: Corpus) -> Triple:
        """Return the triple with its evidence located in the corpus; evidence that it lacks keeps its text, no span."""
        evidence = tuple(span.locate(corpus) or Evidence("", None, None, span.text) for span in self.evidence)
        return self if evidence == self.evidence else replace(self, evidence=evidence)


class TripleFile(Records[Triple]):
    """The triples of one file.

    Ids consist of benchmark, file and line (or entry), with the data set's own id in `meta["own_id"]`; users' own triples
    keep theirs. facts, located_facts: how many pieces of evidence the file's rows mark in the paragraphs that they
    carry, and how many of these were found there. Raises DataError with file and line for content that cannot be used.
    """

    def __init__(self, benchmark: str, path: str | Path) -> None:
        self.benchmark, self.path = benchmark, Path(path)
        digest = hashlib.sha256(f"triples-{_VERSION}:{benchmark}:{self.path.name}:".encode())
        self.facts = self.located_facts = 0
        self._has_paragraphs = False
        rows = read_rows(self.path, digest.update, entries_key=ENTRIES_KEY)
        self._records = tuple(self._own_triples(rows) if benchmark == TRIPLES else self._benchmark_triples(rows))
        self._fingerprint = digest.hexdigest()
        if not self._records:
            raise DataError(f"{self.path}: holds no question. Give a file with one question and its answers a row.")

    def _own_triples(self, rows: Iterator[Row]) -> Iterator[Triple]:
        lines: dict[str, int] = {}
        for row in rows:
            triple = parse_triple(row)
            if lines.setdefault(triple.id, row.number) != row.number:
                raise row.error(f"the id {triple.id[:80]!r} is on line {lines[triple.id]} too")
            yield triple

    def _benchmark_triples(self, rows: Iterator[Row]) -> Iterator[Triple]:
        """Read the rows in order: the ids of paragraphs depend on those before them."""
        titles = TitleIds()
        data_set = BENCHMARKS[self.benchmark]
        read: Callable[[Row], Question] | None = None if data_set.extends else _multihop_question
        for packed_row in rows:
            row = with_metadata(packed_row)
            read = read or question_layout(row).read
            question = read(row)
            paragraphs = paragraphs_of(row)
            ids = [titles.id_of(part.title or f"passage {row.number}", part.text) for part in paragraphs]
            facts = _supporting_facts(row)
            meta = {"file": self.path.name, "line": row.number, **question.meta}
            kind = meta.pop("kind", None)
            if question.popularity is not None:
                meta["popularity"] = question.popularity
            evidence: tuple[Evidence, ...] = ()
            if facts and not paragraphs:
                meta["supporting_facts"] = [list(fact) for fact in facts]
            elif facts:
                self.facts += len(facts)
                evidence = tuple(_fact_sentences(facts, paragraphs, ids))
            else:
                marked = [(id_, part.text) for id_, part in zip(ids, paragraphs, strict=True) if part.gold]
                self.facts += len(marked)
                evidence = tuple(Evidence(id_, 0, len(text), text) for id_, text in marked)
            self.located_facts += len(evidence)
            self._has_paragraphs |= bool(paragraphs)
            id_ = f"{self.benchmark}-{stem_of(self.path)}-{row.number:06d}"
            hops = _hops_of(row, facts) or data_set.hops
            yield Triple(id_, question.question, question.aliases, evidence, hops, self.benchmark, kind, meta)

    @property
    def corpus(self) -> Corpus | None:
        """The paragraphs that the questions carry, with the ids that evidence points to; None where they carry none."""
        return read_passages(self.path, layout="contexts") if self._has_paragraphs else None

    def __reduce__(self) -> tuple[object, ...]:
        return read_triples, (self.benchmark, str(self.path))


def read_triples(benchmark: str, path: str | Path, split: str | None = None) -> TripleFile:
    """Return the questions of a benchmark (a key of `BENCHMARKS`), or "triples" for an own data set; read once a process.

    path: a file of a known layout, or a folder: that of all public data sets, or of one. split: which of the benchmark's
    files in a folder, default as `triple_file`. Raises ConfigError for an unknown benchmark or split or a path that
    does not exist, DataError for content that is unusable.
    """
    file = triple_file(benchmark, path, split)
    return shared(("triples", benchmark, file.resolve()), lambda: TripleFile(benchmark, file))


def triple_file(benchmark: str, path: str | Path, split: str | None = None) -> Path:
    """Return the file that `read_triples` reads; without a split the first that exists, training files left out."""
    check_benchmark(benchmark, (*BENCHMARKS, TRIPLES))
    data_set = BENCHMARKS.get(benchmark)
    splits = [name for name in data_set.splits if name != "train"] if data_set else []
    return locate_file("triples", path, data_set, splits, split)


# Rows of benchmarks.


def _multihop_question(row: Row) -> Question:
    """Read a row of the multi-hop sets: the usual answer first, none twice and none split."""
    kind, level = row.values.get("type"), row.values.get("level")
    meta = {"level": level} if isinstance(level, str) else {}
    own_id = next((row.values[key] for key in _OWN_IDS if isinstance(row.values.get(key), str | int)), None)
    meta |= {} if own_id is None else {"own_id": str(own_id)[:80]}
    meta |= {"kind": kind} if isinstance(kind, str) else {}
    value = next((row.values[key] for key in _ANSWERS if row.values.get(key) is not None), None)
    if value is None:
        raise row.error(f"no answer under {' or '.join(_ANSWERS)}")
    answers = list(value) if isinstance(value, list) else [value]
    for alias in _ALIASES:
        if isinstance(row.values.get(alias), list):
            answers += row.values[alias]
    aliases = distinct_answers(answers, row)
    return Question("", row.text("question", MAX_QUESTION_CHARS), aliases, meta=meta)


def _supporting_facts(row: Row) -> list[tuple[str, int]]:
    """Return the supporting facts of HotpotQA and 2WikiMultiHopQA: title and number of the sentence, from 0."""
    facts: list[tuple[str, int]] = []
    value = row.values.get("supporting_facts")
    for fact in [] if value is None else pairs_of(value, "supporting_facts", ("sent_id",), "sentence numbers", row):
        if not isinstance(fact, list | tuple) or len(fact) != 2 or type(fact[1]) is not int or fact[1] < 0:
            raise row.error("a supporting fact must be a title and a sentence's number")
        facts.append((title_of(fact[0], row), fact[1]))
    return list(dict.fromkeys(facts))


def _fact_sentences(
    facts: Sequence[tuple[str, int]], paragraphs: Sequence[Paragraph], ids: Sequence[str]
) -> Iterator[Evidence]:
    """Yield the sentences that facts name; facts whose title or number the context lacks are left out."""
    pairs = zip(reversed(ids), reversed(paragraphs), strict=True)
    by_title = {paragraph.title: (id_, paragraph) for id_, paragraph in pairs}  # the first of a title wins
    for title, number in facts:
        id_, paragraph = by_title.get(title, ("", None))
        if paragraph is not None and number < len(paragraph.sentences):
            start, end = paragraph.sentences[number]
            if start < end:
                yield Evidence(id_, start, end, paragraph.text[start:end])


def _hops_of(row: Row, facts: Sequence[tuple[str, int]]) -> int | None:
    """Return MuSiQue's hops from its decomposition or id; elsewhere the number of documents with supporting facts."""
    steps, own_id = row.values.get("question_decomposition"), row.values.get("id")
    if isinstance(steps, list) and steps:
        return len(steps)
    match = _MUSIQUE_ID.match(own_id) if isinstance(own_id, str) else None
    if match:
        return int(match[1])
    return len({title for title, _ in facts}) or None


# Rows of users' own data sets.


def triple_row(triple: Triple) -> dict[str, Any]:
    """Return the row of a triple as JSON data; V of its evidence is `meta["V"]`."""
    meta = dict(triple.meta)
    value = meta.pop("V", None)
    return {
        "schema": SCHEMA,
        "id": triple.id,
        "question": triple.question,
        "answer": triple.answer,
        "answers": list(triple.answers),
        "evidence": [asdict(span) for span in triple.evidence],
        "hops": triple.hops,
        "V": value,
        "benchmark": triple.benchmark,
        "kind": triple.kind,
        "meta": meta,
    }


def parse_triple(row: Row) -> Triple:
    """Return the triple of a `triple_row`; `V` is in its meta. Raises DataError."""
    values = row.values
    if values.get("schema", SCHEMA) != SCHEMA:
        raise DataError(
            f"{row.location}: written in schema {str(values['schema'])[:20]}, and {SCHEMA} is understood. Update factgym."
        )
    meta = values.get("meta")
    meta = {} if meta is None else meta
    if not isinstance(meta, dict):
        raise row.error(f"'meta' must be an object, not {type_name(meta)}")
    kind, hops, value = values.get("kind"), values.get("hops"), values.get("V")
    if not (hops is None or (type(hops) is int and 1 <= hops <= _MAX_HOPS)):
        raise row.error(f"'hops' must be a whole number from 1 to {_MAX_HOPS}, or null")
    answers = distinct_answers([row.text("answer", MAX_QUESTION_CHARS), *row.entries("answers")], row)
    id_, question = row.text("id", _MAX_ID_CHARS), row.text("question", MAX_QUESTION_CHARS)
    evidence = tuple(
        _parse_evidence(entry, f"{row.location}, evidence {number}")
        for number, entry in enumerate(row.entries("evidence"))
    )
    if value is not None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise row.error(f"'V' must be a finite number or null, not {str(value)[:40]!r}")
        meta = {**meta, "V": float(value)}
    benchmark = str(values.get("benchmark") or "triples")[:80]
    return Triple(id_, question, answers, evidence, hops, benchmark, kind[:80] if isinstance(kind, str) else None, meta)


def _parse_evidence(value: Any, location: str) -> Evidence:
    if not isinstance(value, dict):
        raise DataError(f"{location}: an object with document, start, end and text is expected. Fix the row.")
    row = Row(0, location, value)
    text, document = value.get("text"), value.get("document") or ""
    start, end = value.get("start"), value.get("end")
    if not isinstance(text, str) or not text or not isinstance(document, str):
        raise row.error("'text' and 'document' must be texts, the first not empty")
    if start is None and end is None:
        return Evidence(document, None, None, text)
    if type(start) is not int or type(end) is not int or start < 0 or end - start != len(text):
        raise row.error(f"'start' and 'end' must be offsets {len(text)} characters apart, or null")
    return Evidence(document, start, end, text)
