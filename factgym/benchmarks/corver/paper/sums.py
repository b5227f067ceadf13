"""What the paper's own numbers add up to: averages, gains, refusals, hours; and where a sentence of it does not follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from factgym.benchmarks.corver.calibration import rise
from factgym.benchmarks.corver.facts import facts
from factgym.benchmarks.formats import decimal
from factgym.benchmarks.intervals import wilson
from factgym.benchmarks.papers.table import PaperRow, PaperTable, same, signed
from factgym.rewards.corver import check_format, judge_answer

RAW, OURS = "Raw", "CorVer"
REFUSAL = "I dont know"
"""What both of the paper's prompts tell the model to answer when it does not know."""

Row = Mapping[str, Any]


def mean(values: Sequence[float]) -> float:
    """The plain mean."""
    return math.fsum(values) / len(values)


def _row(name: str, ours: float, theirs: float, places: int = 2, sign: bool = False) -> PaperRow:
    shown = [signed(one, places) if sign else decimal(one, places) for one in (ours, theirs)]
    return PaperRow((name, *shown), same(ours, theirs, places))


def _said(name: str, ours: str, theirs: str, agrees: bool | None = None) -> PaperRow:
    return PaperRow((name, ours, theirs), ours == theirs if agrees is None else agrees)


_COLUMNS = ("quantity", "ours", "theirs")
_ROUNDED = 0.011
"""What a difference of two rounded numbers may be away from the rounded difference."""


def _models(table: str, key: str) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for one in facts(table)["rows"]:
        found.setdefault(one["model"], {})[one[key]] = one
    return found


def table_1() -> PaperTable:
    """Averages, gains over the best baseline, and the sentences about them."""
    rows: list[PaperRow] = []
    off = []
    for one in facts("table1")["rows"]:
        average = mean(one["accuracy"])
        if not same(average, one["average"], 2):
            off.append(f"{one['model']} {one['method']}")
    rows.append(_said("averages of Table 1 that hold", f"{len(facts('table1')['rows']) - len(off)}", "24"))
    models = _models("table1", "method")
    wins = sum(won for methods in models.values() for won in _cells_won(methods))
    rows.append(_said("cells where CorVer beats all four baselines", f"{wins} of 20", "18 of 20"))
    for model, methods in models.items():
        rows += _gain_rows(model, methods)
    everything = _models("table15", "variant")
    gains = [b - a for two in everything.values() for a, b in _two(two, "accuracy")]
    rows.append(_said("cells of Table 15 above raw", f"{sum(gain > 0 for gain in gains)} of 30", "30 of 30"))
    trivia = mean([two[OURS]["accuracy"][0] - two[RAW]["accuracy"][0] for two in everything.values()])
    rows.append(_row("mean TriviaQA gain over raw", trivia, facts("table15")["average_triviaqa_gain"], 1, sign=True))
    notes = (
        "Gains are over the best of the four baselines, but for two on TriviaQA (Llama-3.1-8B, Qwen3-8B), which are over Raw where every baseline is worse; over the best baseline they are +6.97 and +2.18.",
        "Section 5.1 gives +4.06 and +2.34 as the largest gains “against Raw alone”: they are gains over the best baseline. Over Raw the averages rise by 5.37 (Llama-3.2-3B) and 4.63 (Llama-3.1-8B), in that order.",
        "“KnowRL never beats Raw” holds with one tie: TruthfulQA on Llama-3.2-3B, 5.63 both. FSPO does not “otherwise track Raw”: on Llama-3.1-8B it is 8.43 points below it on TriviaQA and 5.31 on PopQA.",
    )
    return PaperTable("Tables 1, 15", "Averages and gains", "arithmetic", _COLUMNS, tuple(rows), notes)


def _baselines(methods: Mapping[str, Row]) -> list[Row]:
    return [one for name, one in methods.items() if name not in (RAW, OURS)]


def _cells_won(methods: Mapping[str, Row]) -> list[bool]:
    best = [max(column) for column in zip(*(one["accuracy"] for one in _baselines(methods)), strict=True)]
    return [ours > other for ours, other in zip(methods[OURS]["accuracy"], best, strict=True)]


def _gain_rows(model: str, methods: Mapping[str, Row]) -> Iterator[PaperRow]:
    ours = methods[OURS]
    best = [max(column) for column in zip(*(one["accuracy"] for one in _baselines(methods)), strict=True)]
    found = [a - b for a, b in zip(ours["accuracy"], best, strict=True)]
    names = facts("benchmarks")["columns"]
    for name, gain, printed in zip(names, found, ours["gains"], strict=True):
        if not same(gain, printed, 2):
            yield _row(f"{model}, {name}: gain over the best baseline", gain, printed, sign=True)
    above = ours["average"] - max(one["average"] for one in _baselines(methods))
    yield _row(f"{model}: average over the best baseline’s", above, ours["average_gain"], sign=True)
    yield PaperRow((f"{model}: average over Raw’s", signed(ours["average"] - methods[RAW]["average"], 2), "–"))


def _two(two: Mapping[str, Row], key: str) -> list[tuple[float, float]]:
    return list(zip(two[RAW][key], two[OURS][key], strict=True))


def significance() -> PaperTable:
    """Which of the 30 gains is more than chance, taken as if the two models had answered different questions."""
    questions = facts("benchmarks")["questions"]
    rows, sure = [], 0
    for model, two in _models("table15", "variant").items():
        cells = []
        for (a, b), n in zip(_two(two, "accuracy"), questions, strict=True):
            found = rise(wilson(round(a * n / 100), n), wilson(round(b * n / 100), n))
            beyond = found.low is not None and found.low > 0
            sure += beyond
            cells.append(signed(b - a, 2) + ("" if beyond else " ?"))
        rows.append(PaperRow((model, *cells)))
    notes = (
        f"? marks a gain whose 95 % interval holds 0: {30 - sure} of 30. The intervals are unpaired (Newcombe), since the paper prints no paired counts; both models answer the same questions, so paired ones would usually be narrower.",
        "One training run each, one decoding: the spread between training seeds is not in any of them.",
    )
    columns = ("model", *facts("benchmarks")["titles"])
    return PaperTable("Table 15, figure 3", "Gains over raw, points", "arithmetic", columns, tuple(rows), notes)


def table_2() -> PaperTable:
    """What the ablations cost on average."""
    found = {one["variant"]: one for one in facts("table2")["rows"]}
    full, raw = mean(found["full"]["accuracy"]), mean(found["raw"]["accuracy"])
    rows = []
    for name in ("A1", "A2", "A3", "A4"):
        average = mean(found[name]["accuracy"])
        below = [
            title
            for title, a, b in zip(facts("benchmarks")["titles"], found[name]["accuracy"], found["raw"]["accuracy"], strict=True)
            if a < b
        ]  # fmt: skip
        rows.append(
            PaperRow(
                (
                    found[name]["title"],
                    decimal(average, 2),
                    signed(average - full, 2),
                    signed(average - raw, 2),
                    ", ".join(below) or "–",
                )
            )
        )
    notes = (
        "A4 has the smallest average drop, as section 6.2 says. “A secondary contribution” is 1.7 of the 4.6 points over Raw.",
        "Vanilla GRPO (A1) ends below Raw on TriviaQA.",
    )
    columns = ("variant", "average", "to full", "to Raw", "below Raw on")
    return PaperTable("Table 2", "Averages of the ablations", "arithmetic", columns, tuple(rows), notes)


def table_3() -> PaperTable:
    """The quartiles' weighted mean, and what it implies about the questions that are left out."""
    rows = []
    models = _models("table3", "quartile")
    total = facts("table3")
    for model, parts in models.items():
        quarters = [one for name, one in parts.items() if name != "All"]
        for key in ("raw", "trained"):
            weighted = math.fsum(one["n"] * one[key] for one in quarters) / sum(one["n"] for one in quarters)
            rows.append(_row(f"{model}, {key}: all, from the quartiles", weighted, parts["All"][key]))
        worst = max(abs(one["trained"] - one["raw"] - one["gain"]) for one in parts.values())
        rows.append(
            _said(f"{model}: gains that are trained less raw", "all" if worst < _ROUNDED else "not all", "all")
        )
        for key, variant in (("raw", RAW), ("trained", OURS)):
            whole = _models("table15", "variant")[model][variant]["accuracy"][2]
            left = (whole * total["of"] - parts["All"][key] * total["total"]) / total["excluded"]
            rows.append(PaperRow((f"{model}, {key}: the {total['excluded']:,} left out", decimal(left, 1), "–")))
    rows.append(_said("questions with page views", f"{total['of'] - total['excluded']:,}", f"{total['total']:,}"))
    notes = (
        "Q1 and Q2 together hold 6,534 of 13,066 questions, Q1 3,257: no one rule for equal values gives both from the quartiles.",
    )
    return PaperTable("Table 3", "Quartiles added up", "arithmetic", _COLUMNS, tuple(rows), notes)


def table_14() -> PaperTable:
    """Rates of every step, and gains over step 0."""
    rows = []
    found = facts("table14")["rows"]
    for one in found:
        rows.append(
            _row(f"step {one['step']}: correct + incorrect + NA", one["correct"] + one["incorrect"] + one["na"], 100.0)
        )
        if "gain" in one:
            rows.append(
                _row(f"step {one['step']}: gain", one["correct"] - found[0]["correct"], one["gain"], sign=True)
            )
    note = "The step of every run was fixed at 100 beforehand; the peak of this one is at 200, seen on the test questions."
    return PaperTable("Table 14", "Steps of one training run", "arithmetic", _COLUMNS, tuple(rows), (note,))


def refusals() -> PaperTable:
    """How refusals move, against the sentences about them; and what the prompt's own refusal is graded as."""
    rows = []
    for model, two in _models("table15", "variant").items():
        moves = [b - a for a, b in _two(two, "na")]
        rows.append(PaperRow((model, *(signed(one, 2) for one in moves), _direction(moves))))
    graded = judge_answer(REFUSAL, ["Paris"], "reference")
    faults = check_format(f"<think>unknown</think><answer>{REFUSAL}</answer>")
    notes = (
        "Section 5.2 has refusals drop sharply on Qwen3: so they do on Qwen3-8B alone; on Qwen3-14B they rise on all five benchmarks, on Qwen3-4B on two.",
        "App. C.3 has them rise on Llama by 3 to 5 points: the cells run from −1.55 to +6.37.",
        f"The prompts tell the model to answer “{REFUSAL}” without an apostrophe. The rule of A.2 knows “i don’t know” and “i do not know” alone, so that this very answer is graded “{graded}”, and NA counts the models that spell otherwise.",
        "The thought of that reply, “unknown”, has 7 characters where the format asks for 30: "
        + (
            "the reply that the prompt asks for takes the format’s penalty as well."
            if faults
            else "it keeps the format."
        ),
    )
    columns = ("model", *facts("benchmarks")["titles"], "moves")
    return PaperTable("Table 15", "Change of refusals, points", "arithmetic", columns, tuple(rows), notes)


def _direction(moves: Sequence[float]) -> str:
    return "up" if all(one > 0 for one in moves) else "down" if all(one < 0 for one in moves) else "mixed"


def unlocked() -> PaperTable:
    """What the answers to once refused questions can have added, against the whole gain (Tables 15 and 17)."""
    rows = []
    two = _models("table15", "variant")[facts("table17")["model"]]
    names = facts("benchmarks")["columns"]
    for one in facts("table17")["rows"]:
        raw, trained = (two[key]["accuracy"][names.index(one["benchmark"])] for key in (RAW, OURS))
        least, most = ((one["raw"] - one["trained"]) * one["subset"] / 100, one["raw"] * one["subset"] / 100)
        gain = trained - raw
        rest = f"{signed(gain - most, 2)} to {signed(gain - least, 2)}"
        rows.append(PaperRow((one["benchmark"], signed(gain, 2), f"{least:.2f} to {most:.2f}", rest)))
    notes = (
        "The bounds: all refusals that are left are old ones, or all are new ones. On SimpleQA the answers to once refused questions are worth more than the whole gain: on the other questions the trained model is the worse one.",
    )
    columns = ("benchmark", "gain", "from unlocked questions", "from the others")
    return PaperTable(
        "Table 17", "Unlocked recall against the gain, points", "arithmetic", columns, tuple(rows), notes
    )


def hours() -> PaperTable:
    """Hours, ratios, and throughput."""
    rows = []
    found = facts("table18")["rows"]
    ours = found[0]["hours"]
    for one in found:
        slowdown = mean([a / b for a, b in zip(one["hours"], ours, strict=True)])
        rows.append(_row(f"{one['method']}: mean slowdown", slowdown, one["slowdown"], 1))
        if "mean" in one:
            rows.append(_row(f"{one['method']}: mean hours", mean(one["hours"]), one["mean"], 1))
    cost = facts("table20")
    for one in cost["rows"]:
        rows.append(
            _row(
                f"{one['variant']}: cost relative to A1, by samples/s",
                cost["rows"][1]["rate"] / one["rate"],
                one["relative"],
                1,
            )
        )
    calls = cost["steps"] * cost["prompts"] * cost["group"] * cost["sentences"]
    rows.append(
        _said("reward calls of a run (eq. 5)", f"{calls:,}", "1.2e5", agrees=round(calls, -4) == cost["calls"])
    )
    seen = [3600 * one["hours"] * one["rate"] for one in cost["rows"]]
    prompts, completions = cost["steps"] * cost["prompts"], cost["steps"] * cost["prompts"] * cost["group"]
    notes = (
        f"Hours times samples/s give {min(seen):,.0f} to {max(seen):,.0f} samples a run: twice its {prompts:,} prompts, and an eighth of its {completions:,} completions.",
        "FSPO ran at G = 4, FoRAG and RLFH with PPO in batches of 16, all three at rank 8, KnowRL for 200 steps (A.1): the ratios compare recipes, not rewards.",
    )
    return PaperTable("Tables 18, 20", "Hours and throughput", "arithmetic", _COLUMNS, tuple(rows), notes)


def table_4() -> PaperTable:
    """What the two other aggregation rules lose."""
    found = {one["rule"]: one for one in facts("table4")["rows"]}
    rows = [
        _row(f"{name}: loss to first", found["first"]["accuracy"] - found[name]["accuracy"], loss)
        for name, loss in facts("table4")["losses"].items()
    ]
    notes = ("Mean length under min is 40 tokens in Table 4 and 35 to 46 in B.3.",)
    return PaperTable("Table 4", "Aggregation rules, points", "arithmetic", _COLUMNS, tuple(rows), notes)
