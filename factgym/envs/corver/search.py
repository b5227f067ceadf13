"""The search tool of `corver-qa-search`: passages of a corpus, delimited and bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from factgym.corpora.corpus import Passage
from factgym.tools.library import PassageLibrary
from factgym.tools.schema import Number, Text
from factgym.tools.toolbox import Toolbox, tool
from factgym.tools.untrusted import attribute, neutralise


@dataclass(frozen=True, slots=True)
class SearchDesk:
    """What the tool works on; shared between episodes."""

    library: PassageLibrary
    max_passage_chars: int


@dataclass(frozen=True, slots=True)
class Results:
    """Passages that were found, best first, and how many there are in all."""

    total: int
    passages: tuple[Passage, ...]
    max_chars: int


def _render(data: Results) -> str:
    if not data.passages:
        return f"None of the {data.total} passages matches. Try other words."
    return "\n".join(_result(one, data.max_chars) for one in data.passages)


def _result(passage: Passage, most: int) -> str:
    cut = len(passage.text) - most
    text = neutralise(passage.text[:most]) + (f"… [cut: {cut} more characters]" if cut > 0 else "")
    return f'<result id="{attribute(passage.id)}" title="{attribute(passage.title)}">\n{text}\n</result>'


@tool(render=_render, tags=("query",))
def search(desk: SearchDesk, query: Annotated[str, Text(1, 1000)], k: Annotated[int, Number(1, 10)] = 3) -> Results:
    """Search the corpus. Returns passages, best first.

    Args:
        query: What to look for, in words that the text may use.
        k: How many passages to return at most.
    """
    found = (desk.library.find(hit.id) for hit in desk.library.search(query, k))
    return Results(len(desk.library), tuple(one for one in found if one is not None), desk.max_passage_chars)


TOOLBOX = Toolbox((search,))
