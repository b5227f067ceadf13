"""The protocol of the perturbations: a statement goes in, one controlled edit or the reason for none comes out.

An `Operator` has a name, the categories that its edits can have, and a function that proposes an edit of a
`Statement`. An `Edit` names its span; `Edit.apply` gives the new text. Whether the label really changed is checked
apart from the operators: in `corruptions` for sentences of documents, in `checks` for probes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from factgym.generators.perturbations.grammar import Span, Verb, contains_words, main_verb
from factgym.generators.perturbations.names import Name, Pool, find_names
from factgym.text.words import terms

NEGATED = re.compile(r"\b(?:not|no|never|none|nobody|nothing|nor|neither|without|cannot)\b|n['’]t\b", re.I)
"""A statement that denies something: with another name or number it may follow from its source."""
_STEM = 5


@dataclass(frozen=True)
class Statement:
    """A statement to perturb and everything that an operator may use besides it.

    text: the sentence that asserts. source: the document or passage that it is checked against. evidence: the texts
    that a new value must be absent from, the source by default.

    Of a document's sentence: parties, pairs of actors that the document keeps apart; donors, sentences of other
    documents on which this one is silent; partner, another sentence of the document on the same matter, "" for none;
    clauses, by kind the clauses of other passages with their actors, and whether they are of the same document (see `adjuncts`). Of a claim: lead, questions before the statement; label and error_type,
    as they are now; aim, the error to put in, None for any; keeps, whether the label has to stay; pool, the claims to
    borrow from.
    """

    text: str
    source: str
    rng: random.Random
    evidence: str = ""
    parties: tuple[tuple[str, str], ...] = ()
    donors: tuple[str, ...] = ()
    partner: Callable[[], str] = lambda: ""
    clauses: Callable[[str], Sequence[tuple[str, str, bool]]] = lambda kind: ()
    lead: str = ""
    label: str = ""
    error_type: str | None = None
    aim: str | None = None
    keeps: bool = False
    pool: Pool = field(default_factory=Pool)

    @cached_property
    def names(self) -> list[Name]:
        """The names in the text."""
        return find_names(self.text, self.source)

    @cached_property
    def name_spans(self) -> list[Span]:
        """The spans of the names in the text."""
        return [name.span for name in self.names]

    @cached_property
    def verb(self) -> Verb | None:
        """The main verb of the text."""
        return main_verb(self.text)

    @property
    def subject(self) -> Name | None:
        """The name that opens the text right before its main verb, if there is one."""
        name = self.names[0] if self.names else None
        if name is None or name.start or self.verb is None or self.verb.start != name.end + 1:
            return None
        return name

    def mentions(self, words: str) -> bool:
        """Whether the evidence holds `words` as whole words, ignoring case."""
        return contains_words(self.evidence or self.source, words)

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(word[:_STEM] for word in terms(self.evidence or self.source))

    def is_silent_on(self, text: str, share: float = 0.6) -> bool:
        """Whether the evidence lacks this share of the content words of `text`, compared by five-letter stems."""
        # Five-letter prefixes join more forms than a stemmer does: silence is claimed too seldom, not too often.
        words = terms(text)
        missing = [word for word in words if word[:_STEM] not in self._stems]
        return bool(words) and len(missing) >= share * len(words)


@dataclass(frozen=True, slots=True)
class Edit:
    """One controlled change: `replacement` takes the place of `text[start:end]` of the statement.

    span: the shortest part of the new text that the source does not support, by default the replacement. variant: the
    rule's name. error_type: the error that the edit puts in, None where it keeps the label. reason: one sentence for
    people where the operator's own does not fit.
    """

    start: int
    end: int
    replacement: str
    span: str = ""
    variant: str = ""
    error_type: str | None = None
    reason: str = ""

    def apply(self, text: str) -> str:
        """Return the statement's text with the change made."""
        return text[: self.start] + self.replacement + text[self.end :]


Reason = Literal["question", "fragment", "not_attributable", "no_site", "no_donor", "refused", "too_long"]
"""Why there is no perturbation.

question, fragment: the claim asserts nothing that the strategy can change. not_attributable: another error in a false
claim would be indistinguishable from the one it has. no_site: nothing in the text fits the operator. no_donor: no
replacement for the part that fits. refused: the result failed its checks. too_long: the claim exceeds
`MAX_CLAIM_CHARS` of `probes`.
"""


@dataclass(frozen=True, slots=True)
class NoEdit:
    """The reason why an operator or a strategy gives nothing."""

    reason: Reason = "no_site"
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Operator:
    """A named perturbation.

    categories: the labels or error types that its edits can have, None for edits that keep the label. cue: matches
    every sentence that `propose` could change, and is quick to search. reason: a sentence for people, with `{old}` and
    `{new}` for the replaced text and the span.
    """

    name: str
    categories: tuple[str | None, ...]
    propose: Callable[[Statement], Edit | NoEdit]
    cue: re.Pattern[str] = re.compile("")
    reason: str = "The document says {old!r}, not {new!r}."
