"""What limits a clause of a text, and a claim leaves out or adds: modality, quantifiers, conditions, hedges, tense, order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from factgym.check.words import (
    AUXILIARIES,
    DETERMINERS,
    LIGHT,
    TABLES,
    Clause,
    Word,
    lemmas,
    tense_of,
    word_set,
    words_of,
)
from factgym.datasets.claims import Status

Conflict = tuple[Status, str]
"""A status and the reason for it."""

CONDITIONS, HEDGES = word_set("condition", TABLES["limits"]), word_set("hedge", TABLES["limits"])
QUANTIFIERS = {name: word_set(name, TABLES["quantifiers"]) for name in TABLES["quantifiers"]}
QUANTIFIED: frozenset[str] = frozenset().union(*QUANTIFIERS.values())
MODALS = {name: word_set(name, TABLES["modality"]) for name in TABLES["modality"]}
DEONTIC = frozenset(word for words in MODALS.values() for word in words if word not in ("free", "able"))
_SPEECH, _REQUESTS = word_set("speech"), word_set("request")
_AGAINST = TABLES["against"]
_JOINS = {name: word_set(name, TABLES["joins"]) for name in TABLES["joins"]}
_PHRASES, _FINITE, _NARROWING, _ABOUT, _LEAVE = (
    word_set(name, TABLES["limits"]) for name in ("phrases", "finite", "narrowing", "about", "leave")
)
_STATES, _STATED_OF = (
    word_set("state", TABLES["limits"]),
    frozenset({"with", "for", "on", "in", "to", "during", "from"}),
)
_DAY = re.compile(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun|week|holi|work)days?|weekends?|summers?|winters?|spring|autumn|fall"
)
_CIRCUMSTANCES = frozenset({"during", "after", "before", "without", "until"})
_PERMITS = frozenset({"may", "forbid"})
_OF_RULES = frozenset({"may", "must", "can", "shall"})
_OF_EVENTS = frozenset(
    {"when", "whenever", "once", "until", "provided", "subject", "while", "after", "before", "since"}
)
"""Words that limit a rule, and tell of an event only when it was."""
_FREE = re.compile(
    r"(?:not|n['’]t|never) (?:have to|need|required|obliged|obligated|necessary|mandatory)|"
    r"no (?:need|obligation|requirement|duty)\b|\b(?:optional|voluntary)\b",
    re.I,
)
_FORBIDS = re.compile(
    r"\b(?:must|may|can|shall|should) ?(?:not|never)|cannot|n['’]t\b|not (?:be )?(?:allowed|permitted|entitled)|prohibited|"
    r"forbidden|banned|\bno [\w ]{1,40}(?:may|can|must)\b",
    re.I,
)
_ALL_BUT = re.compile(r"\b(?:all|every\w*|any\w*|none|no\w*)\b[^,.;]{0,40} but (?!also|not\b)", re.I)
_ON_CONDITION = re.compile(
    r"\b(?:as long as|so long as|in case|in the event|on condition|assuming|apart from|aside from|other than|but not|"
    r"by appointment|on request|given (?:enough|sufficient|that)|^in (?:the|a|an|h(?:is|er)|its) (?:[\w-]+ )?"
    r"(?:novel|film|movie|story|tale|play|myth|legend|dream|book|series|game|poem|opera)|"
    r"^(?:myth|draft|false|wrong|rumou?r|outdated|obsolete|deprecated|superseded)(?= ?[:–—]))\b|^(?:should|had|were) (?:the|a|an|any|you|they|it) ",
    re.I,
)
_PROVIDED = re.compile(r"\bprovided (?:that|the|you|they|it|he|she|a)\b", re.I)
_NO_QUANTIFIER = {"most": re.compile(r"\bat most\b", re.I), "some": re.compile(r"\bsome \d", re.I)}


def parity(clause: Clause) -> int:
    """Return 1 for a clause that denies, 0 for one that affirms or denies twice."""
    return (clause.negations + sum(word in MODALS["forbid"] for word in clause.all_words)) % 2


def conditions_of(clauses: Sequence[Clause], number: int) -> frozenset[str]:
    """Return the conditions of a clause: its own opener, and those of the clauses next to it that one opens."""
    clause = clauses[number]
    openers = set() if clause.words and clause.words[0].value else {clause.opener}
    following = clauses[number + 1] if number + 1 < len(clauses) else None
    if following is not None and not following.apart and not following.relative:
        openers.add(following.opener)
    before = clauses[number - 1] if number and not clause.apart and not clause.relative else None
    if before is not None:
        openers.add(before.opener)
        is_state = not any(word.value or word.kind == "name" for word in before.words)
        if before.is_fronted and is_state and clause.tense != "past":  # "Bought online, tickets cost 10 euros"
            return frozenset(openers & (CONDITIONS | _OF_EVENTS)) | {before.opener}
    return frozenset(openers & (CONDITIONS | _OF_EVENTS))


def conflicts(
    claim: Clause, text: str, clause: Clause, source: str, matched: Iterable[Word], conditions: frozenset[str]
) -> Iterator[Conflict]:
    """Yield what the claim says more or otherwise than the text, though each of its words has a match.

    text, source: the claim's and the sentence's. matched: words of the sentence. conditions: as `conditions_of` returns.
    """
    starts = {word.start for word in matched}
    claimed = claim.all_words - {word for word, pattern in _NO_QUANTIFIER.items() if pattern.search(text)}
    limits = _limits_of(clause, starts) | conditions
    stated = {word.lower for word in words_of(text)}
    yield from _order(claim, clause, source)
    yield from _against(claim, clause)
    yield from _modality(claimed, clause.all_words, text, source)
    yield from _quantifiers(claimed, clause.all_words, limits)
    yield from _dropped(claimed | (stated & (CONDITIONS | _OF_EVENTS)), clause, limits, conditions, source)
    yield from _governed(clause, starts, stated)
    yield from _narrowed(clause, starts, stated, source)
    yield from _picked(clause, starts, stated, source)
    yield from _tense(claim, clause)
    yield from _reported(clause, starts, stated, source)
    yield from _stated(clause, starts, source)
    phrase = _ON_CONDITION.search(source) if clause.tense != "past" else None
    if phrase and not stated.issuperset(phrase[0].lower().split()):
        yield "overclaim", f"The text adds a condition (“{phrase[0].strip()}”)."
    if (among := _AMONG.search(source)) and among[1].lower() in stated and among[0].lower().split()[0] not in stated:
        yield "overclaim", f"The text says “{among[0]}”."
    if "respectively" in source.lower() and "respectively" not in stated:
        yield "unsupported", "The text says which is which by “respectively”."
    yield from _rates(matched, stated, source)
    yield from _alternatives(claim, clause, matched, source)
    yield from _circumstance(clause, starts, source)


_PARTICIPLE = re.compile(r"(?:ed|en|ght|lt|nt|wn)$")
_ATTAINS = frozenset({"come", "came", "comes", "known", "found", "shown", "proved", "proven", "seen", "due", "set"})
_FORMER = frozenset({"was", "were", "formerly", "once", "previously"})


_AMONG = re.compile(
    r"\b(?:one|some|many|several|two|three|four|five|part|among) (?:of )?(?:the|its|their|h(?:is|er)) (?:\w+ ){0,2}?"
    r"(\w+est|most|best|worst|first|last|leading|main)\b",
    re.I,
)
_RATE = re.compile(r" ?(?:(?:per|an?|each|every)\b|/) ?([^\W\d_]+)\b(?! (?:ago|later|earlier|before|after))", re.I)
_DISTANCE = re.compile(r" (ago|later|earlier)\b", re.I)
_PREFIX = re.compile(r"\b(great|step|half|vice|pseudo|quasi|grand|foster)-\Z", re.I)
_RATES = {
    "month": "monthly",
    "year": "annual annually yearly annum",
    "week": "weekly",
    "day": "daily",
    "hour": "hourly",
}


def _rates(matched: Iterable[Word], stated: set[str], source: str) -> Iterator[Conflict]:
    """Find what an amount is for each of, where the claim leaves that out: "5 euros per month", "5 euros a ticket"."""
    words = {lemma for lower in stated for lemma in lemmas(lower)}
    for word in matched:
        rate = _RATE.match(source, word.end) if word.kind == "amount" else None
        if rate and not words & lemmas(rate[1].lower()) and words.isdisjoint(_RATES.get(rate[1].lower(), "").split()):
            yield "overclaim", f"The text says “{rate[0].strip()}”."
        for mark in (_PREFIX.search(source, 0, word.start), _DISTANCE.match(source, word.end) if word.value else None):
            if mark and mark[1].lower() not in stated:
                yield (
                    "overclaim",
                    f"The text says “{source[min(mark.start(), word.start) : max(mark.end(), word.end)]}”.",
                )


def _alternatives(claim: Clause, clause: Clause, matched: Iterable[Word], source: str) -> Iterator[Conflict]:
    """Find one of two things of which the text says one or the other: "Ann or Tom will win"."""
    starts = {word.start for word in matched}
    if (
        clause.negations
        or "or" in claim.function
        or _classes(clause.all_words) & {"may", "forbid"}
        or "can" in clause.function
    ):
        return
    for before, word, after in zip(clause.tokens, clause.tokens[1:], clause.tokens[2:], strict=False):
        if word.lower == "or" and len({before.start, after.start} & starts) == 1 and before.is_fact and after.is_fact:
            yield "overclaim", f"The text says “{source[before.start : after.end]}”."


def _against(claim: Clause, clause: Clause) -> Iterator[Conflict]:
    """Compare prepositions that exclude each other, also where they govern nothing that a proof needs: "for it"."""
    for word, other in _AGAINST.items():
        if word in claim.function - clause.function and other in clause.function - claim.function:
            yield "contradicted", f"The text says “{other}”."


def _classes(words: Iterable[str]) -> set[str]:
    return {name for word in words for name, members in MODALS.items() if word in members}


def _modality(claimed: frozenset[str], written: frozenset[str], text: str, source: str) -> Iterator[Conflict]:
    first, second = _classes(claimed), _classes(written)
    is_free = _FREE.search(text) is not None
    if is_free != (_FREE.search(source) is not None) and (is_free or "must" in first):
        yield "contradicted", "One requires what the other leaves free."
    if first and second and _FORBIDS.search(text) and _FORBIDS.search(source):
        return
    if "must" in first and "must" not in second:
        yield "overclaim", "The text does not require it."
    if first & _PERMITS and not second & _PERMITS:
        yield "unsupported", "The text does not say that it is allowed or possible."
    if "may" in second and not first & (_PERMITS | {"must"}) and not {"can", "able", "free"} & written:
        yield "overclaim", "The text says that it may be so."
    if {"can", "be"} <= written and not first & _PERMITS:
        yield "overclaim", "The text says that it can be so."
    if "should" in written and "should" not in claimed:
        yield "overclaim", "The text recommends it."
    if "should" in claimed and "should" not in written:
        yield "unsupported", "The text does not recommend it."


def _order(claim: Clause, clause: Clause, source: str) -> Iterator[Conflict]:
    """Compare how a clause of the claim is joined to the others with what joins clauses in the text."""
    if claim.opener not in _JOINS:
        return
    if {claim.opener, clause.opener} == {"before", "after"}:
        yield "contradicted", f"The text says “{clause.opener}”."
    if _JOINS[claim.opener].isdisjoint(word.lower for word in words_of(source)):
        yield "unsupported", f"The text does not say “{claim.opener}”."


def _limits_of(clause: Clause, matched: set[int]) -> frozenset[str]:
    """Return the words of a clause that stand before a fact that the claim has: they limit it."""
    return frozenset(word.lower for index, word in enumerate(clause.tokens) if _limits(clause.tokens, index, matched))


def _limits(tokens: Sequence[Word], index: int, matched: set[int]) -> bool:
    word = tokens[index]
    following = next((w for w in tokens[index + 1 :] if w.is_fact and w.lower not in QUANTIFIED | HEDGES), None)
    if index and tokens[index - 1].lower == "at":  # "at most"
        return False
    if following is None:
        before = next((w for w in reversed(tokens[:index]) if w.is_fact), None)
        return before is None or before.start in matched
    if word.lower in _ABOUT and following.kind == "amount":
        return False
    limits_verb = word.lower in ("only", "solely") and tokens[index + 1].lower in _PHRASES
    return limits_verb or following.start in matched


def _quantifiers(claimed: frozenset[str], written: frozenset[str], limits: frozenset[str]) -> Iterator[Conflict]:
    for name, words in QUANTIFIERS.items():
        in_claim, in_text = words & claimed, words & written
        if in_claim and not in_text:
            yield "overclaim", f"The text does not say “{min(in_claim)}”."
        dropped = in_text & limits if name in ("most", "some", "only") and not in_claim else frozenset()
        if dropped and not (dropped <= _ABOUT and claimed & _ABOUT):
            yield "overclaim", f"The text says “{min(dropped)}”."


def _dropped(
    claimed: frozenset[str], clause: Clause, limits: frozenset[str], openers: frozenset[str], source: str
) -> Iterator[Conflict]:
    """Find the hedges and conditions of the text that the claim leaves out."""
    hedges = (limits & HEDGES) - claimed - {"can", "could", "may", "should"}
    hedges -= _ABOUT if claimed & _ABOUT else frozenset()
    is_past_plan = clause.tense == "past" and hedges <= {"expected", "planned", "intended"} and "was" not in limits
    if hedges and not is_past_plan:
        yield "overclaim", f"The text says “{min(hedges)}”."
    conditions = (
        (limits & CONDITIONS)
        | (openers - {"while"})
        | ({word.lower for word in clause.tokens} & {"except", "unless", "if"})
    )
    if "while" in limits and (clause.negations or _OF_RULES & clause.function):
        conditions |= {"while"}
    conditions -= _OF_EVENTS if clause.tense == "past" else frozenset()
    conditions -= frozenset() if _PROVIDED.search(source) else {"provided"}
    conditions |= {"but"} if _ALL_BUT.search(source) else frozenset()
    if conditions - claimed:
        yield "overclaim", f"The text adds a condition (“{min(conditions - claimed)}”)."


def _narrowed(clause: Clause, matched: set[int], stated: set[str], source: str) -> Iterator[Conflict]:
    """Find what says of which of its subjects a rule speaks, and the claim leaves out: "cars without a permit must stop"."""
    if clause.tense != "past":
        for word in clause.narrowed:
            if word.lower not in stated:
                yield "overclaim", f"The text speaks only of those of “{source[word.start : word.end]}”."
    if _classes(clause.all_words) & _PERMITS:
        for word in clause.words:
            if word.lower in _LEAVE and word.start not in matched and word.lower not in stated:
                yield "overclaim", f"The text asks for “{source[word.start : word.end]}”."
    verbs = [word.start for word in clause.words if word.role == "verb"]
    verb = min([*verbs, *(word.start for word in clause.tokens if word.lower in _FINITE)], default=None)
    if clause.tense == "past" or (not clause.tokens and ":" in source):  # a row: "Under 6: free; Others: 5 EUR"
        return
    for word in clause.words:
        narrows = word.preposition in _NARROWING or word.bound in ("more", "least", "fewer", "most")
        if narrows and (word.bound != "" if verb is None else word.start < verb) and word.start not in matched:
            yield "overclaim", f"The text speaks only of “{source[word.start : word.end]}”."


def _picked(clause: Clause, matched: set[int], stated: set[str], source: str) -> Iterator[Conflict]:
    """Find a participle that picks some of a rule's subjects, and the claim leaves out: "tickets bought online are cheaper"."""
    verbs = {word.lower for word in clause.words if word.role == "verb"}
    for index, (first, second) in enumerate(pairwise(clause.tokens), 2):
        picks = (
            first.kind == "word"
            and first.start in matched
            and second.lower in verbs
            and _PARTICIPLE.search(second.lower)
        )
        rest = [word.lower for word in clause.tokens[index:]]
        later = next((lower for lower in rest if lower in verbs | LIGHT | AUXILIARIES), "")
        is_rule = bool(later) and tense_of(rest, later, "") != "past"
        if picks and is_rule and second.start not in matched and second.lower not in stated:
            yield "overclaim", f"The text speaks only of those “{source[second.start : second.end]}”."


def _governed(clause: Clause, matched: set[int], stated: set[str]) -> Iterator[Conflict]:
    """Find a verb of the text that governs the claim's: "stopped smoking", "hoped to win"."""
    verbs = {word.start for word in clause.words if word.role == "verb"}
    tokens = clause.tokens
    for index, word in enumerate(tokens[1:], 1):
        last = index - 1
        while last > 1 and tokens[last].lower in ("be", "been", "have"):
            last -= 1
        is_infinitive = last > 0 and tokens[last].lower == "to"
        before = tokens[last - 1] if is_infinitive else tokens[max(index - 1 - (tokens[index - 1].lower == "up"), 0)]
        is_passive = is_infinitive and last < index - 1 and before.lower not in _ATTAINS  # "asked to be paid"
        is_offered = is_infinitive and before.kind == "word" and before.is_fact  # "refused offers to work"
        is_governed = before.start in verbs and (word.lower.endswith("ing") or is_infinitive)
        asking = [t for t in tokens[:last] if t.lower in _REQUESTS and t.start not in matched and t.lower not in stated]
        if is_infinitive and asking and word.start in matched:
            yield "overclaim", f"The text says “{asking[-1].lower} … to {word.lower}”."
        is_light = is_infinitive and word.lower in LIGHT and any(lemmas(word.lower) & lemmas(other) for other in stated)
        is_open = (
            (is_governed or is_passive or is_offered) and before.start not in matched and before.lower not in stated
        )
        if is_open and (word.start in matched or is_light):
            yield "overclaim", f"The text says “{before.lower} {word.lower}”."


def _stated(clause: Clause, matched: set[int], source: str) -> Iterator[Conflict]:
    """Find what a state holds for and the claim leaves out: "free for members", "open on Sundays"."""
    if clause.tense in ("past", "future"):
        return
    tokens = words_of(source)
    for index, word in enumerate(tokens[:-2]):
        if word.start in matched and word.lower in _STATES and tokens[index + 1].lower in _STATED_OF:
            governed = next((other for other in tokens[index + 2 :] if other.is_fact), None)
            if governed is not None and governed.start not in matched:
                phrase = source[tokens[index + 1].start : governed.end]
                yield "overclaim", f"The text says that only of “{phrase}”."


def _circumstance(clause: Clause, matched: set[int], source: str) -> Iterator[Conflict]:
    """Find when or where a rule holds, and the claim leaves out: "cyclists must wear helmets on mountain stages"."""
    subjects = [word for word in (*clause.inherited, *clause.words) if word.role == "subject"]
    has_modal = bool(_classes(clause.all_words) & {"may", "must"})
    is_rule = has_modal or not any(word.kind == "name" for word in subjects)
    if clause.tense in ("past", "future") or clause.is_copular or not is_rule:
        return
    governed = {word.preposition for word in clause.words if word.start in matched}
    for word in clause.words:
        narrows = (
            (word.preposition in _CIRCUMSTANCES and has_modal)
            or (word.preposition in ("on", "in", "during") and _DAY.fullmatch(word.lower))
            or (word.preposition in ("above", "over", "under", "below") and word.value)
        )
        if narrows and word.preposition not in governed and word.start not in matched:
            yield "overclaim", f"The text says that only of “{word.preposition} … {source[word.start : word.end]}”."


def _reported(clause: Clause, matched: set[int], stated: set[str], source: str) -> Iterator[Conflict]:
    """Find what the text only reports: "he objected that …", "he claims the shop is closed"."""
    first = min(matched, default=0)
    earlier = [word for word in words_of(source) if word.start <= first]
    for index in range(1, len(earlier) - 1):
        before, word, following = earlier[index - 1 : index + 2]
        opens = following.lower == "that" or following.is_fact or following.lower in DETERMINERS
        is_verb = before.lower not in DETERMINERS and word.kind == "word" and word.lower in _SPEECH and opens
        if is_verb and word.lower not in stated:
            yield "overclaim", f"The text reports it (“{source[word.start : following.end]}”)."
    for word, following in pairwise(clause.tokens):
        is_report = word.lower in _SPEECH and following.lower == "that" and word.start < max(matched, default=0)
        if is_report and word.lower not in stated:
            yield "overclaim", f"The text reports it (“{word.lower} that”)."


def _tense(claim: Clause, clause: Clause) -> Iterator[Conflict]:
    if claim.tense == "past" and clause.tense == "future":
        yield "overclaim", "The text speaks of the future."
    if claim.tense == "present" and clause.tense == "past" and _FORMER & {word.lower for word in clause.tokens}:
        yield "overclaim", "The text speaks of the past."
    if claim.tense == "future" and clause.tense == "past":
        yield "unsupported", "The text speaks of the past."
