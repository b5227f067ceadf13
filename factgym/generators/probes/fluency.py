"""Whether a changed claim reads: faults that it has and its original has not. No operator's code is used here.

Real claims come with faults of their own (tokenised punctuation, missing full stops), and a probe keeps them; only
what the change brought in counts against it.
"""

from __future__ import annotations

import re
from collections import Counter

from factgym.generators.synthetic.words import listed

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_BRACKETS = ("()", "[]", "{}", "“”")
_LEFTOVER = re.compile(r"[{}\x00-\x08\x0b-\x1f]|\bNone\b|__|<[a-z/]|\bTODO\b|\[\w+\]")
_MARKS = re.compile(r"[,;:]\s*[.,;:!?]|\.\s*,|\.{2}(?!\.)|\?\s*\.|!\s*\.| ,\w|,,")
_ARTICLE = re.compile(r"\b([Aa]n?) [\"'“‘]?([A-Za-z][\w’'.-]*|\d[\d,.]*)")
_SOUNDS_VOWEL = re.compile(
    r"hour|hon(?:est|or|our)|heir|(?:[FLMNRSX]|[AEIO])(?:[A-Z]{1,}|\b|-)|[aeio]|u(?!ni(?!n|m)|s[ae]|ti|r[aeiou]|bi|k)",
    0,
)
_SOUNDS_CONSONANT = re.compile(r"eu|ewe|one\b|once|one-|ou[ij]|U\b|U\.?[SKN]|Eu|One")
_VOWEL_DIGITS = re.compile(r"8|11(?!\d\d\d?\b(?!,))|18(?!\d\b)")
_DO_PAST = re.compile(r"\b(?:did|does|do) not \w+ed\b(?<!need)(?<!feed)(?<!exceed)(?<!succeed)(?<!speed)")
_DOUBLE_NOT = re.compile(r"\bnot (?:not|never|no)\b|n['’]t not\b", re.I)
_CAPITALISED = re.compile(
    r"(?<=[a-z,;] )(?:The|A|An|It|He|She|They|We|You|His|Her|Its|Their|There|This|That|In|On|At|Who|What|When|Where|Which"
    r"|How|Did|Does|Is|Are|Was|Were)\b(?! [A-Z])"
)
_ONE_MANY = re.compile(
    r"\b(?:one|1) [a-z]+(?<!s)(?<!u)s\b(?<!ss)|\b(?:two|three|four|five|six|seven|eight|nine|ten) (?:year|day|month|week|hour|time|member|film|album|song|people's|child|game|season)\b(?!-)"
)
_DOUBLED_FINE = frozenset({"had", "that", "very", "so", "bora", "new", "duran", "who", "boom", "yo", "really"})
_NOT_NAMES = frozenset(
    listed(
        "the a an his her its their our my your all some many most every each no both this that these those there in on at by"
        " for from with as two three four five six seven eight nine ten during under after before"
    )
)
"""Words that may stand before a name with a capital only because they open the sentence."""
_SHORTEST, _LONGEST = 0.5, 2.2
_MORE = 130
"""Characters that a short claim may grow by, whatever the ratio."""


def fluency_faults(text: str, original: str = "") -> list[str]:
    """What reads wrong in `text` and not already in `original`; empty when nothing does."""
    before = Counter(_faults(original))
    found = list(Counter(_faults(text)) - before)
    if original:
        found += _against(text, original)
    return found


def _faults(text: str) -> list[str]:
    faults = [f"unbalanced {pair}" for pair in _BRACKETS if text.count(pair[0]) != text.count(pair[1])]
    faults += ['unbalanced "'] * (text.count('"') % 2)
    faults += [f"doubled word {word!r}" for word in _doubled(text)]
    faults += [f"article {one!r}" for one in _articles(text)]
    faults += [f"punctuation {match[0]!r}" for match in _MARKS.finditer(text)]
    faults += [f"leftover {match[0]!r}" for match in _LEFTOVER.finditer(text)]
    faults += [f"capital {match[0]!r}" for match in _CAPITALISED.finditer(text)]
    faults += [f"verb form {match[0]!r}" for match in _DO_PAST.finditer(text)]
    faults += [f"double negation {match[0]!r}" for match in _DOUBLE_NOT.finditer(text)]
    faults += [f"number {match[0]!r}" for match in _ONE_MANY.finditer(text)]
    return faults + (["double space"] if re.search(r"\S  \S", text) else [])


def _doubled(text: str) -> list[str]:
    pairs = re.finditer(r"\b([^\W\d_]+) \1\b", text, re.I)
    return [match[1] for match in pairs if match[1].lower() not in _DOUBLED_FINE]


def _articles(text: str) -> list[str]:
    """Wrong uses of "a" and "an" that the spelling shows; what it does not show is let pass."""
    wrong = []
    for match in _ARTICLE.finditer(text):
        article, word = match[1].lower(), match[2]
        if (
            match[1] == "A"
            and match.start()
            and text[match.start() - 1] != "\n"
            and text[: match.start()].rstrip()[-1:] not in ".?!"
        ):
            continue
        if word[0].isdigit():
            vowel = _VOWEL_DIGITS.match(word) is not None
        elif _SOUNDS_CONSONANT.match(word):
            vowel = False
        else:
            vowel = _SOUNDS_VOWEL.match(word if word.isupper() else word.lower()) is not None
        if vowel != (article == "an"):
            wrong.append(match[0])
    return wrong


def _against(text: str, original: str) -> list[str]:
    faults = []
    if not _SHORTEST * len(original) <= len(text) <= max(_LONGEST * len(original), len(original) + _MORE):
        faults.append("length")
    if text[:1].islower() and not original[:1].islower():
        faults.append("sentence case")
    if _last_mark(text) != _last_mark(original):
        faults.append("final punctuation")
    return faults + [f"name in lower case {word!r}" for word in _small_names(text, original)]


def _last_mark(text: str) -> str:
    last = text.rstrip()[-1:]
    return last if last in ".?!" else ""


def _small_names(text: str, original: str) -> list[str]:
    """Words that the original writes with a capital inside a run of names, and the text small."""
    runs = re.findall(r"(?<![\w'’])([A-Z][\w'’-]+) (?=[A-Z][a-z])", original)
    words = {word for word in runs if word.lower() not in _NOT_NAMES}
    inside = set(re.findall(r"(?<=[a-z,] )[A-Z][\w'’-]+", original))
    small = set(_WORD.findall(text)) - set(_WORD.findall(original))
    return sorted(word for word in words | inside if word.lower() in small and word not in text)
