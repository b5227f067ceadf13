"""The extractive proposer: a script that follows names from document to document, and hides the last one.

It sees the messages alone. From the source document it takes what sentences say of its title; for two hops and more it
searches for a name of these, and goes on from what other documents say of that name.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

from factgym.core.messages import Message, ToolSchema
from factgym.envs.eve.agents.proposer_reading import (
    Chain,
    Fact,
    Given,
    Page,
    facts_of,
    next_links,
    read_given,
    read_results,
)
from factgym.envs.eve.agents.proposer_writing import Draft, drafts
from factgym.envs.eve.proposer_submission import written
from factgym.envs.eve.protocols import read_shown
from factgym.rewards.eve.proposal import is_leak, is_valid

_BEAM = 12
_QUERIES = 2
_QUERY_CHARS = 200
_LED = 3
"""Words of an answer that other words lead to."""

Finish = Callable[[Sequence[Draft], Page, random.Random], str]
"""Turns the drafts, best first, into what is submitted; gets the source document too."""


def honest(found: Sequence[Draft], page: Page, rng: random.Random) -> str:
    """The best draft as it is; where nothing is named, a question about the words of the document's beginning."""
    if found:
        best = found[0]
        return written(best.question, best.answer, best.evidence, best.thought)
    words = page.text.split()
    thought = "No sentence here names anything that could be asked for."
    for at in range(_LED, len(words) - _LED + 1):
        question = f'Which words follow "{" ".join(words[:at])}" in the text about {page.title}?'
        answer = " ".join(words[at : at + _LED])
        if is_valid(question, answer) and not is_leak(question, answer):
            return written(question, answer, " ".join(words[: at + _LED]), thought)
    return written(f"How does the text about {page.title} begin?", " ".join(words[:_LED]), page.text, thought)


class ExtractiveProposer:
    """Searches as often as there are hops to go, then hands its drafts to `finish`. One object for each episode."""

    def __init__(self, seed: int, finish: Finish = honest) -> None:
        self._seed = seed
        self._finish = finish

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The next search, or the proposal."""
        given = read_given(messages)
        if given is None:
            return "There is no document to ask about."
        shown = read_shown(messages)
        levels = self.levels(given, read_results(messages))
        names = _onward(levels) if shown.left != 1 and shown.searches < given.hops - 1 else []
        if names and len(levels) == shown.searches + 1:
            return search_call(names, _plan(given, names))
        rng = self._random(given, "draft")
        return self._finish(drafts([chain for level in reversed(levels) for chain in level], rng), given.page, rng)

    def levels(self, given: Given, results: Sequence[Page]) -> list[list[Chain]]:
        """Chains of one fact, of two and so on, as far as what was found goes; at most as many as there are hops."""
        rng = self._random(given, "chains")
        first = facts_of(given.page, given.page.title)
        rng.shuffle(first)
        first.sort(key=lambda fact: fact.kind != "name" and given.hops > 1)
        levels: list[list[Chain]] = [[(fact,) for fact in first]]
        while len(levels) < given.hops:
            longer = [(*chain, fact) for chain in levels[-1][:_BEAM] for fact in _next(chain, results, rng)]
            if not longer:
                break
            levels.append(longer)
        return levels

    def _random(self, given: Given, use: str) -> random.Random:
        return random.Random(f"factgym proposer {self._seed} {given.page.id} {given.hops} {use}")


def search_call(queries: Sequence[str], thought: str = "") -> str:
    """A thought and a call of the search tool, as text."""
    call = {"name": "search", "arguments": {"query_list": [one[:_QUERY_CHARS] for one in queries]}}
    said = f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"
    return f"<think>{thought}</think>\n{said}" if thought else said


def _next(chain: Chain, results: Sequence[Page], rng: random.Random) -> list[Fact]:
    """What goes on from a chain, in random order; nothing where its last fact is no name."""
    if chain[-1].kind != "name":
        return []
    known = {fact.object for fact in chain} | {chain[0].page.title}
    found = [fact for fact in next_links(chain[-1], results, [one.page for one in chain]) if fact.object not in known]
    rng.shuffle(found)
    return found[:_BEAM]


def _onward(levels: Sequence[Sequence[Chain]]) -> list[str]:
    """The names to search for: those that the longest chains end in."""
    names = (chain[-1].object for chain in levels[-1][:_BEAM] if chain[-1].kind == "name")
    return list(dict.fromkeys(names))[:_QUERIES]


def _plan(given: Given, names: Sequence[str]) -> str:
    return f"Hop by hop away from {given.page.title}: what do other documents say of {' or of '.join(names)}?"
