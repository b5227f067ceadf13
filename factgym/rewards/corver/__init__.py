"""CorVer: sentences rewarded by how often a corpus holds their entities together, and the response rewards beside it.

Source: "Verifiable Rewards Beyond Math and Code: Lightweight Corpus-Grounded Process Supervision for Factual Question
Answering", sections 3 and 4, appendices A.2 and B. `score_completion` scores every component once, a rubric combines
them, `report_of` writes it down, `token_returns` and `group_returns` hand it to the tokens.
"""

from __future__ import annotations

from factgym.rewards.corver.format import check_format
from factgym.rewards.corver.judge import (
    Label,
    extract_answer,
    gold_answers,
    is_refusal,
    judge_answer,
    normalise_answer,
)
from factgym.rewards.corver.model_extractor import ModelExtractor
from factgym.rewards.corver.query import STOP_WORDS, content_words, query_of
from factgym.rewards.corver.report import report_of
from factgym.rewards.corver.rubrics import COMPONENTS, GATES, REFERENCE, RUBRICS, STRICT, find_rubric
from factgym.rewards.corver.rule_extractor import RuleExtractor
from factgym.rewards.corver.rules import DEFAULT_RULES, CorverRules
from factgym.rewards.corver.score import CorverScore, ScoredSentence, score_completion, score_many
from factgym.rewards.corver.sentences import Section, Sentence, sections_of, split_sentences
from factgym.rewards.corver.tokens import (
    GroupReturns,
    TokenReturns,
    group_returns,
    response_return,
    sentence_returns,
    token_returns,
    token_returns_many,
)
from factgym.rewards.corver.triplet_text import read_triplets
from factgym.rewards.corver.triplets import (
    PRONOUNS,
    CachedExtractor,
    Extractor,
    Triplet,
    cached_extractor,
    find_extractor,
)

__all__ = [
    "COMPONENTS",
    "DEFAULT_RULES",
    "GATES",
    "PRONOUNS",
    "REFERENCE",
    "RUBRICS",
    "STOP_WORDS",
    "STRICT",
    "CachedExtractor",
    "CorverRules",
    "CorverScore",
    "Extractor",
    "GroupReturns",
    "Label",
    "ModelExtractor",
    "RuleExtractor",
    "ScoredSentence",
    "Section",
    "Sentence",
    "TokenReturns",
    "Triplet",
    "cached_extractor",
    "check_format",
    "content_words",
    "extract_answer",
    "find_extractor",
    "find_rubric",
    "gold_answers",
    "group_returns",
    "is_refusal",
    "judge_answer",
    "normalise_answer",
    "query_of",
    "read_triplets",
    "report_of",
    "response_return",
    "score_completion",
    "score_many",
    "sections_of",
    "sentence_returns",
    "split_sentences",
    "token_returns",
    "token_returns_many",
]
