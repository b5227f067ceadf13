"""The four parts of the proposer's format reward, as published and guarded, and the hops that a rollout made.

The published parts (EVE, equation 9 and appendix D) are Dr. Zero's, whose code settles a gap of the paper: at h > 1 a
rollout without a call earns nothing for its tools. One point is the paper's: the context of the answer is the source
document with all search results; the code omits the results where calls and responses differ in number. They pay for
form alone: an empty thought, any search repeated often enough, an answer such as "1" inside "1975", or "yes".

The guarded parts, which are ours, ask for substance. They compare words as the indexes see them
(`factgym.corpora.text.terms`), not meanings:

    source: … Ada, daughter of Lord Byron …   search "Lord Byron": … died at Missolonghi …   search "Missolonghi": …
    question: in what country did the father of Ada die?   evidence: Missolonghi is a town in Greece.   3 of 3 hops
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from factgym.core.errors import ConfigError
from factgym.corpora.text import find_quote, terms
from factgym.rewards.answer_matching import normalise_answer
from factgym.rewards.eve.rubrics import DEFAULT_RULES, EveRules
from factgym.rewards.eve.spans import Proposal, is_yes_no

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
    """The four parts, each in [0, 1]."""

    integrity: float
    think: float
    tool: float
    answer: float

    @property
    def reward(self) -> float:
        """F_fmt, equation 9: the mean of the parts."""
        return sum(self) / 4


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

    think: a thought counts when it has `min_think_words` different words and no earlier turn had the same ones. tool:
    the share of the hops that were reached (`hops_reached`), 0 without a call where one is needed. Calls beyond
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


def hops_reached(proposal: Proposal, rollout: Rollout, direct: bool = False) -> float:
    """Return the share of the requested hops that the rollout made, in [0, 1]: (1 + used searches) / hops, at most 1.

    No search was used where the evidence is in the source document, or where the question names nothing of the source
    that the evidence does not name as well: a chain begins in the source and ends elsewhere.

    0 where the source is not needed at all: where one hop was requested and the evidence is elsewhere, and where the
    question is `direct`: a search for its words that are not in the source, or not in its title (`words_outside`),
    returns evidence first that is not in the source.
    """
    in_source = find_quote(proposal.evidence, rollout.source) is not None
    if rollout.hops == 1:
        return 1.0 if in_source or not proposal.evidence else 0.0
    if in_source:
        return 1.0 / rollout.hops
    if direct:
        return 0.0
    only_in_question = frozenset(terms(proposal.question)) - frozenset(terms(proposal.evidence))
    begins_in_source = not only_in_question.isdisjoint(terms(rollout.source))
    return min((1 + (_used_searches(proposal, rollout) if begins_in_source else 0)) / rollout.hops, 1.0)


def _used_searches(proposal: Proposal, rollout: Rollout) -> int:
    """Return the number of searches on a chain of words that ends in the answer and the evidence.

    A search was used when a word that it added, one that was neither in the source nor in a query so far, occurs in the
    answer, in the evidence, or in the query of a later used search. Hence forwards for the words that each search
    added (a repeated search adds none), then backwards from the end of the chain.
    """
    queries = [frozenset(terms(" ".join(search.queries))) for search in rollout.searches]
    earlier = frozenset(terms(rollout.source))
    seen: set[object] = set()
    added: list[frozenset[str]] = []
    for query, search in zip(queries, rollout.searches, strict=True):
        earlier |= query
        repeated = query in seen or search.text in seen
        added.append(frozenset() if repeated else frozenset(terms(search.text)) - earlier)
        seen |= {query, search.text}
    needed = frozenset(terms(f"{proposal.answer}\n{proposal.evidence}"))
    used = 0
    for query, words in zip(reversed(queries), reversed(added), strict=True):
        if not words.isdisjoint(needed):
            used += 1
            needed |= query
    return used


def words_outside(question: str, source: str) -> str:
    """Return the words of a question that share no term with the source, as a query of somebody without the source."""
    source_terms = frozenset(terms(source))
    return " ".join(word for word in question.split() if source_terms.isdisjoint(terms(word)))
