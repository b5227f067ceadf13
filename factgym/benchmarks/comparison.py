"""Two runs of the same tasks, in pairs: where the second is better or worse, and a gate that its differences must pass."""

from __future__ import annotations

import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.formats import decimal, interval, signed
from factgym.benchmarks.losses import Losses, find_losses
from factgym.benchmarks.records import gold_of, is_malformed, is_scored, numbers, verdict_of
from factgym.benchmarks.report import Note, Report, Section, Table, make_table
from factgym.benchmarks.statistics.intervals import UNIT, Bounds, Estimate, paired_interval
from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.paths import read_text

SAME_MEMBERS = ("env", "version", "fingerprints", "prompts", "config", "guests")
"""Members of a manifest that must agree."""
_MAX_DIFFERENCES = 5

TaskValues = tuple[dict[str, dict[str, float]], int]


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of two runs over the tasks that both played. difference: second minus first, by task."""

    name: str
    first: float
    second: float
    difference: Estimate


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Differences by name, the reward's first. tasks: that both have scored; unscored: episodes of each that have no score.

    losses: of each, whether its lost episodes differ from the scored episodes.
    """

    names: tuple[str, str]
    tasks: int
    unscored: tuple[int, int]
    only: tuple[int, int]
    differences: tuple[Difference, ...]
    losses: tuple[Losses | None, Losses | None] = (None, None)

    def find(self, name: str) -> Difference:
        """Return a value's difference by its name. Raises ConfigError."""
        by_name = {row.name: row for row in self.differences}
        if name not in by_name:
            raise ConfigError(
                f"these runs have no {name!r:.60} (known: {', '.join(by_name)}).{did_you_mean(name, by_name)}"
            )
        return by_name[name]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        rows = {
            row.name: {
                "first": row.first,
                "second": row.second,
                "difference": row.difference.value,
                "interval": [row.difference.low, row.difference.high],
                "tasks": row.difference.n,
            }
            for row in self.differences
        }
        return {
            "runs": list(self.names),
            "tasks": self.tasks,
            "unscored": list(self.unscored),
            "losses": [None if part is None else part.to_dict() for part in self.losses],
            "values": rows,
        }


def compare_runs(first: Run, second: Run) -> RunComparison:
    """Compare two runs task by task; the samples of a task count as their mean.

    Values: the reward, its components, `recall LABEL` (whether the verdict is right, on the tasks of that label), turns
    and the share of malformed turns. Intervals are Student's over the paired differences. Raises ConfigError for runs
    that cannot be compared, and where they share no scored task.
    """
    check_comparable(first, second)
    return _paired(first, second, _by_task(first), _by_task(second))


def compare_with_first(runs: Sequence[Run]) -> list[RunComparison | ConfigError]:
    """Compare each further run with the first, reading each once; where they cannot be compared, the error that says why."""
    values = [_by_task(run) for run in runs]
    results: list[RunComparison | ConfigError] = []
    for run, tasks in zip(runs[1:], values[1:], strict=True):
        try:
            check_comparable(runs[0], run)
            results.append(_paired(runs[0], run, values[0], tasks))
        except ConfigError as error:
            results.append(error)
    return results


def _paired(first: Run, second: Run, first_values: TaskValues, second_values: TaskValues) -> RunComparison:
    """Compare two runs on the tasks that both have scored, name by name, with intervals of the paired differences."""
    (a, unscored_a), (b, unscored_b) = first_values, second_values
    common = [task for task in a if task in b]
    if not common:
        raise ConfigError(f"{first.folder} and {second.folder} have no scored task in common: play the same tasks")
    names = dict.fromkeys(name for task in common for name in a[task] if name in b[task])
    rows = []
    for name in sorted(names, key=_rank):
        pairs = [(a[task][name], b[task][name]) for task in common if name in a[task] and name in b[task]]
        old, new = zip(*pairs, strict=True)
        before, after = math.fsum(old) / len(pairs), math.fsum(new) / len(pairs)
        rows.append(Difference(name, before, after, paired_interval(old, new, _bounds(name, first, second))))
    return RunComparison(
        (str(first.folder), str(second.folder)),
        len(common),
        (unscored_a, unscored_b),
        (len(a) - len(common), len(b) - len(common)),
        tuple(rows),
        (_losses(first), _losses(second)),
    )


def _bounds(name: str, first: Run, second: Run) -> Bounds | None:
    """The scale of a value; None for one that nothing declares."""
    if name.startswith("recall ") or name == "malformed turns":
        return UNIT
    if name == "turns":
        limits = [(run.manifest.get("config") or {}).get("max_turns", math.inf) for run in (first, second)]
        return 0.0, float(max(limits))
    return first.reward_bounds if name == "reward" and first.reward_bounds == second.reward_bounds else None


def _losses(run: Run) -> Losses | None:
    return find_losses(run.episodes()) if run.failed else None


def check_comparable(first: Run, second: Run) -> None:
    """Raise ConfigError, with what differs, for runs of other tasks, prompts or settings."""
    for run in (first, second):
        if not run.manifest:
            raise ConfigError(f"{run.folder} has no manifest, so nobody knows what it can be compared with")
    differences = [
        f"{'.'.join(path)} is {_short(a)!r} and {_short(b)!r}"
        for name in SAME_MEMBERS
        for path, a, b in manifest_differences(first.manifest.get(name), second.manifest.get(name), name)
    ]
    if differences:
        more = len(differences) - _MAX_DIFFERENCES
        listed = "; ".join(differences[:_MAX_DIFFERENCES]) + (f"; and {more} more" if more > 0 else "")
        raise ConfigError(
            f"{first.folder} and {second.folder} cannot be compared: {listed}. Play both with the same settings, or score "
            "one again with `factgym rescore`"
        )


def manifest_differences(first: Any, second: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the path and the values of each difference of two members of manifests, at any depth of their tables."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys([*first, *second]):
            yield from manifest_differences(first.get(key), second.get(key), *path, str(key))
    elif first != second:
        yield path, first, second


def _short(value: Any) -> str:
    """The start of a value; of a digest eight characters, which tell it from another."""
    text = str(value)
    return f"{text[:8]}…" if re.fullmatch(r"[0-9a-f]{16,}", text) else text[:60]


def _by_task(run: Run) -> TaskValues:
    """Return task -> value by name, the mean of its samples, and the number of episodes without a score."""
    sums: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    unscored = 0
    for episode in run.episodes():
        if not is_scored(episode):
            unscored += 1
            continue
        for name, value in _values(episode):
            sums[str(episode["task"])][name].append(value)
    means = {
        task: {name: math.fsum(values) / len(values) for name, values in by_name.items()}
        for task, by_name in sums.items()
    }
    return means, unscored


def _values(episode: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    yield "reward", float(episode["reward"]["total"])
    yield from numbers(episode["reward"].get("components")).items()
    if (gold := gold_of(episode)) is not None:
        yield f"recall {gold}", float(verdict_of(episode) == gold)
    turns = episode["turns"]
    yield "turns", float(len(turns))
    if turns:
        yield "malformed turns", sum(map(is_malformed, turns)) / len(turns)


def _rank(name: str) -> tuple[int, str]:
    """Order the reward first, then components, labels and diagnostics."""
    if name == "reward":
        return 0, ""
    return (2 if name.startswith("recall ") else 3 if name in ("turns", "malformed turns") else 1), name


def comparison_table(comparison: RunComparison) -> Table:
    """Return the differences as a table."""
    rows = [
        (
            *(row.name, decimal(row.first), decimal(row.second)),
            *(signed(row.difference.value or 0.0, 3), interval(row.difference), str(row.difference.n)),
        )
        for row in comparison.differences
    ]
    title = f"{comparison.names[1]} beside {comparison.names[0]}, {comparison.tasks} tasks in pairs"
    return make_table(title, ("", "first", "second", "difference", "95 % interval", "tasks"), rows)


def comparison_report(comparisons: Mapping[str, RunComparison]) -> Report:
    """Return the comparisons as a report, a section each."""
    sections = tuple(
        Section(name, (comparison_table(comparison), *_notes(comparison))) for name, comparison in comparisons.items()
    )
    return Report("Comparison of runs", sections)


def _notes(comparison: RunComparison) -> Iterator[Note]:
    for name, unscored, only in zip(comparison.names, comparison.unscored, comparison.only, strict=True):
        if unscored or only:
            yield Note(f"{name}: {unscored} episodes without a score, {only} tasks that the other run has not scored")
    for name, losses in zip(comparison.names, comparison.losses, strict=True):
        yield from (Note(f"{name}: {sentence}") for sentence in (losses.sentences() if losses else ()))


@dataclass(frozen=True, slots=True)
class Limit:
    """A condition of a gate: the interval of the difference of `value` must begin at `least` or above."""

    section: str
    value: str
    least: float

    def holds(self, comparison: RunComparison) -> bool:
        """Whether the comparison meets the condition."""
        low = comparison.find(self.value).difference.low
        return low is not None and low >= self.least


def read_gate(path: Path) -> list[Limit]:
    """Read a gate: sections named like the runs inside both folders ("." for the folders), value -> least difference.

    Raises DataError for a file that is none.
    """
    text = read_text(path)
    try:
        sections = tomllib.loads(text)
    except ValueError as error:
        raise DataError(f"{path} is no gate: {error}") from None
    limits = []
    for section, values in sections.items():
        if not isinstance(values, dict) or not values:
            raise DataError(
                f"{path}: write a section for each pair of runs, such as [hard], with lines `reward = -0.02`"
            )
        for name, least in values.items():
            if isinstance(least, bool) or not isinstance(least, (int, float)):
                raise DataError(f"{path}: [{section}] {name} is the least difference, a number, not {least!r:.40}")
            limits.append(Limit(section, name, float(least)))
    if not limits:
        raise DataError(f"{path} has no condition")
    return limits


def compare_folders(first: Path, second: Path, limits: list[Limit]) -> dict[str, RunComparison]:
    """Compare the pairs of runs that a gate names."""
    return {
        section: compare_runs(read_run(first / section), read_run(second / section))
        for section in dict.fromkeys(limit.section for limit in limits)
    }
