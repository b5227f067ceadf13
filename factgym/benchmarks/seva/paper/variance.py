"""Figure 6 and Table 18: advantages within a group of samples, under either reward."""

from __future__ import annotations

from functools import cache

from factgym.benchmarks.formats import decimal, percent
from factgym.benchmarks.papers.table import PaperRow, PaperTable, same, signed
from factgym.benchmarks.seva.collapse import CollapseRow, simulate_collapse
from factgym.benchmarks.seva.facts import facts
from factgym.rewards.advantages import group_advantages

SIMULATED = 300
"""Groups at each step of the simulation of Table 18."""


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
