"""CorVer's reward: sentences earn by how often a corpus contains their entities together, besides response rewards.

Source: "Verifiable Rewards Beyond Math and Code: Lightweight Corpus-Grounded Process Supervision for Factual Question
Answering", sections 3 and 4, appendices A.2 and B. `score_completion` scores every component once, a rubric combines
them, `reward_report` records them, `token_returns` and `group_returns` distribute them over tokens.
"""

from __future__ import annotations

from factgym.rewards.corver.extraction import RuleExtractor, cached_extractor, find_extractor
from factgym.rewards.corver.format import check_format, extract_answer, find_sections, split_sentences
from factgym.rewards.corver.judge import gold_answers, is_refusal, judge_answer, normalise_answer
from factgym.rewards.corver.model_extractor import ModelExtractor, read_triplets
from factgym.rewards.corver.rubrics import (
    COMPONENTS,
    DEFAULT_RULES,
    GATES,
    REFERENCE,
    RUBRICS,
    STRICT,
    CorverRules,
    find_rubric,
)
from factgym.rewards.corver.score import CorverScore, reward_report, score_completion, score_many, sentence_returns
from factgym.rewards.corver.tokens import group_returns, token_returns, token_returns_many
from factgym.rewards.corver.triplets import STOP_WORDS, Extractor, Triplet, build_query, content_words

__all__ = [
    "COMPONENTS",
    "DEFAULT_RULES",
    "GATES",
    "REFERENCE",
    "RUBRICS",
    "STOP_WORDS",
    "STRICT",
    "CorverRules",
    "CorverScore",
    "Extractor",
    "ModelExtractor",
    "RuleExtractor",
    "Triplet",
    "build_query",
    "cached_extractor",
    "check_format",
    "content_words",
    "extract_answer",
    "find_extractor",
    "find_rubric",
    "find_sections",
    "gold_answers",
    "group_returns",
    "is_refusal",
    "judge_answer",
    "normalise_answer",
    "read_triplets",
    "reward_report",
    "score_completion",
    "score_many",
    "sentence_returns",
    "split_sentences",
    "token_returns",
    "token_returns_many",
]
