"""EVE: a proposer rewarded for evidence that makes its answer findable, and a solver rewarded for recovering both.

Source: "EVE-Agent: Evidence-Verifiable Self-Evolving Agents", sections 2 and 3, appendices B and D. `check_proposal`
and `score_proposal` score a proposal, `score_solution` an answer; a rubric (`find_rubric`) combines the components and
`report_of` writes them down. Advantages are in `factgym.rewards.advantages`, asking the solver is the environment's.
"""

from __future__ import annotations

from factgym.rewards.eve.answers import exact_match, normalise_answer, squad_scores, token_f1
from factgym.rewards.eve.format import (
    FormatParts,
    Rollout,
    Search,
    answer_score,
    format_parts,
    format_reward,
    length_score,
    thought_of,
    tool_score,
)
from factgym.rewards.eve.guarded import guarded_parts, hops_reached, words_beside_source
from factgym.rewards.eve.measures import (
    TOKEN,
    CountTokens,
    best_success_rate,
    brevity,
    count_tokens,
    difficulty,
    evidence_value,
    log_prob_value,
    phi,
)
from factgym.rewards.eve.parse import Proposal, Solution, last_block, parse_proposal, parse_solution
from factgym.rewards.eve.proposal import (
    CheckedProposal,
    ProposalScore,
    check_proposal,
    is_leak,
    is_valid,
    score_proposal,
)
from factgym.rewards.eve.report import report_of
from factgym.rewards.eve.rubrics import (
    GUARDED,
    PROPOSER_COMPONENTS,
    PROPOSER_GATES,
    RUBRICS,
    SOLVER_COMPONENTS,
    SOLVER_GATES,
    Role,
    find_rubric,
)
from factgym.rewards.eve.rules import DEFAULT_RULES, MAX_HOPS, EveRules
from factgym.rewards.eve.solution import SolutionScore, score_solution
from factgym.rewards.eve.spans import find_span, holds_answer, is_anchored, is_focused, is_yes_no, locate, words_beside

__all__ = [
    "DEFAULT_RULES",
    "GUARDED",
    "MAX_HOPS",
    "PROPOSER_COMPONENTS",
    "PROPOSER_GATES",
    "RUBRICS",
    "SOLVER_COMPONENTS",
    "SOLVER_GATES",
    "TOKEN",
    "CheckedProposal",
    "CountTokens",
    "EveRules",
    "FormatParts",
    "Proposal",
    "ProposalScore",
    "Role",
    "Rollout",
    "Search",
    "Solution",
    "SolutionScore",
    "answer_score",
    "best_success_rate",
    "brevity",
    "check_proposal",
    "count_tokens",
    "difficulty",
    "evidence_value",
    "exact_match",
    "find_rubric",
    "find_span",
    "format_parts",
    "format_reward",
    "guarded_parts",
    "holds_answer",
    "hops_reached",
    "is_anchored",
    "is_focused",
    "is_leak",
    "is_valid",
    "is_yes_no",
    "last_block",
    "length_score",
    "locate",
    "log_prob_value",
    "normalise_answer",
    "parse_proposal",
    "parse_solution",
    "phi",
    "report_of",
    "score_proposal",
    "score_solution",
    "squad_scores",
    "thought_of",
    "token_f1",
    "tool_score",
    "words_beside",
    "words_beside_source",
]
