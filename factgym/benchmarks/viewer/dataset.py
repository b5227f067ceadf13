"""A solver's data set as the page shows it: every row with its span highlighted in the passage that it was written from.

The file is one of triples (`factgym.datasets.multihop.triple_row`); the passages are in `documents.jsonl` beside it. A
row without its passage is shown with the text of its evidence alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.agents.runs import DOCUMENTS, TRIPLES
from factgym.agents.runs.artifacts import read_lines
from factgym.benchmarks.formats import count
from factgym.datasets.multihop import Triple, read_triples

_WHAT = "These are rows of a data set. A reward is that of the proposer's episode that wrote the row."


@dataclass(frozen=True)
class DatasetRows:
    """Rows of a data set in the place of a run's episodes."""

    folder: Path
    triples: Sequence[Triple]
    documents: Mapping[str, Mapping[str, Any]]
    manifest: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for people."""
        spans = [one for triple in self.triples for one in triple.evidence if one.document]
        missing = sum(one.document not in self.documents for one in spans)
        said = f"{count(missing, 'span')} of {len(spans):,} cannot be shown in place: {DOCUMENTS} lacks the passages."
        return (_WHAT, *((said,) if missing else ()))

    def episodes(self) -> Iterator[dict[str, Any]]:
        """Each row as a record that the page can show."""
        for index, triple in enumerate(self.triples):
            yield self._record(index, triple)

    def _record(self, index: int, triple: Triple) -> dict[str, Any]:
        meta = dict(triple.meta)
        names = dict.fromkeys(one.document for one in triple.evidence)
        spans = [{"document": one.document, "start": one.start, "end": one.end} for one in triple.evidence]
        source = meta.get("source") or next(iter(names), "")
        facts = {
            **meta,
            "valid": True,
            "question": triple.question,
            "answer": triple.answer,
            "evidence": "\n".join(one.text for one in triple.evidence),
            "evidence_span": spans[0] if spans else None,
            "hops": triple.hops,
        }
        documents = [self.documents[name] for name in names if name in self.documents]
        reward = meta.get("reward", meta.get("V"))
        return {
            "env": "data set",
            "version": None,
            "agent": f"{count(len(self.triples), 'row')} for the solver",
            "task": triple.id,
            "index": index,
            "sample": 0,
            "split": None,
            "messages": [],
            "turns": [],
            "reward": {
                "total": reward,
                "status": "unscored" if reward is None else "scored",
                "components": {} if meta.get("V") is None else {"V": meta["V"]},
                "weights": {},
                "gates": {},
                "metrics": facts,
            },
            "stop": "submitted",
            "error": None,
            "task_view": {"document": self.documents.get(source, {}), "passages": documents},
        }


def is_dataset(path: Path) -> bool:
    """Whether the path is a data set, or the folder of one."""
    return path.name == TRIPLES or (path / TRIPLES).is_file()


def read_dataset(path: Path) -> DatasetRows:
    """The data set at a path. Raises DataError for rows out of shape."""
    file = path if path.name == TRIPLES else path / TRIPLES
    beside = file.with_name(DOCUMENTS)
    documents = {str(row.get("id")): row for row in read_lines(beside)} if beside.is_file() else {}
    return DatasetRows(file.parent, read_triples("triples", file), documents)
