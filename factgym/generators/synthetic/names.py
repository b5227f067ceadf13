"""Names of invented organisations, no two alike within a seed: item i of a split gets name i of a fixed permutation."""

from __future__ import annotations

import random

from factgym.generators.synthetic.words import listed

_ONSETS = listed(
    "Hal Bren Cor Dun Fal Gar Hest Ives Jor Kel Lan Mar Nor Oak Pem Quen Ros Sel Tar Ul Ver Wex Yar Zel Ald"
    " Bar Cal Der El Fen Gle Har Ist Kir Lor Mel Nes Or Pell Rav Sten Thor Und Vos Whit Ash Birk Cren Drum Esk"
    " Farn Gris"
)
_CODAS = listed(
    "den mere wick ford vane well combe stead ley holt bury moor dale gate stow grove brook field worth hurst"
    " mont ridge court haven ton ham minster bridge"
)
_SPLIT_SHIFT = {"train": 0, "validation": 1, "ood": 2, "hard": 3, "multihop": 4}
_SPLIT_LAP = {"validation": 4, "hard": 5, "multihop": 6}
_STEMS = len(_ONSETS) * len(_CODAS)


def stem(split: str, seed: int, index: int) -> str:
    """A place-like stem ("Halden"); index runs through all stems before one repeats."""
    shift = random.Random(f"names {seed}").randrange(_STEMS)
    at = (index * 599 + shift + _SPLIT_SHIFT.get(split, 5) * 211) % _STEMS
    return _ONSETS[at % len(_ONSETS)] + _CODAS[at // len(_ONSETS)]


def organisation(businesses: tuple[str, ...], split: str, seed: int, index: int) -> str:
    """A full name ("Halden Freight"). The business moves on each time the stems have all been used."""
    base = stem(split, seed, index)
    lap = index // _STEMS + _SPLIT_LAP.get(split, 0)
    business = businesses[(lap + sum(map(ord, base))) % len(businesses)]
    return business.format(stem=base) if "{stem}" in business else f"{base} {business}"
