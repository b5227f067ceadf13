"""Invented names of organisations, people, places and things, unique where a generator needs them to be."""

from __future__ import annotations

import random

from factgym.generators.synthetic.grammar import listed

_STEM_ONSETS = listed(
    "Hal Bren Cor Dun Fal Gar Hest Ives Jor Kel Lan Mar Nor Oak Pem Quen Ros Sel Tar Ul Ver Wex Yar Zel Ald Bar Cal "
    "Der El Fen Gle Har Ist Kir Lor Mel Nes Or Pell Rav Sten Thor Und Vos Whit Ash Birk Cren Drum Esk Farn Gris"
)
_STEM_CODAS = listed(
    "den mere wick ford vane well combe stead ley holt bury moor dale gate stow grove brook field worth hurst mont "
    "ridge court haven ton ham minster bridge"
)
_STEMS = len(_STEM_ONSETS) * len(_STEM_CODAS)
# Each split starts its own lap over the stems and over the businesses, so that splits share no organisation.
_SPLIT_SHIFT = {"train": 0, "validation": 1, "ood": 2, "hard": 3, "multihop": 4}
_SPLIT_LAP = {"validation": 4, "hard": 5, "multihop": 6}

_ONSETS = listed("b br c cr d dr f fl g gr h j k kl l m n p pr r s sk st t tr v w z th sh")
_VOWELS = listed("a e i o u ae ia eo ou")
_CODAS = listed("l n r s m nd rn lm st x th ck v ld")
_ENDINGS = {
    "person": listed("in ov ell ard aan esco ith ora wen ulf ez"),
    "place": listed("holm ford wick stadt mere by grad haven vale burn"),
    "thing": listed("essa andra ium oria ethe yra unda ophel"),
    "river": listed("ave une ish ola err"),
}
_GIVEN_NAMES = listed(
    "Alenko Branwa Cyrila Dorian Elvira Fedora Gustan Hedvika Ivanka Jorun Katrin Leandro Mirela Nikolan Odette Petrus "
    "Quirina Rodrik Selma Tiberia Ursel Viktora Wendel Xenia Yorick Zelda Aurelio Benedek Corvina Damasio Estrid "
    "Florin"
)
_EPITHETS = listed("Crimson Silent Winter Golden Hollow Distant Burning Quiet Silver Broken Northern Paper Glass Last")


def stem(split: str, seed: int, index: int) -> str:
    """Return a place-like stem ("Halden") by index into a fixed permutation; all stems occur before one repeats."""
    # A full cycle: the step 599 is a prime that does not divide the number of stems.
    shift = random.Random(f"names {seed}").randrange(_STEMS)
    position = (index * 599 + shift + _SPLIT_SHIFT.get(split, 5) * 211) % _STEMS
    return _STEM_ONSETS[position % len(_STEM_ONSETS)] + _STEM_CODAS[position // len(_STEM_ONSETS)]


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
        self._used: set[str] = {name.casefold() for name in _GIVEN_NAMES}

    def word(self, kind: str) -> str:
        """Return a new capitalised word of two or three syllables."""
        rng = self._rng
        while True:
            parts = [rng.choice(_ONSETS), rng.choice(_VOWELS), rng.choice(_CODAS)]
            if rng.random() < 0.35:
                parts += [rng.choice(_VOWELS), rng.choice(_CODAS)]
            word = "".join([*parts, rng.choice(_ENDINGS[kind])])
            if word not in self._used and 5 <= len(word) <= 14:
                self._used.add(word)
                return word.capitalize()

    def person(self) -> str:
        """Return a given name, which others may share, and a new family name."""
        return f"{self._rng.choice(_GIVEN_NAMES)} {self.word('person')}"

    def title(self) -> str:
        """Return the title of a book or an opera."""
        return f"{self._rng.choice(_EPITHETS)} {self.word('thing')}"
