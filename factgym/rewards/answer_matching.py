"""SQuAD's answer normalisation, exact match and token F1.

Source: `evaluate.py` of SQuAD v1.1, which Search-R1, Dr. Zero and EVE (equations 20 and 21) use as well. English only.

    gold "the Eiffel Tower"   prediction "Eiffel tower."       EM 1   F1 1
                              prediction "a tower in Paris"    EM 0   F1 0.4
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalise_answer(text: str) -> str:
    """Return the text in lower case, without ASCII punctuation ("U.S." is "us") and articles, with single spaces.

    The result may be empty ("The", "...").
    """
    text = text.lower()
    # Several times as fast as `str.translate` where a text is not all ASCII.
    for mark in string.punctuation:
        if mark in text:
            text = text.replace(mark, "")
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(answer: str, golds: str | Sequence[str]) -> bool:
    """Return whether the normalised answer equals one of the normalised gold answers; False without any.

    Two texts that are both empty after normalisation match, as in SQuAD's script.
    """
    golds = (golds,) if isinstance(golds, str) else golds
    normalised = normalise_answer(answer)
    return any(normalised == normalise_answer(gold) for gold in golds)


def token_f1(text: str, golds: str | Sequence[str]) -> float:
    """Return the harmonic mean of token precision and recall after normalisation, the best over the golds, 0 to 1."""
    golds = (golds,) if isinstance(golds, str) else golds
    tokens = Counter(normalise_answer(text).split())
    best = 0.0
    # Overlap of bags of words: the intersection of two multisets counts a word as often as both have it.
    for gold in golds:
        gold_tokens = Counter(normalise_answer(gold).split())
        overlap = (tokens & gold_tokens).total()
        if overlap:
            best = max(best, 2.0 * overlap / (tokens.total() + gold_tokens.total()))
    return best
