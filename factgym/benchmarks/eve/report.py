"""EVE's evaluation of runs: exact match, judged evidence, the joint rate and evidence presence, by benchmark.

The evidence score is appendix C's: a judge sees the question, the gold answer and the emitted span, and decides whether
the question with the span is sufficient to recover the gold answer. Where there is no model, the containment fallback
judges, and every table says so. In a record only a missing correctness of the answer is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from factgym.agents.agent import AgentModel
from factgym.agents.judges.base import CONCURRENCY, Case, Judge, JudgeError, Judgement, judge_note
from factgym.agents.judges.policy import judge_from
from factgym.agents.resolve import FORMS, find_agent, is_model
from factgym.agents.runs.read import Run
from factgym.benchmarks.answers import (
    AgentReport,
    BenchmarkScores,
    Episode,
    Measure,
    RecordedAnswer,
    RunLike,
    benchmark_average,
    group_by,
    manifest_text,
    read_agent_answers,
    resampling_note,
    sample_number,
)
from factgym.benchmarks.formats import count
from factgym.benchmarks.records import items, members, number, parts_of, text_of
from factgym.benchmarks.statistics.intervals import POSITIVE
from factgym.core.errors import ConfigError, DataError

ENV = "eve-solver"


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverAnswer(RecordedAnswer):
    """One scored episode.

    golds: the accepted answers. evidence: the submitted span, empty for none. em: whether the answer is right
    (exact match after SQuAD's normalisation). f1: its best token F1. evidence_f1: of the evidence against the gold
    evidence, None where there is no gold evidence. verbatim: whether the evidence is in a passage of the episode's
    search results; None where the record has no such value. searches: calls of the search tool. support: the judge's
    score of the evidence in [0, 1], 0 without evidence; None where the judge failed.
    """

    question: str
    golds: tuple[str, ...]
    answer: str
    evidence: str
    em: bool
    f1: float | None
    evidence_f1: float | None
    verbatim: bool | None
    searches: float | None
    reward: float
    support: float | None = None

    @property
    def present(self) -> bool:
        """Whether there is evidence at all."""
        return bool(self.evidence.strip())


def read_answer(run: Run, episode: Episode) -> SolverAnswer:
    """Return the answer of an episode. Raises DataError, which names the task, for a run of another environment."""
    reward, metrics, view = parts_of(episode)
    em, verbatim = _flag(metrics.get("em")), _flag(metrics.get("evidence_verbatim"))
    if em is None:
        raise DataError(
            f"{run.folder}: task {episode['task']!r:.80} does not say whether its answer is right; "
            "is this a run of eve-solver?"
        )
    golds = items(metrics.get("gold_answers")) or items(view.get("gold_answers"))
    return SolverAnswer(
        benchmark=text_of(metrics.get("benchmark")) or question_source(run),
        task=str(episode["task"]),
        sample=sample_number(episode),
        question=text_of(view.get("question")),
        golds=tuple(gold for gold in golds if isinstance(gold, str)),
        answer=text_of(metrics.get("answer")),
        evidence=text_of(metrics.get("evidence")),
        em=em,
        f1=number(metrics.get("f1")),
        evidence_f1=number(metrics.get("evidence_f1")),
        verbatim=verbatim,
        searches=number(metrics.get("searches")),
        reward=float(reward["total"]),
    )


def question_source(run: Run) -> str:
    """Return the source of a run's questions by its manifest."""
    source = members(run.manifest.get("config")).get("source")
    return source if isinstance(source, str) else "questions"


def _flag(value: Any) -> bool | None:
    """Return a truth value, or a number that is 0 or 1, as a truth value."""
    return bool(value) if value in (0, 1) and isinstance(value, (bool, int, float)) else None


RUBRIC = "evidence-support"
MAX_ALIASES = 50
"""Of one question that are shown to a judge."""


def named_judge(text: str, settings: Mapping[str, Any] | None = None, cache: Path | None = None) -> Judge:
    """Return the judge that a text names: a model as `factgym eval --agent` takes it, or a user's object.

    settings: of the model. cache: folder in which judgements are stored. Raises ConfigError for a text that names no model.
    """
    if not is_model(text) and ".py:" not in text:
        raise ConfigError(f"a judge is a model, and {text!r:.80} is none: give {FORMS}")
    return judge_from(AgentModel(find_agent(text, ENV, settings)), RUBRIC, cache, name=text)


def judge_evidence(rows: Sequence[SolverAnswer], judge: Judge | None = None) -> tuple[list[SolverAnswer], str]:
    """Return answers with the judge's scores of their evidence, and a note on the judge.

    judge: for the rubric "evidence-support"; the containment fallback by default. It is left open: its creator closes it.
    Raises what `Judge.judge_many` raises.
    """
    chosen = judge if judge is not None else judge_from(None, RUBRIC)
    stand_in = bool(chosen.describe()["stand_in"])
    indices: list[int] = []
    cases: list[Case] = []
    for index, row in enumerate(rows):
        golds = row.golds[:MAX_ALIASES]
        if not row.present or not golds:
            continue
        joined = golds[0] if len(golds) == 1 else f"{golds[0]}\n(also accepted: {'; '.join(golds[1:])})"
        # A fallback judge reads a single answer: a case for each accepted answer.
        for answer in golds if stand_in else (joined,):
            indices.append(index)
            cases.append({"question": row.question, "answer": answer, "evidence": row.evidence})
    judgements: Sequence[Judgement | JudgeError] = asyncio.run(chosen.judge_many(cases, CONCURRENCY)) if cases else []
    scores: dict[int, list[float]] = {}
    for index, judgement in zip(indices, judgements, strict=True):
        scores.setdefault(index, []).extend([judgement.score] if isinstance(judgement, Judgement) else [])
    judged = [replace(row, support=max(scores.get(index, [0.0]), default=None)) for index, row in enumerate(rows)]
    return judged, judge_note(chosen)


MEASURES: Mapping[str, Measure[SolverAnswer]] = MappingProxyType(
    {
        "em": Measure(lambda row: row.em),
        "evidence": Measure(lambda row: row.support),
        "joint": Measure(lambda row: None if row.support is None else row.em * row.support),
        "presence": Measure(lambda row: row.present),
        "verbatim": Measure(lambda row: row.verbatim),
        "f1": Measure(lambda row: row.f1, share=False),
        "evidence_f1": Measure(lambda row: row.evidence_f1, share=False),
        "searches": Measure(lambda row: row.searches, bounds=POSITIVE, share=False),
        "reward": Measure(lambda row: row.reward, bounds=None, share=False),
    }
)
"""Means of a benchmark.

em: the answer is right. evidence: the judge finds the emitted span sufficient, an episode without a span counting as 0.
joint: both. presence: there is a span. verbatim: it is in a passage that the episode was shown, of all answers for which
the record tells. f1: of the answer. evidence_f1: of the span against the gold evidence, of questions that have some.
searches: in an episode. Answers that the judge failed on are left out of evidence and joint.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EveReport(AgentReport):
    """The evaluation of one agent, its means those of `MEASURES`. folders: of its runs."""

    judge: str
    folders: tuple[str, ...]

    @property
    def detail(self) -> str:
        """The folder of the first run."""
        return Path(self.folders[0]).name

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        return {**AgentReport.to_dict(self), "runs": list(self.folders), "n": self.n}


def evaluate_runs(
    runs: RunLike | Sequence[RunLike], name: str | None = None, *, judge: Judge | None = None
) -> EveReport:
    """Evaluate the recorded runs of one agent.

    name: in tables; by default the agent's. judge: for the rubric "evidence-support"; by default the containment
    fallback judge, which the report names. Raises DataError for a folder that holds no run, for a run of another environment,
    for runs without a scored answer, and for a question that two of the runs answer.
    """
    opened, answers = read_agent_answers(runs, read_answer)
    rows, judge_text = judge_evidence(answers.rows, judge)
    scores = {}
    for benchmark, group in group_by(rows, lambda row: row.benchmark).items():
        means = {measure: mean.mean(group) for measure, mean in MEASURES.items()}
        scores[benchmark] = BenchmarkScores(len(group), len({row.task for row in group}), means)
    notes = list(dict.fromkeys(note for run in opened for note in run.notes))
    if failed := sum(row.support is None for row in rows):
        notes.append(f"{count(failed, 'answer')} that the judge could not judge: left out of evidence and joint rate.")
    if without := [benchmark for benchmark, row in scores.items() if row["evidence_f1"].value is None]:
        notes.append(f"No gold evidence on {', '.join(without)}: there is no evidence F1.")
    return EveReport(
        name=name or manifest_text(opened[0], "agent") or opened[0].folder.name,
        judge=judge_text,
        folders=tuple(str(run.folder) for run in opened),
        scores=scores,
        average=benchmark_average(scores.values(), MEASURES),
        n=len(rows),
        errors=answers.errors,
        unscored=answers.unscored,
        notes=(*notes, *resampling_note(scores.values())),
    )
