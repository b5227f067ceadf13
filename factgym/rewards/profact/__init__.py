"""ProFact: METEOR, the assignment of AVeriTeC's scorer, and the reward of each stage.

Source: "ProFact", section 3.3. `gold_of` reads a record of AVeriTeC, `score_stages` scores every component once, a
rubric (`PROCESS`, `NOPROCESS`) combines them. `meteor` is NLTK's number without NLTK and without a download.
"""

from __future__ import annotations

from factgym.rewards.profact.matching import MAX_PREDICTIONS, Match, Matching, best_matching, match_texts
from factgym.rewards.profact.meteor import (
    DEFAULT_METEOR,
    MeteorSettings,
    MeteorText,
    meteor,
    meteor_matrix,
    meteor_of,
    prepare,
    prepare_tokens,
)
from factgym.rewards.profact.stages import (
    COMPONENTS,
    CUTOFFS,
    LABELS,
    NO_ANSWER,
    NOPROCESS,
    PROCESS,
    RUBRICS,
    ProFactGold,
    ProFactScore,
    averitec_correct,
    comparison_strings,
    find_rubric,
    gold_of,
    score_stages,
    verdict_score,
)
from factgym.rewards.profact.tokens import Tokenize, nltk_tokens, sentences, treebank_tokens, word_tokens
from factgym.rewards.profact.wordnet import synonyms

__all__ = [
    "COMPONENTS",
    "CUTOFFS",
    "DEFAULT_METEOR",
    "LABELS",
    "MAX_PREDICTIONS",
    "NOPROCESS",
    "NO_ANSWER",
    "PROCESS",
    "RUBRICS",
    "Match",
    "Matching",
    "MeteorSettings",
    "MeteorText",
    "ProFactGold",
    "ProFactScore",
    "Tokenize",
    "averitec_correct",
    "best_matching",
    "comparison_strings",
    "find_rubric",
    "gold_of",
    "match_texts",
    "meteor",
    "meteor_matrix",
    "meteor_of",
    "nltk_tokens",
    "prepare",
    "prepare_tokens",
    "score_stages",
    "sentences",
    "synonyms",
    "treebank_tokens",
    "verdict_score",
    "word_tokens",
]
