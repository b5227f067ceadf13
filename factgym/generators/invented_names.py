"""Invented names of organisations, people, places and things, unique where a generator needs them to be."""

from __future__ import annotations

import random
from functools import lru_cache

from factgym.generators.base import word_table

_WORDS = {name: tuple(words.split()) for name, words in word_table("invented_names").items()}
_STEMS = tuple(onset + coda for onset in _WORDS["stem_onsets"] for coda in _WORDS["stem_codas"])
_SPLIT_LAP = {"validation": 4, "hard": 5, "multihop": 6}
"""The first lap of a split over the businesses, so that splits share no organisation; 0 for the others."""


def stem(split: str, seed: int, index: int) -> str:
    """Return a place-like stem ("Halden"). Each lap of as many indices as there are stems has every stem once."""
    lap, position = divmod(index, len(_STEMS))
    return _shuffled_stems(f"factgym stems {seed} {split} {lap}")[position]


@lru_cache(maxsize=64)
def _shuffled_stems(stream: str) -> tuple[str, ...]:
    # A shuffle, not a stride: callers use indices with gaps (every 64th), and a gap that shares a divisor with a stride
    # or with the number of syllables tells by its syllable which of an item's candidates a name belongs to.
    return tuple(random.Random(stream).sample(_STEMS, len(_STEMS)))


def organisation(businesses: tuple[str, ...], split: str, seed: int, index: int) -> str:
    """Return a full name ("Halden Freight"). The business moves on each time the stems have all been used."""
    base = stem(split, seed, index)
    lap = index // len(_STEMS) + _SPLIT_LAP.get(split, 0)
    business = businesses[(lap + sum(map(ord, base))) % len(businesses)]
    return business.format(stem=base) if "{stem}" in business else f"{base} {business}"


class Names:
    """A source of random names; `word` never returns a word twice."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._used: set[str] = {name.casefold() for name in _WORDS["given_names"]}

    def word(self, kind: str) -> str:
        """Return a new capitalised word of two or three syllables."""
        rng = self._rng
        while True:
            parts = [rng.choice(_WORDS[part]) for part in ("onsets", "vowels", "codas")]
            if rng.random() < 0.35:
                parts += [rng.choice(_WORDS[part]) for part in ("vowels", "codas")]
            word = "".join([*parts, rng.choice(_WORDS[kind])])
            if word not in self._used and 5 <= len(word) <= 14:
                self._used.add(word)
                return word.capitalize()

    def __getitem__(self, part: str) -> str:
        return self._rng.choice(_WORDS[part]) if part in ("given_names", "epithets") else self.word(part)

    def fill(self, form: str) -> str:
        """Fill a form such as "{given_names} {person}": given names and epithets can repeat, words are new."""
        return form.format_map(self)
