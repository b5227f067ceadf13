"""How the extractive solver reads: questions and sentences as sets of word stems, and chains of sentences between them.

A question about something that no single sentence says is followed along shared names: a sentence that covers a part of
it, then one that mentions a name of the first and covers more. The last sentence of a chain holds the answer. Rules and
overlap alone; the solver knows no language beyond them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from factgym.corpora.sentences import sentences
from factgym.corpora.text import STOP_WORDS
from factgym.generators.multihop.entities import entities
from factgym.generators.synthetic.words import listed

_WORD = re.compile(r"\w+")
_BLANK = re.compile(r"_{2,}|\[blank\]|…{2,}", re.IGNORECASE)
_WANTED = re.compile(r"\b(?:which|what) (\w+)", re.IGNORECASE)
_STEM = 5
_NAME_WEIGHT = 2.0
_LINK_COST = 0.1
_WIDTH, _DEPTH = 12, 4
_YES_NO = frozenset(listed("is are was were do does did has have had can could will would"))
_KINDS = (
    (re.compile(r"\b(?:when|year|date|month|day)\b", re.IGNORECASE), "date"),
    (
        re.compile(
            r"\bhow (?:many|much|old|long|far|high|large|tall|deep)\b|\b(?:number|population|length|depth|height)\b",
            re.IGNORECASE,
        ),
        "number",
    ),
    (re.compile(r"\b(?:who|whom|whose|where|which|what|name)\b", re.IGNORECASE), "name"),
)
_DESCRIBED = re.compile(r"\b[Tt]he ([a-z]+) (?=[A-Z])|\b(town|city|village|province|state|country) of (?=[A-Z])")
"""A common noun that says what kind of thing a name is ("the novel Ulysses"), which a text about it need not repeat."""
_THESAURUS = (
    "born birth birthplace",
    "wrote written write writer author manuscript",
    "published publish publisher brought print",
    "founded founder found established establish foundation",
    "headquarters based seat",
    "taught teach teacher learned pupil",
    "study studied attended attend students",
    "awarded received receive won winner prize given",
    "sponsor pays paid",
    "patron endowed gift",
    "surveyed surveyor chart survey",
    "situated located lies lie campus home",
    "population inhabitants people",
    "long length",
    "deep depth",
    "capital governed",
    "directed director",
    "composed composer",
    "died death",
    "married wife husband spouse",
)
"""Words of which one is taken for another: what questions and encyclopedias call the same thing."""
_VALUES = {"date": ("year", "date", "when", "month", "day"), "number": ("number", "many", "much")}
"""What a sentence with a date or a number tells, though it does not say the word."""


def _first_letters(word: str) -> str:
    low = word.casefold()
    return low if low[:1].isdigit() else low[:_STEM]


_SAME = {
    _first_letters(word): _first_letters(group.split()[0]) for group in _THESAURUS for word in reversed(group.split())
}


@dataclass(frozen=True, slots=True)
class Named:
    """An entity of a sentence. stems: of its words. place: of its first word among the sentence's words."""

    text: str
    kind: str
    stems: frozenset[str]
    place: int


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """A sentence of a passage: its text as it stands in it, the stems of its words in order, and what it names.

    stems: of the sentence and of the title, since a passage says "it" of what its title names.
    """

    text: str
    title: str
    passage: str
    words: tuple[str, ...]
    stems: frozenset[str]
    named: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question. weights: stem -> how much a sentence that has it counts. kind: of the answer, "" where any will do.

    names: stems of what it names. wanted: stem of the word after "which" or "what", "" without one. yes_no: asks whether. choices: names between which it asks to choose. blank: stems before and after its gap.
    """

    text: str
    weights: Mapping[str, float]
    kind: str
    names: frozenset[str]
    wanted: str
    yes_no: bool
    choices: tuple[str, ...]
    blank: tuple[tuple[str, ...], tuple[str, ...]] | None
    named: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Sentences linked by names, and the names. covered: stems of the question that stand in one of them."""

    sentences: tuple[Sentence, ...]
    links: tuple[Named, ...]
    covered: frozenset[str]
    score: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible answer, the chain that leads to it, and how well it fits."""

    answer: str
    chain: Chain
    score: float


def stem(word: str) -> str:
    """The first letters of a word, lower-cased; numbers as they are."""
    short = _first_letters(word)
    return _SAME.get(short, short)


def stems_of(text: str) -> tuple[str, ...]:
    """The stems of all words, in order."""
    return tuple(stem(one) for one in _WORD.findall(text))


@lru_cache(maxsize=2048)
def read_question(text: str) -> Asked:
    """A question, taken apart."""
    capital = {stem(one) for one in re.findall(r"(?<!\A)\b[A-Z0-9]\w*", text)}
    bare = _DESCRIBED.sub("", text)
    words = [one for one in _WORD.findall(bare) if one.casefold() not in STOP_WORDS and not _BLANK.fullmatch(one)]
    weights = {stem(one): _NAME_WEIGHT if stem(one) in capital else 1.0 for one in words}
    first = text.split(maxsplit=1)[0].casefold() if text.split() else ""
    gap = _BLANK.search(text)
    kind = "" if gap else next((kind for form, kind in _KINDS if form.search(text)), "")
    blank = (stems_of(text[: gap.start()])[-4:], stems_of(text[gap.end() :])[:4]) if gap else None
    either = _choices(text) if " or " in text else ()
    whether = first in _YES_NO and not gap and not either
    names = frozenset(weights) & capital
    after = _WANTED.search(text)
    wanted = stem(after[1]) if after else ""
    named = tuple(text[start:end] for start, end, _ in entities(text))
    return Asked(text, weights, kind, names, wanted, whether, either, blank, named)


def _choices(text: str) -> tuple[str, ...]:
    """The names on either side of an "or"."""
    found = [(start, end) for start, end, kind in entities(text) if kind == "name"]
    for left, right in pairwise(found):
        if re.fullmatch(r",? or (?:the )?", text[left[1] : right[0]]):
            return text[slice(*left)], text[slice(*right)]
    return ()


@lru_cache(maxsize=4096)
def read_passage(title: str, text: str) -> tuple[Sentence, ...]:
    """The sentences of a passage, read once."""
    heading = frozenset(stems_of(title))
    names = entities(text, title)
    found = []
    for start, end in sentences(text):
        words = stems_of(text[start:end])
        inside = tuple(
            _named(text[a:b], kind, len(_WORD.findall(text[start:a])))
            for a, b, kind in names
            if start <= a and b <= end
        )
        told = (stem(word) for one in inside for word in _VALUES.get(one.kind, ()))
        found.append(Sentence(text[start:end], title, text, words, heading | {*words, *told}, inside))
    return tuple(found)


def _named(text: str, kind: str, place: int) -> Named:
    return Named(text, kind, frozenset(stems_of(text)), place)


class _Desk:
    """What is needed again and again while chains are made of the sentences of one question."""

    def __init__(self, asked: Asked, read: Sequence[Sentence]) -> None:
        self._asked = asked
        known = frozenset(asked.weights)
        self.hits = [(one, known & one.stems) for one in read]
        self._total = sum(asked.weights.values()) or 1.0
        self._weights: dict[frozenset[str], float] = {}
        self._mentions: dict[frozenset[str], list[tuple[Sentence, frozenset[str]]]] = {}
        self._links: dict[int, list[Named]] = {}

    def weight(self, covered: frozenset[str]) -> float:
        """The share of the question that is covered; half of it where nothing is covered that the question names."""
        found = self._weights.get(covered)
        if found is None:
            share = sum(self._asked.weights[one] for one in sorted(covered)) / self._total
            named = not self._asked.names or not covered.isdisjoint(self._asked.names)
            found = self._weights[covered] = share if named else share / 2
        return found

    def mentioning(self, link: Named) -> list[tuple[Sentence, frozenset[str]]]:
        """The sentences that mention a name, each with what it covers of the question."""
        found = self._mentions.get(link.stems)
        if found is None:
            found = self._mentions[link.stems] = [
                pair for pair in self.hits if pair[1] and link.stems <= pair[0].stems
            ]
        return found

    def links(self, sentence: Sentence) -> list[Named]:
        """`links_of` the question and a sentence."""
        found = self._links.get(id(sentence))
        if found is None:
            found = self._links[id(sentence)] = links_of(self._asked, sentence)
        return found


def chains(asked: Asked, read: Sequence[Sentence], given: bool = False) -> list[Chain]:
    """The chains that cover most of the question, best first.

    given: the sentences came with the question as evidence for it, so one of which it says nothing counts too.
    """
    desk = _Desk(asked, read)
    level = _best(Chain((one,), (), hit, desk.weight(hit)) for one, hit in desk.hits if hit or given)
    found = list(level)
    for _ in range(_DEPTH - 1):
        level = _best(longer for chain in level for longer in _extended(desk, chain))
        found += level
    return sorted(found, key=lambda one: -one.score)[:_WIDTH]


def _best(found: Iterator[Chain]) -> list[Chain]:
    return sorted(found, key=lambda one: -one.score)[:_WIDTH]


def _extended(desk: _Desk, chain: Chain) -> Iterator[Chain]:
    cost = _LINK_COST * len(chain.sentences)
    for link in desk.links(chain.sentences[-1]):
        for one, hit in desk.mentioning(link):
            if not hit <= chain.covered and one not in chain.sentences:
                covered = chain.covered | hit
                score = desk.weight(covered) - cost
                yield Chain((*chain.sentences, one), (*chain.links, link), covered, score)


def links_of(asked: Asked, sentence: Sentence) -> list[Named]:
    """Names by which the question may go on from a sentence: what it names and the question does not."""
    known = frozenset(asked.weights)
    return [one for one in sentence.named if one.kind == "name" and not one.stems <= known]


def candidates(asked: Asked, found: Sequence[Chain]) -> list[Candidate]:
    """Possible answers, best first, each once: what the last sentences of the chains name and the question does not."""
    known = frozenset(asked.weights)
    best: dict[str, Candidate] = {}
    for chain in found:
        sentence = chain.sentences[-1]
        used = chain.links[-1].stems if chain.links else frozenset[str]()
        for one in _possible(sentence):
            if one.stems <= known or one.stems <= used:
                continue
            candidate = Candidate(one.text, chain, chain.score + _fit(asked, sentence, one))
            if one.text not in best or best[one.text].score < candidate.score:
                best[one.text] = candidate
    return sorted(best.values(), key=lambda one: (-one.score, one.answer))


def _possible(sentence: Sentence) -> Iterator[Named]:
    yield from sentence.named
    title = frozenset(stems_of(sentence.title))
    if title and not any(title <= one.stems for one in sentence.named):
        yield Named(sentence.title, "name", title, -1)


def _fit(asked: Asked, sentence: Sentence, one: Named) -> float:
    """How well an entity fits: by its kind, by how near the question's words stand, and by what surrounds a gap."""
    kind = 0.0 if not asked.kind else 0.25 if one.kind == asked.kind else -0.35
    if asked.wanted and asked.wanted in one.stems:
        kind += 0.15
    if asked.blank is not None:
        return kind + 0.5 * _surroundings(asked.blank, sentence, one)
    if one.place < 0:
        return kind - 0.1
    size = len(one.stems)
    near = sum(
        asked.weights[word] / (1 + min(abs(place - one.place), abs(place - one.place - size + 1)))
        for place, word in enumerate(sentence.words)
        if word in asked.weights and not one.place <= place < one.place + size
    )
    return kind + 0.3 * min(near, 1.5)


def _surroundings(blank: tuple[tuple[str, ...], tuple[str, ...]], sentence: Sentence, one: Named) -> float:
    """The share of the words around a gap that stand around an entity in the same order."""
    before, after = blank
    words = sentence.words
    size = len(_WORD.findall(one.text))
    left = words[max(0, one.place - len(before)) : max(0, one.place)]
    right = words[one.place + size : one.place + size + len(after)]
    same = sum(a == b for a, b in zip(reversed(before), reversed(left), strict=False))
    same += sum(a == b for a, b in zip(after, right, strict=False))
    return same / max(1, len(before) + len(after))
