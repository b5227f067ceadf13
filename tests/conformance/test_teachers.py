"""Teachers act only as their observations justify: ids and quotes that were shown, queries made of words in sight."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from setups import Setup, agents

from factgym.agents.rollout.engine import play_episode

EPISODES = 15

WITHOUT_TEACHER: set[str] = set()

COPIED = {
    "id", "ids", "evidence_ids", "evidence", "quote", "source_span", "source_evidence", "claim_span", "evidence_used",
    "unsupported_span",
}  # fmt: skip
"""Arguments, also inside of objects, whose texts are ids or words of passages or of the claim."""
COMPOSED = {"query", "queries", "query_list", "question", "questions"}
"""Arguments whose words were in sight, but for `FREE_WORDS`."""
OTHER = {
    "k", "page", "claims", "claim", "status", "reason", "final_verdict", "label", "evidence_alignment", "claim_part",
    "reasoning_chain", "reasoning", "judgment", "confidence", "error_type", "fix_suggestion", "answer", "verdict",
    "type", "explanation", "justification",
}  # fmt: skip

FUNCTION_WORDS = """
a an the this that these those it its they their there and or not no of in on at to for from by with about as into than is
are was were be been being am do does did has have had can could will would shall should may might must what which who
whom whose when where why how many much long often far old other any some each every all both same say says said mean
means true kind called name named s
"""
FREE_WORDS = set(FUNCTION_WORDS.split())


def texts(value: Any, names: set[str], name: str = "") -> Iterator[str]:
    """Every text of the arguments with one of these names, at any depth."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from texts(item, names, key)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, names, name)
    elif isinstance(value, str) and name in names:
        yield value


def names_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(names_of, value.values()))
    return set().union(*map(names_of, value)) if isinstance(value, list) else set()


def folded(text: str) -> str:
    return " ".join(html.unescape(text).casefold().split())


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", folded(text)))


def objections(record: dict[str, Any]) -> Iterator[str]:
    """Ids, quotes and words of an episode's calls that neither the prompt nor an earlier observation had shown."""
    for turn in record["turns"]:
        messages = record["messages"][: turn["message"]]
        if turn["sent"] is not None:
            messages += [([*record["messages"], *record["other_messages"]])[index] for index in turn["sent"]]
        sight = folded("\n".join(message["content"] or "" for message in messages if message["role"] != "assistant"))
        for call in turn["calls"]:
            unknown = names_of(call["arguments"]) - COPIED - COMPOSED - OTHER
            assert not unknown, f"sort the arguments {unknown} of {call['tool']} into COPIED, COMPOSED or OTHER"
            for text in texts(call["arguments"], COPIED):
                if text != "NOT_FOUND" and not re.search(rf"(?<!\w){re.escape(folded(text))}(?!\w)", sight):
                    yield f"{record['task']}: {call['tool']} holds {text!r}, which was not in sight"
            for text in texts(call["arguments"], COMPOSED):
                if unseen := words(text) - words(sight) - FREE_WORDS:
                    yield f"{record['task']}: {unseen} of {text!r} were not in sight"


def play(setup: Setup, role: str) -> list[dict[str, Any]]:
    (agent,) = [agent for agent in agents(setup.id).values() if agent.role == role]
    env = setup.make()
    count = min(EPISODES, len(env.tasks))
    return [play_episode(env, agent, index, seed=index) for index in range(count)]


def test_it_acts_as_its_observations_justify_and_earns_what_the_baseline_earns(setup: Setup) -> None:
    records = play(setup, "teacher")
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
