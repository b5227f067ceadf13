"""The part of a claim that asserts something, and the little grammar that the operators need of it.

Claims of question-answering data are a question and its answer in one text; only the answer asserts. A statement is a
text with a finite verb, found by closed-class words and a verb list. Whatever cannot be told is no statement.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Literal

from factgym.generators.corruption.base import in_main_clause
from factgym.generators.probes.lexicon import (
    AMBIGUOUS_VERBS,
    BASE_OF_PAST,
    BASE_OF_THIRD,
    FUNCTION_WORDS,
    VERBS,
)
from factgym.generators.synthetic.words import listed

Kind = Literal["statement", "question", "fragment"]

_QUESTION_END = re.compile(r"\?[\"'”’)]*\s+(?=\S)")
_AUX_WORDS = (
    "is are was were isn't aren't wasn't weren't has have had will would can could may might must shall should cannot"
    " can't won't doesn't don't didn't does do did there's it's"
)
_AUX = frozenset(_AUX_WORDS.split())
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_FINAL = re.compile(r"\s*[.!]?\s*$")
_QUESTION_WORDS_TEXT = "who what when where why which how whose whom is are was were did does do can could has have in"
_QUESTION_WORDS = frozenset(_QUESTION_WORDS_TEXT.split())
_NOT_BEFORE_VERB = frozenset(
    listed(
        "a an the to of in on at by for from with and or its his her their our your my this these those most more very first only best best-known"
        " well newly recently"
    )
)
_ASKS = re.compile(
    r"^(?:In|On|At|For|From|To|By|With|Of) (?:which|what|whom|whose)\b|\b(?:to|by|of|for|in|at|and|is|was|played) what \w"
)
_FREQUENCY = frozenset(
    {"often", "usually", "sometimes", "always", "generally", "typically", "rarely", "also", "frequently"}
)
_BEFORE_NAMES = frozenset(
    listed(
        "the a an his her its their our my your all some many most every each no both this that these those there in on at by"
        " for from with two three four five six seven eight nine ten during under"
    )
)
_EMBEDDED = re.compile(
    r"\bwhy\b|[a-z] (?:you|they|he|she|we|I|it) $|(?:['’](?:ve|re|ll|d|m)|\b(?:[Hh]e|[Ss]he|[Ii]t|[Tt]here|[Tt]hat)['’]s) $"
)
"""Before a verb: a question or a clause without its "that" has begun, or the verb's auxiliary is contracted."""
_ANSWER_OPENS = re.compile(r"[\"'“‘(]?[A-Z\d]|(?:the|an?|he|she|it|they|yes|no|there) ")
_AFTER_THIRD_WORDS = (
    "a an the his her its their in on at to for from with as that no all more into by out up over under between two three four"
    " five many several some about through not very one every during along like"
)
_AFTER_THIRD = frozenset(_AFTER_THIRD_WORDS.split())
_STANDS_LAST = frozenset(listed("acts sings exists lives writes dies survives dances performs sleeps talks flies"))


@dataclass(frozen=True, slots=True)
class Body:
    """A claim in two: `lead`, the questions before (with the space after them), and `text`, what is asserted."""

    lead: str
    text: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Verb:
    """A finite verb of the main clause, at `start`..`end` of the text. base: of a full verb, None of an auxiliary."""

    start: int
    end: int
    word: str
    base: str | None
    tense: Literal["past", "third", "base", "aux"]


def body_of(claim: str) -> Body:
    """The asserting part of a claim."""
    text = claim.rstrip()
    cut = 0
    for match in _QUESTION_END.finditer(text):
        cut = match.end()
    lead, rest = text[:cut], text[cut:]
    if rest.endswith("?") or rest.endswith(('?"', "?'")):
        return Body(lead, rest, "question")
    first = _WORD.match(rest)
    if first and not cut and first[0].lower() in _QUESTION_WORDS - {"in"} and not rest.endswith("."):
        return Body(lead, rest, "question")
    if _ASKS.search(rest):
        return Body(lead, rest, "question")
    asserts = (not lead or _ANSWER_OPENS.match(rest)) and main_verb(rest)
    return Body(lead, rest, "statement" if asserts else "fragment")


def main_verb(text: str) -> Verb | None:
    """The first finite verb of the main clause, or None where there is none that is sure."""
    verb = _auxiliary(text)
    return verb if verb is not None else _full_verb(text)


def _auxiliary(text: str) -> Verb | None:
    for match in _WORD.finditer(text):
        word = match[0].replace("’", "'").lower()
        if word in _AUX and match.start() and _outside(text, match.start()) and not match[0][0].isupper():
            return Verb(match.start(), match.end(), match[0], None, "aux")
    return None


def _full_verb(text: str) -> Verb | None:
    """Only where exactly one word of the text can be the verb."""
    found: list[Verb] = []
    words = list(_WORD.finditer(text))
    for before, match in itertools.pairwise(words):
        word = match[0]
        if word[0].isupper() or before[0].lower() in _NOT_BEFORE_VERB or word in AMBIGUOUS_VERBS:
            continue
        if not _outside(text, match.start()):
            continue
        if word in BASE_OF_PAST:
            found.append(Verb(match.start(), match.end(), word, BASE_OF_PAST[word], "past"))
        elif word in BASE_OF_THIRD and _third_here(text, match):
            found.append(Verb(match.start(), match.end(), word, BASE_OF_THIRD[word], "third"))
        elif word in VERBS and _plural_before(_subject_word(text, before)):
            found.append(Verb(match.start(), match.end(), word, word, "base"))
    return found[0] if found and all(one.start == found[0].start or one.tense == "base" for one in found) else None


def _third_here(text: str, match: re.Match[str]) -> bool:
    """Whether a form that may be a plural noun is a verb, by the word after it."""
    after = _WORD.search(text, match.end())
    if after is None:
        return match[0] in _STANDS_LAST
    return after[0] in _AFTER_THIRD or after[0][0].isupper() or after[0].endswith("ly")


def _subject_word(text: str, before: re.Match[str]) -> str:
    """The word before a verb, adverbs of frequency left out."""
    if before[0] not in _FREQUENCY:
        return before[0]
    words = _WORD.findall(text[: before.start()])
    return words[-1] if words else ""


def _plural_before(word: str) -> bool:
    lowered = word.lower()
    return lowered in ("you", "they", "we", "people") or (
        lowered.endswith("s") and not lowered.endswith(("ss", "us", "'s", "’s"))
    )


def _outside(text: str, at: int) -> bool:
    """Whether the place is in the main clause and in no quotes or brackets."""
    before = text[:at]
    if _EMBEDDED.search(before):
        return False
    if before.count('"') % 2 or before.count("(") != before.count(")") or before.count("“") != before.count("”"):
        return False
    return in_main_clause(before)


def first_word(text: str) -> str:
    """The first word, without marks before it."""
    match = _WORD.search(text)
    return match[0] if match and match.start() <= 1 else ""


def lowered(text: str, names: list[tuple[int, int]], source: str) -> str | None:
    """The text as it stands after an opening phrase: its first letter small unless it is a name's; None: cannot tell."""
    word = first_word(text)
    if not text or not text[0].isalpha():
        return text if text[:1].isdigit() else None
    if any(start == 0 for start, _ in names) or word == "I" or any(char.isupper() for char in text.split(" ")[0][1:]):
        return text
    second = text[len(word) :].lstrip()[:1]
    if second.isupper() and word.lower() not in _BEFORE_NAMES:
        return None
    if word.lower() in FUNCTION_WORDS or re.search(rf"(?<![\w.?!:] ){re.escape(word.lower())}\b", source):
        return text[0].lower() + text[1:]
    return None


def ending_of(text: str) -> tuple[str, str]:
    """The text without its closing full stop, and the stop with the space before it as it was ("." or " ." or "")."""
    match = _FINAL.search(text)
    cut = match.start() if match else len(text)
    return text[:cut], text[cut:].rstrip()


def has_gap(text: str) -> bool:
    """Whether the text is written in tokens, with a space before its commas and full stop."""
    return re.search(r"\w [.,](?:\s|$)", text) is not None


def with_tail(text: str, tail: str) -> str | None:
    """The statement with a phrase after a comma at its end; None where it ends in a mark that would stand inside."""
    head, stop = ending_of(text)
    if not head or not (head[-1].isalnum() or head[-1] in ")%'\"") or stop.strip() not in ("", "."):
        return None
    if head.endswith((".'", '."', " '", ' "')):
        return None
    return f"{head}{' ,' if has_gap(text) else ','} {tail}{stop}"


def with_opening(text: str, opening: str, names: list[tuple[int, int]], source: str) -> str | None:
    """The statement after an opening phrase and a comma."""
    rest = lowered(text, names, source)
    if rest is None:
        return None
    return f"{opening}{' ,' if has_gap(text) else ','} {rest}"


_VOWEL_SOUND = re.compile(r"[aeioAEIO]|[uU](?:n(?!i)|[plmg]|r[bgs]|t[mt])|hour|honest|honor")
_CONSONANT_SOUND = re.compile(r"[eE]u|[oO]ne\b|[oO]nce")


def with_article(before: str, word: str) -> str:
    """The text before a word, its "a" or "an" at the end made to agree with the word."""
    match = re.search(r"\b([Aa])n? $", before)
    if match is None:
        return before
    vowel = _VOWEL_SOUND.match(word) is not None and _CONSONANT_SOUND.match(word) is None
    return f"{before[: match.start()]}{match[1]}{'n' if vowel else ''} "
