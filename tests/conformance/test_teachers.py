"""Teachers act only as their observations justify: ids and quotes that were shown, queries made of words in sight."""

from __future__ import annotations

import re
from statistics import fmean
from typing import Any

from setups import Setup, agents

from factgym.agents.rollout.engine import play_episode
from factgym.benchmarks.conformance import COMPOSED, COPIED, objections

EPISODES = 15

WITHOUT_TEACHER: set[str] = set()

OTHER = {
    "k", "page", "claims", "claim", "status", "reason", "final_verdict", "label", "evidence_alignment", "claim_part",
    "reasoning_chain", "reasoning", "judgment", "confidence", "error_type", "fix_suggestion", "answer", "verdict",
    "type", "explanation", "justification",
}  # fmt: skip
"""Arguments that are neither copied nor composed: judgements, numbers, explanations."""


def names_of(value: Any) -> set[str]:
    """The names of arguments at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(names_of, value.values()))
    return set().union(*map(names_of, value)) if isinstance(value, list) else set()


def play(setup: Setup, role: str) -> list[dict[str, Any]]:
    (agent,) = [agent for agent in agents(setup.id).values() if agent.role == role]
    env = setup.make()
    count = min(EPISODES, len(env.tasks))
    return [play_episode(env, agent, index, seed=index) for index in range(count)]


def test_it_acts_as_its_observations_justify_and_earns_what_the_baseline_earns(setup: Setup) -> None:
    records = play(setup, "teacher")
    calls = [call for record in records for turn in record["turns"] for call in turn["calls"]]
    unknown = set().union(*(names_of(call["arguments"]) for call in calls)) - COPIED - COMPOSED - OTHER
    assert not unknown, f"sort the arguments {unknown} into COPIED, COMPOSED or OTHER"
    assert not [objection for record in records for objection in objections(record)]
    assert all(record["error"] is None and not any(turn["error"] for turn in record["turns"]) for record in records)
    honest_records = play(setup, "honest")
    teacher, honest = (fmean(record["reward"]["total"] for record in of) for of in (records, honest_records))
    assert teacher >= honest - 1e-9


def test_an_oracle_does_not_act_so() -> None:
    records = play(Setup("claimcheck-multihop", {}), "oracle")
    unjustified = [objection for record in records for objection in objections(record)]
    assert any(re.search(r"read holds '.*', which was not in sight", objection) for objection in unjustified)


def test_queries_and_quotes_are_checked() -> None:
    calls = [
        {"tool": "search", "arguments": {"query_list": ["When does the ZOO open?", "opening hours of the mill"]}},
        {"tool": "submit", "arguments": {"evidence": "opens at 1", "claims": [{"quote": ["The zoo\nopens at 10."]}]}},
    ]
    messages = [
        {"role": "user", "content": "<p>The zoo opens at 10. Open?</p>"},
        {"role": "assistant", "content": "mill"},
    ]
    turn = {"message": 2, "sent": None, "calls": calls}
    query, quote = list(objections({"task": "t", "turns": [turn], "messages": messages, "other_messages": []}))
    assert all(word in query for word in ("opening", "hours", "mill"))
    assert "opens at 1'" in quote
