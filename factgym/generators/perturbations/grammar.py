"""English text machinery that the perturbations share: word lists, spans, clauses, the main verb, openings, articles.

Rules over closed-class words, no parser. Every function is conservative: text that it cannot analyse with certainty
gives None or "fragment", and the operators leave such text alone.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from factgym.generators.base import word_table
from factgym.generators.synthetic.grammar import participle, third_person, word_list, word_map
from factgym.text.numbers import MONTH_NAMES
from factgym.text.words import words_in

# Word lists: closed-class words, verbs, opposites, names of places and people.


def word_set(name: str) -> frozenset[str]:
    """Return a list of words of the table "english" as a set."""
    return frozenset(word_list(name))


@cache
def rewriting_rules(name: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return patterns with their replacements, in order, from the table "rewrites"."""
    return tuple((re.compile(pattern), new) for pattern, new in word_table("rewrites")[name])


CALENDAR = words_in("Monday Tuesday Wednesday Thursday Friday Saturday Sunday Christmas Easter").union(MONTH_NAMES)
FUNCTION_WORDS = word_set("function_words")

VERBS = word_list("verbs")
_AMBIGUOUS_VERBS = word_set("ambiguous_verbs")
_IRREGULAR_PAST = word_map("irregular_past")
PAST = {verb: _IRREGULAR_PAST.get(verb) or participle(verb) for verb in VERBS}
THIRD = {verb: third_person(verb) for verb in VERBS}
BASE_OF_PAST = {past: verb for verb, past in sorted(PAST.items()) if past != verb} | {"found": "find"}
"""Past forms to base forms; a form that is its own base is indistinguishable from the present."""
BASE_OF_THIRD = {third: verb for verb, third in sorted(THIRD.items())}

NO_ANCHOR = word_set("wide_names")
"""Names so wide that a source implies them without naming them."""


# Text machinery.

Span = tuple[int, int]
"""Start and end of a stretch of text, in characters."""

Kind = Literal["statement", "question", "fragment"]

MONTH = "|".join(MONTH_NAMES)
"""The months as alternatives of a pattern."""


class Cues:
    """Patterns of a section of the table "cues", as attributes; each is compiled on first use."""

    def __init__(self, section: str) -> None:
        self._table: dict[str, str] = word_table("cues")[section]

    def __getattr__(self, name: str) -> re.Pattern[str]:
        # Reached once for each name: the compiled pattern becomes an attribute of its own.
        text = re.sub(
            r"%(\w+)%",
            lambda match: "|".join(MONTH_NAMES if match[1] == "months" else word_list(match[1])),
            self._table[name].replace("\n", ""),
        )
        pattern = re.compile(text)
        setattr(self, name, pattern)
        return pattern


_CUES = Cues("grammar")

_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_QUESTION_END = re.compile(r"\?[\"'”’)]*\s+(?=\S)")
_MAX_SENTENCE_CHARS = 2000
"""Longest text whose grammar is analysed; the cost of some patterns is the square of the length."""

_AUXILIARIES = word_set("auxiliaries")
_QUESTION_WORDS = word_set("question_words")
_NOT_BEFORE_VERB = word_set("not_before_verb")
_FREQUENCY = frozenset(
    {"often", "usually", "sometimes", "always", "generally", "typically", "rarely", "also", "frequently"}
)
BEFORE_NAMES = word_set("before_names")
_AFTER_THIRD = word_set("after_third_person")
_INTRANSITIVE = word_set("intransitive")


def protected_spans(sentence: str) -> list[Span]:
    """Return the spans whose numbers name something (a section, an address, a phone number) instead of counting it."""
    return [match.span() for match in _CUES.protected.finditer(sentence[:_MAX_SENTENCE_CHARS])]


def overlaps(span: Span, spans: list[Span]) -> bool:
    """Return whether `span` shares a character with any of the spans."""
    return any(start < span[1] and span[0] < end for start, end in spans)


def split_final_stop(text: str) -> tuple[str, str]:
    """Split off the closing full stop with the space before it as it was ("." or " ." or "")."""
    head = text.rstrip()
    head = head[:-1].rstrip() if head.endswith((".", "!")) else head
    return head, text[len(head) :].rstrip()


def contains_words(text: str, words: str) -> bool:
    """Return whether `words` occur in `text` as whole words, ignoring case."""
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.I) is not None


def in_main_clause(before: str) -> bool:
    """Return whether the word after `before` is in the main clause: no subordinating word since the last comma."""
    comma = max(before.rfind(mark) for mark in ",;")
    return _CUES.subordinate.search(before, comma + 1) is None


def comma_of(text: str) -> str:
    """Return the comma in the style of the text: " ," in tokenised text, where a space precedes commas and full stops."""
    return " ," if re.search(r"\w [.,](?:\s|$)", text) else ","


def agree_article(before: str, word: str) -> str:
    """Return the text before a word with its final "a" or "an" made to agree with the word."""
    match = re.search(r"\b([Aa])n? $", before)
    if match is None:
        return before
    vowel = _CUES.vowel_sound.match(word) is not None and _CUES.consonant_sound.match(word) is None
    return f"{before[: match.start()]}{match[1]}{'n' if vowel else ''} "


@dataclass(frozen=True, slots=True)
class ClaimParts:
    """A claim in two: `lead`, the questions before (with the space after them), and `text`, the part that asserts."""

    lead: str
    text: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Verb:
    """A finite verb of the main clause, `text[start:end]`. base: of a full verb, None of an auxiliary."""

    start: int
    end: int
    word: str
    base: str | None
    tense: Literal["past", "third", "base", "aux"]


def split_claim(claim: str) -> ClaimParts:
    """Split a claim of question-answering data, a question and its answer in one text, at its last question mark.

    Only the answer asserts. It is a statement where it has a finite verb, a fragment otherwise.
    """
    text = claim.rstrip()
    cut = 0
    for match in _QUESTION_END.finditer(text):
        cut = match.end()
    lead, answer = text[:cut], text[cut:]
    first = _WORD.match(answer)
    opens_as_question = first and not cut and first[0].lower() in _QUESTION_WORDS and not answer.endswith(".")
    if answer.endswith(("?", '?"', "?'")) or opens_as_question or _CUES.asks.search(answer):
        return ClaimParts(lead, answer, "question")
    asserts = (not lead or _CUES.answer_opens.match(answer)) and main_verb(answer)
    return ClaimParts(lead, answer, "statement" if asserts else "fragment")


def main_verb(text: str) -> Verb | None:
    """Return the first finite verb of the main clause, or None where it is uncertain.

    An auxiliary decides at once. Without one, exactly one word of the main clause has to be a known verb form in a
    position where it cannot be a noun or participle.
    """
    # First pass: an auxiliary of the main clause. Second pass: full verbs, where a past or third person form comes
    # first and every later candidate is a bare form, which may be an infinitive or a noun.
    if len(text) > _MAX_SENTENCE_CHARS:
        return None
    for match in _WORD.finditer(text):
        word = match[0].replace("’", "'").lower()
        if word in _AUXILIARIES and match.start() and not match[0][0].isupper() and _is_main(text, match.start()):
            return Verb(match.start(), match.end(), match[0], None, "aux")
    verbs: list[Verb] = []
    for before, match in itertools.pairwise(_WORD.finditer(text)):
        word, (start, end) = match[0], match.span()
        if word[0].isupper() or before[0].lower() in _NOT_BEFORE_VERB or word in _AMBIGUOUS_VERBS:
            continue
        if not _is_main(text, start):
            continue
        if word in BASE_OF_PAST:
            verbs.append(Verb(start, end, word, BASE_OF_PAST[word], "past"))
        elif word in BASE_OF_THIRD and _is_third_person(text, match):
            verbs.append(Verb(start, end, word, BASE_OF_THIRD[word], "third"))
        elif word in VERBS and _has_plural_subject(text, before):
            verbs.append(Verb(start, end, word, word, "base"))
    unique = verbs and all(verb.tense == "base" for verb in verbs[1:])
    return verbs[0] if unique else None


def _is_main(text: str, start: int) -> bool:
    """Whether the position is in the main clause and outside quotation marks and brackets."""
    before = text[:start]
    if _CUES.embedded.search(before):
        return False
    if before.count('"') % 2 or before.count("(") != before.count(")") or before.count("“") != before.count("”"):
        return False
    return in_main_clause(before)


def _is_third_person(text: str, match: re.Match[str]) -> bool:
    """Whether a form that may be a plural noun is a verb, by the word after it."""
    after = _WORD.search(text, match.end())
    if after is None:
        return match[0] in _INTRANSITIVE
    return after[0] in _AFTER_THIRD or after[0][0].isupper() or after[0].endswith("ly")


def _has_plural_subject(text: str, before: re.Match[str]) -> bool:
    """Whether the word before a verb, adverbs of frequency left out, is plural."""
    word = before[0]
    if word in _FREQUENCY:
        words = _WORD.findall(text[: before.start()])
        word = words[-1] if words else ""
    word = word.lower()
    plural_noun = word.endswith("s") and not word.endswith(("ss", "us", "'s", "’s"))
    return plural_noun or word in ("you", "they", "we", "people")


def lowercase_opening(text: str, names: list[Span], source: str) -> str | None:
    """Return the text as written after an opening phrase, its first letter small unless it is a name's.

    source: other text that shows how the first word is written inside a sentence. None where that is uncertain.
    """
    match = _WORD.search(text)
    word = match[0] if match and match.start() <= 1 else ""
    if not text or not text[0].isalpha():
        return text if text[:1].isdigit() else None
    if any(start == 0 for start, _ in names) or word == "I" or any(char.isupper() for char in text.split(" ")[0][1:]):
        return text
    if text[len(word) :].lstrip()[:1].isupper() and word.lower() not in BEFORE_NAMES:
        return None
    if word.lower() in FUNCTION_WORDS:
        return text[0].lower() + text[1:]
    small = re.search(rf"(?<!\w)(?<![.?!:] ){re.escape(word.lower())}\b", source)
    # A defined term, such as a contract's "Customer", keeps its capital though the word occurs without it too.
    is_term = re.search(rf"(?<=[a-z,;] ){re.escape(word)}\b", source)
    return text[0].lower() + text[1:] if small and not is_term else None


def prepend_phrase(text: str, phrase: str, names: list[Span], source: str) -> str | None:
    """Return the statement after an opening phrase and a comma; see `lowercase_opening`."""
    lowered = lowercase_opening(text, names, source)
    return None if lowered is None else f"{phrase}{comma_of(text)} {lowered}"


def append_phrase(text: str, phrase: str) -> str | None:
    """Return the statement with a phrase after a comma at its end; None where a closing mark would end up inside."""
    head, stop = split_final_stop(text)
    if not head or not (head[-1].isalnum() or head[-1] in ")%'\"") or stop.strip() not in ("", "."):
        return None
    if head.endswith((".'", '."', " '", ' "')):
        return None
    return f"{head}{comma_of(text)} {phrase}{stop}"
