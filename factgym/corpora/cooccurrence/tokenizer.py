"""Tokenizer of the co-occurrence index, and the numbering of documents' words during a build.

A word is a maximal run of letters, digits and the marks that belong to them:

    tokenize("Men's 4-2 win over the U.S. on 1,000 m²")
    # ['Men', 's', '4', '2', 'win', 'over', 'the', 'U', 'S', 'on', '1', '000', 'm2']

Text is normalised (NFKC) first. Apostrophes, hyphens, full stops, commas and underscores separate, also inside numbers
and abbreviations, so that `Einstein` is found in `Einstein's` and `Saxon` in `Anglo-Saxon`; a query word with such a
mark is a phrase of its parts in adjacent positions, so that `1,000` is found as itself and not as `1` near `000`. Each
ideograph and each kana is a word of its own, as those scripts put no spaces.

With `case="fold"` words are case-folded; with `"keep"`, the default, `Rose` and `rose` are two words, as they are for
the engine that the paper used.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Case = Literal["keep", "fold"]

TOKENIZER = "words-1"
"""Version of `tokenize`, stored in an index; changes whenever its output does."""

_CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u0900-\u0903\u093a-\u094f\u0951-\u0957"
    "\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u0a01-\u0a51\u0b82\u0bbe-\u0bcd\u0c00-\u0c04\u0c3e-\u0c56\u0d00-\u0d03"
    "\u0d3b-\u0d4d\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f84\u102b-\u103e"
    "\u1dc0-\u1dff\u20d0-\u20f0"
)
_WORD = re.compile(rf"[{_CJK}]|(?:(?![{_CJK}])[^\W_][{_MARKS}]*)+")
_PLAIN_WORD = re.compile(r"[^\W_]+")
SPECIAL = re.compile("[\u0300-\u036f\u0483-\u1fff\u20d0-\u20f0\u2c00-\U0010ffff]")
"""A superset of marks and CJK characters; a text without any of them consists of plain words."""

_KEEP = bytes(code if code < 128 and chr(code).isalnum() else 32 for code in range(256))
_ASCII_TABLES = {"keep": _KEEP, "fold": _KEEP.lower()}


def tokenize(text: str, case: Case = "keep") -> list[str]:
    """Return the words of `text` in order."""
    if text.isascii():
        return text.encode().translate(_ASCII_TABLES[case]).decode().split()
    return _find_words(text, case)


def tokenize_bytes(text: str, case: Case = "keep") -> list[bytes]:
    """Return the same words in UTF-8, faster."""
    if text.isascii():
        return text.encode().translate(_ASCII_TABLES[case]).split()
    return " ".join(_find_words(text, case)).encode("utf-8", "surrogatepass").split()


def _find_words(text: str, case: Case) -> list[str]:
    text = unicodedata.normalize("NFKC", text)
    if case == "fold":
        text = unicodedata.normalize("NFKC", text.casefold())
    words: list[str] = (_WORD if SPECIAL.search(text) else _PLAIN_WORD).findall(text)
    return words


class NumberedDocuments(NamedTuple):
    """Documents as word ids, which are given in the order of first appearance."""

    words: list[bytes]
    """By id, in UTF-8."""
    tokens: list[NDArray[np.uint32]]
    """Ids of all documents' words, in consecutive arrays."""
    lengths: NDArray[np.int64]
    """Words of each document."""


class _WordIds(dict[bytes, int]):
    def __missing__(self, word: bytes) -> int:
        word_id = self[word] = len(self)
        return word_id


def number_documents(texts: Iterator[str], case: Case, positions: int | None) -> NumberedDocuments:
    """Number the words of documents until they fill `positions` (all, for None); documents are never split."""
    ids, tokens, lengths = _WordIds(), [], []
    for text in texts:
        words = tokenize_bytes(text, case)
        tokens.append(np.fromiter(map(ids.__getitem__, words), np.uint32, len(words)))
        lengths.append(len(words))
        if positions is not None:
            positions -= len(words) + 1
            if positions <= 0:
                break
    return NumberedDocuments(list(ids), tokens, np.array(lengths, np.int64))
