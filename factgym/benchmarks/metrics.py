"""The numbers of a run: scores, labels, five surfaces, play and groups of samples, from episodes in one pass.

Pure: no files, no printing. Episodes that an infrastructure fault ended, or that were not scored, are counted and left out
of every score; an episode that ran out of turns, or of the model's context, is a result like any other. Every number is
over episodes and its interval over tasks: samples of one task are averaged first.

One reward can hide that quotes got worse while labels got better. The five surfaces of ClaimCheck (*Separating The
Signals*) keep apart an answer's form, its evidence, the breadth of that evidence, its label and its harmlessness:

    format        valid JSON; and, of the tool protocol, malformed actions
    grounding     evidence ids and exact quotes, and their mean
    coverage      quoted evidence covers the required facts
    calibration   final verdict and per-label recall
    safety        false "supported" verdicts, and the unsupported span

The false-supported rate is over the episodes whose gold verdict is not "supported", the only ones in which it can
happen; an episode without a submission is no false support (the reward's guard is stricter there).

A group of samples whose rewards are all the same teaches nothing under GRPO: every advantage is zero. A group needs two
scored samples; groups are independent of each other, so that every interval of theirs is over groups.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.benchmarks.costs import PriceTable, UsageSummary, UsageTally
from factgym.benchmarks.records import (
    fault_of,
    gold_of,
    has_fault,
    is_malformed,
    is_scored,
    number,
    shares,
    verdict_of,
)
from factgym.benchmarks.statistics.classification import NO_VERDICT, Confusion, labels_in_order
from factgym.benchmarks.statistics.intervals import NO_DATA, UNIT, Estimate, Series, macro_interval, mean_interval


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a surface, in [0, 1]."""

    label: str
    estimate: Estimate
    lower_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Surface:
    """One surface and its measures, the one that stands for it first."""

    name: str
    measures: tuple[Measure, ...]


def separate(
    components: Mapping[str, Estimate],
    *,
    grounding: Estimate,
    malformed: Estimate,
    accuracy: Estimate,
    macro_recall: Estimate,
    false_supported: Estimate,
) -> tuple[Surface, ...]:
    """The surfaces of a run; a measure that the environment does not have, and an empty surface, are left out.

    No surface at all without gold verdicts: the diagnostic is about verifying claims.
    """
    if accuracy.value is None:
        return ()
    table: dict[str, list[Measure | None]] = {
        "format": [_part("valid JSON", components, "json"), Measure("malformed actions", malformed, True)],
        "grounding": [
            Measure("evidence and quotes", grounding),
            _part("evidence F1", components, "evidence"),
            _part("exact quotes", components, "quote"),
            _part("true alignments", components, "grounded_alignment"),
            _part("true steps", components, "grounded_chain"),
        ],
        "coverage": [_part("gold facts quoted", components, "coverage")],
        "calibration": [Measure("verdict accuracy", accuracy), Measure("macro recall", macro_recall)],
        "safety": [
            Measure("false supported", false_supported, True),
            _part("unsupported span F1", components, "span"),
        ],
    }
    surfaces = []
    for name, found in table.items():
        kept = tuple(one for one in found if one is not None and one.estimate.value is not None)
        if kept:
            surfaces.append(Surface(name, kept))
    return tuple(surfaces)


def _part(label: str, components: Mapping[str, Estimate], name: str) -> Measure | None:
    return Measure(label, components[name]) if name in components else None


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


@dataclass(slots=True)
class _Group:
    """Running totals of one task's samples (Welford 1962 for the squares)."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    best: float = -math.inf
    worst: float = math.inf
    gold: str | None = None
    right: int = 0
    votes: dict[str, int] = field(default_factory=dict)

    def add(self, reward: float, gold: str | None, verdict: str | None) -> None:
        self.n += 1
        step = reward - self.mean
        self.mean += step / self.n
        self.squares += step * (reward - self.mean)
        self.best, self.worst = max(self.best, reward), min(self.worst, reward)
        self.gold = gold if gold is None else sys.intern(gold)
        self.right += gold is not None and gold == verdict
        if verdict is not None:
            verdict = sys.intern(verdict)
            self.votes[verdict] = self.votes.get(verdict, 0) + 1

    @property
    def majority(self) -> float:
        most = max(self.votes.values(), default=0)
        first = [verdict for verdict, votes in self.votes.items() if votes == most]
        return (self.gold in first) / len(first) if first else 0.0


class GroupTally:
    """Collects the scored episodes of a run by task."""

    def __init__(self) -> None:
        self._groups: dict[int, _Group] = {}

    def add(self, task: int, reward: float, gold: str | None, verdict: str | None) -> None:
        """Add one scored episode of the task with this number."""
        self._groups.setdefault(task, _Group()).add(reward, gold, verdict)

    def summary(self) -> GroupSummary | None:
        """The groups, or None when no task has two scored samples."""
        groups = [one for one in self._groups.values() if one.n > 1]
        if not groups:
            return None
        labelled = [one for one in groups if one.gold is not None]
        sizes = [one.n for one in groups]
        rewards = [end for one in groups for end in (one.best, one.worst)]
        bounds = UNIT if all(0 <= reward <= 1 for reward in rewards) else None
        return GroupSummary(
            n=len(groups),
            smallest=min(sizes),
            largest=max(sizes),
            collapsed=mean_interval([float(one.best - one.worst <= SAME) for one in groups], bounds=UNIT),
            spread=mean_interval([math.sqrt(one.squares / (one.n - 1)) for one in groups], bounds=(0.0, math.inf)),
            best=mean_interval([one.best for one in groups], bounds=bounds),
            worst=mean_interval([one.worst for one in groups], bounds=bounds),
            majority=mean_interval([one.majority for one in labelled], bounds=UNIT),
            right_within=_right_within(self._groups.values()) if labelled else {},
        )


def _right_within(groups: Iterable[_Group]) -> dict[int, Estimate]:
    known = [(one.n, one.right) for one in groups if one.gold is not None]
    found = {}
    k, largest = 1, max((n for n, _ in known), default=0)
    while k <= largest:
        found[k] = mean_interval([chance_within(n, right, k) for n, right in known if n >= k], bounds=UNIT)
        k *= 2
    return {k: one for k, one in found.items() if one != NO_DATA}


def chance_within(n: int, right: int, k: int) -> float:
    """The unbiased estimate of the chance that at least one of `k` samples is right, when `right` of `n` were.

    1 - C(n - right, k) / C(n, k): pass@k of Chen et al. 2021, "Evaluating Large Language Models Trained on Code".
    Raises ValueError unless 0 <= right <= n and 1 <= k <= n.
    """
    if not (0 <= right <= n and 1 <= k <= n):
        raise ValueError(f"{k} of {n} samples, of which {right} are right")
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
    first; fault: the first one's message. components: in their own ranges. earned: component ->
    what it added to the reward on average, gates included; these add up to the reward. weights and gates (mean
    factors by component) are those of the reports. recall: gold label -> share of its episodes that got this label.
    accuracy and macro_recall are empty, and confusion None, where tasks have no gold label. turns: per episode.
    malformed: share of actions that were no valid call. stops: reason -> episodes. usage: None when no record says what
    it took. groups: None unless tasks were sampled several times.
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


def summarise(
    episodes: Iterable[Mapping[str, Any]], prices: PriceTable | None = None, *, model: str | None = None
) -> RunSummary:
    """Summarise the records of one run, in one pass and without keeping them.

    prices: turns tokens into money. model: the agent's model by the manifest, for turns that do not name theirs. Each
    task and sample must come once: an error that was played again is left out by whoever reads the run.
    """
    tally = _Tally(usage=UsageTally(prices, model))
    for episode in episodes:
        tally.add(episode)
    return tally.summary()


@dataclass(slots=True)
class _Labels:
    """Gold labels against submitted ones."""

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    right: Series = field(default_factory=Series)
    by_gold: dict[str, Series] = field(default_factory=dict)
    false_supported: Series = field(default_factory=Series)

    def add(self, task: int, gold: str | None, said: str | None) -> None:
        if gold is None:
            return
        self.pairs[(gold, said or NO_VERDICT)] += 1
        self.right.add(task, float(gold == said))
        self.by_gold.setdefault(gold, Series()).add(task, float(gold == said))
        if gold not in _SUPPORTED:
            self.false_supported.add(task, float(said in _SUPPORTED))

    def recall(self) -> dict[str, Estimate]:
        return {gold: self.by_gold[gold].mean(UNIT) for gold in labels_in_order(self.by_gold)}


@dataclass(slots=True)
class _Tally:
    """Everything that a summary needs of the episodes seen so far: some numbers of each."""

    usage: UsageTally
    groups: GroupTally = field(default_factory=GroupTally)
    names: Counter[tuple[str, int | None, str]] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    places: dict[str, int] = field(default_factory=dict)
    scored_tasks: set[int] = field(default_factory=set)
    n: int = 0
    errors: int = 0
    unscored: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    fault: str | None = None
    rewards: Series = field(default_factory=Series)
    components: dict[str, Series] = field(default_factory=dict)
    grounding: Series = field(default_factory=Series)
    earned: dict[str, float] = field(default_factory=dict)
    gates: dict[str, Series] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    labels: _Labels = field(default_factory=_Labels)
    turns: Series = field(default_factory=Series)
    malformed: Series = field(default_factory=Series)
    stops: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, episode: Mapping[str, Any]) -> None:
        self.n += 1
        version = episode.get("version")
        known = version if isinstance(version, int) else None
        self.names[(str(episode.get("env")), known, str(episode.get("agent")))] += 1
        if episode.get("split"):
            self.splits[str(episode["split"])] += 1
        self.stops[str(episode.get("stop"))] += 1
        task = self.places.setdefault(str(episode.get("task")), len(self.places))
        self.usage.add(task, episode)
        if has_fault(episode):
            self._add_fault(episode)
        elif not is_scored(episode):
            self.unscored += 1
        else:
            self._add_scores(task, episode)
            self._add_turns(task, episode["turns"])

    def _add_fault(self, episode: Mapping[str, Any]) -> None:
        cause, message = fault_of(episode)
        self.errors += 1
        self.causes[cause] += 1
        self.fault = self.fault or message or None

    def _add_scores(self, task: int, episode: Mapping[str, Any]) -> None:
        reward, total = episode["reward"], float(episode["reward"]["total"])
        self.scored_tasks.add(task)
        self.rewards.add(task, total)
        for group, series in (("components", self.components), ("gates", self.gates)):
            for name, value in (reward.get(group) or {}).items():
                if (known := number(value)) is not None:
                    series.setdefault(name, Series()).add(task, known)
        for name, share in shares(reward).items():
            self.earned[name] = self.earned.get(name, 0.0) + share
        self.weights.update(reward.get("weights") or {})
        parts = reward.get("components") or {}
        evidence, quote = number(parts.get("evidence")), number(parts.get("quote"))
        if evidence is not None and quote is not None:
            self.grounding.add(task, (evidence + quote) / 2)
        gold, said = gold_of(episode), verdict_of(episode)
        self.labels.add(task, gold, said)
        self.groups.add(task, total, gold, said)

    def _add_turns(self, task: int, turns: Sequence[Mapping[str, Any]]) -> None:
        self.turns.add(task, len(turns))
        self.malformed.add(task, sum(is_malformed(turn) for turn in turns), len(turns))
        for turn in turns:
            for call in turn.get("calls") or ():
                name = _UNKNOWN_TOOL if call.get("error") == "unknown_tool" else str(call.get("tool"))
                self.calls[name] += 1
                self.refused[name] += bool(call.get("error"))

    def summary(self) -> RunSummary:
        (env, version, agent), _ = self.names.most_common(1)[0] if self.names else (("", None, ""), 0)
        components = {name: one.scaled_mean() for name, one in self.components.items()}
        recall = self.labels.recall()
        accuracy, macro = self.labels.right.mean(UNIT), macro_interval(list(recall.values()))
        malformed = self.malformed.share()
        return RunSummary(
            env=env,
            version=version,
            agent=agent,
            splits=tuple(sorted(self.splits)),
            n=self.n,
            scored=len(self.rewards),
            errors=self.errors,
            unscored=self.unscored,
            tasks=len(self.scored_tasks),
            causes=dict(self.causes.most_common()),
            fault=self.fault,
            reward=self.rewards.scaled_mean(),
            histogram=histogram(self.rewards.values),
            components=components,
            earned={name: total / len(self.rewards) for name, total in self.earned.items()},
            weights=dict(self.weights),
            gates={name: one.scaled_mean() for name, one in self.gates.items()},
            accuracy=accuracy,
            recall=recall,
            macro_recall=macro,
            confusion=_confusion(self.labels.pairs),
            turns=self.turns.mean(),
            malformed=malformed,
            stops=dict(sorted(self.stops.items())),
            tools=self._tools(),
            surfaces=separate(
                components,
                grounding=self.grounding.mean(UNIT),
                malformed=malformed,
                accuracy=accuracy,
                macro_recall=macro,
                false_supported=self.labels.false_supported.mean(UNIT),
            ),
            usage=self.usage.summary(),
            groups=self.groups.summary(),
        )

    def _tools(self) -> tuple[ToolUse, ...]:
        ordered = sorted(self.calls.items(), key=lambda item: (item[0] == _UNKNOWN_TOOL, -item[1], item[0]))
        return tuple(ToolUse(name, count, self.refused[name]) for name, count in ordered)


def histogram(values: Sequence[float], bins: int = HISTOGRAM_BINS) -> Histogram:
    """Counts in `bins` equal bins over [0, 1], or over a wider range where values leave it."""
    low, high = min([0.0, *values]), max([1.0, *values])
    counts = [0] * bins
    for value in values:
        # A total such as 0.55 may lie a rounding error under the edge that it stands on.
        counts[min(bins - 1, int((value - low) / (high - low) * bins + 1e-9))] += 1
    return Histogram(low, high, tuple(counts))


def _confusion(pairs: Mapping[tuple[str, str], int]) -> Confusion | None:
    if not pairs:
        return None
    golds = labels_in_order(gold for gold, _ in pairs)
    said = labels_in_order([*golds, *(one for _, one in pairs if one != NO_VERDICT)])
    if any(one == NO_VERDICT for _, one in pairs):
        said = (*said, NO_VERDICT)
    counts = tuple(tuple(pairs.get((gold, one), 0) for one in said) for gold in golds)
    return Confusion(golds, said, counts)
