"""The premise of a statement: its nearest sentence, the sentences that depend on it, and the definitions of its terms.

This is a second hop inside the passages that were read: a sentence that mentions "the Base Rate" or "Group B" is taken together with
the sentence that defines it, and with any sentence that sets its section aside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import takewhile

from factgym.baselines.evidence import Evidence, Sentence, Statement, alternatives, keys_of

_DEPENDENT = re.compile(alternatives("premise", "dependent"), re.I)
_TERM = re.compile(
    r"[\"“](?P<quoted>[^\"“”]{2,40})[\"”]|(?<![.?!:] )(?<!^)\b(?P<name>(?:[A-Z][\w-]*|\d+)(?: (?:[A-Z][\w-]*|\d+|of))* ?(?:[A-Z]\w*|\d+)?)"
)
_LEADING_TERM = re.compile(
    r"^(?:[QA]: |[-•] |\d+(?:\.\d+)* |\([a-z]\) )?(?:The |Each |All )?(?P<name>[A-Z][\w-]*(?: (?:[A-Z][\w-]*|\d+))+)"
)
_SECTION = re.compile(
    r"(?:§|\b(?:section|article|clause|chapter|part|rule|control|paragraph|schedule|annex|appendix|item|standard|policy|unit|by-?law)) ?"
    r"(?P<number>\d+(?:\.\d+)*|[A-Z])\b",
    re.I,
)
_NUMBER_IN_TITLE = re.compile(r"(?:^|[ ,§(-])(?P<number>\d+(?:\.\d+)*|[A-Z])[.:)]? ")
_CAPITALISED = re.compile(r"[A-Z][\w-]*(?: (?:[A-Z][\w-]*|\d+))*")
_DEFINES = re.compile(rf"\b(?:{alternatives('premise', 'defines')})", re.I)
_DEFINITION = re.compile(alternatives("premise", "definition"), re.I)
_DEFINITION_FACTOR = 0.6
_MAX_FOLLOWERS = 3
_MAX_LINKED = 4
_MAX_LINKS_PER_TERM = 2
_MAX_MENTIONS = 6
"""A term in more sentences than this is in general use, and no single sentence explains it."""
_HOPS = 2
_EXTRA_WEIGHT = 0.1
_SECOND_CLAUSE_SHARE = 0.7
_SECOND_MIN_WORDS = 4
_SECOND_MIN_SHARE = 0.75
_LIST_ITEM = re.compile(r"[a-z]|\(?[a-zA-Z]{1,4}[.)]|\d+(?:\.\d+)+")
_LIST_LEAD_IN = re.compile(r"(?:[:—-]|\b(?:that|shall|to))$")
_MAX_LIST = 7
_NOT_TERMS = frozenset({"A", "I", "The", "This", "That", "If", "When", "No"})


@dataclass(frozen=True)
class Premise:
    """A rule of a document, as far as it is spread over several sentences.

    main: the sentence nearest to the statement. followers: sentences after it that depend on it ("This applies only
    if …"). linked: sentences elsewhere that define its terms or set its section aside.
    """

    main: Sentence
    followers: tuple[Sentence, ...] = ()
    linked: tuple[Sentence, ...] = ()

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """All sentences, the main one first."""
        return (self.main, *self.followers, *self.linked)

    @cached_property
    def keys(self) -> frozenset[str]:
        """The content words of all sentences."""
        return keys_of(self.sentences)


def nearest_premise(evidence: Evidence, statement: Statement) -> Premise | None:
    """Return the premise that shares most with a statement; None without evidence.

    Dense text (contracts: long sentences, the same terms in all of them) is searched by coverage alone, since nearly
    every sentence would be linked with every other.
    """
    if not evidence.sentences:
        return None
    return _nearest_in_dense_text(evidence, statement) if evidence.is_dense else _nearest_linked(evidence, statement)


def _nearest_in_dense_text(evidence: Evidence, statement: Statement) -> Premise:
    """Return the two sentences with the highest coverage, the second only if it is close, and the heads of their lists."""
    scores = [(evidence.coverage(statement, [sentence]), -index) for index, sentence in enumerate(evidence.sentences)]
    ranked = sorted(scores, reverse=True)[:2]
    indices = [-negated for score, negated in ranked if score >= _SECOND_CLAUSE_SHARE * ranked[0][0]]
    for index in list(indices):
        # The sentence that a list item completes ("Each party shall:").
        if _LIST_ITEM.match(evidence.sentences[index].text):
            before = range(index - 1, max(-1, index - 1 - _MAX_LIST), -1)
            indices += [i for i in before if _LIST_LEAD_IN.search(evidence.sentences[i].text)][:1]
    main, *linked = (evidence.sentences[index] for index in dict.fromkeys(indices))
    return Premise(main, linked=tuple(linked))


def _nearest_linked(evidence: Evidence, statement: Statement) -> Premise | None:
    """Build a premise around each sentence that does not depend on another one, and return the most similar."""
    best: tuple[float, Premise] | None = None
    mentions = _mentions(evidence.sentences)
    for index, sentence in enumerate(evidence.sentences):
        if sentence.follows and _DEPENDENT.search(sentence.text):
            continue
        following = evidence.sentences[index + 1 : index + 1 + _MAX_FOLLOWERS]
        followers = tuple(takewhile(lambda other: other.follows and _DEPENDENT.search(other.text), following))
        premise = Premise(sentence, followers, _linked((sentence, *followers), mentions))
        score = _similarity(evidence, statement, premise)
        if best is None or score > best[0]:
            best = score, premise
    return _with_second_rule(evidence, statement, best[1]) if best else None


def _with_second_rule(evidence: Evidence, statement: Statement, premise: Premise) -> Premise:
    """Link a sentence that has nearly all of the missing words, for a statement that combines two rules."""
    missing = [key for key in statement.keys if key not in premise.keys]
    if len(missing) < _SECOND_MIN_WORDS:
        return premise
    frequency = evidence.frequency
    best = max(evidence.sentences, key=lambda sentence: frequency.shared(missing, sentence.keys))
    covered = frequency.shared(missing, best.keys)
    if covered < _SECOND_MIN_SHARE * frequency.total(missing) or best in premise.sentences:
        return premise
    return replace(premise, linked=(*premise.linked, best))


def _similarity(evidence: Evidence, statement: Statement, premise: Premise) -> float:
    """Return the shared weight, counting the main sentence twice, relative to the statement and the extra words.

    Numbers are left out: the rule for somebody else often has the very number that a wrong claim gives.
    """
    frequency, main = evidence.frequency, premise.main.keys
    keys = [key for key in statement.keys if not key[0].isdigit()]
    shared = frequency.shared(keys, premise.keys) + frequency.shared(keys, main)
    extra = frequency.total(key for key in main.difference(keys) if not key[0].isdigit())
    score = shared / (2 * frequency.total(keys) + _EXTRA_WEIGHT * extra or 1.0)
    return score * _DEFINITION_FACTOR if _DEFINITION.search(premise.main.text) else score


@lru_cache(maxsize=8192)
def terms_of(text: str) -> tuple[str, ...]:
    """Return the defined terms of a sentence, lower-cased: quoted, or capitalised inside the sentence."""
    terms = [match["name"] for match in _TERM.finditer(text) if match["name"]]
    for match in _TERM.finditer(text):
        if match["quoted"]:
            terms += [match["quoted"], *(inner[0] for inner in _CAPITALISED.finditer(match["quoted"]))]
    lead = _LEADING_TERM.match(text)
    if lead:
        terms.append(lead["name"])
    telling = (term.strip() for term in terms if len(term) > 2 and term not in _NOT_TERMS and not term.isdigit())
    return tuple(dict.fromkeys(term.lower() for term in telling))


def _mentions(sentences: Sequence[Sentence]) -> dict[str, list[Sentence]]:
    """Index the sentences by the terms and the section numbers ("#4.2") that they mention."""
    index: dict[str, list[Sentence]] = {}
    for sentence in sentences:
        sections = [f"#{match['number']}" for match in _SECTION.finditer(sentence.text)]
        for term in dict.fromkeys((*terms_of(sentence.text), *sections)):
            index.setdefault(term, []).append(sentence)
    return index


def _linked(rule: Sequence[Sentence], mentions: Mapping[str, Sequence[Sentence]]) -> tuple[Sentence, ...]:
    """Return sentences of other passages that define a term of the rule or mention its section, over two hops.

    Breadth-first search over shared terms; terms in general use are not followed.
    """
    linked: dict[str, Sentence] = {}
    visited = {sentence.text for sentence in rule}
    sections = [f"#{match['number']}" for match in _NUMBER_IN_TITLE.finditer(rule[0].title)]
    frontier = [term for sentence in rule for term in terms_of(sentence.text)] + sections
    for _ in range(_HOPS):
        fresh = []
        for term in dict.fromkeys(frontier):
            candidates = mentions.get(term, ())
            if len(candidates) > _MAX_MENTIONS:
                continue
            elsewhere = [sentence for sentence in candidates if sentence.passage != rule[0].passage]
            telling = [sentence for sentence in elsewhere if term[0] == "#" or _DEFINES.search(sentence.text)]
            fresh += [sentence for sentence in telling[:_MAX_LINKS_PER_TERM] if sentence.text not in visited]
        visited.update(sentence.text for sentence in fresh)
        linked.update((sentence.text, sentence) for sentence in fresh)
        frontier = [term for sentence in fresh for term in terms_of(sentence.text)]
    return tuple(list(linked.values())[:_MAX_LINKED])
