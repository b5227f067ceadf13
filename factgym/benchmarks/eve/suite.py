"""EVE's benchmarks: seven sets of questions, answered with the search tool over `--set corpus=` or a file's own documents.

Where neither is there, nothing can be searched and the questions are answered without the tool, which is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from factgym.benchmarks.eve.facts import facts
from factgym.benchmarks.eve.judging import ENV
from factgym.benchmarks.question_sets import QuestionSet, Suite
from factgym.core.errors import DataError
from factgym.datasets.multihop import BENCHMARKS, TRIPLES, read_triples, triple_file

_WITH_DOCUMENTS = {"nq": "oracle", "popqa": "paragraphs"}
"""Splits whose questions bring documents, where a benchmark's first does not."""


def _file(benchmark: str, folder: Path) -> Path:
    split = _WITH_DOCUMENTS.get(benchmark)
    if split is not None:
        try:
            return triple_file(benchmark, folder, split)
        except DataError:
            pass
    return triple_file(benchmark, folder)


def has_documents(questions: QuestionSet) -> bool:
    """Whether a set of questions brings documents to search."""
    return questions.path is None or read_triples(questions.source, questions.path).corpus is not None


def _adapt(questions: QuestionSet, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    if "corpus" in settings or "search" in settings or has_documents(questions):
        return {}
    return {"search": False}


SUITE = Suite(
    env=ENV,
    known=(*BENCHMARKS, TRIPLES),
    paper=tuple(facts("benchmarks")["columns"]),
    find=_file,
    file_names={name: tuple(Path(file).name for file in data_set.files) for name, data_set in BENCHMARKS.items()},
    adapt=_adapt,
)
