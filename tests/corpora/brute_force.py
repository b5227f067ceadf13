"""The rules of counting, written to be read: a slow twin of the index, which its tests are checked against.

Every rule stands here in the plainest form that it has, over lists of tokens and without an index, a cap or a
shortcut. Nothing else in the package uses it.
"""

from __future__ import annotations

from collections.abc import Sequence

from factgym.core.errors import ConfigError

Term = str | Sequence[str]
"""A token, or tokens that stand beside each other in this order."""

_BREAK = None
"""What stands before every document in the stream of tokens."""


def brute_count(
    documents: Sequence[Sequence[str]],
    cnf: Sequence[Sequence[Term]],
    window: int = 1000,
    semantics: str = "infini-gram",
) -> int:
    """The count of a query over documents of tokens, in time that grows with their product.

    cnf: clauses that must all be met, each a list of terms of which one is enough. A term that is met at a place where
    another term of the clause is met too is one more occurrence. window: in tokens, at least 1.
    semantics: "infini-gram" or "window"; what they mean is said at `_anchors_of_stream` and `_anchors_of_documents`.
    Raises ConfigError for no clause, an empty clause or term, and for unknown semantics.
    """
    clauses = [[_term(term) for term in clause] for clause in cnf]
    if not clauses or not all(clauses) or not all(term for clause in clauses for term in clause):
        raise ConfigError("a query needs at least one clause, and every clause a term of at least one token")
    if window < 1:
        raise ConfigError(f"the window is {window}; it must be at least 1 token")
    if semantics == "infini-gram":
        return _anchors_of_stream(documents, clauses, window)
    if semantics == "window":
        return _anchors_of_documents(documents, sorted(map(sorted, clauses)), window)
    raise ConfigError(f"unknown semantics {semantics!r}: use 'infini-gram' or 'window'")


def _term(term: Term) -> list[str]:
    return [term] if isinstance(term, str) else list(term)


def _occurrences(stream: Sequence[str | None], clause: Sequence[Sequence[str]]) -> list[int]:
    """Where a term of the clause begins, in ascending order; a place stands once for every term that is met there."""
    return sorted(
        position
        for term in clause
        for position in range(len(stream) - len(term) + 1)
        if list(stream[position : position + len(term)]) == list(term)
    )


def _anchors_of_stream(
    documents: Sequence[Sequence[str]], clauses: Sequence[Sequence[Sequence[str]]], window: int
) -> int:
    """What infini-gram 2.6 counts where no clause is over its cap.

    The documents are one stream with a separator before each. The clauses are taken from the least to the most
    frequent, and as the query has them where they are equally frequent. Each occurrence of the first is an anchor,
    with a span that begins and ends there. Every further clause stretches the span: to the left to the last occurrence
    before the span's end, to the right to the first one from the span's start on, each only when it lies at most
    `window` places beyond that end of the span; the separators are places too. When neither does, the anchor is lost.
    The anchors are counted whose span holds no separator.
    """
    stream = [token for document in documents for token in (_BREAK, *document)]
    first, *further_clauses = sorted((_occurrences(stream, clause) for clause in clauses), key=len)
    spans = [(position, position) for position in first]
    for places in further_clauses:
        spans = [wider for span in spans if (wider := _stretch(span, places, window)) is not None]
    return sum(_BREAK not in stream[previous : right + 1] for previous, right in spans)


def _stretch(span: tuple[int, int], places: Sequence[int], window: int) -> tuple[int, int] | None:
    """The span with the nearest places of one more clause, None where both are too far."""
    previous, right = span
    before = [min(previous, position) for position in places if position < right][-1:]
    after = [max(right, position) for position in places if position >= previous][:1]
    lefts = [position for position in before if previous - position <= window]
    rights = [position for position in after if position - right <= window]
    return (min([previous, *lefts]), max([right, *rights])) if lefts or rights else None


def _anchors_of_documents(
    documents: Sequence[Sequence[str]], clauses: Sequence[Sequence[Sequence[str]]], window: int
) -> int:
    """Places of the least frequent clause near which, in their document, every other clause is met.

    The clause is the first by its words of those that are equally frequent in the corpus. A place counts once, and when one place of
    each clause can be chosen so that the furthest two of them all, this place among them, are at most `window` apart.
    """
    frequencies = [sum(len(_occurrences(document, clause)) for document in documents) for clause in clauses]
    anchor = frequencies.index(min(frequencies))
    return sum(
        _is_met(position, [_occurrences(document, clause) for clause in clauses], window)
        for document in documents
        for position in set(_occurrences(document, clauses[anchor]))
    )


def _is_met(position: int, clauses: Sequence[Sequence[int]], window: int) -> bool:
    """Whether some stretch of window + 1 places holds `place` and a place of every clause.

    The stretch may begin at the first of the chosen places, so only those and `place` itself are tried.
    """
    begins = {position, *(item for places in clauses for item in places if position - window <= item <= position)}
    return any(
        all(any(span_start <= item <= span_start + window for item in places) for places in clauses)
        for span_start in begins
    )
