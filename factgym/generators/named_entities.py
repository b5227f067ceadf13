"""Named entities of a passage, found by rules: runs of capitalised words, dates and numbers.

    entities("Pál Gábor (2 November 1932 – 21 October 1987) directed 20 films.")
    -> [(0, 9, "name"), (11, 26, "date"), (29, 44, "date"), (55, 57, "number")]

The scripted proposer hides an entity to make a question, and the scripted solver chooses among them. No list of names
is needed, so the rules work on invented worlds as well. A capital at the beginning of a sentence is weak evidence: a
single word there counts only when it is capitalised inside a sentence or in the title too, or when a definition follows.
Time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from factgym.generators.perturbations.grammar import CALENDAR, FUNCTION_WORDS, Cues
from factgym.text.words import words_in

_CUES = Cues("named_entities")

Entity = tuple[int, int, str]
"""Start and end of the span, and "name", "date" or "number"."""

_WORD = re.compile(r"(?:[^\W\d_]\.){1,8}(?![^\W\d_])|[^\W_][\w]*(?:['’&-]\w+)*")
_PARENTHESIS = re.compile(r" \([^()]*\)$")
_BEFORE_NAMES = words_in("Dr Mr Mrs Ms St Mt Ft Lt Col Gen Sgt Capt Rev Hon Prof")
_LINKS = words_in("of the de la le du von van der den del da di al bin ibn y upon")
_SENTENCE_ENDS = frozenset(".?!:;\n…•")
_OPENING_MARKS = "\"'“‘([«*_ \t"
_ORDINARY_ENDINGS = ("ed", "ing", "ly")
_ORDINARY = words_in("born built written later now today once earlier originally")

_POSSESSIVE = ("'s", "’s")


def entities(text: str, title: str = "") -> list[Entity]:
    """Return the disjoint spans of the entities in `text`, in order.

    title: of the passage; each occurrence of it is a name, and its words are names at the opening of a sentence too.
    """
    # A span that an earlier kind claimed is masked, so that no later kind reads into it.
    titles = [(start, end, "name") for start, end in _occurrences(_PARENTHESIS.sub("", title).strip(), text)]
    masked = _mask(text, titles)
    dates = [(match.start(), match.end(), "date") for match in _CUES.date.finditer(masked)]
    masked = _mask(masked, dates)
    names = [(start, end, "name") for start, end in _NameFinder(masked, title).find()]
    masked = _mask(masked, names)
    numbers = [(match.start(), match.end(), "number") for match in _CUES.number.finditer(masked)]
    return sorted([*titles, *dates, *names, *numbers])


def _occurrences(title: str, text: str) -> Iterator[tuple[int, int]]:
    """Spans of a title of more than one letter in the text, as whole words."""
    if len(title) < 2 or not title[0].isupper():
        return
    start = text.find(title)
    while start >= 0:
        end = start + len(title)
        if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
            yield start, end
        start = text.find(title, end)


def _mask(text: str, spans: Sequence[Entity]) -> str:
    """Replace each span by as many characters that belong to no word."""
    parts: list[str] = []
    previous = 0
    for start, end, _ in spans:
        parts += (text[previous:start], "\0" * (end - start))
        previous = end
    return "".join((*parts, text[previous:]))


class _NameFinder:
    """Runs of capitalised words in a text, joined by at most two linking words ("Burton upon Trent")."""

    def __init__(self, text: str, title: str) -> None:
        self._text = text
        self._spans = [(match.start(), match.end()) for match in _WORD.finditer(text)]
        self._words = [text[start:end] for start, end in self._spans]
        self._opens = [self._opens_sentence(start) for start, _ in self._spans]
        self._lower = {word for word in self._words if not word[0].isupper()}
        self._capitalised = {word for word in title.split() if word[:1].isupper()}
        for word, opens in zip(self._words, self._opens, strict=True):
            if word[0].isupper() and not opens:
                self._capitalised.add(_without_possessive(word))

    def _opens_sentence(self, start: int) -> bool:
        """Whether a sentence begins at `start`, up to seven quotation marks and brackets before it ignored."""
        before = self._text[max(start - 7, 0) : start].rstrip(_OPENING_MARKS)
        last = start - (min(start, 7) - len(before)) - 1
        return last < 0 or self._text[last] in _SENTENCE_ENDS

    def find(self) -> Iterator[tuple[int, int]]:
        index = 0
        while index < len(self._words):
            stop = self._end_of_run(index)
            if stop > index:
                span = self._trim(index, stop)
                if span:
                    yield span
            index = max(stop, index + 1)

    def _end_of_run(self, first: int) -> int:
        """Index after the last word of the run that begins at word `first`; `first` itself where there is none."""
        if not self._words[first][0].isupper():
            return first
        # Longest match: the run ends at its last capitalised word, with at most two linking words in between.
        last, index = first, first
        while index + 1 < len(self._words) and index - last < 3:
            between = self._text[self._spans[index][1] : self._spans[index + 1][0]]
            if between not in ("", " ") and not (between == ". " and self._words[index] in _BEFORE_NAMES):
                break
            index += 1
            if self._words[index][0].isupper():
                last = index
            elif self._words[index] not in _LINKS:
                break
        return last + 1

    def _trim(self, first: int, stop: int) -> tuple[int, int] | None:
        """Drop an opening word that is no name, closing months and weekdays, and a possessive; None if nothing is left."""
        text, words = self._text, self._words
        in_company = stop - first > 1 or _CUES.defined.match(text, self._spans[first][1]) is not None
        if self._opens[first] and not self._opening_word_is_name(words[first], in_company):
            first += 1
            while first < stop and not words[first][0].isupper():
                first += 1
        while stop > first and words[stop - 1] in CALENDAR:
            stop -= 1
        if first >= stop:
            return None
        start = self._spans[first][0]
        name = _without_possessive(text[start : self._spans[stop - 1][1]])
        if len(name) < 2 or name in CALENDAR or name.lower() in FUNCTION_WORDS:
            return None
        return start, start + len(name)

    def _opening_word_is_name(self, word: str, in_company: bool) -> bool:
        """Whether the first word of a sentence belongs to a name. in_company: the text after it suggests one."""
        bare, lower = _without_possessive(word), word.lower()
        if lower in FUNCTION_WORDS:
            return False
        if bare in self._capitalised or any(char.isupper() for char in bare[1:]):
            return True
        ordinary = lower in self._lower or lower in _ORDINARY or lower.endswith(_ORDINARY_ENDINGS)
        return in_company and not ordinary


def _without_possessive(word: str) -> str:
    return word[:-2] if word.endswith(_POSSESSIVE) else word
