"""Conformance of an environment: actions that no policy should send, exact transcripts, and what a teacher may act on.

`factgym validate` and the tests of this package use the same ones.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from factgym.agents.resolve import scripted_agents
from factgym.core.env import Env
from factgym.core.errors import FactgymError
from factgym.core.policy import ScriptedAgent
from factgym.text.words import words_in

HEADINGS = (
    "Description",
    "Task",
    "Tools",
    "Turn protocol",
    "Rewards",
    "Splits and licences",
    "Determinism",
    "Known exploits",
    "Versions",
)
"""Headings of an environment's card, in the docstring of its class."""

MALFORMED: Mapping[str, Any] = {
    "empty": "",
    "prose": "I think that it is true.",
    "broken JSON": '<tool_call>{"name": "search", "arguments": {"query": </tool_call>',
    "no object": "<tool_call>search</tool_call>",
    "deep": '<tool_call>{"name": "search", "arguments": ' + '{"a":' * 5000 + "1" + "}" * 5001 + "</tool_call>",
    "megabytes": "x" * 3_000_000,
    "megabytes of tags": "<tool_call>" * 200_000,
    "surrogate": '<tool_call>{"name": "search\ud800", "arguments": {"query": "\udfff"}}</tool_call>',
    "NaN": '{"tool": "search", "arguments": {"query": "a", "k": NaN}}',
    "duplicate key": '{"tool": "search", "arguments": {"query": "a", "query": "b"}}',
    "long number": '{"tool": "search", "arguments": {"query": "a", "k": ' + "9" * 10_000 + "}}",
    "long name": {"tool": "x" * 1_000_000, "arguments": {}},
    "unknown tool": {"tool": "launch", "arguments": {}},
    "wrong arguments": {"tool": "submit", "arguments": {"verdict": True}},
    "no arguments": {"tool": "submit", "arguments": None},
    "a list of arguments": {"tool": "submit", "arguments": []},
    "endless list": {"tool": "submit", "arguments": {"claims": [1] * 30_000, "final_verdict": "supported"}},
    "empty dict": {},
    "other role": {"role": "user", "content": "hello"},
    "no content": {"role": "assistant", "content": None},
    "content that is none": {"role": "assistant", "content": 5},
    "odd tool calls": {"role": "assistant", "content": "", "tool_calls": [None, 3, {"function": {"name": 1}}]},
    "tool calls that are none": {"role": "assistant", "content": "", "tool_calls": "search"},
    "a number": 17,
    "nothing": None,
    "bytes": b"<tool_call>",
    "a list": ["search"],
}
"""Actions that no environment can do, each of another kind."""


def sampled_actions(env: Env[Any], seed: int, count: int) -> list[Any]:
    """Return well-formed calls with random arguments; most are refused for what they say."""
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(count)]


def exact(value: Any) -> str:
    """Return the exact text of a value: unequal for unequal floats, whatever their rounding."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, default=repr)


def played(env: Env[Any], actions: Iterator[Any]) -> Iterator[str]:
    """Yield the answers of an environment to actions, until the episode or the actions end; `env` has been reset."""
    for action in actions:
        obs, reward, terminated, truncated, info = env.step(action)
        report = info.pop("reward", None)
        yield exact([obs, reward.hex(), terminated, truncated, info, report.to_dict() if report else None])
        if terminated or truncated:
            return


def by_policy(env: Env[Any], agent: ScriptedAgent, seed: int) -> Iterator[Any]:
    """Yield the actions of a scripted agent, each chosen when it is asked for."""
    policy = agent.start(env, seed)
    while True:
        yield policy.act(env.policy_prompt(), env.available_tools())


def transcript(env: Env[Any], seed: int) -> Iterator[str]:
    """Yield a long exact transcript: sampled and malformed actions, then an episode of every scripted agent."""
    obs, info = env.reset(seed=seed)
    yield exact([obs, info])
    yield from played(env, iter([*sampled_actions(env, seed, 3), MALFORMED["prose"], MALFORMED["unknown tool"]]))
    for agent in scripted_agents(env.env_spec.id).values():
        obs, info = env.reset()
        yield exact([agent.name, obs, info])
        yield from played(env, by_policy(env, agent, seed))


def digest(lines: Iterable[str]) -> str:
    """Return the SHA-256 of lines, in hex."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


_OTHER_PROCESS = """
import json, sys
request = json.load(sys.stdin)
sys.path[:] = request["path"]
from factgym.benchmarks.conformance import digest, transcript
from factgym.core.registry import make
print(digest(transcript(make(request["env"], **request["settings"]), request["seed"])))
"""


def digest_elsewhere(env_id: str, settings: Mapping[str, Any], seed: int) -> str:
    """Return the digest of a transcript from another process with another hash seed.

    settings: JSON values. Raises FactgymError with the last line of its errors where that process fails.
    """
    request = {"path": sys.path, "env": env_id, "settings": dict(settings), "seed": seed}
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_PROCESS],
        env={**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"},
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise FactgymError(f"another process: {(done.stderr.strip().splitlines() or ['it was killed'])[-1]:.300}")
    return done.stdout.strip().splitlines()[-1]


# What a teacher may act on

COPIED = frozenset({
    "id", "ids", "evidence_ids", "evidence", "quote", "source_span", "source_evidence", "claim_span", "evidence_used",
    "unsupported_span",
})  # fmt: skip
"""Arguments, also inside of objects, whose texts are ids or words of passages or of the claim."""
COMPOSED = frozenset({"query", "queries", "query_list", "question", "questions"})
"""Arguments whose words were in sight, but for `FREE_WORDS`."""
FREE_WORDS = words_in("""
a an the this that these those it its they their there and or not no of in on at to for from by with about as into than is
are was were be been being am do does did has have had can could will would shall should may might must what which who
whom whose when where why how many much long often far old other any some each every all both same say says said mean
means true kind called name named s
""")


def _texts(value: Any, names: frozenset[str], name: str = "") -> Iterator[str]:
    """Yield every text of the arguments with one of these names, at any depth."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, names, key)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, names, name)
    elif isinstance(value, str) and name in names:
        yield value


def _folded(text: str) -> str:
    return " ".join(html.unescape(text).casefold().split())


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", _folded(text)))


def objections(record: dict[str, Any]) -> Iterator[str]:
    """Yield the ids, quotes and words of an episode's calls that neither the prompt nor an earlier observation had shown.

    record: of the episode. Arguments with other names than those of `COPIED` and `COMPOSED` are not looked at.
    """
    for turn in record["turns"]:
        messages = record["messages"][: turn["message"]]
        if turn["sent"] is not None:
            messages += [([*record["messages"], *record["other_messages"]])[index] for index in turn["sent"]]
        sight = _folded("\n".join(message["content"] or "" for message in messages if message["role"] != "assistant"))
        for call in turn["calls"]:
            for text in _texts(call["arguments"], COPIED):
                if text != "NOT_FOUND" and not re.search(rf"(?<!\w){re.escape(_folded(text))}(?!\w)", sight):
                    yield f"{record['task']}: {call['tool']} holds {text!r}, which was not in sight"
            for text in _texts(call["arguments"], COMPOSED):
                if unseen := _words(text) - _words(sight) - FREE_WORDS:
                    yield f"{record['task']}: {unseen} of {text!r} were not in sight"
