"""Names in claims, their kinds, and the pool of names and facts that other claims of a data set lend.

Named-entity recognition without a model: capitals, the words around a name, and short gazetteers. A capital at the
beginning of a sentence proves nothing: such a word counts only where the source writes it with a capital inside a
sentence and never without. A name of uncertain kind is never swapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from factgym.datasets.attribution import AttributionClaim
from factgym.generators.perturbations.grammar import (
    CALENDAR,
    FUNCTION_WORDS,
    NO_ANCHOR,
    Cues,
    Span,
    main_verb,
    split_claim,
    split_final_stop,
    word_set,
)
from factgym.generators.synthetic.grammar import word_list
from factgym.text.words import words_in

_CUES = Cues("names")

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][\w’'.&-]*(?<![.,'’-])"
_RUN = re.compile(
    rf"(?<![\w'’-])(?:[A-Z]\.(?: ?[A-Z]\.)* )?{_CAPITAL}"
    rf"(?: (?:(?:of|the|de|la|von|van|der|del|da|di|al|bin) ){{0,2}}(?:{_CAPITAL}|[A-Z]\.(?= [A-Z])))*"
)
_OPENING_MARKS = "\"“'‘(["
_ORG_LAST = word_set("organisations")
_NOT_PERSONS = _ORG_LAST | word_set("things")
_PLACES = {
    kind: word_list(name)
    for kind, name in (("country", "countries"), ("demonym", "demonyms"), ("state", "states"), ("city", "cities"))
}
_KIND_OF = {name: kind for kind, names in _PLACES.items() for name in names}
_NO_DONORS = words_in("American British English Scottish Welsh")
_GAZETTEER = _PLACES | {"demonym": tuple(name for name in _PLACES["demonym"] if name not in _NO_DONORS)}
"""Names that may replace another of their kind."""
_MALE, _FEMALE = word_set("male"), word_set("female")
_MALE_WORDS, _FEMALE_WORDS = word_set("male_words"), word_set("female_words")
_MIN_WORDS, _MAX_WORDS = 3, 11


@dataclass(frozen=True, slots=True)
class Name:
    """A name, `text[start:end]` of its claim."""

    start: int
    end: int
    text: str

    @property
    def span(self) -> Span:
        """Start and end."""
        return self.start, self.end


def find_names(text: str, source: str = "") -> list[Name]:
    """Return the names in `text`, in order. source: other text that shows how a word is written in a sentence."""
    names = []
    for match in _RUN.finditer(text):
        start, end = match.span()
        before = text[max(0, start - 64) : start].rstrip(" " + _OPENING_MARKS)
        if not before or before[-1] in ".?!:\n":
            start = _skip_opening_word(match[0], start, source)
        words = text[start:end].split(" ")
        while words and (words[-1] in CALENDAR or words[-1].islower()):
            words.pop()
        run = " ".join(words)
        run = run[:-2] if run.endswith(("'s", "’s")) else run
        if run and run not in CALENDAR and run.lower() not in FUNCTION_WORDS and len(run) > 1:
            names.append(Name(start, start + len(run), run))
    return names


def _skip_opening_word(run: str, start: int, source: str) -> int:
    """Return the start of the name in a run of capitals that opens a sentence; the run's end when there is none.

    The first word belongs to the name unless it is ordinary: a function word, a month, or a word that the source also
    writes small.
    """
    # True-casing by the source: a word that it writes small is ordinary, one capitalised inside a sentence is a name.
    word, _, following = run.partition(" ")
    if word.lower() not in FUNCTION_WORDS and word not in CALENDAR:
        small = re.search(rf"(?<![\w-]){re.escape(word.lower())}(?![\w-])", source) is not None
        proper = (word if following else word.rstrip("s")) in _KIND_OF or (
            not small and re.search(rf"[\w,;)] {re.escape(word)}(?![\w-])", source) is not None
        )
        if proper or (following[:1].isupper() and not small):
            return start
    words = run.split(" ")
    first = 1
    while first < len(words) and words[first].islower():
        first += 1
    return start + len(run) if first >= len(words) else start + len(" ".join(words[:first])) + 1


@lru_cache(maxsize=65_536)
def gender_of(name: str) -> str:
    """ "m", "f" or "" by the first name."""
    first = name.split(" ")[0]
    return "m" if first in _MALE and first not in _FEMALE else "f" if first in _FEMALE and first not in _MALE else ""


def gender_in(text: str) -> str:
    """ "m", "f" or "" by the gendered words of a text; "x" where there are both."""
    words = set(re.findall(r"[a-z']+", text.lower()))
    male, female = bool(words & _MALE_WORDS), bool(words & _FEMALE_WORDS)
    return "x" if male and female else "m" if male else "f" if female else ""


@lru_cache(maxsize=65_536)
def kind_alone(name: str) -> str:
    """Return the kind that the name itself shows: a gazetteer's, "org" with its last word, "person", or ""."""
    if name in _KIND_OF:
        return _KIND_OF[name]
    words = name.split(" ")
    if words[-1].rstrip(".") in _ORG_LAST and len(words) > 1:
        return f"org {words[-1]}"
    return "person" if gender_of(name) and _is_person_shape(words) else ""


def _is_person_shape(words: list[str]) -> bool:
    """Whether the words could be a person's name: two or three with capitals, none of a thing or a place."""
    plain = all(re.fullmatch(r"[^\W\d_][\w’'.-]*", word) and word[0].isupper() for word in words)
    plain = plain and not any(word.lower() in FUNCTION_WORDS or "'s" in word or "’s" in word for word in words)
    impersonal = any(word in _NOT_PERSONS or word in _KIND_OF or word.isupper() for word in words[1:])
    return len(words) in (2, 3) and plain and not impersonal


def _reads_as_person(text: str, name: Name) -> bool:
    """Whether the words around a name show that it is a person's."""
    before, after = text[max(0, name.start - 40) : name.start], text[name.end : name.end + 60]
    evidence = _CUES.person_before.search(before) or _CUES.person_after.match(after)
    return evidence is not None and _is_person_shape(name.text.split(" "))


@dataclass(frozen=True, slots=True)
class Fact:
    """A verb phrase, in the singular, that a claim of the pool states of its subject. gender: shown by the phrase."""

    subject: str
    kind: str
    gender: str
    phrase: str

    def suits(self, name: str, kind: str) -> bool:
        """Whether the fact can be stated of a name: of the same kind and without a clash of genders."""
        same_gender = not self.gender or self.gender == gender_of(name)
        return self.kind == kind and self.subject != name and same_gender


class Pool:
    """Claims to borrow names and facts from. The same claims in the same order lend the same."""

    def __init__(self, items: Iterable[AttributionClaim] = ()) -> None:
        self.items: Sequence[AttributionClaim] = tuple(items)

    @cached_property
    def _persons(self) -> frozenset[str]:
        """Names that a claim uses as a person's."""
        return frozenset(
            name.text
            for item in self.items
            for name in find_names(item.claim, item.source)
            if _reads_as_person(item.claim, name)
        )

    def kind_of(self, name: str, text: str = "", span: Span | None = None) -> str:
        """Return the kind of a name, by itself, by its context in `text`, and by the other claims; "" if uncertain."""
        kind = kind_alone(name)
        if kind:
            return kind
        person = name in self._persons or (span is not None and _reads_as_person(text, Name(*span, name)))
        return "person" if person and not _CUES.titled.match(name) else ""

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Names by kind, sorted; the gazetteer's lists for the kinds that have one."""
        by_kind: dict[str, set[str]] = {}
        for item in self.items:
            for name in find_names(item.claim, item.source):
                kind = self.kind_of(name.text)
                certain = kind != "person" or (gender_of(name.text) and name.text in self._persons)
                if kind and certain and kind not in _GAZETTEER and not _CUES.treebank_tags.search(name.text):
                    by_kind.setdefault(kind, set()).add(name.text)
        return dict(_GAZETTEER) | {kind: tuple(sorted(names)) for kind, names in by_kind.items()}

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Facts that the claims state of the names that they begin with, each once, sorted."""
        facts = {fact for item in self.items if (fact := self._fact_of(item)) is not None}
        return tuple(sorted(facts, key=lambda fact: (fact.phrase, fact.subject)))

    def _fact_of(self, item: AttributionClaim) -> Fact | None:
        """The verb phrase of a claim about a name; it has to hold a further name, by which it can be looked up."""
        text = split_claim(item.claim).text
        names = find_names(text, item.source)
        verb = main_verb(text)
        if not names or names[0].start or verb is None or verb.start != names[0].end + 1:
            return None
        subject = names[0].text
        phrase = split_final_stop(text)[0][verb.start :]
        inside = [name.text for name in find_names(phrase) if name.text not in subject]
        if not _MIN_WORDS <= len(phrase.split()) <= _MAX_WORDS or not _CUES.verb_phrase.match(phrase):
            return None
        if _CUES.not_borrowable.search(phrase) or _CUES.treebank_tags.search(phrase):
            return None
        if any(part in phrase for part in subject.split()):
            return None
        if all(kind_alone(name) or name.split(" ")[0] in NO_ANCHOR for name in inside):
            return None
        kind = self.kind_of(subject, text, names[0].span)
        return Fact(subject, kind, gender_in(phrase), phrase) if kind else None
