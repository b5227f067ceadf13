"""The pure numbers of the proposer's reward: difficulty, the evidence's value, brevity, and what theory says of them.

Source: EVE, equations 2, 4, 14, 15 and appendix B. Every function is a closed form of counts; who was asked, and
how, is the environment's business.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from factgym.core.errors import ConfigError
from factgym.rewards.eve.rules import DEFAULT_RULES, EveRules

CountTokens = Callable[[str], int]

TOKEN = re.compile(r"\w+|[^\w\s]")
"""A token by rule: a run of word characters, or any other character that is no white space."""


def difficulty(correct: int, n: int) -> float:
    """R_DZ, equation 2: (n − k) / (n − 1) when 0 < k < n, else 0. In [0, 1].

    correct: how many of the n ≥ 2 searching rollouts gave the proposal's answer. Raises ConfigError out of range.
    """
    if type(n) is not int or n < 2:
        raise ConfigError(f"the difficulty needs n of at least 2 rollouts, not {n!r:.80}")
    if not 0 <= correct <= n:
        raise ConfigError(f"{correct!r:.80} right answers of {n} rollouts cannot be")
    return (n - correct) / (n - 1) if 0 < correct < n else 0.0


def phi(p: float, n: int) -> float:
    """φ_n(p), equation 4: what `difficulty` is on average when each of n rollouts is right with chance p."""
    _check_rollouts(n)
    if not 0.0 <= p <= 1.0:
        raise ConfigError(f"p must be a probability, not {p!r:.80}")
    return n / (n - 1) * (1.0 - p) * (1.0 - (1.0 - p) ** (n - 1))


def best_success_rate(n: int) -> float:
    """The one p that maximises φ_n, equation 25: 1 − n^(−1/(n−1)). For n = 5 it is .331, for n = 2 one half."""
    _check_rollouts(n)
    return 1.0 - math.exp(-math.log(n) / (n - 1))


def _check_rollouts(n: int) -> None:
    if type(n) is not int or n < 2:
        raise ConfigError(f"n must be a whole number of at least 2, not {n!r:.80}")


def evidence_value(plus: Sequence[bool], minus: Sequence[bool]) -> float:
    """V̂, equation 14: accuracy with the evidence less accuracy without it, in [−1, 1].

    plus, minus: whether each search-disabled answer with and without the evidence was the proposal's. Unbiased, and of
    variance at most 1 / (2m) for m answers each. Raises ConfigError when either is empty.
    """
    if not plus or not minus:
        raise ConfigError("the evidence's value needs at least one answer with the evidence and one without")
    return sum(plus) / len(plus) - sum(minus) / len(minus)


def log_prob_value(plus: Sequence[float], minus: Sequence[float], *, per_token: bool = False) -> float:
    """The teacher-forced variant of V: P(a | q, e) − P(a | q), from log-probabilities of the answer's tokens.

    plus, minus: natural logarithms, one for each token of the answer, after the prompt with and without the evidence.
    The probability of the whole answer is what V's definition (equation 11) asks for, so this is V of one way to write
    the answer, without sampling. per_token: compare geometric means over the tokens, which does not vanish for long
    answers; ours. In [−1, 1] for logarithms of at most 0. Raises ConfigError for none, or for one that is no number or
    above 0 (minus infinity is a probability of 0).
    """
    return _probability(plus, per_token) - _probability(minus, per_token)


def _probability(logs: Sequence[float], per_token: bool) -> float:
    if not logs:
        raise ConfigError("the value by log-probabilities needs at least one token of the answer")
    if not all(one <= 1e-6 for one in logs):
        raise ConfigError("log-probabilities must be numbers of at most 0")
    total = math.fsum(min(one, 0.0) for one in logs)
    return math.exp(total / len(logs) if per_token else total)


def count_tokens(text: str) -> int:
    """Tokens by rule (`TOKEN`).

    The paper counts with the proposer's tokenizer; this stand-in needs no model. Subword tokenizers cut rare words and
    give a little more on English prose.
    """
    return len(TOKEN.findall(text))


def brevity(evidence: str, rules: EveRules = DEFAULT_RULES, *, count: CountTokens = count_tokens) -> float:
    """B, equation 15: max(0, 1 − tokens / max_evidence_tokens), in [0, 1]; an empty span has 1.

    count: counts the tokens of a text.
    """
    return max(0.0, 1.0 - count(evidence) / rules.max_evidence_tokens)
