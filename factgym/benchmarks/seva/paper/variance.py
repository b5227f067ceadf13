"""Propositions 1 and 2, Figure 6 and Table 18: how much a group of samples can teach, under either reward.

Proposition 1 prints E[σ²] = G/(G−1) · q(1−q) for the unbiased sample variance. The unbiased estimator's expectation is
the variance itself, q(1−q), for every G: that is what unbiased means. The factor G/(G−1) turns the other estimator,
which divides by G and expects (G−1)/G · q(1−q), into the unbiased one; the paper applies it to what is unbiased
already. Both are computed here over all outcomes of a group, exactly, and by simulation.
"""

from __future__ import annotations

from functools import cache
from math import comb, sqrt

import numpy as np

from factgym.benchmarks.formats import decimal, percent
from factgym.benchmarks.papers.table import PaperRow, PaperTable, same, signed
from factgym.benchmarks.seva.collapse import CollapseRow, simulate_collapse
from factgym.benchmarks.seva.facts import facts
from factgym.rewards.advantages import group_advantages
from factgym.rewards.seva import PROCESS

GROUPS = 200_000
SIMULATED = 300
"""Groups at each step of the simulation of Table 18."""


def expected_variance(q: float, size: int, ddof: int) -> float:
    """The exact expectation of a Bernoulli group's variance: over all numbers of successes, by their probability."""
    return sum(
        comb(size, k) * q**k * (1 - q) ** (size - k) * k * (size - k) / (size * (size - ddof)) for k in range(size + 1)
    )


def simulated_variance(q: float, size: int, ddof: int, *, groups: int = GROUPS, seed: int = 0) -> float:
    """The mean variance of simulated groups."""
    ones = np.random.default_rng(seed).binomial(size, q, groups)
    return float(np.mean(ones * (size - ones)) / (size * (size - ddof)))


def proposition_1() -> PaperTable:
    """The variance of a binary group at the paper's q, and what follows from it."""
    found = facts("proposition1")
    q, size, theirs = found["q"], found["group"], found["variance"]
    unbiased, biased = expected_variance(q, size, 1), expected_variance(q, size, 0)
    zeros = _chance(q, size, size - found["zeros_high"], size - found["zeros_low"])
    equal = q**size + (1 - q) ** size
    printed = size / (size - 1) * q * (1 - q)
    right = (1 - found["unparsed"] / 100) * (1 - found["wrong_of_parsed"] / 100)
    rows = (
        PaperRow(
            ("E[σ²], unbiased (divided by G−1)", decimal(unbiased, 4), decimal(theirs, 2)), same(unbiased, theirs, 2)
        ),
        PaperRow(("  the same, simulated", decimal(simulated_variance(q, size, 1), 4), "")),
        PaperRow(("E[σ²], divided by G", decimal(biased, 4), "")),
        PaperRow(("  the same, simulated", decimal(simulated_variance(q, size, 0), 4), "")),
        PaperRow(("G/(G−1) · q(1−q), as printed", decimal(printed, 4), decimal(theirs, 2)), same(printed, theirs, 2)),
        PaperRow(("q from its own rates, (1−.28)(1−.35)", decimal(right), decimal(q, 2)), same(right, q, 2)),
        PaperRow(("groups with 5 to 7 zeros of 8", percent(zeros), "“typical”")),
        PaperRow(("groups of equal rewards, no signal", percent(equal), "")),
    )
    notes = (
        "Ours is right: the unbiased estimator expects q(1−q) = .2331 whatever G is. The paper’s .27 applies G/(G−1) to it once more.",
        "At q = .37 independent samples collapse in few groups, and in all others A is of the usual size: the collapse of"
        " Table 18 needs samples of one prompt that agree (see there).",
    )
    return PaperTable("Proposition 1", f"Variance of a binary group, q = {q}, G = {size}", "computed",
                      ("quantity", "ours", "theirs"), rows, notes)  # fmt: skip


def _chance(q: float, size: int, low: int, high: int) -> float:
    """The probability of `low` to `high` successes."""
    return sum(comb(size, k) * q**k * (1 - q) ** (size - k) for k in range(low, high + 1))


def proposition_2() -> PaperTable:
    """The lower bound that format errors alone give, and what they give where an unparsed output scores 0."""
    found = facts("proposition1")
    share = found["unparsed"] / 100
    bound = PROCESS.weights["format"] * sqrt(share * (1 - share))
    together = 1.0 * sqrt(share * (1 - share))
    rows = (
        PaperRow(("w_f σ_f, the bound of equation 7", decimal(bound, 4), "> 0"), bound > 0),
        PaperRow(("σ(R), unparsed 0 against a reward of 1", decimal(together, 4), "")),
        PaperRow(("σ that the paper calls dead (binary)", "", decimal(found["final_deviation"], 2))),
    )
    notes = (
        "The bound holds but promises little: it is below the deviation that the paper calls effectively zero. What helps"
        " is that an unparsed output loses all components at once; they are not uncorrelated.",
    )
    return PaperTable("Proposition 2", "Lower bound for the process reward, 28 % format errors", "computed",
                      ("quantity", "ours", "theirs"), rows, notes)  # fmt: skip


def figure_6() -> PaperTable:
    """The advantages of the eight rewards that Figure 6 draws, by equation 2."""
    found = facts("figure6")
    binary = [0.0] * found["binary_zeros"] + [1.0] * found["binary_ones"]
    rows = []
    for name, rewards in (("process", found["process"]), ("binary", binary)):
        advantages = group_advantages(rewards)
        theirs = found[f"{name}_spread"]
        low, high = float(advantages.min()), float(advantages.max())
        cells = (name, signed(low, 2), signed(high, 2), f"±{theirs}")
        rows.append(PaperRow(cells, same(high, theirs, 1 if name == "process" else 2)))
    notes = (
        "Equation 2 gives the binary group, six zeros and two ones, larger extremes than the process group. ±0.04 is"
        " not what its own formula makes of the rewards in the figure.",
    )
    return PaperTable("Figure 6", "Advantages of the eight rollouts drawn", "computed",
                      ("reward", "lowest A", "highest A", "theirs"), tuple(rows), notes)  # fmt: skip


@cache
def simulation() -> tuple[CollapseRow, ...]:
    """The simulated groups of Table 18, made once."""
    return simulate_collapse(SIMULATED)


def table_18() -> PaperTable:
    """Advantage collapse on simulated policies."""
    rows = []
    for row in simulation():
        if row.run != row.reward:
            continue
        one = row.found
        printed = next(found for found in facts("table18")[row.run] if found["step"] == row.step)
        rows.append(
            PaperRow(
                (
                    f"{row.run} {row.step}",
                    decimal(one.reward, 2),
                    decimal(printed["reward"], 2),
                    f"{signed(one.low_mean, 2)}/{signed(one.high_mean, 2)}",
                    f"{signed(one.advantage_min, 2)}/{signed(one.advantage_max, 2)}",
                    f"{signed(printed['low'], 2)}/{signed(printed['high'], 2)}",
                    percent(one.zero_variance),
                )
            )
        )
    notes = (
        "No model was trained: policies with the paper’s rates of format and label errors, and a share of prompts whose"
        " samples all agree that is fitted to its binary rows. Mean: over groups; extreme: of the batch.",
        "Their binary extremes cannot be a batch’s: one success in a group of 8 has an advantage of 2.47.",
    )
    columns = ("run, step", "reward", "theirs", "A mean", "A extreme", "theirs", "equal")
    return PaperTable("Table 18", "Advantage collapse", "simulated", columns, tuple(rows), notes)
