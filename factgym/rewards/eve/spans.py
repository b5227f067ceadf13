"""Where an evidence span stands verbatim, and three questions about it that only the guarded reward asks.

"Verbatim" is the package's one definition (`factgym.corpora.text`): equal after Unicode NFKC and white-space folding,
nothing looser. What is found is the document's own slice; that slice, and not what the policy typed, is what a verifier
should be shown and a data set should keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from factgym.corpora.sentences import passage_ranges
from factgym.corpora.text import find_quote, terms
from factgym.datasets.multihop.triple import Evidence
from factgym.rewards.answer_matching import normalise_answer
from factgym.rewards.eve.rules import DEFAULT_RULES, EveRules
from factgym.rewards.profact.porter import porter_stem

Texts = Iterable[tuple[str, str]]
"""Ids and texts, in the order in which they are looked through."""

_YES_NO = frozenset(("yes", "no"))


def is_yes_no(answer: str) -> bool:
    """Whether an answer is yes or no, after normalisation."""
    return normalise_answer(answer) in _YES_NO


def find_span(evidence: str, texts: Texts) -> Evidence | None:
    """The first place where the evidence stands in one of the texts; None when in none, or when it is blank.

    texts: (document id, text) of what the policy was shown: the source document, then the passages that its searches
    returned in this episode. Give passages, not rendered tool results: a result may echo the query, and what a policy
    wrote itself is no evidence. Offsets count in the text given; where a passage was cut for display, give the part
    that was shown.
    """
    found = locate(evidence, texts)
    return None if found is None else found[0]


def locate(evidence: str, texts: Texts) -> tuple[Evidence, str] | None:
    """What `find_span` finds, and the text that it stands in."""
    for document, text in texts:
        place = find_quote(evidence, text)
        if place is not None:
            return Evidence(document, *place, text[slice(*place)]), text
    return None


def is_focused(span: Evidence, text: str, rules: EveRules = DEFAULT_RULES) -> bool:
    """Whether a span points at something in its text: it lies in one sentence, or is short beside the whole.

    text: of the document that the span is of. A span of several sentences may have at most `max_evidence_share` of the
    text's words.
    """
    if span.start is None or span.end is None:
        return False
    touched = sum(start < span.end and span.start < end for start, end in passage_ranges(text))
    return touched <= 1 or len(span.text.split()) <= rules.max_evidence_share * len(text.split())


def is_anchored(
    question: str, answer: str, evidence: str, rules: EveRules = DEFAULT_RULES, *, queries: Sequence[str] = ()
) -> bool:
    """Whether a span says something about the question: more than the answer by itself.

    Besides the answer's words it must hold at least `min_evidence_terms` different content words, one of them the
    question's or, since the last hop of a chain need not name what the question names, one of the `queries` that led
    there. Words are compared by their Porter stems.
    """
    asked = _stems(" ".join((question, *queries)))
    beside = words_beside(answer, evidence)
    return len(beside) >= rules.min_evidence_terms and not beside.isdisjoint(asked)


def words_beside(answer: str, evidence: str) -> frozenset[str]:
    """The stems of the content words that a span holds besides the answer's."""
    return _stems(evidence) - _stems(answer)


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(porter_stem, terms(text)))


def holds_answer(answer: str, text: str) -> bool:
    """Whether the normalised answer stands in the normalised text, word by word: "1" is not in "1975"."""
    wanted = normalise_answer(answer)
    return bool(wanted) and f" {wanted} " in f" {normalise_answer(text)} "
