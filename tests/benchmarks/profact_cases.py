"""Predictions of known scores: made by rule from HerO's published answers and AVeriTeC's dev file, never copied here.

What the official scorer gives on them is in `profact_golden.json`; how it was run is said there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FEW = 60
"""Claims of the smaller cases, from the first."""


def read(folder: Path) -> tuple[list[Json], list[Json], list[Json]]:
    """AVeriTeC's dev claims, HerO's answers for them, and the evidence that it ranked first."""
    gold = json.loads((folder / "dev.json").read_text("utf-8"))
    hero = json.loads((folder / "HerO_dev_veracity_prediction_8b.json").read_text("utf-8"))
    lines = (folder / "HerO_dev_reranking_top_k.json").read_text("utf-8").splitlines()
    return gold, hero, [json.loads(line) for line in lines]


def cases(folder: Path) -> dict[str, list[Json]]:
    """Case -> the predictions. Those of FEW claims are scored against the first FEW claims alone."""
    gold, hero, ranked = read(folder)

    def changed(change: Callable[[int, Json], Json | None]) -> list[Json]:
        result = (change(i, copy.deepcopy(item)) for i, item in enumerate(hero[:FEW]))
        return [row for row in result if row is not None]

    def empty(i: int, item: Json) -> Json:
        return item if i % 5 else {**item, "evidence": []}

    def missing(i: int, item: Json) -> Json | None:
        return item if i % 7 else None

    def twenty(i: int, item: Json) -> Json:
        return {**item, "evidence": item["evidence"][5:] + hero[i + 1]["evidence"] + item["evidence"][:5]}

    def repeated(i: int, item: Json) -> Json:
        return {**item, "evidence": item["evidence"][:1] * 10}

    def unanswered(i: int, item: Json) -> Json:
        return {**item, "evidence": [{**part, "answer": ""} for part in item["evidence"]]}

    def labels(i: int, item: Json) -> Json:
        label = item["pred_label"].lower() if i % 2 == 0 else item["pred_label"]
        return {**item, "pred_label": "Unproven" if i % 3 == 0 else label}

    def ranked_alone(i: int, item: Json) -> Json:
        texts = [part["sentence"] for part in ranked[i]["top_10"]]
        return {"claim_id": i, "claim": item["claim"], "string_evidence": texts, "pred_label": item["pred_label"]}

    def gold_itself(i: int, item: Json) -> Json:
        return {key: gold[i][key] for key in ("claim", "questions", "label")}

    return {
        "hero_8b": hero,
        "hero_8b_five": hero,
        "top_k": changed(ranked_alone),
        "empty": changed(empty),
        "missing": changed(missing),
        "twenty": changed(twenty),
        "repeated": changed(repeated),
        "unanswered": changed(unanswered),
        "labels": changed(labels),
        "gold_itself": changed(gold_itself),
    }
