"""Score of a proposal: its text and rollout first, then the solver's answers to it.

    checked = check_proposal(parse_proposal(text), rollout, texts)     # valid? verbatim? before any solver is asked
    score = score_proposal(checked, solved=[…], plus=[…], minus=[…])   # correctness of the solver's answers
    find_rubric("guarded", "proposer").total(score.components, score.gates)

Only a valid proposal needs the solver, and only a verbatim span the verifier (2m answers without search). Source: EVE,
sections 2 and 3.1, equations 2, 4, 11, 14 and 15, appendix B.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from factgym.core.errors import ConfigError
from factgym.corpora.text import terms
from factgym.datasets.multihop import Evidence
from factgym.rewards.answer_matching import normalise_answer
from factgym.rewards.eve.format import FormatParts, Rollout, format_parts, guarded_parts, hops_reached
from factgym.rewards.eve.rubrics import DEFAULT_RULES, EveRules
from factgym.rewards.eve.spans import Proposal, Range, Texts, find_span, is_anchored, is_focused, span_json

CountTokens = Callable[[str], int]
ValueKind = Literal["sampling", "logprob", "none"]

TOKEN = re.compile(r"\w+|[^\w\s]")
"""A token by rule: a run of word characters, or any other character except white space."""

_MIN_LEAK_LETTERS = 6
"""A shorter answer occurs by chance where gaps do not count: "Rome" in "from Ecuador"."""

_INVISIBLE = ("Mn", "Cf")
"""Unicode categories of combining marks, and of format characters such as the zero-width space."""


def difficulty(correct: int, n: int) -> float:
    """Return R_DZ, equation 2: (n − k) / (n − 1) when 0 < k < n, else 0. In [0, 1].

    correct: k, the number of the n ≥ 2 searching rollouts with the proposal's answer. Raises ConfigError out of range.
    """
    _check_rollouts(n)
    if not 0 <= correct <= n:
        raise ConfigError(f"{correct!r:.80} right answers of {n} rollouts cannot be")
    return (n - correct) / (n - 1) if 0 < correct < n else 0.0


def expected_difficulty(p: float, n: int) -> float:
    """Return φ_n(p), equation 4: the mean of `difficulty` when each of n rollouts is right with probability p."""
    _check_rollouts(n)
    if not 0.0 <= p <= 1.0:
        raise ConfigError(f"p must be a probability, not {p!r:.80}")
    return n / (n - 1) * (1.0 - p) * (1.0 - (1.0 - p) ** (n - 1))


def best_success_rate(n: int) -> float:
    """Return the p that maximises φ_n, equation 25: 1 − n^(−1/(n−1)). For n = 5 it is .331, for n = 2 one half."""
    _check_rollouts(n)
    return 1.0 - math.exp(-math.log(n) / (n - 1))


def _check_rollouts(n: int) -> None:
    if type(n) is not int or n < 2:
        raise ConfigError(f"the difficulty needs n of at least 2 rollouts, not {n!r:.80}")


def evidence_value(plus: Sequence[bool], minus: Sequence[bool]) -> float:
    """Return V̂, equation 14: accuracy with the evidence minus accuracy without it, in [−1, 1].

    plus, minus: whether each search-disabled answer with and without the evidence was the proposal's. Unbiased, with a
    variance of at most 1 / (2m) for m answers each. Raises ConfigError when either is empty.
    """
    if not plus or not minus:
        raise ConfigError("the evidence's value needs at least one answer with the evidence and one without")
    return sum(plus) / len(plus) - sum(minus) / len(minus)


def log_prob_value(plus: Sequence[float], minus: Sequence[float], *, per_token: bool = False) -> float:
    """Return the teacher-forced variant of V: P(a | q, e) − P(a | q), from log-probabilities of the answer's tokens.

    plus, minus: natural logarithms, one per token of the answer, after the prompt with and without the evidence. The
    probability of the whole answer is the quantity of V's definition (equation 11): V of one spelling of the answer,
    without sampling. per_token: compare geometric means over the tokens, which does not vanish for long answers; ours.
    In [−1, 1]. Raises ConfigError without tokens, and for a logarithm that is not a number or above 0 (minus infinity
    is a probability of 0).
    """
    return _probability(plus, per_token) - _probability(minus, per_token)


def _probability(logs: Sequence[float], per_token: bool) -> float:
    if not logs:
        raise ConfigError("the value by log-probabilities needs at least one token of the answer")
    if not all(log <= 1e-6 for log in logs):
        raise ConfigError("log-probabilities must be numbers of at most 0")
    total = math.fsum(min(log, 0.0) for log in logs)
    return math.exp(total / len(logs) if per_token else total)


def count_tokens(text: str) -> int:
    """Return the number of tokens by rule (`TOKEN`).

    The paper counts with the proposer's tokenizer; this count needs no model. Subword tokenizers split rare words and
    give a little more on English prose.
    """
    return len(TOKEN.findall(text))


def brevity(evidence: str, rules: EveRules = DEFAULT_RULES, *, count: CountTokens = count_tokens) -> float:
    """Return B, equation 15: max(0, 1 − tokens / max_evidence_tokens), in [0, 1]; an empty span has 1."""
    return max(0.0, 1.0 - count(evidence) / rules.max_evidence_tokens)


def is_valid(question: str, answer: str) -> bool:
    """Return whether both are given and the normalised question does not contain the normalised answer literally."""
    if not question.strip() or not answer.strip():
        return False
    return normalise_answer(answer) not in normalise_answer(question)


def is_leak(question: str, answer: str) -> bool:
    """Return whether every content word of the answer occurs in the question, in whatever order. Ours.

    Accents and invisible characters (zero-width spaces, soft hyphens) make no difference, and an answer of at least six
    letters is also found where it is written without gaps or with other ones.
    """
    answer, question = _plain(answer), _plain(question)
    words = frozenset(terms(answer))
    if not words or words <= frozenset(terms(question)):
        return bool(words)
    letters = "".join(filter(str.isalnum, answer))
    return len(letters) >= _MIN_LEAK_LETTERS and letters in "".join(filter(str.isalnum, question))


def _plain(text: str) -> str:
    """Return the text in lower case, without accents and invisible characters."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if unicodedata.category(char) not in _INVISIBLE).lower()


@dataclass(frozen=True, slots=True)
class CheckedProposal:
    """A proposal with the properties that its text, its rollout and the documents give.

    valid: as published (`is_valid`). leak: see `is_leak`. span: the verbatim evidence, None without. format,
    format_guarded: the parts of both format rewards. brevity: 0 without a span. focused, anchored: see
    `factgym.rewards.eve.spans`. reached: see `hops_reached`.
    """

    proposal: Proposal
    hops: int
    valid: bool
    leak: bool
    span: Evidence | None
    format: FormatParts
    format_guarded: FormatParts
    brevity: float
    focused: bool
    anchored: bool
    reached: float


def check_proposal(
    proposal: Proposal,
    rollout: Rollout,
    texts: Texts,
    rules: EveRules = DEFAULT_RULES,
    *,
    direct: bool = False,
    count: CountTokens = count_tokens,
) -> CheckedProposal:
    """Check a proposal before a solver is asked.

    texts: (document id, text) pairs: the source document first, then the passages that searches returned. direct:
    whether a search for the question without the source's words returns the evidence first (see `hops_reached`). count:
    counts the tokens of a span.
    """
    question, answer = proposal.question, proposal.answer
    valid, leak = is_valid(question, answer), is_leak(question, answer)
    reached = hops_reached(proposal, rollout, direct)
    match = find_span(proposal.evidence, texts) if valid else None
    span, text = match or (None, "")
    queries = [query for search in rollout.searches for query in search.queries]
    return CheckedProposal(
        proposal,
        rollout.hops,
        valid,
        leak,
        span,
        format_parts(proposal, rollout, rules),
        guarded_parts(proposal, rollout, valid and not leak, reached, rules),
        brevity=0.0 if span is None else brevity(span.text, rules, count=count),
        focused=span is not None and is_focused(span, text, rules),
        anchored=span is not None and is_anchored(question, answer, span.text, rules, queries=queries),
        reached=reached,
    )


@dataclass(frozen=True, slots=True)
class ProposalScore:
    """Components and gates of a proposal; see `factgym.rewards.eve.rubrics` for their names.

    correct, n: right answers and number of the searching rollouts; 0 of 0 where none was played. plus, minus: accuracies
    with and without the evidence, None where they were not measured. value_kind: how V was measured.
    """

    checked: CheckedProposal
    components: dict[str, float]
    gates: dict[str, float]
    correct: int
    n: int
    plus: float | None
    minus: float | None
    value_kind: ValueKind

    def blocks(self) -> Sequence[tuple[Range | None, tuple[str, ...]]]:
        """Question and evidence block with the components credited to each."""
        proposal = self.checked.proposal
        return ((proposal.question_span, ("difficulty",)), (proposal.evidence_span, ("value", "brevity")))

    def facts(self) -> dict[str, Any]:
        """The proposal, its checks and the solver's results as JSON data."""
        checked, proposal = self.checked, self.checked.proposal
        return {
            "question": proposal.question,
            "answer": proposal.answer,
            "evidence": proposal.evidence,
            "evidence_span": span_json(checked.span),
            "hops": checked.hops,
            "format": checked.format._asdict(),
            "format_guarded": checked.format_guarded._asdict(),
            "difficulty": self.components["difficulty"],
            "k": self.correct,
            "n": self.n,
            "V": self.components["value"],
            "plus": self.plus,
            "minus": self.minus,
            "value_kind": self.value_kind,
            "brevity": checked.brevity,
            "valid": checked.valid,
            "leak": checked.leak,
        }


def score_proposal(
    checked: CheckedProposal,
    *,
    solved: Sequence[bool] = (),
    plus: Sequence[bool] = (),
    minus: Sequence[bool] = (),
    value: float | None = None,
    verified: bool = True,
) -> ProposalScore:
    """Score a checked proposal from the solver's answers.

    solved: for each searching rollout, whether its answer was the proposal's (exact match); at least two for a valid
    proposal. plus, minus: the same for each search-disabled answer with and without the evidence; needed for a valid
    proposal with a verbatim span, unless `value`, the log-probability variant of V, is given instead. verified: False
    where the verifier was not asked, for a rubric without V ("dr-zero"); the value is 0 then. Raises ConfigError when a
    needed argument is missing; others are ignored.
    """
    correct, n = (sum(solved), len(solved)) if checked.valid else (0, 0)
    hard = difficulty(correct, n) if checked.valid else 0.0
    kind: ValueKind = "none"
    if checked.span is None or not verified:
        value = 0.0
    elif value is None:
        kind, value = "sampling", evidence_value(plus, minus)
    elif -1.0 <= value <= 1.0:
        kind = "logprob"
    else:
        raise ConfigError(f"the evidence's value lies between -1 and 1, not at {value!r:.80}")
    components = {
        "format": checked.format.reward,
        "format_guarded": checked.format_guarded.reward,
        "difficulty": hard,
        "value": value,
        "brevity": checked.brevity,
    }
    sampled = kind == "sampling"
    return ProposalScore(
        checked,
        components,
        _gates(checked, correct, value),
        correct,
        n,
        sum(plus) / len(plus) if sampled else None,
        sum(minus) / len(minus) if sampled else None,
        kind,
    )


def _gates(checked: CheckedProposal, correct: int, value: float) -> dict[str, float]:
    conditions = {
        "valid": checked.valid and not checked.leak,
        "verbatim": checked.span is not None,
        "focused": checked.focused,
        "anchored": checked.anchored,
        "answerable": correct > 0,
    }
    earned = checked.reached if all(conditions.values()) else 0.0
    gain = max(0.0, value)
    return {
        **{name: float(holds) for name, holds in conditions.items()},
        "reached": checked.reached,
        "gain": gain,
        "supported": 1.0 if value < 0 else earned,
        "learnable": gain * earned,
    }
