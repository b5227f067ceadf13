"""Words of a text: the terms that every lexical index shares, and the stop words that they leave out.

`terms` is the BM25 analyser. It has no stemming: a stemmer conflates exactly what a claim check must keep apart,
"terminate" and "termination for cause", and keeps a ranking from being checked against a scorer of three lines. It is
linear in the text, also where the text is hostile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from factgym.text.folding import nfkc
from factgym.text.languages import UNSPACED

MAX_QUERY_CHARS = 16_384
"""Characters of a query that are read; the rest is ignored."""

MAX_QUERY_TERMS = 256
"""Terms of a query that are scored, its first ones; far beyond any honest question, and a bound on a hostile one."""


def words_in(text: str) -> frozenset[str]:
    """Return the words of a list that is written as a text, split at white space."""
    return frozenset(text.split())


STOP_WORDS = words_in(
    "a an and are as at be been but by did do does for from had has have he her his how i if in into is it its me my"
    " of on or our s she so such t that the their them then there these they this those to was we were what when"
    " where which who whom whose why will with you your"
)
"""Function and question words that `terms` drops; negations, quantifiers and modals (no, all, may, must) carry facts."""

_WORD = re.compile(r"\w++(?:(?<=\d)[.,](?=\d)\w++)*+")
_GROUPED_NUMBER = re.compile(r"[0-9][.,][0-9]")
_GROUPING = re.compile(r"(?<=[0-9])[.,](?=[0-9])")
_TYPOGRAPHIC = "’‘“”–—…•\xa0"
_DECIMAL_POINT = "\x00"
_ASCII_WORDS = {ord(c): c.lower() if c.isalnum() or c == "_" else " " for c in map(chr, range(128))} | {0: "."}
"""For `str.translate`: word characters lower-cased, the placeholder of a decimal point restored, the rest spaces."""

_UNSPACED_RUN = re.compile(f"{UNSPACED.pattern}+")


def terms(text: str) -> list[str]:
    """Return the index terms of `text` in order, with repeats: lower-cased words without the stop words.

    A word is a run of Unicode word characters; between digits a full stop stays in the word and a comma is dropped
    ("Section 4.2" gives `4.2`, "10,000.50" gives `10000.50`). English is assumed only in the stop list.
    """
    if not text.isascii():
        for char in _TYPOGRAPHIC:
            text = text.replace(char, " ")
    # Almost every English text takes the second path, by a translation table, which gives the same words sooner.
    if not text.isascii() or _DECIMAL_POINT in text:
        words = [word.replace(",", "") for word in _WORD.findall(nfkc(text).lower())]
        if UNSPACED.search(text):
            words = [part for word in words for part in _parts(word)]
    else:
        if _GROUPED_NUMBER.search(text):
            text = _GROUPING.sub(lambda mark: _DECIMAL_POINT if mark.group() == "." else "", text)
        words = text.translate(_ASCII_WORDS).split()
    return [word for word in words if word not in STOP_WORDS]


def _parts(word: str) -> Iterator[str]:
    """Yield a word, and of a script without spaces its pairs of neighbouring letters (as Lucene's CJKBigramFilter)."""
    position = 0
    for match in _UNSPACED_RUN.finditer(word):
        if match.start() > position:
            yield word[position : match.start()]
        run, position = match[0], match.end()
        yield from (run[n : n + 2] for n in range(max(1, len(run) - 1)))
    if position < len(word):
        yield word[position:]


def query_terms(query: str) -> list[str]:
    """Return the `terms` of a query within the bounds `MAX_QUERY_CHARS` and `MAX_QUERY_TERMS`."""
    return list(_bounded_terms(query[:MAX_QUERY_CHARS]))


@lru_cache(maxsize=256)  # a search uses a query's terms twice: to rank passages, and to choose the sentences to show
def _bounded_terms(query: str) -> tuple[str, ...]:
    return tuple(terms(query)[:MAX_QUERY_TERMS])
