"""Whether the episodes that the infrastructure lost differ from the scored ones, so that scores lean to the others.

Two questions, each with a test at level `LEVEL`. Were some kinds of tasks lost more often? A permutation test of the
chi-square statistic, tasks as units, with Bonferroni's correction for the number of kinds of strata. Were long episodes
lost more often? A lost episode would have had at least one turn more than it has, so that its length is censored; the
Kaplan-Meier estimate counts it as such, and a bootstrap over tasks says whether the scored ones alone are shorter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factgym.benchmarks.formats import decimal, p_value, percent
from factgym.benchmarks.records import has_fault, is_scored, items, members
from factgym.benchmarks.statistics.bootstrap import bootstrap, sample_of

LEVEL = 0.01
"""Level of both tests: a notice beside scores must be rare where nothing is wrong."""

SHORTER = 0.01
"""The scored episodes are said to be shorter where they are by more than this share of the mean."""

_RESAMPLES = 2_000
_MAX_STRATA = 40
_MAX_LABEL = 80
_MAX_LENGTH = 200
_IN_GOLD = ("verdict", "error_type")
_IN_VIEW = ("hops", "task_type", "benchmark")
_IN_META = ("kind", "relation")
_SIZES = ("short", "medium", "long")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StratumLosses:
    """Losses by the values of a property of tasks, `name`. p: corrected. lost: value -> lost episodes and all of them."""

    name: str
    p: float
    lost: Mapping[str, tuple[int, int]]

    @property
    def differs(self) -> bool:
        """Whether the shares of lost episodes differ."""
        return self.p < LEVEL


@dataclass(frozen=True, slots=True)
class LengthLosses:
    """Mean turns of the scored episodes, and of all by Kaplan and Meier. least: lower bound of the shortfall's share."""

    scored: float
    estimated: float
    least: float

    @property
    def differs(self) -> bool:
        """Whether the scored episodes are shorter than all."""
        return self.least > SHORTER


@dataclass(frozen=True, slots=True)
class Losses:
    """Comparison of the lost and the scored episodes of a run. lost: episodes. length: None without turns."""

    lost: int
    strata: tuple[StratumLosses, ...]
    length: LengthLosses | None

    @property
    def differ(self) -> bool:
        """Whether any difference was found."""
        return any(stratum.differs for stratum in self.strata) or (self.length is not None and self.length.differs)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        return {"differ": self.differ, **asdict(self)}

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for people about each difference."""
        length = self.length
        if length is not None and length.differs:
            yield (
                f"Lost episodes are longer than scored ones: {decimal(length.scored, 2)} turns where scored, "
                f"{decimal(length.estimated, 2)} with the lost ones counted as cut off (Kaplan-Meier). The scores lean to short episodes."
            )
        for stratum in self.strata:
            if stratum.differs:
                by_share = sorted(stratum.lost, key=lambda value: stratum.lost[value][0] / stratum.lost[value][1])
                low, high = by_share[0], by_share[-1]
                shares = (
                    f"{percent(stratum.lost[value][0] / stratum.lost[value][1])} of {value!r}" for value in (high, low)
                )
                yield (
                    f"Lost episodes differ from scored ones in {stratum.name} (permutation test, p = {p_value(stratum.p)}): "
                    f"lost are {', but '.join(shares)}. The scores lean to the latter."
                )


@dataclass(slots=True)
class LossTally:
    """Everything that the comparison needs of the episodes seen so far: a few numbers of each."""

    tasks: dict[str, int] = field(default_factory=dict)
    strata: list[dict[str, str]] = field(default_factory=list)  # property -> value of each task
    sizes: list[int] = field(default_factory=list)
    outcomes: list[tuple[int, bool, int]] = field(default_factory=list)  # task, whether lost, turns

    def add(self, episode: Mapping[str, Any]) -> None:
        """Count a lost or scored episode; others are left out."""
        lost = has_fault(episode)
        if not lost and not is_scored(episode):
            return
        task = self.tasks.setdefault(str(episode.get("task")), len(self.tasks))
        if task == len(self.strata):
            view = members(episode.get("task_view"))
            self.strata.append(_strata(view))
            # The characters that a policy may have to read: question, answer and passages.
            texts = [view.get("question"), view.get("answer"), members(view.get("document")).get("text")]
            texts += [members(passage).get("text") for passage in items(view.get("passages"))]
            self.sizes.append(sum(len(text) for text in texts if isinstance(text, str)))
        self.outcomes.append((task, lost, min(len(items(episode.get("turns"))), _MAX_LENGTH)))

    def losses(self) -> Losses | None:
        """Return the comparison; None where nothing was lost, or nothing scored."""
        lost = sum(is_lost for _, is_lost, _ in self.outcomes)
        if not lost or lost == len(self.outcomes):
            return None
        columns = dict(self._columns())
        totals, losses = np.zeros(len(self.tasks)), np.zeros(len(self.tasks))
        for task, is_lost, _ in self.outcomes:
            totals[task] += 1
            losses[task] += is_lost
        strata = []
        for name, values in columns.items():
            p = min(1.0, len(columns) * stratum_p_value(losses, totals, values))
            every = Counter(values[task] for task, _, _ in self.outcomes)
            gone = Counter(values[task] for task, is_lost, _ in self.outcomes if is_lost)
            strata.append(StratumLosses(name, p, {value: (gone[value], every[value]) for value in sorted(every)}))
        return Losses(lost, tuple(strata), length_losses(self.outcomes))

    def _columns(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the properties that all tasks have and that vary, with the value of each task."""
        for name in dict.fromkeys(name for strata in self.strata for name in strata):
            values = [strata.get(name, "none") for strata in self.strata]
            if 1 < len(set(values)) <= _MAX_STRATA:
                yield name, values
        if len(set(self.sizes)) > 1:
            bounds = np.quantile(self.sizes, (1 / 3, 2 / 3))
            sizes = [_SIZES[int(np.searchsorted(bounds, size))] for size in self.sizes]
            if len(set(sizes)) > 1:
                yield "length of the task's texts", sizes


def find_losses(episodes: Iterable[Mapping[str, Any]]) -> Losses | None:
    """Compare the lost and the scored episodes of a run; None where nothing was lost, or nothing scored."""
    tally = LossTally()
    for episode in episodes:
        tally.add(episode)
    return tally.losses()


def _strata(view: Mapping[str, Any]) -> dict[str, str]:
    gold = members(view.get("gold"))
    return {
        f"gold {name}" if part is gold else name.replace("_", " "): str(part[name])[:_MAX_LABEL]
        for part, names in ((view, _IN_VIEW), (gold, _IN_GOLD), (members(gold.get("meta")), _IN_META))
        for name in names
        if isinstance(part.get(name), (str, int))
    }


def stratum_p_value(lost: Floats, totals: Floats, values: Sequence[str]) -> float:
    """Test whether losses are independent of a property of tasks; return p of the permutation test.

    lost, totals: shape (tasks,), episodes of each task. values: of the property. The statistic is Pearson's chi-square
    of lost by value. Values are permuted over tasks, so that samples of one task stay together.
    """
    _, codes = np.unique(np.asarray(values), return_inverse=True)
    width, share = int(codes.max()) + 1, lost.sum() / totals.sum()

    def statistic(codes: NDArray[np.int64]) -> float:
        expected = share * np.bincount(codes, totals, width)
        return float(((np.bincount(codes, lost, width) - expected) ** 2 / expected).sum())

    rng = np.random.default_rng(0)
    observed = statistic(codes) * (1 - 1e-9)  # equal tables in another order of addition are equal
    reached = sum(statistic(rng.permutation(codes)) >= observed for _ in range(_RESAMPLES))
    # Phipson and Smyth (2010): the observed order is one of the permutations, so that p is never 0.
    return (reached + 1) / (_RESAMPLES + 1)


def length_losses(outcomes: Sequence[tuple[int, bool, int]]) -> LengthLosses | None:
    """Compare the mean turns of scored episodes with the estimate for all; None for fewer than two tasks.

    outcomes: task, whether lost, turns. The lower bound is that of a one-sided BCa interval over tasks, level `LEVEL`.
    """
    width = max(turns for _, _, turns in outcomes) + 1
    rows = np.zeros((len(outcomes), 2 * width))
    for row, (_, lost, turns) in zip(rows, outcomes, strict=True):
        row[lost * width + turns] = 1
    sample = sample_of(rows, [task for task, _, _ in outcomes])
    if sample.n < 2:
        return None
    test = bootstrap(sample, _shortfall, resamples=_RESAMPLES)
    scored, estimated = mean_lengths(sample.sums())
    return LengthLosses(float(scored), float(estimated), float(test.interval(1 - 2 * LEVEL).low or 0.0))


def _shortfall(sums: Floats) -> Floats:
    """Return the share of the mean length by which the scored episodes are shorter; 0 where nothing is scored."""
    scored, estimated = mean_lengths(sums)
    return np.divide(estimated - scored, estimated, out=np.zeros_like(scored), where=(estimated > 0) & (scored > 0))


def mean_lengths(sums: Floats) -> tuple[Floats, Floats]:
    """Mean length of the scored, and Kaplan and Meier's estimate (1958) for all, of each table.

    sums: shape (…, 2 L + 2), scored and then lost episodes with 0 to L turns. A lost episode has more turns than it was
    lost with; at L it counts as ended (Efron 1967). 0 for a table without scored episodes.
    """
    scored, lost = np.split(sums, 2, axis=-1)
    total = scored.sum(-1)
    plain = np.divide(scored @ np.arange(scored.shape[-1]), total, out=np.zeros_like(total), where=total > 0)
    # Of those with at least t turns, a share ends at t. E(length) is the sum of P(length > t) over t.
    at_risk = np.cumsum((scored + lost)[..., ::-1], axis=-1)[..., ::-1]
    ends = np.divide(scored, at_risk, out=np.zeros_like(scored), where=at_risk > 0)
    return plain, np.cumprod(1 - ends, axis=-1)[..., :-1].sum(-1)
