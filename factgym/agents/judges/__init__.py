"""Judges: a policy with a fixed prompt, or a stand-in that is labelled as such, grades a case by a rubric."""

from factgym.agents.judges.base import AllAgree, Case, Judge, JudgeError, Judgement, judge_note
from factgym.agents.judges.fallback import ContainmentJudge, LexicalCheckJudge
from factgym.agents.judges.policy import JudgeCache, PolicyJudge, judge_from
from factgym.agents.judges.prompt import (
    EVIDENCE_SUPPORT,
    NEXT_STEP,
    PROBE_CHECK,
    PROMPTS,
    Field,
    JudgePrompt,
    find_prompt,
)

__all__ = [
    "EVIDENCE_SUPPORT",
    "NEXT_STEP",
    "PROBE_CHECK",
    "PROMPTS",
    "AllAgree",
    "Case",
    "ContainmentJudge",
    "Field",
    "Judge",
    "JudgeCache",
    "JudgeError",
    "JudgePrompt",
    "Judgement",
    "LexicalCheckJudge",
    "PolicyJudge",
    "find_prompt",
    "judge_from",
    "judge_note",
]
