"""A small corpus, proposals about it, and solvers that count their requests."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import factgym
from factgym.corpora.corpus import Corpus, Passage

ADA = Passage(
    "ada", "Ada Byron", "Ada Byron was born in London in 1815. She wrote notes on the Analytical Engine for a journal."
)
ENGINE = Passage(
    "engine", "Analytical Engine", "The Analytical Engine was designed by Charles Babbage. It was never built in brass."
)
BABBAGE = Passage(
    "babbage", "Charles Babbage", "Charles Babbage taught mathematics at Cambridge for eleven years. He liked trains."
)
CORPUS = Corpus([ADA, BABBAGE, ENGINE, *(Passage(f"x{n}", f"Town {n}", f"Town {n} has a mill.") for n in range(9))])

QUESTION, ANSWER, EVIDENCE = "In which city was Ada Byron born?", "London", "Ada Byron was born in London in 1815."
THOUGHT = "I ask where she was born and quote that sentence."


def proposal(question: str = QUESTION, answer: str = ANSWER, evidence: str = EVIDENCE, thought: str = THOUGHT) -> str:
    return (
        f"<think>{thought}</think>\n<question>{question}</question>\n<answer>{answer}</answer>\n"
        f"<evidence>{evidence}</evidence>"
    )


def search(*queries: str) -> str:
    listed = ", ".join(f'"{query}"' for query in queries)
    return f'<think>Looking for {queries[0]} now.</think><tool_call>{{"name": "search", "arguments": {{"query_list": [{listed}]}}}}</tool_call>'


def started(**config: Any) -> Any:
    """An environment at the beginning of an episode about Ada."""
    settings = {"corpus": CORPUS, "documents": ["ada"], "hops": 1, **config}
    env = factgym.make("eve-proposer", **settings)
    env.reset(seed=0)
    return env


def kind_of(messages: Any, tools: Any) -> str:
    if tools:
        return "search"
    return "with" if "<evidence " in messages[1]["content"] else "without"


class Solver:
    """Answers by the kind of prompt: `answers` maps "search", "with" and "without" to texts, chosen by number.

    requests: count by kind; seeds: of each; peak: largest number at a time. wait_for: nobody gets an answer before so
    many requests have come. Everything runs on one loop.
    """

    def __init__(
        self, answers: dict[str, list[str]] | None = None, wait_for: int = 0, name: str | None = "fake"
    ) -> None:
        self.answers = {"search": [ANSWER], "with": [ANSWER], "without": ["unknown"], **(answers or {})}
        self.requests: Counter[str] = Counter()
        self.seeds: list[int] = []
        self.running = self.peak = 0
        self.idle = threading.Event()
        self._wait_for, self._all_here = wait_for, asyncio.Event()
        if name is not None:
            self.describe = lambda: {"kind": "fake", "name": name}

    def start(self, seed: int) -> _Episode:
        self.seeds.append(seed)
        return _Episode(self, seed)

    async def act(self, messages: Any, tools: Any) -> str:
        raise AssertionError("each answer is an episode of its own")

    async def reply(self, seed: int, messages: Any, tools: Any) -> str:
        kind = kind_of(messages, tools)
        number = self.requests[kind]
        self.requests[kind] += 1
        self.running += 1
        self.peak = max(self.peak, self.running)
        self.idle.clear()
        try:
            if self._wait_for:
                if sum(self.requests.values()) >= self._wait_for:
                    self._all_here.set()
                await self._all_here.wait()
            else:
                await asyncio.sleep(0)
            choices = self.answers[kind]
            return f"<answer>{choices[number % len(choices)]}</answer>"
        finally:
            self.running -= 1
            if not self.running:
                self.idle.set()


class _Episode:
    def __init__(self, solver: Solver, seed: int) -> None:
        self.solver, self.seed = solver, seed

    async def act(self, messages: Any, tools: Any) -> str:
        return await self.solver.reply(self.seed, messages, tools)
