"""Triplets from English declaratives by rules: no model, no download, the same answer every time.

    The Philadelphia Flyers, a team based in Philadelphia, won the Stanley Cup in 1975.
    -> (Philadelphia Flyers, won, Stanley Cup), (Philadelphia Flyers, in, 1975),
       (Philadelphia Flyers, team based in, Philadelphia)

A sentence is cut into units (names, dates, numbers, verbs, the rest), its subject and main verb are found past
introductions and appositions, and every name, date or number after the verb makes a triplet with the subject, in order
of place. Appositions and possessives ("X's father, Y, …") make triplets of their own. Questions and fragments without
a verb make none, nor do sentences whose subject is missing; a pronoun as subject stays one, and makes its triplets
invalid.

Held against the paper's traced completions (B.6) it finds the same pairs, but for two habits of the published model
that a rule cannot have: it shortens names ("1989 Championship" for "1989 NCAA Men's Division I Basketball
Championship"), and in "Ella Fitzgerald's mother was Temperance … Height Fitzgerald" it picks one word of the name.

The time is linear in the length of the sentence, of which the first 2,000 characters are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from factgym.rewards.corver.fast_rules import Engine, check_engine, compiled_rules, first_triplets
from factgym.rewards.corver.lexicon import (
    ADV,
    AUX,
    BE,
    COMMA,
    CONJ,
    DATE,
    DET,
    ENT,
    GERUND,
    NOUN,
    NUM,
    POSSESSIVES,
    PREP,
    PRON,
    STOP,
    SUB,
    VERB,
    WH,
)
from factgym.rewards.corver.triplets import Triplet
from factgym.rewards.corver.units import Unit, units_of, words_of

VERSION = 1
"""Of the rules: a change of what they find raises it."""

_MAX_CHARS = 2_000
_MAX_TRIPLETS = 8


class RuleExtractor:
    """Finds triplets by rules. Without state, so it may be shared and copied at will.

    engine: of `extract_first` over many sentences. "auto" compiles in the background (extra "counting") while Python
    reads, "numba" waits for it, "python" does without; all find the same. Raises ConfigError for another.
    """

    def __init__(self, engine: Engine = "auto") -> None:
        check_engine(engine)
        self.engine = engine

    def extract(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        """The triplets of each sentence, in order of place."""
        return [_extract(one, False) for one in sentences]

    def extract_first(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        """The first valid triplet of each sentence, or nothing: `extract` has the others."""
        compiled = compiled_rules(self.engine, len(sentences))
        if compiled is None:
            return list(map(_first, sentences))
        found = zip(first_triplets(compiled, sentences), sentences, strict=True)
        return [_first(sentence) if known is None else known for known, sentence in found]

    def describe(self) -> dict[str, Any]:
        """Name and version of the rules."""
        return {"extractor": "rule", "version": VERSION}


def _first(sentence: str) -> list[Triplet]:
    return [one for one in _extract(sentence, True) if one.valid]


def _extract(sentence: str, first: bool) -> list[Triplet]:
    if sentence.endswith("?"):
        return []
    words = words_of(sentence[:_MAX_CHARS])
    if len(words) < 3:
        return []
    clause = _Clause(words, units_of(words), first)
    clause.read()
    return clause.found


_SUBJECT = frozenset((ENT, NOUN, PRON, NUM, DATE))
_ENTITY = frozenset((ENT, DATE))
_FINITE = frozenset((VERB, BE, AUX))
_UNSAID = frozenset((DET, COMMA, NUM, CONJ))
_ARTICLES = frozenset(("the", "a", "an"))
_NO_PRESENT = frozenset(("ss", "us", "is", "as", "os"))


class _Clause:
    """Reads a sentence's units from left to right."""

    def __init__(self, words: Sequence[str], units: Sequence[Unit], first: bool) -> None:
        self.words, self.units, self.first = words, units, first
        self.kinds = [unit[0] for unit in units]
        self.found: list[Triplet] = []
        self.done = False

    def read(self) -> None:
        """Find the triplets."""
        start = self._skip_introduction()
        verb = self._main_verb(start)
        if verb is None:
            verb = self._present_verb(start)
        if verb is None:
            return
        subject_end = self._subject_end(start, verb)
        heads = self._heads(start, subject_end, verb)
        if heads is None:
            return
        head, role = heads
        if not self.done:
            self._predicate(head, role, verb)
        if subject_end < verb and not self.done:
            self._appositions(head, subject_end, verb)

    def _add(self, head: str, relation: str, tail: str) -> None:
        triplet = Triplet(head, relation, tail)
        self.found.append(triplet)
        self.done = len(self.found) >= _MAX_TRIPLETS or (self.first and triplet.valid)

    # Finding the main clause

    def _skip_introduction(self) -> int:
        """Past "However,", "In 1975," and the like."""
        kinds, size = self.kinds, len(self.kinds)
        i = 0
        while i < size and kinds[i] in (ADV, CONJ, COMMA, SUB):
            i += 1
        if i < size and kinds[i] == PREP:
            comma = self._next(COMMA, i)
            if comma is not None and comma + 1 < size and self._verb_in(comma + 1, size) is not None:
                return comma + 1
        return i

    def _next(self, kind: int, i: int) -> int | None:
        try:
            return self.kinds.index(kind, i)
        except ValueError:
            return None

    def _verb_in(self, start: int, end: int) -> int | None:
        """The first finite verb with something nominal before it, or at the very start."""
        kinds = self.kinds
        for i in range(start, end):
            kind = kinds[i]
            if kind not in _FINITE:
                continue
            if i == start or kind != VERB or kinds[i - 1] not in (DET, PREP, NUM, CONJ):
                return i
        return None

    def _main_verb(self, start: int) -> int | None:
        """The verb of the main clause: appositions between commas are passed over when another verb follows them."""
        kinds, size = self.kinds, len(self.kinds)
        verb = fallback = None
        begin = start
        while begin < size:
            end = self._next(COMMA, begin)
            end = size if end is None else end
            verb = self._verb_in(begin, end)
            if verb is not None and verb == start:
                verb = self._verb_in(verb + 1, end)
            if verb is not None:
                if begin == start or (verb == begin and kinds[verb] != VERB):
                    return verb
                if verb == begin or kinds[begin] in (DET, WH, PREP, ADV):
                    fallback = verb if fallback is None else fallback
                    if verb == begin and self._verb_after_commas(end) is None:
                        return verb
                else:
                    return verb if fallback is None or verb == begin else fallback
            begin = end + 1
        return fallback

    def _present_verb(self, start: int) -> int | None:
        """Where no word is known as a verb: one in "s" right after a name or noun ("Water boils at 100 degrees")."""
        kinds = self.kinds
        for i in range(start + 1, len(kinds)):
            word = self.words[self.units[i][1]]
            if kinds[i] == NOUN and kinds[i - 1] in (ENT, NOUN) and word[-1] == "s" and word[-2:] not in _NO_PRESENT:
                kinds[i] = VERB
                return i
        return None

    def _verb_after_commas(self, comma: int) -> int | None:
        """A verb that directly follows a later comma."""
        kinds, size = self.kinds, len(self.kinds)
        while comma is not None and comma + 1 < size:
            if kinds[comma + 1] in _FINITE:
                return comma + 1
            found = self._next(COMMA, comma + 1)
            if found is None:
                return None
            comma = found
        return None

    def _subject_end(self, start: int, verb: int) -> int:
        """The subject is what stands before the first comma, or before the verb."""
        comma = self._next(COMMA, start)
        end = verb if comma is None or comma > verb else comma
        wh = self._next(WH, start)
        return end if wh is None or not start < wh < end else wh

    # The subject

    def _heads(self, start: int, end: int, verb: int) -> tuple[str, str] | None:
        """The subject as the head of triplets, and what it is asked about ("zip code") when that is not itself."""
        units, words, kinds = self.units, self.words, self.kinds
        while start < end and kinds[start] in (DET, ADV, PREP):
            if words[units[start][1]].lower() in POSSESSIVES:
                return words[units[start][1]], ""
            start += 1
        article = words[units[start - 1][1]].lower() if start and kinds[start - 1] == DET else ""
        if start >= end:
            # "This", "That" and the like stand alone.
            return (words[units[start - 1][1]], "") if start and kinds[start - 1] in (DET, WH) else None
        first = next((i for i in range(start, end) if kinds[i] == ENT), None)
        if first is None:
            nominal = [i for i in range(start, end) if kinds[i] in _SUBJECT]
            if not nominal:
                return None
            head = self._text(start, nominal[-1] + 1)
            return (f"{article} {head}" if article in _ARTICLES and kinds[start] != PRON else head), ""
        name = self._name(first)
        if first == start:
            if self._possessive(first) and first + 1 < end and kinds[first + 1] in (NOUN, VERB):
                return self._possessed(name, self._text(first + 1, end), end, verb)
            return name, ""
        if kinds[first - 1] == PREP and kinds[verb] == BE:
            return name, self._text(start, first - 1)
        return (name, "") if kinds[first - 1] in (NOUN, GERUND, VERB) else (self._text(start, first + 1), "")

    def _possessed(self, name: str, role: str, end: int, verb: int) -> tuple[str, str]:
        """ "X's father, Y, …" tells (X, father, Y) and goes on with Y; "X's father is Y" keeps the role."""
        if end + 1 < verb and self.kinds[end] == COMMA and self.kinds[end + 1] == ENT:
            other = self._name(end + 1)
            self._add(name, role, other)
            return other, ""
        return name, role if self.kinds[verb] == BE else ""

    # The predicate

    def _predicate(self, head: str, role: str, verb: int) -> None:
        """Every name, date and number after the verb, with the head that it belongs to."""
        kinds, size = self.kinds, len(self.kinds)
        subject, since, last, relation = head, verb, "", ""
        while since and kinds[since - 1] == ADV:
            since -= 1
        first_found = len(self.found)
        i = verb + 1
        while i < size and not self.done:
            kind = kinds[i]
            if kind in _ENTITY or (kind == NUM and self._is_value(i)):
                tail, after = self._tail(i)
                relation = self._relation(since, i, role) or relation
                if self.words[self.units[i - 1][1]] != "than":
                    self._add(head, relation, tail)
                named = kind == ENT and after == i + 1 and kinds[i - 1] != DET
                last, since, i = tail if named else "", after, after
                continue
            if kind == WH and last and i + 1 < size and kinds[i + 1] in _FINITE:
                head, role, since = last, "", i + 1
            elif kind == CONJ and i + 1 < size and kinds[i + 1] in (VERB, BE, AUX, ADV):
                head, role, since = subject, "", i + 1
            elif kind in (STOP, SUB):
                break
            i += 1
        if len(self.found) == first_found:
            self._common_object(subject, role, verb)

    def _is_value(self, i: int) -> bool:
        """Whether a number stands for itself, and does not count what follows ("80 minutes")."""
        word = self.words[self.units[i][1]]
        if not word[-1].isdigit() or ("–" in word and len(word) < 6):
            return False
        counts = i + 1 < len(self.kinds) and self.kinds[i + 1] in (NOUN, ENT)
        return not counts or (len(word) >= 4 and self.kinds[i - 1] != DET)

    def _tail(self, i: int) -> tuple[str, int]:
        """The name with the common nouns that belong to it, and where it ends."""
        kinds, size = self.kinds, len(self.kinds)
        end = i + 1
        if kinds[i] != ENT or self._possessive(i):
            return self._name(i), end
        while end < size and kinds[end] == NOUN:
            end += 1
        return self._text(i, end), end

    def _relation(self, since: int, end: int, role: str) -> str:
        """The words from the verb to the object, without articles, numbers and auxiliaries before another word."""
        if role:
            return role
        kinds = self.kinds
        if end == since + 1 and kinds[since] not in _UNSAID:
            return self._text(since, end)
        parts = [i for i in range(since, end) if kinds[i] not in _UNSAID]
        while len(parts) > 1 and kinds[parts[0]] in (BE, AUX):
            del parts[0]
        words = [self._text(i, i + 1) for i in parts]
        return " ".join([one for one in words if one != "also"])

    def _common_object(self, head: str, role: str, verb: int) -> None:
        """Without a name after the verb: the first common noun phrase; after "is" only one with an article."""
        kinds, size = self.kinds, len(self.kinds)
        i = verb + 1
        while i < size and kinds[i] in (AUX, BE, ADV, VERB, PREP):
            i += 1
        if i >= size or (kinds[verb] == BE and i == verb + 1 and kinds[i] != DET and not role):
            return
        start = i
        while start < size and kinds[start] in (DET, NUM):
            start += 1
        end = start
        while end < size and (
            kinds[end] in (NOUN, GERUND, VERB)
            or (end > start and self.words[self.units[end][1]] == "of" and end + 1 < size and kinds[end + 1] == NOUN)
        ):
            end += 1
        if end > start:
            self._add(head, self._relation(verb, i, role), self._text(start, end))

    def _appositions(self, head: str, start: int, verb: int) -> None:
        """ "X, the director of Y, …" tells (X, director of, Y)."""
        kinds = self.kinds
        since = start
        for i in range(start, verb):
            if kinds[i] == COMMA:
                since = i + 1
            elif kinds[i] in _ENTITY and not self.done and i > since and kinds[since] != ENT:
                name = self._name(i)
                if name != head:
                    self._add(head, self._relation(since, i, ""), name)
                since = i + 1

    # Texts

    def _possessive(self, i: int) -> bool:
        return self.words[self.units[i][2] - 1][-2:] in ("'s", "’s", "s'", "s’")

    def _name(self, i: int) -> str:
        """A name without its possessive ending."""
        text = self._text(i, i + 1)
        if text.endswith(("'s", "’s")):
            return text[:-2]
        return text[:-1] if text.endswith(("'", "’")) else text

    def _text(self, start: int, end: int) -> str:
        """The words of units as they stood, but for the spacing."""
        first, last = self.units[start][1], self.units[end - 1][2]
        if last == first + 1:
            return self.words[first]
        text = " ".join(self.words[first:last])
        return text.replace(" ,", ",") if "," in text else text
