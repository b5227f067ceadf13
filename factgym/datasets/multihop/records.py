"""Rows of a data set of one's own: what EVE's frozen proposer writes for the solver, one JSON object a line.

    {"schema": 1, "id": …, "question": …, "answer": …, "answers": […],
     "evidence": [{"document": …, "start": …, "end": …, "text": …}], "hops": …, "V": …, "benchmark": …, "kind": …, "meta": {…}}

Every row says where its evidence stands, so that it can be checked against the corpus, and how much the evidence helped
(`V`, from -1 to 1, or null).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TextIO

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.passages.rows import Values
from factgym.datasets.multihop.layouts import answers_of
from factgym.datasets.multihop.triple import Evidence, Triple
from factgym.datasets.questions.layouts import text_at

SCHEMA = 1

_MAX_ID_CHARS = 300
_MAX_HOPS = 100


def triple_row(triple: Triple, value: float | None = None) -> dict[str, Any]:
    """The row of a triple as JSON data. value: V of its evidence, default what `meta["V"]` says."""
    meta = dict(triple.meta)
    kept = meta.pop("V", None)
    return {
        "schema": SCHEMA,
        "id": triple.id,
        "question": triple.question,
        "answer": triple.answer,
        "answers": list(triple.answers),
        "evidence": [
            {"document": one.document, "start": one.start, "end": one.end, "text": one.text} for one in triple.evidence
        ],
        "hops": triple.hops,
        "V": kept if value is None else value,
        "benchmark": triple.benchmark,
        "kind": triple.kind,
        "meta": meta,
    }


def write_triple(destination: TextIO | str | Path, triple: Triple, value: float | None = None) -> None:
    """Append the row of a triple to an open text stream or a file, and flush it.

    Raises ConfigError for a triple that could not be read back: meta that is no JSON data, or evidence out of shape.
    """
    row = triple_row(triple, value)
    try:
        line = json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
        read_row(row, f"the triple {triple.id[:80]!r}")
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the triple {triple.id[:80]!r} cannot be written as JSON: {error}") from None
    if isinstance(destination, str | Path):
        with Path(destination).open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(line)
        return
    destination.write(line)
    destination.flush()


def read_row(row: Values, place: str) -> Triple:
    """The triple of a row; `V` comes back in its meta. Raises DataError for a row that is out of shape."""
    if row.get("schema", SCHEMA) != SCHEMA:
        raise DataError(
            f"{place}: written in schema {str(row['schema'])[:20]}, and {SCHEMA} is understood. Update factgym."
        )
    meta = row.get("meta")
    meta = {} if meta is None else meta
    if not isinstance(meta, dict):
        raise DataError(f"{place}: 'meta' must be an object, not a {type(meta).__name__}. Fix the row.")
    kind, hops = row.get("kind"), row.get("hops")
    if not (hops is None or (type(hops) is int and 1 <= hops <= _MAX_HOPS)):
        raise DataError(f"{place}: 'hops' must be a whole number from 1 to {_MAX_HOPS}, or null. Fix the row.")
    answers = answers_of({"answers": [text_at(row, "answer", place), *_list(row, "answers", place)]}, place)
    return Triple(
        id=text_at(row, "id", place, _MAX_ID_CHARS),
        question=text_at(row, "question", place),
        answers=answers,
        evidence=tuple(
            _evidence(one, f"{place}, evidence {at}") for at, one in enumerate(_list(row, "evidence", place))
        ),
        hops=hops,
        benchmark=str(row.get("benchmark") or "triples")[:80],
        kind=kind[:80] if isinstance(kind, str) else None,
        meta=meta | ({} if row.get("V") is None else {"V": _value(row["V"], place)}),
    )


def _list(row: Values, key: str, place: str) -> list[Any]:
    value = row.get(key)
    if value is not None and not isinstance(value, list):
        raise DataError(f"{place}: {key!r} must be a list, not a {type(value).__name__}. Fix the row.")
    return value or []


def _value(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{place}: 'V' must be a finite number or null, not {str(value)[:40]!r}. Fix the row.")
    return float(value)


def _evidence(value: Any, place: str) -> Evidence:
    if not isinstance(value, dict):
        raise DataError(f"{place}: an object with document, start, end and text is expected. Fix the row.")
    text, document = value.get("text"), value.get("document") or ""
    start, end = value.get("start"), value.get("end")
    if not isinstance(text, str) or not text or not isinstance(document, str):
        raise DataError(f"{place}: 'text' and 'document' must be texts, the first not empty. Fix the row.")
    if start is None and end is None:
        return Evidence(document, None, None, text)
    if type(start) is not int or type(end) is not int or start < 0 or end - start != len(text):
        raise DataError(
            f"{place}: 'start' and 'end' must be offsets {len(text)} characters apart, or null. Fix the row."
        )
    return Evidence(document, start, end, text)
