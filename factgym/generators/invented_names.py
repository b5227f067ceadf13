"""Invented names of organisations, people, places and things, unique where a generator needs them to be."""

from __future__ import annotations

import random

from factgym.generators.base import word_table
from factgym.generators.synthetic.grammar import listed

_WORDS = {name: listed(words) for name, words in word_table("invented_names").items()}
_STEMS = len(_WORDS["stem_onsets"]) * len(_WORDS["stem_codas"])
# Each split starts its own lap over the stems and over the businesses, so that splits share no organisation.
_SPLIT_SHIFT = {"train": 0, "validation": 1, "ood": 2, "hard": 3, "multihop": 4}
_SPLIT_LAP = {"validation": 4, "hard": 5, "multihop": 6}


def stem(split: str, seed: int, index: int) -> str:
    """Return a place-like stem ("Halden") by index into a fixed permutation; all stems occur before one repeats."""
    # A full cycle: the step 599 is a prime that does not divide the number of stems.
    shift = random.Random(f"names {seed}").randrange(_STEMS)
    position = (index * 599 + shift + _SPLIT_SHIFT.get(split, 5) * 211) % _STEMS
    onsets, codas = _WORDS["stem_onsets"], _WORDS["stem_codas"]
    return onsets[position % len(onsets)] + codas[position // len(onsets)]


def organisation(businesses: tuple[str, ...], split: str, seed: int, index: int) -> str:
    """Return a full name ("Halden Freight"). The business moves on each time the stems have all been used."""
    base = stem(split, seed, index)
    lap = index // _STEMS + _SPLIT_LAP.get(split, 0)
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
