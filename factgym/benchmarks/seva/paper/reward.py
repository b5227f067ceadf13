"""Tables 1, 13, 14, 20 and 21, and the worked examples: what the reward gives, computed.

The outputs below are ours in form and the paper's in content: Figure 4, the examples of appendix G and the two of
appendix J, with the field names of its prompt and nothing added. The paper prints no rewards for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from factgym.benchmarks.formats import decimal
from factgym.benchmarks.papers.table import PaperRow, PaperTable, same
from factgym.benchmarks.seva.facts import facts
from factgym.rewards.seva import (
    BINARY,
    ERROR_TYPES,
    LABELS,
    PROCESS,
    SevaGold,
    SevaRubric,
    canonical_error_type,
    canonical_label,
    find_rubric,
    output_of,
    read_output,
    score_output,
)

Data = dict[str, Any]
POSITIVE, NEGATIVE = (SevaGold(label) for label in LABELS)
UNREADABLE = "The claim is supported by the source."


def _aligned(claim: str, source: str, status: str) -> Data:
    return {"claim_span": claim, "source_span": source, "status": status}


def _step(part: str, judgment: str, **more: str) -> Data:
    return {"claim_part": part, "judgment": judgment, **more}


def _complete(**changes: Any) -> Data:
    """An output whose process part is perfect; an argument of None leaves its field out."""
    evidence = "The research included 500 volunteers from 8 different nations."
    found: Data = {
        "evidence_alignment": [_aligned("12 countries", "8 different nations", "mismatch")],
        "reasoning_chain": [
            _step("12 countries", "not_supported", source_evidence=evidence, explanation="The number is another.")
        ],
        "label": LABELS[1],
        "confidence": 0.85,
        "error_type": "numerical_exaggeration",
        "fix_suggestion": "Change 12 to 8.",
    }
    return {name: value for name, value in (found | changes).items() if value is not None}


LANDSCAPE: Mapping[str, Data | None] = {
    "right label, good reasoning": _complete(),
    "wrong label, good reasoning": _complete(label=LABELS[0], confidence=0.7, error_type=None, fix_suggestion=None),
    "right label, poor reasoning": {"label": LABELS[1], "confidence": 0.55},
    "unparseable": None,
}
"""One output for each level of Table 1, about a claim that is Not Attributable."""

EXAMPLES: Mapping[str, tuple[Data, SevaGold]] = {
    "Figure 4, scope inflation found": (
        {
            "evidence_alignment": [
                _aligned("60% of participants", "60% of subjects", "match"),
                _aligned("significantly improved", "NOT_FOUND", "not_found"),
            ],
            "reasoning_chain": [
                _step("60% of participants", "supported", explanation="percentage matches"),
                _step("significantly", "not_supported", explanation="qualifier absent"),
            ],
            "label": LABELS[1],
            "confidence": 0.85,
            "error_type": "scope_inflation",
            "fix_suggestion": 'remove "significantly"',
        },
        NEGATIVE,
    ),
    "G.1, attributable": (
        {
            "evidence_alignment": [
                _aligned("founded in 2004", "Founded in 2004", "match"),
                _aligned("headquartered in SF", "main office in SF", "match"),
            ],
            "reasoning_chain": [_step("founded in 2004", "supported"), _step("headquartered in SF", "supported")],
            "label": LABELS[0],
            "confidence": 0.95,
        },
        POSITIVE,
    ),
    "G.2, a number changed": (
        {
            "evidence_alignment": [
                _aligned("500 participants", "500 volunteers", "match"),
                _aligned("12 countries", "8 different nations", "mismatch"),
            ],
            "reasoning_chain": [_step("500 participants", "supported"), _step("12 countries", "not_supported")],
            "label": LABELS[1],
            "error_type": "numerical_exaggeration",
            "fix_suggestion": "Change 12 to 8.",
        },
        NEGATIVE,
    ),
    "G.3, a paraphrase rejected": (
        {
            "evidence_alignment": [
                _aligned("policy was implemented", "regulation was enacted", "match"),
                _aligned("reduce emissions", "lowering GHG output", "mismatch"),
            ],
            "reasoning_chain": [
                _step("reduce emissions", "not_supported", explanation="emissions broader than greenhouse gas output")
            ],
            "label": LABELS[1],
            "error_type": "scope_inflation",
            "fix_suggestion": "Change emissions to greenhouse gas output.",
        },
        POSITIVE,
    ),
    "J, SFT: label and confidence alone": ({"label": LABELS[0], "confidence": 0.7}, POSITIVE),
    "J, GRPO: the same, complete": (
        {
            "evidence_alignment": [
                _aligned("reduced mortality by 30%", "decreased death rates by approximately one-third", "match")
            ],
            "reasoning_chain": [
                _step(
                    "reduced mortality by 30%",
                    "supported",
                    source_evidence="decreased death rates by approximately one-third",
                    explanation="30% and one-third are equivalent",
                )
            ],
            "label": LABELS[0],
            "confidence": 0.92,
        },
        POSITIVE,
    ),
}
"""The paper's own outputs with their gold labels; of appendix J it gives none, and we take what both models said."""


def reward(data: Data | None, gold: SevaGold, rubric: SevaRubric = PROCESS) -> float:
    """The total of an output under a rubric; None is a text that does not parse."""
    score = score_output(read_output(UNREADABLE) if data is None else output_of(data), gold)
    return rubric.total(score.components, score.gates)


def landscape() -> PaperTable:
    """Table 1: the four levels."""
    rows = []
    for one in facts("table1")["rows"]:
        data = LANDSCAPE[one["response"]]
        ours, binary = reward(data, NEGATIVE), reward(data, NEGATIVE, BINARY)
        cells = (
            one["response"],
            decimal(ours),
            decimal(one["process"], 2),
            decimal(binary, 1),
            decimal(one["binary"], 1),
        )
        rows.append(PaperRow(cells, same(ours, one["process"], 2) and binary == one["binary"]))
    note = "Theirs are approximate (~). Ours are one output each, with confidence .85, .70 and .55; gold Not Attributable."
    return PaperTable(
        "Table 1",
        "Reward landscape",
        "computed",
        ("response", "process", "theirs", "binary", "theirs"),
        tuple(rows),
        (note,),
    )


def examples() -> PaperTable:
    """Algorithm 1 on the paper's own outputs, component by component."""
    rows = []
    for name, (data, gold) in EXAMPLES.items():
        parts = score_output(output_of(data), gold).components
        shown = [decimal(parts[one], 2) for one in ("format", "alignment", "chain", "label", "diagnosis")]
        rows.append(PaperRow((name, *shown, decimal(parts["calibration"]), decimal(reward(data, gold)))))
    notes = (
        "The paper prints these outputs and no rewards. Fields that it leaves out are left out here: G.2 and G.3 state no"
        " confidence, which counts as .5 and costs the format score half.",
    )
    return PaperTable(
        "Algorithm 1",
        "Worked examples of Figure 4, appendices G and J",
        "computed",
        ("output", "R_f", "R_a", "R_c", "R_l", "R_d", "R_cal", "R"),
        tuple(rows),
        notes,
    )


def aliases() -> PaperTable:
    """Table 13: every alias, through the reader of labels."""
    rows = []
    for canonical in LABELS:
        for alias in facts("table13")[canonical]:
            read = canonical_label(alias)
            rows.append(PaperRow((alias, read or "none", canonical), read == canonical))
    return PaperTable("Table 13", "Label aliases", "computed", ("alias", "ours", "theirs"), tuple(rows))


def ranges() -> PaperTable:
    """Table 14: the lowest and highest reward of each scenario, over gold labels, confidences and diagnoses."""
    rows = []
    for one in facts("table14")["rows"]:
        found = [reward(data, gold) for data, gold in _scenario(one["scenario"])]
        low, high = min(found), max(found)
        cells = (one["scenario"], decimal(low, 2), decimal(one["low"], 2), decimal(high, 2), decimal(one["high"], 2))
        rows.append(PaperRow(cells, same(low, one["low"], 2) and same(high, one["high"], 2)))
    notes = (
        "1.28 is out of reach: five components of 1 weigh 1.00, and a confidence of 1 adds 0.15, which is 1.15.",
        "Theirs leave out what their formula adds: R_d for the gold label and the calibration term on either side."
        " Ours is floored at 0, as the published reward is; unfloored the least is −0.10.",
    )
    return PaperTable(
        "Table 14",
        "Reward range",
        "computed",
        ("scenario", "lowest", "theirs", "highest", "theirs"),
        tuple(rows),
        notes,
    )


def _scenario(name: str) -> Iterator[tuple[Data | None, SevaGold]]:
    if name == "unparseable":
        yield from ((None, gold) for gold in (POSITIVE, NEGATIVE))
    elif name == "JSON without fields":
        yield from (({}, gold) for gold in (POSITIVE, NEGATIVE))
    elif name == "all fields, all wrong":
        for confidence in (0.0, 1.0):
            empty = {"evidence_alignment": [], "reasoning_chain": [], "label": "?", "confidence": confidence}
            yield from ((empty, gold) for gold in (POSITIVE, NEGATIVE))
    else:
        yield from _perfect(right=name == "everything perfect")


def _perfect(*, right: bool) -> Iterator[tuple[Data, SevaGold]]:
    """Outputs with a perfect process part, whose label is right or not; a right one's diagnosis is right as well."""
    for confidence in (0.0, 1.0):
        without: Data = {"label": LABELS[0], "confidence": confidence, "error_type": None, "fix_suggestion": None}
        yield _complete(**without), POSITIVE if right else NEGATIVE
        yield _complete(confidence=confidence), NEGATIVE if right else POSITIVE
        if not right:  # a diagnosis beside the label that denies it
            yield _complete(label=LABELS[0], confidence=confidence), NEGATIVE


def taxonomy() -> PaperTable:
    """Table 20: the six categories."""
    rows = []
    for name in facts("table20")["names"]:
        read = canonical_error_type(name.rstrip("."))
        rows.append(PaperRow((name, read or "none"), read in ERROR_TYPES))
    return PaperTable("Table 20", "Error taxonomy", "computed", ("theirs", "ours"), tuple(rows))


def splits() -> PaperTable:
    """Table 21: their F1 by split of the weights, beside what each split pays for the levels of Table 1."""
    levels = list(LANDSCAPE)[:3]
    rows = []
    for one in facts("table21")["rows"]:
        rubric = find_rubric(one["split"])
        paid = [decimal(reward(LANDSCAPE[level], NEGATIVE, rubric), 2) for level in levels]
        rows.append(PaperRow((one["split"], str(one["f1"]), str(one["alignment"]), f"{one['format']} %", *paid)))
    notes = (
        "Ours is the reward of the first three outputs of Table 1. Up to 50/50 sound reasoning under a wrong label earns"
        " more than a bare right label; at 30/70 it no longer does.",
    )
    columns = ("split", "F1, theirs", "align", "format", "both good", "wrong label", "bare label")
    return PaperTable("Table 21", "Weight splits", "theirs", columns, tuple(rows), notes)
