"""Scores a proposal: what can be seen of it at once, and then what the solver's answers say of it.

    checked = check_proposal(parse_proposal(text), rollout, texts)     # valid? verbatim? before any solver is asked
    score = score_proposal(checked, solved=[…], plus=[…], minus=[…])   # from whose answers were right
    find_rubric("guarded", "proposer").total(score.components, score.gates)

Only a valid proposal needs the solver, and only a verbatim span the verifier (2m answers without search).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from factgym.core.errors import ConfigError
from factgym.corpora.text import terms
from factgym.datasets.multihop.triple import Evidence
from factgym.rewards.answer_matching import normalise_answer
from factgym.rewards.eve.format import FormatParts, Rollout, format_parts
from factgym.rewards.eve.guarded import guarded_parts, hops_reached
from factgym.rewards.eve.measures import CountTokens, brevity, count_tokens, difficulty, evidence_value
from factgym.rewards.eve.parse import Proposal
from factgym.rewards.eve.rules import DEFAULT_RULES, EveRules
from factgym.rewards.eve.spans import Texts, is_anchored, is_focused, locate

_LEAST_LETTERS = 6
"""An answer with fewer letters stands by chance where gaps do not count: "Rome" in "from Ecuador"."""

_UNSEEN = ("Mn", "Cf")
"""Unicode categories: combining marks, and format characters such as the zero-width space."""

ValueKind = Literal["sampling", "logprob", "none"]


@dataclass(frozen=True, slots=True)
class CheckedProposal:
    """A proposal and what its text, its rollout and the documents say of it.

    valid: as published (`is_valid`). leak: whether the guarded rule sees the answer in the question. span: where the
    evidence stands, None where it is not verbatim. format, format_guarded: the parts of both format rewards. brevity: 0
    without a span. focused, anchored: see `factgym.rewards.eve.spans`. reached: see `hops_reached`.
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


@dataclass(frozen=True, slots=True)
class ProposalScore:
    """The components and gates of a proposal; see `factgym.rewards.eve.rubrics` for their names.

    correct, n: how many of the searching rollouts were right; 0 of 0 where none was played. plus, minus: the accuracies
    with and without the evidence, None where they were not measured. value_kind: how the value was.
    """

    checked: CheckedProposal
    components: dict[str, float]
    gates: dict[str, float]
    correct: int
    n: int
    plus: float | None
    minus: float | None
    value_kind: ValueKind


def is_valid(question: str, answer: str) -> bool:
    """Whether both are there and the normalised answer is not literally contained in the normalised question."""
    if not question.strip() or not answer.strip():
        return False
    return normalise_answer(answer) not in normalise_answer(question)


def is_leak(question: str, answer: str) -> bool:
    """Whether every content word of the answer stands in the question, in whatever order. Ours.

    Accents and characters that are not seen (zero-width spaces, soft hyphens) make no difference, and an answer of at
    least six letters is found where it is written without or with other gaps, too.
    """
    answer, question = _plain(answer), _plain(question)
    words = frozenset(terms(answer))
    if not words or words <= frozenset(terms(question)):
        return bool(words)
    letters = "".join(filter(str.isalnum, answer))
    return len(letters) >= _LEAST_LETTERS and letters in "".join(filter(str.isalnum, question))


def _plain(text: str) -> str:
    """The text in lower case, without accents and unseen characters."""
    if text.isascii():
        return text.lower()
    return "".join(
        one for one in unicodedata.normalize("NFKD", text) if unicodedata.category(one) not in _UNSEEN
    ).lower()


def check_proposal(
    proposal: Proposal,
    rollout: Rollout,
    texts: Texts,
    rules: EveRules = DEFAULT_RULES,
    *,
    direct: bool = False,
    count: CountTokens = count_tokens,
) -> CheckedProposal:
    """What can be said of a proposal before a solver is asked.

    texts: (document id, text): the source document first, then the passages that searches returned. direct: whether a
    search for the question without the source's words, or its title's, brings the evidence first (see `hops_reached`).
    count: counts the tokens of a span.
    """
    question, answer = proposal.question, proposal.answer
    valid, leak = is_valid(question, answer), is_leak(question, answer)
    queries = [query for one in rollout.searches for query in one.queries]
    place = locate(proposal.evidence, texts) if valid else None
    reached = hops_reached(proposal, rollout, direct)
    return CheckedProposal(
        proposal,
        rollout.hops,
        valid,
        leak,
        None if place is None else place[0],
        format_parts(proposal, rollout, rules),
        guarded_parts(proposal, rollout, valid and not leak, reached, rules),
        brevity=0.0 if place is None else brevity(place[0].text, rules, count=count),
        focused=place is not None and is_focused(*place, rules),
        anchored=place is not None and is_anchored(question, answer, place[0].text, rules, queries=queries),
        reached=reached,
    )


def score_proposal(
    checked: CheckedProposal,
    *,
    solved: Sequence[bool] = (),
    plus: Sequence[bool] = (),
    minus: Sequence[bool] = (),
    value: float | None = None,
    verified: bool = True,
) -> ProposalScore:
    """Score a checked proposal from what the solver answered.

    solved: for each searching rollout, whether its answer was the proposal's (exact match); at least two for a valid
    proposal. plus, minus: the same for each search-disabled answer with and without the evidence; needed for a valid
    proposal whose span is verbatim, unless `value`, the log-probability variant of V, is given instead. verified: False
    where the verifier was not asked at all, for a rubric that has no use for V ("dr-zero"); the value is 0 then. What is
    not needed is ignored. Raises ConfigError when something needed is missing.
    """
    hard, n = (difficulty(sum(solved), len(solved)), len(solved)) if checked.valid else (0.0, 0)
    correct = sum(solved) if checked.valid else 0
    kind, found = _value(checked, plus, minus, value, verified)
    sampled = kind == "sampling"
    components = {
        "format": checked.format.reward,
        "format_guarded": checked.format_guarded.reward,
        "difficulty": hard,
        "value": found,
        "brevity": checked.brevity,
    }
    return ProposalScore(
        checked,
        components,
        _gates(checked, correct, found),
        correct,
        n,
        sum(plus) / len(plus) if sampled else None,
        sum(minus) / len(minus) if sampled else None,
        kind,
    )


def _value(
    checked: CheckedProposal, plus: Sequence[bool], minus: Sequence[bool], value: float | None, verified: bool
) -> tuple[ValueKind, float]:
    if checked.span is None or not verified:
        return "none", 0.0
    if value is None:
        return "sampling", evidence_value(plus, minus)
    if not -1.0 <= value <= 1.0:
        raise ConfigError(f"the evidence's value lies between -1 and 1, not at {value!r:.80}")
    return "logprob", value


def _gates(checked: CheckedProposal, correct: int, value: float) -> dict[str, float]:
    facts = {
        "valid": checked.valid and not checked.leak,
        "verbatim": checked.span is not None,
        "focused": checked.focused,
        "anchored": checked.anchored,
        "answerable": correct > 0,
    }
    earned = checked.reached if all(facts.values()) else 0.0
    gain = max(0.0, value)
    return {
        **{name: float(fact) for name, fact in facts.items()},
        "reached": checked.reached,
        "gain": gain,
        "supported": 1.0 if value < 0 else earned,
        "learnable": gain * earned,
    }
