"""Advantage collapse on simulated policies: SEVA's Table 18, binary against process reward.

A simulated policy writes outputs with the paper's rates: at the start 28 % do not parse and 35 % of the rest name the
wrong label. They are real texts, scored by the real reward. Under the process reward the rates improve as Table 5 and
section 3.5 say; under the binary one they stay, as Table 6 says.

One thing that the paper does not give decides everything: how far the samples of one prompt agree. With independent
samples nothing collapses at these rates: fewer than one binary group in a hundred is all equal, and its advantages are
as large as any. So a policy here has an `agreement`, the share of prompts on which all samples share one fate (parsed
or not, right or wrong). It is fitted, to the spread in the paper's binary row, and it is the same in both runs. What
then follows is the effect: under the binary reward hardly any group differs and the mean spread of the advantages is
near 0; under the process reward samples that agree still differ in spans, steps and confidence.

What equation 2 cannot give is the paper's binary row as the extremes of a batch. One group with a single success has an
advantage of (G − 1)/√G = 2.47 whatever the mean reward, so extremes of −0.05 and +0.04 at a mean of .41 would need
every group to agree. We report the extremes and the mean over groups. Nor do the paper's rates give its mean rewards:
.72 · .65 is .47 where Table 18 starts at .38, and with 28 % of the outputs at 0 no process reward averages above .83
where Table 18 starts at 1.01.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from factgym.core.errors import ConfigError
from factgym.rewards.advantages import CollapseReport, collapse
from factgym.rewards.seva import BINARY, ERROR_TYPES, LABELS, PROCESS, SevaGold, read_output, score_output

Run = Literal["process", "binary"]


@dataclass(frozen=True, slots=True)
class PolicyRates:
    """What a simulated policy does at a training step; all rates in [0, 1].

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
"""Rates over the steps of the two training runs: the paper's, but for `agreement` and the rates between the ends."""

PAPER: Mapping[Run, Mapping[int, tuple[float, float, float]]] = {
    "process": {0: (1.01, -2.47, 2.47), 100: (1.06, -2.10, 2.30), 200: (1.09, -1.85, 2.15), 350: (1.12, -1.60, 2.05)},
    "binary": {0: (0.38, -0.15, 0.12), 100: (0.40, -0.10, 0.08), 200: (0.39, -0.08, 0.06), 350: (0.41, -0.05, 0.04)},
}
"""Table 18: reward, lowest and highest advantage by run and step."""


@dataclass(frozen=True, slots=True)
class CollapseRow:
    """The groups that a run's policy samples at a step, under one reward; `reward` need not be the run's own."""

    run: Run
    step: int
    reward: Run
    found: CollapseReport


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
            scored = [_rewards(rates, size, rng) for _ in range(groups)]
            for at, reward in enumerate(RUNS):
                rows.append(CollapseRow(run, rates.step, reward, collapse([group[at] for group in scored])))
    return tuple(rows)


def collapse_table(rows: Sequence[CollapseRow]) -> list[str]:
    """Lines of a table: each run under its own reward with the paper's numbers beside, then under the other."""
    lines = [
        "run      step  under    reward  equal groups  σ mean   A mean low/high   A min/max        paper: reward, A min/max",
    ]
    ordered = [row for row in rows if row.run == row.reward] + [row for row in rows if row.run != row.reward]
    return lines + [_line(row) for row in ordered]


def _line(row: CollapseRow) -> str:
    one = row.found
    theirs = PAPER.get(row.run, {}).get(row.step) if row.run == row.reward else None
    beside = f"{theirs[0]:.2f}, {theirs[1]:+.2f} / {theirs[2]:+.2f}" if theirs else "–"
    return (
        f"{row.run:8} {row.step:4}  {row.reward:8} {one.reward:5.2f}  {one.zero_variance:11.1%}  {one.std_mean:6.3f}   "
        f"{one.low_mean:+.2f} / {one.high_mean:+.2f}     {one.advantage_min:+.2f} / {one.advantage_max:+.2f}    {beside}"
    )


def _rewards(rates: PolicyRates, size: int, rng: random.Random) -> tuple[list[float], list[float]]:
    """A group's rewards, process and binary."""
    gold = SevaGold(rng.choice(LABELS))
    shared = _fate(rates, rng) if rng.random() < rates.agreement else None
    process, binary = [], []
    for _ in range(size):
        score = score_output(read_output(_output(shared or _fate(rates, rng), gold, rates, rng)), gold)
        process.append(PROCESS.total(score.components, score.gates))
        binary.append(BINARY.total(score.components, score.gates))
    return process, binary


def _fate(rates: PolicyRates, rng: random.Random) -> tuple[bool, bool]:
    """Whether an output parses, and whether its label is right."""
    return rng.random() >= rates.unparsed, rng.random() >= rates.wrong


def _output(fate: tuple[bool, bool], gold: SevaGold, rates: PolicyRates, rng: random.Random) -> str:
    parses, right = fate
    label = gold.label if right else LABELS[gold.label == LABELS[0]]
    data: dict[str, object] = {
        "evidence_alignment": [dict(_alignment(rates, rng)) for _ in range(rng.randint(2, 3))],
        "reasoning_chain": [dict(_step(rates, rng)) for _ in range(rng.randint(1, 3))],
        "label": label,
        "confidence": round(rng.uniform(0.6, 1.0), 2),
    }
    if label == LABELS[1]:
        data["error_type"] = rng.choice(ERROR_TYPES)
        data["fix_suggestion"] = "Say what the source says."
    text = json.dumps(data)
    return text if parses else text[: rng.randint(1, len(text) - 1)]


def _alignment(rates: PolicyRates, rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "claim_span", _kept("a part of the claim", rates, rng)
    yield "source_span", _kept("a part of the source", rates, rng)
    yield "status", _kept("match", rates, rng)


def _step(rates: PolicyRates, rng: random.Random) -> Iterator[tuple[str, str]]:
    yield "claim_part", _kept("a part of the claim", rates, rng)
    yield "source_evidence", _kept("a part of the source", rates, rng)
    yield "judgment", _kept("supported", rates, rng)
    yield "explanation", _kept("Both say the same of it.", rates, rng)


def _kept(text: str, rates: PolicyRates, rng: random.Random) -> str:
    return text if rng.random() < rates.quality else ""
