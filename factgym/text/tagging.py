"""Part-of-speech tags and chunks of English sentences, from a closed-class lexicon, a verb list and word shapes.

    The Philadelphia Flyers won the Stanley Cup in 1975
    DET ENT---------------- VERB DET ENT------- PREP NUM

The words are in `lexicon.toml`: verbs by their base form, from which the regular forms are made; irregular ones are
written out. Besides, any lower-case word that ends in "ed" is tagged as a verb, so the list matters mostly for present
tenses.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files

DET, PREP, CONJ, SUB, WH, PRON, AUX, BE, ADV = range(1, 10)
VERB, GERUND, NOUN, NUM, DATE, ENT, COMMA, STOP = range(10, 18)
"""Tags of words, and of the chunks that they form."""

WORDS = {
    name: frozenset(words.split())
    for name, words in tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text("utf-8")).items()
}
"""The word lists of `lexicon.toml` by name."""

MONTHS, JOINERS, ROLES = (WORDS[name] for name in ("months", "joiners", "roles"))
POSSESSIVES = frozenset(("his", "her", "its", "their", "my", "your", "our"))
"""A subject that begins with one of these names no entity."""

PLACE_PREPOSITIONS = frozenset(("in", "at", "near", "from", "for", "of", "to", "around", "outside"))


def _regular_forms(base: str) -> dict[str, int]:
    if base.endswith("e"):
        stem, third = base[:-1], base + "s"
    elif base.endswith("y") and base[-2] not in "aeiou":
        return {base: VERB, base[:-1] + "ies": VERB, base[:-1] + "ied": VERB, base + "ing": GERUND}
    else:
        stem, third = base, base + ("es" if base.endswith(("s", "x", "z", "ch", "sh")) else "s")
    return {base: VERB, third: VERB, stem + "ed": VERB, stem + "ing": GERUND}


def _build_lexicon() -> dict[str, int]:
    lexicon: dict[str, int] = {}
    for base in sorted(WORDS["regular_verbs"]):
        lexicon.update(_regular_forms(base))
    # Later classes override earlier classes: a closed class beats a verb form.
    for name, tag in (
        *(("irregular_verbs", VERB), ("no_past", NOUN), ("no_gerund", NOUN), ("adverbs", ADV)),
        *(("subordinators", SUB), ("prepositions", PREP), ("pronouns", PRON), ("wh", WH), ("determiners", DET)),
        *(("conjunctions", CONJ), ("auxiliaries", AUX), ("be", BE)),
    ):
        lexicon.update(dict.fromkeys(WORDS[name], tag))
    lexicon.update({",": COMMA, ";": STOP, ":": STOP, "(": COMMA, ")": COMMA, "—": COMMA})
    return lexicon


LEXICON: Mapping[str, int] = _build_lexicon()
"""Lower-case word -> tag. "this", "that", "these" and "those" have one tag, DET, whatever their use."""

Chunk = tuple[int, int, int]
"""Tag, and the words [start, end)."""

_TOKEN = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)|\w[\w’'&–/-]*(?:\.\w[\w’'&–/-]*)*|[,;:()—&]")
_MAX_CACHED_WORDS = 200_000
_MAX_CACHED_CHARS = 64


def tokenize(text: str) -> list[str]:
    """Return the words, and the punctuation that separates clauses."""
    return _TOKEN.findall(text)


class _WordTags(dict[str, int]):
    """Word -> tag: the lexicon's, and a guess by the word's shape for other words, of which a bounded number is cached."""

    def __missing__(self, word: str) -> int:
        tag = _guess_tag(word)
        if len(self) < _MAX_CACHED_WORDS and len(word) < _MAX_CACHED_CHARS:
            self[word] = tag
        return tag


def _guess_tag(word: str) -> int:
    """Return the tag of a word outside the lexicon, by its shape and ending."""
    if word[0].isupper():
        return ENT
    if word[0].isdigit():
        return NUM
    if len(word) >= 5 and word.endswith(("ed", "ly")):
        return VERB if word.endswith("ed") else ADV
    return GERUND if len(word) > 5 and word.endswith("ing") else NOUN


_WORD_TAGS = _WordTags(LEXICON)


def _tag_words(words: Sequence[str]) -> list[int]:
    """Return the tags of a sentence's words: by the lexicon, then corrected for the capital of the first word."""
    tags = [_WORD_TAGS[word] for word in words]
    if tags[0] == ENT:
        # A capital at the beginning is no evidence for words of the lexicon.
        first = words[0].lower()
        tag = LEXICON.get(first)
        following = tags[1] if len(tags) > 1 else STOP
        if tag is not None and tag not in (NOUN, VERB, GERUND):
            tags[0] = tag
        elif following not in (VERB, BE, AUX) and first in WORDS["imperatives"]:
            tags[0] = VERB
        elif following in (DET, PREP, PRON, WH) and (tag == GERUND or _guess_tag(first) == GERUND):
            tags[0] = GERUND
        elif first.endswith("ly") and len(words) > 1 and words[1] == ",":
            tags[0] = ADV
    return tags


def chunk(words: Sequence[str]) -> list[Chunk]:
    """Tag words and join those of names and dates into chunks, from left to right."""
    # A deterministic chunker without backtracking: each tag decides how far its chunk reaches.
    tags = _tag_words(words)
    chunks: list[Chunk] = []
    i, size = 0, len(words)
    while i < size:
        tag, start = tags[i], i
        i += 1
        if tag == ENT:
            if words[start] in MONTHS:
                i, tag = _date_end(words, tags, start), DATE
            elif i < size and words[i] in ("of", "for") and words[start].lower() in ROLES:
                tag = NOUN
            else:
                i = _name_end(words, tags, start)
        elif tag == NUM:
            i, tag = _number_end(words, tags, start)
        elif tag == VERB and start and tags[start - 1] in (DET, PREP) and words[start - 1] != "as":
            tag = NOUN  # "the march", "in march"
        chunks.append((tag, start, i))
    return _join_places(words, chunks) if "," in words else chunks


def _name_end(words: Sequence[str], tags: Sequence[int], i: int) -> int:
    """Return the end of the name that begins at `i`: capitalised words, joiners ("of"), numbers as in "Apollo 11"."""
    size = len(words)
    i += 1
    while i < size:
        tag = tags[i]
        if tag == ENT:
            if words[i] in MONTHS and i + 1 < size and tags[i + 1] == NUM:
                break
            i += 1
            continue
        if tag == NUM:
            if len(words[i]) <= 3 and words[i].isdigit():
                i += 1
            break
        if words[i] not in JOINERS or words[i - 1][-2:] in ("'s", "’s"):
            break
        after = i + 1
        if after < size and words[after] in JOINERS:
            after += 1
        if after >= size or tags[after] != ENT:
            break
        i = after + 1
    return i


def _number_end(words: Sequence[str], tags: Sequence[int], i: int) -> tuple[int, int]:
    """Return end and tag of a name that begins with a year ("1989 NCAA Championship"), a date, or a number."""
    if i + 1 < len(words) and tags[i + 1] == ENT:
        if words[i + 1] in MONTHS:
            return _date_end(words, tags, i + 1), DATE
        if len(words[i]) == 4 and words[i].isdigit():
            return _name_end(words, tags, i + 1), ENT
    return i + 1, NUM


def _date_end(words: Sequence[str], tags: Sequence[int], i: int) -> int:
    """Return the end of the date whose month is at `i`: "April 3, 1989", "April 1989", "April"."""
    i += 1
    size = len(words)
    if i < size and tags[i] == NUM:
        i += 1
        if i + 1 < size and words[i] == "," and tags[i + 1] == NUM and len(words[i + 1]) == 4:
            i += 2
    return i


def _join_places(words: Sequence[str], chunks: list[Chunk]) -> list[Chunk]:
    """Join "Seattle, Washington" after a preposition of place into one name."""
    # The last three chunks of `joined` are the context: a reduction of a shift-reduce parser, tried at every name.
    joined: list[Chunk] = []
    for i, current in enumerate(chunks):
        if (
            [tag for tag, _, _ in (*joined[-3:], current)] == [PREP, ENT, COMMA, ENT]
            and words[joined[-3][1]].lower() in PLACE_PREPOSITIONS
            and not _is_subject_or_list(chunks, i)
        ):
            start = joined[-2][1]
            del joined[-2:]
            joined.append((ENT, start, current[2]))
        else:
            joined.append(current)
    return joined


def _is_subject_or_list(chunks: Sequence[Chunk], i: int) -> bool:
    """Return whether the name after a comma is the subject ("At Liverpool, Salah scored …") or an item of a list."""
    first, second = (chunks[k][0] if k < len(chunks) else STOP for k in (i + 1, i + 2))
    if first in (VERB, BE, AUX, ADV):
        return chunks[0][0] == PREP
    return first == CONJ or (first == COMMA and second == CONJ)
