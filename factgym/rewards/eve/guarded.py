"""The format parts that ask for substance, and how many of the hops asked for a rollout has made. Both are ours.

    source: … Ada, daughter of Lord Byron …   search "Lord Byron": … died at Missolonghi …   search "Missolonghi": …
    question: in what country did the father of Ada die?   evidence: Missolonghi is a town in Greece.   3 of 3 hops

Words are compared, as the indexes see them (`factgym.corpora.text.terms`); what a question means is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from factgym.corpora.text import find_quote, terms
from factgym.rewards.answer_matching import normalise_answer
from factgym.rewards.eve.format import NO_FORMAT, FormatParts, Rollout, length_score, thought_of
from factgym.rewards.eve.parse import Proposal
from factgym.rewards.eve.rules import DEFAULT_RULES, EveRules
from factgym.rewards.eve.spans import is_yes_no

_WORD = re.compile(r"[^\W\d_]{2,}")


def guarded_parts(
    proposal: Proposal, rollout: Rollout, valid: bool, reach: float, rules: EveRules = DEFAULT_RULES
) -> FormatParts:
    """The parts of the guarded reward; all 0 for an invalid proposal, as in Dr. Zero's code.

    think: a thought counts when it has `min_think_words` different words and no earlier turn had the same ones. tool:
    the share of the hops that were reached (`hops_reached`, given as `reach`), 0 without a call where one is needed.
    Calls beyond hops − 1 cost: the prompt asks for exactly so many. answer: looked for word by word, and yes or no,
    which stands in no context and is right half of the time by chance, has half the point.
    """
    if not valid:
        return NO_FORMAT
    made = max(rollout.valid_calls, rollout.responses)
    searched = made > 0 or rollout.hops == 1
    return FormatParts(
        1.0,
        _real_thoughts(rollout.turns, rules) / max(1, len(rollout.turns)),
        reach * min(1.0, rollout.hops / (1 + made)) if searched else 0.0,
        _word_score(normalise_answer(proposal.answer), rollout, rules),
    )


def hops_reached(proposal: Proposal, rollout: Rollout, direct: bool = False) -> float:
    """The share of the hops asked for that the rollout made, in [0, 1]: (1 + used searches) / hops, at most 1.

    A search was used when something that it brought, and that stood neither in the source nor in a query so far, stands
    in the answer, in the evidence, or in the query of a later search that was used; the same search counts once. None
    was used where the evidence stands in the source document, or where the question names nothing of the source that
    the evidence does not name as well: a chain begins in the source and ends elsewhere.

    0 where the source is not needed at all: where one hop was asked for and the evidence stands elsewhere, and where
    the question is `direct`, that is a search for what it says beside the words of the source, or of its title
    (`words_beside_source`), brings evidence first that does not stand in the source.
    """
    told_there = find_quote(proposal.evidence, rollout.source) is not None
    if rollout.hops == 1:
        return 1.0 if told_there or not proposal.evidence else 0.0
    if told_there or direct:
        return 1.0 / rollout.hops if told_there else 0.0
    named, held = frozenset(terms(proposal.question)), frozenset(terms(proposal.evidence))
    begins_there = not (named - held).isdisjoint(terms(rollout.source))
    return min((1 + (_used_searches(proposal, rollout) if begins_there else 0)) / rollout.hops, 1.0)


def words_beside_source(question: str, source: str) -> str:
    """The words of a question that hold none of the source's: what is left of it for who does not know the source."""
    known = frozenset(terms(source))
    return " ".join(word for word in question.split() if known.isdisjoint(terms(word)))


def _real_thoughts(turns: Sequence[str], rules: EveRules) -> int:
    seen: set[frozenset[str]] = set()
    for turn in turns:
        words = frozenset(_WORD.findall((thought_of(turn) or "").lower()))
        if len(words) >= rules.min_think_words:
            seen.add(words)
    return len(seen)


def _used_searches(proposal: Proposal, rollout: Rollout) -> int:
    """How many searches a chain of used words leads back to from the answer and the evidence."""
    asked = [frozenset(terms(" ".join(one.queries))) for one in rollout.searches]
    known = frozenset(terms(rollout.source))
    seen: set[object] = set()
    brought: list[frozenset[str]] = []
    for query, one in zip(asked, rollout.searches, strict=True):
        known |= query
        new = query not in seen and one.text not in seen
        brought.append(frozenset(terms(one.text)) - known if new else frozenset())
        seen |= {query, one.text}
    wanted = frozenset(terms(f"{proposal.answer}\n{proposal.evidence}"))
    used = 0
    for query, words in zip(reversed(asked), reversed(brought), strict=True):
        if not words.isdisjoint(wanted):
            used += 1
            wanted |= query
    return used


def _word_score(answer: str, rollout: Rollout, rules: EveRules) -> float:
    if is_yes_no(answer):
        return 0.5
    return length_score(answer, rules) if f" {answer} " in f" {rollout.context} " else 0.0
