"""EVE's seven question benchmarks, and data sets of one's own, as sequences of triples. No data is part of the package."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.tasks import shared
from factgym.corpora.corpus import Corpus
from factgym.corpora.passages.reading import read_passages
from factgym.corpora.passages.rows import Row, rows_of, stem_of
from factgym.datasets.multihop.layouts import Reader
from factgym.datasets.multihop.records import read_row
from factgym.datasets.multihop.triple import Triple, TripleSequence
from factgym.datasets.questions.benchmarks import BENCHMARKS as QUESTIONS

_R1 = "r1_searcher_eval_sets/"

BENCHMARKS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "nq": {
            **QUESTIONS["nq-open"],
            "oracle": ("nq_open/nq-open-oracle.jsonl.gz", "nq_open/nq-open-oracle.jsonl"),
            "test": ("nq/test.jsonl",),
        },
        "triviaqa": {**QUESTIONS["triviaqa"], "sample": ("triviaqa/triviaqa.json",), "test": ("triviaqa/test.jsonl",)},
        "popqa": {**QUESTIONS["popqa"], "paragraphs": ("popqa/popqa.json",)},
        "hotpotqa": {
            "distractor": (
                "hotpotqa/hotpot_dev_distractor_v1.json",
                "hotpotqa/dev.jsonl",
                "hotpotqa/hotpot_distractor_sample_migres.json",
            ),
            "dev": ("hotpotqa/hotpot_dev_v1_simplified.json", "hotpotqa/hotpot_dev_fullwiki_v1.json"),
            "r1": (_R1 + "hotpotqa_500.jsonl",),
            "train": ("hotpotqa/hotpot_train_v1.1.json", "hotpotqa/train.jsonl"),
        },
        "2wikimultihopqa": {
            "dev": (
                "2wikimultihopqa/dev.json",
                "2wikimultihopqa/dev.jsonl",
                "2wikimultihopqa/2wiki_dev_sample_migres.json",
            ),
            "r1": (_R1 + "2wiki_500.jsonl",),
            "train": ("2wikimultihopqa/train.json", "2wikimultihopqa/train.jsonl"),
        },
        "musique": {
            "dev": ("musique/musique_ans_v1.0_dev.jsonl", "musique/dev.jsonl", _R1 + "musique_500.jsonl"),
            "r1": (_R1 + "musique_500.jsonl",),
            "train": ("musique/musique_ans_v1.0_train.jsonl", "musique/train.jsonl"),
        },
        "bamboogle": {"test": ("bamboogle/test.jsonl", "bamboogle/bamboogle.jsonl", _R1 + "bamboogle.jsonl")},
    }
)  # fmt: skip
"""Benchmark -> split, the default first -> the files that are looked for, in this order, where a folder is given.

A file is looked for in the folder of all public data sets, and by its bare name in a folder of one data set. "r1" are
the samples on which R1-Searcher was evaluated.
"""

TRIPLES = "triples"
"""The name under which data sets of one's own are read, as `write_triple` writes them."""

_SEVERAL = frozenset({"nq", "triviaqa", "popqa"})
_HOPS = {"popqa": 1, "hotpotqa": 2, "bamboogle": 2}
"""Of every question, by how the data set was made, where rows do not say it."""

_VERSION = 1


class TripleFile(TripleSequence):
    """The triples of one file: an immutable sequence.

    Ids are made of benchmark, file and line (or entry), with the data set's own id in `meta["own_id"]`; triples of one's
    own keep theirs. corpus: the paragraphs that the questions carry, None where they carry none. facts, found: how many pieces of evidence the file's rows mark in the paragraphs that they carry, and
    how many of these were found there. Raises DataError with file and line for what cannot be used.
    """

    def __init__(self, benchmark: str, path: str | Path) -> None:
        self.benchmark, self.path = benchmark, Path(path)
        digest = hashlib.sha256(f"triples-{_VERSION}:{benchmark}:{self.path.name}:".encode())
        self.facts = self.found = 0
        self._carries = False
        rows = rows_of(self.path, digest.update)
        self._triples = tuple(self._own(rows) if benchmark == TRIPLES else self._public(rows))
        self._fingerprint = digest.hexdigest()
        if not self._triples:
            raise DataError(f"{self.path}: holds no question. Give a file with one question and its answers a row.")

    def _own(self, rows: Iterator[Row]) -> Iterator[Triple]:
        seen: dict[str, int] = {}
        for row in rows:
            triple = read_row(row.values, row.place)
            if triple.id in seen:
                raise DataError(f"{row.place}: the id {triple.id[:80]!r} stands on line {seen[triple.id]} too.")
            seen[triple.id] = row.number
            yield triple

    def _public(self, rows: Iterator[Row]) -> Iterator[Triple]:
        reader = Reader(hops=_HOPS.get(self.benchmark), several=self.benchmark in _SEVERAL)
        stem = stem_of(self.path)
        for row in rows:
            reading = reader.read(row)
            self.facts += reading.facts
            self.found += len(reading.evidence)
            self._carries |= reading.paragraphs > 0
            yield Triple(
                id=f"{self.benchmark}-{stem}-{row.number:06d}",
                question=reading.question,
                answers=reading.answers,
                evidence=reading.evidence,
                hops=reading.hops,
                benchmark=self.benchmark,
                kind=reading.kind,
                meta={"file": self.path.name, "line": row.number, **reading.meta},
            )

    @property
    def corpus(self) -> Corpus | None:
        """The paragraphs that the questions carry, with the ids that evidence points to; None where they carry none."""
        return read_passages(self.path, layout="contexts") if self._carries else None

    def __reduce__(self) -> tuple[object, ...]:
        return read_triples, (self.benchmark, str(self.path))

    def fingerprint(self) -> str:
        """SHA-256 in hex over the benchmark's name, and the name and the unpacked bytes of the file."""
        return self._fingerprint


def read_triples(benchmark: str, path: str | Path, split: str | None = None) -> TripleFile:
    """The questions of a benchmark (a key of `BENCHMARKS`), or "triples" for a data set of one's own; read once a process.

    path: a file of an understood layout, or a folder: that of all public data sets, or of one. split: which of the
    benchmark's files in a folder, default as `find_benchmark`. Raises ConfigError for an unknown benchmark or split or a path
    that does not exist, DataError for content that is unusable.
    """
    place = triple_file(benchmark, path, split)
    return shared(("triples", benchmark, place.resolve()), lambda: TripleFile(benchmark, place))


def triple_file(benchmark: str, path: str | Path, split: str | None = None) -> Path:
    """The file that `read_triples` reads."""
    if benchmark != TRIPLES:
        _splits(benchmark)
    place = Path(path)
    if place.is_file():
        return place
    if not place.exists():
        raise ConfigError(f"{place} does not exist: give a file or folder of questions with their answers")
    if benchmark == TRIPLES:
        raise ConfigError(f"{place} is a folder: name the file of triples itself")
    return find_benchmark(benchmark, place, split)


def find_benchmark(benchmark: str, folder: str | Path, split: str | None = None) -> Path:
    """The file of a benchmark (a key of `BENCHMARKS`) in a folder: that of all public data sets, or of one.

    split: which of the benchmark's files; by default the first that is there, training files left out. Raises ConfigError
    for an unknown benchmark or split, DataError that names what was looked for.
    """
    splits = _splits(benchmark)
    if split is not None and split not in splits:
        hint = did_you_mean(split, splits)
        raise ConfigError(f"{benchmark} has no split {split!r:.80}.{hint} It has: {', '.join(splits)}.")
    chosen = [split] if split is not None else [one for one in splits if one != "train"]
    files = [file for one in chosen for file in splits[one]]
    place = Path(folder)
    for file in files:
        for candidate in (place / file, place / Path(file).name):
            if candidate.is_file():
                return candidate
    wanted = f"{benchmark} {split}" if split is not None else benchmark
    raise DataError(f"{place}: holds no {wanted}: looked for {', '.join(files)}. Give the file itself as path.")


def _splits(benchmark: str) -> Mapping[str, tuple[str, ...]]:
    if benchmark not in BENCHMARKS:
        known = (*BENCHMARKS, TRIPLES)
        hint = did_you_mean(benchmark, known)
        raise ConfigError(f"there is no benchmark {benchmark!r:.80}.{hint} There are: {', '.join(known)}.")
    return BENCHMARKS[benchmark]
