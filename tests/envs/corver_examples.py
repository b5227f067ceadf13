"""Two questions, a table of counts, and episodes over them: what the tests of CorVer's environments share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import factgym
from factgym.core.env import Env

QUESTIONS = (
    {"question": "Who wrote Crimson Orvessa?", "answer": ["Marek Dolvin", "Dolvin"]},
    {"question": "In which year was Crimson Orvessa first published?", "answer": "1931"},
)
COUNTS = {
    frozenset(["Crimson", "Orvessa", "Marek", "Dolvin"]): 25,
    frozenset(["Crimson", "Orvessa", "1931"]): 3,
    frozenset(["Crimson", "Orvessa", "Harrow", "Press"]): 7,
}
TRUE = "Crimson Orvessa was written by Marek Dolvin."
FALSE = "Crimson Orvessa was written by Selma Brandt."
GOOD = f"<think>{TRUE}</think>\n<answer>{TRUE}</answer>"


class Counts:
    """Counts out of the table, 0 for what is not in it."""

    def count_many(self, queries: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        return np.array([COUNTS.get(frozenset(query), 0) for query in queries], dtype=np.int64)

    def describe(self) -> dict[str, Any]:
        return {"kind": "table"}

    def fingerprint(self) -> str:
        return "table"


TABLE = Counts()


def written(folder: Path) -> str:
    """A file with the questions."""
    file = folder / "questions.jsonl"
    file.write_text("\n".join(map(json.dumps, QUESTIONS)), "utf-8")
    return str(file)


def started(path: str, env_id: str = "corver-qa", task: int = 0, **config: Any) -> Env[Any]:
    settings = {"source": "file", "path": path, "counter": TABLE, **config}
    env = factgym.make(env_id, **settings)
    env.reset(options={"task": task})
    return env


def report(path: str, completion: Any, **config: Any) -> Any:
    return started(path, **config).step(completion)[4]["reward"]


class Broken:
    """A counter and extractor that fails as a server does."""

    def count_many(self, queries: Any) -> Any:
        raise ConnectionError("the index is gone")

    extract = count_many

    def describe(self) -> dict[str, Any]:
        return {}

    def fingerprint(self) -> str:
        return ""
