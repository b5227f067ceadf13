"""The synonyms of a word as METEOR asks WordNet for them, from a table that comes with the package.

`synonyms(word)` is what NLTK 3.9's METEOR gathers: the names of the lemmas of `wordnet.synsets(word)` that are single
words, where `synsets` looks up the word and its base forms by WordNet's own rules (morphy). Names with a capital are
left out, since METEOR compares words in lower case. Nothing is downloaded. The table is text, read whole (2.8 MB) and
searched in place, by blocks of lines: the first look-up takes some tens of milliseconds, a later one some microseconds.
How the table is made is in `factgym.rewards.profact.build_wordnet`; its licence is `WORDNET-LICENSE`.
"""

from __future__ import annotations

import gzip
from bisect import bisect_right
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
"""How a base form is made from an inflected one: by noun, verb, adjective, adverb. A word that the exception list of
the part of speech has is made by that list alone."""

_BY_LETTER = tuple(
    {letter: tuple(rule for rule in rules if rule[0][-1] == letter) for letter in {old[-1] for old, _ in rules}}
    for rules in _RULES
)
"""The rules by the last letter of what they replace, in their order."""

_BLOCK_BYTES = 1_024

_MAX_WORD_CHARS = 80
"""Longer words have no entry: WordNet's longest lemma has 71 letters, and a rule drops three at most."""


def synonyms(word: str) -> frozenset[str]:
    """The words that METEOR takes for synonyms of `word`, in lower case; `word` itself is not among them."""
    lowered = word.lower()
    if len(lowered) > _MAX_WORD_CHARS:
        return frozenset()
    entry, found = _entry(lowered), set[str]()
    for part, rules in enumerate(_BY_LETTER):
        if part < len(entry):
            _add(found, entry, part, lowered)
        bases = entry[4 + part].split() if 4 + part < len(entry) else []
        for old, new in () if bases else rules.get(lowered[-1:], ()):
            if lowered.endswith(old):
                bases.append(lowered[: -len(old)] + new)
        for base in bases:
            _add(found, _entry(base), part, base)
    found.discard(word)
    return frozenset(found)


def _add(found: set[str], entry: list[str], part: int, form: str) -> None:
    """Add the synonyms of a form as this part of speech."""
    names = entry[part].split() if part < len(entry) else ()
    if names:
        found.update(names)
        if "*" in names:
            found.discard("*")
            found.add(form)


def _entry(lemma: str) -> list[str]:
    """The lemma's cells, none when it is not in the table: the block that it would be in, and a search in there."""
    key = lemma.encode("utf-8", "surrogatepass")
    if not key or b"\n" in key or b"\t" in key:
        return []
    table, starts, firsts = _blocks()
    block = bisect_right(firsts, key)
    start, end = starts[max(0, block - 1)], starts[block]
    at = table.find(b"\n%b\t" % key, start, end)
    if at < 0:
        return []
    first = at + len(key) + 2
    return table[first : table.index(b"\n", first)].decode().split("\t")


@lru_cache(maxsize=1)
def _blocks() -> tuple[bytes, list[int], list[bytes]]:
    """The table, where its blocks of whole lines start (with their line break, and the end), and their first lemmas."""
    table = _table()
    places = {table.rindex(b"\n", 0, at + 1) for at in range(0, len(table) - 1, _BLOCK_BYTES)}
    starts = sorted(places - {len(table) - 1})
    return table, [*starts, len(table)], [table[at + 1 : table.index(b"\t", at)] for at in starts]


@lru_cache(maxsize=1)
def _table() -> bytes:
    packed = resources.files(__package__).joinpath("wordnet.tsv.gz").read_bytes()
    return gzip.decompress(packed)
