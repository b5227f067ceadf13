"""Valid episode records for tests: played in real environments, or put together where a model would be needed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import play_episode
from factgym.integrations.session import training_config

Json = dict[str, Any]

ENV = "claimcheck-multihop"


def played(agent: str = "oracle", task: int = 0, sample: int = 0, env: str = ENV, seed: int = 0, **config: Any) -> Json:
    """An episode of a scripted player on the training split, with every clock at a fixed value."""
    world = factgym.make(env, **training_config(env, config, strict=False))
    record = json.loads(json.dumps(play_episode(world, find_scripted_agent(env, agent), task, seed)))
    record |= {"sample": sample, "seconds": 1.5}
    for turn in record["turns"]:
        turn["seconds"] = {"model": 0.25, "tool": 0.125, "environment": 0.0625}
    return record


class NativePolicy:
    """Searches and submits through native tool calls, with reasoning and an account of each reply."""

    def __init__(self, verdict: str = "supported", finish_reason: str = "tool_calls") -> None:
        self.verdict = verdict
        self.finish_reason = finish_reason
        self.turn = 0

    def act(self, messages: Any, tools: Any) -> Any:
        self.turn += 1
        claim = {"claim": "x", "status": self.verdict, "evidence_ids": [], "quote": "", "reason": "naïve ‘quotes’"}
        submit = {"claims": [claim], "final_verdict": self.verdict}
        name, arguments = ("search", {"query": "the rule", "k": 2}) if self.turn == 1 else ("submit", submit)
        call = {
            "id": f"c{self.turn}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        return {
            "role": "assistant",
            "content": None,
            "reasoning_content": f"I think about turn {self.turn}.",
            "tool_calls": [call],
            "completion": {
                "raw": {"role": "assistant", "tool_calls": [call]},
                "model": "a-model",
                "finish_reason": self.finish_reason,
                "usage": {"prompt_tokens": 100, "completion_tokens": 20, "reasoning_tokens": 5, "cached_tokens": 64},
                "logprobs": [{"token": "a", "logprob": -0.25}],
                "requests": 2,
                "retries": [{"cause": "rate_limit", "waited": 0.5}],
                "notes": {"anything": [1, None]},
            },
        }


def native(task: int = 0, sample: int = 0, reward: float = 1.0, **policy: Any) -> Json:
    """An episode played with native tool calls, with the reward that a test wants it to have."""
    from factgym.core.policy import ScriptedAgent

    agent = ScriptedAgent("model", "baseline", "a stand-in", lambda env, seed: NativePolicy(**policy))
    record = json.loads(json.dumps(play_episode(factgym.make(ENV, split="train"), agent, task)))
    return with_reward(record | {"sample": sample, "seconds": 1.5}, reward)


def with_reward(record: Json, total: float) -> Json:
    """The record with another total."""
    record = copy.deepcopy(record)
    record["reward"] |= {"total": total, "status": "scored", "error": None}
    return record


def failed(task: str = "t", sample: int = 0, cause: str = "rate_limit") -> Json:
    """An episode that the infrastructure ended before its first turn."""
    record = played()
    error = {"cause": cause, "message": "429 after 6 requests"}
    return record | {
        "task": task, "sample": sample, "turns": [], "messages": record["messages"][:2], "reward": None,
        "stop": "error", "error": error, "usage": None,
    }  # fmt: skip


def sample_of(record: Json, sample: int, total: float, text: str = "") -> Json:
    """Another sample of the record's task: other words in its first reply, another reward."""
    record = with_reward(record, total) | {"sample": sample}
    record["messages"][record["turns"][0]["message"]]["content"] += text or f"\nsample {sample}"
    return record


def write(folder: Path, records: list[Json], **manifest: Any) -> Path:
    """A run on disk, written with ASCII escapes so that hostile texts survive."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"env": records[0]["env"], "version": records[0]["version"], "n": len(records)} if records else {}
    facts |= {"agent": "recorded"} | manifest
    lines = [json.dumps({**record, "agent": facts["agent"]}) + "\n" for record in records]
    (folder / "episodes.jsonl").write_text("".join(lines), "utf-8")
    (folder / "manifest.json").write_text(json.dumps(facts), "utf-8")
    return folder


def lines_of(file: Path) -> list[Json]:
    """The lines of a JSONL file; NaN is refused."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    return [json.loads(line, parse_constant=refuse) for line in file.read_bytes().decode().split("\n") if line]
