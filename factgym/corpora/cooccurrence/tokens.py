"""What a word of the co-occurrence index is: a maximal run of letters, digits and the marks that belong to them.

    tokenize("Men's 4-2 win over the U.S. on 1,000 m²")
    # ['Men', 's', '4', '2', 'win', 'over', 'the', 'U', 'S', 'on', '1', '000', 'm2']

Text is normalised (NFKC) first. Apostrophes, hyphens, full stops, commas and underscores separate, also inside numbers
and abbreviations, so that `Einstein` is found in `Einstein's` and `Saxon` in `Anglo-Saxon`; a query word that holds
such a mark stands for its pieces in adjacent positions, so that `1,000` is found as itself and not as `1` near `000`.
Each ideograph and each kana is a word of its own, as those scripts put no spaces.

With `case="fold"` words are case-folded; with `"keep"`, the default, `Rose` and `rose` are two words, as they are for
the engine that the paper used.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Case = Literal["keep", "fold"]

TOKENIZER = "words-1"
"""Names the behaviour of `tokenize` in an index; changes whenever its output does."""

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
"""Where marks and CJK characters are found, and much else; a text without any of them has plain words only."""

_KEEP = bytes(code if code < 128 and chr(code).isalnum() else 32 for code in range(256))
_TABLES = {"keep": _KEEP, "fold": _KEEP.lower()}


def tokenize(text: str, case: Case = "keep") -> list[str]:
    """The words of `text` in order."""
    if text.isascii():
        return text.encode().translate(_TABLES[case]).decode().split()
    return _findall(text, case)


def tokenize_bytes(text: str, case: Case = "keep") -> list[bytes]:
    """The same words in UTF-8, faster."""
    if text.isascii():
        return text.encode().translate(_TABLES[case]).split()
    return " ".join(_findall(text, case)).encode("utf-8", "surrogatepass").split()


def _findall(text: str, case: Case) -> list[str]:
    text = unicodedata.normalize("NFKC", text)
    if case == "fold":
        text = unicodedata.normalize("NFKC", text.casefold())
    found: list[str] = (_WORD if SPECIAL.search(text) else _PLAIN_WORD).findall(text)
    return found
