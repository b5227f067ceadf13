"""Wording of a claim beside its source, to audit whether a verifier mistakes another wording for another meaning.

A verifier that rejects whatever it cannot find word for word punishes those who paraphrase (SEVA, section 4.2 and its
ethics statement ask for such an audit). Five dimensions, each with a few groups, from the text alone: English word
lists and counts, no model. They describe wording, not truth; the passive is found by pattern and is sometimes missed.
Use them as the `groups` of `biases.false_positive_rates`, one dimension at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from factgym.corpora.text import fold, terms

COPY = 0.8
"""From this share of copied content words up, a claim counts as copied from its source."""
PARAPHRASE = 0.5
"""Under this share, a claim counts as a paraphrase; between the two it is mixed."""
SHORT = 8
"""Up to this many words a claim is short."""
LONG = 20
"""From this many words up a claim is long."""


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_HEDGES = _word_set(
    "allegedly almost apparently approximately arguably could estimated generally likely mainly may maybe"
    " might mostly nearly often partly perhaps possible possibly potentially presumably probable probably purportedly"
    " relatively reportedly roughly seem seemed seemingly seems sometimes somewhat suggest suggested suggests supposedly"
    " tend tends typically unlikely usually"
)
_NUMBER_WORDS = _word_set(
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen"
    " nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands million millions"
    " billion billions trillion dozen half twice"
)
_BE = _word_set("am are be been being is was were isn't aren't wasn't weren't")
_BETWEEN = _word_set("also always already first later never not often only originally recently subsequently then")
_IRREGULAR = _word_set(
    "begun born bought brought built broken cast caught chosen cut done drawn driven felt found forgotten given held"
    " hidden hit kept known laid led left lost made meant met paid put read run seen sent set shot shown shut sold sought"
    " spent spoken sung sworn taken taught thought thrown told torn understood won worn woven written"
)
_NO_PARTICIPLES = _word_set("need indeed seed speed breed feed red bed hundred exceed united sacred wicked naked")


@dataclass(frozen=True, slots=True)
class Style:
    """The wording of a claim.

    copied: share in [0, 1] of its distinct content words that its source has too; 1 where it has none. words: their
    number, function words included. hedged, numbers, passive: whether it has such words or such a construction.
    """

    copied: float
    words: int
    hedged: bool
    numbers: bool
    passive: bool


def style_of(claim: str, source: str) -> Style:
    """Measure a claim beside its source. Linear in both texts; equal for texts that differ in white space alone."""
    content = set(terms(claim))
    shared = len(content.intersection(terms(source)))
    written = _WORD.findall(fold(claim))
    words = [word.lower().replace("’", "'") for word in written]
    return Style(
        copied=shared / len(content) if content else 1.0,
        words=len(words),
        hedged=any(word.lower() in _HEDGES and word != "May" for word in written),
        numbers=any(word in _NUMBER_WORDS or any(char.isdigit() for char in word) for word in words),
        passive=any(_is_passive(words, i) for i, word in enumerate(words) if word in _BE),
    )


def _is_passive(words: list[str], index: int) -> bool:
    """Return whether a participle follows the form of "be" at `index`, with at most two adverbs between."""
    for word in words[index + 1 : index + 4]:
        if word in _IRREGULAR or (word.endswith("ed") and len(word) > 3 and word not in _NO_PARTICIPLES):
            return True
        if word not in _BETWEEN and not word.endswith("ly") and word not in _BE:
            return False
    return False


STYLES: Mapping[str, Callable[[Style], str]] = MappingProxyType(
    {
        "copying": lambda style: (
            "copy" if style.copied >= COPY else "paraphrase" if style.copied < PARAPHRASE else "mixed"
        ),
        "length": lambda style: "short" if style.words <= SHORT else "long" if style.words >= LONG else "medium",
        "hedging": lambda style: "hedged" if style.hedged else "plain",
        "numbers": lambda style: "numbers" if style.numbers else "no numbers",
        "voice": lambda style: "passive" if style.passive else "active",
    }
)
"""The dimensions by name, each with the group that a style belongs to."""


def style_groups(claim: str, source: str) -> dict[str, str]:
    """The group of a claim in every dimension of `STYLES`, such as `{"copying": "paraphrase", "length": "short", …}`."""
    style = style_of(claim, source)
    return {name: group(style) for name, group in STYLES.items()}
