"""The Porter stemmer as NLTK's METEOR uses it: the published algorithm with NLTK's extensions.

Source: M. Porter, "An algorithm for suffix stripping", Program 14.3 (1980), and `nltk.stem.porter.PorterStemmer` in its
default mode (Apache-2.0), whose results these are, word by word: a short list of irregular forms, words of one or two
letters left alone, and `ies`, `ied`, `y`, `alli`, `fulli`, `logi` treated its way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

_VOWELS = frozenset("aeiou")
_VOWEL = re.compile(r"[aeiou]")
_VOWEL_CONSONANT = re.compile(r"[aeiou][^aeiou]")
_Rules = Mapping[str, Sequence[tuple[str, str]]]


def _by_ending(rules: Sequence[tuple[str, str]]) -> _Rules:
    """The rules by the last two letters of their suffix, in their order."""
    endings = dict.fromkeys(suffix[-2:] for suffix, _ in rules)
    return {ending: [rule for rule in rules if rule[0].endswith(ending)] for ending in endings}


_IRREGULAR = {
    "sky": "sky",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "news": "news",
    "innings": "inning",
    "inning": "inning",
    "outings": "outing",
    "outing": "outing",
    "cannings": "canning",
    "canning": "canning",
    "howe": "howe",
    "proceed": "proceed",
    "exceed": "exceed",
    "succeed": "succeed",
}
_STEP_2 = _by_ending(
    (
        ("ational", "ate"),
        ("tional", "tion"),
        ("enci", "ence"),
        ("anci", "ance"),
        ("izer", "ize"),
        ("bli", "ble"),
        ("alli", "al"),
        ("entli", "ent"),
        ("eli", "e"),
        ("ousli", "ous"),
        ("ization", "ize"),
        ("ation", "ate"),
        ("ator", "ate"),
        ("alism", "al"),
        ("iveness", "ive"),
        ("fulness", "ful"),
        ("ousness", "ous"),
        ("aliti", "al"),
        ("iviti", "ive"),
        ("biliti", "ble"),
        ("fulli", "ful"),
    )
)
_STEP_3 = _by_ending(
    (
        ("icate", "ic"),
        ("ative", ""),
        ("alize", "al"),
        ("iciti", "ic"),
        ("ical", "ic"),
        ("ful", ""),
        ("ness", ""),
    )
)
_STEP_4 = _by_ending(
    tuple(
        (suffix, "")
        for suffix in (
            *(
                "al",
                "ance",
                "ence",
                "er",
                "ic",
                "able",
                "ible",
                "ant",
                "ement",
                "ment",
                "ent",
                "ion",
                "ou",
                "ism",
                "ate",
            ),
            *("iti", "ous", "ive", "ize"),
        )
    )
)


def porter_stem(word: str) -> str:
    """The stem of `word`, in lower case. Any text is a word; the time is linear in its length."""
    lowered = word.lower()
    if lowered in _IRREGULAR:
        return _IRREGULAR[lowered]
    if len(word) <= 2:
        return lowered
    stem = _past(_plural(lowered))
    if stem.endswith("y") and len(stem) > 2 and _consonants(stem[:-1])[-1]:
        stem = stem[:-1] + "i"
    return _double_l(_final_e(_step_4(_replaced(_step_2(stem), _STEP_3))))


def _consonants(word: str) -> list[bool]:
    """Whether each letter is a consonant; a `y` is one unless the letter before it is."""
    found: list[bool] = []
    for letter in word:
        found.append(letter not in _VOWELS and not (letter == "y" and bool(found) and found[-1]))
    return found


def _measure(stem: str) -> int:
    """Porter's m: how often a consonant follows a vowel."""
    if "y" not in stem:
        return len(_VOWEL_CONSONANT.findall(stem))
    flags = _consonants(stem)
    return sum(not before and after for before, after in pairwise(flags))


def _has_vowel(stem: str) -> bool:
    """Porter's *v*."""
    return _VOWEL.search(stem) is not None or ("y" in stem and not all(_consonants(stem)))


def _ends_cvc(word: str) -> bool:
    """Porter's *o, and NLTK's extension: a word of one vowel and one consonant."""
    flags = _consonants(word)
    if len(word) == 2:
        return flags == [False, True]
    return flags[-3:] == [True, False, True] and word[-1] not in "wxy"


def _plural(word: str) -> str:
    """Step 1a."""
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    """Step 1b."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        stem = word.removesuffix(suffix)
        if stem != word and _has_vowel(stem):
            return _mended(stem)
    return word


def _mended(stem: str) -> str:
    """What step 1b does to a stem that has lost its `ed` or `ing`."""
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if len(stem) >= 2 and stem[-1] == stem[-2] and _consonants(stem)[-1]:
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _ends_cvc(stem) else stem


def _step_2(word: str) -> str:
    while word.endswith("alli") and _measure(word[:-4]) > 0:
        word = word[:-2]
    replaced = _replaced(word, _STEP_2)
    if replaced == word and word.endswith("logi") and _measure(word[:-3]) > 0:
        return word[:-1]
    return replaced


def _replaced(word: str, rules: _Rules) -> str:
    """The first suffix that the word has is replaced where the rest has a positive measure."""
    for suffix, replacement in rules.get(word[-2:], ()):
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            return rest + replacement if _measure(rest) > 0 else word
    return word


def _step_4(word: str) -> str:
    for suffix, _ in _STEP_4.get(word[-2:], ()):
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            dropped = _measure(rest) > 1 and (suffix != "ion" or rest[-1] in "st")
            return rest if dropped else word
    return word


def _final_e(word: str) -> str:
    """Step 5a."""
    if not word.endswith("e"):
        return word
    rest = word[:-1]
    measure = _measure(rest)
    return rest if measure > 1 or (measure == 1 and not _ends_cvc(rest)) else word


def _double_l(word: str) -> str:
    """Step 5b."""
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
