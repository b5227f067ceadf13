"""What EVE's evaluation asks of runs: exact match, judged evidence, the joint rate and evidence presence, by benchmark.

A run holds the answers of one agent; several runs of one agent on different benchmarks are one report, which is a row
of the paper's tables. The average is the unweighted mean over the benchmarks, as the paper's is. Intervals are over
questions: samples of one question are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from factgym.agents.judges import Judge
from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.averages import mean_of
from factgym.benchmarks.clusters import POSITIVE, UNIT, Series
from factgym.benchmarks.eve.answers import SolverAnswer, read_answers
from factgym.benchmarks.eve.judging import judge_evidence
from factgym.benchmarks.formats import count
from factgym.benchmarks.intervals import NO_DATA, Estimate, macro_interval
from factgym.core.errors import DataError

SHARES = ("em", "evidence", "joint", "presence", "verbatim")
MEANS = ("f1", "evidence_f1", "searches", "reward")


@dataclass(frozen=True, slots=True)
class BenchmarkScores:
    """One benchmark: n answers to `tasks` questions; shares and F1 in [0, 1].

    em: the answer is right. evidence: the judge finds the emitted span sufficient, an episode without a span counting
    as 0. joint: both. presence: there is a span. verbatim: it stands in a passage that the episode was shown, of all
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
    opened = [one if isinstance(one, Run) else read_run(one) for one in _many(runs)]
    found = [read_answers(run.episodes(), str(run.folder), benchmark=_source(run)) for run in opened]
    rows = [row for one in found for row in one.rows]
    errors, unscored = sum(one.errors for one in found), sum(one.unscored for one in found)
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


def _many(runs: Run | str | Path | Sequence[Run | str | Path]) -> list[Run | str | Path]:
    return [runs] if isinstance(runs, (Run, str, Path)) else list(runs)


def _source(run: Run) -> str:
    config = run.manifest.get("config")
    source = config.get("source") if isinstance(config, Mapping) else None
    return source if isinstance(source, str) else "questions"


Marked = tuple[SolverAnswer, float | None]
"""An answer, and what the judge gave its evidence."""


def _score(benchmark: str, rows: Sequence[Marked]) -> BenchmarkScores:
    numbers = {task: i for i, task in enumerate(dict.fromkeys(row.task for row, _ in rows))}

    def mean(value: Callable[[Marked], float | None], bounds: tuple[float, float] | None = UNIT) -> Estimate:
        series = Series()
        for pair in rows:
            if (found := value(pair)) is not None:
                series.add(numbers[pair[0].task], float(found))
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
    bare = [one.benchmark for one in scores if one.evidence_f1.value is None]
    if bare:
        notes.append(f"No gold evidence on {', '.join(bare)}: there is no evidence F1.")
    if any(one.tasks < one.n for one in scores):
        notes.append("Questions were sampled several times: intervals are over questions.")
    return notes


def grouped(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs by agent, as reports take them: a run whose source its agent's report has already begins another one."""
    groups: list[tuple[str, set[str], list[Run]]] = []
    for run in runs:
        agent, source = str(run.manifest.get("agent") or ""), _source(run)
        for known, sources, members in groups:
            if known == agent and source not in sources:
                sources.add(source)
                members.append(run)
                break
        else:
            groups.append((agent, {source}, [run]))
    return [members for _, _, members in groups]
