"""The search tool of both EVE environments: passages of a corpus, delimited, and cut to a budget of tokens.

One call may ask several queries (`query_list`). The budget is of the whole response, markup and marks of cuts included,
counted by the rule of `factgym.envs.eve.tokens`. Queries of one call get equal shares; what one leaves over goes to
those that need more. Within a share passages come best first, so a cut falls on the last of them. Where a share is too
small for anything, its query and the mark of the cut are shown all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from factgym.core.strict_json import StrictJsonError, loads
from factgym.corpora.corpus import Passage
from factgym.envs.eve.tokens import count_tokens, first_tokens
from factgym.tools.library import PassageLibrary
from factgym.tools.schema import Items, Text
from factgym.tools.toolbox import tool
from factgym.tools.untrusted import attribute, neutralise

MAX_QUERIES = 8
MAX_QUERY_CHARS = 1000
LEAST_TOKENS = 64
"""The smallest budget of a response: room for one result with its mark."""

_MARK = 9
"""Tokens that a mark of a cut takes at most."""

_NOTHING = "No passage matches. Try other words."

Query = Annotated[str, Text(1, MAX_QUERY_CHARS)]


@dataclass(frozen=True, slots=True)
class Snippet:
    """What was shown of a passage: `text`, harmless, from its beginning. cut: tokens of it that were not shown."""

    document: str
    title: str
    text: str
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What one query found, best first. left: passages that had no room."""

    query: str
    snippets: tuple[Snippet, ...]
    left: int = 0


@dataclass(slots=True)
class SearchDesk:
    """What the tool works on: made for a call, as the library is no part of an episode's state.

    shown: every snippet of the episode with the turn that showed it; a search adds to it.
    """

    library: PassageLibrary
    top_k: int = 3
    max_tokens: int = 512
    turn: int = 0
    shown: list[tuple[int, Snippet]] = field(default_factory=list)


def in_sight(shown: Sequence[tuple[int, Snippet]], turn: int) -> list[tuple[str, str]]:
    """Document and text of the snippets that were in sight when the message of a turn was written.

    A document that was shown more than once counts with the longest part of it.
    """
    found: dict[str, str] = {}
    for place, snippet in shown:
        if place < turn and len(snippet.text) > len(found.get(snippet.document, "")):
            found[snippet.document] = snippet.text
    return list(found.items())


def render_found(data: Sequence[Found]) -> str:
    """The response as a policy reads it."""
    several = len(data) > 1
    return "\n".join(_group(one, f"Query {number}: " if several else "") for number, one in enumerate(data, 1))


def _group(found: Found, label: str) -> str:
    head = [f"{label}{_line(found.query)}"] if label else []
    lines = [_result(one) for one in found.snippets]
    left = [f"[cut: {found.left} more results]"] if found.left else []
    return "\n".join([*head, *lines, *left] if lines or left else [*head, _NOTHING])


def _line(query: str) -> str:
    text = attribute(query)
    return text if count_tokens(text) <= 24 else f"{first_tokens(text, 24)}…"


def _result(one: Snippet) -> str:
    mark = f"… [cut: {one.cut} more tokens]" if one.cut else ""
    return f"{_opening(one)}\n{one.text}{mark}\n</result>"


def _opening(one: Snippet) -> str:
    return f'<result id="{attribute(one.document)}" title="{attribute(one.title)}">'


@tool(render=render_found, tags=("query",))
def search(desk: SearchDesk, query_list: Annotated[list[Query], Items(1, MAX_QUERIES)] | Query) -> tuple[Found, ...]:
    """Search the corpus. Returns the best passages for each query.

    Args:
        query_list: One or more queries, each in words that the text may use.
    """
    queries = [query_list] if isinstance(query_list, str) else query_list
    library = desk.library
    hits = [[library.find(hit.id) for hit in library.search(query, desk.top_k)] for query in queries]
    passages = [[one for one in found if one is not None] for found in hits]
    data = fitted(list(zip(queries, passages, strict=True)), desk.max_tokens)
    desk.shown += [(desk.turn, snippet) for found in data for snippet in found.snippets]
    return data


def fitted(results: Sequence[tuple[str, Sequence[Passage]]], most: int) -> tuple[Found, ...]:
    """The results as they are shown, in at most `most` tokens together."""
    several = len(results) > 1
    whole = [Found(query, tuple(_snippet(one) for one in passages)) for query, passages in results]
    costs = [_cost(one, several) for one in whole]
    fair = most // len(whole)
    spare = most - sum(min(cost, fair) for cost in costs)
    kept = []
    for one, cost in zip(whole, costs, strict=True):
        extra = min(max(cost - fair, 0), spare)
        spare -= extra
        kept.append(one if cost <= fair + extra else _cut(one, fair + extra, several))
    return tuple(kept)


def _snippet(passage: Passage) -> Snippet:
    return Snippet(passage.id, passage.title, neutralise(passage.text))


def _cost(found: Found, several: bool) -> int:
    return count_tokens(_group(found, "Query 1: " if several else ""))


def _cut(found: Found, room: int, several: bool) -> Found:
    """What of the result fits into `room` tokens; at least the beginning of the first passage."""
    room -= _MARK + (count_tokens(_line(found.query)) + 3 if several else 0)
    kept: list[Snippet] = []
    for one in found.snippets:
        frame = count_tokens(_opening(one)) + 4
        size = count_tokens(one.text)
        if frame + size > room:
            text = first_tokens(one.text, room - frame - _MARK)
            if text:
                kept.append(Snippet(one.document, one.title, text, size - count_tokens(text)))
            break
        kept.append(one)
        room -= frame + size
    return Found(found.query, tuple(kept), len(found.snippets) - len(kept))


def readable_search(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a search with what is plainly meant put into form.

    `query`, `queries` and `q` are taken for `query_list`, and a JSON text of a list for the list itself.
    """
    found = dict(arguments)
    if "query_list" not in found:
        named = next((name for name in ("query", "queries", "q") if name in found), None)
        if named is not None:
            found["query_list"] = found.pop(named)
    given = found.get("query_list")
    if isinstance(given, str) and given.lstrip().startswith("["):
        found["query_list"] = _listed(given)
    return found


def _listed(text: str) -> Any:
    """The list of texts that a JSON text holds; the text itself where it holds something else."""
    try:
        value = loads(text)
    except StrictJsonError:
        return text
    return value if isinstance(value, list) and value and all(isinstance(one, str) for one in value) else text
