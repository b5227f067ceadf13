"""The evidence score: a judge sees the question, the gold answer and the emitted span, and nothing else.

Appendix C of the paper: the judge decides whether the question paired with the span is sufficient to recover the gold
answer. An episode without a span has no evidence to judge and scores 0 without a question asked. Where there is no
model, the containment stand-in judges, and every table says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.judges import Judge, JudgeError, Judgement, judge_from, judge_note
from factgym.agents.judges.base import CONCURRENCY, Case
from factgym.agents.models import as_model
from factgym.agents.resolve import FORMS, find_agent, is_model
from factgym.benchmarks.eve.answers import SolverAnswer
from factgym.core.errors import ConfigError

ENV = "eve-solver"
RUBRIC = "evidence-support"
MAX_ALIASES = 50
"""Of one question that are shown to a judge."""


@dataclass(frozen=True, slots=True)
class Judged:
    """scores: of each answer in order, in [0, 1]; None where the judge gave none. note: who judged. failed: those None."""

    scores: tuple[float | None, ...]
    note: str
    failed: int = 0


def named_judge(text: str, settings: Mapping[str, Any] | None = None, cache: Path | None = None) -> Judge:
    """The judge that a text names: a model as `factgym eval --agent` takes it, or an object of yours.

    settings: of the model. cache: folder in which judgements are kept. Raises ConfigError for what is no model.
    """
    if not is_model(text) and ".py:" not in text:
        raise ConfigError(f"a judge is a model, and {text!r:.80} is none: give {FORMS}")
    return judge_from(as_model(find_agent(text, ENV, settings)), RUBRIC, cache, name=text)


def judge_evidence(
    rows: Sequence[SolverAnswer], judge: Judge | None = None, *, concurrency: int = CONCURRENCY
) -> Judged:
    """Judge the evidence of answers. judge: for the rubric "evidence-support"; the containment stand-in by default.

    The judge is left open: who made it closes it. Raises what `Judge.judge_many` raises.
    """
    chosen = judge if judge is not None else judge_from(None, RUBRIC)
    places, cases = _cases(rows, apart=bool(chosen.describe()["stand_in"]))
    found = asyncio.run(chosen.judge_many(cases, concurrency)) if cases else []
    given: dict[int, list[Judgement | JudgeError]] = {}
    for place, one in zip(places, found, strict=True):
        given.setdefault(place, []).append(one)
    scores = tuple(_best(given[place]) if place in given else 0.0 for place in range(len(rows)))
    return Judged(scores, judge_note(chosen), sum(one is None for one in scores))


def _cases(rows: Sequence[SolverAnswer], *, apart: bool) -> tuple[list[int], list[Case]]:
    """The cases and whose they are. apart: one for each accepted answer, for a stand-in, which reads one answer."""
    places: list[int] = []
    cases: list[Case] = []
    for place, row in enumerate(rows):
        golds = row.golds[:MAX_ALIASES]
        if not row.present or not golds:
            continue
        for answer in golds if apart else (_together(golds),):
            places.append(place)
            cases.append({"question": row.question, "answer": answer, "evidence": row.evidence})
    return places, cases


def _together(golds: Sequence[str]) -> str:
    return golds[0] if len(golds) == 1 else f"{golds[0]}\n(also accepted: {'; '.join(golds[1:])})"


def _best(given: Sequence[Judgement | JudgeError]) -> float | None:
    scores = [one.score for one in given if isinstance(one, Judgement)]
    return max(scores) if scores else None
