"""What was read, sentence by sentence, and which sentences bear on a statement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from factgym.baselines.words import Weights, Word, keys, words
from factgym.corpora.sentences import sentences

_LEAST_CHARS = 12
_GAIN = 0.2
_NAME = 0.5
_DENSE = 20
"""Words in a line, on average."""
_MOST_LINES = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """A passage as a policy sees it: in full, or the condensed sentences of a search result (`text`)."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence of a passage, verbatim. follows: whether it stands in one paragraph with the line before it."""

    passage: str
    title: str
    text: str
    words: tuple[Word, ...]
    keys: frozenset[str]
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the answer. `keys` holds its content words, each once, in order; `names` those with a capital."""

    text: str
    words: tuple[Word, ...]
    keys: tuple[str, ...]
    names: frozenset[str]


def statement_of(text: str) -> Statement:
    """A statement taken apart."""
    found = words(text)
    capital = [text[word.start].isupper() for word in found]
    first = len(capital) > 1 and capital[1]  # a first word is capitalised anyway: it is a name beside another one
    names = (word.key for place, word in enumerate(found) if capital[place] and (place or first))
    return Statement(text, found, keys(text), frozenset(names))


@dataclass(frozen=True)
class Reading:
    """All sentences that were read, and the weights of their words.

    hits: ids that a search for the statement found, best first. silence: how many passages show that it is unsaid.
    """

    lines: tuple[Line, ...]
    weights: Weights = field(compare=False)
    hits: tuple[str, ...] = ()
    silence: int = 1

    @cached_property
    def dense(self) -> bool:
        """Whether the sentences are as long as those of contracts."""
        return sum(len(line.words) for line in self.lines) >= _DENSE * max(1, len(self.lines))

    def coverage(self, statement: Statement, lines: Iterable[Line]) -> float:
        """Share of the statement's weighted words that stand in the lines, 0 to 1.

        Among dense sentences names count half: what one agreement calls Receiving Party is the next one's Recipient.
        """
        there = frozenset().union(*(line.keys for line in lines))
        names = statement.names if self.dense else frozenset()
        weight = {key: self.weights.of(key) * (_NAME if key in names else 1.0) for key in statement.keys}
        total = math.fsum(weight.values())
        return math.fsum(weight[key] for key in statement.keys if key in there) / total if total else 0.0

    def overlap(self, statement: Statement, line: Line) -> float:
        """Coverage, with a little taken off for what the line says besides, so that of two equals the nearer wins."""
        return self.likeness(statement, line.keys, line.keys)

    def likeness(self, statement: Statement, there: frozenset[str], own: frozenset[str]) -> float:
        """`overlap` with the keys `there`, of which only the line's `own` count as said besides."""
        shared = self.weights.sum(key for key in statement.keys if key in there)
        besides = self.weights.sum(sorted(own.difference(statement.keys)))
        both = self.weights.sum(statement.keys) + 0.2 * besides
        return shared / both if both else 0.0


def reading_of(opened: Sequence[Seen]) -> Reading:
    """The sentences of the passages that were opened, without questions and what is too short to be quoted."""
    lines = tuple(line for seen in opened for line in _lines(seen))
    return Reading(lines, Weights(line.keys for line in lines))


@lru_cache(maxsize=1024)
def _lines(seen: Seen) -> tuple[Line, ...]:
    found: list[Line] = []
    before = 0
    for start, end in sentences(seen.text):
        text = seen.text[start:end][:4000]
        if end - start >= _LEAST_CHARS and not text.endswith("?"):
            follows = bool(found) and "\n" not in seen.text[before:start]
            found.append(Line(seen.id, seen.title, text, words(text), frozenset(keys(text)), follows))
        before = end
    return tuple(found)


Likeness = Callable[[Statement, Line], float]


def pick(reading: Reading, statement: Statement, likeness: Likeness | None = None) -> list[Line]:
    """The line most like the statement, then others while each adds a fair share of words that were still missing."""
    if not reading.lines:
        return []
    like = likeness or reading.overlap
    picked = [max(reading.lines, key=lambda line: like(statement, line))]
    while len(picked) < _MOST_LINES:
        best = max(reading.lines, key=lambda line: reading.coverage(statement, [*picked, line]))
        gain = reading.coverage(statement, [*picked, best]) - reading.coverage(statement, picked)
        if gain < _GAIN:
            break
        picked.append(best)
    return picked
