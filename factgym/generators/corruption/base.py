"""What a corruption operator is: one sentence of a real document in, one false or unproven claim out, with its label.

ClaimCheck ("Building The Benchmark") injects one controlled evidence failure per claim, so that label and reason are
known. Labels are strict: *contradicted*, the document says otherwise; *overclaim*, it supports a narrower or a
conditional version; *unsupported*, it is silent. An operator returns None wherever the result would not be a
grammatical sentence or its label could be argued with; there are always other sentences.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from factgym.datasets.claims import Status

_PROTECTED = re.compile(
    r"(?:https?://|www\.)\S+|\S+@\S+|\b24/7\b|\b\d{1,4}/\d{1,4}(?:/\d{1,4})?\b"
    r"|\+?\(?\b\d{3}\)?[ .-]\d{3}[ .-]\d{4}\b"
    r"|\b(?:sections?|articles?|clauses?|paragraphs?|exhibits?|schedules?|append(?:ix|ices)|annex|chapters?|titles?"
    r"|rules?|forms?|steps?|items?|parts?|no\.|numbers?|levels?|phases?|tiers?|grades?|pages?|rfc|act of|regulations?)"
    r" (?:\d[\w.()-]*|[ivxIVX]+\b|[A-Z]\b)(?:(?:,| and| or|, and) \d[\w.()-]*)*"
    r"|§+ ?\d[\w.()-]*|\bGS-\d+|\b\d+ (?:U\.S\.C|C\.F\.R|CFR|USC)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Corruption:
    """A corrupted sentence.

    text: one grammatical sentence. unsupported_span: verbatim in `text`, the shortest part the document does not
    carry. operator: the name under which the claim is recorded. reason: one sentence for people.
    """

    text: str
    status: Status
    unsupported_span: str
    operator: str
    reason: str


@dataclass(frozen=True, slots=True)
class Context:
    """What an operator may look at besides the sentence.

    passage: the text around it. document: the document's whole text; a new value must not occur in it. parties: pairs
    of actors that the document keeps apart. donors: sentences of other documents on which this one is silent.
    folded: `document` casefolded, when the caller has it.
    """

    passage: str
    document: str
    parties: tuple[tuple[str, str], ...] = ()
    donors: tuple[str, ...] = ()
    folded: str = ""


Apply = Callable[[str, random.Random, Context], Corruption | None]


@dataclass(frozen=True, slots=True)
class Operator:
    """A named corruption. `cue` matches every sentence that `apply` could change, and is cheap to look for."""

    name: str
    status: Status
    cue: re.Pattern[str]
    apply: Apply


def protected(sentence: str) -> list[tuple[int, int]]:
    """Stretches whose numbers name something (a section, an address, a phone number) instead of counting it."""
    return [match.span() for match in _PROTECTED.finditer(sentence)]


def overlaps(span: tuple[int, int], others: list[tuple[int, int]]) -> bool:
    """Whether `span` shares a character with any other."""
    return any(start < span[1] and span[0] < end for start, end in others)


def swap(sentence: str, span: tuple[int, int], new: str) -> str:
    """`sentence` with `new` in place of the span, its case kept where the span opens the sentence."""
    if span[0] == 0:
        new = new[:1].upper() + new[1:]
    return sentence[: span[0]] + new + sentence[span[1] :]


def capitalise(text: str) -> str:
    """The first letter in upper case."""
    return text[:1].upper() + text[1:]


def bare(sentence: str) -> str:
    """The sentence without its closing full stop."""
    return sentence.rstrip().rstrip(".").rstrip()


_SUBORDINATE = re.compile(
    r"\b(?:if|when|whenever|where|wherever|unless|whether|that|which|who|whom|whose|because|since|while|until|once|as|how"
    r"|what|than|extent|although|though|provided|before|after)\b",
    re.I,
)


def in_main_clause(before: str) -> bool:
    """Whether the word after `before` belongs to the main clause: no joining word since the last comma."""
    last = max(before.rfind(mark) for mark in ",;")
    return _SUBORDINATE.search(before, last + 1) is None


def has_words(text: str, words: str) -> bool:
    """Whether `words` occur in `text` as whole words, ignoring case."""
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.I) is not None
