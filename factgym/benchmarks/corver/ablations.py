"""The paper's four ablations (Table 2): which switch of ours is which, and what each of them pays the same answers.

A1 to A3 are readings of the reward, chosen by name (`reward="reference-no-judge"`) or by the environment's switches; an
episode holds every component, so that one run can be read under all of them. A4 is no reward: it trains on the whole
pool, which `factgym filter --keep 0:16` keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from factgym.benchmarks.clusters import Series
from factgym.benchmarks.corver.answers import Answer
from factgym.benchmarks.intervals import NO_DATA, Estimate
from factgym.rewards.corver.rubrics import find_rubric

FULL = "full"


@dataclass(frozen=True, slots=True)
class Ablation:
    """suffix, switch: of a reward's name, and the environment's setting that asks for the same; empty where there is none."""

    name: str
    title: str
    suffix: str = ""
    switch: str = ""


ABLATIONS: Mapping[str, Ablation] = MappingProxyType(
    {
        one.name: one
        for one in (
            Ablation(FULL, "CorVer (full)"),
            Ablation("A1", "no co-occurrence", "-no-cooccurrence", "no_cooccurrence"),
            Ablation("A2", "no judge", "-no-judge", "no_judge"),
            Ablation("A3", "no alignment", "-no-alignment", "no_alignment"),
            Ablation("A4", "no filter"),
        )
    }
)
"""By the paper's names."""

OF_REWARD = (FULL, "A1", "A2", "A3")


def variant_of(config: Mapping[str, Any]) -> str:
    """Which ablation an environment's configuration asks for, several joined by `+`; empty for none."""
    named = config.get("reward")
    reward = named.get("name") if isinstance(named, Mapping) else named
    found = []
    for one in ABLATIONS.values():
        told = isinstance(reward, str) and bool(one.suffix) and one.suffix in reward
        if told or (one.switch and config.get(one.switch) is True):
            found.append(one.name)
    return "+".join(found)


def paid(answers: Sequence[Answer], variant: str, preset: str = "reference") -> Estimate:
    """The mean reward of answers under a variant of a preset, over those that have all of its components.

    Raises ConfigError for a preset that there is not, and KeyError for a variant.
    """
    rubric = find_rubric(f"{preset}{ABLATIONS[variant].suffix}")
    series = Series()
    numbers: dict[tuple[str, str], int] = {}
    for one in answers:
        if set(rubric.weights) <= set(one.components) and set(rubric.gated.values()) <= set(one.gates):
            number = numbers.setdefault((one.benchmark, one.task), len(numbers))
            series.add(number, rubric.total(one.components, one.gates))
    return series.mean() if len(series) else NO_DATA
