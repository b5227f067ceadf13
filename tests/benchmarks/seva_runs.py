"""Recorded SEVA runs with known answers, written as a run's files are, without an environment or a reward."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import recorded_runs
from recorded_runs import recorded

from factgym.rewards.seva.output import ERROR_TYPES, LABELS

Json = dict[str, Any]
POSITIVE, NEGATIVE = LABELS

WORDS = tuple(
    "the committee approved a plan that may allow nearly 40 ships to be moved into Rotterdam by March".split()  # noqa: SIM905 - it reads as a sentence
)


def episode(
    task: str,
    gold: str = POSITIVE,
    verdict: str | None = POSITIVE,
    *,
    sample: int = 0,
    claim: str = "The plan was approved.",
    source: str = "The committee approved the plan in March.",
    confidence: float | None = 0.8,
    parsed: bool = True,
    error_type: str | None = None,
    gold_error_type: str | None = None,
    components: Json | None = None,
    consistent: float = 1.0,
    error: Json | None = None,
) -> Json:
    metrics = {
        "gold_verdict": gold,
        "verdict": verdict,
        "gold_error_type": gold_error_type,
        "error_type": error_type,
        "confidence": confidence if parsed else None,
        "parsed": parsed,
        "format_ok": parsed,
        "correct": gold == verdict,
        "gates": {"consistent": consistent},
    }
    values = {"format": 1.0, "alignment": 0.9, "chain": 0.8, "label": float(gold == verdict), "diagnosis": 1.0}
    values |= {
        "calibration": 0.1,
        "calibration_proper": 0.1,
        "grounded_alignment": 0.7,
        "grounded_chain": 0.6,
        "diagnosis_by_label": 1.0,
    }
    scores = (dict.fromkeys(values, 0.0) if not parsed else values) | (components or {})
    view = {"question": "?", "answer": claim, "passages": [{"id": "source", "title": "t", "text": source}]}
    return recorded("seva", task, sample, 0.5, scores, metrics, view, error)


def write_run(folder: Path, episodes: Sequence[Json], **changes: Any) -> Path:
    return recorded_runs.write_run(folder, episodes, **({"env": "seva", "prompts": {"system": "p"}} | changes))


def random_episodes(n: int, seed: int = 0, *, missing: float = 0.1, accuracy: float = 0.7) -> list[Json]:
    """Episodes with unbalanced labels, missing predictions, several confidences, styles and error types."""
    rng = random.Random(seed)
    gold_rng = random.Random("golds")
    result = []
    for i in range(n):
        gold = POSITIVE if gold_rng.random() < 0.4 else NEGATIVE
        claim = " ".join(gold_rng.choices(WORDS, k=gold_rng.randint(3, 30)))
        gold_error = gold_rng.choice(ERROR_TYPES) if gold == NEGATIVE else None
        parsed = rng.random() >= missing
        predicted = (gold if rng.random() < accuracy else LABELS[gold == POSITIVE]) if parsed else None
        result.append(
            episode(
                f"task-{i:04d}",
                gold,
                predicted,
                claim=claim,
                confidence=round(rng.uniform(0.5, 1.0), 2),
                parsed=parsed,
                error_type=rng.choice([*ERROR_TYPES, None]) if predicted == NEGATIVE else None,
                gold_error_type=gold_error,
                components={"alignment": round(rng.random(), 2)} if parsed else None,
            )
        )
    return result


def pairs(episodes: Iterable[Json]) -> list[tuple[str, str | None]]:
    metrics = [item["reward"]["metrics"] for item in episodes]
    return [(item["gold_verdict"], item["verdict"]) for item in metrics]
