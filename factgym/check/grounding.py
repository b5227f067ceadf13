"""The benchmark of `factgym check`: its verdicts on claims that people checked, in seven public data sets.

An agent plays each claim as in `factgym check`: the prompts of ClaimCheck, the documents of the claim as the library, a
quote counts if it is word for word in a passage that was opened. Statuses that a data set does not have count as the
nearest that it has (`FOLDED`). Factcheck-GPT is checked end to end: answers are split into claims as `check` splits
them, and searched in all web passages that were retrieved for the answer.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from factgym.agents.runs.read import Run
from factgym.benchmarks.benchmark import (
    AgentResult,
    Benchmark,
    DataSet,
    Evaluation,
    Outcome,
    check_names,
    data_path,
)
from factgym.benchmarks.formats import count, decimal, interval
from factgym.benchmarks.rationales import MEASURES, AbstractEvidence, scifact_f1, set_f1
from factgym.benchmarks.report import Note, Report, Row, Section, Styled, Table, make_table
from factgym.benchmarks.statistics.bootstrap import bca_mean, bca_score
from factgym.benchmarks.statistics.classification import confusion, reliability, table_score
from factgym.benchmarks.statistics.intervals import NO_DATA, Estimate, mean_interval, wilson
from factgym.check.answers import split_claims
from factgym.check.calibration import Calibration, claim_features, fit_weights, write_calibrations
from factgym.check.checker import DEFAULT_QUESTION, ENV, judge
from factgym.core.config import Settings
from factgym.core.env import Env
from factgym.core.episode import RewardReport
from factgym.core.errors import ConfigError, DataError
from factgym.core.registry import spec
from factgym.corpora.corpus import Passage
from factgym.corpora.sentences import passage_ranges
from factgym.corpora.text import find_quote
from factgym.datasets.base import Records, interleave
from factgym.datasets.claims import STATUSES, ClaimExample, GoldClaim, Status
from factgym.datasets.contractnli import ContractNliClaims
from factgym.datasets.grounding import LabelledResponse, read_claims, read_responses
from factgym.envs.claimcheck.env import ClaimCheckEnv
from factgym.envs.claimcheck.tasks import ClaimCheckConfig, ClaimTaskSet

_BINARY: Mapping[Status, Status] = {"contradicted": "unsupported", "overclaim": "unsupported"}
FOLDED: Mapping[str, Mapping[Status, Status]] = MappingProxyType(
    {
        "wice": {"contradicted": "unsupported"},
        "fm2": {"unsupported": "contradicted", "overclaim": "contradicted"},
        "scifact": {"overclaim": "unsupported"},
        "contracts": {"overclaim": "unsupported"},
        "factcheck-gpt": _BINARY,
        "factcheck-gpt-claims": {},
        "grayfacts": _BINARY,
        "aggrefact": _BINARY,
    }
)
"""Data set -> statuses that it does not have, and as which they count.

In WiCE a status of "unsupported" for a part of the claim counts as "overclaim", its partial support.
"""
TASKS = 300
"""Of each data set, unless the request says otherwise."""
MAJORITY = "majority"
_CONTRACTS = "contract_nli/dev.json"
_UNTITLED = ("Web page", "Source", "Cited page")


# Tasks


class ResponseClaims(Records[ClaimExample]):
    """The claims into which `factgym check` splits Factcheck-GPT's answers, with the label of their sentence.

    A claim of several sentences is true if all are. Claims of sentences without a label are left out.
    """

    def __init__(self, path: Path) -> None:
        digest = hashlib.sha256(b"factcheck-gpt")
        groups: dict[str, list[ClaimExample]] = {}
        for response in read_responses(path, digest.update):
            for example in _response_claims(response):
                groups.setdefault(example.verdict, []).append(example)
        self._records = tuple(interleave(list(groups.values())))
        self._fingerprint = digest.hexdigest()

    def index_of(self, task_id: str) -> int:
        """Return the index of an example's id."""
        return [example.id for example in self._records].index(task_id)


def _response_claims(response: LabelledResponse) -> Iterator[ClaimExample]:
    labelled = [
        (span, label)
        for text, label in response.sentences
        if label is not None and (span := find_quote(text, response.text)) is not None
    ]
    for number, (start, end) in enumerate(split_claims(response.text)):
        labels = [label for (first, last), label in labelled if first < end and start < last]
        if labels:
            status: Status = "supported" if all(labels) else "unsupported"
            text = response.text[start:end]
            claim = GoldClaim(text, status, (), "" if status == "supported" else text.rstrip("."))
            id_ = f"{response.id}-{number:02d}"
            yield ClaimExample(
                id_, "test", "factcheck-gpt", response.question, text, response.passages, (claim,), status
            )


class GroundingEnv(ClaimCheckEnv):
    """ClaimCheck over one data set, scored by whether `factgym check` would give the data set's label."""

    def __init__(self, name: str, examples: Any, config: ClaimCheckConfig) -> None:
        self.name = name
        self._grounding_tasks = ClaimTaskSet(examples, config)
        super().__init__(spec(ENV), config)

    def load_tasks(self) -> ClaimTaskSet:
        """Return the claims of the data set."""
        return self._grounding_tasks

    def score(self) -> RewardReport:
        """Return 1 for the data set's label, and the facts of which the benchmark's scores are made."""
        example, library = self.task.example, self.task.library
        opened = [id_ for id_, turn in self.state.read.items() if turn < len(self.episode.turns) - 1]
        entries = (self.state.submission or {}).get("claims", ())
        judgement = judge(example.answer, entries, opened, library)
        quotes = [library.corpus.get(id_).text[start:end] for id_, start, end in judgement.quotes]
        features = claim_features(example.answer, quotes, judgement.not_carried)
        status = None if judgement.agent_status is None else folded(self.name, judgement.status, features["part"] > 0)
        units = Units(example.passages, by_line=self.name != "contracts")
        sets = [facts for facts in (example.claims[0].facts, *example.alternatives) if facts]
        metrics = {
            "data_set": self.name,
            "gold_verdict": example.verdict,
            "verdict": status,
            "status": judgement.status,
            "features": features,
            "selected": units.covered(judgement.quotes),
            "sets": [units.covered([(fact.passage, fact.start, fact.end) for fact in facts]) for facts in sets],
            "group": _group(self.name, example),
            "subset": example.domain,
        }
        return RewardReport(float(status == example.verdict), metrics=metrics)


def folded(name: str, status: Status, is_part: bool) -> Status:
    """Return the status as which one counts in a data set. is_part: only a part of the claim is not carried."""
    if name == "wice" and status == "unsupported" and is_part:
        return "overclaim"
    return FOLDED[name].get(status, status)


def _group(name: str, example: ClaimExample) -> str:
    """Return the document of an example, whose claims depend on each other."""
    if name == "factcheck-gpt":
        return example.id.rpartition("-")[0]
    title = example.passages[0].title.partition(" › ")[0]
    return example.answer[:200] if title in _UNTITLED else title[:200]


class Units:
    """The sentences of passages: the annotators', one a line, or those of the package's rules.

    A sentence is named by its document (the id up to ".") and its number in it.
    """

    def __init__(self, passages: Sequence[Passage], *, by_line: bool) -> None:
        numbers: Counter[str] = Counter()
        self._ranges: dict[str, list[tuple[int, int, str, int]]] = {}
        for passage in passages:
            document = passage.id.partition(".")[0] if "." in passage.id else ""
            ranges = _lines(passage.text) if by_line else passage_ranges(passage.text)
            self._ranges[passage.id] = []
            for start, end in ranges:
                self._ranges[passage.id].append((start, end, document, numbers[document]))
                numbers[document] += 1

    def covered(self, spans: Sequence[tuple[str, int, int]]) -> list[list[Any]]:
        """Return `[document, number]` of each sentence of which spans of characters cover half, in order."""
        covered: dict[tuple[str, int], None] = {}
        for id_, first, last in spans:
            for start, end, document, number in self._ranges.get(id_, ()):
                if 2 * (min(end, last) - max(start, first)) >= end - start:
                    covered[document, number] = None
        return [list(unit) for unit in covered]


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.split("\n"):
        yield start, start + len(line)
        start += len(line) + 1


# Data sets


@dataclass(frozen=True, slots=True)
class GroundingSet(DataSet):
    """A data set of `FOLDED`, and how its claims are read."""

    examples: Callable[[Path], Any] = field(default=lambda path: ())

    def open(self, settings: Mapping[str, Any] = MappingProxyType({})) -> Env[Any]:
        """Return the environment over it. Raises ConfigError and DataError as `make` does."""
        assert self.path is not None
        values = {"max_turns": 16, **settings, "source": "docs"}
        return GroundingEnv(self.name, _Asked(self.examples(self.path)), ClaimCheckConfig.build("grounding", values))


class _Asked:
    """Examples with the question that `factgym check` asks where there is none."""

    def __init__(self, examples: Any) -> None:
        self._examples = examples
        self.fingerprint, self.index_of = examples.fingerprint, examples.index_of

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> ClaimExample:
        example: ClaimExample = self._examples[index]
        return example if example.question.strip() else replace(example, question=DEFAULT_QUESTION)


def _reader(name: str) -> Callable[[Path], Any]:
    if name == "factcheck-gpt":
        return ResponseClaims
    if name == "contracts":
        return lambda path: ContractNliClaims(path / _CONTRACTS if path.is_dir() else path)
    return lambda path: read_claims(name, path)


def data_sets(
    data: Path | None = None, only: Sequence[str] = (), settings: Mapping[str, Any] = MappingProxyType({})
) -> tuple[DataSet, ...]:
    """Return the data sets in a folder, or those of `only`; of one file LLM-AggreFact's layout, or that of `only`.

    Raises ConfigError without data, for unknown names, and for requested data sets that are missing.
    """
    check_names(only, tuple(FOLDED))
    path = data_path(data)
    if path is None:
        raise ConfigError("the grounding benchmark needs data: give a folder or file with --data, or set FACTGYM_DATA")
    names = tuple(only) or (tuple(FOLDED) if path.is_dir() else ("aggrefact",))
    if path.is_file() and len(names) > 1:
        raise ConfigError(f"{path} is one file: name one data set with --only, or give a folder")
    chosen, missing = [], []
    for name in names:
        entry = GroundingSet(name, ENV, {}, path, TASKS, _reader(name))
        try:
            entry.examples(path)
        except DataError as error:
            missing.append(str(error))
        else:
            chosen.append(entry)
    if not chosen or (only and missing):
        raise ConfigError(" ".join(missing)[:2000])
    return tuple(chosen)


# Evaluation


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

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        golds, verdicts = [claim.gold for claim in self.claims], [claim.verdict for claim in self.claims]
        table = confusion(golds, verdicts)
        estimates = {name: getattr(self, name) for name in ("accuracy", "macro_f1", "evidence", "answers")}
        return {
            "n": len(self.claims),
            "errors": self.errors,
            **{name: [value.value, value.low, value.high] for name, value in estimates.items()},
            "balanced_accuracy": self.balanced_accuracy,
            "official": dict(self.official),
            "subsets": dict(self.subsets),
            "confusion": {"gold": table.golds, "predicted": table.predictions, "counts": table.counts},
        }


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
    """Return the share of answers of which it was said rightly whether every claim is true."""
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
    parts = (_scores_table(everything), *_more_tables(everything))
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
    brier = mean_interval(squares, bounds=(0.0, 1.0))
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
    agents=("nli", "lexical"),
)
