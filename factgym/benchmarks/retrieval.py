"""Quality of search: recall, nDCG and MRR of indexes over queries whose relevant passages are known.

    queries = read_judged("hotpotqa", "path/to/data")
    evaluate_index(build_index(queries.corpus), queries).metrics["recall@5"]

Relevance is that of the data set: the passages that hold a question's gold evidence (HotpotQA, 2WikiMultiHopQA, MuSiQue,
PopQA, Natural Questions with its passage, SQuAD), the abstracts that a claim cites (SciFact, as in BEIR), or judgements in
BEIR's layout or in TREC's.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from factgym.benchmarks.statistics.intervals import UNIT, Estimate, mean_interval
from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.paths import is_file, is_folder, open_file, user_path
from factgym.core.strict_json import clean_text
from factgym.corpora.build import read_passages
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import Index
from factgym.corpora.passage_files import MAX_ID_CHARS, TitleIds, paragraphs_of, title_of
from factgym.corpora.rows import read_rows
from factgym.datasets.multihop import BENCHMARKS, read_triples, triple_file

SQUAD = "squad"
SCIFACT = "scifact"
NAMES = (*BENCHMARKS, SQUAD, SCIFACT)
CUTOFFS = (2, 5, 10)
NDCG_DEPTH = 10
BATCH = 256
"""Queries that an index gets at once."""

MAX_QUERY_CHARS = 10_000
MAX_ABSTRACT_CHARS = 100_000
_SQUAD_FILE = "squad/dev-v1.1.json"
_SPLITS = {"nq": "oracle"}
"""The part of a data set that marks passages, where the others do not."""
_SCIFACT_CLAIMS = ("claims_dev.jsonl", "claims_validation.csv")
_SCIFACT_CORPUS = ("corpus.jsonl", "corpus_train.csv")
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)\"""", re.DOTALL)
"""A sentence in a table's column, which holds NumPy's notation of an array of them."""


class JudgedQuery(NamedTuple):
    """A query, and its relevant passages: a grade above 0 by id."""

    id: str
    text: str
    grades: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class JudgedQueries:
    """Queries with relevant passages of a corpus. left_out: those without any there."""

    name: str
    queries: tuple[JudgedQuery, ...]
    corpus: Corpus
    left_out: int


@dataclass(frozen=True, slots=True)
class SearchQuality:
    """Metrics by name ("recall@5", "nDCG@10", "MRR@10"), each a mean over queries with its 95 % interval.

    seconds: of the search itself, all queries together.
    """

    metrics: Mapping[str, Estimate]
    seconds: float


def read_judged(
    source: str, path: Path | None = None, *, split: str | None = None, corpus: Path | None = None
) -> JudgedQueries:
    """Read queries with their relevant passages.

    source: a name of `NAMES`, or a folder in BEIR's layout (`queries.jsonl`, `corpus.jsonl`, `qrels/SPLIT.tsv` or TREC's
    `qrels/SPLIT.txt` with `query 0 passage grade`). path:
    of a named data set, as of `read_triples`. corpus: passages to search instead of those that the data set brings; gold
    evidence is located in them. Raises ConfigError for an unknown name or a path that does not exist, DataError for
    content that is unusable or holds no query with a relevant passage.
    """
    folder = user_path(source)
    if is_folder(folder / "qrels"):
        own, queries = folder / "corpus.jsonl", _beir(folder, split or "test")
    elif source not in NAMES:
        raise ConfigError(
            f"no data set {source!r:.80} (known: {', '.join(NAMES)}), and no folder with queries.jsonl and qrels/."
            f"{did_you_mean(source, NAMES)}"
        )
    elif path is None:
        raise ConfigError(f"{source} is read from files: give --path, or set FACTGYM_DATA")
    elif source == SCIFACT:
        own = _scifact_file(path, _SCIFACT_CORPUS)
        queries = _scifact(_scifact_file(path, (split or "", *_SCIFACT_CLAIMS)))
    elif source == SQUAD:
        own = path if is_file(path) else path / (split or _SQUAD_FILE)
        queries = _squad(own)
    else:
        split = split or _SPLITS.get(source)
        own, queries = triple_file(source, path, split), _triples(source, path, split, corpus)
    every = list(queries)
    if not any(query.grades for query in every):
        others = f": choose another --split of {', '.join(BENCHMARKS[source].splits)}" if source in BENCHMARKS else ""
        raise DataError(f"{own}: marks no passages as relevant{others}")
    passages = _abstracts(own) if source == SCIFACT and corpus is None else read_passages(corpus or own)
    judged = []
    for query in every:
        grades = {id_: grade for id_, grade in query.grades.items() if grade > 0 and id_ in passages}
        judged += [query._replace(grades=grades)] if grades else []
    if not judged:
        raise DataError(f"{own}: none of its relevant passages is in {corpus or own}. Choose another --corpus.")
    return JudgedQueries(source, tuple(judged), passages, len(every) - len(judged))


def _triples(name: str, path: Path, split: str | None, corpus: Path | None) -> Iterator[JudgedQuery]:
    """Yield questions with the documents of their gold evidence."""
    passages = read_passages(corpus) if corpus else None
    for triple in read_triples(name, path, split):
        located = triple.located_in(passages) if passages is not None else triple
        yield JudgedQuery(
            triple.id, triple.question, {span.document: 1.0 for span in located.evidence if span.document}
        )


def _squad(file: Path) -> Iterator[JudgedQuery]:
    """Yield the questions of SQuAD, each with its paragraph; unanswerable ones of version 2 have none."""
    if not is_file(file):
        raise ConfigError(f"{file} does not exist: give a file of SQuAD, or a folder with {_SQUAD_FILE}")
    titles = TitleIds()
    for row in read_rows(file, entries_key="data"):
        title = title_of(row.values.get("title"), row).replace("_", " ")
        for paragraph, values in zip(paragraphs_of(row), row.entries("paragraphs"), strict=True):
            id_ = titles.id_of(title or f"passage {row.number}", paragraph.text)
            for entry in replace(row, values=values).entries("qas"):
                question = replace(row, values=entry)
                grades = {} if entry.get("is_impossible") is True else {id_: 1.0}
                yield JudgedQuery(question.text("id", 300), question.text("question", MAX_QUERY_CHARS), grades)


def _scifact_file(path: Path, names: Sequence[str]) -> Path:
    """Return the first of the files that exists under `path` or its folder `scifact`. Raises ConfigError."""
    for folder in (path, path / SCIFACT):
        for name in filter(None, names):
            if (folder / name).is_file():
                return folder / name
    raise ConfigError(
        f"{path} has none of {', '.join(filter(None, names))}: give SciFact's folder, or one with a scifact/"
    )


def _scifact(file: Path) -> Iterator[JudgedQuery]:
    """Yield the claims of SciFact, each with the abstracts that it cites; a table has a row for each piece of evidence."""
    claims: dict[str, JudgedQuery] = {}
    for row in read_rows(file):
        id_, cited = str(row.values.get("id")), row.values.get("cited_doc_ids")
        # A list of numbers, or its notation in a table: [13734012 31715818].
        numbers = re.findall(r"\d+", str(cited)[:MAX_QUERY_CHARS])
        claims[id_] = JudgedQuery(id_, row.text("claim", MAX_QUERY_CHARS), dict.fromkeys(numbers, 1.0))
    yield from claims.values()


def _abstracts(file: Path) -> Corpus:
    """Return SciFact's abstracts, their sentences joined by spaces."""
    passages = []
    for row in read_rows(file):
        value = row.values.get("abstract")
        if isinstance(value, str):
            sentences = ["".join(pair).replace("\\'", "'") for pair in _QUOTED.findall(value[:MAX_ABSTRACT_CHARS])]
        else:
            sentences = [sentence for sentence in row.entries("abstract") if isinstance(sentence, str)]
        text = " ".join(clean_text(sentence).strip() for sentence in sentences)
        passages.append(Passage(str(row.values.get("doc_id"))[:MAX_ID_CHARS], row.text("title", 1000), text))
    return Corpus(passages)


def _beir(folder: Path, split: str) -> Iterator[JudgedQuery]:
    """Yield the queries of a folder in BEIR's layout that the split judges."""
    files = [folder / "qrels" / f"{split}{suffix}" for suffix in (".tsv", ".txt")]
    file = next(filter(Path.is_file, files), None)
    if file is None:
        splits = ", ".join(sorted({other.stem for other in (folder / "qrels").glob("*.t[sx][vt]")})) or "none"
        raise ConfigError(f"{folder} has no qrels of the split {split!r:.40} (it has: {splits})")
    grades: dict[str, dict[str, float]] = {}
    for query, passage, grade in _trec_qrels(file) if file.suffix == ".txt" else _beir_qrels(file):
        grades.setdefault(query, {})[passage] = grade
    for row in read_rows(folder / "queries.jsonl"):
        id_ = row.text("_id", 300)
        if id_ in grades:
            yield JudgedQuery(id_, row.text("text", MAX_QUERY_CHARS), grades[id_])


def _beir_qrels(file: Path) -> Iterator[tuple[str, str, float]]:
    for row in read_rows(file):
        try:
            grade = float(row.values["score"])
        except (KeyError, TypeError, ValueError):
            raise row.error("a judgement has the columns query-id, corpus-id and score, a number") from None
        if not math.isfinite(grade):
            raise row.error("a score must be a finite number")
        yield row.text("query-id", MAX_ID_CHARS), row.text("corpus-id", MAX_ID_CHARS), grade


def _trec_qrels(file: Path) -> Iterator[tuple[str, str, float]]:
    """Yield the judgements of a file as trec_eval reads them: query, iteration, passage and grade, between white space."""
    with open_file(file) as lines:
        for number, line in enumerate(lines, 1):
            columns = line[: 4 * MAX_ID_CHARS].decode("utf-8", "replace").split()
            try:
                query, _, passage, grade = columns
                yield query[:MAX_ID_CHARS], passage[:MAX_ID_CHARS], float(int(grade))
            except ValueError:
                if columns:
                    raise DataError(
                        f"{file}, line {number:,}: a judgement is `query 0 passage grade`, the grade a whole number. "
                        "Fix the line or remove it."
                    ) from None


def evaluate_index(
    index: Index, judged: JudgedQueries | Sequence[JudgedQuery], cutoffs: Sequence[int] = CUTOFFS
) -> SearchQuality:
    """Search with every query, in batches, and score the ranking.

    recall@k: relevant passages among the first k, of all that are relevant. nDCG@10: Järvelin and Kekäläinen (2002), with
    the grade as gain and log2(1 + rank) as discount, over the best ranking possible. MRR@k: 1 / rank of the first
    relevant passage, 0 where none is among the first k, the deepest cutoff.
    """
    queries = judged.queries if isinstance(judged, JudgedQueries) else tuple(judged)
    depth = max(*cutoffs, NDCG_DEPTH)
    values: dict[str, list[float]] = {}
    seconds = 0.0
    for start in range(0, len(queries), BATCH):
        batch = queries[start : start + BATCH]
        begun = time.perf_counter()
        results = index.search([query.text for query in batch], depth)
        seconds += time.perf_counter() - begun
        for query, hits in zip(batch, results, strict=True):
            for name, value in score_ranking([hit.id for hit in hits], query.grades, cutoffs).items():
                values.setdefault(name, []).append(value)
    return SearchQuality({name: mean_interval(of, UNIT) for name, of in values.items()}, seconds)


def score_ranking(
    ids: Sequence[str], grades: Mapping[str, float], cutoffs: Sequence[int] = CUTOFFS
) -> dict[str, float]:
    """Return the metrics of one ranking, best first, in [0, 1]; `grades` are above 0 and not empty."""
    depth = max(*cutoffs, NDCG_DEPTH)
    gains = [grades.get(id_, 0.0) for id_ in ids[:depth]]
    scores = {f"recall@{k}": sum(gain > 0 for gain in gains[:k]) / len(grades) for k in cutoffs}
    ideal = sorted(grades.values(), reverse=True)
    scores[f"nDCG@{NDCG_DEPTH}"] = _discounted(gains[:NDCG_DEPTH]) / _discounted(ideal[:NDCG_DEPTH])
    first = next((rank for rank, gain in enumerate(gains, 1) if gain > 0), None)
    scores[f"MRR@{depth}"] = 1 / first if first else 0.0
    return scores


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains, 1))
