"""Wording of a claim beside its source, to audit whether a verifier mistakes another wording for another meaning.

SEVA (section 4.2 and its ethics statement) asks for such an audit. Five dimensions, each with a few groups, from the text
alone: English word lists and counts. They describe wording, not truth; the passive is found by pattern and sometimes missed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from factgym.text.folding import fold
from factgym.text.words import terms

COPY = 0.8
"""From this share of copied content words up, a claim counts as copied from its source."""
PARAPHRASE = 0.5
"""Under this share, a claim counts as a paraphrase; between the two it is mixed."""
SHORT = 8
"""Up to this many words a claim is short."""
LONG = 20
"""From this many words up a claim is long."""


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@cache
def _words(kind: str) -> frozenset[str]:
    """Return the words of a kind in `style.toml`."""
    text = resources.files("factgym.benchmarks.statistics").joinpath("style.toml").read_text("utf-8")
    return frozenset(tomllib.loads(text)[kind].split())


@dataclass(frozen=True, slots=True)
class Style:
    """The wording of a claim.

    copied: share in [0, 1] of its distinct content words that its source has too; 1 where it has none. words: their
    number, function words included. hedged, numbers, passive: whether it has such words or such a construction.
    """

    copied: float
    words: int
    hedged: bool
    numbers: bool
    passive: bool


def style_of(claim: str, source: str) -> Style:
    """Measure a claim beside its source. Linear in both texts; equal for texts that differ in white space alone."""
    content = set(terms(claim))
    shared = len(content.intersection(terms(source)))
    written = _WORD.findall(fold(claim))
    words = [word.lower().replace("’", "'") for word in written]
    return Style(
        copied=shared / len(content) if content else 1.0,
        words=len(words),
        hedged=any(word.lower() in _words("hedges") and word != "May" for word in written),
        numbers=any(word in _words("numbers") or any(char.isdigit() for char in word) for word in words),
        passive=any(_is_passive(words, i) for i, word in enumerate(words) if word in _words("be")),
    )


def _is_passive(words: list[str], index: int) -> bool:
    """Return whether a participle follows the form of "be" at `index`, with at most two adverbs between."""
    for word in words[index + 1 : index + 4]:
        if word in _words("participles") or (
            word.endswith("ed") and len(word) > 3 and word not in _words("no_participles")
        ):
            return True
        if word not in _words("between") and not word.endswith("ly") and word not in _words("be"):
            return False
    return False


STYLES: Mapping[str, Callable[[Style], str]] = MappingProxyType(
    {
        "copying": lambda style: (
            "copy" if style.copied >= COPY else "paraphrase" if style.copied < PARAPHRASE else "mixed"
        ),
        "length": lambda style: "short" if style.words <= SHORT else "long" if style.words >= LONG else "medium",
        "hedging": lambda style: "hedged" if style.hedged else "plain",
        "numbers": lambda style: "numbers" if style.numbers else "no numbers",
        "voice": lambda style: "passive" if style.passive else "active",
    }
)
"""The dimensions by name, each with the group that a style belongs to."""


def style_groups(claim: str, source: str) -> dict[str, str]:
    """The group of a claim in every dimension of `STYLES`, such as `{"copying": "paraphrase", "length": "short", …}`."""
    style = style_of(claim, source)
    return {name: group(style) for name, group in STYLES.items()}
