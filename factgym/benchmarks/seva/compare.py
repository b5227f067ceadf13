"""Two runs on the same claims: is the difference between two verifiers more than the draw of the items?

As in the paper's appendix on significance: the paired BCa bootstrap of macro-F1 and accuracy, and McNemar's test on
which claims are right. Runs that were not made on the same tasks are refused, and the message says what differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.formats import count
from factgym.benchmarks.seva.answers import Answer, read_answers
from factgym.benchmarks.statistics import Comparison, McNemar, mcnemar, paired_bca
from factgym.core.errors import ConfigError
from factgym.rewards.seva import LABELS

_TASKS = ("env", "version", "n", "k", "seed", "fingerprints")
"""What decides which tasks a run has, and how they read."""
_SHOWN = 60

Pair = tuple[Answer, Answer]


@dataclass(frozen=True, slots=True)
class SevaComparison:
    """`second` against `first`, by their agents' names, on the `n` episodes of `env` that both answered.

    macro_f1, accuracy: both values, and the difference second - first with its interval. mcnemar: None where tasks
    were sampled several times, since samples of two agents are no pairs. notes: what else differs between the runs.
    """

    env: str
    first: str
    second: str
    n: int
    macro_f1: Comparison
    accuracy: Comparison
    mcnemar: McNemar | None
    notes: tuple[str, ...]


def compare(first: Run | str | Path, second: Run | str | Path, *, seed: int = 0) -> SevaComparison:
    """Compare two runs of the same tasks. seed: of the bootstrap.

    Raises ConfigError when the manifests disagree on the tasks, or one is missing, and DataError as `evaluate_run`.
    """
    runs = [one if isinstance(one, Run) else read_run(one) for one in (first, second)]
    _check(*runs)
    pairs, left = _pairs(*runs)
    notes = _differences(*runs)
    if left:
        notes.append(f"{count(left, 'episode')} that only one of the runs has scored left out.")
    golds, said = [a.gold for a, _ in pairs], [[pair[i].said for pair in pairs] for i in (0, 1)]
    tasks = [a.task for a, _ in pairs]
    clusters = tasks if len(set(tasks)) < len(tasks) else None
    if clusters is not None:
        notes.append("Tasks were sampled several times: intervals are over tasks, and there is no McNemar test.")
    scores = [
        paired_bca(golds, said[0], said[1], name, labels=LABELS, clusters=clusters, seed=seed)
        for name in ("macro_f1", "accuracy")
    ]
    test = None if clusters else mcnemar([a.correct for a, _ in pairs], [b.correct for _, b in pairs])
    return SevaComparison(
        str(runs[0].manifest.get("env") or ""),
        _agent(runs[0]),
        _agent(runs[1]),
        len(pairs),
        scores[0],
        scores[1],
        test,
        tuple(notes),
    )


def _agent(run: Run) -> str:
    return str(run.manifest.get("agent") or run.folder.name)


def _check(first: Run, second: Run) -> None:
    for run in (first, second):
        if not run.manifest:
            raise ConfigError(
                f"{run.folder} has no manifest, so what it was made on is unknown: it cannot be compared"
            )
    differences = [said for key in _TASKS for said in _unequal(key, first.manifest.get(key), second.manifest.get(key))]
    if differences:
        raise ConfigError(
            f"{first.folder} and {second.folder} are runs of different tasks and cannot be compared: "
            f"{'; '.join(differences)}. Make both with the same environment, data, -n, -k and --seed"
        )


def _unequal(key: str, first: Any, second: Any) -> list[str]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        names = [*first, *(name for name in second if name not in first)]
        return [said for name in names for said in _unequal(f"{key} {name}", first.get(name), second.get(name))]
    if first == second:
        return []
    return [f"{key} {_short(first)} against {_short(second)}"]


def _short(value: Any) -> str:
    said = "nothing" if value is None else str(value)
    return said if len(said) <= _SHOWN else said[: _SHOWN - 1] + "…"


def _differences(first: Run, second: Run) -> list[str]:
    """What differs and changes how the tasks were played, not which."""
    notes = []
    for key in ("factgym", "prompts"):
        found = _unequal(key, first.manifest.get(key), second.manifest.get(key))
        notes += [f"The runs differ in {one}." for one in found[:5]]
    return notes


def _pairs(first: Run, second: Run) -> tuple[list[Pair], int]:
    """The answers to the same task and sample, and how many answers have no partner."""
    one, two = (
        {(a.task, a.sample): a for a in read_answers(r.episodes(), str(r.folder)).rows} for r in (first, second)
    )
    shared = [key for key in one if key in two]
    if not shared:
        raise ConfigError(f"{first.folder} and {second.folder} share no scored episode")
    differing = [key for key in shared if (one[key].gold, one[key].claim) != (two[key].gold, two[key].claim)]
    if differing:
        raise ConfigError(
            f"{first.folder} and {second.folder} disagree on the claim or gold label of task {differing[0][0]!r:.80}"
        )
    return [(one[key], two[key]) for key in shared], len(one) + len(two) - 2 * len(shared)
