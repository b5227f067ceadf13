"""The constants of EVE's rewards that a user may want to change; the defaults are the paper's (sections 3.1, 3.2, 4.1).

What only the guarded reward reads is ours; `factgym.rewards.eve.rubrics` says what each of those settings closes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from factgym.core.errors import ConfigError

MAX_HOPS = 4
"""The most hops that the paper's proposer is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EveRules:
    """How proposals and solutions are scored.

    n: rollouts of the searching solver for each question, at least 2. m: search-disabled answers with the evidence, and
    as many without it. format_weight, lambda_v, lambda_b: weights of the format, of the evidence's value and of its
    brevity in the proposer's reward (equation 16); that of the difficulty is 1. lambda_e: weight of the evidence in the
    solver's reward (equation 19). max_evidence_tokens: where brevity reaches 0 (equation 15). short_answer_words,
    long_answer_words: up to so many words an answer has the format's full and half point. hop_weights: how often 1, 2,
    3 … hops are asked for.

    Read by the guarded reward only: min_evidence_terms content words that a span holds besides the answer's;
    max_evidence_share of its text's words that a span of more than one sentence may have; min_think_words different
    words that a thought needs; min_evidence_f1 with the gold evidence that a solver's evidence needs;
    ungrounded_share of the solver's point for an answer that shows no evidence which it was given.

    Raises ConfigError for a value out of range.
    """

    n: int = 5
    m: int = 5
    format_weight: float = 0.5
    lambda_v: float = 0.5
    lambda_b: float = 0.1
    lambda_e: float = 0.3
    max_evidence_tokens: int = 256
    short_answer_words: int = 5
    long_answer_words: int = 10
    hop_weights: tuple[float, ...] = (4.0, 3.0, 2.0, 1.0)
    min_evidence_terms: int = 2
    max_evidence_share: float = 0.5
    min_think_words: int = 5
    min_evidence_f1: float = 0.3
    ungrounded_share: float = 0.5

    def __post_init__(self) -> None:
        for one in fields(self):
            _check(one.name, str(one.type), getattr(self, one.name))
        if self.n < 2:
            raise ConfigError(f"EveRules.n must be at least 2, not {self.n}: the difficulty divides by n - 1")
        if self.m < 1 or self.max_evidence_tokens < 1:
            raise ConfigError("EveRules.m and EveRules.max_evidence_tokens must be at least 1")
        if self.short_answer_words > self.long_answer_words:
            raise ConfigError("EveRules.short_answer_words must not exceed long_answer_words")
        for name in ("max_evidence_share", "min_evidence_f1", "ungrounded_share"):
            if getattr(self, name) > 1:
                raise ConfigError(f"EveRules.{name} must lie between 0 and 1, not {getattr(self, name)!r:.80}")

    @property
    def hop_pmf(self) -> tuple[float, ...]:
        """The chance of 1, 2, 3 … hops; sums to 1."""
        total = math.fsum(self.hop_weights)
        return tuple(weight / total for weight in self.hop_weights)


def _check(name: str, kind: str, value: object) -> None:
    if name == "hop_weights":
        good = isinstance(value, tuple) and value and all(map(_is_amount, value)) and math.fsum(value) > 0
        if not good:
            raise ConfigError(f"EveRules.hop_weights must be a tuple of weights of at least 0, not {value!r:.80}")
    elif kind == "int" and (type(value) is not int or value < 0):
        raise ConfigError(f"EveRules.{name} must be a whole number of at least 0, not {value!r:.80}")
    elif kind == "float" and not _is_amount(value):
        raise ConfigError(f"EveRules.{name} must be a finite number of at least 0, not {value!r:.80}")


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


DEFAULT_RULES = EveRules()
