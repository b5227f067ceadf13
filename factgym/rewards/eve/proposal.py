"""Score of a proposal: its format, its text and rollout first, then the solver's answers to it.

    checked = check_proposal(parse_proposal(text), rollout, texts)     # valid? verbatim? before any solver is asked
    score = score_proposal(checked, solved=[…], needed=[…], plus=[…], minus=[…])   # from the solver's answers
    find_rubric("guarded", "proposer").total(score.components, score.gates)

Only a valid proposal needs the solver, and only a verbatim span the verifier (2m answers without search). Source: EVE,
sections 2 and 3.1, equations 2, 4, 9, 11, 14 and 15, appendices B and D.

The published format parts are Dr. Zero's, whose code settles a gap of the paper: at h > 1 a rollout without a call
earns nothing for its tools. One point is the paper's: the context of the answer is the source document with all search
results; the code omits the results where calls and responses differ in number. They pay for form alone: an empty
thought, any search repeated often enough, an answer such as "1" inside "1975", or "yes". The guarded parts, which are
ours, ask for substance. A hop is measured, not read: the documents that the proposer was shown are removed from the
corpus in turn, and each without which the solver gives no right answer is a hop of the question:

    source: … Ada, daughter of Lord Byron …   search "Lord Byron": … died at Missolonghi …   search "Missolonghi": …
    question: in what country did the father of Ada die?   evidence: Missolonghi is a town in Greece.   3 of 3 hops
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from factgym.core.errors import ConfigError
from factgym.datasets.multihop import Evidence
from factgym.rewards.answer_matching import normalise_answer
from factgym.rewards.eve.rubrics import DEFAULT_RULES, EveRules, EveScore
from factgym.rewards.eve.spans import (
    Proposal,
    Texts,
    find_span,
    is_focused,
    is_related,
    is_yes_no,
    locate_evidence,
    span_json,
)
from factgym.text.words import terms

# Format

_THINK, _THINK_END = "<think>", "</think>"
_WORD = re.compile(r"[^\W\d_]{2,}")


class Search(NamedTuple):
    """One tool response: the queries, and the returned passages as one text ("" for none or an error)."""

    queries: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Rollout:
    """A proposer's rollout, as far as the format reward reads it.

    hops: the requested number, at least 1. source: text of the source document. turns: the policy's messages in order,
    a message's reasoning first in `<think>…</think>`. searches: the tool responses in order, also those of failed
    calls. calls: number of valid calls; None: as many as there are responses. Raises ConfigError for hops below 1.
    """

    hops: int
    source: str
    turns: tuple[str, ...] = ()
    searches: tuple[Search, ...] = ()
    calls: int | None = None

    def __post_init__(self) -> None:
        if type(self.hops) is not int or self.hops < 1:
            raise ConfigError(f"a rollout has at least one hop, not {self.hops!r:.80}")

    @property
    def valid_calls(self) -> int:
        """Number of valid calls."""
        return len(self.searches) if self.calls is None else self.calls

    @cached_property
    def context(self) -> str:
        """Σ of appendix D: the source document and all search results, normalised."""
        return normalise_answer("\n".join((self.source, *(search.text for search in self.searches))))


class FormatParts(NamedTuple):
    """The four parts of the format, each in [0, 1]."""

    integrity: float
    think: float
    tool: float
    answer: float

    @property
    def reward(self) -> float:
        """F_fmt, equation 9: the mean of the parts."""
        # `sum` compensates from Python 3.12 on: written out, every version gives the same bits.
        return (self.integrity + self.think + self.tool + self.answer) / 4


NO_FORMAT = FormatParts(0.0, 0.0, 0.0, 0.0)


def format_parts(proposal: Proposal, rollout: Rollout, rules: EveRules = DEFAULT_RULES) -> FormatParts:
    """Return the published parts; all 0 without a question or without an answer.

    integrity: 1. think: share of the turns that begin with a closed think block, whatever it holds. tool: 1 at one hop;
    else min((1 + calls) / h, 1) where calls equal responses and there is one, else 0. answer: 1 for yes, no and a short
    answer in the context, .5 for a longer one, else 0; compared by characters, so that "1" is found in "1975".
    """
    if not proposal.question or not proposal.answer:
        return NO_FORMAT
    thoughts = sum(think_block(turn) is not None for turn in rollout.turns)
    calls_match = 0 < rollout.valid_calls == len(rollout.searches)
    tool = min((1 + rollout.valid_calls) / rollout.hops, 1.0) if calls_match else 0.0
    answer = normalise_answer(proposal.answer)
    answered = 1.0 if is_yes_no(answer) else _length_score(answer, rules) if answer in rollout.context else 0.0
    return FormatParts(1.0, thoughts / max(1, len(rollout.turns)), 1.0 if rollout.hops == 1 else tool, answered)


def guarded_parts(
    proposal: Proposal, rollout: Rollout, valid: bool, reached: float, rules: EveRules = DEFAULT_RULES
) -> FormatParts:
    """Return the guarded parts; all 0 for an invalid proposal, as in Dr. Zero's code.

    think: a thought counts when it has `min_think_words` different words and no earlier turn had the same words. tool:
    the share of the hops that were reached (`share_reached`), 0 without a call where one is needed. Calls beyond
    hops − 1 cost: the prompt asks for exactly so many. answer: compared by whole words; yes and no, which are in no
    context and right by chance half of the time, have half the point.
    """
    if not valid:
        return NO_FORMAT
    thoughts = {frozenset(_WORD.findall((think_block(turn) or "").lower())) for turn in rollout.turns}
    distinct = sum(len(words) >= rules.min_think_words for words in thoughts)
    calls = max(rollout.valid_calls, len(rollout.searches))
    tool = reached * min(1.0, rollout.hops / (1 + calls)) if calls > 0 or rollout.hops == 1 else 0.0
    answer = normalise_answer(proposal.answer)
    in_context = f" {answer} " in f" {rollout.context} "
    answered = 0.5 if is_yes_no(answer) else _length_score(answer, rules) if in_context else 0.0
    return FormatParts(1.0, distinct / max(1, len(rollout.turns)), tool, answered)


def think_block(turn: str) -> str | None:
    """Return the content of the think block that a message begins with; None without one or where it is not closed."""
    text = turn.lstrip()
    if not text.startswith(_THINK):
        return None
    end = text.find(_THINK_END, len(_THINK))
    return None if end < 0 else text[len(_THINK) : end]


def _length_score(answer: str, rules: EveRules) -> float:
    """Return 1 for a normalised answer of at most `short_answer_words`, .5 up to `long_answer_words`, else 0."""
    words = len(answer.split())
    if not words or words > rules.long_answer_words:
        return 0.0
    return 1.0 if words <= rules.short_answer_words else 0.5


def words_outside(question: str, source: str, target: str) -> str:
    """Return what a question says without the source: a query of somebody who never saw it, as terms.

    Its terms that are none of the source's, and the terms of `target` that are written in the question in any way:
    glued to other words ("Ada/Byron", "adaByron"), taken apart, with accents or invisible characters.
    """
    question, source_terms = _plain(question), frozenset(terms(_plain(source)))
    words = question.split()
    letters = "".join(filter(str.isalnum, question))
    hidden = [
        term
        for term in dict.fromkeys(terms(_plain(target)))
        if (len(term) >= _MIN_LEAK_LETTERS and term in letters)
        or (len(term) >= _MIN_GLUED_LETTERS and any(term in word for word in words))
    ]
    return " ".join(term for term in dict.fromkeys([*terms(question), *hidden]) if term not in source_terms)


# Difficulty, value and validity

ValueKind = Literal["sampling", "logprob", "none"]

TOKEN = re.compile(r"\w+|[^\w\s]")
"""A token by rule: a run of word characters, or any other character except white space."""

_MIN_LEAK_LETTERS = 6
"""A shorter answer occurs by chance where gaps do not count: "Rome" in "from Ecuador"."""

_MIN_GLUED_LETTERS = 4
"""A shorter word occurs by chance inside another one."""

_INVISIBLE = ("Mn", "Cf")
"""Unicode categories of combining marks, and of format characters such as the zero-width space."""


def difficulty(correct: int, n: int) -> float:
    """Return R_DZ, equation 2: (n − k) / (n − 1) when 0 < k < n, else 0. In [0, 1].

    correct: k, the number of the n ≥ 2 searching rollouts with the proposal's answer. Raises ConfigError out of range.
    """
    if type(n) is not int or n < 2:
        raise ConfigError(f"the difficulty needs n of at least 2 rollouts, not {n!r:.80}")
    if not 0 <= correct <= n:
        raise ConfigError(f"{correct!r:.80} right answers of {n} rollouts cannot be")
    return (n - correct) / (n - 1) if 0 < correct < n else 0.0


def removal_rollouts(correct: int, n: int, chance: float) -> int:
    """Return how many rollouts have to fail without a document to show that it is needed.

    A solver that is right at the rate (k + ½) / (n + 1) fails all of them with a probability of at most `chance`, above
    0. correct: k, at least 1.
    """
    # Jeffreys' estimate of a binomial rate; the rate k / n would ask for one rollout where k = n.
    return math.ceil(math.log(chance) / math.log1p(-(correct + 0.5) / (n + 1)))


def evidence_value(plus: Sequence[bool], minus: Sequence[bool]) -> float:
    """Return V̂, equation 14: accuracy with the evidence minus accuracy without it, in [−1, 1].

    plus, minus: whether each search-disabled answer with and without the evidence was the proposal's. Unbiased, with a
    variance of at most 1 / (2m) for m answers each. Raises ConfigError when either is empty.
    """
    if not plus or not minus:
        raise ConfigError("the evidence's value needs at least one answer with the evidence and one without")
    return sum(plus) / len(plus) - sum(minus) / len(minus)


def log_prob_value(plus: float, minus: float) -> float:
    """Return the teacher-forced variant of V: P(a | q, e) − P(a | q), from log-probabilities of the whole answer.

    plus, minus: natural logarithms after the prompt with and without the evidence; minus infinity is a probability of
    0. V of one spelling of the answer (equation 11), without sampling; in [−1, 1]. Raises ConfigError for a logarithm
    that is not a number or above 0.
    """
    if not (plus <= 1e-6 and minus <= 1e-6):
        raise ConfigError("log-probabilities must be numbers of at most 0")
    return math.exp(min(plus, 0.0)) - math.exp(min(minus, 0.0))


def count_tokens(text: str) -> int:
    """Return the number of tokens by rule (`TOKEN`), a little below that of the paper's, the proposer's tokenizer."""
    return len(TOKEN.findall(text))


def brevity(evidence: str, rules: EveRules = DEFAULT_RULES) -> float:
    """Return B, equation 15: max(0, 1 − tokens / max_evidence_tokens), in [0, 1]; an empty span has 1."""
    return max(0.0, 1.0 - count_tokens(evidence) / rules.max_evidence_tokens)


def is_valid(question: str, answer: str) -> bool:
    """Return whether both are given and the normalised question does not contain the normalised answer literally."""
    if not question.strip() or not answer.strip():
        return False
    return normalise_answer(answer) not in normalise_answer(question)


def is_leak(question: str, answer: str) -> bool:
    """Return whether every content word of the answer occurs in the question, in whatever order. Ours.

    An answer of at least six letters is also found where it is written without gaps or with other ones.
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

    valid: as published (`is_valid`). leak: see `is_leak`. span: the verbatim evidence, None without. format: the
    published parts. brevity: 0 without a span. focused, anchored: see `factgym.rewards.eve.spans`. documents: ids of the
    source document and of the returned ones, in that order. in_source: whether the evidence is in the source document.
    direct: whether a search for the question without the source's words returns the evidence first.
    """

    proposal: Proposal
    rollout: Rollout
    valid: bool
    leak: bool
    span: Evidence | None
    format: FormatParts
    brevity: float
    focused: bool
    anchored: bool
    documents: tuple[str, ...]
    in_source: bool
    direct: bool

    @property
    def removable(self) -> tuple[str, ...]:
        """The documents to be removed in turn; none of a proposal that earns nothing by hops, nor of one known hop."""
        is_open = self.span is not None and not self.leak
        return self.documents if is_open and not self.is_one_hop else ()

    @property
    def is_one_hop(self) -> bool:
        """Whether the evidence alone is known to be needed."""
        return self.direct or (self.rollout.hops == 1 and self.in_source)


def check_proposal(
    proposal: Proposal, rollout: Rollout, texts: Texts, rules: EveRules = DEFAULT_RULES, *, direct: bool = False
) -> CheckedProposal:
    """Check a proposal before a solver is asked.

    texts: (document id, text) pairs: the source document first, then the passages that searches returned. direct:
    whether a search for the question without the source's words returns the evidence first.
    """
    texts = list(texts)
    question, answer, evidence = proposal.question, proposal.answer, proposal.evidence
    valid, leak = is_valid(question, answer), is_leak(question, answer)
    match = find_span(evidence, texts) if valid else None
    span, text = match or (None, "")
    queries = [query for search in rollout.searches for query in search.queries]
    return CheckedProposal(
        proposal,
        rollout,
        valid,
        leak,
        span,
        format_parts(proposal, rollout, rules),
        brevity=0.0 if span is None else brevity(span.text, rules),
        focused=span is not None and is_focused(span, text, rules),
        anchored=span is not None and is_related(question, answer, span, texts, rules, queries=queries),
        documents=tuple(document for document, _ in texts),
        in_source=locate_evidence(evidence, rollout.source) is not None,
        direct=direct,
    )


def share_reached(checked: CheckedProposal, needed: Sequence[str] | None) -> float:
    """Return the share of the requested hops after the first that were made, in [0, 1].

    A hop is a document that the question needs. needed: see `score_proposal`. 0 where the source document is not needed,
    where the question is direct, and for one hop where several were requested. A request of one hop, for which nothing
    is removed, has its evidence in the source, or none.
    """
    if checked.rollout.hops == 1:
        return 1.0 if checked.in_source or not checked.proposal.evidence else 0.0
    if not needed or checked.documents[0] not in needed or checked.direct:
        return 0.0
    return min((len(needed) - 1) / (checked.rollout.hops - 1), 1.0)


def score_proposal(
    checked: CheckedProposal,
    *,
    solved: Sequence[bool] = (),
    needed: Sequence[str] | None = None,
    plus: Sequence[bool] = (),
    minus: Sequence[bool] = (),
    value: float | None = None,
    verified: bool = True,
    rules: EveRules = DEFAULT_RULES,
) -> EveScore:
    """Score a checked proposal from the solver's answers.

    solved: for each searching rollout, whether its answer was the proposal's (exact match); at least two for a valid
    proposal. needed: those of `checked.removable` without which no searching rollout gave that answer; None where that
    was not measured. plus, minus: the same as solved for each search-disabled answer with and without the evidence;
    needed for a valid proposal with a verbatim span, unless `value`, the log-probability variant of V, is given instead.
    verified: False where the verifier was not asked, for a rubric without V ("dr-zero"); the value is 0 then. In the
    facts k and n are right answers and number of the searching rollouts, plus and minus the two accuracies, and
    hops_made the hops that the question needs, None where they were not measured. Raises ConfigError when a needed
    argument is missing; others are ignored.
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
    proposal, valid = checked.proposal, checked.valid and not checked.leak
    reached = share_reached(checked, needed)
    guarded = guarded_parts(proposal, checked.rollout, valid, reached, rules)
    components = {
        "format": checked.format.reward,
        "format_guarded": guarded.reward,
        "difficulty": hard,
        "value": value,
        "brevity": checked.brevity,
    }
    conditions = {
        "valid": valid,
        "verbatim": checked.span is not None,
        "focused": checked.focused,
        "anchored": checked.anchored,
        "answerable": correct > 0,
    }
    # Credit is gated, a loss is not: evidence that misleads (V < 0) must not become free by breaking a condition.
    earned = reached if all(conditions.values()) else 0.0
    gain = max(0.0, value)
    gates = {
        **{name: float(holds) for name, holds in conditions.items()},
        "reached": reached,
        "gain": gain,
        "supported": 1.0 if value < 0 else earned,
        "learnable": gain * earned,
    }
    with_evidence, without = (sum(answers) / len(answers) if kind == "sampling" else None for answers in (plus, minus))
    facts = {
        "question": proposal.question,
        "answer": proposal.answer,
        "evidence": proposal.evidence,
        "evidence_span": span_json(checked.span),
        "hops": checked.rollout.hops,
        "hops_made": 1 if checked.is_one_hop else None if needed is None else max(1, len(needed)),
        "needed": None if needed is None else list(needed),
        "format": checked.format._asdict(),
        "format_guarded": guarded._asdict(),
        "difficulty": hard,
        "k": correct,
        "n": n,
        "V": value,
        "plus": with_evidence,
        "minus": without,
        "value_kind": kind,
        "brevity": checked.brevity,
        "valid": checked.valid,
        "leak": checked.leak,
    }
    blocks = ((proposal.question_span, ("difficulty",)), (proposal.evidence_span, ("value", "brevity")))
    return EveScore(components, gates, blocks, facts)
