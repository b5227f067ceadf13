"""Cuts a sentence into units: names, dates, numbers, verbs and the rest, each with the tokens that it spans.

The Philadelphia Flyers won the Stanley Cup in 1975
DET NAME------------- VERB DET NAME------ PREP NUM
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
    JOINERS,
    KINDS,
    MONTHS,
    NOUN,
    NUM,
    PLACE_PREPOSITIONS,
    PREP,
    ROLES,
    STOP,
    VERB,
)

Unit = tuple[int, int, int]
"""Kind, and the tokens [start, end)."""

_TOKEN = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)|\w[\w’'&–/-]*(?:\.\w[\w’'&–/-]*)*|[,;:()—&]")
_MAX_KNOWN = 200_000


def words_of(text: str) -> list[str]:
    """The words and the punctuation that separates clauses."""
    return _TOKEN.findall(text)


class _Kinds(dict[str, int]):
    """Word -> kind: the lexicon's, and a guess by the word's shape for the rest, of which so many are remembered."""

    def __missing__(self, word: str) -> int:
        kind = _guess(word)
        if len(self) < _MAX_KNOWN and len(word) < 64:
            self[word] = kind
        return kind


def _guess(word: str) -> int:
    first, size = word[0], len(word)
    if first.isupper():
        return ENT
    if first.isdigit():
        return NUM
    if size < 5:
        return NOUN
    ending = word[-2:]
    if ending == "ed":
        return VERB
    if ending == "ly":
        return ADV
    return GERUND if size > 5 and word.endswith("ing") else NOUN


_KINDS = _Kinds(KINDS)
_SPECIAL = frozenset((ENT, NUM, VERB))
"""Kinds that are more than one word long, or another kind than they look."""


def _kinds(words: Sequence[str]) -> list[int]:
    """The kind of each word by itself."""
    kinds = [_KINDS[word] for word in words]
    if kinds[0] == ENT:
        # A capital at the beginning tells nothing of the words that the lexicon knows.
        first = words[0].lower()
        known = KINDS.get(first)
        if known is not None and known not in (NOUN, VERB, GERUND):
            kinds[0] = known
        elif first.endswith("ly") and len(words) > 1 and words[1] == ",":
            kinds[0] = ADV
    return kinds


def units_of(words: Sequence[str]) -> list[Unit]:
    """Words joined to names and dates."""
    kinds = _kinds(words)
    units: list[Unit] = []
    i, size = 0, len(words)
    while i < size:
        kind, start = kinds[i], i
        if kind not in _SPECIAL:
            i += 1
        elif kind == ENT:
            if words[i] in MONTHS:
                i, kind = _date_end(words, kinds, i)
            elif i + 1 < size and words[i + 1] in ("of", "for") and words[i].lower() in ROLES:
                i, kind = i + 1, NOUN
            else:
                i = _name_end(words, kinds, i)
        elif kind == NUM:
            i, kind = _number_end(words, kinds, i)
        else:
            if i and (kinds[i - 1] == DET or (kinds[i - 1] == PREP and words[i - 1] != "as")):
                kind = NOUN
            i += 1
        units.append((kind, start, i))
    return _join_places(words, units) if "," in words else units


def _name_end(words: Sequence[str], kinds: Sequence[int], i: int) -> int:
    """Where the name that begins at `i` ends: capitals, joined by "of" and the like; numbers such as "Apollo 11"."""
    size = len(words)
    i += 1
    while i < size:
        kind = kinds[i]
        if kind == ENT:
            if words[i] in MONTHS and i + 1 < size and kinds[i + 1] == NUM:
                break
            i += 1
            continue
        if kind == NUM:
            if len(words[i]) <= 3 and words[i].isdigit():
                i += 1
            break
        if words[i] not in JOINERS or words[i - 1][-2:] in ("'s", "’s"):
            break
        after = i + 1
        if after < size and words[after] in JOINERS:
            after += 1
        if after >= size or kinds[after] != ENT:
            break
        i = after + 1
    return i


def _number_end(words: Sequence[str], kinds: Sequence[int], i: int) -> tuple[int, int]:
    """A year that begins a name ("1989 NCAA Championship"), a date ("3 April 1989"), or a number."""
    if i + 1 < len(words) and kinds[i + 1] == ENT:
        if words[i + 1] in MONTHS:
            return _date_end(words, kinds, i + 1)
        if len(words[i]) == 4 and words[i].isdigit():
            return _name_end(words, kinds, i + 1), ENT
    return i + 1, NUM


def _date_end(words: Sequence[str], kinds: Sequence[int], i: int) -> tuple[int, int]:
    """From the month on: "April 3, 1989", "April 1989", "April"."""
    i += 1
    size = len(words)
    if i < size and kinds[i] == NUM:
        i += 1
        if i + 1 < size and words[i] == "," and kinds[i + 1] == NUM and len(words[i + 1]) == 4:
            i += 2
    return i, DATE


def _join_places(words: Sequence[str], units: list[Unit]) -> list[Unit]:
    """After a preposition of place, "Seattle, Washington" is one name."""
    joined: list[Unit] = []
    for i, unit in enumerate(units):
        if (
            unit[0] == ENT
            and i > 2
            and joined[-1][0] == COMMA
            and len(joined) >= 3
            and joined[-2][0] == ENT
            and joined[-3][0] == PREP
            and words[joined[-3][1]].lower() in PLACE_PREPOSITIONS
            and not _goes_on(units, i)
        ):
            start = joined[-2][1]
            del joined[-2:]
            joined.append((ENT, start, unit[2]))
        else:
            joined.append(unit)
    return joined


def _goes_on(units: Sequence[Unit], i: int) -> bool:
    """Whether the name after a comma is the subject ("At Liverpool, Salah scored …"), or the list is longer."""
    after = [units[k][0] if k < len(units) else STOP for k in (i + 1, i + 2)]
    if after[0] in (VERB, BE, AUX, ADV):
        return units[0][0] == PREP
    return after[0] == CONJ or (after[0] == COMMA and after[1] == CONJ)
