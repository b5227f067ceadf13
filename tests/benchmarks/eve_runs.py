"""Recorded runs of `eve-solver` with known answers, written as a run's files are, without an environment or a reward."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recorded_runs
from recorded_runs import recorded

Json = dict[str, Any]


def episode(
    task: str,
    em: bool = True,
    *,
    benchmark: str = "hotpotqa",
    sample: int = 0,
    golds: Sequence[str] = ("Paris",),
    answer: str = "Paris",
    evidence: str = "The capital is Paris.",
    evidence_f1: float | None = 0.5,
    verbatim: bool | None = True,
    searches: int = 2,
    total: float = 1.0,
    error: Json | None = None,
) -> Json:
    metrics = {
        "em": em,
        "f1": 1.0 if em else 0.25,
        "evidence_f1": evidence_f1,
        "answer": answer,
        "gold_answers": list(golds),
        "evidence": evidence,
        "evidence_present": bool(evidence),
        "evidence_verbatim": verbatim,
        "searches": searches,
        "benchmark": benchmark,
    }
    view = {"question": f"Question {task}?", "gold_answers": list(golds)}
    return recorded("eve-solver", task, sample, total, {"answer": float(em)}, metrics, view, error)


def write_run(folder: Path, episodes: Sequence[Json], *, source: str = "hotpotqa", agent: str = "made-up") -> Path:
    return recorded_runs.write_run(folder, episodes, "eve-solver", agent=agent, config={"source": source})
