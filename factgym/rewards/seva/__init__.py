"""SEVA's process reward for structured fact attribution, component by component, and the ways to combine them.

Source: "SEVA: Self-Evolving Verification Agent with Process Reward for Fact Attribution", section 2.3, Algorithm 1 and
appendix C. `read_output` parses an output, `score_output` scores every component once, a rubric combines them, and
`report_of` makes the reward report.
"""

from __future__ import annotations

from factgym.rewards.seva.output import (
    ERROR_TYPES,
    FIELDS,
    JUDGMENTS,
    LABELS,
    NOT_FOUND,
    REQUIRED_FIELDS,
    STATUSES,
    VERDICT_SCHEMA,
    Label,
    SevaOutput,
    canonical_error_type,
    canonical_label,
    output_of,
    read_output,
)
from factgym.rewards.seva.rubrics import (
    BINARY,
    GROUNDED,
    PROCESS,
    RUBRICS,
    SevaRubric,
    find_rubric,
    report_of,
    reward_of,
    span_credits,
    split_rubric,
)
from factgym.rewards.seva.scoring import (
    COMPONENTS,
    DEFAULT_RULES,
    GATES,
    GROUNDED_COMPONENTS,
    SevaGold,
    SevaRules,
    SevaScore,
    score_output,
)

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
    "find_rubric",
    "output_of",
    "read_output",
    "report_of",
    "reward_of",
    "score_output",
    "span_credits",
    "split_rubric",
]
