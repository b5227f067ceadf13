"""The random policy: valid calls drawn from a seeded generator; the floor of every table."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from factgym.baselines.reading import Seen
from factgym.corpora.sentences import sentences
from factgym.datasets.claims import STATUSES, VERDICTS
from factgym.envs.claimcheck.agents.script import (
    Brief,
    Call,
    Script,
    Steps,
    Verdict,
    claim,
    evidence_in,
    listing,
    read,
    results_in,
    search,
    verdict,
)

_MOST_TURNS = 6


class RandomPolicy(Script):
    """Lists, searches and reads at random for a few turns, then submits a random verdict on what it happened to see."""

    def __init__(self, turns: int, seed: int) -> None:
        super().__init__(turns)
        self._seed = seed

    def play(self, brief: Brief) -> Steps[Verdict]:
        """A random number of random calls, then a random submission."""
        rng = random.Random(f"random policy {self._seed} {brief.question} {brief.answer}")
        known = [one.id for one in brief.shown]
        opened = list(brief.shown)
        if not brief.offline:
            for _ in range(rng.randint(0, min(_MOST_TURNS, brief.turns - 1))):
                text = yield [_any_call(rng, brief, known)]
                known = list(dict.fromkeys([*known, *(one.id for one in results_in(text))]))
                opened += evidence_in(text)
        return _any_verdict(rng, brief, known, opened)


def _any_call(rng: random.Random, brief: Brief, known: Sequence[str]) -> Call:
    kind = rng.choice(("list", "search", "read") if known else ("list", "search"))
    if kind == "list":
        return listing()
    if kind == "read":
        return read(rng.choice(known))
    words = f"{brief.question} {brief.answer}".split() or ["policy"]
    return search(" ".join(rng.choices(words, k=rng.randint(1, 5))), rng.randint(1, 10))


def _any_verdict(rng: random.Random, brief: Brief, known: Sequence[str], opened: Sequence[Seen]) -> Verdict:
    statements = [brief.answer[start:end] for start, end in sentences(brief.answer)] or [brief.answer or "?"]
    entries = [_any_entry(rng, statement, known, opened) for statement in statements[:16]]
    return verdict(rng.choice(VERDICTS), entries)


def _any_entry(rng: random.Random, statement: str, known: Sequence[str], opened: Sequence[Seen]) -> dict[str, Any]:
    ids = rng.sample(known, min(len(known), rng.randint(0, 2)))
    quote = ""
    if opened:
        text = rng.choice(opened).text
        spans = sentences(text)
        start, end = rng.choice(spans) if spans else (0, len(text))
        quote = text[start:end][:4000]
    words = statement.split()
    first = rng.randint(0, len(words))
    span = " ".join(words[first : first + rng.randint(0, 6)])
    return claim(statement[:4000], rng.choice(STATUSES), ids, quote, span, "Drawn at random.")
