"""Synonyms of a word as METEOR takes them from WordNet, from a table that comes with the package.

`synonyms(word)` equals the set that NLTK 3.9's METEOR gathers: the single-word lemma names of `wordnet.synsets(word)`,
where `synsets` looks up the word and its base forms by WordNet's rules (morphy). Names with a capital are omitted, since
METEOR compares words in lower case.

The table has one line per lemma, sorted by bytes: the lemma, then by part of speech (noun, verb, adjective, adverb) its
synonyms, then by part of speech the base forms of the exception lists. Cells are separated by tabs and words by spaces;
`*` is the lemma itself. It is read whole (2.8 MB) and searched in place, by blocks of lines: the first look-up takes
some tens of milliseconds, a later one some microseconds. It is built from the files of WordNet 3.0 (Debian's package
`wordnet-base`), whose licence allows this and asks for its notice (`WORDNET-LICENSE`):

    python -m perf wordnet-table /usr/share/wordnet wordnet.tsv.gz
"""

from __future__ import annotations

import gzip
from bisect import bisect_right
from functools import lru_cache
from importlib import resources

_SUFFIX_RULES = tuple(
    [(old, new) for old, _, new in (rule.partition(":") for rule in rules.split())]
    for rules in (
        "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
        "s: ies:y es:e es: ed:e ed: ing:e ing:",
        "er: est: er:e est:e",
        "",
    )
)
"""Suffix and replacement that give a base form, by part of speech. A word with an entry in the exception list of the
part of speech has that entry's base forms alone."""

_BLOCK_BYTES = 1_024

_MAX_WORD_CHARS = 80
"""Longer words have no entry: WordNet's longest lemma has 71 letters, and a rule drops three at most."""


def synonyms(word: str) -> frozenset[str]:
    """Return the words that METEOR takes for synonyms of `word`, in lower case, without `word` itself."""
    lowered = word.lower()
    if len(lowered) > _MAX_WORD_CHARS:
        return frozenset()
    entry, names = _entry(lowered), set[str]()
    for part, rules in enumerate(_SUFFIX_RULES):
        _add_names(names, entry, part, lowered)
        exceptions = entry[4 + part].split() if 4 + part < len(entry) else []
        bases = exceptions or [lowered.removesuffix(old) + new for old, new in rules if lowered.endswith(old)]
        for base in bases:
            _add_names(names, _entry(base), part, base)
    names.discard(word)
    return frozenset(names)


@lru_cache(maxsize=65_536)
def bases(word: str, part: int) -> frozenset[str]:
    """Return the base forms of a word in lower case as a part of speech: 0 a noun, 1 a verb, 2 an adjective, 3 an adverb."""
    if len(word) > _MAX_WORD_CHARS:
        return frozenset()
    entry = _entry(word)
    exceptions = entry[4 + part].split() if 4 + part < len(entry) else []
    forms = exceptions or [
        word,
        *(word.removesuffix(old) + new for old, new in _SUFFIX_RULES[part] if word.endswith(old)),
    ]
    return frozenset(form for form in forms if part < len(_entry(form)) and _entry(form)[part])


@lru_cache(maxsize=65_536)
def is_english(word: str) -> bool:
    """Return whether a word in lower case, or a base form of it, is in the table, which has no names with a capital."""
    bases = (word.removesuffix(old) + new for rules in _SUFFIX_RULES for old, new in rules if word.endswith(old))
    return len(word) <= _MAX_WORD_CHARS and any(map(_entry, (word, *bases)))


def _add_names(names: set[str], entry: list[str], part: int, form: str) -> None:
    """Add the synonyms of a form as this part of speech."""
    if part < len(entry):
        names.update(form if name == "*" else name for name in entry[part].split())


def _entry(lemma: str) -> list[str]:
    """Return the lemma's cells, none for a lemma that is not in the table.

    Bisection over the blocks' first lemmas, then a search within the block.
    """
    key = lemma.encode("utf-8", "surrogatepass")
    if not key or b"\n" in key or b"\t" in key:
        return []
    table, starts, firsts = _blocks()
    block = bisect_right(firsts, key)
    start, end = starts[max(0, block - 1)], starts[block]
    line = table.find(b"\n%b\t" % key, start, end)
    if line < 0:
        return []
    cells = line + len(key) + 2
    return table[cells : table.index(b"\n", cells)].decode().split("\t")


@lru_cache(maxsize=1)
def _blocks() -> tuple[bytes, list[int], list[bytes]]:
    """Return the table, the starts of its blocks of whole lines (with their line break, and the end), and first lemmas."""
    table = gzip.decompress(resources.files(__package__).joinpath("wordnet.tsv.gz").read_bytes())
    starts = {table.rindex(b"\n", 0, offset + 1) for offset in range(0, len(table) - 1, _BLOCK_BYTES)}
    ordered = sorted(starts - {len(table) - 1})
    return table, [*ordered, len(table)], [table[start + 1 : table.index(b"\t", start)] for start in ordered]
