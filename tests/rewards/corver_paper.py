"""The paper's traced completions (B.6), its worked example (B.3) and its three single sentences (Figure 7).

The texts, the triplets and the counts are the paper's; a counter here answers each of its queries with its count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from factgym.rewards.corver.triplets import Triplet


class Traced(NamedTuple):
    """One sentence of a trace."""

    text: str
    triplet: Triplet
    count: int
    reward: float


class Case(NamedTuple):
    question: str
    gold: str
    thought: tuple[Traced, ...]
    answer: tuple[Traced, ...]

    @property
    def sentences(self) -> tuple[Traced, ...]:
        return self.thought + self.answer

    @property
    def text(self) -> str:
        thought, answer = (" ".join(traced.text for traced in part) for part in (self.thought, self.answer))
        return f"<think> {thought} </think> <answer> {answer} </answer>"


CASE_1 = Case(
    "when was the last time philly won the stanley cup",
    "1975",
    (
        Traced(
            "The Philadelphia Flyers, a professional ice hockey team based in Philadelphia, Pennsylvania, won the "
            "Stanley Cup in 1975.",
            Triplet("Philadelphia Flyers", "won", "Stanley Cup"),
            12_323,
            0.1,
        ),
        Traced(
            "The team defeated the Buffalo Sabres in the Stanley Cup Finals, winning the series 4–2 with a game 5 "
            "victory on May 19, 1975.",
            Triplet("the team", "defeated", "Buffalo Sabres"),
            16_484,
            0.1,
        ),
        Traced(
            "Philipp Mehldau was the Governor of Pennsylvania during this time.",
            Triplet("Philipp Mehldau", "Governor of", "Pennsylvania"),
            0,
            -0.3,
        ),
    ),
    (
        Traced(
            "The Philadelphia Flyers last won the Stanley Cup in 1975.",
            Triplet("Philadelphia Flyers", "last won", "Stanley Cup"),
            12_323,
            0.1,
        ),
        Traced(
            "The Stanley Cup was last won by the Philadelphia Flyers in 1975.",
            Triplet("Stanley Cup", "last won by", "Philadelphia Flyers"),
            12_323,
            0.1,
        ),
    ),
)

CASE_2 = Case(
    "who won the ncaa basketball championship in 1989",
    "Michigan",
    (
        Traced(
            "Michigan was led by Glen Rice, who was named the Most Outstanding Player.",
            Triplet("Michigan", "led by", "Glen Rice"),
            163,
            0.1,
        ),
        Traced(
            "Michigan won the championship by defeating Seton Hall 80–79.",
            Triplet("Michigan", "defeated", "Seton Hall"),
            389,
            0.1,
        ),
        Traced(
            "The game took place at the King Dome in Seattle, Washington.",
            Triplet("the game", "took place at", "King Dome"),
            542,
            0.1,
        ),
        Traced(
            "The 1989 NCAA Men’s Division I Basketball Championship was the 61st edition of the NCAA Field Hockey "
            "Championships and was held on April 3, 1989.",
            Triplet("1989 NCAA Basketball Championship", "edition of", "NCAA Field Hockey Championships"),
            0,
            -0.3,
        ),
    ),
    (
        Traced(
            "The Michigan Wolverines won the NCAA basketball championship in 1989.",
            Triplet("Michigan Wolverines", "won", "NCAA basketball championship"),
            3_500,
            0.1,
        ),
        Traced(
            "The 1989 NCAA Men’s Division I Basketball Championship was held at the King Dome in Seattle, Washington.",
            Triplet("1989 Championship", "held at", "King Dome"),
            10,
            0.0,
        ),
    ),
)

CASES = (CASE_1, CASE_2)

WORKED = "Mario Camerini directed Il Seduttore. The film starred Sophia Loren."
WORKED_TRIPLETS = [
    Triplet("Mario Camerini", "directed", "Il Seduttore"),
    Triplet("Il Seduttore", "starred", "Sophia Loren"),
]

FIGURE_7 = (
    ("The zip code for Ronkonkoma, New York is 11777.", Triplet("Ronkonkoma NY", "zip code", "11777")),
    ("Jennifer Coolidge also appears in the movie Grown Ups.", Triplet("Jennifer Coolidge", "appears in", "Grown Ups")),
    (
        "Ella Fitzgerald’s mother was Temperance Mary Tempie Height Fitzgerald.",
        Triplet("Ella Fitzgerald", "mother", "Height"),
    ),
)


class TableCounter:
    """Counts from a table: the words of a query, ignoring their order, to a count; 0 for what is not in it."""

    def __init__(self, table: Mapping[Sequence[str], int], default: int = 0) -> None:
        self.table = {frozenset(words): count for words, count in table.items()}
        self.default = default
        self.queries: list[tuple[str, ...]] = []
        self.calls = 0

    def count_many(self, queries: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        self.calls += 1
        self.queries += [tuple(part) for part in queries]
        return np.array([self.table.get(frozenset(part), self.default) for part in queries], dtype=np.int64)

    def describe(self) -> dict[str, Any]:
        return {"counter": "table"}

    def fingerprint(self) -> str:
        return "table"


class TableExtractor:
    """Triplets from a table: a sentence to its triplets."""

    def __init__(self, table: Mapping[str, Sequence[Triplet]]) -> None:
        self.table = table
        self.seen: list[str] = []

    def extract(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        self.seen += sentences
        return [list(self.table.get(sentence, ())) for sentence in sentences]

    def describe(self) -> dict[str, Any]:
        return {"extractor": "table"}
