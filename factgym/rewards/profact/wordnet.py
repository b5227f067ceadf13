"""The synonyms of a word as METEOR asks WordNet for them, from a table that comes with the package.

`synonyms(word)` is what NLTK 3.9's METEOR gathers: the names of the lemmas of `wordnet.synsets(word)` that are single
words, where `synsets` looks up the word and its base forms by WordNet's own rules (morphy). Names with a capital are
left out, since METEOR compares words in lower case. Nothing is downloaded. The table is text, read whole (2.8 MB) and
searched in place: the first look-up takes some tens of milliseconds, a later one some microseconds. How the table is
made is in `factgym.rewards.profact.build_wordnet`; its licence is `WORDNET-LICENSE`.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources

_RULES: tuple[tuple[tuple[str, str], ...], ...] = (
    (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    (),
)
"""How a base form is made from an inflected one: by noun, verb, adjective, adverb."""

_MAX_WORD_CHARS = 80
"""Longer words have no entry: WordNet's longest lemma has 71 letters, and a rule drops three at most."""


def synonyms(word: str) -> frozenset[str]:
    """The words that METEOR takes for synonyms of `word`, in lower case; `word` itself is not among them."""
    lowered = word.lower()
    if len(lowered) > _MAX_WORD_CHARS:
        return frozenset()
    entry = _entry(lowered)
    found: set[str] = set()
    for part in range(len(_RULES)):
        for form in _forms(lowered, part, entry):
            cells = entry if form == lowered else _entry(form)
            found.update(form if one == "*" else one for one in _cell(cells, part))
    found.discard(word)
    return frozenset(found)


def _forms(word: str, part: int, entry: list[str]) -> Iterator[str]:
    """The word and its base forms as this part of speech: of the exception list where it is there, else by rule."""
    yield word
    exceptions = _cell(entry, 4 + part)
    if exceptions:
        yield from exceptions
        return
    for old, new in _RULES[part]:
        if word.endswith(old):
            yield word[: -len(old)] + new


def _cell(entry: list[str], column: int) -> list[str]:
    return entry[column].split() if column < len(entry) else []


def _entry(lemma: str) -> list[str]:
    """The lemma's cells, none when it is not in the table; a binary search over the sorted lines."""
    table, key = _table(), lemma.encode("utf-8", "surrogatepass")
    if not key or b"\n" in key or b"\t" in key:
        return []
    low, high = 0, len(table) - 1
    while low < high:
        start = table.rindex(b"\n", 0, (low + high) // 2 + 1)
        end = table.index(b"\n", start + 1)
        found = table[start + 1 : table.index(b"\t", start + 1, end)]
        if found == key:
            return table[start + 1 : end].decode().split("\t")[1:]
        if found < key:
            low = end
        else:
            high = start
    return []


@lru_cache(maxsize=1)
def _table() -> bytes:
    packed = resources.files(__package__).joinpath("wordnet.tsv.gz").read_bytes()
    return gzip.decompress(packed)
