"""EVE's evaluation of runs: exact match, judged evidence, the joint rate and evidence presence, by benchmark.

A run holds the answers of one agent; several runs of one agent on different benchmarks are one report, which is a row
of the paper's tables. The average is the unweighted mean over the benchmarks, as the paper's is. Intervals are over
questions: samples of one question are not independent. Nothing in a record is trusted: what is no number is left out, and
only a record without the correctness of its answer is an error.

The evidence score is appendix C's: a judge sees the question, the gold answer and the emitted span, and decides whether
the question with the span is sufficient to recover the gold answer. An episode without a span scores 0 unasked. Where
there is no model, the containment stand-in judges, and every table says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from factgym.agents.judges import Judge, JudgeError, Judgement, judge_from, judge_note
from factgym.agents.judges.base import CONCURRENCY, Case
from factgym.agents.models import as_model
from factgym.agents.resolve import FORMS, find_agent, is_model
from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.formats import count
from factgym.benchmarks.records import has_fault, is_scored, items, members, number, text_of
from factgym.benchmarks.statistics.intervals import NO_DATA, POSITIVE, UNIT, Estimate, Series, macro_interval, mean_of
from factgym.core.errors import ConfigError, DataError

ENV = "eve-solver"


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """One scored episode.

    golds: the accepted answers. evidence: the span that was submitted, empty for none. em: whether the answer is right
    (exact match after SQuAD's normalisation). f1: its best token F1. evidence_f1: of the evidence against the gold
    evidence, None where there is no gold evidence. verbatim: whether the evidence is in a passage that the episode
    was shown; None where the record does not tell. searches: calls of the search tool.
    """

    benchmark: str
    task: str
    sample: int
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

    @property
    def present(self) -> bool:
        """Whether there is evidence at all."""
        return bool(self.evidence.strip())


@dataclass(frozen=True, slots=True)
class SolverAnswers:
    """The answers of a run in the order of its file, and how many episodes gave none: faults, and not scored."""

    rows: tuple[SolverAnswer, ...]
    errors: int = 0
    unscored: int = 0


def read_answers(
    episodes: Iterable[Mapping[str, Any]], where: str = "the run", *, benchmark: str = "questions"
) -> SolverAnswers:
    """The answers of a run's episodes.

    benchmark: the name for questions that name none. Raises DataError, which names the task, for a run of another
    environment.
    """
    rows, errors, unscored = [], 0, 0
    for episode in episodes:
        if has_fault(episode):
            errors += 1
        elif not is_scored(episode):
            unscored += 1
        else:
            rows.append(_answer(episode, where, benchmark))
    return SolverAnswers(tuple(rows), errors, unscored)


def _answer(episode: Mapping[str, Any], where: str, benchmark: str) -> SolverAnswer:
    reward = members(episode.get("reward"))
    metrics, view = members(reward.get("metrics")), members(episode.get("task_view"))
    em = _flag(metrics.get("em"))
    if em is None:
        raise DataError(
            f"{where}: task {episode['task']!r:.80} does not say whether its answer is right; is this a run of eve-solver?"
        )
    sample = episode.get("sample")
    golds = items(metrics.get("gold_answers")) or items(view.get("gold_answers"))
    return SolverAnswer(
        benchmark=text_of(metrics.get("benchmark")) or benchmark,
        task=str(episode["task"]),
        sample=sample if isinstance(sample, int) else 0,
        question=text_of(view.get("question")),
        golds=tuple(gold for gold in golds if isinstance(gold, str)),
        answer=text_of(metrics.get("answer")),
        evidence=text_of(metrics.get("evidence")),
        em=em,
        f1=number(metrics.get("f1")),
        evidence_f1=number(metrics.get("evidence_f1")),
        verbatim=_flag(metrics.get("evidence_verbatim")),
        searches=number(metrics.get("searches")),
        reward=float(reward["total"]),
    )


def _flag(value: Any) -> bool | None:
    """A truth value, or a number that is 0 or 1."""
    if isinstance(value, bool):
        return value
    flag = number(value)
    return bool(flag) if flag in (0.0, 1.0) else None


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
    indices, cases = _cases(rows, apart=bool(chosen.describe()["stand_in"]))
    judgements = asyncio.run(chosen.judge_many(cases, concurrency)) if cases else []
    by_answer: dict[int, list[Judgement | JudgeError]] = {}
    for index, judgement in zip(indices, judgements, strict=True):
        by_answer.setdefault(index, []).append(judgement)
    scores = tuple(_best(by_answer[index]) if index in by_answer else 0.0 for index in range(len(rows)))
    return Judged(scores, judge_note(chosen), scores.count(None))


def _cases(rows: Sequence[SolverAnswer], *, apart: bool) -> tuple[list[int], list[Case]]:
    """The cases and whose they are. apart: one for each accepted answer, for a stand-in, which reads one answer."""
    indices: list[int] = []
    cases: list[Case] = []
    for index, row in enumerate(rows):
        golds = row.golds[:MAX_ALIASES]
        if not row.present or not golds:
            continue
        joined = golds[0] if len(golds) == 1 else f"{golds[0]}\n(also accepted: {'; '.join(golds[1:])})"
        for answer in golds if apart else (joined,):
            indices.append(index)
            cases.append({"question": row.question, "answer": answer, "evidence": row.evidence})
    return indices, cases


def _best(judgements: Sequence[Judgement | JudgeError]) -> float | None:
    scores = [judgement.score for judgement in judgements if isinstance(judgement, Judgement)]
    return max(scores) if scores else None


SHARES = ("em", "evidence", "joint", "presence", "verbatim")
MEANS = ("f1", "evidence_f1", "searches", "reward")


@dataclass(frozen=True, slots=True)
class BenchmarkScores:
    """One benchmark: n answers to `tasks` questions; shares and F1 in [0, 1].

    em: the answer is right. evidence: the judge finds the emitted span sufficient, an episode without a span counting
    as 0. joint: both. presence: there is a span. verbatim: it is in a passage that the episode was shown, of all
    answers for which the record tells. f1: of the answer. evidence_f1: of the span against the gold evidence, of
    questions that have some. searches: in an episode. Answers that the judge failed on are left out of evidence and
    joint.
    """

    benchmark: str
    n: int
    tasks: int
    em: Estimate
    evidence: Estimate
    joint: Estimate
    presence: Estimate
    verbatim: Estimate
    f1: Estimate
    evidence_f1: Estimate
    searches: Estimate
    reward: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"n": self.n, "tasks": self.tasks} | {one: asdict(getattr(self, one)) for one in (*SHARES, *MEANS)}


@dataclass(frozen=True, slots=True)
class EveReport:
    """The evaluation of one agent. average: of the benchmarks' values; of `SHARES` and `MEANS`. judge: who judged."""

    name: str
    judge: str
    folders: tuple[str, ...]
    scores: Mapping[str, BenchmarkScores]
    average: Mapping[str, Estimate]
    n: int
    errors: int
    unscored: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, keys in the order above."""
        return {
            "name": self.name,
            "judge": self.judge,
            "runs": list(self.folders),
            "benchmarks": {name: one.to_dict() for name, one in self.scores.items()},
            "average": {name: asdict(one) for name, one in self.average.items()},
            "n": self.n,
            "errors": self.errors,
            "unscored": self.unscored,
            "notes": list(self.notes),
        }


def evaluate_runs(
    runs: Run | str | Path | Sequence[Run | str | Path], name: str | None = None, *, judge: Judge | None = None
) -> EveReport:
    """Evaluate the recorded runs of one agent.

    name: in tables; by default the agent's. judge: for the rubric "evidence-support"; by default the containment
    stand-in, which the report says. Raises DataError for a folder that holds no run, for a run of another environment,
    for runs without a scored answer, and for a question that two of the runs answer.
    """
    given = [runs] if isinstance(runs, (Run, str, Path)) else list(runs)
    opened = [run if isinstance(run, Run) else read_run(run) for run in given]
    parts = [read_answers(run.episodes(), str(run.folder), benchmark=_source(run)) for run in opened]
    rows = [row for part in parts for row in part.rows]
    errors, unscored = sum(part.errors for part in parts), sum(part.unscored for part in parts)
    if not rows:
        where = ", ".join(str(run.folder) for run in opened)
        raise DataError(f"{where}: no scored answer ({errors} ended by the infrastructure)")
    if len({(row.benchmark, row.task, row.sample) for row in rows}) < len(rows):
        raise DataError("some questions are answered twice: give runs of different benchmarks, or one at a time")
    judged = judge_evidence(rows, judge)
    marked = list(zip(rows, judged.scores, strict=True))
    names = dict.fromkeys(row.benchmark for row in rows)
    scores = {one: _score(one, [pair for pair in marked if pair[0].benchmark == one]) for one in names}
    return EveReport(
        name=name or str(opened[0].manifest.get("agent") or opened[0].folder.name),
        judge=judged.note,
        folders=tuple(str(run.folder) for run in opened),
        scores=scores,
        average=_average(list(scores.values())),
        n=len(rows),
        errors=errors,
        unscored=unscored,
        notes=tuple(_notes(opened, list(scores.values()), judged.failed)),
    )


def _source(run: Run) -> str:
    config = run.manifest.get("config")
    source = config.get("source") if isinstance(config, Mapping) else None
    return source if isinstance(source, str) else "questions"


JudgedAnswer = tuple[SolverAnswer, float | None]
"""An answer, and the judge's score of its evidence."""


def _score(benchmark: str, rows: Sequence[JudgedAnswer]) -> BenchmarkScores:
    numbers = {task: i for i, task in enumerate(dict.fromkeys(row.task for row, _ in rows))}

    def mean(value: Callable[[JudgedAnswer], float | None], bounds: tuple[float, float] | None = UNIT) -> Estimate:
        series = Series()
        for pair in rows:
            if (measured := value(pair)) is not None:
                series.add(numbers[pair[0].task], float(measured))
        return series.mean(bounds) if len(series) else NO_DATA

    return BenchmarkScores(
        benchmark=benchmark,
        n=len(rows),
        tasks=len(numbers),
        em=mean(lambda pair: pair[0].em),
        evidence=mean(lambda pair: pair[1]),
        joint=mean(lambda pair: None if pair[1] is None else pair[0].em * pair[1]),
        presence=mean(lambda pair: pair[0].present),
        verbatim=mean(lambda pair: pair[0].verbatim),
        f1=mean(lambda pair: pair[0].f1),
        evidence_f1=mean(lambda pair: pair[0].evidence_f1),
        searches=mean(lambda pair: pair[0].searches, POSITIVE),
        reward=mean(lambda pair: pair[0].reward, None),
    )


def _average(scores: Sequence[BenchmarkScores]) -> dict[str, Estimate]:
    """Of the benchmarks, each counting the same."""
    shares = {part: macro_interval([getattr(one, part) for one in scores]) for part in SHARES}
    return shares | {part: mean_of([getattr(one, part) for one in scores]) for part in MEANS}


def _notes(runs: Sequence[Run], scores: Sequence[BenchmarkScores], failed: int) -> list[str]:
    notes = list(dict.fromkeys(note for run in runs for note in run.notes))
    if failed:
        notes.append(f"{count(failed, 'answer')} that the judge could not judge: left out of evidence and joint rate.")
    without = [one.benchmark for one in scores if one.evidence_f1.value is None]
    if without:
        notes.append(f"No gold evidence on {', '.join(without)}: there is no evidence F1.")
    if any(one.tasks < one.n for one in scores):
        notes.append("Questions were sampled several times: intervals are over questions.")
    return notes


def grouped(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs by agent, as reports take them: a run whose source its agent's report has already begins another one."""
    groups: list[tuple[str, set[str], list[Run]]] = []
    for run in runs:
        agent, source = str(run.manifest.get("agent") or ""), _source(run)
        for other, sources, group in groups:
            if other == agent and source not in sources:
                sources.add(source)
                group.append(run)
                break
        else:
            groups.append((agent, {source}, [run]))
    return [group for _, _, group in groups]
