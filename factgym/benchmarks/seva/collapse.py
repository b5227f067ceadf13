"""Advantage collapse on simulated policies: SEVA's Table 18, binary against process reward.

A simulated policy writes real texts with the paper's rates, scored by the real reward. The paper does not give how far
the samples of one prompt agree; with independent samples nothing collapses at its rates. So `agreement`, the share of
prompts on which all samples share one fate, is fitted to the spread in the paper's binary row, equal in both runs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from factgym.benchmarks.charts import COLOURS, panel_chart
from factgym.benchmarks.report import paper_facts
from factgym.core.errors import ConfigError
from factgym.rewards.advantages import CollapseReport, collapse
from factgym.rewards.seva.output import ERROR_TYPES, LABELS, read_output
from factgym.rewards.seva.rubrics import BINARY, PROCESS
from factgym.rewards.seva.scoring import SevaGold, score_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Run = Literal["process", "binary"]


@dataclass(frozen=True, slots=True)
class PolicyRates:
    """Rates of a simulated policy at a training step, all in [0, 1].

    unparsed: share of outputs that do not parse. wrong: share of wrong labels among those that do. quality: chance
    that a line of an alignment entry or a step is complete. agreement: share of prompts whose samples share one fate.
    """

    step: int
    unparsed: float
    wrong: float
    quality: float
    agreement: float

    def __post_init__(self) -> None:
        for name in ("unparsed", "wrong", "quality", "agreement"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"PolicyRates.{name} must lie between 0 and 1, not {getattr(self, name)!r:.80}")


RUNS: Mapping[Run, tuple[PolicyRates, ...]] = {
    "process": (
        PolicyRates(0, 0.28, 0.35, 0.917, 0.87),
        PolicyRates(100, 0.08, 0.33, 0.975, 0.91),
        PolicyRates(200, 0.01, 0.31, 0.995, 0.93),
        PolicyRates(350, 0.00, 0.304, 0.997, 0.96),
    ),
    "binary": (
        PolicyRates(0, 0.28, 0.35, 0.917, 0.87),
        PolicyRates(100, 0.28, 0.35, 0.917, 0.91),
        PolicyRates(200, 0.28, 0.35, 0.917, 0.93),
        PolicyRates(350, 0.28, 0.35, 0.917, 0.96),
    ),
}
"""Rates over the steps of the two training runs: the paper's, but for `agreement` and the rates between the ends.

They do not give its mean rewards: .72 · .65 is .47 where Table 18 starts at .38, and with 28 % of the outputs at 0 no
process reward averages above .83 where Table 18 starts at 1.01.
"""

SIMULATED = 300
"""Groups at each step of the simulation beside Table 18."""


@dataclass(frozen=True, slots=True)
class CollapseRow:
    """The groups that a run's policy samples at a step, under one reward; `reward` need not be the run's own."""

    run: Run
    step: int
    reward: Run
    report: CollapseReport


def simulate_collapse(
    groups: int = 1000, size: int = 8, seed: int = 0, runs: Mapping[Run, Sequence[PolicyRates]] = RUNS
) -> tuple[CollapseRow, ...]:
    """Sample `groups` groups of `size` outputs at each step of each run, and diagnose them under both rewards.

    The same arguments give the same numbers. Raises ConfigError for groups < 1 or size < 2.
    """
    if groups < 1 or size < 2:
        raise ConfigError(f"a simulation needs at least one group of at least two, not {groups} of {size}")
    rows = []
    for run, steps in runs.items():
        for rates in steps:
            rng = random.Random(f"{seed}/{run}/{rates.step}")
            scored = [_group_rewards(rates, size, rng) for _ in range(groups)]
            for i, reward in enumerate(RUNS):
                rows.append(CollapseRow(run, rates.step, reward, collapse([group[i] for group in scored])))
    return tuple(rows)


@cache
def simulated_rows() -> tuple[CollapseRow, ...]:
    """Return the simulated groups beside Table 18, made once."""
    return simulate_collapse(SIMULATED)


def collapse_chart(rows: Sequence[CollapseRow] | None = None) -> str:
    """Return a chart of the rows in which a run is scored by its own reward, as SVG.

    Left: the lowest and the highest advantage of a group, averaged over the groups, by training step, with the paper's
    Table 18 as crosses. Right: the share of groups whose rewards are all equal.
    """
    matching = [row for row in (simulated_rows() if rows is None else rows) if row.run == row.reward]
    steps = {run: [row for row in matching if row.run == run] for run in RUNS}

    def advantages(axes: Axes) -> None:
        for run, colour in zip(RUNS, COLOURS, strict=False):
            xs = [row.step for row in steps[run]]
            low, high = ([getattr(row.report, f"{end}_mean") for row in steps[run]] for end in ("low", "high"))
            axes.fill_between(xs, low, high, color=colour, alpha=0.13)
            axes.plot(xs, high, "o-", color=colour, markersize=3, label=f"{run} reward, its own run")
            axes.plot(xs, low, "o-", color=colour, markersize=3)
            printed = paper_facts("seva", "table18")[run]
            points = [(row["step"], row[end]) for row in printed for end in ("low", "high") if row["step"] in xs]
            axes.plot(*zip(*points, strict=True) if points else ((), ()), "x", color=colour)
        axes.set(xlabel="training step", ylabel="advantage")
        if matching:
            axes.legend()

    def equal(axes: Axes) -> None:
        for run, colour in zip(RUNS, COLOURS, strict=False):
            shares = [row.report.zero_variance for row in steps[run]]
            axes.plot([row.step for row in steps[run]], shares, "o-", color=colour, markersize=3)
        axes.set(xlabel="training step", ylim=(0, 1))

    panels = {"Worst and best sample of a group, mean (x: the paper)": advantages, "Groups of equal rewards": equal}
    return panel_chart("Advantage collapse on simulated policies, binary against process reward", panels)


_ALIGNMENT = {"claim_span": "a part of the claim", "source_span": "a part of the source", "status": "match"}
_STEP = {
    "claim_part": "a part of the claim",
    "source_evidence": "a part of the source",
    "judgment": "supported",
    "explanation": "Both say the same of it.",
}


def _group_rewards(rates: PolicyRates, size: int, rng: random.Random) -> tuple[list[float], list[float]]:
    """Return a group's rewards, process and binary. A fate: whether an output parses, and whether its label is right."""
    gold = SevaGold(rng.choice(LABELS))
    # With chance `agreement` all samples of a prompt share one fate: only then can a binary group collapse.
    shared = _draw_fate(rates, rng) if rng.random() < rates.agreement else None
    process, binary = [], []
    for _ in range(size):
        score = score_output(read_output(_draw_output(shared or _draw_fate(rates, rng), gold, rates, rng)), gold)
        process.append(PROCESS.total(score.components, score.gates))
        binary.append(BINARY.total(score.components, score.gates))
    return process, binary


def _draw_fate(rates: PolicyRates, rng: random.Random) -> tuple[bool, bool]:
    return rng.random() >= rates.unparsed, rng.random() >= rates.wrong


def _draw_output(fate: tuple[bool, bool], gold: SevaGold, rates: PolicyRates, rng: random.Random) -> str:
    def drawn(fields: Mapping[str, str]) -> dict[str, str]:
        return {name: text if rng.random() < rates.quality else "" for name, text in fields.items()}

    parses, right = fate
    label = gold.label if right else LABELS[gold.label == LABELS[0]]
    data: dict[str, object] = {
        "evidence_alignment": [drawn(_ALIGNMENT) for _ in range(rng.randint(2, 3))],
        "reasoning_chain": [drawn(_STEP) for _ in range(rng.randint(1, 3))],
        "label": label,
        "confidence": round(rng.uniform(0.6, 1.0), 2),
    }
    if label == LABELS[1]:
        data["error_type"] = rng.choice(ERROR_TYPES)
        data["fix_suggestion"] = "Say what the source says."
    text = json.dumps(data)
    return text if parses else text[: rng.randint(1, len(text) - 1)]
