"""The extractive solver: a script that searches, follows names, and answers with a name, date or number that it read.

It plays every protocol of the solver: with the search tool, and in one turn with evidence or with the question alone.
It sees the messages alone and draws with a seed, so that asking it again may give another answer: surely where one
candidate fits best, spread where several fit alike. What it has not read it does not know, and it says so; only
questions that name their possible answers (yes or no, this or that) it answers by chance.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from factgym.core.messages import Message, ToolSchema
from factgym.envs.eve.agents.reading import (
    Asked,
    Candidate,
    Chain,
    Sentence,
    candidates,
    chains,
    links_of,
    read_passage,
    read_question,
    stem,
)
from factgym.envs.eve.protocols import Shown, read_shown
from factgym.envs.eve.submission import written
from factgym.rewards.eve.spans import contains_answer

UNKNOWN = "unknown"

_ENOUGH = 0.9
"""The share of a question that a chain covers when nothing more is looked for."""
_LEAST = 0.3
"""The share below which nothing that was read has to do with the question."""
TEMPERATURE = 0.1
VERSION = 1
"""Of the rules by which it reads; part of what its answers are cached under."""

_TOP = 5
_QUERIES = re.compile(r'"query_list": (\[.*?\])\}')
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Reading:
    """What the solver has found out: its answer, the sentence that says it, and what else it might say.

    answer: None where it does not know. passage: the whole text that the evidence is of. others: further candidates.
    """

    question: str
    answer: str | None = None
    evidence: str = ""
    passage: str = ""
    others: tuple[str, ...] = ()


Finish = Callable[[Reading], str]
"""Turns what was found out into a last message."""


def honest(reading: Reading) -> str:
    """The answer with its sentence; "unknown" where it is not known."""
    return written(UNKNOWN) if reading.answer is None else written(reading.answer, reading.evidence)


class ExtractiveSolver:
    """A model of ours without a model: `start(seed)` gives the policy of one episode, `act` draws with its own seed.

    finish: writes the last message; exploiters are this solver with another one.
    """

    def __init__(self, seed: int = 0, temperature: float = TEMPERATURE, finish: Finish = honest) -> None:
        self.seed = seed
        self.temperature = temperature
        self._finish = finish

    def start(self, seed: int) -> ExtractiveSolver:
        """The policy of one episode."""
        return ExtractiveSolver(seed, self.temperature, self._finish)

    def describe(self) -> dict[str, Any]:
        """What it is, for manifests and cache keys."""
        return {"kind": "scripted", "name": "extractive", "version": VERSION, "temperature": self.temperature}

    async def close(self) -> None:
        """Nothing is held."""

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The next search, or the answer with its evidence."""
        shown = read_shown(messages)
        asked = read_question(shown.question)
        given = shown.evidence is not None
        found = chains(asked, _sentences(shown), given)
        queries = _queries(asked, found, messages) if can_search(shown, tools) else []
        if queries:
            return search_call(queries)
        rng = random.Random(f"factgym extractive {self.seed} {shown.searches} {shown.question}")
        return self._finish(read_off(asked, found, self.temperature, rng, least=0.0 if given else _LEAST))


def _queries(asked: Asked, found: Sequence[Chain], messages: Sequence[Message]) -> list[str]:
    """What to look for next: the question and what it names, then along the names of the best chains.

    Nothing when enough is known.
    """
    before = asked_before(messages)
    if not before:
        return list(dict.fromkeys([asked.text[:1000].strip() or "?", *asked.named]))[:2]
    if found and len(found[0].covered) >= _ENOUGH * len(asked.weights):
        return []
    wanted = [query for chain in found[:3] for query in _onward(asked, chain)]
    return [one for one in dict.fromkeys(wanted) if one not in before][:2]


def read_off(
    asked: Asked, found: Sequence[Chain], temperature: float, rng: random.Random, least: float = _LEAST
) -> Reading:
    """What the chains say, drawn where several answers fit. least: the share of the question that a chain covers."""
    fit = [one for one in found if one.score >= least]
    if asked.yes_no or asked.choices:
        return _chosen(asked, fit, rng)
    known = candidates(asked, fit)
    if not known:
        return Reading(asked.text)
    one = drawn(known, temperature, rng)
    last = one.chain.sentences[-1]
    others = tuple(other.answer for other in known if other is not one)
    return Reading(asked.text, one.answer, last.text, last.passage, others)


def _chosen(asked: Asked, found: Sequence[Chain], rng: random.Random) -> Reading:
    """One of the answers that the question itself allows, with the best sentence that names it."""
    if asked.choices:
        answer = rng.choice(asked.choices)
    else:
        answer = "yes" if rng.random() < (found[0].score if found else 0.5) else "no"
    if not found:
        return Reading(asked.text, answer)
    read = [one for chain in found for one in reversed(chain.sentences)]
    told = next((one for one in read if contains_answer(answer, one.text)), read[0])
    return Reading(asked.text, answer, told.text, told.passage, asked.choices)


def drawn(known: Sequence[Candidate], temperature: float, rng: random.Random) -> Candidate:
    """One of the best candidates, by a softmax over their scores."""
    top = known[:_TOP]
    weights = [math.exp((one.score - top[0].score) / temperature) for one in top]
    return rng.choices(top, weights)[0]


def can_search(shown: Shown, tools: Sequence[ToolSchema]) -> bool:
    """Whether the search tool is open and a turn is left for the answer."""
    return shown.left != 1 and any(one["function"]["name"] == "search" for one in tools)


def search_call(queries: Sequence[str]) -> str:
    """A call of the search tool as text."""
    call = {"name": "search", "arguments": {"query_list": [one[:1000] for one in queries]}}
    return f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


def asked_before(messages: Sequence[Message]) -> list[str]:
    """The queries of the searches so far, as this script writes them."""
    said = [message["content"] or "" for message in messages if message["role"] == "assistant"]
    return [query for one in said for found in _QUERIES.findall(one) for query in _loaded(found)]


def _loaded(text: str) -> list[str]:
    try:
        return [str(one) for one in json.loads(text)]
    except ValueError:
        return []


def _sentences(shown: Shown) -> list[Sentence]:
    """Everything in sight, each passage once."""
    if shown.evidence is not None:
        return list(read_passage("", shown.evidence))
    passages = dict.fromkeys((title, text) for _, title, text in shown.results)
    return [one for title, text in passages for one in read_passage(title, text)]


def _onward(asked: Asked, chain: Chain) -> list[str]:
    """Queries that go on from a chain: a name of its last sentence with what is not covered yet, and by itself."""
    open_words = [one for one in _WORD.findall(asked.text) if stem(one) in asked.weights.keys() - chain.covered]
    rest = " ".join(open_words)
    links = links_of(asked, chain.sentences[-1])
    return [query for link in links for query in (f"{link.text} {rest}".strip(), link.text)]
