"""Invented names for the generated world: every name has a word that no other name has."""

from __future__ import annotations

import random


def _words(text: str) -> list[str]:
    return text.split()


_ONSETS = _words("b br c cr d dr f fl g gr h j k kl l m n p pr r s sk st t tr v w z th sh")
_VOWELS = _words("a e i o u ae ia eo ou")
_CODAS = _words("l n r s m nd rn lm st x th ck v ld")
_ENDINGS = {
    "person": _words("in ov ell ard aan esco ith ora wen ulf ez"),
    "place": _words("holm ford wick stadt mere by grad haven vale burn"),
    "thing": _words("essa andra ium oria ethe yra unda ophel"),
    "river": _words("ave une ish ola err"),
}
_GIVEN = _words(
    "Alenko Branwa Cyrila Dorian Elvira Fedora Gustan Hedvika Ivanka Jorun Katrin Leandro Mirela Nikolan Odette Petrus "
    "Quirina Rodrik Selma Tiberia Ursel Viktora Wendel Xenia Yorick Zelda Aurelio Benedek Corvina Damasio Estrid Florin"
)
_EPITHETS = _words("Crimson Silent Winter Golden Hollow Distant Burning Quiet Silver Broken Northern Paper Glass Last")


class Names:
    """A source of names; `word` never gives one that it gave before."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._taken: set[str] = {given.casefold() for given in _GIVEN}

    def word(self, kind: str) -> str:
        """A new capitalised word of two or three syllables."""
        rng = self._rng
        while True:
            parts = [rng.choice(_ONSETS), rng.choice(_VOWELS), rng.choice(_CODAS)]
            if rng.random() < 0.35:
                parts += [rng.choice(_VOWELS), rng.choice(_CODAS)]
            found = "".join([*parts, rng.choice(_ENDINGS[kind])])
            if found not in self._taken and 5 <= len(found) <= 14:
                self._taken.add(found)
                return found.capitalize()

    def person(self) -> str:
        """A given name, which others may share, and a family name of its own."""
        return f"{self._rng.choice(_GIVEN)} {self.word('person')}"

    def title(self) -> str:
        """The title of a book or an opera."""
        return f"{self._rng.choice(_EPITHETS)} {self.word('thing')}"
