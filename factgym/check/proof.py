"""A verdict that is a proof: every fact of the claim is matched in a quoted sentence, in the same role, or it is not supported.

Each clause of the claim is held against each clause of the nearest sentences. A word matches itself in another form, a
synonym of WordNet's, an equal value in another unit or spelling; names and words of the title, of a table's headers, or of
the sentence before a pronoun may fill in for the subject. Whatever has no match is shown. A word in the place of which
the sentence has another one that excludes it (a name, a value, an opposite) contradicts; a word that limits the sentence
and that the claim leaves out (if, only, may, most) makes the claim too strong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from factgym.baselines.evidence import Evidence, Sentence, Statement
from factgym.baselines.nli import Prediction
from factgym.baselines.rules import rules
from factgym.check.alignment import (
    antecedents,
    are_apart,
    drops_head,
    excludes,
    is_taken,
    matches,
    plays,
    same_count,
    same_role,
)
from factgym.check.clauses import clauses_of
from factgym.check.limits import DEONTIC, QUANTIFIED, conditions_of, conflicts, parity
from factgym.check.words import (
    AUXILIARIES,
    DEMONYMS,
    FUNCTION,
    LIGHT,
    NEGATIONS,
    PRONOUNS,
    SUBORDINATE,
    TABLES,
    UNITS,
    Clause,
    Word,
    lemmas,
    near,
    word_set,
    words_of,
)
from factgym.datasets.claims import Status
from factgym.text.sentences import strip_full_stop

_GENERIC = word_set("generic")
_SWAPPED = frozenset({"agent", "patient", "by", "from", "to", "before", "after", "until"})
"""Parts of which a name or value can have only one: "A beat B", "from 5 to 8"."""
_ORDER = frozenset({"before", "after", "until", "without", "except", "than", "against"})
_ROW = re.compile(r"(?:[-*] )?[^:;\n]{1,80}: [^;\n]*(?:; [^:;\n]{1,80}: [^;\n]*)*")
_UNSAID, _MONEY = (
    {name: word_set(name, TABLES["unsaid"]) for name in TABLES["unsaid"]},
    {"usd", "eur", "gbp", "chf", "jpy", "inr", "kr"},
)
_DAYS = {
    f"{day}day"[:n]: f"{day}day" for day in ["mon", "tues", "wednes", "thurs", "fri", "satur", "sun"] for n in (3, 4, 5)
}
_HEADER_UNITS = UNITS | {"age": UNITS["year"]}
_HEADERS = {name: word_set(name, TABLES["headers"]) for name in TABLES["headers"]}
_FRAGMENT = 8
"""The most words of a list item that is read as a fragment."""
_NUMBERED = frozenset({"version", "release", "section", "chapter"})
_APPOSED = re.compile(r"\s*|\s*[,(–—-]+\s*(?:(?:a|an|the|its|his|her|their|our)\s+)?(?:[\w-]+\s+){0,2}", re.I)
_FULL_NAME = re.compile(r"([A-Z][\w.’'-]*)(?:\s[\"'“`(]+\s?[A-Z][\w’'-]*\s?[\"'”`)]+)?\s(?=([A-Z][\w’'-]*))")
_OWNERS = frozenset({"his", "her", "its", "their"})
_PRONOUNS = frozenset({"he", "she", "it", "they", "him", "them"})
_NO_LEAN = frozenset({"you", "your", "who", "which", "that", "this", "these"})
_LINKS = SUBORDINATE - {"that", "as", "although", "though", "while", "whereas"}
"""Words that tie a clause to another, so that one sentence has to say both."""
_SEVERITY: Sequence[Status] = ("contradicted", "overclaim", "unsupported")

_PRECEDING = 5
_CANDIDATES = 12
"""Sentences that are compared with a claim, those that share most with it."""
_MAX_CHARS = 2000
_MIN_SHARE = 0.5
"""Of the facts of a claim that a sentence must have, for a difference to be one of the same matter."""
_LOOSE_SHARE = 0.6
"""Of the facts, from which on the rules may grant the role of a single word."""
_CONTEXT = 0.9
"""What a fact counts that the context names."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The status of a clause of the claim by one sentence.

    share: of its facts that matched. wrong: the fact that did not. is_loose: all that is missing is the role of a word that
    is no name.
    """

    status: Status
    share: float
    sentences: tuple[Sentence, ...] = ()
    wrong: Word | None = None
    reason: str = ""
    is_loose: bool = False

    @property
    def rank(self) -> tuple[bool, float, bool]:
        """By which the best of several is chosen."""
        return self.status == "supported", round(self.share, 3), self.status != "unsupported"


def prove(statement: Statement, evidence: Evidence) -> Prediction:
    """Return the verdict on a statement: supported if each of its clauses is proved, else the gravest of those that are not."""
    text = statement.text
    clauses = [clause for clause in clauses_of(text) if facts_of(clause)]
    if not clauses:
        return Prediction(
            statement, "unsupported", (), strip_full_stop(text), "Nothing in it can be held against a text."
        )
    near_by = nearest(statement, evidence)
    is_linked = len(clauses) > 1 and any(clause.opener in _LINKS or _is_of_some(clause) for clause in clauses)
    outcomes = [_best(clause, text, near_by, evidence) for clause in clauses]
    if is_linked and all(outcome.status == "supported" for outcome in outcomes):
        outcomes = max(([_best(c, text, [n], evidence) for c in clauses] for n in near_by), key=_rank_of_all)
    failed = [outcome for outcome in outcomes if outcome.status != "supported"]
    sentences = tuple(dict.fromkeys(s for outcome in (failed[:1] or outcomes) for s in outcome.sentences))[:3]
    is_loose = len(failed) == 1 and failed[0].is_loose
    if not failed or (is_loose and rules(statement, evidence).status == "supported"):
        return Prediction(statement, "supported", sentences, "", "Each part of it is in the quoted text.")
    worst = min(failed, key=lambda outcome: _SEVERITY.index(outcome.status))
    span = text[worst.wrong.start : worst.wrong.end] if worst.wrong else strip_full_stop(text)
    return Prediction(statement, worst.status, worst.sentences or sentences, span, worst.reason)


def _is_of_some(clause: Clause) -> bool:
    """Whether a clause is about something without a name: "leads an office that opened in 2012"."""
    return clause.relative and bool(clause.inherited) and not any(word.kind == "name" for word in clause.inherited)


def _rank_of_all(outcomes: Sequence[Outcome]) -> tuple[bool, float]:
    return all(outcome.status == "supported" for outcome in outcomes), sum(outcome.share for outcome in outcomes)


def facts_of(clause: Clause) -> list[Word]:
    """Return the words of a clause that a proof needs, those of its shared subject included."""
    words = (*clause.inherited, *clause.words)
    return [word for word in words if word.value or word.lower not in QUANTIFIED | DEONTIC]


def nearest(statement: Statement, evidence: Evidence) -> list[int]:
    """Return the numbers of the sentences that share most with the statement."""
    terms: set[Any] = set()
    for word in words_of(statement.text):
        terms |= {word.value} if word.value else near(word.lower) if word.is_fact else set()

    def score(number: int) -> float:
        sentence = evidence.sentences[number]
        words = words_of(sentence.text[:_MAX_CHARS])
        own: set[Any] = {lemma for word in words if word.is_fact for lemma in (word.lemmas or {word.value})}
        return len(terms & own) - 0.01 * len(sentence.tokens)

    numbers = sorted(range(len(evidence.sentences)), key=lambda n: -evidence.overlap(statement, evidence.sentences[n]))
    return sorted(numbers[: 4 * _CANDIDATES], key=lambda number: -score(number))[:_CANDIDATES]


def _best(clause: Clause, text: str, near_by: Sequence[int], evidence: Evidence) -> Outcome:
    best = Outcome("unsupported", 0.0, (), None, "The documents say nothing of it.")
    for number in near_by:
        for outcome in _by_sentence(clause, text, number, evidence):
            if outcome.rank > best.rank:
                best = outcome
        if best.status == "supported":
            break
    return best


def _by_sentence(claim: Clause, text: str, number: int, evidence: Evidence) -> Iterator[Outcome]:
    sentence = evidence.sentences[number]
    if _plain_words(text) == _plain_words(sentence.text):
        yield Outcome("supported", 1.0, (sentence,))
    elif _is_row(sentence.text):
        yield _Comparison(claim, text, _row_clause(sentence.text), sentence).outcome()
    else:
        clauses = clauses_of(sentence.text)
        for index, clause in enumerate(clauses):
            leans = _leans(clause, sentence.text)
            subjects = [word for other in clauses[:index] for word in other.words if word.role == "subject"]
            before, topic = _named_before(evidence, number, leans) if leans else ([], [])
            yield _Comparison(
                claim,
                text,
                clause,
                sentence,
                conditions_of(clauses, index),
                leans,
                [*before, *(subjects if leans else ())],
                [*topic, *(subjects if leans else ())],
                evidence.sentences[number - 1] if before else None,
                [
                    s.text
                    for s in evidence.sentences[max(number - _PRECEDING, 0) : number]
                    if s.passage == sentence.passage
                ],
            ).outcome()


@lru_cache(maxsize=4096)
def _plain_words(text: str) -> tuple[object, ...]:
    return tuple(word.value or word.lower for word in words_of(text) if word.lower not in ("a", "an", "the"))


def _is_row(text: str) -> bool:
    """Whether a text is a row of a table ("Adult: 5 EUR; Child: 2 EUR"), no sentence with a colon ("She said: no.")."""
    if re.search(r"[.!?] [A-Z]", text):
        return False
    if not _ROW.fullmatch(text):  # "250 g red lentils", "Support for Python 3.8."
        words = words_of(text)
        if len(words) > _FRAGMENT or sum(word.kind == "name" for word in words) > 1:
            return False
        return not any(is_verb(clause, w) or w.lower in LIGHT for clause in clauses_of(text) for w in clause.tokens)
    roles = {word.role for word in clauses_of(text.partition(":")[0])[0].words}
    return not (roles >= {"subject", "verb"} and re.search(r"[.!?][\"'”’)]*$", text))


def _row_clause(text: str) -> Clause:
    """Return the row of a table as a clause without a verb; the "preposition" of a word is the number of its cell."""
    words: list[Word] = []
    for number, cell in enumerate(re.split(r"(?<=;) ", text)):
        header = words_of(cell.partition(":")[0])
        unit = next((_HEADER_UNITS[word.lower] for word in header if word.lower in _HEADER_UNITS), None)
        offset = text.find(cell, words[-1].end if words else 0)
        for word in words_of(cell):
            further = lemmas(_DAYS.get(word.lower, word.lower)) | _HEADERS.get(word.lower, frozenset())
            placed = replace(
                word, start=word.start + offset, end=word.end + offset, role="row", preposition=str(number)
            )
            if unit and word.kind == "amount" and not word.value[0]:  # "Weight (kg): 12"
                words.append(replace(placed, value=(unit[0], word.value[1] * unit[1])))
            words.append(replace(placed, lemmas=word.lemmas | further))
    facts = tuple(word for word in words if word.is_fact)
    return Clause(facts, negations=sum(word.lower in NEGATIONS for word in words), is_copular=True)


def _unsaid(value: Word) -> frozenset[str]:
    """Return the verbs that a row of a table implies by a value: "Suit: 14 EUR" costs."""
    if value.kind == "amount":
        return _UNSAID["money" if value.value[0] in _MONEY else "amount"]
    return _UNSAID["time"] if value.kind == "time" else frozenset()


def _leans(clause: Clause, text: str) -> str:
    """Return by what a clause leans on the sentence before: "pronoun", "owner" ("its"), a "noun" ("the company"), or ""."""
    first, second = (*(word.lower for word in words_of(text)[:2]), "", "")[:2]
    if first in _OWNERS:
        return "owner"
    if (first in PRONOUNS and first not in _NO_LEAN) or _PRONOUNS & clause.function:
        return "pronoun"
    if _OWNERS & clause.function:
        return "owner"
    return "noun" if first in ("the", "this", "these") and second and lemmas(second) & _GENERIC else ""


def is_verb(clause: Clause, word: Word) -> bool:
    """Whether a token of a clause is its verb."""
    return word.lower in AUXILIARIES or any(fact.start == word.start and fact.role == "verb" for fact in clause.words)


def _named_before(evidence: Evidence, number: int, leans: str) -> tuple[list[Word], list[Word]]:
    """Return the facts of the sentence before in the passage, and the subject that "it" may stand for; empty for the first.

    Where that sentence begins without a name, the subject of the passage's first sentence is meant.
    """
    sentences, passage = evidence.sentences, evidence.sentences[number].passage
    first = number
    while first and sentences[first - 1].passage == passage:
        first -= 1
    if first == number:
        return [], []
    before = [word for word in words_of(sentences[number - 1].text) if word.is_fact]
    topic = [word for word in clauses_of(sentences[number - 1].text)[0].words if word.role == "subject"]
    words = [word.lower for word in words_of(sentences[number].text)]
    pronoun = next((lower for lower in words if lower in _OWNERS | _PRONOUNS), "")
    if leans != "noun" and pronoun and not any(w.lower in PRONOUNS for w in words_of(sentences[number - 1].text)[:1]):
        before = antecedents(sentences[number - 1].text, pronoun)
        return before, before
    if not any(word.kind == "name" for word in topic):
        opening = clauses_of(sentences[first].text)[0].words
        is_chain = any(word.lower in PRONOUNS for word in words_of(sentences[number - 1].text)[:1])
        topic += [word for word in opening if word.role == "subject" and (is_chain or word.kind == "name")]
        before += topic
    return before, topic


@dataclass
class _Comparison:
    """One clause of the claim against one clause of a sentence.

    leans, before, topic: by what the clause leans on the text before it, the facts there, and its subject. earlier: the
    sentence before, on which it leans. preceding: some sentences of its passage before it.
    """

    claim: Clause
    text: str
    clause: Clause
    sentence: Sentence
    conditions: frozenset[str] = frozenset()
    leans: str = ""
    before: Sequence[Word] = ()
    topic: Sequence[Word] = ()
    earlier: Sentence | None = None
    preceding: Sequence[str] = ()
    matched: dict[int, Word] = field(default_factory=dict)
    in_context: list[Word] = field(default_factory=list)
    missing: list[tuple[Word, str, Word | None]] = field(default_factory=list)
    """Facts without a match, with the reason: the text has it in another "role", an "other" that excludes it, or "none"."""

    def __post_init__(self) -> None:
        self.facts = facts_of(self.claim)
        self.available = (*self.clause.words, *self.clause.inherited, *self.clause.predicate)
        self.title = [word for word in words_of(self.sentence.title[-200:]) if word.is_fact]
        self.is_row = bool(self.clause.words) and self.clause.words[0].role == "row"

    def outcome(self) -> Outcome:
        """Return the status, by this clause alone."""
        for number, fact in enumerate(self.facts):
            self._match(number, fact)
        flips = self._flips()
        if self.missing and not flips:
            return self._lacking(*self.missing[0])
        return self._limited(flips)

    # Matching

    def _match(self, number: int, fact: Word) -> None:
        candidates = [word for word in self.available if matches(fact, word)] or self._spelled_out(fact)
        if fact.role == "verb" and not any(fact.lemmas & word.lemmas for word in candidates):
            is_elsewhere = any(fact.lemmas & word.lemmas for word in words_of(self.sentence.text))
            candidates = (
                [] if is_elsewhere else candidates
            )  # "a film set in Rome and shot in Hull": "shot", not "a film"
        fitting = [word for word in candidates if self._fits(fact, word)]
        if fitting:
            last = self.matched[number - 1].end if number - 1 in self.matched else None
            # Of several matches the nearest to that of the claim's word before: "the north gate and the south gate".
            self.matched[number] = min(
                fitting,
                key=lambda word: (word in self.matched.values(), abs(word.start - last) if last is not None else 0),
            )
        elif self._is_named_elsewhere(number, fact, bool(candidates)):
            self.in_context.append(fact)
        elif candidates:
            self.missing.append((fact, "role", candidates[0]))
        else:
            other = next(
                (
                    word
                    for word in self.available
                    if excludes(fact, word)
                    and self._same_role(fact, word)
                    and same_count(fact, self.facts, word, self.available, is_rival=True)
                    and not any(matches(named, word) for named in self.facts)
                ),
                None,
            )
            self.missing.append((fact, "none" if other is None else "other", other))

    def _spelled_out(self, fact: Word) -> list[Word]:
        """Return the last of the words of which a fact is the initials: "Public License" for PL."""
        letters = self.text[fact.start : fact.end]
        words, source = sorted(self.available, key=lambda word: word.start), self.sentence.text
        initials = "".join(source[word.start] if word.kind == "name" else " " for word in words)
        start = initials.find(letters) if letters.isupper() and len(letters) > 1 else -1
        return [words[start + len(letters) - 1]] if start >= 0 else []

    def _same_role(self, fact: Word, word: Word) -> bool:
        return same_role(fact, self.claim, word, self.clause)

    def _fits(self, fact: Word, word: Word) -> bool:
        return (
            self._same_role(fact, word)
            and not drops_head(fact, self.claim, word, self.clause)
            and not self._is_of_other(word)
            and same_count(fact, self.facts, word, self.available)
            and not is_taken(fact, word, self.facts, self.available)
        )

    def _is_of_other(self, value: Word) -> bool:
        """Whether a row gives a value of something else, in brackets or before them: "29 CHF (deposit 200 CHF)"."""
        opening, closing = (self.sentence.text.find(mark) for mark in "()")
        if not self.is_row or not value.value or not 0 <= opening < closing:
            return False
        inside = [word for word in self.available if opening < word.start < closing]
        names = [word for word in inside if not word.value]
        is_named = all(any(matches(fact, word) for fact in self.facts) for word in names)
        if value not in inside:
            return is_named and bool(names) and any(word.kind == value.kind for word in inside)
        return not is_named

    def _is_named_elsewhere(self, number: int, fact: Word, is_here: bool) -> bool:
        """Whether the context says what a fact says: a light verb, a surname, a pronoun's sentence, the title."""
        if self._is_light(fact) or self._is_unsaid(fact) or self._is_forename(number) or self._opens_unnamed(fact):
            return True
        if is_here:
            return False
        if self.before and not fact.value and self._is_named_before(fact):
            return True
        may_lean = self.is_row or fact.role in ("subject", "possessive")
        return may_lean and any(matches(fact, word) for word in self.title)

    def _is_light(self, fact: Word) -> bool:
        """Whether the text has a verb that says little more than "is", and the claim one of its synonyms: took, lasted."""
        light = self.clause.function & LIGHT
        return fact.role == "verb" and any(not near(fact.lower).isdisjoint(lemmas(word)) for word in light)

    def _is_unsaid(self, fact: Word) -> bool:
        """Whether a word says only how a row has a value: "a suit costs 14 euros", "in version 2.3"."""
        if not self.is_row:
            return False
        following = self.facts[self.facts.index(fact) + 1 :]
        if fact.lower in _NUMBERED and following and following[0].value:
            return True
        values = [value for value in self.facts if value.value and any(matches(value, word) for word in self.available)]
        return fact.role == "verb" and any(fact.lemmas & _unsaid(value) for value in values)

    def _is_forename(self, number: int) -> bool:
        """Whether a word is a forename before a surname that the text has alone: "Anna Keller", "Keller"."""
        fact, following = self.facts[number], self.facts[number + 1] if number + 1 < len(self.facts) else None
        if fact.value or following is None or following.kind != "name" or not self.text[fact.start].isupper():
            return False
        surname = next((word for word in self.available if word.kind == "name" and matches(following, word)), None)
        if surname is None or self.text[fact.end : following.start] != " ":
            return False
        source, last = self.sentence.text, self.sentence.text[surname.start : surname.end]
        names = _FULL_NAME.findall("\n".join((*self.preceding, source)))
        forenames = {first for first, name in names if name == last and first.lower() not in FUNCTION}
        return not forenames or self.text[fact.start : fact.end] in forenames

    def _opens_unnamed(self, fact: Word) -> bool:
        """Whether a passage without a title begins with a pronoun: then it is about what the claim names."""
        is_opening = self.leans == "pronoun" and not self.preceding and not self.title
        rivals = any(word.kind == "name" and word.role == "subject" for word in self.clause.words)
        return is_opening and not rivals and not fact.value and fact.role == "subject"

    def _is_named_before(self, fact: Word) -> bool:
        """Whether the text before names what a pronoun, or of names what "the company" stands for."""
        if self.leans == "noun" and fact.kind != "name":
            return False
        is_owner = self.leans == "owner"
        if is_owner and fact.role != "possessive" and fact.preposition != "of":
            return False
        words = self.before if is_owner or fact.role in ("subject", "possessive", "by") else self.topic
        if self.leans == "pronoun" and not self._is_of_pronoun(fact):
            return False
        return any(matches(fact, word) for word in words)

    def _is_of_pronoun(self, fact: Word) -> bool:
        """Whether a fact plays the part that a pronoun of the clause plays: "Austria withdrew from it" names its subject."""
        verb = next((word.start for word in self.clause.tokens if is_verb(self.clause, word)), None)
        pronouns = [word for word in self.clause.tokens if word.lower in PRONOUNS and word.lower not in _OWNERS]
        parts = {"subject" if verb is None or word.start < verb else "object" for word in pronouns}
        if any(word.role == "subject" for word in self.clause.words):
            parts -= {"subject"}
        part = plays(fact, self.claim)
        subject, other = (
            plays(replace(fact, role="subject"), self.clause),
            plays(replace(fact, role="object"), self.clause),
        )
        played = {subject} if "subject" in parts else set()
        played |= {other, "in"} if "object" in parts else set()
        return part in played or (bool(played) and "theme" in (part, *played)) or fact.role == "possessive"

    # Outcomes

    def _flips(self) -> bool:
        """Whether the claim denies the opposite of what the text says: "not allowed" for "prohibited"; of no attribute."""
        if len(self.missing) != 1 or parity(self.claim) == parity(self.clause):
            return False
        fact, kind, _ = self.missing[0]
        is_attribute = any(word.is_fact and word.start == fact.end + 1 for word in self.claim.tokens)
        return kind == "other" and fact.kind == "word" and not is_attribute

    @property
    def _sentences(self) -> tuple[Sentence, ...]:
        return (self.earlier, self.sentence) if self.earlier is not None and self.in_context else (self.sentence,)

    def _unmatched(self) -> list[Word]:
        return [word for word in self.available if word not in self.matched.values()]

    def _lacking(self, fact: Word, kind: str, other: Word | None) -> Outcome:
        """Return the outcome where a fact has no match."""
        share = (len(self.matched) + _CONTEXT * len(self.in_context)) / len(self.facts)
        is_same_matter = share >= _MIN_SHARE and len(self.facts) > 1
        word = self.text[fact.start : fact.end]
        if kind == "role":
            roles = {fact.role, other.role if other is not None else ""}
            is_single = (
                len(self.missing) == 1
                and fact.kind == "word"
                and not roles & _ORDER
                and (fact.role != "verb" or not (self.clause.is_copular or (other and other.role == "verb")))
                and not (other is not None and drops_head(fact, self.claim, other, self.clause))
                and self._is_unlimited()
            )
            parts = {plays(fact, self.claim), plays(other, self.clause) if other is not None else ""}
            is_swap = (
                len(parts) == 2
                and parts <= _SWAPPED
                and is_same_matter
                and len(self.missing) == 1
                and self._has_rival(fact)
            )
            status: Status = "contradicted" if is_swap else "unsupported"
            reason = f"The text has “{word}” in another role."
            return Outcome(status, share, self._sentences, fact, reason, is_single and share >= _LOOSE_SHARE)
        if kind == "none" and fact.kind == "name":
            names = [name for name in self._unmatched() if name.kind == "name" and name.lower not in DEMONYMS]
            other = next((name for name in names if self._same_role(fact, name)), None)
        is_denied = parity(self.claim) != parity(self.clause)
        is_other = fact.role == "subject" and fact.kind == "name" and self.leans != ""  # "she", "the album"
        if other is not None and is_same_matter and len(self.missing) == 1 and not is_denied and not is_other:
            reason = f"The text has “{self.sentence.text[other.start : other.end]}” there."
            return Outcome("contradicted", share, self._sentences, fact, reason)
        return Outcome("unsupported", share, self._sentences, fact, f"The text does not say “{word}”.")

    def _has_rival(self, fact: Word) -> bool:
        """Whether the text can have something else in the part of a fact: of a name no pronoun, which may mean it."""
        part = plays(fact, self.claim)
        is_named = any(word.kind == "name" and plays(word, self.clause) == part for word in self.available)
        return fact.kind != "name" or is_named or not PRONOUNS & self.clause.function

    def _is_unlimited(self) -> bool:
        return next(self._faults(False), None) is None

    def _limited(self, flips: bool) -> Outcome:
        """Return the outcome where every fact has a match: by what else the text says, or does not."""
        for status, share, reason, wrong in self._faults(flips):
            return Outcome(status, share, self._sentences, wrong, reason)
        return Outcome("supported", 1.0, self._sentences)

    def _faults(self, flips: bool) -> Iterator[tuple[Status, float, str, Word | None]]:
        says_something = any(fact.role not in ("subject", "possessive") for fact in self.facts)
        if not self.matched or (self.claim.is_copular and not says_something and not self.claim.negations):
            yield "unsupported", 0.3, "It says too little to be held against a text.", None
        ranks = {word.end + 1 for word in self._unmatched() if word.kind == "rank"}
        if any(word.start in ranks and word.role != "verb" for word in self.matched.values()):
            yield "contradicted", 0.9, "The text has a rank before it.", None
        if self.claim.is_copular and not self._is_predicated():
            yield "unsupported", 0.6, "The text does not say this of it.", None
        if (rival := self._rival()) is not None:
            name = self.sentence.text[rival.start : rival.end]
            yield "contradicted", 0.99, f"The text says it of “{name}”.", self.in_context[0]
        if (loose := self._loose_pair()) is not None:
            yield "unsupported", 0.99, "The text does not say these words of each other.", loose
        if (parity(self.claim) + flips) % 2 != parity(self.clause):
            yield "contradicted", 0.99, "One denies what the other says.", None
        source, matched = self.sentence.text, self.matched.values()
        for status, reason in conflicts(self.claim, self.text, self.clause, source, matched, self.conditions):
            yield status, 0.99, reason, None

    def _rival(self) -> Word | None:
        """Return the name of which the text says what the claim says of one that only the title names."""
        named = [number for number, fact in enumerate(self.facts) if fact.kind == "name" and fact in self.in_context]
        if self.leans or all(self._is_forename(number) for number in named):
            return None
        names = [word for word in self._unmatched() if word.kind == "name" and word.role != "verb"]
        return next((name for name in names if plays(name, self.clause) in ("agent", "theme", "patient")), None)

    def _loose_pair(self) -> Word | None:
        """Return a word of the claim directly before another, where the text has a conjunction between them."""
        for number in range(len(self.facts) - 1):
            first, second = self.facts[number], self.facts[number + 1]
            pair = [self.matched[n] for n in (number, number + 1) if n in self.matched]
            if len(pair) < 2 or self.text[first.end : second.start] != " " or first.value or second.value:
                continue
            is_owner = first.role == "possessive" and (
                self.is_row or pair[0].preposition in ("for", "of")
            )  # "Ann's age"
            if "verb" not in (first.role, second.role) and not is_owner and are_apart(self.sentence.text, *pair):
                return first
        return None

    def _is_predicated(self) -> bool:
        """Whether a text says that one thing is the other: with "is", or by putting one next to the other."""
        roles = [(fact.role, self.matched[n]) for n, fact in enumerate(self.facts) if n in self.matched]
        subject = [word for role, word in roles if role == "subject"]
        predicate = [word for role, word in roles if role not in ("subject", "verb")]
        has_subject = any(word.role == "subject" for word in self.clause.words)
        if self.in_context and not self.leans and not subject and has_subject:
            return False
        has_verb = any(word.role == "verb" for word in self._unmatched())
        if self.is_row or self.clause.is_copular or not has_verb or not subject or not predicate:
            return True
        first, second = sorted((subject, predicate), key=lambda words: min(word.start for word in words))
        end, start = max(word.end for word in first), min(word.start for word in second)
        is_next = start >= end and _APPOSED.fullmatch(self.sentence.text[end:start]) is not None
        return is_next or (start >= end and any(word.value for word in predicate))
