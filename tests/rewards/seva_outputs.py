"""SEVA outputs for the tests: the paper's own examples, and small builders.

The paper abbreviates ("claim", "source", "part"); the builders use the full field names of its prompt (K.1). Nothing is
added: a field that an example leaves out is left out.
"""

from __future__ import annotations

import json
from typing import Any

from factgym.rewards.rubric import Rubric
from factgym.rewards.seva.output import read_output
from factgym.rewards.seva.rubrics import PROCESS
from factgym.rewards.seva.scoring import SevaGold, score_output

POSITIVE = SevaGold("Attributable")
NEGATIVE = SevaGold("Not Attributable")


def aligned(claim: str, source: str, status: str) -> dict[str, str]:
    return {"claim_span": claim, "source_span": source, "status": status}


def step(part: str, judgment: str, evidence: str | None = None, explanation: str | None = None) -> dict[str, str]:
    fields = {"claim_part": part, "judgment": judgment, "source_evidence": evidence, "explanation": explanation}
    return {name: value for name, value in fields.items() if value is not None}


def output(**changes: Any) -> dict[str, Any]:
    """A complete output whose process part is perfect; an argument of None leaves its field out."""
    fields: dict[str, Any] = {
        "evidence_alignment": [aligned("12 countries", "8 different nations", "mismatch")],
        "reasoning_chain": [step("12 countries", "not_supported", "8 different nations", "The number is another.")],
        "label": "Not Attributable",
        "confidence": 0.85,
        "error_type": "numerical_exaggeration",
        "fix_suggestion": "Change 12 to 8.",
    }
    return {name: value for name, value in (fields | changes).items() if value is not None}


def reward_of(text: str, gold: SevaGold, rubric: Rubric = PROCESS, **options: Any) -> float:
    """The reward of a policy's text. options: claim, source and rules, as of `score_output`."""
    score = score_output(read_output(text), gold, **options)
    return rubric.total(score.components, score.gates)


def process(data: dict[str, Any], gold: SevaGold = NEGATIVE, **options: Any) -> float:
    return reward_of(json.dumps(data), gold, PROCESS, **options)


FIGURE_4 = {
    "evidence_alignment": [
        aligned("60% of participants", "60% of subjects", "match"),
        aligned("significantly improved", "NOT_FOUND", "not_found"),
    ],
    "reasoning_chain": [
        step("60% of participants", "supported", "60% of subjects showed improvement", "percentage matches"),
        step("significantly", "not_supported", "showed improvement", "qualifier absent"),
    ],
    "label": "Not Attributable",
    "confidence": 0.85,
    "error_type": "scope_inflation",
    "fix_suggestion": 'remove "significantly"',
}

EXAMPLE_1 = {
    "evidence_alignment": [
        aligned("founded in 2004", "Founded in 2004", "match"),
        aligned("headquartered in SF", "main office in SF", "match"),
    ],
    "reasoning_chain": [step("founded in 2004", "supported"), step("headquartered in SF", "supported")],
    "label": "Attributable",
    "confidence": 0.95,
}

EXAMPLE_2 = {
    "evidence_alignment": [
        aligned("500 participants", "500 volunteers", "match"),
        aligned("12 countries", "8 different nations", "mismatch"),
    ],
    "reasoning_chain": [step("500 participants", "supported"), step("12 countries", "not_supported")],
    "label": "Not Attributable",
    "error_type": "numerical_exaggeration",
    "fix_suggestion": "Change 12 to 8.",
}

EXAMPLE_3 = {
    "evidence_alignment": [
        aligned("policy was implemented", "regulation was enacted", "match"),
        aligned("reduce emissions", "lowering GHG output", "mismatch"),
    ],
    "reasoning_chain": [
        step(
            "reduce emissions", "not_supported", explanation="emissions broader than greenhouse gas output"
        )
    ],
    "label": "Not Attributable",
    "error_type": "scope_inflation",
    "fix_suggestion": "Change emissions to greenhouse gas output.",
}  # fmt: skip

SFT_OUTPUT = {"label": "Attributable", "confidence": 0.7}

GRPO_OUTPUT = {
    "evidence_alignment": [
        aligned("reduced mortality by 30%", "decreased death rates by approximately one-third", "match")
    ],
    "reasoning_chain": [
        step(
            "reduced mortality by 30%",
            "supported",
            "decreased death rates by approximately one-third",
            "30% and one-third are equivalent",
        )
    ],
    "label": "Attributable",
    "confidence": 0.92,
}
