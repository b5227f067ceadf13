"""Recorded CorVer runs with known answers, written as a run's files are, without an environment or a reward."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recorded_runs
from recorded_runs import recorded

Json = dict[str, Any]
LABELS = ("good", "bad", "na")


def episode(
    task: str,
    label: str = "good",
    *,
    benchmark: str = "popqa",
    sample: int = 0,
    counts: Sequence[int | None] = (3, None),
    answer: str = "Paris",
    popularity: float | None = None,
    format_ok: bool = True,
    reference: str | None = None,
    question: str | None = None,
    total: float = 1.0,
    error: Json | None = None,
    counted: bool = True,
) -> Json:
    metrics = {
        "label": label,
        "label_reference": reference or label,
        "label_boundary": label,
        "refusal": label == "na",
        "format_ok": format_ok,
        "answer": answer,
        "answer_chars": len(answer),
        "counts": list(counts),
        "counted": counted,
        "benchmark": benchmark,
        "popularity": popularity,
        "gates": {},
    }
    judge = {"good": 2.0, "bad": -1.0, "na": -1.0}
    components = {
        "judge": judge[reference or label],
        "judge_boundary": judge[label],
        "format": 1.0 if format_ok else -1.0,
        "format_strict": 1.0 if format_ok else -1.0,
        "cooccurrence": 0.05,
        "cooccurrence_strict": 0.04,
        "cooccurrence_mean": 0.03,
        "cooccurrence_strict_mean": 0.02,
    }
    view = {"question": question or f"Question {task}?", "answer": "Paris", "gold": {"answers": ["Paris"]}}
    return recorded("corver-qa", task, sample, total, components, metrics, view, error)


def write_run(folder: Path, episodes: Sequence[Json], *, config: Json | None = None, **changes: Any) -> Path:
    base = {"source": "popqa", "split": "test", "reward": "reference", "prompt": "eval", "counter": "wiki.cooc"}
    members = {"env": "corver-qa", "prompts": {"eval": "p"}, "config": {**base, **(config or {})}}
    return recorded_runs.write_run(folder, episodes, **(members | changes))


def random_episodes(n: int, seed: int, weights: tuple[float, float, float], *, benchmark: str = "popqa") -> list[Json]:
    """Answers whose labels come in these shares, with counts, lengths and popularity that vary."""
    rng, fixed = random.Random(seed), random.Random(f"fixed {benchmark}")
    result = []
    for i in range(n):
        views = fixed.lognormvariate(6, 2)
        label = rng.choices(LABELS, weights)[0]
        result.append(
            episode(
                f"{benchmark}-{i:04d}",
                label,
                benchmark=benchmark,
                counts=[rng.choice([None, 0, 2, 7, 15, 40, 900]) for _ in range(rng.randint(0, 5))],
                answer=" ".join("word" for _ in range(rng.randint(1, 9))),
                popularity=None if fixed.random() < 0.1 or benchmark != "popqa" else round(views),
                format_ok=rng.random() < 0.9,
                reference="good" if rng.random() < 0.1 else label,
                total=rng.uniform(-2, 3),
            )
        )
    return result
