"""What the paper's own numbers add up to: rates, averages, differences and intervals that need no model, only them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import exp, sqrt
from typing import Any

from factgym.benchmarks.formats import decimal, percent
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.papers.table import PaperRow, PaperTable, same, signed
from factgym.benchmarks.seva.facts import facts
from factgym.benchmarks.seva.paper.data import attributable
from factgym.benchmarks.statistics import accuracy, bca_score, confusion, label_scores, macro_f1
from factgym.datasets.attribution import BenchmarkClaims
from factgym.rewards.seva import LABELS

POSITIVE: str = LABELS[0]
NEGATIVE: str = LABELS[1]


def rebuilt(model: str) -> tuple[list[str], list[str | None]]:
    """Gold and predicted labels with the rates of Table 15, to the nearest whole item of its 1,590."""
    found = facts("table15")
    row = next(one for one in found["rows"] if one["model"] == model)
    share = next(one["attributable"] for one in facts("table12")["rows"] if one["benchmark"] == "clearfacts")
    supported = round(found["items"] * share / 100)
    false = found["items"] - supported
    kept, rejected = round(supported * row["kept"] / 100), round(false * row["rejected"] / 100)
    golds = [POSITIVE] * supported + [NEGATIVE] * false
    said: list[str | None] = [*[POSITIVE] * kept, *[NEGATIVE] * (supported - kept)]
    return golds, [*said, *[NEGATIVE] * rejected, *[POSITIVE] * (false - rejected)]


@cache
def _interval(model: str) -> Estimate:
    return bca_score(*rebuilt(model), "macro_f1", labels=LABELS)


def table_15() -> PaperTable:
    """Accuracy, macro-F1 with its BCa interval, and the number of rejections, from the rates of Table 15."""
    printed = {one["model"]: one for one in facts("table3")["rows"]}
    intervals = {one["model"]: one for one in facts("appendixO")["rows"]}
    rows = []
    for one in facts("table15")["rows"]:
        model = one["model"]
        table = confusion(*rebuilt(model), LABELS)
        right, f1 = 100 * (accuracy(table).value or 0.0), 100 * macro_f1(table)
        reach, theirs = _interval(model), intervals[model]
        low, high = 100 * (reach.low or 0.0), 100 * (reach.high or 0.0)
        said, stated = f"[{low:.1f}, {high:.1f}]", f"[{theirs['low']}, {theirs['high']}]"
        rows += [
            _rebuilt_row(f"{model}: accuracy", right, printed[model]["accuracy"]),
            _rebuilt_row(f"{model}: macro-F1", f1, printed[model]["f1"]),
            PaperRow((f"{model}: its 95 % BCa interval", said, stated), _near(low, theirs["low"]) and _near(high, theirs["high"])),
        ]  # fmt: skip
    rejections = label_scores(confusion(*rebuilt("SEVA-GRPO 3B"), LABELS))[NEGATIVE].predicted
    theirs17 = facts("table17")["n"]
    rows.append(PaperRow(("SEVA-GRPO 3B: rejections", str(rejections), str(theirs17)), rejections == theirs17))
    notes = (
        "1,590 items are laid out with the rates of Table 15 and evaluated with our statistics. Rates of three digits"
        " and resampling leave some tenths open: up to 0.3 counts as the same here.",
        "The GRPO rates give an accuracy of 68.9, where Table 3 prints 69.6, and 855 rejections, where Table 17 counts 812.",
    )
    return PaperTable("Tables 3, 15, 17, App. O", "From the confusion matrices", "arithmetic",
                      ("quantity", "ours", "theirs"), tuple(rows), notes)  # fmt: skip


_SLACK = 0.3


def _near(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= _SLACK + 1e-9


def _rebuilt_row(name: str, ours: float, theirs: float) -> PaperRow:
    return PaperRow((name, decimal(ours, 1), decimal(theirs, 1)), _near(ours, theirs))


def _row(name: str, ours: float, theirs: float, places: int = 1) -> PaperRow:
    return PaperRow((name, decimal(ours, places), decimal(theirs, places)), same(ours, theirs, places))


def best_macro_f1(items: int, supported: int, rejected: int) -> float:
    """The highest macro-F1 that any verifier with so many rejections can have."""
    return max(_two_by_two(items, supported, rejected, hits)[1] for hits in _hits(items, supported, rejected))


def implied_accuracy(items: int, supported: int, rejected: int, f1: float) -> float:
    """The accuracy that belongs to a macro-F1 at so many rejections: with both margins known, one number is free."""
    found = [_two_by_two(items, supported, rejected, hits) for hits in _hits(items, supported, rejected)]
    return min(found, key=lambda one: abs(one[1] - f1))[0]


def _hits(items: int, supported: int, rejected: int) -> range:
    """How many of the rejections can be right."""
    return range(max(0, rejected - supported), min(rejected, items - supported) + 1)


def _two_by_two(items: int, supported: int, rejected: int, hits: int) -> tuple[float, float]:
    """Accuracy and macro-F1 when `hits` of the rejections are right."""
    wrong = rejected - hits
    golds = [NEGATIVE] * (items - supported) + [POSITIVE] * supported
    said: list[str | None] = [*[NEGATIVE] * hits, *[POSITIVE] * (items - supported - hits)]
    table = confusion(golds, [*said, *[NEGATIVE] * wrong, *[POSITIVE] * (supported - wrong)], LABELS)
    return accuracy(table).value or 0.0, macro_f1(table)


def table_16(claims: Mapping[str, BenchmarkClaims]) -> PaperTable:
    """What GRPO's macro-F1 (Table 4) and share of rejections (Table 16) imply together."""
    f1s = dict(zip(facts("table4")["columns"], facts("table4")["rows"][-1]["f1"], strict=True))
    rows = []
    for one in facts("table16")["rows"]:
        name = one["benchmark"]
        items = next(row["evaluated"] for row in facts("table12")["rows"] if row["benchmark"] == name)
        rejected = round(items * one["predicted_negative"] / 100)
        right = _grpo_accuracy(one, items)
        there = claims.get(name)
        known = there is not None and len(there) == items
        best = 100 * best_macro_f1(items, round(items * attributable(there)), rejected) if known and there else None
        cells = (
            name,
            decimal(f1s[name], 1),
            f"{one['predicted_negative']} %",
            decimal(100 * right, 1),
            decimal(best, 1),
        )
        rows.append(PaperRow(cells, False if best is not None and best < f1s[name] else None))
    notes = [
        "F1 and rejections are GRPO’s as printed. With the labels they fix the accuracy: on HaluEval it is below a coin’s.",
    ]
    over = [row.cells[0] for row in rows if row.agrees is False]
    if over:
        notes.append(
            f"Most F1 here: with so many rejections on the labels at hand. On those of {', '.join(over)} the printed F1 is"
            " out of reach, so other labels were evaluated."
        )
    columns = ("benchmark", "F1", "rejected", "implied accuracy", "most F1 here")
    return PaperTable("Tables 4, 16", "What F1 and rejections imply", "arithmetic", columns, tuple(rows), tuple(notes))


def slice_deviation(accuracy: float, n: int, population: int) -> float:
    """The standard deviation of accuracy over slices of `n` drawn from `population` items without replacement."""
    return sqrt(accuracy * (1 - accuracy) / n * (population - n) / (population - 1))


def appendix_o() -> PaperTable:
    """The deviations between seeds, against what drawing other items does to any verifier of that accuracy.

    With three seeds (n - 1) s² / σ² is chi-square with two degrees of freedom, so the chance of a deviation as small
    as s is 1 - exp(-s² / σ²). Stratifying by label takes away little where accuracy hardly differs between labels.
    """
    sizes = {one["benchmark"]: one for one in facts("table12")["rows"]}
    rows, together = [], 1.0
    for printed, one in zip(facts("appendixO")["deviations"], facts("table16")["rows"], strict=True):
        name, known = printed["benchmark"], sizes[printed["benchmark"]]
        right = _grpo_accuracy(one, known["evaluated"])
        expected = 100 * slice_deviation(right, known["evaluated"], known["size"])
        chance = 1 - exp(-((printed["std"] / expected) ** 2))
        together *= chance
        drawn = f"{known['evaluated']} of {known['size']:,}"
        rows.append(PaperRow((name, drawn, decimal(expected, 1), decimal(printed["std"], 1), percent(chance))))
    notes = (
        "Ours is the binomial deviation of accuracy, with the correction for drawing without replacement, at the accuracy"
        " that F1 and rejections imply.",
        f"All three as small as printed by chance: {percent(together, 2)}. The same items may have been drawn again.",
    )
    columns = ("benchmark", "drawn", "σ by sampling", "σ, theirs", "chance of so little")
    return PaperTable("Appendix O", "Deviation between seeds, points", "arithmetic", columns, tuple(rows), notes)


def _grpo_accuracy(one: Mapping[str, Any], items: int) -> float:
    """GRPO's accuracy on a benchmark, from a row of Table 16 and the F1 of Table 4."""
    f1s = dict(zip(facts("table4")["columns"], facts("table4")["rows"][-1]["f1"], strict=True))
    supported, rejected = (round(items * one[key] / 100) for key in ("attributable", "predicted_negative"))
    return implied_accuracy(items, supported, rejected, f1s[one["benchmark"]] / 100)


def table_17() -> PaperTable:
    """Shares of the counts of Table 17."""
    found = facts("table17")
    total = sum(one["count"] for one in found["rows"])
    rows = [_row(one["error"], 100 * one["count"] / total, one["share"]) for one in found["rows"]]
    rows.append(PaperRow(("sum of the counts", str(total), str(found["n"])), total == found["n"]))
    return PaperTable(
        "Table 17", "Shares of their error types, %", "arithmetic", ("error type", "ours", "theirs"), tuple(rows)
    )


def table_2() -> PaperTable:
    """Table 2 as the differences of Table 22 from its seed."""
    found = facts("table22")
    seed = found["rows"][0]["f1"]
    rows = []
    for one, printed in zip(found["rows"][1:], facts("table2")["rows"], strict=True):
        deltas = [round(value - first, 1) for value, first in zip(one["f1"], seed, strict=True)]
        pairs = [f"{signed(ours)} | {signed(theirs)}" for ours, theirs in zip(deltas, printed["delta"], strict=True)]
        rows.append(PaperRow((one["round"], *pairs), deltas == [float(theirs) for theirs in printed["delta"]]))
    notes = (
        "Ours | theirs. TruthfulQA falls to −13.8 and comes back to −12.4, which is not monotone, as Figure 7 calls it.",
    )
    columns = ("round", *found["columns"])
    return PaperTable("Table 2", "F1 deltas from the seed, out of Table 22", "arithmetic", columns, tuple(rows), notes)


def table_22() -> PaperTable:
    """The averages of Table 22."""
    rows = []
    for one in facts("table22")["rows"]:
        mean = sum(one["f1"]) / len(one["f1"])
        values = (decimal(value, 1) for value in one["f1"])
        rows.append(
            PaperRow((one["round"], *values, decimal(mean, 2), str(one["average"])), same(mean, one["average"], 1))
        )
    columns = ("round", *facts("table22")["columns"], "average", "theirs")
    return PaperTable("Table 22", "Average F1 of the rounds", "arithmetic", columns, tuple(rows))


def _roughly(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= 0.03 * theirs


def table_23() -> PaperTable:
    """Energy as hours × watts × PUE, carbon as energy × intensity, and the sums of Tables 7 and 23."""
    found = facts("table23")
    rows = []
    for one in found["rows"]:
        energy = one["hours"] * found["watts"][one["gpu"]] * found["pue"] / 1000
        carbon = energy * found["intensity"]
        cells = (
            one["stage"],
            str(one["hours"]),
            "",
            decimal(energy, 1),
            str(one["kwh"]),
            decimal(carbon, 1),
            str(one["kg"]),
        )
        rows.append(PaperRow(cells, same(energy, one["kwh"], 1) and same(carbon, one["kg"], 1)))
    for name, end, key in (("first two rows", found["small_rows"], "small"), ("all rows", len(found["rows"]), "full")):
        stated = found[key]
        sums = {unit: sum(one[unit] for one in found["rows"][:end]) for unit in ("hours", "kwh", "kg")}
        cells = (name, str(sums["hours"]), str(stated["hours"]), decimal(sums["kwh"], 1), str(stated["kwh"]),
                 decimal(sums["kg"], 1), str(stated["kg"]))  # fmt: skip
        rows.append(PaperRow(cells, all(_roughly(sums[unit], stated[unit]) for unit in sums)))
    total = sum(one["hours"] for one in facts("table7")["rows"])
    rows.append(
        PaperRow(
            ("Table 7, all rows", str(total), str(facts("table7")["total"]), "", "", "", ""),
            _roughly(total, facts("table7")["total"]),
        )
    )
    notes = (
        "“3B-only” is printed as 28 hours and 4.8 kg; its two rows are 20 hours and 3.5 kg. The caption says 1.9 and 12 kg.",
        "Totals are printed as approximate; up to 3 % counts as the same here.",
    )
    columns = ("stage", "GPU h", "theirs", "kWh", "theirs", "kg CO2e", "theirs")
    return PaperTable("Tables 7, 23", "Compute and carbon", "arithmetic", columns, tuple(rows), notes)
