"""What a run came to: episodes in, numbers with intervals out.

Pure: no files, no printing. Episodes that an infrastructure fault ended, or that were not scored, are counted and
left out of every score; an episode that ran out of turns is a result like any other. The interval of every number is
over episodes (see `intervals`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from factgym.benchmarks.intervals import Estimate, macro_interval, mean_interval, ratio_interval, wilson
from factgym.benchmarks.surfaces import Surface, separate
from factgym.corpora.claims import VERDICTS

NO_VERDICT = "none"
"""How a missing verdict is written among the predictions: nothing valid was submitted."""

HISTOGRAM_BINS = 20

_MALFORMED_CALLS = frozenset({"unknown_tool", "invalid_arguments"})
_UNKNOWN_TOOL = "(no such tool)"


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of episodes, `counts[i][j]` with gold label `golds[i]` and submitted label `predictions[j]`."""

    golds: tuple[str, ...]
    predictions: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


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

    n: episodes of any outcome; scored + errors + unscored = n. components: in their own ranges. earned: component ->
    what it added to the reward on average, gates included; these add up to the reward. weights and gates (mean
    factors by component) are those of the reports. recall: gold label -> share of its episodes that got this label.
    accuracy and macro_recall are empty, and confusion None, where tasks have no gold label. turns: per episode.
    malformed: share of actions that were no valid call. stops: reason -> episodes.
    """

    env: str
    version: int | None
    agent: str
    splits: tuple[str, ...]
    n: int
    scored: int
    errors: int
    unscored: int
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
    fault: str | None = None
    """The first infrastructure fault, in its own words."""


def is_scored(episode: Mapping[str, Any]) -> bool:
    """Whether an episode counts: a report with a total, and no fault of the infrastructure."""
    reward = episode.get("reward") or {}
    return reward.get("status") == "scored" and _number(reward.get("total")) is not None and not has_fault(episode)


def has_fault(episode: Mapping[str, Any]) -> bool:
    """Whether the infrastructure, not the policy, ended the episode."""
    reward = episode.get("reward") or {}
    return bool(episode.get("error")) or episode.get("stop") == "error" or reward.get("status") == "error"


def summarise(episodes: Iterable[Mapping[str, Any]]) -> RunSummary:
    """Summarise the records of one run, in one pass and without keeping them."""
    tally = _Tally()
    for episode in episodes:
        tally.add(episode)
    return tally.summary()


def labels_in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """The distinct labels: verdicts in their own order, others after them by name."""
    found = set(labels)
    known = [label for label in VERDICTS if label in found]
    return (*known, *sorted(found.difference(known)))


@dataclass(slots=True)
class _Tally:
    """Everything that a summary needs of the episodes seen so far."""

    names: Counter[tuple[str, int | None, str]] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    n: int = 0
    errors: int = 0
    unscored: int = 0
    fault: str | None = None
    rewards: list[float] = field(default_factory=list)
    components: dict[str, list[float]] = field(default_factory=dict)
    earned: dict[str, list[float]] = field(default_factory=dict)
    gates: dict[str, list[float]] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    turns: list[float] = field(default_factory=list)
    malformed: list[float] = field(default_factory=list)
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
        if has_fault(episode):
            self.errors += 1
            reason = episode.get("error") or (episode.get("reward") or {}).get("error")
            self.fault = self.fault or (str(reason) if reason else None)
        elif not is_scored(episode):
            self.unscored += 1
        else:
            self._add_scores(episode["reward"])
            self._add_turns(episode["turns"])

    def _add_scores(self, reward: Mapping[str, Any]) -> None:
        self.rewards.append(float(reward["total"]))
        for group, values in (("components", self.components), ("gates", self.gates)):
            for name, value in (reward.get(group) or {}).items():
                if (number := _number(value)) is not None:
                    values.setdefault(name, []).append(number)
        for name, share in shares(reward).items():
            self.earned.setdefault(name, []).append(share)
        self.weights.update(reward.get("weights") or {})
        metrics = reward.get("metrics") or {}
        gold = metrics.get("gold_verdict")
        if isinstance(gold, str):
            self.pairs[(gold, str(metrics.get("verdict") or NO_VERDICT))] += 1

    def _add_turns(self, turns: Sequence[Mapping[str, Any]]) -> None:
        self.turns.append(float(len(turns)))
        self.malformed.append(float(sum(is_malformed(turn) for turn in turns)))
        for turn in turns:
            for call in turn.get("calls") or ():
                name = _UNKNOWN_TOOL if call.get("error") == "unknown_tool" else str(call.get("tool"))
                self.calls[name] += 1
                self.refused[name] += bool(call.get("error"))

    def summary(self) -> RunSummary:
        (env, version, agent), _ = self.names.most_common(1)[0] if self.names else (("", None, ""), 0)
        components = {name: mean_interval(values, bounds=_bounds(values)) for name, values in self.components.items()}
        recall = self._recall()
        accuracy = _accuracy(self.pairs)
        macro = macro_interval(list(recall.values()))
        malformed = ratio_interval(self.malformed, self.turns)
        return RunSummary(
            env=env,
            version=version,
            agent=agent,
            splits=tuple(sorted(self.splits)),
            n=self.n,
            scored=len(self.rewards),
            errors=self.errors,
            unscored=self.unscored,
            reward=mean_interval(self.rewards, bounds=_bounds(self.rewards)),
            histogram=histogram(self.rewards),
            components=components,
            earned={name: sum(values) / len(self.rewards) for name, values in self.earned.items()},
            weights=dict(self.weights),
            gates={name: mean_interval(values, bounds=_bounds(values)) for name, values in self.gates.items()},
            accuracy=accuracy,
            recall=recall,
            macro_recall=macro,
            confusion=_confusion(self.pairs),
            turns=mean_interval(self.turns),
            malformed=malformed,
            stops=dict(sorted(self.stops.items())),
            tools=self._tools(),
            surfaces=separate(
                components,
                grounding=self._grounding(),
                malformed=malformed,
                accuracy=accuracy,
                macro_recall=macro,
                false_supported=_false_supported(self.pairs),
            ),
            fault=self.fault,
        )

    def _recall(self) -> dict[str, Estimate]:
        golds = Counter[str]()
        for (gold, _), count in self.pairs.items():
            golds[gold] += count
        return {gold: wilson(self.pairs[(gold, gold)], golds[gold]) for gold in labels_in_order(golds)}

    def _grounding(self) -> Estimate:
        evidence, quote = self.components.get("evidence", []), self.components.get("quote", [])
        if len(evidence) != len(quote):
            return mean_interval([])
        return mean_interval([(e + q) / 2 for e, q in zip(evidence, quote, strict=True)], bounds=(0.0, 1.0))

    def _tools(self) -> tuple[ToolUse, ...]:
        ordered = sorted(self.calls.items(), key=lambda item: (item[0] == _UNKNOWN_TOOL, -item[1], item[0]))
        return tuple(ToolUse(name, count, self.refused[name]) for name, count in ordered)


def is_malformed(turn: Mapping[str, Any]) -> bool:
    """Whether an action was no valid call: unreadable, to a tool that does not exist, or outside its schema.

    A well-formed call that a tool refused (there is no such passage) is not malformed.
    """
    codes = {call.get("error") for call in turn.get("calls") or ()}
    error = turn.get("error")
    return bool(codes & _MALFORMED_CALLS) or (error is not None and error not in codes)


def shares(reward: Mapping[str, Any]) -> dict[str, float]:
    """What each weighted component added to the total of one report: weight times value times gate."""
    components, gates = reward.get("components") or {}, reward.get("gates") or {}
    found = {}
    for name, weight in (reward.get("weights") or {}).items():
        value = _number(components.get(name))
        if value is not None and _number(weight) is not None:
            gate = _number(gates.get(name))
            found[name] = float(weight) * value * (1.0 if gate is None else gate)
    return found


def histogram(values: Sequence[float], bins: int = HISTOGRAM_BINS) -> Histogram:
    """Counts in `bins` equal bins over [0, 1], or over a wider range where values leave it."""
    low, high = min([0.0, *values]), max([1.0, *values])
    counts = [0] * bins
    for value in values:
        # A total such as 0.55 may lie a rounding error under the edge that it stands on.
        counts[min(bins - 1, int((value - low) / (high - low) * bins + 1e-9))] += 1
    return Histogram(low, high, tuple(counts))


def _accuracy(pairs: Mapping[tuple[str, str], int]) -> Estimate:
    return wilson(sum(count for (gold, said), count in pairs.items() if gold == said), sum(pairs.values()))


def _false_supported(pairs: Mapping[tuple[str, str], int]) -> Estimate:
    open_to_it = {pair: count for pair, count in pairs.items() if pair[0] != "supported"}
    return wilson(
        sum(count for (_, said), count in open_to_it.items() if said == "supported"), sum(open_to_it.values())
    )


def _confusion(pairs: Mapping[tuple[str, str], int]) -> Confusion | None:
    if not pairs:
        return None
    golds = labels_in_order(gold for gold, _ in pairs)
    said = labels_in_order([*golds, *(one for _, one in pairs if one != NO_VERDICT)])
    if any(one == NO_VERDICT for _, one in pairs):
        said = (*said, NO_VERDICT)
    counts = tuple(tuple(pairs.get((gold, one), 0) for one in said) for gold in golds)
    return Confusion(golds, said, counts)


def _bounds(values: Sequence[float]) -> tuple[float, float] | None:
    """[0, 1] when no value leaves it; nothing is known of other scales."""
    return (0.0, 1.0) if all(0 <= value <= 1 for value in values) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
