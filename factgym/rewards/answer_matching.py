"""SQuAD's answer normalisation: what two short answers must have in common to count as the same.

It is the normalisation of SQuAD v1.1's `evaluate.py`, which Search-R1, Dr. Zero and EVE use as well: lower case, ASCII
punctuation deleted ("U.S." is "us"), the articles a, an, the dropped, single spaces. English only. Nothing may be left of
a text ("The", "...").
"""

from __future__ import annotations

import re
import string

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalise_answer(text: str) -> str:
    """SQuAD's normalisation: lower case, no ASCII punctuation, no articles, single spaces."""
    text = text.lower()
    # Several times as fast as `str.translate` where a text is not all ASCII.
    for mark in string.punctuation:
        if mark in text:
            text = text.replace(mark, "")
    return " ".join(_ARTICLES.sub(" ", text).split())
