"""The tables of the SEVA paper that set something of ours beside something of theirs.

Left out, because nothing in them can be computed without training: Tables 2, 8 to 11 and 22. Results of trained models are
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
from factgym.benchmarks.formats import ABSENT, decimal, hundred, percent, signed
from factgym.benchmarks.report import Row, Table, agrees, paper_facts, paper_table
from factgym.benchmarks.seva.collapse import simulated_rows
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
Data = dict[str, Any]
Claims = Mapping[str, BenchmarkClaims]
POSITIVE, NEGATIVE = (SevaGold(label) for label in LABELS)
_UNREADABLE = "The claim is supported by the source."


Results = Sequence[AgentResult[SevaReport]]


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
        table_18(),
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
    note = "Theirs are approximate (~). Ours are one output each, with confidence .85, .70 and .55; gold Not Attributable."
    columns = ("response", "process", "theirs", "binary", "theirs")
    return paper_table("Table 1", "Reward landscape", "computed", columns, rows, (note,))


def worked_examples() -> Table:
    """Return Algorithm 1 on the paper's own outputs, component by component."""
    rows = []
    for example in paper_outputs()["examples"]:
        gold = SevaGold(example["gold"])
        parts = score_output(output_of(example["output"]), gold).components
        scores = [decimal(parts[name], 2) for name in ("format", "alignment", "chain", "label", "diagnosis")]
        total = decimal(reward(example["output"], gold))
        rows.append(Row((example["name"], *scores, decimal(parts["calibration"]), total)))
    note = (
        "The paper prints these outputs and no rewards. Fields that it leaves out are left out here: G.2 and G.3 state no"
        " confidence, which counts as .5 and costs the format score half."
    )
    columns = ("output", "R_f", "R_a", "R_c", "R_l", "R_d", "R_cal", "R")
    title = "Worked examples of Figure 4, appendices G and J"
    return paper_table("Algorithm 1", title, "computed", columns, rows, (note,))


def aliases() -> Table:
    """Return Table 13: every alias, through the reader of labels."""
    rows = [
        Row((alias, canonical_label(alias) or "none", label), canonical_label(alias) == label)
        for label in LABELS
        for alias in facts("table13")[label]
    ]
    return paper_table("Table 13", "Label aliases", "computed", ("alias", "ours", "theirs"), rows)


def reward_ranges() -> Table:
    """Return Table 14: the lowest and highest reward of each scenario, over gold labels, confidences and diagnoses."""
    rows = []
    for printed in facts("table14")["rows"]:
        totals = [reward(data, gold) for data, gold in scenario_outputs(printed["scenario"])]
        low, high = min(totals), max(totals)
        printed_low, printed_high = (decimal(printed[end], 2) for end in ("low", "high"))
        cells = (printed["scenario"], decimal(low, 2), printed_low, decimal(high, 2), printed_high)
        rows.append(Row(cells, agrees(low, printed["low"], 2) and agrees(high, printed["high"], 2)))
    note = (
        "1.28 is out of reach: five components of 1 weigh 1.00, and a confidence of 1 adds 0.15. Theirs leave out R_d for"
        " the gold label and the calibration term on either side. Ours is floored at 0, as the published reward is."
    )
    columns = ("scenario", "lowest", "theirs", "highest", "theirs")
    return paper_table("Table 14", "Reward range", "computed", columns, rows, (note,))


def scenario_outputs(name: str) -> Iterator[tuple[Data | None, SevaGold]]:
    """Yield outputs and gold labels that span a scenario's rewards."""
    if name == "unparseable":
        yield from ((None, gold) for gold in (POSITIVE, NEGATIVE))
        return
    if name == "JSON without fields":
        yield from (({}, gold) for gold in (POSITIVE, NEGATIVE))
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
    rows = []
    for name in facts("table20")["names"]:
        category = canonical_error_type(name.rstrip("."))
        rows.append(Row((name, category or "none"), category in ERROR_TYPES))
    return paper_table("Table 20", "Error taxonomy", "computed", ("theirs", "ours"), rows)


def weight_splits() -> Table:
    """Return Table 21: their F1 by split of the weights, beside the rewards of each split for the levels of Table 1."""
    levels = list(paper_outputs()["landscape"].values())[:3]
    rows = []
    for printed in facts("table21")["rows"]:
        rewards = [decimal(reward(level, NEGATIVE, find_rubric(printed["split"])), 2) for level in levels]
        scores = (str(printed["f1"]), str(printed["alignment"]), f"{printed['format']} %")
        rows.append(Row((printed["split"], *scores, *rewards)))
    note = (
        "Ours is the reward of the first three outputs of Table 1. Up to 50/50 sound reasoning under a wrong label earns"
        " more than a bare right label; at 30/70 it no longer does."
    )
    columns = ("split", "F1, theirs", "align", "format", "both good", "wrong label", "bare label")
    return paper_table("Table 21", "Weight splits", "theirs", columns, rows, (note,))


# Figure 6 and Table 18: advantages within a group of samples.


def figure_6() -> Table:
    """Return the advantages of the eight rewards that Figure 6 draws, by equation 2."""
    printed = facts("figure6")
    binary = [0.0] * printed["binary_zeros"] + [1.0] * printed["binary_ones"]
    rows = []
    for name, rewards, places in (("process", printed["process"], 1), ("binary", binary, 2)):
        advantages = group_advantages(rewards)
        low, high, spread = float(advantages.min()), float(advantages.max()), printed[f"{name}_spread"]
        rows.append(Row((name, signed(low, 2), signed(high, 2), f"±{spread}"), agrees(high, spread, places)))
    note = "Equation 2 gives the binary group, six zeros and two ones, larger extremes than the process group."
    columns = ("reward", "lowest A", "highest A", "theirs")
    return paper_table("Figure 6", "Advantages of the eight rollouts drawn", "computed", columns, rows, (note,))


def table_18() -> Table:
    """Return advantage collapse on simulated policies."""
    rows = []
    for row in simulated_rows():
        if row.run != row.reward:
            continue
        report = row.report
        printed = next(step for step in facts("table18")[row.run] if step["step"] == row.step)
        cells = (
            f"{row.run} {row.step}",
            decimal(report.reward, 2),
            decimal(printed["reward"], 2),
            f"{signed(report.low_mean, 2)}/{signed(report.high_mean, 2)}",
            f"{signed(report.advantage_min, 2)}/{signed(report.advantage_max, 2)}",
            f"{signed(printed['low'], 2)}/{signed(printed['high'], 2)}",
            percent(report.zero_variance),
        )
        rows.append(Row(cells))
    notes = (
        "No model was trained: policies with the paper’s rates of format and label errors, and a share of prompts whose"
        " samples all agree that is fitted to its binary rows. Mean: over groups; extreme: of the batch.",
        "Their binary extremes cannot be a batch’s: one success in a group of 8 has an advantage of 2.47.",
    )
    columns = ("run, step", "reward", "theirs", "A mean", "A extreme", "theirs", "equal")
    return paper_table("Table 18", "Advantage collapse", "simulated", columns, rows, notes)


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
    if name == "clearfacts" and file.name == "grayfacts.jsonl":
        return "GrayFacts, another set"
    return "a file of yours"


def attributable(claims: BenchmarkClaims) -> float:
    """Return the share of attributable claims."""
    return sum(claim.label == ATTRIBUTABLE for claim in claims) / len(claims)


def table_12(claims: Claims) -> Table:
    """Return sizes and shares of attributable claims."""
    rows = []
    for printed in facts("table12")["rows"]:
        name, size, printed_share = printed["benchmark"], printed["evaluated"], printed["attributable"]
        if (items := claims.get(name)) is None:
            rows.append(Row((name, "–", f"{size:,}", "–", f"{printed_share} %", "no file at hand")))
            continue
        share, kind = 100 * attributable(items), kind_of(name, items)
        equal = len(items) == size and agrees(share, printed_share, 1)
        cells = (name, f"{len(items):,}", f"{size:,}", f"{share:.1f} %", f"{printed_share} %", kind)
        rows.append(Row(cells, equal if kind == PUBLISHED else None))
    if (anli := claims.get("anli")) is not None:
        share = 100 * attributable(anli)
        rows.append(Row(("anli", f"{len(anli):,}", "–", f"{share:.1f} %", "–", "training data there")))
    notes = ["GrayFacts holds ambiguous claims alone: no number on it is comparable with one on ClearFacts."]
    differing = [str(row.cells[0]) for row in rows if row.agrees is False]
    if differing:
        notes.append(f"The published labels of {' and '.join(differing)} are not those that the paper counts.")
    columns = ("benchmark", "items", "evaluated", "Attr.", "published", "note")
    return paper_table("Table 12", "Evaluation data", "data", columns, rows, notes)


def shortcuts(claims: Claims) -> Table:
    """Return the accuracy of the better of two readings of each clue, from the claim alone."""
    rows = []
    notes = ["Accuracy of a rule that never opens the source; each clue is read in the better of its two directions."]
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
    columns = ("benchmark", "majority", *CLUES)
    return paper_table("Data at hand", "Labels predicted from the claim's form alone", "data", columns, rows, notes)


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
    for name in ("fever", "anli"):
        if name in claims:
            reports = survey_strategies(claims[name])
            made, passed = sum(report.generated for report in reports), sum(report.passed for report in reports)
            share = percent((made - passed) / made if made else None)
            failing = f"Ours on {name}: {made - passed} of {made} ({share}) fail the rules’ checks."
            break
    notes = [
        "* Made from the same statement as a whole sentence: the printed original is a fragment, or a name in it is of no"
        " kind that rules can tell.",
        f"Theirs discard about {printed['dropped']} % in filtering. {failing}",
    ]
    columns = ("strategy", "theirs", "ours")
    return paper_table("Table 19", "Perturbation strategies", "computed", columns, rows, notes, words=True)


def first_probe(strategy: str, original: str) -> Probe | None:
    """Return the probe of the first seed that gives one."""
    donors = [AttributionClaim(f"donor-{i}", text, text, ATTRIBUTABLE) for i, text in enumerate(_DONORS)]
    item = AttributionClaim("original", original, original, ATTRIBUTABLE)
    for seed in _SEEDS:
        probe = make_probe(item, strategy, seed=seed, pool=Pool([item, *donors]))
        if isinstance(probe, Probe):
            return probe
    return None


# Tables 4, 5, 16 and 17: trained models beside our scripts.

_BASELINES = ("nli", "lexical")
_TITLES = {"clearfacts": "ClearF.", "fever": "FEVER", "truthfulqa": "TrQA", "halueval": "HaluE."}


def table_4(results: Results, claims: Claims) -> Table:
    """Return macro-F1 across benchmarks. Exploiters are left out: they may know the label."""
    printed = facts("table4")
    names = printed["columns"]
    rows = [Row((f"{row['model']} (theirs)", *(decimal(value, 1) for value in row["f1"]))) for row in printed["rows"]]
    scripts, reports = scripted_agents("seva"), reports_by_run(results)
    for agent in dict.fromkeys(result.agent for result in results):
        if agent in scripts and scripts[agent].role == "exploiter":
            continue
        scores = [report.scores["macro_f1"] if (report := reports.get((name, agent))) else None for name in names]
        if any(scores):
            rows.append(Row((f"{agent} (ours)", *(hundred(score) for score in scores))))
    notes = (
        "† Other claims than the paper’s, or none. ‡ The slice that its authors publish, whose labels are not those that it counts.",
        "All of theirs on HaluEval are below the 50 of a coin on balanced labels.",
    )
    columns = ("model", *(_TITLES[name] + difference_mark(claims, name) for name in names))
    return paper_table("Tables 3, 4", "Macro-F1 across benchmarks", "theirs", columns, rows, notes)


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
    rows = []
    for row in facts("table5")["rows"]:
        scores = (decimal(row["alignment"]), decimal(row["chain"]), f"{row['format']} %")
        rows.append(Row((f"{row['model']} (theirs)", *scores, ABSENT)))
    name = main_data_set(results)
    for result in results:
        if result.data_set == name:
            values = {part: estimate.value for part, estimate in result.report.structure.items()}
            scores = (decimal(values["alignment"]), decimal(values["chain"]), percent(values["format"]))
            rows.append(Row((f"{result.agent} (ours)", *scores, decimal(values["grounded_alignment"]))))
    notes = (
        f"Ours on {name or 'nothing'}. R_a and R_c look at form alone: a script that knows nothing of the claim has"
        " both near 1. The grounded alignment asks whether the spans are in claim and source.",
        "Ours are means over outputs that parse. .917 beside a format rate of 72 % is hardly a mean over all outputs.",
    )
    columns = ("model", "align", "chain", "format", "grounded")
    return paper_table("Tables 5, 6", "Structural quality", "theirs", columns, rows, notes)


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
    columns = ("benchmark", "GRPO, theirs", *(f"{agent}, ours" for agent in agents))
    return paper_table("Table 16", "Share of claims rejected", "theirs", columns, rows)


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
    note = f"Rejections: {', '.join(f'{agent} {n}' for agent, n in counts.items())}. Ours on {name or 'nothing'}."
    columns = ("error type", "GRPO, theirs", *(f"{agent}, ours" for agent in diagnoses))
    return paper_table("Table 17", "Error types diagnosed", "theirs", columns, rows, (note,))
