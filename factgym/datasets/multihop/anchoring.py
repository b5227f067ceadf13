"""Evidence held against a corpus: whether it stands where it says, and where it stands when it does not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from factgym.corpora.corpus import Corpus
from factgym.corpora.text import find_quote
from factgym.datasets.multihop.triple import Evidence, Triple


def stands(evidence: Evidence, corpus: Corpus) -> bool:
    """Whether the corpus has exactly this text at exactly this place."""
    if not evidence.is_placed or evidence.document not in corpus:
        return False
    return corpus.get(evidence.document).text[evidence.start : evidence.end] == evidence.text


def evidence_in(evidence: Evidence, corpus: Corpus, documents: Sequence[str] = ()) -> Evidence | None:
    """The same evidence as it stands in this corpus, None where it does not.

    Looked for in its own document first, then in `documents`; verbatim after NFKC and white-space folding, as quotes
    are. The text becomes the corpus's own.
    """
    if stands(evidence, corpus):
        return evidence
    for id_ in (evidence.document, *documents):
        if id_ not in corpus:
            continue
        text = corpus.get(id_).text
        place = find_quote(evidence.text, text)
        if place is not None:
            return Evidence(id_, *place, text[slice(*place)])
    return None


def with_evidence_in(triple: Triple, corpus: Corpus) -> Triple:
    """The triple with its evidence as it stands in the corpus; what does not stand there keeps its text and no place."""
    found = tuple(evidence_in(one, corpus) or Evidence("", None, None, one.text) for one in triple.evidence)
    return triple if found == triple.evidence else replace(triple, evidence=found)
