"""SEVA: the process reward for structured fact attribution, component by component, and the ways to combine them.

Source: "SEVA: Self-Evolving Verification Agent with Process Reward for Fact Attribution", section 2.3, Algorithm 1 and
appendix C. `read_output` reads an output, `score_output` scores every component once, a rubric combines them, and
`report_of` writes it all down.
"""

from __future__ import annotations

from factgym.rewards.seva.credit import credit
from factgym.rewards.seva.labels import (
    ERROR_TYPES,
    JUDGMENTS,
    LABELS,
    NOT_FOUND,
    STATUSES,
    Label,
    canonical_error_type,
    canonical_label,
)
from factgym.rewards.seva.output import FIELDS, REQUIRED_FIELDS, SevaOutput, output_of, read_output
from factgym.rewards.seva.report import report_of, reward_of
from factgym.rewards.seva.rubrics import (
    BINARY,
    GROUNDED,
    PROCESS,
    RUBRICS,
    SevaRubric,
    find_rubric,
    split_rubric,
)
from factgym.rewards.seva.rules import DEFAULT_RULES, SevaRules
from factgym.rewards.seva.schema import VERDICT_SCHEMA
from factgym.rewards.seva.score import COMPONENTS, GATES, GROUNDED_COMPONENTS, SevaGold, SevaScore, score_output

__all__ = [
    "BINARY",
    "COMPONENTS",
    "DEFAULT_RULES",
    "ERROR_TYPES",
    "FIELDS",
    "GATES",
    "GROUNDED",
    "GROUNDED_COMPONENTS",
    "JUDGMENTS",
    "LABELS",
    "NOT_FOUND",
    "PROCESS",
    "REQUIRED_FIELDS",
    "RUBRICS",
    "STATUSES",
    "VERDICT_SCHEMA",
    "Label",
    "SevaGold",
    "SevaOutput",
    "SevaRubric",
    "SevaRules",
    "SevaScore",
    "canonical_error_type",
    "canonical_label",
    "credit",
    "find_rubric",
    "output_of",
    "read_output",
    "report_of",
    "reward_of",
    "score_output",
    "split_rubric",
]
