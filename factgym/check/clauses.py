"""Clauses of an English sentence, and the role of each word in its clause.

There is no parser: clauses are cut at conjunctions and relative pronouns that a verb follows, and the role of a word is
its side of the verb and the preposition that governs it. Where a sentence is cut too often, less is proved, never more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from factgym.check.words import (
    AUXILIARIES,
    COPULAS,
    DEONTIC,
    DETERMINERS,
    FUNCTION,
    LIGHT,
    OF_BOUNDS,
    PREPOSITION_CLASS,
    PREPOSITIONS,
    PRONOUNS,
    RELATIVE,
    SUBORDINATE,
    Clause,
    Word,
    count_negations,
    is_verb_form,
    lemmas,
    tense_of,
    with_aliases,
    word_set,
    words_of,
)
from factgym.text.wordnet import bases

_ASIDE = re.compile(r" ?\(([^()]*)\)|-LRB-(.*?)-RRB-")
_APART = re.compile(r"\b(?:and|or|but)\b|[,;:]\s")
_UNSURE = frozenset({"may", "might", "could", "would", "should", "can", "must", "if", "unless"})
_PARTICIPLE = re.compile(r"(?:ed|en|n|t)$")
_LIFE = re.compile(
    r"\s*\d{1,2} \w+ \d{4} ?(?:[–—-]|--) ?\d{1,2} \w+ \d{4}\s*|\s*\w+ \d{1,2} ?, \d{4} ?(?:[–—-]|--) ?\w+ \d{1,2} ?, \d{4}\s*"
)
_MODAL = frozenset(
    {"can", "could", "will", "would", "may", "might", "must", "shall", "should", "cannot", "do", "does", "did"}
)
_UNCHANGED = word_set("unchanged")
_BE = frozenset({"is", "are", "was", "were", "be", "been", "being"})
_OF_TIME = frozenset({"before", "after", "since", "until", "as"})
"""Words that open a clause where a verb follows, and else govern a noun."""
_SUBJECTS = frozenset({"it", "he", "she", "they"})
_TAIL, _SPEECH = word_set("tail"), word_set("speech")
_JOINING = frozenset({"and", "but", "or", "while", "whereas", "yet"})
_NEW_SUBJECT = frozenset({"those", "these", "others", "they", "it", "he", "she", "this"})
_BEFORE_VERB = frozenset({"they", "we", "you", "i", "who", "which", "that", "to"})
_ADVERBS = frozenset({"also", "better", "best", "once", "first", "now"})
_AFTER_AND = frozenset({"then", "also", "later", "still", "not", "to"})
_MAX_ASIDES = 32
_SUBJECT = 4
"""Words of a subject that a comma alone parts from the clause before."""
_WITHIN = 12
"""Words after a conjunction in which the verb of its clause must be."""


@lru_cache(maxsize=4096)
def clauses_of(text: str) -> tuple[Clause, ...]:
    """Return the clauses of a sentence; what is in brackets, up to 32 times, is a clause about the words before them."""
    plain = _ASIDE.sub(lambda match: " " * len(match[0]), text)
    clauses = _clauses(plain, words_of(plain))
    asides: list[Clause] = []
    for match in islice(_ASIDE.finditer(text), _MAX_ASIDES):
        inside = re.sub(r"[()]|-[LR]RB-", lambda mark: " " * len(mark[0]), match[0])
        aside = " " * match.start() + inside
        start = max((m.end() for m in _APART.finditer(plain, 0, match.start())), default=0)
        before = [word for clause in clauses for word in clause.words if start <= word.start < match.start()][-4:]
        dates = [word for word in words_of(aside) if word.kind == "date"]
        if (
            _LIFE.fullmatch(inside)
            and len(dates) == 2
            and all(word.kind == "name" for word in words_of(text[: match.start()]))
        ):
            written = tuple(_life(event, date) for event, date in zip(("born", "died"), dates, strict=True))
        else:
            written = _clauses(aside, words_of(aside))
            verbs = [tuple(word for word in clause.words if word.role == "verb") for clause in written]
            missing = [() if own else verbs[0] for own in verbs]  # "(born Anna Lee; May 4, 1941)" has one verb
            both = zip(written, missing, strict=True)
            written = tuple(replace(c, words=more + c.words, tokens=more + c.tokens) for c, more in both)
        asides += (_reduced(replace(clause, relative=True), before) for clause in written)
    return with_aliases((*clauses, *asides))


def _life(event: str, date: Word) -> Clause:
    """Return what a date says in "Ada Lovelace (10 December 1815 – 27 November 1852)"."""
    verb = Word(date.start, date.start, event, "word", lemmas(event), role="verb")
    return Clause((verb, replace(date, role="in")), tense="past", tokens=(verb, date))


def _reduced(clause: Clause, subject: Sequence[Word], *, may_be_active: bool = False) -> Clause:
    """Return a clause with its subject; one that a participle opens is passive where an agent is named, else perhaps."""
    opens = [w for w in clause.tokens if w.lower not in _ADVERBS | {"and", "but"} and not w.lower.endswith("ly")][:1]
    verbs = {word.start for word in clause.words if word.role == "verb"}
    is_reduced = any(_PARTICIPLE.search(w.lower) and (w.lower in LIGHT or w.start in verbs) for w in opens)
    has_agent = any(word.role == "by" for word in clause.words)
    role = "theme" if is_reduced and not has_agent and not may_be_active else "subject"
    inherited = tuple(replace(word, role=role) for word in subject)
    return replace(clause, inherited=inherited, is_passive=clause.is_passive or (is_reduced and has_agent))


def is_too_long(text: str) -> bool:
    """Whether a sentence has words that no clause of it holds."""
    words, asides = words_of(text), len(_ASIDE.findall(text))
    return asides > _MAX_ASIDES or re.search(r"[^\W_]", text[words[-1].end if words else 0 :]) is not None


def _clauses(text: str, words: tuple[Word, ...]) -> tuple[Clause, ...]:
    clauses: list[Clause] = []
    subject: tuple[Word, ...] = ()
    first, sentence = subject, _Sentence(text, words)
    for members, opener in sentence.groups():
        clause = sentence.clause(members)
        if opener == "resumed":
            relative = clauses[-1]
            narrowed = relative.words if not relative.is_aside else ()
            inherited = tuple(replace(word, role="subject") for word in relative.inherited)
            clause = replace(clause, inherited=inherited, narrowed=narrowed)
        elif opener in ("relative", "verb"):
            clause = _joined(clause, clauses[-1], opener, subject)
        else:
            own = tuple(word for word in clause.words if word.role == "subject" and not word.lower.endswith("ly"))
            subject, first = own or subject, first or own
        start = clause.tokens[0].start if clause.tokens else 0
        gap = text[clauses[-1].tokens[-1].end : start] if clauses and clauses[-1].tokens else ""
        apart, is_aside = re.search(r"[;:.!?]", gap) is not None, "," in gap
        clauses += (replace(part, apart=apart, is_aside=is_aside) for part in _ungapped(text, clause))
    for number, clause in enumerate(clauses[:-1]):  # "Born in Rome and raised in Oslo, Ann Lee left"
        has_subject = clause.inherited or any(word.role == "subject" for word in clause.words)
        if has_subject or clause.function & PRONOUNS or not _PARTICIPLE.search(clause.opener):
            break
        clauses[number] = replace(_reduced(clause, first), is_fronted=True)
    return tuple(clauses)


def _joined(clause: Clause, previous: Clause, opener: str, subject: tuple[Word, ...]) -> Clause:
    """Return a clause with the subject that it shares with the clause before."""
    shared = previous.inherited if previous.relative else subject
    inherited, predicate = _antecedent(previous, subject) if opener == "relative" else (shared, previous.predicate)
    pronouns = previous.function & _SUBJECTS if opener == "verb" and not inherited else frozenset()
    shares_passive = opener == "verb" and previous.is_passive and not AUXILIARIES & clause.function
    joined = replace(
        clause,
        predicate=predicate,
        function=clause.function | pronouns,
        relative=opener == "relative" or previous.relative,
        is_passive=clause.is_passive or shares_passive,
    )
    last = next((word.preposition for word in reversed(previous.words) if word.kind == "name"), "from")
    is_unclear = opener == "verb" and not _JOINING & clause.function and last not in ("from", "in", "at", "near")
    if is_unclear and not any(word.role == "by" for word in clause.words):  # ", born in 1970"
        return replace(joined, inherited=(), predicate=())
    has_own = any(w.role == "subject" and not w.lower.endswith("ly") for w in clause.words) or any(
        w.lower in PRONOUNS for w in clause.tokens[1:2]
    )
    if opener == "relative" and has_own and clause.opener not in ("where", "when", "why"):
        # "a player that Ann Lee beat", "a player whose father coached", "240 patients, of whom 30 left"
        role = {"whose": "whose", "whom": "subject"}.get(clause.opener, "object")
        inherited = tuple(word for word in inherited if clause.opener != "whom" or not word.value)
        return replace(joined, inherited=tuple(replace(word, role=role) for word in inherited), predicate=())
    if AUXILIARIES & clause.function or RELATIVE & clause.function:
        return replace(joined, inherited=inherited)
    return _reduced(joined, inherited, may_be_active=opener == "verb" and not previous.is_copular)


def _antecedent(clause: Clause, subject: tuple[Word, ...]) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return the facts that a relative clause may be about, those after the last verb or the subject, and what that is.

    After "X is a Y" it is about X, which is a Y.
    """
    verb = max((word.start for word in clause.words if word.role == "verb"), default=-1)
    objects = [word for word in clause.words if word.start > verb and word.role not in ("subject", "verb")]
    named = tuple(replace(word, role="subject") for word in objects)
    copula = next((n for n, word in enumerate(clause.tokens) if word.lower in COPULAS), 0)
    is_plain = PREPOSITIONS.isdisjoint(word.lower for word in clause.tokens[copula:])
    if subject and clause.is_copular and is_plain and not clause.negations and not clause.function & _UNSURE:
        return subject, named
    return named or tuple(word for word in clause.words if word.role != "verb"), ()


def _ungapped(text: str, clause: Clause, start_at: int = 0) -> list[Clause]:
    """Return the clauses that one verb serves: "opens at 6:30 on weekdays and at 8:00 on weekends" says two things."""
    verbs = [word for word in clause.words if word.role == "verb"]
    after = verbs[-1].end if verbs else next((word.end for word in clause.tokens if word.lower in COPULAS), 0)
    tokens = clause.tokens
    for index in range(1, len(tokens)):
        joins = tokens[index].lower in ("and", "but")
        start = index + joins
        comma = "," in text[tokens[index - 1].end : tokens[index].start]
        if tokens[index].start < max(after, start_at) or start >= len(tokens) or not (joins or comma):
            continue
        is_tail = (comma or tokens[index].lower == "but") and not _TAIL.isdisjoint(w.lower for w in tokens[start:])
        if is_tail or _repeats_a_phrase(clause, after, tokens, start):
            return _both(text, clause, after, tokens[start], is_tail=is_tail)
    return [clause]


def _repeats_a_phrase(clause: Clause, after: int, tokens: Sequence[Word], start: int) -> bool:
    """Whether the words from `start` on have a preposition of their own that those after the verb have too."""
    cut = tokens[start].start
    first = {word.lower for word in tokens if after <= word.start < cut and word.kind == "function"} & PREPOSITIONS
    shared = (first - {"of"}) & {word.lower for word in tokens[start:] if word.kind == "function"}
    second = [word for word in clause.words if word.start >= cut]
    if not shared or tokens[start].lower in PREPOSITIONS:
        return bool(shared) and any(word.value for word in second)
    return any(word.value or word.kind == "name" or word.role in ("by", "in") for word in second)


def _both(text: str, clause: Clause, after: int, cut: Word, *, is_tail: bool) -> list[Clause]:
    """Return the clause up to a word, and the clause that its verb makes with the words from there on."""
    head = tuple(word for word in clause.words if word.start < after)
    second = [word for word in clause.words if word.start >= cut.start]
    inherited = clause.inherited
    has_object = any(word.role == "object" and after <= word.start < cut.start for word in clause.words)
    if cut.lower not in PREPOSITIONS | _TAIL and (is_tail or not has_object):  # "Yoga is on Mondays, boxing on Fridays"
        head, inherited = tuple(word for word in head if word.role == "verb"), ()
        is_subject = [word.role == "object" or not word.preposition for word in second]
        second = [replace(word, role="subject") if its else word for word, its in zip(second, is_subject, strict=True)]
    elif cut.lower in PREPOSITIONS and not any(word.role == "object" for word in second):
        head += tuple(word for word in clause.words if word.role == "object" and after <= word.start < cut.start)
    keep = tuple(word for word in clause.tokens if word.start < cut.start)
    rest = tuple(word for word in clause.tokens if word.start < after or word.start >= cut.start)
    first = _part(clause, tuple(word for word in clause.words if word.start < cut.start), clause.inherited, keep)
    other = _part(clause, (*head, *second), inherited, rest)
    return [first, *_ungapped(text, other, cut.end)]


def _part(clause: Clause, words: tuple[Word, ...], inherited: tuple[Word, ...], tokens: tuple[Word, ...]) -> Clause:
    function = frozenset(word.lower for word in tokens if word.kind == "function")
    negations = count_negations([word.lower for word in tokens])
    return replace(clause, words=words, inherited=inherited, tokens=tokens, function=function, negations=negations)


class _Sentence:
    """A sentence that is being cut into clauses. verbs: the numbers of its words that are finite verbs or participles."""

    def __init__(self, text: str, words: tuple[Word, ...]) -> None:
        self.text, self.words = text, words
        self.verbs = self._find_verbs()

    def gap(self, index: int) -> str:
        """Return the text between a word and the one before it."""
        return self.text[self.words[index - 1].end : self.words[index].start] if index else ""

    # Verbs

    def _find_verbs(self) -> frozenset[int]:
        certain = {i for i in range(len(self.words)) if self._is_certain(i)}
        likely: set[int] = set()
        has_verb = False
        for index, word in enumerate(self.words):
            if "," in self.gap(index) or word.lower in _JOINING or word.lower in RELATIVE or word.lower in SUBORDINATE:
                has_verb = False
            has_any = has_verb or bool(likely) or any(i < index for i in certain)
            if index not in certain and self._is_likely(index, has_any):
                # A plural looks like a verb in the third person: "are allowed in the language papers".
                is_listed = bool(certain) and min(certain) < index and self._is_listed(index)
                after_comma = "," in self.gap(index) and not self._opens_object(index + 1)
                may_be_plural = word.lower.endswith("s") and (has_verb or not index or after_comma or is_listed)
                likely |= set() if may_be_plural else {index}
            has_verb = has_verb or index in certain or index in likely
        if 0 in certain and len(self.words) > 1 and self.words[1].kind == "name":  # "United Airlines is"
            following = min(certain - {0}, default=0)
            certain -= {0} if following and not any("," in self.gap(i) for i in range(1, following + 1)) else set()
        if not certain and not likely:
            possible = [i for i in range(1, len(self.words) - 1) if self._may_be_base_form(i)]
            return frozenset([*filter(self._governs, possible), *possible][:1])
        # "Interest rates rose": where another verb follows at once, a word in -s is a noun.
        return frozenset(certain | {i for i in likely if not (self.words[i].lower.endswith("s") and i + 1 in certain)})

    def _is_listed(self, index: int) -> bool:
        """Whether a word ends a short phrase of nouns: "trade names, service marks, or", "except for paid accounts"."""
        is_last = index + 1 == len(self.words)
        if not is_last and "," not in self.gap(index + 1) and self.words[index + 1].lower not in ("and", "or", "of"):
            return False
        for start in range(index - 1, max(index - 4, -1), -1):
            if not self.words[start].is_fact:
                return self.words[start].lower in PREPOSITIONS
            if "," in self.gap(start) or (start and self.words[start - 1].lower in ("and", "or")):
                return True
        return False

    def _before(self, index: int) -> str:
        previous = self.words[index - 1] if index else None
        return previous.lower if previous is not None and previous.kind in ("function", "word") else ""

    def _can_be_verb(self, index: int) -> bool:
        word = self.words[index]
        if word.kind not in ("word", "function") or word.lower in FUNCTION or not is_verb_form(word.lower):
            return False
        before = self._before(index)
        if word.lower.endswith("s") and bases(before, 2) and not bases(before, 0):
            return False  # "in the same fields"
        is_relative = before == "that" and index > 1 and self.words[index - 2].is_fact  # "a series that ran"
        return is_relative or not (before in DETERMINERS or before in PREPOSITIONS)

    def _is_certain(self, index: int) -> bool:
        word = self.words[index]
        if word.kind == "function" and (word.lower in AUXILIARIES or word.lower.endswith("n't")):
            return True
        is_past = word.lower.endswith("ed") or (
            word.lower not in bases(word.lower, 1) and not word.lower.endswith(("s", "ing"))
        )
        if self._before(index) in _MODAL and word.lower in bases(word.lower, 1):
            return self._can_be_verb(index)
        if word.lower in _UNCHANGED:
            near_by = [other.lower for other in self.words[max(index - 2, 0) : index + 2]]
            is_past = near_by[-1] == "by" or not AUXILIARIES.isdisjoint(near_by[:-1])
            is_past |= self.words[index - 1].kind == "name" and any(w.lower in AUXILIARIES for w in self.words[:index])
        return is_past and self._can_be_verb(index) and not self._is_attribute(index)

    def _is_attribute(self, index: int) -> bool:
        """Whether a participle is part of a phrase of nouns: "is an American animated series", not "is a film directed by"."""
        following = self.words[index + 1] if index + 1 < len(self.words) else None
        if (
            following is None
            or following.kind != "word"
            or following.lower.endswith("ly")
            or self.gap(index + 1) != " "
        ):
            return False
        start = self._phrase_start(index)
        is_phrase = start < index - 1 and self.words[start].lower in DETERMINERS
        return is_phrase and start > 0 and self.words[start - 1].lower in _BE

    def _phrase_start(self, index: int) -> int:
        start = index - 1
        while start > 0 and self.words[start].is_fact and self.gap(start) == " ":
            start -= 1
        return start

    def _is_likely(self, index: int, has_verb: bool) -> bool:
        if not self._can_be_verb(index):
            return False
        lower, before = self.words[index].lower, self._before(index)
        is_last = index + 1 == len(self.words)
        ends_list = is_last or re.search(r"[,.;:!?)]", self.gap(index + 1)) is not None
        if before in ("and", "or") and lower.endswith("s") and ends_list:
            return False  # "plants and beetles"
        opens_object = self._opens_object(index + 1)
        if opens_object and before in ("and", "or", "but"):
            return has_verb
        is_base = lower in bases(lower, 1)
        if opens_object and is_base and (not index or self.words[index - 1].kind == "amount"):
            return True  # "Brush the loaf"
        start = self._phrase_start(index)
        in_phrase = start >= 0 and self.words[start].lower in ("a", "an")  # "a Canadian sports film"
        is_plural = before.endswith(("s", "ly")) and not before.endswith(("us", "ss")) and not in_phrase
        follows_plural = is_plural and "," not in self.gap(index)
        return lower.endswith("s") or before in _BEFORE_VERB or follows_plural

    def _opens_object(self, index: int) -> bool:
        word = self.words[index] if index < len(self.words) else None
        return word is not None and (
            word.lower in DETERMINERS | OF_BOUNDS | {"it", "them", "up"} or word.kind == "amount"
        )

    def _may_be_base_form(self, index: int) -> bool:
        """Whether a word can be the only verb: "Norway beat Denmark"."""
        word, before = self.words[index], self.words[index - 1]
        follows_noun = before.is_fact and before.kind not in ("amount", "rank")
        return word.kind == "word" and bool(bases(word.lower, 1)) and follows_noun

    def _governs(self, index: int) -> bool:
        """Whether the word after a verb can follow it: of "the north gate and the south gate close at dusk" only "close"."""
        following = self.words[index + 1]
        return following.kind not in ("word", "function") or following.lower in PREPOSITIONS | DETERMINERS

    # Cuts

    def groups(self) -> list[tuple[list[int], str]]:
        """Return the numbers of each clause's words, and what opens it: "main", "relative" or "verb"."""
        groups: list[tuple[list[int], str]] = []
        current: list[int] = []
        opener = ""
        for index in range(len(self.words)):
            cut = self._cut(index, current) if current else ""
            if cut:
                groups.append((current, opener))
                current, opener = [], cut
            current.append(index)
        return [*groups, (current, opener)]

    def _cut(self, index: int, current: Sequence[int]) -> str:
        """Return what opens a new clause at a word: "verb" for a further verb of the same subject; "" for nothing."""
        if re.search(r"[;:—–]|--| - |[.!?] ", self.gap(index)):
            return "main"
        has_verb = any(i in self.verbs for i in current)
        ahead = self._verb_ahead(index)
        if ahead is None:
            return ""
        if self._resumes(index, current):
            return "resumed"
        if has_verb and self._opens_bare_relative(index):
            return "relative"
        is_adverb = self.words[index].lower.endswith("ly") or self.words[index].lower in _ADVERBS
        participle = index + (is_adverb and index + 1 == ahead)  # "formerly managed by"
        return (
            self._relative(index, has_verb)
            or (has_verb and self._further(index, ahead, current))
            or self._participle(index, participle, current, has_verb=has_verb)
            or self._subordinate(index, ahead, has_verb, current)
            or ""
        )

    def _verb_ahead(self, index: int) -> int | None:
        for i in range(index, min(index + _WITHIN, len(self.words))):
            if i > index and re.search(r"[,;:—–]", self.gap(i)):
                return None
            if i in self.verbs:
                return i
        return None

    def _resumes(self, index: int, current: Sequence[int]) -> bool:
        """Whether a verb goes on after a relative clause about its subject: "growers who rotate wheat use less"."""
        first = current[0]
        opening = [i for i in current[:2] if i in self.verbs and self.words[i].lower not in AUXILIARIES]
        is_reduced = bool(opening) and "," in self.gap(first)
        opens = self.words[first].lower in ("who", "that", "which", "whose") or is_reduced
        if index not in self.verbs or index == first or not opens or not first:
            return False
        if "," in self.gap(first):  # ", who is 19, had"
            return any("," in self.gap(i) for i in range(max(first + 1, index - 1), index + 1))
        has_subject_alone = not any(i in self.verbs for i in range(first))
        verbs = [i for i in current if i in self.verbs]
        is_participle = self.words[index].lower.endswith(("ed", "en", "ing"))
        last = verbs[-1] if verbs else index
        goes_on = self.words[last].lower in AUXILIARIES and (index - last < 2 or is_participle)
        joins = self._before(index) in ("and", "or", "to", "not")
        return has_subject_alone and last < index and not goes_on and not joins

    def _relative(self, index: int, has_verb: bool) -> str:
        lower = self.words[index].lower
        picks = index > 0 and self.words[index - 1].is_fact and index + 1 in self.verbs  # "the dog that bit the boy"
        picks = picks and self.words[index + 1].lower not in AUXILIARIES
        if lower not in RELATIVE or (
            lower == "that" and not picks and (not has_verb or self._before(index) in _SPEECH)
        ):
            return ""
        return "relative" if has_verb or picks or "," in self.gap(index) or lower in ("who", "which", "whose") else ""

    def _further(self, index: int, ahead: int, current: Sequence[int]) -> str:
        """Return what a conjunction opens that a verb follows."""
        lower, comma = self.words[index].lower, "," in self.gap(index)
        starts = self.words[index].kind == "name" or lower in DETERMINERS  # ", the old one has been closed"
        starts = starts and self.words[current[0]].lower not in PREPOSITIONS | SUBORDINATE and ahead - index <= _SUBJECT
        has_phrase = any(word.lower in PREPOSITIONS for word in self.words[index:ahead])
        begins = starts or (self.words[index].kind == "word" and lower.endswith("s"))
        is_fronted = begins and self._is_participle(current[0])  # "Born in Rome, Ann Lee left"
        is_spliced = starts and self.words[ahead].lower in AUXILIARIES and not has_phrase
        if comma and (lower in _NEW_SUBJECT or is_spliced or is_fronted):
            return "main"
        is_relative = any(word.lower in RELATIVE for word in self.words[index + 1 : ahead])  # "and American artist who"
        if is_relative or (lower not in _JOINING and not (lower == "so" and comma)):
            return ""
        if ahead == index + 1 or (ahead == index + 2 and self.words[index + 1].lower in _AFTER_AND):
            return "verb"
        has_phrase = any(word.lower in PREPOSITIONS for word in self.words[index + 1 : ahead])
        return "main" if not has_phrase or comma or lower in ("while", "whereas", "but") else ""

    def _opens_bare_relative(self, index: int) -> bool:
        """Whether a name after a noun is the subject of the next verb: "a player Ann Lee beat"."""
        previous, last = self.words[index - 1], index
        while last < len(self.words) and self.words[last].kind == "name" and (last == index or self.gap(last) == " "):
            last += 1
        is_participle = last in self.verbs and "by" in [word.lower for word in self.words[last + 1 : last + 2]]
        is_participle |= last in self.verbs and self.words[last].lower.endswith(("en", "wn", "rn"))
        return (
            last > index
            and last in self.verbs
            and not is_participle
            and previous.kind == "word"
            and index - 1 not in self.verbs
            and self.gap(index) == " "
        )

    def _is_participle(self, index: int) -> bool:
        lower = self.words[index].lower
        return index in self.verbs and lower.endswith(("ed", "en", "ing", "t", "n")) and lower not in AUXILIARIES

    def _participle(self, index: int, participle: int, current: Sequence[int], *, has_verb: bool) -> str:
        """Return what a participle opens: "is a film directed by …", ", portrayed by …"."""
        previous = self.words[index - 1]
        if not self._is_participle(participle):
            return ""
        if "," in self.gap(index) and has_verb:
            return "verb"
        if not has_verb:  # "the bridge, built by Rossi in 1890, collapsed"
            ahead = next((i for i in range(participle + 1, len(self.words)) if "," in self.gap(i)), None)
            return "relative" if "," in self.gap(index) and ahead in self.verbs else ""
        classes = any(
            self.words[i].lower in _BE and i + 1 < len(self.words) and self.words[i + 1].lower in DETERMINERS
            for i in current
        )
        return "relative" if classes and previous.is_fact else ""

    def _subordinate(self, index: int, ahead: int, has_verb: bool, current: Sequence[int]) -> str:
        lower = self.words[index].lower
        if lower in SUBORDINATE and lower not in _OF_TIME and lower != "that":
            return "main"
        has_words = 1 < ahead - index <= 6 and not any(word.value for word in self.words[index + 1 : ahead])
        if lower in _OF_TIME and has_verb and has_words:
            return "main"
        follows_clause = "," in self.gap(index) and has_verb and self.words[current[0]].lower in SUBORDINATE
        return "main" if follows_clause else ""

    # Roles

    def clause(self, members: Sequence[int]) -> Clause:
        """Return the clause of some words of the sentence."""
        main = [index for index in members if index in self.verbs]
        lexical = [index for index in main if self.words[index].lower not in AUXILIARIES]
        lowers = [self.words[index].lower for index in members]
        span = self.text[self.words[members[0]].start : self.words[members[-1]].end] if members else ""
        return Clause(
            words=tuple(self._facts(members, main, lexical)),
            function=frozenset(self.words[i].lower for i in members if self.words[i].kind == "function"),
            negations=count_negations(lowers, span),
            is_passive=self._is_passive(main, lexical),
            is_copular=bool(main) and not lexical and not COPULAS.isdisjoint(lowers),
            tense=tense_of(lowers, self.words[lexical[0]].lower if lexical else "", span),
            tokens=tuple(self.words[i] for i in members),
        )

    def _facts(self, members: Sequence[int], main: Sequence[int], lexical: Sequence[int]) -> list[Word]:
        facts: list[Word] = []
        preposition = compared = ""
        for index in members:
            word = self.words[index]
            if self._ends_phrase(index, members, main):
                preposition = ""
            is_first = word.lower in _OF_TIME and index == members[0] and bool(main)
            first_fact = next((self.words[i] for i in members if i > index and self.words[i].is_fact), word)
            opens_value = bool(first_fact.value)  # "Since 2021 cars are banned"
            if is_first and not opens_value and not any("," in self.gap(i) for i in range(index + 1, main[0] + 1)):
                continue  # no "After the storm, the school was closed"
            if word.kind == "function" and word.lower in PREPOSITIONS:
                following = self.words[index + 1] if index + 1 in members else None
                governs = following is not None and not re.search(r"[,.;:]", self.gap(index + 1))
                if following is not None and following.bound and word.lower in OF_BOUNDS:
                    continue
                if governs:
                    preposition = "than" if self._compares(index, members) else word.lower
                elif word.lower in ("in", "on", "over"):  # "moved in"
                    facts.append(replace(word, kind="word", lemmas=frozenset({word.lower}), role="verb"))
                if word.lower == "than" and not (following is not None and following.bound):
                    compared = "than"  # to the end: "than those born in autumn"
            elif word.is_fact:
                role = compared or self._role(index, preposition, main, lexical, members)
                facts.append(replace(word, role=role, preposition=compared or preposition))
        return facts

    def _compares(self, index: int, members: Sequence[int]) -> bool:
        """Whether a preposition begins what something is compared with: "than in", "as much as in"."""
        lowers = [self.words[i].lower for i in range(max(members[0], index - 4), index + 1)]
        return "than" in lowers[-2:] or ("as" in lowers[-2:] and lowers.count("as") > 1)

    def _ends_phrase(self, index: int, members: Sequence[int], main: Sequence[int]) -> bool:
        """Whether what a preposition governs ends before a word."""
        if index in self.verbs or ("," in self.gap(index) and main and index < main[-1]):
            return True
        follows_value = index - 1 in members and self.words[index - 1].kind in ("date", "time", "year", "decade")
        return follows_value and self.words[index].lower not in ("and", "or")

    def _role(
        self, index: int, preposition: str, main: Sequence[int], lexical: Sequence[int], members: Sequence[int]
    ) -> str:
        word = self.words[index]
        if self.text[word.end - 2 : word.end] in ("'s", "’s"):
            return "possessive"
        if preposition:
            return str(PREPOSITION_CLASS.get(preposition, "in"))
        if index in lexical:
            return "verb"
        if main and index > main[0]:
            return "object"
        subject = [i for i in members if not main or i < main[0]]
        is_named = bool(main) and all(self.words[i].kind == "name" for i in subject)
        is_place = is_named and any("," in self.gap(i) for i in subject[1:] if i <= index)  # "Oslo, Norway, is a city"
        return "in" if is_place else "subject"

    def _is_passive(self, main: Sequence[int], lexical: Sequence[int]) -> bool:
        if len(main) == len(lexical) == 1 and self.words[main[0]].lower in DEONTIC:  # "Parking allowed."
            return True
        return any(
            self.words[a].lower in _BE and a < b <= a + 3 and not self.words[b].lower.endswith("ing")
            for a in main
            for b in lexical
        )
