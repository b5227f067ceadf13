"""Names of invented organisations, no two alike within a seed: item i of a split gets name i of a fixed permutation."""

from __future__ import annotations

import random

_ONSETS = (
    "Hal Bren Cor Dun Fal Gar Hest Ives Jor Kel Lan Mar Nor Oak Pem Quen Ros Sel Tar Ul Ver Wex Yar Zel Ald Bar Cal"
    " Der El Fen Gle Har Ist Kir Lor Mel Nes Or Pell Rav Sten Thor Und Vos Whit Ash Birk Cren Drum Esk Farn Gris"
).split()
_CODAS = (
    "den mere wick ford vane well combe stead ley holt bury moor dale gate stow grove brook field worth hurst mont"
    " ridge court haven ton ham minster bridge"
).split()
_SPLIT_SHIFT = {"train": 0, "validation": 1, "ood": 2, "hard": 3, "multihop": 4}
_STEMS = len(_ONSETS) * len(_CODAS)


def stem(split: str, seed: int, index: int) -> str:
    """A place-like stem ("Halden"); index runs through all stems before one repeats."""
    shift = random.Random(f"names {seed}").randrange(_STEMS)
    at = (index * 599 + shift + _SPLIT_SHIFT.get(split, 5) * 211) % _STEMS
    return _ONSETS[at % len(_ONSETS)] + _CODAS[at // len(_ONSETS)]


def organisation(businesses: tuple[str, ...], split: str, seed: int, index: int) -> str:
    """A full name ("Halden Freight"). The business moves on each time the stems have all been used."""
    lap = index // _STEMS + _SPLIT_SHIFT.get(split, 5) * 2
    business = businesses[(lap + index * 7) % len(businesses)]
    base = stem(split, seed, index)
    return business.format(stem=base) if "{stem}" in business else f"{base} {business}"
