"""Claims with the documents that they were checked against, out of public benchmarks, as `ClaimExample` records.

Read are WiCE, Fool Me Twice and SciFact, whose annotators marked sentences; FEVER Symmetric, Factcheck-GPT, GrayFacts and
files in the layout of LLM-AggreFact, which have a label and no evidence. Statuses of the data sets' labels:

- WiCE: supported; partially supported is an overclaim, as the page says less than the sentence; not supported is
  unsupported. Of several annotated sets of sentences each suffices.
- Fool Me Twice: SUPPORTS, REFUTES. Documents are the ten sentences that its authors retrieved, the gold ones among them.
- SciFact: SUPPORT, CONTRADICT, and no evidence is unsupported. Documents are the cited abstracts. Of several rationales
  each suffices.
- Factcheck-GPT's claims: completely-support, partially-support (an overclaim), refute, irrelevant (unsupported).
- A binary label that is negative is unsupported.

Sentences of one document are joined by line ends to passages, so the lines of a passage are the annotators' sentences.
"""

from __future__ import annotations

import ast
import hashlib
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from factgym.core.errors import DataError
from factgym.core.strict_json import clean_text
from factgym.core.tasks import shared
from factgym.corpora.bm25 import SmallBM25
from factgym.corpora.corpus import Passage
from factgym.corpora.rows import COLUMNAR, SUFFIXES, Row, read_rows
from factgym.datasets.base import (
    Layout,
    Records,
    check_benchmark,
    detect_layout,
    interleave,
    label_lookup,
    load_data_sets,
    locate_file,
)
from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact, Status

BENCHMARKS = load_data_sets("claims")

MAX_PASSAGE_CHARS = 700
MAX_CLAIM_CHARS = 4000
MAX_SENTENCES = 20_000
MAX_SETS = 1000
NEAREST = 5

_VERSION = 1
_HEADING = re.compile(r"#{1,6} (.+)")
_TITLE = re.compile(r"\(meta data\) TITLE: (.+)", re.DOTALL)
_WORDS: Mapping[Status, str] = {
    "supported": "supported|support|supports|completely support|entailment|attributable|s|true|yes|1",
    "overclaim": "partially supported|partially support|overclaim",
    "contradicted": "contradict|contradicted|refutes|refuted|refute|contradiction|contradicts",
    "unsupported": "not supported|unsupported|irrelevant|neutral|not enough info|nei|not attributable|ns|false|no|0",
}
_LABELS = label_lookup(_WORDS)
_REASONS: Mapping[Status, str] = {
    "supported": "Annotators marked the cited sentences as carrying the statement.",
    "overclaim": "Annotators found only a part of the statement in the cited sentences.",
    "contradicted": "Annotators marked the cited sentences as refuting the statement.",
    "unsupported": "Annotators found no sentence that settles the statement.",
}


@dataclass(frozen=True, slots=True)
class SplitDocument:
    """A document as passages, and where each of its sentences is; None for one that is blank."""

    passages: tuple[Passage, ...]
    sentences: tuple[GoldFact | None, ...]


def split_document(texts: Sequence[str], title: str, prefix: str = "E") -> SplitDocument:
    """Join consecutive sentences with line ends to passages of at most 700 characters; a longer sentence is one alone.

    prefix: of the passages' ids, which are numbered from 1. Headings ("# Life") are added to the titles below them.
    """
    passages: list[Passage] = []
    facts: list[GoldFact | None] = []
    lines: list[str] = []
    heading = ""

    def close() -> None:
        if lines:
            name = f"{title} › {heading}" if heading and heading.casefold() != title.casefold() else title
            passages.append(Passage(f"{prefix}{len(passages) + 1}", name, "\n".join(lines)))
            lines.clear()

    for text in texts:
        line = " ".join(clean_text(text).split())
        match = _HEADING.match(line)
        new_heading = match[1][:120] if match else ""
        length = sum(len(other) + 1 for other in lines)
        if new_heading or length + len(line) > MAX_PASSAGE_CHARS:
            close()
            heading, length = new_heading or heading, 0
        if line:
            facts.append(GoldFact(f"{prefix}{len(passages) + 1}", length, length + len(line)))
            lines.append(line)
        else:
            facts.append(None)
    close()
    return SplitDocument(tuple(passages), tuple(facts))


class GroundingClaims(Records[ClaimExample]):
    """The claims of one data set.

    Statuses are interleaved in proportion, each in an order shuffled by `seed`, so that the first n examples are about
    as mixed as all. balanced: no status has more claims than the second most frequent one.
    """

    def __init__(
        self, name: str, file: Path, split: str, seed: int = 0, *, balanced: bool = False, shuffled: bool = True
    ) -> None:
        check_benchmark(name, BENCHMARKS)
        settings = f"{name}:{split}:{seed}:{balanced}:{shuffled}"
        digest = hashlib.sha256(f"grounding-{_VERSION}:{settings}:".encode())
        read = read_scifact if name == "scifact" else _read_rows
        examples = [replace(example, split=split) for example in read(name, file, digest)]
        if not examples:
            raise DataError(f"{file}: holds no claim.")
        groups: dict[str, list[ClaimExample]] = {}
        for example in examples:
            groups.setdefault(example.verdict, []).append(example)
        for status, members in groups.items():
            random.Random(f"{name}:{seed}:{status}").shuffle(members)
        limit = sorted(map(len, groups.values()))[-2:][0] if balanced else None
        spread = interleave([members[:limit] for members in groups.values()])
        self._records = tuple(spread if shuffled else examples)
        if len({example.id for example in self._records}) != len(self._records):
            raise DataError(f"{file}: two claims share an id. Make the ids unique.")
        self._fingerprint = digest.hexdigest()
        self._arguments = (name, str(file), split, seed, balanced, shuffled)

    def __reduce__(self) -> tuple[object, ...]:
        return _shared_claims, self._arguments


def read_claims(
    name: str,
    path: str | Path,
    split: str | None = None,
    seed: int = 0,
    *,
    balanced: bool = False,
    shuffled: bool = True,
) -> GroundingClaims:
    """Return the claims of a data set (a key of `BENCHMARKS`); read once a process.

    path: its file, or a folder: that of all public data sets, or of this one. split: by default its first. shuffled:
    False for the order of the file. Raises ConfigError for an unknown name or split or a path that does not exist, DataError
    with file and line for content that cannot be used.
    """
    check_benchmark(name, BENCHMARKS)
    data_set = BENCHMARKS[name]
    chosen = split or next(iter(data_set.splits))
    file = locate_file("claims", path, data_set, [chosen], chosen)
    return _shared_claims(name, str(file), chosen, seed, balanced, shuffled)


def _shared_claims(name: str, file: str, split: str, seed: int, balanced: bool, shuffled: bool) -> GroundingClaims:
    key = ("grounding", name, Path(file).resolve(), split, seed, balanced, shuffled)
    return shared(key, lambda: GroundingClaims(name, Path(file), split, seed, balanced=balanced, shuffled=shuffled))


def _read_rows(name: str, file: Path, digest: Any) -> Iterator[ClaimExample]:
    layout: Layout[Iterator[ClaimExample]] | None = None
    for row in read_rows(file, digest.update, suffixes=(*SUFFIXES, *COLUMNAR)):
        layout = layout or detect_layout(row, LAYOUTS, _COLUMNS, _own_layout)
        for number, example in enumerate(layout.read(row)):
            own_id = example.id or (f"{row.number:05d}" + (f"-{number}" if number else ""))
            yield replace(example, id=f"{name}-{own_id}"[:200], domain=example.domain or name)


def _example(
    id_: str, claim: str, question: str, status: Status, passages: Sequence[Passage], sets: Sequence[Sequence[GoldFact]]
) -> ClaimExample:
    """Return an example. sets: of facts, each of which suffices; empty where the documents are silent or unmarked."""
    sets = [facts for facts in sets if facts] if status != "unsupported" else []
    span = "" if status == "supported" else claim.rstrip().rstrip(".")
    # The shortest set is the gold of scripted agents that know it; ties by the order of the file.
    first, *others = sorted(dict.fromkeys(map(tuple, sets)), key=len) or [()]
    nearest: tuple[str, ...] = ()
    if not first:
        hits = SmallBM25(passages).search([claim], NEAREST)[0]
        nearest = tuple(hit.id for hit in hits) or tuple(passage.id for passage in passages[:NEAREST])
    gold = GoldClaim(claim, status, first, span, "none", _REASONS[status])
    return ClaimExample(
        id_, "", "", question, claim, tuple(passages), (gold,), status, nearest, alternatives=tuple(others)
    )


def _status(row: Row, key: str) -> Status:
    value = row.values.get(key)
    # Numbers, 0 and 1, are LLM-AggreFact's labels.
    text = str(value) if isinstance(value, (str, int)) else ""
    status: Status | None = _LABELS(text.removesuffix(".0"))
    if status is None:
        raise row.error(f"{key!r} is {str(value)[:40]!r}, which is no known label")
    return status


def _sentences(row: Row, key: str) -> list[str]:
    texts = row.entries(key)
    if not texts or len(texts) > MAX_SENTENCES or not all(isinstance(text, str) for text in texts):
        raise row.error(f"{key!r} must be a list of one to {MAX_SENTENCES:,} texts")
    return texts


def _wice(row: Row) -> Iterator[ClaimExample]:
    """Read a claim with its cited page. Each entry of `supporting_sentences` is one sufficient set of sentences."""
    claim, texts, status = row.text("claim", MAX_CLAIM_CHARS), _sentences(row, "evidence"), _status(row, "label")
    meta = row.values.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    title = _TITLE.fullmatch(texts[0].strip())
    document = split_document(texts, " ".join(title[1].split())[:200] if title else "Cited page")
    sets = []
    for numbers in row.entries("supporting_sentences")[:MAX_SETS]:
        is_list = isinstance(numbers, list) and all(type(n) is int and 0 <= n < len(texts) for n in numbers)
        if not is_list:
            raise row.error(f"'supporting_sentences' must be lists of numbers below {len(texts)}")
        sets.append([fact for n in sorted(set(numbers)) if (fact := document.sentences[n])])
    article = " ".join(str(meta.get("claim_title") or "Wikipedia").split())[:200]
    question = f"Does the cited page carry this sentence of the article “{article}”?"
    yield _example(str(meta.get("id") or ""), claim, question, status, document.passages, sets)


def _fool_me_twice(row: Row) -> Iterator[ClaimExample]:
    page = row.text("wikipedia_page", 400)
    passages: dict[tuple[str, str], Passage] = {}
    for entry in (*row.entries("retrieved_evidence"), *row.entries("gold_evidence")):
        key = _section_sentence(row, entry)
        title = f"{page} › {key[0]}" if key[0] else page
        passages.setdefault(key, Passage(f"E{len(passages) + 1}", title, key[1]))
    gold = [passages[_section_sentence(row, entry)] for entry in row.entries("gold_evidence")]
    if not gold:
        raise row.error("'gold_evidence' is empty")
    facts = [GoldFact(passage.id, 0, len(passage.text)) for passage in dict.fromkeys(gold)]
    claim, status = row.text("text", MAX_CLAIM_CHARS), _status(row, "label")
    question = f"Is this claim on “{page}” true?"
    yield _example(str(row.values.get("id") or ""), claim, question, status, tuple(passages.values()), [facts])


def _section_sentence(row: Row, entry: object) -> tuple[str, str]:
    values = entry if isinstance(entry, dict) else {}
    section, text = values.get("section_header"), values.get("text")
    if not isinstance(section, str) or not isinstance(text, str) or not text.strip():
        raise row.error("evidence must be objects with the texts 'section_header' and 'text'")
    return " ".join(section.split()), " ".join(clean_text(text).split())


def _stance(row: Row) -> Iterator[ClaimExample]:
    document = split_document([row.text("evidence", MAX_CLAIM_CHARS)], "Web page")
    claim, status = row.text("claim", MAX_CLAIM_CHARS), _status(row, "stance")
    yield _example("", claim, "", status, document.passages, [])


def _grayfacts(row: Row) -> Iterator[ClaimExample]:
    from factgym.datasets.attribution import ATTRIBUTABLE, read_clearfacts

    for record in read_clearfacts(row):
        status: Status = "supported" if record.label == ATTRIBUTABLE else "unsupported"
        yield _of_source(record.claim, record.source, status, str(record.meta.get("topic", "")))


def _of_source(claim: str, source: str, status: Status, domain: str) -> ClaimExample:
    document = split_document(_lines(source), "Source")
    return replace(_example("", claim, "", status, document.passages, []), domain=domain[:60])


def _lines(source: str) -> list[str]:
    from factgym.text.sentences import sentences

    return [source[start:end] for start, end in sentences(source)] or [source]


def _own_layout(name: str, claim: str, source: str, label: str) -> Layout[Iterator[ClaimExample]]:
    """Return the layout of LLM-AggreFact, or of a file with such columns under other names."""

    def read(row: Row) -> Iterator[ClaimExample]:
        texts = row.text(claim, 20_000)[:MAX_CLAIM_CHARS], row.text(source, 400_000)
        yield _of_source(*texts, _status(row, label), str(row.values.get("dataset") or ""))

    return Layout(name, (claim, source, label), read)


# SciFact: rows of a claim and one of its rationales, or a line for each claim, beside a corpus of abstracts.


@dataclass(slots=True)
class _SciFactClaim:
    id: str
    text: str
    cited: tuple[str, ...]
    evidence: list[tuple[str, str, tuple[int, ...]]]
    """Document, label, sentence numbers."""


_SCIFACT_STATUS: Mapping[str, Status] = {"SUPPORT": "supported", "CONTRADICT": "contradicted"}
CORPUS_FILES = ("corpus.jsonl", "corpus_train.csv", "corpus.csv")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)


def read_scifact(name: str, file: Path, digest: Any) -> Iterator[ClaimExample]:
    """Yield the labelled claims of a SciFact file, with their cited abstracts. Raises DataError for a missing abstract."""
    claims: dict[str, _SciFactClaim] = {}
    for row in read_rows(file, digest.update):
        claim = _scifact_claim(row)
        claims.setdefault(claim.id, claim).evidence.extend(claim.evidence if claim.id in claims else [])
    corpus_file = next((path for path in (file.with_name(name) for name in CORPUS_FILES) if path.is_file()), None)
    if corpus_file is None:
        raise DataError(f"{file.parent}: holds no {' or '.join(CORPUS_FILES)}, which SciFact's claims cite.")
    needed = {id_ for claim in claims.values() for id_ in (*claim.cited, *(doc for doc, _, _ in claim.evidence))}
    abstracts: dict[str, SplitDocument] = {}
    for row in read_rows(corpus_file, digest.update):
        if (id_ := str(row.values.get("doc_id", ""))) in needed:
            abstracts[id_] = split_document(_abstract(row), row.text("title", 2000), f"{id_}.")
    yield from (_scifact_example(claim, abstracts, file) for claim in claims.values() if claim.cited or claim.evidence)


def _scifact_example(claim: _SciFactClaim, abstracts: Mapping[str, SplitDocument], file: Path) -> ClaimExample:
    """Join a claim with the abstracts that it cites. Each annotated rationale is one sufficient set of sentences."""
    ids = list(dict.fromkeys((*claim.cited, *(doc for doc, _, _ in claim.evidence))))
    if missing := [id_ for id_ in ids if id_ not in abstracts]:
        raise DataError(f"{file}: claim {claim.id} cites {missing[0][:40]!r}, which the corpus does not hold.")
    labels = {label for _, label, _ in claim.evidence}
    if len(labels) > 1:
        raise DataError(f"{file}: claim {claim.id} has both labels. Remove one.")
    status = _SCIFACT_STATUS[labels.pop()] if labels else "unsupported"
    sets = []
    for document, _, numbers in claim.evidence:
        sentences = abstracts[document].sentences
        if any(not 0 <= n < len(sentences) for n in numbers):
            raise DataError(f"{file}: claim {claim.id} has evidence {numbers} beyond the {len(sentences)} sentences.")
        sets.append([fact for n in sorted(set(numbers)) if (fact := sentences[n])])
    passages = [passage for id_ in ids for passage in abstracts[id_].passages]
    question = "Do the cited abstracts carry this claim?"
    return replace(
        _example(claim.id, claim.text, question, status, passages, sets), id=f"scifact-{claim.id}", domain="scifact"
    )


def _scifact_claim(row: Row) -> _SciFactClaim:
    """Return a SciFact claim with its rationales, from the published JSONL or from the viewer's CSV."""
    id_, text = str(row.values.get("id", ""))[:80], row.text("claim", MAX_CLAIM_CHARS)
    if "evidence" in row.values:
        entries = list(_rationales(row))
        cited = tuple(map(str, row.entries("cited_doc_ids")))
    else:
        # CSV of the data set's viewer: a row for each rationale, arrays as NumPy prints them.
        document, label = str(row.values.get("evidence_doc_id") or ""), str(row.values.get("evidence_label") or "")
        cited = tuple(re.findall(r"\d+", str(row.values.get("cited_doc_ids") or "")))
        numbers = tuple(map(int, re.findall(r"\d+", str(row.values.get("evidence_sentences") or ""))))
        entries = [(document, label, numbers)] if label else []
    if any(label not in _SCIFACT_STATUS for _, label, _ in entries):
        raise row.error("a label of evidence must be SUPPORT or CONTRADICT")
    return _SciFactClaim(id_, text, cited, entries)


def _rationales(row: Row) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield document, label and sentence numbers of each rationale of a line in the authors' layout."""
    evidence = row.values["evidence"]
    for document, rationales in evidence.items() if isinstance(evidence, dict) else ():
        for rationale in rationales if isinstance(rationales, list) else (None,):
            values: dict[str, Any] = rationale if isinstance(rationale, dict) else {}
            numbers = values.get("sentences")
            if not isinstance(numbers, list) or not all(type(n) is int for n in numbers):
                raise row.error(
                    "'evidence' must hold lists of objects with 'sentences', a list of numbers, and 'label'"
                )
            yield str(document), str(values.get("label")), tuple(numbers)


def _abstract(row: Row) -> list[str]:
    """Return the sentences of an abstract: a list, or the text in which NumPy prints one."""
    value = row.values.get("abstract")
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    try:
        texts = [ast.literal_eval(match[0]) for match in _QUOTED.finditer(value)] if isinstance(value, str) else []
    except (SyntaxError, ValueError):
        texts = []
    if not texts:
        raise row.error("'abstract' must be a list of sentences")
    return texts


_COLUMNS = {
    "claim": ("claim", "statement", "hypothesis", "response", "answer"),
    "document": ("doc", "document", "source", "evidence", "context", "premise", "grounding"),
    "label": ("label", "gold_label", "gold"),
}
LAYOUTS = (
    Layout("WiCE", ("claim", "evidence", "supporting_sentences", "label"), _wice),
    Layout("Fool Me Twice", ("text", "gold_evidence", "retrieved_evidence", "label"), _fool_me_twice),
    Layout("Factcheck-GPT's stances", ("claim", "evidence", "stance"), _stance),
    Layout("ClearFacts", ("statement", "reference_documents", "label"), _grayfacts),
    _own_layout("LLM-AggreFact", "claim", "doc", "label"),
)
"""Layouts by the columns of their rows; the first that fits is taken."""


# Factcheck-GPT's answers, for checks end to end.


@dataclass(frozen=True, slots=True)
class LabelledResponse:
    """An answer of a chat model, with people's label of each sentence, and the web passages that were retrieved for it.

    sentences: text, and whether it is true; None where it states nothing that could be checked. label: of the whole.
    """

    id: str
    question: str
    text: str
    sentences: tuple[tuple[str, bool | None], ...]
    label: bool | None
    passages: tuple[Passage, ...]


def read_responses(path: str | Path, on_bytes: Any = None) -> tuple[LabelledResponse, ...]:
    """Return Factcheck-GPT's answers. path: its file, or the folder of all public data sets.

    Raises ConfigError for a path that does not exist, DataError for content that cannot be used.
    """
    file = locate_file("answers", path, BENCHMARKS["factcheck-gpt"], ["test"], None)
    return tuple(_response(row) for row in read_rows(file, on_bytes))


def _response(row: Row) -> LabelledResponse:
    """Read a response with its sentences' labels; its passages are the web snippets of all of them, each once."""
    sentences = row.values.get("sentences")
    if not isinstance(sentences, dict) or not all(isinstance(entry, dict) for entry in sentences.values()):
        raise row.error("'sentences' must be an object of objects")
    labels, snippets = [], {}
    for entry in sentences.values():
        sentence = Row(row.number, row.location, entry)
        label = entry.get("sentence_factuality_label")
        labels.append((sentence.text("text", MAX_CLAIM_CHARS), label if isinstance(label, bool) else None))
        for texts in sentence.entries("auto_evidence"):
            if not isinstance(texts, list):
                raise sentence.error("'auto_evidence' must be a list of lists of texts")
            snippets.update(dict.fromkeys(text for text in texts if isinstance(text, str) and text.strip()))
    passages = [
        passage
        for number, text in enumerate(snippets, start=1)
        for passage in split_document(_lines(text), "Web page", f"W{number}.").passages
    ]
    label = row.values.get("response_factuality")
    texts = row.text("prompt", MAX_CLAIM_CHARS), row.text("response", 400_000)
    whole = label if isinstance(label, bool) else None
    return LabelledResponse(f"factcheck-gpt-{row.number:03d}", *texts, tuple(labels), whole, tuple(passages))
