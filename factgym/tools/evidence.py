"""`list`, `search` and `read` over a library of passages.

The state records the passages that were read; a search shows condensed sentences only (Baleen-style), so that evidence
can be cited only after it was opened. All text that comes from passages is delimited and neutralised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from factgym.core.episode import EpisodeState
from factgym.core.errors import ToolError, did_you_mean
from factgym.core.tasks import Immutable
from factgym.core.untrusted import delimited, neutralise
from factgym.corpora.condense import condense, query_weights
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import Hit, Index, build_index
from factgym.corpora.retrieved import RetrievedCorpus
from factgym.tools.toolbox import tool

PAGE_SIZE = 20
MAX_ID_CHARS = 80
_MAX_SUGGESTION_IDS = 5_000


class PassageLibrary(Immutable):
    """A corpus with an index and condensed sentences. Immutable: threads and episodes share it.

    index, options: as in `factgym.corpora.index.build_index`.
    """

    def __init__(self, passages: Sequence[Passage], index: Any = "bm25", **options: Any) -> None:
        self.corpus = Corpus.of(passages)
        self._index: Index = build_index(self.corpus, index, **options)
        self.find: Callable[[str], Passage | None] = self.corpus.find
        """The passage of an id, or None."""

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def total(self) -> int | None:
        """Number of passages; None where a server does not report it."""
        return self.corpus.size if isinstance(self.corpus, RetrievedCorpus) else len(self.corpus)

    def page(self, start: int, stop: int) -> Sequence[Passage]:
        """Passages `start` to `stop` in corpus order."""
        return self.corpus.passages[start:stop]

    def suggest(self, passage_id: str) -> str:
        """Return a hint with the nearest id; empty in a large library."""
        if isinstance(self.corpus, RetrievedCorpus):
            return " Only passages that a search returned can be read."
        return did_you_mean(passage_id, self.corpus.ids) if len(self.corpus) <= _MAX_SUGGESTION_IDS else ""

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """At most `k` hits, best first."""
        return self._index.search([query], k)[0]

    def condense(self, passages: Sequence[Passage], query: str) -> list[str]:
        """Return of each passage the sentences that matter for the query."""
        weights = query_weights(query, self._index)
        return [condense(passage, weights) for passage in passages]


@dataclass(slots=True)
class EvidenceState(EpisodeState):
    """State of an episode over a library. read: id of each opened passage -> the turn (from 0) that opened it first."""

    library: PassageLibrary
    read: dict[str, int] = field(default_factory=dict)

    def was_read(self, passage_id: str) -> bool:
        """Whether the policy has seen the text of a passage: it was opened in an earlier turn."""
        return self.read.get(passage_id, self.turn) < self.turn


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the library."""

    page: int
    pages: int
    total: int
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Search results: (id, title, condensed text), best first."""

    total: int | None
    entries: tuple[tuple[str, str, str], ...]


def _render_page(data: Page, nonce: str) -> str:
    lines = [delimited("result", " ".join(title.split()), nonce, inline=True, id=id_) for id_, title in data.entries]
    return "\n".join([f"Page {data.page} of {data.pages}, {data.total} passages.", *lines])


def none_of(total: int | None) -> str:
    """Return the subject of "matches" for a search without hits."""
    return "No passage" if total is None else f"None of the {total} passages"


def _render_results(data: SearchResult, nonce: str) -> str:
    if not data.entries:
        return f"{none_of(data.total)} matches. Try other words."
    lines = [delimited("result", text, nonce, inline=True, id=id_, title=title) for id_, title, text in data.entries]
    of_total = "" if data.total is None else f" of {data.total}"
    return "\n".join([f"{len(lines)}{of_total} passages, best first. Read one before you cite it.", *lines])


def _render_passage(data: Passage, nonce: str) -> str:
    return delimited("evidence", data.text, nonce, id=data.id, title=data.title)


@tool(render=_render_page, name="list", brief="List ids and titles.", delimits=True)
def list_passages(state: EvidenceState, page: Annotated[int, Field(ge=1, le=1_000_000)] = 1) -> Page:
    """List the ids and titles of all passages, twenty to a page.

    Args:
        page: Which page, from 1.
    """
    if isinstance(state.library.corpus, RetrievedCorpus):
        raise ToolError("no_list", "These passages cannot be listed: search them.")
    total = len(state.library)
    pages = max(1, -(-total // PAGE_SIZE))
    if page > pages:
        raise ToolError("no_such_page", f"There is no page {page}; the last one is {pages}.")
    entries = state.library.page((page - 1) * PAGE_SIZE, page * PAGE_SIZE)
    return Page(page, pages, total, tuple((passage.id, passage.title) for passage in entries))


@tool(render=_render_results, tags=("query",), delimits=True)
def search(
    state: EvidenceState,
    query: Annotated[str, Field(min_length=1, max_length=1000)],
    k: Annotated[int, Field(ge=1, le=10)] = 3,
) -> SearchResult:
    """Search the passages. Returns ids, titles and the sentences that fit the query best.

    Args:
        query: What to look for, in words that the text may use.
        k: How many passages to return at most.
    """
    library = state.library
    passages = [passage for hit in library.search(query, k) if (passage := library.find(hit.id)) is not None]
    texts = library.condense(passages, query)
    entries = [(passage.id, passage.title, neutralise(text)) for passage, text in zip(passages, texts, strict=True)]
    return SearchResult(library.total, tuple(entries))


@tool(render=_render_passage, tags=("id",), brief="Open a passage.", delimits=True)
def read(state: EvidenceState, id: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]) -> Passage:
    """Open one passage in full. Only passages that were read can be cited.

    Args:
        id: The passage's id, as `list` and `search` give it.
    """
    passage = state.library.find(id)
    if passage is None:
        raise ToolError("no_such_passage", f"There is no passage {id!r}.{state.library.suggest(id)}")
    state.read.setdefault(passage.id, state.turn)
    return passage
