"""What an operator is given, and the tests on sources that several operators make."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cached_property

from factgym.corpora.text import terms
from factgym.generators.probes.names import Name, find_names
from factgym.generators.probes.pool import Pool
from factgym.generators.probes.statement import Body, Verb, body_of, main_verb

_STEM = 5
NEGATED = re.compile(r"\b(?:not|no|never|none|nobody|nothing|nor|neither|without|cannot)\b|n['’]t\b", re.I)
"""A claim that denies something: with another name or number it may follow from the source."""


@dataclass(frozen=True)
class Work:
    """One claim under work. claim: its whole text. label: as it is now. error_type: of a false claim, if known."""

    claim: str
    source: str
    label: str
    error_type: str | None
    pool: Pool
    rng: random.Random

    @cached_property
    def body(self) -> Body:
        """The part that asserts."""
        return body_of(self.claim)

    @cached_property
    def names(self) -> list[Name]:
        """The names of the asserting part."""
        return find_names(self.body.text, self.source)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Where the names stand."""
        return [name.span for name in self.names]

    @cached_property
    def verb(self) -> Verb | None:
        """The main verb of the asserting part."""
        return main_verb(self.body.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The beginnings of the content words of source and claim."""
        return frozenset(word[:_STEM] for word in terms(f"{self.source} {self.claim}"))

    def mentions(self, words: str) -> bool:
        """Whether source or claim holds `words` as whole words, ignoring case."""
        return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", f"{self.source}\n{self.claim}", re.I) is not None

    def silent_on(self, text: str, share: float = 0.6) -> bool:
        """Whether source and claim lack this share of the content words of `text`, forms of a word taken together."""
        words = terms(text)
        lacking = [word for word in words if word[:_STEM] not in self.stems]
        return bool(words) and len(lacking) >= share * len(words)

    def whole(self, text: str) -> str:
        """The claim with `text` as its asserting part."""
        return self.body.lead + text
