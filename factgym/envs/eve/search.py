"""The search tool of both EVE environments: passages of a corpus, delimited, and cut to a budget of tokens.

One call may have several queries (`query_list`). The budget is of the whole response, markup and cut marks included. A
token is a run of letters, digits and underscores, or one other character except white space: a rule without a model, so
that budgets mean the same for every policy. English text has about as many of these as a model's tokenizer makes, most
often ten to twenty per cent fewer.

Queries of one call have equal shares of the budget, and what one does not need goes to others. Within a share passages
come best first, so that a cut falls on the last of them. Where a share is too small for any text, its query and the cut
mark are shown all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from factgym.core.episode import EpisodeState
from factgym.core.strict_json import StrictJsonError, loads
from factgym.corpora.corpus import Passage
from factgym.rewards.eve.proposal import TOKEN, count_tokens
from factgym.tools.toolbox import tool
from factgym.tools.untrusted import attribute, neutralise

if TYPE_CHECKING:
    from factgym.envs.eve.tasks import ProposerTaskSet, SolverTaskSet

SEARCH = "search"
MAX_QUERIES = 8
MAX_QUERY_CHARS = 1000
MIN_RESPONSE_TOKENS = 64
"""Room for one result with its cut mark."""

_CUT_MARK_TOKENS = 9
_MAX_QUERY_LINE_TOKENS = 24
_NO_RESULTS = "No passage matches. Try other words."

Query = Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARS)]


@dataclass(frozen=True, slots=True)
class Snippet:
    """The displayed beginning of a passage, neutralised. cut: number of tokens that were not displayed."""

    document: str
    title: str
    text: str
    cut: int = 0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of one query, best first. omitted: number of passages without room."""

    query: str
    snippets: tuple[Snippet, ...]
    omitted: int = 0


@dataclass(slots=True)
class SearchState(EpisodeState):
    """State of the search tool. searches: turn and results of every search of the episode.

    tasks: hold the library, which is no part of an episode's state.
    """

    tasks: SolverTaskSet | ProposerTaskSet
    top_k: int = 3
    max_tokens: int = 512
    searches: list[tuple[int, tuple[SearchResult, ...]]] = field(default_factory=list)

    def texts_in_view(self, turn: int) -> list[tuple[str, str]]:
        """Return document id and text of the snippets that were in view when the message of a turn was written.

        Of a document that was shown more than once the longest part counts.
        """
        texts: dict[str, str] = {}
        for snippet in (snippet for result in self.results_before(turn) for snippet in result.snippets):
            if len(snippet.text) > len(texts.get(snippet.document, "")):
                texts[snippet.document] = snippet.text
        return list(texts.items())

    def results_before(self, turn: int) -> list[SearchResult]:
        """Return the results of each query before a turn."""
        return [result for search_turn, results in self.searches if search_turn < turn for result in results]


def first_tokens(text: str, limit: int) -> str:
    """Return the text up to the end of its token number `limit`; the whole text where it has no more."""
    if limit <= 0:
        return ""
    last = next(islice(TOKEN.finditer(text), limit - 1, None), None)
    if last is None or TOKEN.search(text, last.end()) is None:
        return text
    return text[: last.end()]


def render_results(results: Sequence[SearchResult]) -> str:
    """Return the response as a policy reads it."""
    several = len(results) > 1
    return "\n".join(
        _render_result(result, f"Query {number}: " if several else "") for number, result in enumerate(results, 1)
    )


def _render_result(result: SearchResult, label: str) -> str:
    head = [f"{label}{_query_line(result.query)}"] if label else []
    lines = [
        f"{_opening_tag(snippet)}\n{snippet.text}"
        + (f"… [cut: {snippet.cut} more tokens]" if snippet.cut else "")
        + "\n</result>"
        for snippet in result.snippets
    ]
    omitted = [f"[cut: {result.omitted} more results]"] if result.omitted else []
    return "\n".join([*head, *lines, *omitted] if lines or omitted else [*head, _NO_RESULTS])


def _query_line(query: str) -> str:
    text = attribute(query)
    short = count_tokens(text) <= _MAX_QUERY_LINE_TOKENS
    return text if short else f"{first_tokens(text, _MAX_QUERY_LINE_TOKENS)}…"


def _opening_tag(snippet: Snippet) -> str:
    return f'<result id="{attribute(snippet.document)}" title="{attribute(snippet.title)}">'


@tool(render=render_results, tags=("query",))
def search(
    state: SearchState, query_list: Annotated[list[Query], Field(min_length=1, max_length=MAX_QUERIES)] | Query
) -> tuple[SearchResult, ...]:
    """Search the corpus. Returns the best passages for each query.

    Args:
        query_list: One or more queries, each in words that the text may use.
    """
    queries = [query_list] if isinstance(query_list, str) else query_list
    library = state.tasks.library
    passages = [
        [passage for hit in library.search(query, state.top_k) if (passage := library.find(hit.id)) is not None]
        for query in queries
    ]
    results = fit_results(list(zip(queries, passages, strict=True)), state.max_tokens)
    state.searches.append((state.turn, results))
    return results


def fit_results(retrieved: Sequence[tuple[str, Sequence[Passage]]], max_tokens: int) -> tuple[SearchResult, ...]:
    """Return the results of each query, cut to `max_tokens` together."""
    several = len(retrieved) > 1
    # Fair division: every query may use an equal share; tokens that short results leave over go to the long ones in
    # order. Invariant: the parts never sum to more than max_tokens, except that a cut part keeps its frame.
    results = [
        SearchResult(
            query, tuple(Snippet(passage.id, passage.title, neutralise(passage.text)) for passage in passages)
        )
        for query, passages in retrieved
    ]
    costs = [count_tokens(_render_result(result, "Query 1: " if several else "")) for result in results]
    fair = max_tokens // len(results)
    spare = max_tokens - sum(min(cost, fair) for cost in costs)
    fitted = []
    for result, cost in zip(results, costs, strict=True):
        extra = min(max(cost - fair, 0), spare)
        spare -= extra
        fitted.append(result if cost <= fair + extra else _cut_result(result, fair + extra, several))
    return tuple(fitted)


def _cut_result(result: SearchResult, budget: int, several: bool) -> SearchResult:
    """Return the part of a result that fits into `budget` tokens; at least the beginning of the first passage."""
    # Greedy from the best passage on: whole passages while they fit, then the beginning of the next one.
    budget -= _CUT_MARK_TOKENS + (count_tokens(_query_line(result.query)) + 3 if several else 0)
    snippets: list[Snippet] = []
    for snippet in result.snippets:
        frame = count_tokens(_opening_tag(snippet)) + 4
        size = count_tokens(snippet.text)
        if frame + size > budget:
            text = first_tokens(snippet.text, budget - frame - _CUT_MARK_TOKENS)
            if text:
                snippets.append(Snippet(snippet.document, snippet.title, text, size - count_tokens(text)))
            break
        snippets.append(snippet)
        budget -= frame + size
    return SearchResult(result.query, tuple(snippets), len(result.snippets) - len(snippets))


def normalise_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a search with unambiguous variants corrected.

    `query`, `queries` and `q` are taken for `query_list`, and the JSON text of a list of texts for the list itself.
    """
    normalised = dict(arguments)
    if "query_list" not in normalised:
        alias = next((name for name in ("query", "queries", "q") if name in normalised), None)
        if alias is not None:
            normalised["query_list"] = normalised.pop(alias)
    text = normalised.get("query_list")
    if isinstance(text, str) and text.lstrip().startswith("["):
        try:
            queries = loads(text)
        except StrictJsonError:
            return normalised
        if isinstance(queries, list) and queries and all(isinstance(query, str) for query in queries):
            normalised["query_list"] = queries
    return normalised
