"""The question that an answer is checked against: what does this document say about this matter?"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

from factgym.corpora.text import terms
from factgym.generators.corruption.base import capitalise
from factgym.generators.corruption.paraphrase import name_of

_ABOUT = (
    "What does {name} say about {matter}?",
    "What are the rules on {matter} in {name}?",
    "According to {name}, what holds for {matter}?",
    "What should somebody know about {matter} under {name}?",
    "How does {name} deal with {matter}?",
)
_MAX_HEADING_CHARS = 70
_NUMBER = re.compile(r"(?:[A-Z]|[IVX]{1,5}|\d{1,2}(?:\.\d{1,2}){0,3})[.):]* (?=[A-Z“])")
_NOT_A_MATTER_WORDS = (
    "must shall will may can not any all such other provided under without within upon make made each between "
    "including agreement section hereunder party parties either both only also more most than them these "
    "those about after before would could should used uses using being during through where which while "
    "because there here into very time days order case cases information following right rights terms you're "
    "we'll you'll they're reasonable respect required"
)
_NOT_A_MATTER = frozenset(_NOT_A_MATTER_WORDS.split())


def ask(title: str, passage_title: str, sentences: Sequence[str], rng: random.Random) -> str:
    """A question about the matter of a section, by its heading where there is one, else by its rarer words."""
    heading = _without_number(passage_title.rpartition(" › ")[2]) if " › " in passage_title else ""
    if not 3 <= len(heading) <= _MAX_HEADING_CHARS:
        heading = ""
    name = name_of(title)
    if heading.endswith("?"):
        return f"{capitalise(name)}: {heading}"
    matter = _matter(heading) if heading else _words(sentences)
    return capitalise(rng.choice(_ABOUT).format(name=name, matter=matter))


def _matter(heading: str) -> str:
    """A heading inside a sentence: quoted, since a heading may be anything."""
    plain = heading.rstrip(".:")
    return f"“{plain.capitalize() if plain.isupper() else plain}”"


def _words(sentences: Sequence[str]) -> str:
    """Two content words that the answer's source sentences share or use most, in the order of the text."""
    found = [word for text in sentences for word in terms(text) if len(word) > 3 and word.isalpha()]
    counts = Counter(word for word in found if word not in _NOT_A_MATTER)
    best = sorted(counts, key=lambda word: (-counts[word], -len(word), word))[:2]
    ordered = sorted(best, key=found.index)
    return " and ".join(f"“{word}”" for word in ordered) or "this matter"


def _without_number(heading: str) -> str:
    match = _NUMBER.match(heading)
    return heading[match.end() :] if match else heading
