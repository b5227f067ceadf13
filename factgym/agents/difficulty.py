"""Difficulty filtering: from several samples of each question to the questions worth training on (CorVer, Table 11).

A `Rule` decides whether an episode is correct, a `DifficultyBand` which numbers of correct samples are retained, and
`select` applies both to the episodes of a run.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Self

from factgym.core.errors import ConfigError
from factgym.core.seeds import derive

SAMPLES = 16
"""G of the paper."""

SAMPLING: Mapping[str, Any] = {"temperature": 0.7, "top_p": 0.95, "max_tokens": 512}
"""The paper's sampling for its filter (A.2)."""

LEARNING, ANCHOR = "learning", "anchor"
GOOD = "good"

_MAX_LISTED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class DifficultyBand:
    """The condition under which a question is retained.

    samples: G, at least 2. low, high: retained when low <= n_correct <= high; high is G - 1 by default. anchors: how
    many questions that are always correct (n_correct = G) are retained besides, drawn by `seed`; all of them where
    there are fewer. Which of two questions is drawn first does not depend on the rest of the pool.
    """

    samples: int = SAMPLES
    low: int = 1
    high: int | None = None
    anchors: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ConfigError(f"a group needs at least 2 samples, not {self.samples}")
        if not 0 <= self.low <= self.upper <= self.samples:
            raise ConfigError(f"keep {self.low}:{self.upper} is no range within 0:{self.samples}")
        if self.anchors < 0:
            raise ConfigError(f"anchors must be 0 or more, not {self.anchors}")
        if self.anchors and self.upper == self.samples:
            raise ConfigError(f"keep {self.low}:{self.upper} keeps every anchor already: leave the anchors out")

    @property
    def upper(self) -> int:
        """The highest number of correct samples that is retained."""
        return self.samples - 1 if self.high is None else self.high

    def contains(self, correct: int) -> bool:
        """Whether a question with this many correct samples is retained."""
        return self.low <= correct <= self.upper

    @classmethod
    def parse(cls, keep: str | None = None, *, samples: int = SAMPLES, anchors: int = 0, seed: int = 0) -> Self:
        """Read `LOW:HIGH`, such as 1:15; by default 1 to G - 1. Raises ConfigError for other texts."""
        if keep is None:
            return cls(samples=samples, anchors=anchors, seed=seed)
        match = re.fullmatch(r"([0-9]{1,6}):([0-9]{1,6})", keep.strip())
        if match is None:
            raise ConfigError(f"the band is LOW:HIGH, such as 1:{samples - 1}, not {keep!r:.80}")
        return cls(samples=samples, low=int(match[1]), high=int(match[2]), anchors=anchors, seed=seed)

    def to_dict(self) -> dict[str, int]:
        """Plain JSON data."""
        return asdict(self) | {"high": self.upper}


@dataclass(frozen=True, slots=True)
class Buckets:
    """A pool of questions by how many of their samples are correct.

    histogram: `histogram[c]` questions with exactly c correct of G. retained: those inside the band. anchors: retained
    besides. incomplete: questions with fewer than G scored samples; they are in no bucket.
    """

    histogram: tuple[int, ...]
    retained: int
    anchors: int = 0
    incomplete: int = 0

    @property
    def never(self) -> int:
        """Questions with n_correct = 0."""
        return self.histogram[0]

    @property
    def always(self) -> int:
        """Questions with n_correct = G."""
        return self.histogram[-1]

    @property
    def between(self) -> int:
        """Questions with n_correct from 1 to G - 1: the learning zone."""
        return sum(self.histogram[1:-1])

    @property
    def pool(self) -> int:
        """Questions in the buckets: the denominator of `share`."""
        return sum(self.histogram)

    @property
    def share(self) -> float | None:
        """The share of the pool that is retained, anchors apart; None for an empty pool."""
        return self.retained / self.pool if self.pool else None

    @property
    def solved(self) -> float | None:
        """The share of all samples that are correct; None for an empty pool."""
        samples = len(self.histogram) - 1
        correct = sum(count * questions for count, questions in enumerate(self.histogram))
        return correct / (samples * self.pool) if self.pool else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        names = ("never", "between", "always", "pool", "retained", "share", "anchors", "incomplete")
        return {name: getattr(self, name) for name in names} | {"histogram": list(self.histogram)}


Test = Callable[[Mapping[str, Any]], bool | None]
"""From a scored reward report to correct, wrong, or None where the report lacks the metric."""

_RULE = re.compile(r"([A-Za-z_][\w.-]*)\s*(?:(>=|<=|==|=|>|<)\s*(.*))?")
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
)


@dataclass(frozen=True, slots=True)
class Rule:
    """Decides whether an episode is correct. name: the text it was made from, see `find_rule`."""

    name: str
    test: Test

    def __call__(self, episode: Mapping[str, Any]) -> bool | None:
        """Correct or wrong; None for an episode record that was not scored or lacks the metric."""
        reward = episode.get("reward")
        if episode.get("error") is not None or not isinstance(reward, Mapping):
            return None
        if reward.get("status") != "scored" or _measured(reward.get("total")) is None:
            return None
        return self.test(reward)


def find_rule(text: str = "auto") -> Rule:
    """The rule of a text. Raises ConfigError for a text that is none.

    | text | correct when |
    | --- | --- |
    | `auto` | the report decides: `label` is "good", else `correct` is true, else the verdict is the gold one |
    | `label` | the grader's label is "good" |
    | `verdict` | the submitted verdict is the gold one |
    | `reward>=0.5` | the total is at least that; `>`, `<=`, `<` and `=` as well |
    | `NAME` | the metric of that name is true |
    | `NAME>=0.5`, `NAME=text` | the metric or component of that name compares so |

    An episode that lacks the metric, or that was not scored, is neither correct nor wrong.
    """
    if text in _NAMED_TESTS:
        return Rule(text, _NAMED_TESTS[text])
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"{text!r:.80} is no rule of correctness: give auto, label, verdict, reward>=0.5, NAME or NAME>=VALUE"
        )
    name, sign, expected = match.groups()
    if sign is None and name == "reward":
        raise ConfigError("the reward alone is not right or wrong: give a threshold, such as reward>=0.5")
    limit = _finite_number(expected) if sign in _COMPARISONS else None
    if sign in _COMPARISONS and limit is None:
        raise ConfigError(f"{text!r:.80} compares with {expected!r:.40}, which is no number")

    if sign is None:
        return Rule(text, lambda reward: _flag(_metrics(reward).get(name)))
    if limit is None:
        return Rule(text, lambda reward: _equals(_value(reward, name), expected))

    def compare(reward: Mapping[str, Any]) -> bool | None:
        number = _measured(_value(reward, name))
        return None if number is None else _COMPARISONS[sign](number, limit)

    return Rule(text, compare)


def _value(reward: Mapping[str, Any], name: str) -> Any:
    """The total, or the metric or component of that name."""
    components = reward.get("components")
    values = {**(components if isinstance(components, Mapping) else {}), **_metrics(reward)}
    return reward.get("total") if name == "reward" else values.get(name)


def _equals(value: Any, expected: str) -> bool | None:
    if value is None:
        return None
    if (number := _measured(value)) is not None:
        return number == _finite_number(expected)
    return (str(value).lower() if isinstance(value, bool) else str(value)) == expected


def _by_label(reward: Mapping[str, Any]) -> bool | None:
    label = _metrics(reward).get("label")
    return label == GOOD if isinstance(label, str) else None


def _by_verdict(reward: Mapping[str, Any]) -> bool | None:
    metrics = _metrics(reward)
    gold = metrics.get("gold_verdict")
    # An episode that ended without a verdict is wrong; an environment without verdicts has no such metric.
    return metrics.get("verdict") == gold if isinstance(gold, str) and "verdict" in metrics else None


def _by_any(reward: Mapping[str, Any]) -> bool | None:
    outcomes = (_by_label(reward), _flag(_metrics(reward).get("correct")), _by_verdict(reward))
    return next((outcome for outcome in outcomes if outcome is not None), None)


_NAMED_TESTS: Mapping[str, Test] = MappingProxyType({"auto": _by_any, "label": _by_label, "verdict": _by_verdict})


def _metrics(reward: Mapping[str, Any]) -> Mapping[str, Any]:
    metrics = reward.get("metrics")
    return metrics if isinstance(metrics, Mapping) else {}


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _measured(value: Any) -> float | None:
    return _finite_number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _finite_number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@dataclass(slots=True)
class Group:
    """The samples of one task.

    index: of the task in its environment. correct, scored: samples. errors: ended by the infrastructure. unscored:
    others that the rule says nothing about.
    """

    task: str
    index: int
    correct: int = 0
    scored: int = 0
    errors: int = 0
    unscored: int = 0


@dataclass(frozen=True, slots=True)
class Selection:
    """The outcome of a filter.

    retained: task id -> `LEARNING` or `ANCHOR`, in the order of the task set. notes: sentences for people.
    """

    band: DifficultyBand
    rule: str
    groups: Mapping[str, Group]
    retained: Mapping[str, str]
    buckets: Buckets
    notes: tuple[str, ...] = ()

    @property
    def incomplete(self) -> list[Group]:
        """Questions with fewer than G scored samples."""
        return [group for group in self.groups.values() if group.scored < self.band.samples]


def select(
    episodes: Iterable[Mapping[str, Any]], band: DifficultyBand | None = None, rule: Rule | None = None
) -> Selection:
    """Count the correct samples of every task and decide which tasks are retained.

    A fault of the infrastructure, or an episode that was not scored, is never a wrong answer: a question that lacks a
    sample is in no bucket and is not retained until the sample is there. episodes: records of a run without errors
    that were played again (`Run.episodes` leaves them out). Raises ConfigError when the rule says nothing about any
    scored episode, and when a task has more samples than the band's.
    """
    band, rule = band or DifficultyBand(), rule or find_rule()
    groups = _count_samples(episodes, band, rule)
    full = [group for group in groups.values() if group.scored == band.samples]
    learning = {group.task for group in full if band.contains(group.correct)}
    # Bottom-k sampling by hash: each task has a fixed pseudo-random rank of its own, and the lowest ranks are drawn. So
    # a larger number of anchors includes those of a smaller number, and other tasks of the pool change nothing.
    always = [group.task for group in full if group.correct == band.samples]
    anchors = set(sorted(always, key=lambda task: (derive(band.seed, "anchor", task), task))[: band.anchors])
    histogram = [0] * (band.samples + 1)
    for group in full:
        histogram[group.correct] += 1
    buckets = Buckets(tuple(histogram), len(learning), len(anchors), len(groups) - len(full))
    retained = {
        task: LEARNING if task in learning else ANCHOR for task in groups if task in learning or task in anchors
    }
    notes = []
    if unscored := sum(group.unscored for group in groups.values() if group.scored < band.samples):
        notes.append(f"{unscored} samples were played but not scored: nobody knows whether they are right.")
    if band.anchors > len(anchors):
        notes.append(f"Only {len(anchors)} of {band.anchors} anchors: no more questions are always right.")
    return Selection(band, rule.name, groups, retained, buckets, tuple(notes))


def _count_samples(episodes: Iterable[Mapping[str, Any]], band: DifficultyBand, rule: Rule) -> dict[str, Group]:
    """The groups in the order of the task set."""
    groups: dict[str, Group] = {}
    metric_names: set[str] = set()
    for episode in episodes:
        task, index = str(episode["task"]), episode.get("index")
        group = groups.setdefault(task, Group(task, index if isinstance(index, int) else len(groups)))
        outcome = rule(episode)
        if outcome is not None:
            group.scored += 1
            group.correct += outcome
        elif episode.get("error") is not None:
            group.errors += 1
        else:
            group.unscored += 1
            metric_names.update(_metrics(episode.get("reward") or {}))
    samples = {group.task: group.scored + group.errors + group.unscored for group in groups.values()}
    largest = max(samples, key=lambda task: samples[task], default=None)
    if largest is not None and samples[largest] > band.samples:
        raise ConfigError(
            f"task {largest!r:.80} has {samples[largest]} samples, more than the {band.samples} of a group: give -G "
            "as the run was made with"
        )
    undecided = sum(group.unscored for group in groups.values())
    if undecided and not any(group.scored for group in groups.values()):
        names = ", ".join(sorted(metric_names)[:_MAX_LISTED]) or "none"
        raise ConfigError(
            f"the rule {rule.name!r:.80} says nothing about any of the {undecided} episodes: give --correct, such as "
            f"reward>=0.5 or the name of a metric. Their reports have: {names}"
        )
    return dict(sorted(groups.items(), key=lambda item: (item[1].index, item[0])))
