"""A policy for tests of the filter that knows each generated question with a probability of its own; given to `--agent`."""

from __future__ import annotations

import asyncio
import random
from functools import cache

from factgym.core.policy import PolicyError
from factgym.generators.question_world import GeneratedQuestions


@cache
def answers(split):
    result = GeneratedQuestions(split)
    return {result[i].question: result[i].aliases[0] for i in range(len(result))}


def chance(question):
    """From 0 to 1; never and always are not rare."""
    return min(1.0, max(0.0, random.Random(question).uniform(-0.3, 1.3)))


class Forgetful:
    """One object an episode. fail: share of episodes that the infrastructure ends."""

    def __init__(self, seed=0, wait=0.0, fail=0.0, split="validation"):
        self.seed, self.wait, self.fail, self.split = seed, wait, fail, split

    def start(self, seed):
        return Forgetful(seed, self.wait, self.fail, self.split)

    async def act(self, messages, tools):
        await asyncio.sleep(self.wait)
        rng = random.Random(self.seed)
        if rng.random() < self.fail:
            raise PolicyError("rate_limit", "the server is busy")
        question = messages[-1]["content"]
        names = rng.random() < chance(question)
        text = answers(self.split)[question] if names else "Nobody of that name"
        return f"<think>The question is well known, and the answer to it is {text}.</think><answer>{text}</answer>"
