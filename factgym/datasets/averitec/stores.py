"""Where ProFact's Search stage finds evidence: the contract of a store, and the one that needs no download.

AVeriTeC's knowledge store has tens of gigabytes of pages and is no part of the package (see `FolderStore`). Where it
is not at hand, `GoldStore` makes one haystack of the gold evidence of a whole split: every claim's evidence is in it,
among that of all others. That is another and an easier task than searching the web's pages; its `note` says so, and
every report has to show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from factgym.core.errors import DataError
from factgym.core.tasks import SharedByArguments
from factgym.corpora.index import index_fingerprint
from factgym.datasets.averitec.claims import FactCheck, GoldAnswer
from factgym.datasets.averitec.evidence import (
    MAX_PASSAGE_CHARS,
    Evidence,
    EvidenceCorpus,
    check_window,
    evidence_of,
    split_sentences,
)

ClaimKey = int | str | FactCheck
"""A claim's `claim_id`, the name of its file in a store of one's own, or the claim."""

GOLD_HAYSTACK = "gold haystack"
KNOWLEDGE_STORE = "knowledge store"


@runtime_checkable
class KnowledgeStore(Protocol):
    """Evidence by claim. kind: `GOLD_HAYSTACK`, `KNOWLEDGE_STORE`, or a word of one's own."""

    @property
    def kind(self) -> str:
        """What sort of evidence it is."""
        ...

    @property
    def note(self) -> str:
        """What a report says about it."""
        ...

    @property
    def per_claim(self) -> bool:
        """Whether claims have evidence of their own."""
        ...

    def for_claim(self, claim: ClaimKey) -> EvidenceCorpus:
        """The evidence that a search for this claim may find."""
        ...

    def passages(self) -> Iterator[Evidence]:
        """All evidence once, in a fixed order, read as it is asked for."""
        ...

    def fingerprint(self) -> str:
        """SHA-256 in hex."""
        ...

    def describe(self) -> dict[str, Any]:
        """kind, note, fingerprint and sizes: JSON data for manifests and reports."""
        ...


class GoldStore(SharedByArguments):
    """The gold evidence of all `checks` as one haystack, in the order of its opaque ids.

    A passage is an answer, of a boolean one the explanation; questions, labels and justifications are not in it, nor
    is an unanswerable question's non-answer. What several claims cite from one page is there once. Raises DataError
    where the claims have no evidence at all.
    """

    kind = GOLD_HAYSTACK
    per_claim = False

    def __init__(self, checks: Iterable[FactCheck], *, max_chars: int = MAX_PASSAGE_CHARS) -> None:
        self._checks = tuple(checks)
        self.max_chars = check_window(max_chars)
        counts: Counter[str] = Counter(claims=len(self._checks))
        found: dict[str, Evidence] = {}
        for piece in _gold_pieces(self._checks, max_chars, counts):
            counts["repeated"] += piece.id in found
            found.setdefault(piece.id, piece)
        if not found:
            raise DataError("the claims have no gold evidence to build a haystack of: give a split with annotations")
        counts["dated"] = sum(piece.date is not None for piece in found.values())
        self._corpus = EvidenceCorpus((found[key] for key in sorted(found)), counts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _gold_store, (self._checks, self.max_chars)

    @property
    def note(self) -> str:
        """What a report says about the evidence."""
        return (
            f"Evidence: a gold haystack of {len(self._corpus):,} passages, built from the annotated answers of all "
            f"{len(self._checks):,} claims of the split, because no knowledge store was given; scores are not "
            "comparable with those on AVeriTeC's knowledge store."
        )

    def for_claim(self, claim: ClaimKey) -> EvidenceCorpus:
        """The whole haystack, whichever the claim."""
        return self._corpus

    def passages(self) -> Iterator[Evidence]:
        """All of the haystack, in the order of ids."""
        return iter(self._corpus)

    def fingerprint(self) -> str:
        """SHA-256 in hex over the passages and the window's size."""
        return index_fingerprint(self.kind, {"max_chars": self.max_chars}, [self._corpus.fingerprint()])

    def describe(self) -> dict[str, Any]:
        """kind, note, fingerprint, sizes and counts as JSON data."""
        return {
            "kind": self.kind,
            "note": self.note,
            "fingerprint": self.fingerprint(),
            "max_chars": self.max_chars,
            "passages": len(self._corpus),
            **self._corpus.counts,
        }


def evidence_text(answer: GoldAnswer) -> str:
    """What of an answer is evidence: its text, of a boolean one the explanation, of an unanswerable one nothing."""
    if answer.type == "Unanswerable":
        return ""
    return answer.explanation.strip() if answer.type == "Boolean" else answer.text.strip()


def _gold_pieces(checks: Iterable[FactCheck], max_chars: int, counts: Counter[str]) -> Iterator[Evidence]:
    for check in checks:
        for answer in (answer for asked in check.questions for answer in asked.answers):
            text = evidence_text(answer)
            counts["answers"] += 1
            counts["without_evidence"] += not text
            if text:
                yield from evidence_of(answer.source_url, split_sentences(text), max_chars)


def _gold_store(checks: tuple[FactCheck, ...], max_chars: int) -> GoldStore:
    return GoldStore(checks, max_chars=max_chars)
