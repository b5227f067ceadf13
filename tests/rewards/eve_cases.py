"""Proposer rollouts with what Dr. Zero's published format reward gives them (its numbers, run on the same text)."""

from __future__ import annotations

from typing import NamedTuple

from factgym.rewards.eve import Rollout, Search

SOURCE = "Ada Lovelace, daughter of Lord Byron, was born in London on 10 December 1815."
THINK = "<think>The source names her father.</think>"
CALL = f'{THINK}\n<tool_call>{{"name": "search", "arguments": {{"query_list": ["Lord Byron"]}}}}</tool_call>'
BYRON = "George Gordon Byron was an English poet; he died at Missolonghi of a fever in the year 1824 aged thirty-six."
GREECE = "Missolonghi is a town in western Greece. It is known for its siege."


class Case(NamedTuple):
    """expected: the published code's score, which is 0 for a leak; parts: of ours, by name in the paper's order."""

    name: str
    rollout: Rollout
    parts: tuple[float, float, float, float]
    expected: float


def final(question: str, answer: str, think: str = THINK) -> str:
    return f"{think} <question>{question}</question> <answer> {answer} </answer>"


def rollout(hops: int, *turns: str, searches: tuple[str, ...] = (), calls: int | None = None) -> Rollout:
    return Rollout(hops, SOURCE, turns, tuple(Search(("Lord Byron",), text) for text in searches), calls)


WHO = "Who was the father of the first programmer?"
CASES = (
    Case("one hop", rollout(1, final(WHO, "Lord Byron")), (1, 1, 1, 1), 1.0),
    Case("one hop with a search", rollout(1, CALL, final(WHO, "Lord Byron"), searches=(BYRON,)), (1, 1, 1, 1), 1.0),
    Case("two hops", rollout(2, CALL, final("Where did he die?", "Missolonghi"), searches=(BYRON,)), (1, 1, 1, 1), 1.0),
    Case("two hops, no search", rollout(2, final(WHO, "Lord Byron")), (1, 1, 0, 1), 0.75),
    Case(
        "four hops, one search",
        rollout(4, CALL, final("Where did he die?", "Missolonghi"), searches=(BYRON,)),
        (1, 1, 0.5, 1),
        0.875,
    ),
    Case(
        "more searches than hops",
        rollout(2, CALL, CALL, CALL, final("Where did he die?", "Greece"), searches=(BYRON, GREECE, BYRON)),
        (1, 1, 1, 1),
        1.0,
    ),
    Case(
        "a call that was not valid",
        rollout(3, CALL, CALL, final(WHO, "Lord Byron"), searches=(BYRON, "error"), calls=1),
        (1, 1, 0, 1),
        0.75,
    ),
    Case("a turn without a thought", rollout(2, CALL[len(THINK) :], final(WHO, "Lord Byron"), searches=(BYRON,)), (1, 0.5, 1, 1), 0.875),
    Case("an empty thought", rollout(1, final(WHO, "Lord Byron", "<think></think>")), (1, 1, 1, 1), 1.0),
    Case("a thought left open", rollout(1, final(WHO, "Lord Byron", "<think> he")), (1, 0, 1, 1), 0.75),
    Case("no answer in the context", rollout(1, final(WHO, "Charles Babbage")), (1, 1, 1, 0), 0.75),
    Case("five words that count", rollout(2, CALL, final("When?", "in the year 1824 aged thirty-six", ""), searches=(BYRON,)), (1, 0.5, 1, 1), 0.875),
    Case("seven words", rollout(2, CALL, final("When?", "of a fever in the year 1824 aged thirty-six"), searches=(BYRON,)), (1, 1, 1, 0.5), 0.875),
    Case("too many words", rollout(1, final("Tell me.", SOURCE)), (1, 1, 1, 0), 0.75),
    Case("yes", rollout(1, final("Was she a child of a poet?", "Yes.")), (1, 1, 1, 1), 1.0),
    Case("a digit of a year", rollout(1, final("How many?", "1")), (1, 1, 1, 1), 1.0),
    Case("a leak", rollout(1, final("Was Lord Byron her father?", "The Lord Byron")), (1, 1, 1, 1), 0.0),
    Case("no question", rollout(1, f"{THINK}<answer>Lord Byron</answer>"), (0, 0, 0, 0), 0.0),
    Case("an empty answer", rollout(1, final(WHO, "")), (0, 0, 0, 0), 0.0),
    Case("an article for an answer", rollout(1, final(WHO, "The")), (1, 1, 1, 0), 0.0),
)  # fmt: skip
