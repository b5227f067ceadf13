"""What a passage names: runs of capitalised words, dates and numbers, found by rules.

    entities("Pál Gábor (2 November 1932 – 21 October 1987) directed 20 films.")
    -> [(0, 9, "name"), (11, 26, "date"), (29, 44, "date"), (55, 57, "number")]

The scripted proposer hides one of them to make a question, and the scripted solver chooses among them. No list of
names is needed, which is why it works on invented worlds as well. A capital at the beginning of a sentence says
little: a single word there counts only when it is written with a capital inside a sentence too or in the title, or when
it is said what it is.
Everything is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from factgym.generators.perturbations.lexicon import CALENDAR, FUNCTION_WORDS
from factgym.generators.synthetic.grammar import MONTHS, listed

Entity = tuple[int, int, str]
"""Start and end of the stretch, and "name", "date" or "number"."""

_MONTH = "|".join(MONTHS)
_DATE = re.compile(
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH})(?:,? \d{{3,4}})?"
    rf"|(?:{_MONTH}) \d{{1,2}}(?:st|nd|rd|th)?(?:, ?\d{{3,4}})?(?!\d)"
    rf"|(?:{_MONTH})(?:,| of)? \d{{4}}"
    r"|(?<![\d.,$€£-])(?:1[0-9]|20)\d\d(?:s\b)?(?![\d%]|[.,-]\d))(?!\w)"
)
_NUMBER = re.compile(
    r"(?<![\w.,])(?:[$€£] ?)?\d{1,18}(?:[.,]\d{1,18}){0,6}(?:%| ?(?:percent|thousand|million|billion|trillion)\b)?(?!\w)"
)
_WORD = re.compile(r"(?:[^\W\d_]\.){1,8}(?![^\W\d_])|[^\W_][\w]*(?:['’&-]\w+)*")
_PARENTHESIS = re.compile(r" \([^()]*\)$")
_BEFORE_NAMES = frozenset(listed("Dr Mr Mrs Ms St Mt Ft Lt Col Gen Sgt Capt Rev Hon Prof"))
_LINKS = frozenset(listed("of the de la le du von van der den del da di al bin ibn y upon"))
_OPENS = frozenset(".?!:;\n…•")
_QUOTES = "\"'“‘([«*_ \t"
_ORDINARY_ENDINGS = ("ed", "ing", "ly")
_ORDINARY = frozenset(("born", "built", "written", "later", "now", "today", "once", "earlier", "originally"))
_DEFINED = re.compile(r" (?:is|was) (?:an?|the)\b| ?\(")
"""What follows a name that an article is about."""

_POSSESSIVE = ("'s", "’s")


def entities(text: str, title: str = "") -> list[Entity]:
    """`(start, end, kind)` of what `text` names, in order and disjoint; `text[start:end]` is the entity's text.

    title: of the passage; it is a name wherever it stands, and its words are at the beginning of a sentence too.
    """
    titles = [(start, end, "name") for start, end in _verbatim(_PARENTHESIS.sub("", title).strip(), text)]
    masked = _masked(text, titles)
    dates = [(match.start(), match.end(), "date") for match in _DATE.finditer(masked)]
    masked = _masked(masked, dates)
    names = [(start, end, "name") for start, end in _names(masked, title)]
    masked = _masked(masked, names)
    numbers = [(match.start(), match.end(), "number") for match in _NUMBER.finditer(masked)]
    return sorted([*titles, *dates, *names, *numbers])


def _verbatim(title: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a title of more than one letter stands in the text as whole words."""
    if len(title) < 2 or not title[0].isupper():
        return
    at = text.find(title)
    while at >= 0:
        end = at + len(title)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            yield at, end
        at = text.find(title, end)


def _masked(text: str, spans: Sequence[Entity]) -> str:
    """The text with every stretch replaced by as many marks that are no word characters."""
    parts: list[str] = []
    at = 0
    for start, end, _ in spans:
        parts += (text[at:start], "\0" * (end - start))
        at = end
    return "".join((*parts, text[at:]))


def _names(text: str, title: str) -> Iterator[tuple[int, int]]:
    words = [(match.start(), match.end()) for match in _WORD.finditer(text)]
    inside = {word for word in title.split() if word[:1].isupper()}
    small: set[str] = set()
    opening = [_is_opening(text, start) for start, _ in words]
    for (start, end), first in zip(words, opening, strict=True):
        if not text[start].isupper():
            small.add(text[start:end])
        elif not first:
            inside.add(_bare(text[start:end]))
    at = 0
    while at < len(words):
        stop = _run(text, words, at)
        if stop > at:
            span = _trimmed(text, words[at:stop], opening[at], inside, small)
            if span:
                yield span
        at = max(stop, at + 1)


def _is_opening(text: str, start: int) -> bool:
    """Whether a sentence begins at `start`, quotation marks and brackets before it aside."""
    at = start - 1
    while at >= 0 and start - at < 8 and text[at] in _QUOTES:
        at -= 1
    return at < 0 or text[at] in _OPENS


def _run(text: str, words: Sequence[tuple[int, int]], at: int) -> int:
    """Where the run of capitalised words that begins at word `at` ends; `at` itself when there is none."""
    if not text[words[at][0]].isupper():
        return at
    last, here = at, at
    while here + 1 < len(words) and here - last < 3 and _joined(text, words[here], words[here + 1][0]):
        here += 1
        start, end = words[here]
        if text[start].isupper():
            last = here
        elif text[start:end] not in _LINKS:
            break
    return last + 1


def _joined(text: str, word: tuple[int, int], start: int) -> bool:
    """Whether the word that begins at `start` may go on with the name: one space between, or a title's full stop."""
    between = text[word[1] : start]
    return between in ("", " ") or (between == ". " and text[slice(*word)] in _BEFORE_NAMES)


def _trimmed(
    text: str, run: Sequence[tuple[int, int]], opening: bool, inside: set[str], small: set[str]
) -> tuple[int, int] | None:
    """The run without words that have their capital from the sentence, and without a possessive; None if none is left."""
    at = 0
    alone = len(run) == 1 and not _DEFINED.match(text, run[0][1])
    if opening and not _is_name(text[slice(*run[0])], not alone, inside, small):
        at = 1
        while at < len(run) and not text[run[at][0]].isupper():
            at += 1
    stop = len(run)
    while stop > at and text[slice(*run[stop - 1])] in CALENDAR:
        stop -= 1
    if at >= stop:
        return None
    start, end = run[at][0], run[stop - 1][1]
    end -= 2 if text[start:end].endswith(_POSSESSIVE) else 0
    single = text[start:end]
    return None if end - start < 2 or single in CALENDAR or single.lower() in FUNCTION_WORDS else (start, end)


def _is_name(word: str, more: bool, inside: set[str], small: set[str]) -> bool:
    """Whether the first word of a sentence belongs to a name. more: what follows looks as if it did."""
    bare, lower = _bare(word), word.lower()
    if lower in FUNCTION_WORDS:
        return False
    if bare in inside or any(char.isupper() for char in bare[1:]):
        return True
    return more and lower not in small and lower not in _ORDINARY and not lower.endswith(_ORDINARY_ENDINGS)


def _bare(word: str) -> str:
    return word[:-2] if word.endswith(_POSSESSIVE) else word
