"""Claims with marked evidence, and calls, for the tests of ProFact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import factgym
from factgym.core.env import Env

ARTICLE = "https://checkers.example/2020/false-bridge-story"
LABELS = ("Supported", "Refuted", "Not Enough Evidence", "Conflicting Evidence/Cherrypicking")


def record(number: int) -> dict[str, Any]:
    """A claim whose evidence holds the words "bridge" and "zq<number>x<question>"."""
    questions = [
        {
            "question": f"What of part {part} of bridge {number}?",
            "answers": [
                {
                    "answer": f"The bridge report zq{number}x{part} tells of steel and of stone.",
                    "answer_type": "Extractive",
                    "source_url": f"https://news.example/2019/0{part + 1}/11/bridge",
                }
            ],
        }
        for part in range(3)
    ]
    return {
        "claim": f"Bridge {number} fell in 2019.",
        "label": LABELS[number % 4],
        "justification": f"justified-{number}",
        "claim_date": "20-3-2019",
        "speaker": "Ada Smith",
        "location_ISO_code": "GB",
        "reporting_source": "Facebook",
        "original_claim_url": "https://social.example/1",
        "fact_checking_article": ARTICLE,
        "claim_types": ["Event/Property Claim"],
        "fact_checking_strategies": ["Written Evidence"],
        "questions": questions,
    }


def write_claims(folder: Path, count: int = 8, **first: Any) -> str:
    """A folder with dev.json; `first` replaces fields of its first record."""
    rows = [record(number) for number in range(count)]
    rows[0] |= first
    (folder / "dev.json").write_text(json.dumps(rows), "utf-8")
    return str(folder)


def started(path: str | None = None, task: Any = 0, **config: Any) -> Env[Any]:
    env = factgym.make("profact", **({"path": path} if path else {}), **config)
    env.reset(options={"task": task})
    return env


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": name, "arguments": arguments}


def native(*calls: dict[str, Any]) -> dict[str, Any]:
    listed = [
        {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": tool_call["tool"], "arguments": json.dumps(tool_call["arguments"])},
        }
        for number, tool_call in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def prompt_text(env: Env[Any]) -> str:
    return json.dumps(env.policy_prompt(), ensure_ascii=False)
