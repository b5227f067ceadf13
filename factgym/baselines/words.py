"""Words with their places and a rough normal form: what the rule-based verifiers compare.

English only, no data files, linear in the text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from factgym.baselines.thesaurus import GROUPS, word_list
from factgym.corpora.text import STOP_WORDS

MAX_WORDS = 400
"""Words of one statement or sentence that are looked at."""

_WORD = re.compile(r"[$€£]?\d++(?:[.,:]\d++)*+%?|[^\W\d_]++(?:['’][^\W\d_]++)*+")
_ONES = word_list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_SMALL = {word: value for value, word in enumerate(_ONES)}
_TENS = {
    word: value * 10
    for value, word in enumerate(word_list("twenty thirty forty fifty sixty seventy eighty ninety"), 2)
}
_FORCE = frozenset(
    word_list(
        "must shall may can could should would might need needs ought cannot not no nor never neither any all every each some"
        " such other only also than within more less least most up per even case cases circumstance circumstances fact"
        " after before until upon under over between about out during through against without above below into onto off"
    )
)
"""Words that carry force, polarity, quantity or relation; other checks compare these."""
_SUFFIXES = (
    "ations", "ation", "ating", "ated", "ates", "ate", "ments", "ment", "ings", "ing", "ied", "ies", "ers", "er", "ed", "es",
    "ly", "s",
)  # fmt: skip
_LEAST_STEM = 4


@dataclass(frozen=True, slots=True)
class Word:
    """One word: `text[start:end]` lower-cased, and its `key`, equal for most forms and near-synonyms of a word."""

    start: int
    end: int
    lower: str
    key: str

    @property
    def number(self) -> bool:
        """Whether it is a number, in digits or in words."""
        return self.key[0].isdigit()

    @property
    def content(self) -> bool:
        """Whether it says something about the subject."""
        return self.number or (len(self.lower) > 1 and self.lower not in STOP_WORDS and self.lower not in _FORCE)


@lru_cache(maxsize=8192)
def words(text: str) -> tuple[Word, ...]:
    """The words of a text in order; the parts of a hyphenated word count singly, but "twenty-five" is one number."""
    found: list[Word] = []
    for match in _WORD.finditer(text):
        lower = match[0].lower().replace("’", "'")
        if lower in _SMALL and found and found[-1].lower in _TENS and match.start() - found[-1].end == 1:
            tens = found.pop()
            key = str(_TENS[tens.lower] + _SMALL[lower])
            found.append(Word(tens.start, match.end(), f"{tens.lower}-{lower}", key))
        else:
            found.append(Word(match.start(), match.end(), lower, key_of(lower)))
        if len(found) == MAX_WORDS:
            break
    return tuple(found)


@lru_cache(maxsize=65536)
def key_of(lower: str) -> str:
    """The normal form of a lower-case word: numbers as digits, other words by the stem of their group."""
    if lower[-1].isdigit() or lower[-1] == "%":
        return lower.strip("$€£%").replace(",", "").removesuffix(".00")
    if lower in _SMALL or lower in _TENS:
        return str(_SMALL.get(lower, _TENS.get(lower)))
    if lower == "information":
        return lower  # shares its stem with "inform", and nothing else
    found = stem(lower)
    return _GROUP_OF.get(found, found)


def stem(lower: str) -> str:
    """A word without its inflection, roughly; two forms of one word nearly always agree."""
    word = lower.removesuffix("'s").removesuffix("s'")
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _LEAST_STEM - (suffix == "s"):
            word = word[: -len(suffix)]
            if suffix in ("ied", "ies"):
                word += "y"
            elif len(word) > _LEAST_STEM and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word.removesuffix("e") if len(word) > _LEAST_STEM - 1 else word


def _groups() -> dict[str, str]:
    table: dict[str, str] = {}
    for group in GROUPS:
        first = stem(group.split()[0])
        for word in group.split():
            table.setdefault(stem(word), first)
    return table


_GROUP_OF = _groups()


@lru_cache(maxsize=8192)
def keys(text: str) -> tuple[str, ...]:
    """The keys of the content words of a text, each once, in order."""
    return tuple(dict.fromkeys(word.key for word in words(text) if word.content))


class Weights:
    """How telling a word is within what was read: smoothed inverse sentence frequency, in (0, ∞).

    sentences: the keys of each, without repeats.
    """

    def __init__(self, sentences: Iterable[Iterable[str]]) -> None:
        counts: Counter[str] = Counter()
        total = 0
        for one in sentences:
            counts.update(one)
            total += 1
        self._counts: Mapping[str, int] = counts
        self._total = total

    def of(self, key: str) -> float:
        """The weight of a key."""
        return math.log(1.0 + (self._total + 1.0) / (self._counts.get(key, 0) + 0.5))

    def sum(self, some: Iterable[str]) -> float:
        """The weight of several."""
        return math.fsum(self.of(key) for key in some)
