"""The tables of the SEVA paper that set something of ours beside something of theirs.

Left out, because nothing in them can be computed without training: Tables 2, 8 to 11, 18 and 22. Results of trained models are
printed beside scripts and are no reproduction. The outputs of `facts/seva_outputs.json` are ours in form and the paper's
in content: Figure 4, the examples of appendix G and the two of appendix J; the paper prints no rewards for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from types import MappingProxyType
from typing import Any

from factgym.agents.resolve import scripted_agents
from factgym.benchmarks.benchmark import AgentResult, DataSet
from factgym.benchmarks.formats import ABSENT, decimal, percent, signed
from factgym.benchmarks.report import Row, Table, agrees, layout_table, paper_facts
from factgym.benchmarks.seva.report import SevaReport
from factgym.datasets.attribution import ATTRIBUTABLE, AttributionClaim, BenchmarkClaims, read_benchmark
from factgym.generators.perturbations.names import Pool
from factgym.generators.perturbations.probes import Probe, make_probe, survey_strategies
from factgym.rewards.advantages import group_advantages
from factgym.rewards.seva.output import (
    ERROR_TYPES,
    LABELS,
    canonical_error_type,
    canonical_label,
    output_of,
    read_output,
)
from factgym.rewards.seva.rubrics import BINARY, PROCESS, SevaRubric, find_rubric
from factgym.rewards.seva.scoring import SevaGold, score_output

facts = partial(paper_facts, "seva")
table = partial(layout_table, "seva")
Data = dict[str, Any]
Claims = Mapping[str, BenchmarkClaims]
Results = Sequence[AgentResult[SevaReport]]
POSITIVE, NEGATIVE = (SevaGold(label) for label in LABELS)
_UNREADABLE = "The claim is supported by the source."


def paper_tables(data_sets: Sequence[DataSet] = (), results: Results = ()) -> tuple[Table, ...]:
    """Return every table; those about data and baselines from the arguments. Raises DataError for an unusable file."""
    claims = claims_of(data_sets)
    return (
        landscape(),
        worked_examples(),
        table_4(results, claims),
        table_5(results),
        table_12(claims),
        *([shortcuts(claims)] if claims else []),
        aliases(),
        reward_ranges(),
        table_16(results),
        table_17(results),
        figure_6(),
        table_19(claims),
        taxonomy(),
        weight_splits(),
    )


# Tables 1, 13, 14, 20, 21 and the worked examples: the reward, computed.


@cache
def paper_outputs() -> Mapping[str, Any]:
    """Return "landscape" (an output for each level of Table 1) and "examples" (the paper's outputs with gold labels)."""
    file = resources.files("factgym.benchmarks").joinpath("facts", "seva_outputs.json")
    return MappingProxyType(json.loads(file.read_text("utf-8")))


def reward(data: Data | None, gold: SevaGold, rubric: SevaRubric = PROCESS) -> float:
    """Return the total of an output under a rubric; None is a text that does not parse."""
    score = score_output(read_output(_UNREADABLE) if data is None else output_of(data), gold)
    return rubric.total(score.components, score.gates)


def landscape() -> Table:
    """Return Table 1: the four levels."""
    rows = []
    for printed in facts("table1")["rows"]:
        data = paper_outputs()["landscape"][printed["response"]]
        process, binary = reward(data, NEGATIVE), reward(data, NEGATIVE, BINARY)
        printed_process, printed_binary = decimal(printed["process"], 2), decimal(printed["binary"], 1)
        cells = (printed["response"], decimal(process), printed_process, decimal(binary, 1), printed_binary)
        rows.append(Row(cells, agrees(process, printed["process"], 2) and binary == printed["binary"]))
    return table("landscape", rows)


def worked_examples() -> Table:
    """Return Algorithm 1 on the paper's own outputs, component by component."""
    rows = []
    for example in paper_outputs()["examples"]:
        gold = SevaGold(example["gold"])
        parts = score_output(output_of(example["output"]), gold).components
        scores = [decimal(parts[name], 2) for name in ("format", "alignment", "chain", "label", "diagnosis")]
        rows.append(
            Row((example["name"], *scores, decimal(parts["calibration"]), decimal(reward(example["output"], gold))))
        )
    return table("worked_examples", rows)


def aliases() -> Table:
    """Return Table 13: every alias, through the reader of labels."""
    pairs = [(alias, canonical_label(alias), label) for label in LABELS for alias in facts("table13")[label]]
    return table("aliases", [Row((alias, ours or "none", label), ours == label) for alias, ours, label in pairs])


def reward_ranges() -> Table:
    """Return Table 14: the lowest and highest reward of each scenario, over gold labels, confidences and diagnoses."""
    rows = []
    for printed in facts("table14")["rows"]:
        totals = [reward(data, gold) for data, gold in scenario_outputs(printed["scenario"])]
        ends = ((min(totals), printed["low"]), (max(totals), printed["high"]))
        cells = (decimal(value, 2) for end in ends for value in end)
        rows.append(Row((printed["scenario"], *cells), all(agrees(ours, theirs, 2) for ours, theirs in ends)))
    return table("reward_ranges", rows)


def scenario_outputs(name: str) -> Iterator[tuple[Data | None, SevaGold]]:
    """Yield outputs and gold labels that span a scenario's rewards."""
    if name in ("unparseable", "JSON without fields"):
        yield from ((None if name == "unparseable" else {}, gold) for gold in (POSITIVE, NEGATIVE))
        return
    complete = paper_outputs()["landscape"]["right label, good reasoning"]
    bare = {key: value for key, value in complete.items() if key not in ("error_type", "fix_suggestion")}
    right = name == "everything perfect"
    for confidence in (0.0, 1.0):
        if name == "all fields, all wrong":
            empty = {"evidence_alignment": [], "reasoning_chain": [], "label": "?", "confidence": confidence}
            yield from ((empty, gold) for gold in (POSITIVE, NEGATIVE))
            continue
        yield bare | {"label": LABELS[0], "confidence": confidence}, POSITIVE if right else NEGATIVE
        yield complete | {"confidence": confidence}, NEGATIVE if right else POSITIVE
        if not right:  # A diagnosis beside the label that denies it.
            yield complete | {"label": LABELS[0], "confidence": confidence}, NEGATIVE


def taxonomy() -> Table:
    """Return Table 20: the six categories."""
    names = {name: canonical_error_type(name.rstrip(".")) for name in facts("table20")["names"]}
    return table("taxonomy", [Row((name, ours or "none"), ours in ERROR_TYPES) for name, ours in names.items()])


def weight_splits() -> Table:
    """Return Table 21: their F1 by split of the weights, beside the rewards of each split for the levels of Table 1."""
    levels = list(paper_outputs()["landscape"].values())[:3]
    rows = []
    for printed in facts("table21")["rows"]:
        rewards = (decimal(reward(level, NEGATIVE, find_rubric(printed["split"])), 2) for level in levels)
        scores = (str(printed["f1"]), str(printed["alignment"]), f"{printed['format']} %")
        rows.append(Row((printed["split"], *scores, *rewards)))
    return table("weight_splits", rows)


# Figure 6: advantages within a group of samples.


def figure_6() -> Table:
    """Return the advantages of the eight rewards that Figure 6 draws, by equation 2."""
    printed = facts("figure6")
    binary = [0.0] * printed["binary_zeros"] + [1.0] * printed["binary_ones"]
    rows = []
    for name, rewards, places in (("process", printed["process"], 1), ("binary", binary, 2)):
        advantages = group_advantages(rewards)
        low, high, spread = float(advantages.min()), float(advantages.max()), printed[f"{name}_spread"]
        rows.append(Row((name, signed(low, 2), signed(high, 2), f"±{spread}"), agrees(high, spread, places)))
    return table("figure_6", rows)


# Table 12 and the cues in the local files; Table 19's probes.

CLUES: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "question mark": lambda claim: "?" in claim,
        "≤ 8 words": lambda claim: len(claim.split()) <= 8,
        "a digit": lambda claim: any(char.isdigit() for char in claim),
    }
)
"""Tests of a claim that never open its source."""
_TELLING = 0.95
PUBLISHED = "published slice"


def claims_of(data_sets: Sequence[DataSet]) -> dict[str, BenchmarkClaims]:
    """Return the claims of every data set that is a file, by name. Raises DataError for an unusable one."""
    return {data.name: read_benchmark(data.name, data.path) for data in data_sets if data.path is not None}


def kind_of(name: str, claims: BenchmarkClaims) -> str:
    """Return whether a data set at hand is the paper's, by its place and name: authors publish three slices."""
    file = claims.files[0]
    if file.parent.name == "seva_official":
        return PUBLISHED
    return "GrayFacts, another set" if (name, file.name) == ("clearfacts", "grayfacts.jsonl") else "a file of yours"


def attributable(claims: BenchmarkClaims) -> float:
    """Return the share of attributable claims."""
    return sum(claim.label == ATTRIBUTABLE for claim in claims) / len(claims)


def table_12(claims: Claims) -> Table:
    """Return sizes and shares of attributable claims."""
    rows, differing = [], []
    for printed in facts("table12")["rows"]:
        name, size, printed_share = printed["benchmark"], printed["evaluated"], printed["attributable"]
        if (items := claims.get(name)) is None:
            rows.append(Row((name, ABSENT, f"{size:,}", ABSENT, f"{printed_share} %", "no file at hand")))
            continue
        share, kind = 100 * attributable(items), kind_of(name, items)
        equal = len(items) == size and agrees(share, printed_share, 1) if kind == PUBLISHED else None
        differing += [name] if equal is False else []
        cells = (name, f"{len(items):,}", f"{size:,}", f"{share:.1f} %", f"{printed_share} %", kind)
        rows.append(Row(cells, equal))
    if (anli := claims.get("anli")) is not None:
        cells = ("anli", f"{len(anli):,}", ABSENT, f"{100 * attributable(anli):.1f} %", ABSENT, "training data there")
        rows.append(Row(cells))
    note = f"The published labels of {' and '.join(differing)} are not those that the paper counts."
    return table("table_12", rows, notes=[note] if differing else [])


def shortcuts(claims: Claims) -> Table:
    """Return the accuracy of the better of two readings of each clue, from the claim alone."""
    rows, notes = [], []
    for name, items in claims.items():
        share = attributable(items)
        majority = max(share, 1 - share)
        accuracies = {}
        for clue, test in CLUES.items():
            right = sum(test(item.claim) == (item.label == ATTRIBUTABLE) for item in items) / len(items)
            accuracies[clue] = max(right, 1 - right)
        rows.append(Row((name, percent(majority), *(percent(value) for value in accuracies.values()))))
        notes += [
            f"On {name} one clue tells the label: {clue}, {percent(value)}. No score there shows that a source was read."
            for clue, value in accuracies.items()
            if value >= _TELLING > majority
        ]
    return table("shortcuts", rows, columns=tuple(CLUES), notes=notes)


_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "entity_confusion": "Apple Inc. released the iPhone in 2007.",
        "multi_hop_graft": "John Miller studied at Oxford in 1934.",
        "presupposition": "The temperature has risen by 2°C.",
        "unanswerable_wrap": "The trial had positive results.",
    }
)
"""Where the printed original is a fragment, which asserts nothing that a rule can change: the same as a sentence."""
_DONORS = ("Samsung Inc. opened a plant in 1999.", "The treaty was signed in Geneva on 4 May 1961.")
_SEEDS = range(20)


def table_19(claims: Claims) -> Table:
    """Return the paper's originals, their perturbations and ours, and how many of ours pass their checks."""
    printed = facts("table19")
    rows = []
    for row in printed["rows"]:
        name, original = row["strategy"], row["original"]
        probe, mark = first_probe(name, original), ""
        if probe is None and name in _SENTENCES:
            probe, mark = first_probe(name, _SENTENCES[name]), " *"
        rows.append(Row((name, row["perturbed"], f"{probe.claim if probe else 'no probe'}{mark}")))
    failing = "Ours were not counted: no data at hand."
    if name := next((name for name in ("fever", "anli") if name in claims), ""):
        reports = survey_strategies(claims[name])
        made, passed = sum(report.generated for report in reports), sum(report.passed for report in reports)
        share = percent((made - passed) / made if made else None)
        failing = f"Ours on {name}: {made - passed} of {made} ({share}) fail the rules’ checks."
    return table("table_19", rows, dropped=printed["dropped"], failing=failing)


def first_probe(strategy: str, original: str) -> Probe | None:
    """Return the probe of the first seed that gives one."""
    donors = [AttributionClaim(f"donor-{i}", text, text, ATTRIBUTABLE) for i, text in enumerate(_DONORS)]
    item = AttributionClaim("original", original, original, ATTRIBUTABLE)
    probes = (make_probe(item, strategy, seed=seed, pool=Pool([item, *donors])) for seed in _SEEDS)
    return next((probe for probe in probes if isinstance(probe, Probe)), None)


# Tables 4, 5, 16 and 17: trained models beside our scripts.

_BASELINES = ("nli", "lexical")
_TITLES = {"clearfacts": "ClearF.", "fever": "FEVER", "truthfulqa": "TrQA", "halueval": "HaluE."}


def table_4(results: Results, claims: Claims) -> Table:
    """Return macro-F1 across benchmarks. Exploiters are left out: they may know the label."""
    names = facts("table4")["columns"]
    rows = []
    scripts, reports = scripted_agents("seva"), reports_by_run(results)
    for agent in dict.fromkeys(result.agent for result in results):
        if agent in scripts and scripts[agent].role == "exploiter":
            continue
        scores = [report.scores["macro_f1"] if (report := reports.get((name, agent))) else None for name in names]
        if any(scores):
            rows.append({"agent": agent, "scores": scores})
    return table("table_4", rows, columns=[_TITLES[name] + difference_mark(claims, name) for name in names])


def difference_mark(claims: Claims, name: str) -> str:
    """Return how a benchmark at hand differs from the paper's: † other claims, ‡ other labels, empty for neither."""
    items = claims.get(name)
    if items is None or kind_of(name, items) != PUBLISHED:
        return " †"
    printed = next(row for row in facts("table12")["rows"] if row["benchmark"] == name)
    return "" if agrees(100 * attributable(items), printed["attributable"], 1) else " ‡"


def reports_by_run(results: Results) -> dict[tuple[str, str], SevaReport]:
    """Return the reports by data set and agent."""
    return {(result.data_set, result.agent): result.report for result in results}


def table_5(results: Results) -> Table:
    """Return structural quality, on ClearFacts in the paper and on the first data set that was played here."""
    name = main_data_set(results)
    own = [result for result in results if result.data_set == name]
    return table("table_5", own, name=name or "nothing")


def main_data_set(results: Results) -> str:
    """Return ClearFacts where it was played, else the first data set."""
    names = [result.data_set for result in results]
    return "clearfacts" if "clearfacts" in names else next(iter(names), "")


def table_16(results: Results) -> Table:
    """Return the share of rejected claims."""
    reports = reports_by_run(results)
    agents = [agent for agent in _BASELINES if any(result.agent == agent for result in results)]
    rows = []
    for printed in facts("table16")["rows"]:
        pairs = [reports.get((printed["benchmark"], agent)) for agent in agents]
        shares = [percent(report.predicted_negative.value if report else None) for report in pairs]
        rows.append(Row((printed["benchmark"], f"{printed['predicted_negative']} %", *shares)))
    return table("table_16", rows, columns=[f"{agent}, ours" for agent in agents])


def table_17(results: Results) -> Table:
    """Return error types among rejections."""
    name, printed = main_data_set(results), facts("table17")
    baselines = [result for result in results if result.data_set == name and result.agent in _BASELINES]
    diagnoses = {result.agent: result.report.diagnoses for result in baselines}
    rows = []
    for row in printed["rows"]:
        shares = [kinds.shares.get(row["error"]) for kinds in diagnoses.values()]
        cells = (percent(share.value if share else 0.0) for share in shares)
        rows.append(Row((row["error"], f"{row['share']} %", *cells)))
    counts = {"GRPO": printed["n"], **{agent: sum(kinds.counts.values()) for agent, kinds in diagnoses.items()}}
    text = ", ".join(f"{agent} {n}" for agent, n in counts.items())
    columns = [f"{agent}, ours" for agent in diagnoses]
    return table("table_17", rows, columns=columns, counts=text, name=name or "nothing")
