"""A library: passages, an index over them, and their condensed sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from factgym.core.errors import did_you_mean
from factgym.core.tasks import SharedByArguments
from factgym.corpora.condense import condense, query_weights
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import Hit, Index, build_index

_SUGGEST_UP_TO = 5_000


class PassageLibrary(SharedByArguments):
    """An immutable `factgym.tools.evidence.Library` over a corpus; safe to share between threads and episodes."""

    def __init__(self, passages: Sequence[Passage], index: Any = "bm25", **options: Any) -> None:
        self.corpus = Corpus.of(passages)
        self._by_id = {passage.id: passage for passage in self.corpus}
        self._index: Index = build_index(self.corpus, index, **options)

    def __len__(self) -> int:
        return len(self.corpus)

    def page(self, start: int, stop: int) -> Sequence[Passage]:
        """Passages `start` to `stop` in corpus order."""
        return self.corpus.passages[start:stop]

    def find(self, passage_id: str) -> Passage | None:
        """The passage of this id, or None."""
        return self._by_id.get(passage_id)

    def suggest(self, passage_id: str) -> str:
        """The nearest id, where the library is small enough to look."""
        return did_you_mean(passage_id, self._by_id) if len(self._by_id) <= _SUGGEST_UP_TO else ""

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """At most `k` hits, best first."""
        return self._index.search([query], k)[0]

    def condense(self, passages: Sequence[Passage], query: str) -> list[str]:
        """Of each passage the sentences that matter for the query."""
        weights = query_weights(query, self._index)
        return [condense(passage, weights) for passage in passages]
