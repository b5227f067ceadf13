"""Whether a word of a text says what a word of a claim says, and whether it plays the same part in its clause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile

from factgym.check.clauses import clauses_of
from factgym.check.words import DEMONYMS, DETERMINERS, TABLES, Clause, Word, near, opposites, word_set
from factgym.text.wordnet import bases

_ERGATIVE, _MEASURES = word_set("ergative"), word_set("measure")
_GROUPS, _ATTRIBUTES, _CLASSES = word_set("group"), word_set("attribute"), word_set("class")
_PORTIONS, _PERSONS = word_set("portion"), word_set("person")
_CHANGES = ({"from", "to"}, {"by", "to"}, {"by", "from"})
"""Of amounts: "rose by 5" is not "rose to 5"."""
_PARTICLES = frozenset({"up", "off", "out", "away", "down", "back"})
_PLACES = frozenset({"in", "at", "on", "inside", "within"})
_STRICT = frozenset(TABLES["prepositions"])
_OF_TIMES = frozenset({"before", "after", "until", "from", "to", "except", "without", "outside"})
_NEAR_THEMES = frozenset({"agent", "patient", "in", "possessive", "verb", "with"})
_OF_ACTIONS = frozenset({"with", "to", "from", "by", "above", "below"})
_APART = re.compile(r"\b(?:and|or|but)\b|[,;]")
_SAME, _ROUNDED, _NEARLY = 1e-6, 0.006, 0.06
"""Relative differences up to which amounts are equal: plain ones, bounds, and those that are about so much."""


def matches(fact: Word, word: Word) -> bool:
    """Whether a word of the text says what a word of the claim says."""
    if fact.value or word.value:
        return _same_value(fact, word)
    if fact.lemmas & word.lemmas:
        is_adjective = fact.lower in DEMONYMS or word.lower not in DEMONYMS or fact.preposition in ("of", "from")
        return is_adjective or fact.lower == word.lower
    if fact.kind == "name" or word.kind == "name":
        return fact.lower.rstrip("s'") == word.lower.rstrip("s'")
    return not near(fact.lower).isdisjoint(word.lemmas) and word.lower not in opposites(fact.lower)


def _same_value(fact: Word, word: Word) -> bool:
    if not fact.value or not word.value:
        return False
    if fact.kind == "decade":
        return _in_one_decade(fact, word) is True
    if fact.kind == "year" and word.kind == "date":
        return bool(fact.value[0] == word.value[0])
    if fact.kind == word.kind == "date":
        pairs = list(zip(fact.value, word.value, strict=False))
        return len(fact.value) == len(word.value) and all(a is None or a == b for a, b in pairs)
    if {fact.kind, word.kind} <= {"amount", "year"}:
        (dimension, amount), (other_dimension, other) = _amount(fact), _amount(word)
        return dimension == other_dimension and _agrees(amount, fact.bound, other, word.bound)
    if fact.kind == word.kind == "time":
        return not set(fact.value).isdisjoint(word.value)
    return fact.kind == word.kind and fact.value == word.value


def _in_one_decade(first: Word, second: Word) -> bool | None:
    """Whether two years, dates or decades are of one decade; None where that is not known."""
    years = [word.value if word.kind == "decade" else (word.value[0] or 0) for word in (first, second)]
    if not {first.kind, second.kind} <= {"decade", "year", "date"} or 0 in years:
        return None
    (century, tens), (other, other_tens) = ((y // 100, y // 10 % 10) if isinstance(y, int) else y for y in years)
    return bool(tens == other_tens and (century == other or None in (century, other)))


def _amount(word: Word) -> tuple[str, float]:
    return (word.value[0], word.value[1]) if word.kind == "amount" else ("", float(word.value[0]))


def _agrees(claimed: float, claimed_bound: str, written: float, written_bound: str) -> bool:
    """Whether a text says so of an amount. A bound agrees with an equal one, and with a plain amount within it."""
    difference = abs(claimed - written) / (abs(written) or 1.0)
    if claimed_bound == "about":
        return difference <= _NEARLY and written_bound in ("", "about")
    if claimed_bound == written_bound:
        return difference <= (_ROUNDED if claimed_bound else _SAME)
    if written_bound or not claimed_bound:
        return False
    is_within = written > claimed if claimed_bound in ("more", "least") else written < claimed
    return is_within or (claimed_bound in ("least", "most") and difference <= _ROUNDED)


def excludes(fact: Word, word: Word) -> bool:
    """Whether one word rules the other out: values of one dimension, opposites."""
    if not fact.value and not word.value:
        return bool(opposites(fact.lower) & (word.lemmas | {word.lower}))
    if not fact.value or not word.value:
        return False
    kinds = {fact.kind, word.kind}
    if "decade" in kinds:
        return _in_one_decade(fact, word) is False
    dimensions = {str(value.value[0]) for value in (fact, word) if value.kind == "amount"}
    return (len(kinds) == 1 or kinds == {"year", "date"}) and (len(dimensions) < 2 or dimensions == {"time", "months"})


def plays(word: Word, clause: Clause) -> str:
    """Return the part of a word, with the voice of its clause: agent, patient, theme, verb, or a class of prepositions."""
    if word.role == "subject":
        return "theme" if clause.is_copular else "patient" if clause.is_passive else "agent"
    if word.role == "object":
        return "theme" if clause.is_copular else "patient"
    return "agent" if word.role == "by" and clause.is_passive else word.role


def _may_change(word: Word, clause: Clause, other: str, other_clause: Clause) -> bool | None:
    """Whether the subject of a verb without an object, "the library opened", can play another part; None elsewhere."""
    if word.role != "subject" or plays(word, clause) != "agent" or _has_object(clause):
        return None
    if _ERGATIVE.isdisjoint(lemma for word in clause.words if word.role == "verb" for lemma in word.lemmas):
        return None
    return True if other == "patient" else False if other == "agent" and _has_object(other_clause) else None


def _has_object(clause: Clause) -> bool:
    return any(word.role == "object" and not word.value for word in clause.words)


def same_role(fact: Word, claim: Clause, word: Word, clause: Clause) -> bool:
    """Whether two words play the same part in their clauses, as far as that can be told."""
    if word.role == "row":
        return True
    if fact.value:
        pair = {fact.role, word.role}
        if fact.kind == "amount":
            is_single = sum(other.kind == "amount" for other in claim.words) == 1
            is_range = word.preposition == "between" != fact.preposition and is_single
            return pair not in _CHANGES and not pair & {"except", "without"} and not is_range
        return len(pair) == 1 or not pair & _OF_TIMES
    if word.role == "whose":
        return fact.role in ("whose", "possessive") or fact.preposition == "of"
    if fact.role == "verb" and word.role == "object" and clause.is_copular and not claim.is_passive:
        return False  # "Acme listed a company": "Acme is a listed company"
    if fact.role == "verb" and _particle(fact, claim) != _particle(word, clause):
        return False  # "Ann gave up the title": "Ann gave the title"
    if claim.is_copular and clause.is_copular and word.role == "to" and fact.preposition in _PLACES:
        return False  # "the shop is next to the bank"
    if word.preposition == "as" == clause.opener and claim.is_copular:
        return False  # "As a child, Ann lived in Rome"
    free = fact.lower.endswith("ly") or fact.lower in DEMONYMS or word.lower in DEMONYMS
    first, second = plays(fact, claim), plays(word, clause)
    changes = [_may_change(fact, claim, second, clause), _may_change(word, clause, first, claim)]
    return free or (
        all(change is not False for change in changes) and (True in changes or _may_play(fact, first, second))
    )


def drops_head(fact: Word, claim: Clause, word: Word, clause: Clause) -> bool:
    """Whether the claim says of a word what the text says of another one, which the word only describes.

    "The wife of the mayor left", "the mayor's wife left" or "the school bus crashed" say nothing of mayor or school.
    """
    if fact.value or word.value or fact.role == "verb" or word.role in ("row", "whose"):
        return False
    facts, line = (sorted((*c.inherited, *c.words), key=lambda word: word.start) for c in (claim, clause))
    if any(other.start == fact.end + 1 and other.role == fact.role for other in facts):
        return False  # it describes another one in the claim, too
    following = next((other for other in line if other.start == word.end + 1), None)
    if following and _is_dropped(following, facts) and _is_thing(fact, claim) and _is_noun(following, word):
        return following.lower not in _CLASSES or not (clause.is_copular or word.kind == "name")
    if word.preposition in ("", "as") or (word.preposition == fact.preposition != "of"):
        return False
    tokens = [token for token in clause.tokens if token.start <= word.start]
    opening = next((n for n, t in reversed([*enumerate(tokens)]) if t.lower == word.preposition), None)
    if opening is None:  # of a clause before
        heads = [other for other in line if other.start < word.start and other.preposition != word.preposition]
        is_nearest = clause.opener == "which" and not any(o.start > word.end for o in clause.inherited)
        may_describe = bool(heads) and (word.preposition == "of" or not fact.preposition) and not is_nearest
        return may_describe and _is_dropped(heads[-1], facts)
    if any(second.start > first.end + 1 for first, second in pairwise(tokens[opening:])):
        return False
    if word.preposition != "of" and fact.preposition:
        return False
    before = tokens[opening - 1] if opening else None
    if before is None or before.end + 1 < tokens[opening].start:
        return fact.role == "subject" != word.role and not any(w.start < tokens[opening].start for w in line)
    if word.preposition == "of" and (is_amount(before) or before.lower in _PORTIONS):
        is_one = before.lower == "one" and not fact.lower.endswith("s")  # "one of the players"
        return not is_one and not any(matches(token, before) or token.lower == before.lower for token in claim.tokens)
    head = next((other for other in line if other.start == before.start), None)
    is_part = word.preposition == "of" and before.lower in (_GROUPS | _ATTRIBUTES if clause.is_copular else _GROUPS)
    return head is not None and _is_dropped(head, facts) and not is_part


def _is_dropped(head: Word, facts: Sequence[Word]) -> bool:
    stems = {lemma.rstrip("e") for fact in facts if fact.role == "verb" for lemma in fact.lemmas}
    is_act = any(len(stem) > 3 and head.lower.startswith(stem) for stem in stems)  # "the director" of who directs
    is_said = any(fact.lemmas & head.lemmas or (fact.role != "verb" and matches(fact, head)) for fact in facts)
    return not (head.value or head.role == "verb" or is_act or is_said)


def is_amount(word: Word) -> bool:
    """Whether a word is a bare number."""
    return word.kind == "amount" and not word.value[0]


def _particle(verb: Word, clause: Clause) -> str:
    following = [token.lower for token in clause.tokens if token.start > verb.end][:2]
    is_particle = verb.role == "verb" and bool(following) and following[0] in _PARTICLES and following[1:] != ["to"]
    return following[0] if is_particle else ""


def _is_thing(fact: Word, claim: Clause) -> bool:
    """Whether a word is a noun: after "is" one with an article, or a plural."""
    if not claim.is_copular or fact.role != "object":
        return True
    before = [token for token in claim.tokens if token.start < fact.start]
    while before and before[-1].is_fact:
        before.pop()
    is_noun = bool(bases(fact.lower, 0)) and not bases(fact.lower, 2)
    return is_noun and ((bool(before) and before[-1].lower in DETERMINERS) or fact.lower.endswith("s"))


def _is_noun(word: Word, before: Word) -> bool:
    is_noun = word.kind == "word" and len(word.lower) > 2 and bool(bases(word.lower, 0)) and not bases(word.lower, 3)
    return is_noun or before.role == "possessive"


def _may_play(fact: Word, first: str, second: str) -> bool:
    pair, is_name = {first, second}, fact.kind == "name"
    if len(pair) == 1 or not second:
        return True
    if "theme" in pair:
        other = (pair - {"theme"}).pop()
        return other in _NEAR_THEMES and not (is_name and other in ("in", "possessive"))
    if pair == {"agent", "patient"} or (is_name and pair == {"agent", "in"}):
        return False
    if not is_name and pair <= {"by", "with", "in", "verb"}:
        return True
    strict = pair & _STRICT
    if strict and pair != {"to", "patient"}:
        return not is_name and strict <= _OF_ACTIONS and bool(pair & {"verb", "in"})
    return True


def same_count(
    fact: Word, facts: Sequence[Word], word: Word, available: Sequence[Word], *, is_rival: bool = False
) -> bool:
    """Whether a bare number counts the same thing in both, and one with a unit is of the same measure: "12 metres long".

    is_rival: whether the text's number can rule out the claim's: where the claim names no thing, only a single one can.
    """
    if fact.kind != "amount" or word.kind != "amount":
        return True
    if fact.value[0]:
        claimed, written = _measure(fact, facts), _measure(word, available)
        return claimed is None or written is None or matches(claimed, written)
    counted = next((other for other in facts if 0 < other.start - fact.end <= 12 and _is_counted(other)), None)
    near_by = [other for other in available if 0 < other.start - word.end <= 25]
    others = [other for other in takewhile(lambda other: other.role != "verb", near_by) if _is_counted(other)][:2]
    if counted is None and is_rival:
        return sum(other.kind == "amount" and not other.value[0] for other in available) < 2
    return counted is None or not others or any(matches(counted, other) for other in others)


def _measure(amount: Word, words: Sequence[Word]) -> Word | None:
    return next((word for word in words if word.start == amount.end + 1 and word.lower in _MEASURES), None)


def _is_counted(word: Word) -> bool:
    return not word.value and word.role != "verb"


def is_taken(fact: Word, word: Word, facts: Sequence[Word], available: Sequence[Word]) -> bool:
    """Whether another value is where the claim has this one: "costs 5 euros", "5 euros of tax"; or in another cell."""
    if not fact.value:
        return False
    rivals = [other for other in available if other is not word and other.kind == word.kind]
    if word.kind == "amount":
        rivals = [other for other in rivals if other.value[0] == word.value[0]]
    if word.role == "row":
        # Of several amounts in a row the one under the header that the claim names.
        elsewhere = [other for other in rivals if other.preposition != word.preposition]
        cell = [other for other in available if other.preposition == word.preposition and not other.value]
        if any(matches(other, header) for other in facts for header in cell):
            return False
        return bool(elsewhere) or _names_other_cell(word, facts, available)
    if fact.kind != "amount" or fact.preposition == word.preposition:
        return False
    return any(other.preposition == fact.preposition for other in rivals)


def _names_other_cell(word: Word, facts: Sequence[Word], available: Sequence[Word]) -> bool:
    """Whether a claim names the header of a cell without a value, and not that of a value's cell."""
    cells: dict[str, list[Word]] = {}
    for other in available:
        cells.setdefault(other.preposition, []).append(other)
    others = [cell for name, cell in cells.items() if name not in ("0", word.preposition)]
    return any(all(any(matches(fact, header) for fact in facts) for header in cell) for cell in others)


def are_apart(source: str, first: Word, second: Word) -> bool:
    """Whether a conjunction or a comma is between two words of a text that a claim puts next to each other."""
    first, second = sorted((first, second), key=lambda word: word.start)
    between = source[first.end : second.start]
    return _APART.search(between) is not None and between != ", "


def antecedents(text: str, pronoun: str) -> list[Word]:
    """Return the words of the sentence before for which a pronoun may stand; none where it may stand for several things."""
    if pronoun in ("they", "them", "their"):
        return [
            word for clause in clauses_of(text) for word in clause.words if word.role in ("subject", "object", "by")
        ]
    is_person = pronoun in ("he", "she", "him", "her", "his")
    roles = {"subject", "object", "by", "to"} if is_person else {"subject", "object"}
    runs: list[list[Word]] = []
    determined: set[int] = set()
    for clause in clauses_of(text):
        determined |= {token.end + 1 for token in clause.tokens if token.lower in DETERMINERS}
        parts = roles - {"object"} if clause.is_copular else roles
        for word in () if clause.relative else clause.words:
            if word.role in parts and not word.value:
                if not runs or word.start != runs[-1][-1].end + 1:
                    runs.append([])
                runs[-1].append(word)
    candidates: dict[str, list[Word]] = {}
    for run in runs:
        head, is_named = run[-1].lower, run[-1].kind == "name"
        is_subject = run[0].role == "subject" and (run is runs[0] or run[0].start in determined)
        if run[-1].kind == "word" and head.endswith("s") and bases(head, 0) - {head}:
            continue  # a plural
        can_be_person = head in _PERSONS or (is_named and (is_subject or len(run) > 1))
        if can_be_person if is_person else is_subject or is_named:
            candidates.setdefault(head, run)
    return next(iter(candidates.values())) if len(candidates) == 1 else []
