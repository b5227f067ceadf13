"""The benchmark of `factgym check`: scores of its verdicts by data set, and the confidences fitted on them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from factgym.agents.runs.read import Run
from factgym.benchmarks.benchmark import AgentResult, Benchmark, Evaluation, Outcome
from factgym.benchmarks.formats import count, decimal, interval
from factgym.benchmarks.rationales import MEASURES, AbstractEvidence, scifact_f1, set_f1
from factgym.benchmarks.report import Note, Report, Row, Section, Styled, Table, make_table
from factgym.benchmarks.statistics.bootstrap import bca_mean, bca_score
from factgym.benchmarks.statistics.classification import confusion, reliability, table_score
from factgym.benchmarks.statistics.intervals import NO_DATA, UNIT, Estimate, mean_interval, ratio_interval, wilson
from factgym.check.agents import ENV, RULES
from factgym.check.calibration import Calibration, fit_weights, write_calibrations
from factgym.check.grounding import FOLDED, data_sets
from factgym.check.verifier import NAME as VERIFIER
from factgym.check.verifier import verifier_agent
from factgym.core.config import Settings
from factgym.core.errors import ConfigError, DataError
from factgym.datasets.claims import STATUSES, Status

MAJORITY = "majority"
"""Name of the agent that gives every claim the most frequent label of its data set."""
_MIN_SUPPORTED = 30  # GrayFacts has 20 supported claims, too few to decide


class GroundingOptions(Settings):
    """Settings of the benchmark itself.

    calibrate: file to which the confidence of each agent is written, for `factgym check --calibration FILE`.
    """

    calibrate: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a run. verdict: None without a submission, which is wrong. group: its document."""

    gold: Status
    verdict: Status | None
    status: Status
    features: Mapping[str, float]
    selected: tuple[tuple[str, int], ...]
    sets: tuple[tuple[tuple[str, int], ...], ...]
    group: str
    subset: str

    @property
    def is_right(self) -> bool:
        """Whether the verdict is the data set's label."""
        return self.verdict == self.gold


@dataclass(frozen=True, slots=True)
class GroundingReport:
    """The scores of one agent, or of the most frequent label, on one data set.

    evidence: mean F1 of the quoted sentences, over claims with marked evidence. official: SciFact's measures. answers:
    of Factcheck-GPT, the share of whole answers that were judged right. subsets: balanced accuracy by data set of
    LLM-AggreFact.
    """

    data_set: str
    claims: tuple[Claim, ...]
    errors: int = 0
    accuracy: Estimate = NO_DATA
    macro_f1: Estimate = NO_DATA
    balanced_accuracy: float | None = None
    evidence: Estimate = NO_DATA
    official: Mapping[str, float] = field(default_factory=dict)
    answers: Estimate = NO_DATA
    subsets: Mapping[str, float] = field(default_factory=dict)

    @property
    def green(self) -> dict[str, Estimate]:
        """Scores of supported or not: "balanced" accuracy, "precision" and "recall" of supported, intervals over documents."""
        gold, called = ([str(getattr(c, name) == "supported") for c in self.claims] for name in ("gold", "verdict"))
        clusters: list[Hashable] = [claim.group for claim in self.claims]
        balanced = bca_score(gold, called, "balanced_accuracy", labels=["True", "False"], clusters=clusters)
        precision = _share_right([claim for claim in self.claims if claim.verdict == "supported"])
        recall = _share_right([claim for claim in self.claims if claim.gold == "supported"])
        return {"balanced": balanced, "precision": precision, "recall": recall}

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        golds, verdicts = [claim.gold for claim in self.claims], [claim.verdict for claim in self.claims]
        table = confusion(golds, verdicts)
        estimates = {name: getattr(self, name) for name in ("accuracy", "macro_f1", "evidence", "answers")}
        estimates |= {f"supported_{name}": value for name, value in self.green.items()}
        return {
            "n": len(self.claims),
            "errors": self.errors,
            **{name: [value.value, value.low, value.high] for name, value in estimates.items()},
            "balanced_accuracy": self.balanced_accuracy,
            "official": dict(self.official),
            "subsets": dict(self.subsets),
            "confusion": {"gold": table.golds, "predicted": table.predictions, "counts": table.counts},
        }


def _share_right(claims: Sequence[Claim]) -> Estimate:
    """Return the share of claims with the right verdict, its interval over documents."""
    sizes = Counter(claim.group for claim in claims)
    right = Counter(claim.group for claim in claims if claim.is_right)
    return ratio_interval([right[group] for group in sizes], list(sizes.values()))


def read_run_claims(run: Run) -> tuple[str, tuple[Claim, ...]]:
    """Return the data set and the claims of a run. Raises DataError for a run of something else."""
    name, claims = "", []
    for episode in run.episodes():
        metrics = (episode.get("reward") or {}).get("metrics") or {}
        if episode.get("error") is not None:
            continue
        name = str(metrics.get("data_set") or "")
        if name not in FOLDED:
            raise DataError(f"{run.folder}: no run of the grounding benchmark")
        try:
            claims.append(_claim_of(metrics))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{run.folder}: an episode of {name} lacks facts of the benchmark ({error!r:.80})"
            ) from None
    if not claims:
        raise DataError(f"{run.folder}: holds no scored episode")
    return name, tuple(claims)


def _claim_of(metrics: Mapping[str, Any]) -> Claim:
    return Claim(
        gold=metrics["gold_verdict"],
        verdict=metrics["verdict"],
        status=metrics["status"],
        features=metrics["features"],
        selected=tuple(map(tuple, metrics["selected"])),
        sets=tuple(tuple(map(tuple, units)) for units in metrics["sets"]),
        group=metrics["group"],
        subset=metrics["subset"],
    )


def report_on(data_set: str, claims: Sequence[Claim], errors: int = 0) -> GroundingReport:
    """Score the claims of one agent. Intervals resample documents."""
    golds, verdicts = [claim.gold for claim in claims], [claim.verdict for claim in claims]
    # A status that is never the gold has no F1: macro-F1 is over the data set's own labels.
    labels = [status for status in STATUSES if status in {*golds, *verdicts}]
    clusters: list[Hashable] = [claim.group for claim in claims]
    f1 = [set_f1(claim.selected, claim.sets) for claim in claims if claim.sets]
    scores = {
        metric: bca_score(golds, verdicts, metric, labels=labels, clusters=clusters)
        for metric in ("accuracy", "macro_f1")
    }
    table = confusion(golds, verdicts, labels)
    return GroundingReport(
        data_set,
        tuple(claims),
        errors,
        **scores,
        balanced_accuracy=table_score(table, "balanced_accuracy"),
        evidence=bca_mean(f1, clusters=[claim.group for claim in claims if claim.sets]) if len(f1) > 1 else NO_DATA,
        official=_official(claims) if data_set == "scifact" else {},
        answers=_whole_answers(claims) if data_set == "factcheck-gpt" else NO_DATA,
        subsets=_by_subset(claims) if data_set == "aggrefact" else {},
    )


def _whole_answers(claims: Sequence[Claim]) -> Estimate:
    """Return the share of answers that were judged rightly as wholly true or not."""
    answers: dict[str, list[Claim]] = {}
    for claim in claims:
        answers.setdefault(claim.group, []).append(claim)
    right = [
        all(claim.gold == "supported" for claim in parts) == all(claim.verdict == "supported" for claim in parts)
        for parts in answers.values()
    ]
    return wilson(sum(right), len(right))


def _by_subset(claims: Sequence[Claim]) -> dict[str, float]:
    """Return balanced accuracy by data set, as LLM-AggreFact's authors score, and the mean over them."""
    scores = {}
    for name in sorted({claim.subset for claim in claims}):
        members = [claim for claim in claims if claim.subset == name]
        table = confusion([claim.gold for claim in members], [claim.verdict for claim in members])
        scores[name or "unnamed"] = table_score(table, "balanced_accuracy")
    return {**scores, "mean": fmean(scores.values())}


def _official(claims: Sequence[Claim]) -> dict[str, float]:
    """Return SciFact's measures: an abstract is predicted with the status of the claim and the sentences quoted from it."""
    golds = [_abstracts(claim.gold, claim.sets) for claim in claims]
    return scifact_f1(golds, [_abstracts(claim.verdict, (claim.selected,)) for claim in claims])


def _abstracts(status: Status | None, sets: Sequence[Sequence[tuple[str, int]]]) -> dict[str, AbstractEvidence]:
    by_abstract: dict[str, list[list[int]]] = {}
    for units in sets if status in ("supported", "contradicted") else ():
        for abstract in dict.fromkeys(document for document, _ in units):
            numbers = [number for document, number in units if document == abstract]
            by_abstract.setdefault(abstract, []).append(numbers)
    return {abstract: AbstractEvidence(str(status), tuple(parts)) for abstract, parts in by_abstract.items()}


def majority(report: GroundingReport) -> GroundingReport:
    """Return the scores of the most frequent label of a data set."""
    label = Counter(claim.gold for claim in report.claims).most_common(1)[0][0]
    claims = [replace(claim, verdict=label, selected=(), sets=()) for claim in report.claims]
    return report_on(report.data_set, claims)


def evaluate(evaluation: Evaluation) -> Outcome:
    """Score every run, and calibrate the agents where a file is named."""
    results = []
    for run in evaluation.runs:
        name, claims = read_run_claims(run.run)
        report = report_on(name, claims, run.run.failed)
        results.append(AgentResult(name, run.agent, report, run.seconds))
    by_set: dict[str, list[AgentResult[GroundingReport]]] = {}
    for result in results:
        by_set.setdefault(result.data_set, []).append(result)
    baselines = [AgentResult(name, MAJORITY, majority(group[0].report)) for name, group in by_set.items()]
    everything = [result for base in baselines for result in (base, *by_set[base.data_set])]
    calibration = _calibrate(evaluation.options.calibrate, results)
    parts = (_scores_table(everything), *_green_table(everything), *_more_tables(everything))
    sections = (Section("Verdicts of factgym check", parts, in_navigation=True), *calibration)
    notes = [note for run in evaluation.runs for note in run.run.notes]
    report_ = Report("Grounding benchmark", sections, (), tuple(dict.fromkeys(notes)))
    return Outcome.of_runs(everything, report_, sum(len(result.report.claims) for result in results))


def _scores_table(results: Sequence[AgentResult[GroundingReport]]) -> Table:
    rows: list[Row] = []
    for result in results:
        report = result.report
        if result.agent == MAJORITY:
            rows.append(Row((Styled(result.data_set), str(len(report.claims)), *[""] * 6)))
        cells = (f"  {result.agent}", "", decimal(report.accuracy.value, 2), interval(report.accuracy, 2))
        scores = (Styled(decimal(report.macro_f1.value, 2)), interval(report.macro_f1, 2))
        rows.append(Row((*cells, *scores, decimal(report.balanced_accuracy, 2), decimal(report.evidence.value, 2))))
    heads = ("", "n", "acc.", "95 %", "F1", "95 %", "bal.", "ev.")
    return make_table("Accuracy, macro-F1, balanced accuracy, F1 of the evidence", heads, rows, name_limit=22)


def _green_table(results: Sequence[AgentResult[GroundingReport]]) -> Iterator[Table | Note]:
    """Yield balanced accuracy of supported or not, precision and recall of "supported", with intervals over documents."""
    rows = []
    for result in results:
        green = result.report.green
        rows += [(result.data_set, *[""] * 4)] * (result.agent == MAJORITY)
        cells = [f"{decimal(green[name].value, 2)} {interval(green[name], 2)}" for name in ("balanced", "precision")]
        rows.append((f"  {result.agent}", *cells, decimal(green["recall"].value, 2), str(green["precision"].n)))
    heads = ("", "balanced, 95 %", "precision, 95 %", "recall", "docs")
    yield make_table('Supported or not; precision, recall and documents of "supported"', heads, rows, name_limit=22)
    agents = {result.agent.partition(":")[0] for result in results}
    few = {r.data_set for r in results if sum(c.gold == "supported" for c in r.report.claims) < _MIN_SUPPORTED}
    left_out = [f"--agent {name}:FOLDER" for name in (VERIFIER, "nli") if name not in agents]
    yield Note("rules: the proof by alignment of words. embedding: the cosine of hashed n-grams.", fine=True)
    yield Note(f"Not played, as they need weights: {', '.join(left_out) or 'none'}.", fine=True)
    yield Note(f"Too few supported claims to decide anything: {', '.join(sorted(few)) or 'none'}.", fine=True)


def _more_tables(results: Sequence[AgentResult[GroundingReport]]) -> Iterator[Table | Note]:
    played = [result for result in results if result.agent != MAJORITY]
    if rows := [
        (result.agent, *(decimal(result.report.official[name]) for name in MEASURES))
        for result in played
        if result.report.official
    ]:
        heads = ("SciFact's measures, F1", "abstract", "+ rationale", "sentence", "+ label")
        yield make_table("SciFact over the cited abstracts", heads, rows)
    for result in played:
        if result.report.answers.value is not None:
            answers = result.report.answers
            text = f"{result.agent}: {decimal(answers.value)} {interval(answers)} of {count(answers.n, 'answer')} of Factcheck-GPT"
            yield Note(f"{text} judged rightly as wholly true or not.")
    for result in played:
        if result.report.subsets:
            subset_rows = [(name, decimal(value)) for name, value in result.report.subsets.items()]
            yield make_table(f"LLM-AggreFact, {result.agent}", ("data set", "balanced accuracy"), subset_rows)


# Calibration


def is_fitted_on(claim: Claim) -> bool:
    """Whether a claim is of the half of the documents on which confidences are fitted; the other half evaluates them."""
    return hashlib.sha256(claim.group.encode()).digest()[0] % 2 == 0


def calibrate(reports: Sequence[GroundingReport]) -> Calibration | None:
    """Fit an agent's confidence on half of the documents of every data set, and measure it on the other half.

    None where either half has no claim.
    """
    pairs = [(report.data_set, claim) for report in reports for claim in report.claims if claim.verdict is not None]
    fitted = [pair for pair in pairs if is_fitted_on(pair[1])]
    held_out = [claim for _, claim in pairs if not is_fitted_on(claim)]
    if not fitted or not held_out:
        return None
    weights = fit_weights(
        [claim.status for _, claim in fitted],
        [claim.features for _, claim in fitted],
        [claim.is_right for _, claim in fitted],
    )
    calibration = Calibration(weights, {})
    confidences = [calibration.confidence(claim.status, claim.features) for claim in held_out]
    right = [claim.is_right for claim in held_out]
    measured = reliability(confidences, right)
    squares = [(value - is_right) ** 2 for value, is_right in zip(confidences, right, strict=True)]
    brier = mean_interval(squares, UNIT)
    about = {
        "data_sets": sorted({name for name, _ in fitted}),
        "fitted": len(fitted),
        "held_out": len(held_out),
        "accuracy": _rounded(measured.accuracy.value),
        "confidence": _rounded(measured.confidence),
        "ece": _rounded(measured.ece),
        "brier": [_rounded(brier.value), _rounded(brier.low), _rounded(brier.high)],
        "bins": [
            [_rounded(part.confidence), _rounded(part.accuracy.value), part.n] for part in measured.bins if part.n
        ],
    }
    return Calibration(weights, about)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _calibrate(file: str | None, results: Sequence[AgentResult[GroundingReport]]) -> Iterator[Section]:
    """Yield the section of the calibrated confidences, and write them where a file is named."""
    if file is None:
        return
    by_agent: dict[str, list[GroundingReport]] = {}
    for result in results:
        by_agent.setdefault(result.agent, []).append(result.report)
    calibrations = {agent: entry for agent, reports in by_agent.items() if (entry := calibrate(reports))}
    if not calibrations:
        raise ConfigError("too few claims to calibrate on: play more of them (-n), or more data sets")
    write_calibrations(Path(file), calibrations)
    rows = []
    for agent, entry in calibrations.items():
        about = entry.about
        low, high = (decimal(value) for value in about["brier"][1:])
        rows.append(
            (agent, str(about["held_out"]), decimal(about["accuracy"]), decimal(about["confidence"]),
             decimal(about["ece"]), decimal(about["brier"][0]), f"[{low}, {high}]")
        )  # fmt: skip
    heads = ("agent", "claims", "accuracy", "confidence", "ECE", "Brier", "95 %")
    table = make_table("Confidence on the documents that it was not fitted on", heads, rows)
    yield Section("Calibration", (table, Note(f"Written to {file}; factgym check --calibration {file}", fine=True)))


BENCHMARK = Benchmark(
    name="grounding",
    env=ENV,
    find_data=data_sets,
    evaluate=evaluate,
    options=GroundingOptions,
    agents=(RULES.name, "embedding", "lexical"),
    scripts={RULES.name: RULES},
    makers={VERIFIER: verifier_agent},
)
