"""The numbers of a run: scores, labels, five surfaces, play and groups of samples, from episodes in one pass.

Episodes that an infrastructure fault ended, or that were not scored, are counted and left out of every score; an episode
that ran out of turns, or of the model's context, is a result like any other. Every number is over episodes and its
interval over tasks: samples of one task are averaged first.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from factgym.benchmarks.costs import PriceTable, UsageSummary, UsageTally
from factgym.benchmarks.losses import Losses, LossTally
from factgym.benchmarks.records import (
    fault_of,
    gold_of,
    has_fault,
    is_malformed,
    is_scored,
    numbers,
    prompt_sizes,
    shares,
    verdict_of,
)
from factgym.benchmarks.statistics.classification import NO_VERDICT, Confusion, labels_in_order
from factgym.benchmarks.statistics.intervals import (
    NO_DATA,
    POSITIVE,
    UNIT,
    Bounds,
    Estimate,
    Series,
    macro_interval,
    mean_interval,
    natural_bounds,
)


@dataclass(frozen=True, slots=True)
class SurfaceMeasure:
    """One number of a surface, in [0, 1]."""

    label: str
    estimate: Estimate
    lower_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Surface:
    """One surface and its measures, the main one first."""

    name: str
    measures: tuple[SurfaceMeasure, ...]


_SURFACES: Mapping[str, Sequence[tuple[str, str, bool]]] = {
    "format": [("valid JSON", "json", False), ("malformed actions", "malformed actions", True)],
    "grounding": [
        ("evidence and quotes", "evidence and quotes", False),
        ("evidence F1", "evidence", False),
        ("exact quotes", "quote", False),
        ("true alignments", "grounded_alignment", False),
        ("true steps", "grounded_chain", False),
    ],
    "coverage": [("gold facts quoted", "coverage", False)],
    "calibration": [("verdict accuracy", "verdict accuracy", False), ("macro recall", "macro recall", False)],
    "safety": [("false supported", "false supported", True), ("unsupported span F1", "span", False)],
}
"""Measures of each surface: label, the estimate's name (a component's, or the label itself), whether lower is better.

One reward can hide that quotes got worse while labels got better: the five surfaces of ClaimCheck (*Separating The
Signals*) keep apart an answer's form, its evidence, the breadth of that evidence, its label and its harmlessness. The
false-supported rate is over the episodes whose gold verdict is not "supported"; an episode without a submission is no
false support (the reward's guard is stricter there).
"""
SAME = 1e-9
"""Rewards of a group that lie within this count as equal."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The groups of a run.

    n: groups, of `smallest` to `largest` scored samples. collapsed: share of groups whose rewards are all equal.
    spread: mean sample standard deviation (n - 1) of the rewards within a group. best and worst: means over groups of
    the highest and the lowest reward. majority: share of groups whose most frequent verdict is right; of several that
    are equally frequent one is drawn, in expectation; a sample without a verdict casts no vote. right_within: k ->
    chance that at least one of k samples has the right verdict, over the tasks with at least k samples. The last two
    are empty where tasks have no gold label.
    """

    n: int
    smallest: int
    largest: int
    collapsed: Estimate
    spread: Estimate
    best: Estimate
    worst: Estimate
    majority: Estimate
    right_within: Mapping[int, Estimate]


GradedSample = tuple[float, str | None, str | None]
"""Reward, gold label and verdict of a scored episode."""


def summarise_groups(tasks: Collection[Sequence[GradedSample]], declared: Bounds | None = None) -> GroupSummary | None:
    """Summarise the samples of each task; None when no task has two.

    A group whose rewards are all the same teaches nothing under GRPO: every advantage is zero.
    """
    groups = [samples for samples in tasks if len(samples) > 1]
    if not groups:
        return None
    rewards = [[reward for reward, _, _ in group] for group in groups]
    best, worst = [max(group) for group in rewards], [min(group) for group in rewards]
    bounds = natural_bounds([*worst, *best], declared)
    labelled = [group for group in groups if group[-1][1] is not None]
    counts = [
        (len(samples), sum(gold == verdict for _, gold, verdict in samples))
        for samples in tasks
        if labelled and samples[-1][1] is not None
    ]
    within = {}
    for k in (2**i for i in range(max((n for n, _ in counts), default=0).bit_length())):
        within[k] = mean_interval([chance_within(n, right, k) for n, right in counts if n >= k], UNIT)
    return GroupSummary(
        n=len(groups),
        smallest=min(map(len, groups)),
        largest=max(map(len, groups)),
        collapsed=mean_interval([float(high - low <= SAME) for high, low in zip(best, worst, strict=True)], UNIT),
        spread=mean_interval([float(np.std(group, ddof=1)) for group in rewards], POSITIVE),
        best=mean_interval(best, bounds),
        worst=mean_interval(worst, bounds),
        majority=mean_interval([_majority(group) for group in labelled], UNIT),
        right_within=within,
    )


def _majority(group: Sequence[GradedSample]) -> float:
    """Return the chance that one of the most frequent verdicts, drawn at random, is right."""
    votes = Counter(verdict for _, _, verdict in group if verdict is not None)
    leading = [verdict for verdict, n in votes.items() if n == max(votes.values())]
    return (group[-1][1] in leading) / len(leading) if leading else 0.0


def chance_within(n: int, right: int, k: int) -> float:
    """The unbiased estimate of the chance that at least one of `k` samples is right, when `right` of `n` were.

    1 - C(n - right, k) / C(n, k): pass@k of Chen et al. 2021, "Evaluating Large Language Models Trained on Code".
    Raises ValueError unless 0 <= right <= n and 1 <= k <= n.
    """
    if not (0 <= right <= n and 1 <= k <= n):
        raise ValueError(f"{k} of {n} samples, of which {right} are right")
    # The share of the subsets of k samples that hold no right sample, subtracted from 1.
    return 1.0 - math.comb(n - right, k) / math.comb(n, k)


HISTOGRAM_BINS = 20

_SUPPORTED = frozenset({"supported", "Supported", "Attributable"})
"""The labels that let a claim pass, of every family."""
_UNKNOWN_TOOL = "(no such tool)"


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of rewards in equal bins from `low` to `high`; the last bin includes `high`."""

    low: float
    high: float
    counts: tuple[int, ...]


LONGEST_PROMPTS = "unknown_at_longest_prompts"
"""Cause of faults that nothing explains and that met prompts as long as the longest answered ones of the run."""

_NEARLY = 0.95
"""Characters are no tokens: a prompt with fewer of the ones can have more of the others."""

_UNKNOWN = frozenset({"bad_request", "server"})
_STATUS = re.compile(r"\bHTTP [45]\d\d\b")


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Calls of one tool over the whole run, and how many of them were answered with an error."""

    name: str
    calls: int
    errors: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The numbers of one run.

    n: episodes of any outcome; scored + errors + unscored = n. tasks: different tasks among the scored; fewer than
    `scored` when tasks were sampled several times. causes: cause of an infrastructure error -> episodes, most frequent
    first; fault: the message of the first. components: in their own ranges. earned: component ->
    its mean contribution to the reward, gates included; these add up to the reward. weights and gates (mean
    factors by component) are those of the reports. recall: gold label -> share of its episodes that got this label.
    accuracy and macro_recall are empty, and confusion None, where tasks have no gold label. turns: per episode.
    malformed: share of actions that were no valid call. stops: reason -> episodes. usage: None when no record has
    any. groups: None unless tasks were sampled several times. losses: whether the lost episodes differ from the scored; None
    unless there are both.
    """

    env: str
    version: int | None
    agent: str
    splits: tuple[str, ...]
    n: int
    scored: int
    errors: int
    unscored: int
    tasks: int
    causes: Mapping[str, int]
    fault: str | None
    reward: Estimate
    histogram: Histogram
    components: Mapping[str, Estimate]
    earned: Mapping[str, float]
    weights: Mapping[str, float]
    gates: Mapping[str, Estimate]
    accuracy: Estimate
    recall: Mapping[str, Estimate]
    macro_recall: Estimate
    confusion: Confusion | None
    turns: Estimate
    malformed: Estimate
    stops: Mapping[str, int]
    tools: tuple[ToolUse, ...]
    surfaces: tuple[Surface, ...]
    usage: UsageSummary | None
    groups: GroupSummary | None
    losses: Losses | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        return {**asdict(self), "losses": self.losses.to_dict() if self.losses else None}


def summarise(
    episodes: Iterable[Mapping[str, Any]],
    prices: PriceTable | None = None,
    *,
    model: str | None = None,
    bounds: Bounds | None = None,
) -> RunSummary:
    """Summarise the records of one run, in one pass and without keeping them.

    prices: turns tokens into money. model: the agent's model by the manifest, for turns that do not name theirs. bounds: of the
    reward, by the manifest. Each
    task and sample must come once: an error that was played again is left out by the reader of the run.
    """
    tally = _Tally(usage=UsageTally(prices, model), bounds=bounds)
    for episode in episodes:
        tally.add(episode)
    return tally.summary()


@dataclass(slots=True)
class _Tally:
    """Everything that a summary needs of the episodes seen so far: some numbers of each."""

    usage: UsageTally
    bounds: Bounds | None = None
    losses: LossTally = field(default_factory=LossTally)
    groups: dict[int, list[GradedSample]] = field(default_factory=dict)
    names: Counter[tuple[str, int | None, str]] = field(default_factory=Counter)
    splits: set[str] = field(default_factory=set)
    task_numbers: dict[str, int] = field(default_factory=dict)
    n: int = 0
    unscored: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    unknown: list[tuple[str, int]] = field(default_factory=list)  # cause and size of the prompt
    longest: int = 0  # of the prompts that were answered
    fault: str | None = None
    series: defaultdict[str, Series] = field(default_factory=lambda: defaultdict(Series))
    components: defaultdict[str, Series] = field(default_factory=lambda: defaultdict(Series))
    earned: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    gates: defaultdict[str, Series] = field(default_factory=lambda: defaultdict(Series))
    weights: dict[str, float] = field(default_factory=dict)
    label_pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    right_by_gold: defaultdict[str, Series] = field(default_factory=lambda: defaultdict(Series))
    stops: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, episode: Mapping[str, Any]) -> None:
        self.n += 1
        version = episode.get("version")
        names = str(episode.get("env")), version if isinstance(version, int) else None, str(episode.get("agent"))
        self.names[names] += 1
        if episode.get("split"):
            self.splits.add(str(episode["split"]))
        self.stops[str(episode.get("stop"))] += 1
        task = self.task_numbers.setdefault(str(episode.get("task")), len(self.task_numbers))
        self.usage.add(task, episode)
        self.losses.add(episode)
        answered, size = prompt_sizes(episode)
        self.longest = max(self.longest, answered)
        if has_fault(episode):
            cause, message = fault_of(episode)
            self.causes[cause] += 1
            if cause in _UNKNOWN and _STATUS.search(message):
                self.unknown.append((cause, size))
            self.fault = self.fault or message or None
        elif not is_scored(episode):
            self.unscored += 1
        else:
            self._add_scores(task, episode)
            self._add_turns(task, episode["turns"])

    def _add_scores(self, task: int, episode: Mapping[str, Any]) -> None:
        """Add a scored episode to the sums from which all estimates are made."""
        reward, total = episode["reward"], float(episode["reward"]["total"])
        self.series["reward"].add(task, total)
        for group, series in (("components", self.components), ("gates", self.gates)):
            for name, value in numbers(reward.get(group)).items():
                series[name].add(task, value)
        for name, share in shares(reward).items():
            self.earned[name] += share
        self.weights.update(reward.get("weights") or {})
        components = numbers(reward.get("components"))
        if {"evidence", "quote"} <= components.keys():
            self.series["evidence and quotes"].add(task, (components["evidence"] + components["quote"]) / 2)
        gold, verdict = gold_of(episode), verdict_of(episode)
        self.groups.setdefault(task, []).append((total, gold, verdict))
        if gold is not None:
            self.label_pairs[(gold, verdict or NO_VERDICT)] += 1
            self.series["verdict accuracy"].add(task, gold == verdict)
            self.right_by_gold[gold].add(task, gold == verdict)
            if gold not in _SUPPORTED:
                self.series["false supported"].add(task, verdict in _SUPPORTED)

    def _add_turns(self, task: int, turns: Sequence[Mapping[str, Any]]) -> None:
        self.series["turns"].add(task, len(turns))
        self.series["malformed actions"].add(task, sum(is_malformed(turn) for turn in turns), len(turns))
        for turn in turns:
            for call in turn.get("calls") or ():
                name = _UNKNOWN_TOOL if call.get("error") == "unknown_tool" else str(call.get("tool"))
                self.calls[name] += 1
                self.refused[name] += bool(call.get("error"))

    def summary(self) -> RunSummary:
        (env, version, agent), _ = self.names.most_common(1)[0] if self.names else (("", None, ""), 0)
        components = {name: series.mean() for name, series in self.components.items()}
        recall = {gold: self.right_by_gold[gold].mean(UNIT) for gold in labels_in_order(self.right_by_gold)}
        rewards, scored = self.series["reward"], len(self.series["reward"])
        accuracy, macro = self.series["verdict accuracy"].mean(UNIT), macro_interval(list(recall.values()))
        malformed = self.series["malformed actions"].share()
        estimates = {
            **components,
            "malformed actions": malformed,
            "evidence and quotes": self.series["evidence and quotes"].mean(UNIT),
            "verdict accuracy": accuracy,
            "macro recall": macro,
            "false supported": self.series["false supported"].mean(UNIT),
        }
        surfaces = []
        for name, rows in _SURFACES.items():
            measures = [(text, estimates.get(key, NO_DATA), lower) for text, key, lower in rows]
            present = tuple(SurfaceMeasure(*measure) for measure in measures if measure[1].value is not None)
            # Without gold verdicts there is no surface at all: the diagnostic is about verifying claims.
            if present and accuracy.value is not None:
                surfaces.append(Surface(name, present))
        # Unexplained faults at the longest prompts are a class of their own.
        moved = [cause for cause, size in self.unknown if size > _NEARLY * self.longest > 0]
        causes = self.causes - Counter(moved) + Counter({LONGEST_PROMPTS: len(moved)})
        tools = sorted(self.calls.items(), key=lambda item: (item[0] == _UNKNOWN_TOOL, -item[1], item[0]))
        return RunSummary(
            env=env,
            version=version,
            agent=agent,
            splits=tuple(sorted(self.splits)),
            n=self.n,
            scored=scored,
            errors=self.causes.total(),
            unscored=self.unscored,
            tasks=len(self.groups),
            causes=dict(causes.most_common()),
            fault=self.fault,
            reward=rewards.mean(natural_bounds(rewards.values, self.bounds)),
            histogram=histogram(rewards.values),
            components=components,
            earned={name: total / scored for name, total in self.earned.items()},
            weights=dict(self.weights),
            gates={name: series.mean() for name, series in self.gates.items()},
            accuracy=accuracy,
            recall=recall,
            macro_recall=macro,
            confusion=_confusion(self.label_pairs),
            turns=self.series["turns"].mean(POSITIVE),
            malformed=malformed,
            stops=dict(sorted(self.stops.items())),
            tools=tuple(ToolUse(name, calls, self.refused[name]) for name, calls in tools),
            surfaces=tuple(surfaces),
            usage=self.usage.summary(),
            groups=summarise_groups(self.groups.values(), self.bounds),
            losses=self.losses.losses(),
        )


def histogram(values: Sequence[float]) -> Histogram:
    """Counts in `HISTOGRAM_BINS` equal bins over [0, 1], or over a wider range where values leave it."""
    low, high = min([0.0, *values]), max([1.0, *values])
    counts = [0] * HISTOGRAM_BINS
    for value in values:
        # A total such as 0.55 may lie a rounding error below its edge.
        counts[min(HISTOGRAM_BINS - 1, int((value - low) / (high - low) * HISTOGRAM_BINS + 1e-9))] += 1
    return Histogram(low, high, tuple(counts))


def _confusion(pairs: Mapping[tuple[str, str], int]) -> Confusion | None:
    if not pairs:
        return None
    golds = labels_in_order(gold for gold, _ in pairs)
    labels = labels_in_order([*golds, *(label for _, label in pairs if label != NO_VERDICT)])
    if any(label == NO_VERDICT for _, label in pairs):
        labels = (*labels, NO_VERDICT)
    return Confusion(golds, labels, tuple(tuple(pairs.get((gold, label), 0) for label in labels) for gold in golds))
