"""Confidence: the probability that a status of `factgym check` is right, by agent, fitted on public data.

A status is right more often the more of the claim's words, numbers and names are in its verified quotes, or, for
"unsupported", the fewer. For each status a logistic regression weighs these shares (Platt scaling of several scores).
`calibration.json` holds a few weights for each agent that was calibrated; `factgym benchmark grounding --set
calibrate=FILE` fits those of another. The data are no part of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from factgym.agents.runs.files import write_bytes
from factgym.baselines.evidence import content_keys, parse_statement
from factgym.baselines.fitting import fit_logistic
from factgym.core.errors import DataError
from factgym.core.paths import exists, read_text
from factgym.corpora.rows import parse_object
from factgym.datasets.claims import STATUSES, Status

FEATURES = ("bias", "words", "numbers", "names", "part")
PENALTY = 0.1
MIN_CLAIMS = 40
"""Of a status, to fit its weights; below it takes those of the other statuses together."""
_MAX_WEIGHT = 100.0
_ANY = "any"

Features = Mapping[str, float]
Weights = Mapping[str, Sequence[float]]
"""Status -> weights in the order of `FEATURES`; "any" for a status that has none."""


def claim_features(text: str, quotes: Sequence[str], not_carried: str) -> dict[str, float]:
    """Return the shares, in [0, 1], of a claim's content words, numbers and names that its quotes hold.

    A claim without numbers or names has a share of 1. part: 1 where only a part of the claim is not carried.
    """
    quoted = frozenset(key for quote in quotes for key in content_keys(quote))
    statement = parse_statement(text)
    numbers = [key for key in statement.keys if key[0].isdigit()]

    def share(keys: Sequence[str]) -> float:
        return sum(key in quoted for key in keys) / len(keys) if keys else 1.0

    values = share(statement.keys), share(numbers), share(sorted(statement.names))
    return dict(zip(FEATURES, (1.0, *values, float(0 < len(not_carried) < 0.8 * len(text))), strict=True))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The weights of one agent. about: what they were fitted on and how well they hold, JSON data."""

    weights: Weights
    about: Mapping[str, Any]

    def confidence(self, status: Status, features: Features) -> float:
        """Return the probability that the status is right."""
        weights = self.weights.get(status) or self.weights[_ANY]
        score = math.fsum(weight * features[name] for weight, name in zip(weights, FEATURES, strict=True))
        return 1.0 / (1.0 + math.exp(-score))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        weights = {status: [round(weight, 4) for weight in values] for status, values in self.weights.items()}
        return {"features": list(FEATURES), "weights": weights, "about": dict(self.about)}


def fit_weights(statuses: Sequence[Status], features: Sequence[Features], correct: Sequence[bool]) -> Weights:
    """Fit the weights of each status by the log loss."""
    import numpy as np

    rows = np.array([[claim[name] for name in FEATURES] for claim in features], np.float64)
    targets = np.array([[not right, right] for right in correct], np.float64)
    start = np.zeros((len(FEATURES), 2))
    weights = {}
    for status in (*STATUSES, _ANY):
        chosen = np.array([status in (other, _ANY) for other in statuses], bool)
        if status == _ANY or chosen.sum() >= MIN_CLAIMS:
            fitted = fit_logistic(rows[chosen], targets[chosen], start, penalty=PENALTY, fixed=1)
            weights[status] = tuple(map(float, fitted[:, 1]))
    return weights


def read_calibrations(path: Path | None = None) -> dict[str, Calibration]:
    """Return the calibrations of a file, by agent; those of the package by default. Raises DataError for another file."""
    if path is None:
        text = resources.files("factgym.check").joinpath("calibration.json").read_text("utf-8")
    else:
        text = read_text(path)
    name = "calibration.json" if path is None else str(path)
    return {
        str(agent): _parse(entry, f"{name}, {agent!r:.60}") for agent, entry in (parse_object(text, name) or {}).items()
    }


def _parse(entry: Any, location: str) -> Calibration:
    weights: Any = entry.get("weights") if isinstance(entry, dict) else None
    is_valid = (
        isinstance(weights, dict)
        and _ANY in weights
        and entry.get("features") == list(FEATURES)
        and all(name in (*STATUSES, _ANY) and _is_weights(values) for name, values in weights.items())
    )
    if not is_valid:
        raise DataError(
            f"{location}: no calibration of this version. Make it again: factgym benchmark grounding --set calibrate=FILE"
        )
    return Calibration({name: tuple(values) for name, values in weights.items()}, dict(entry.get("about") or {}))


def _is_weights(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) == len(FEATURES)
        and all(isinstance(value, int | float) and abs(value) <= _MAX_WEIGHT for value in values)
    )


def write_calibrations(path: Path, calibrations: Mapping[str, Calibration]) -> None:
    """Write calibrations to a file; those of other agents in it stay."""
    merged = (read_calibrations(path) if exists(path) else {}) | dict(calibrations)
    text = json.dumps({agent: entry.to_dict() for agent, entry in merged.items()}, indent=1, ensure_ascii=False)
    write_bytes(path, f"{text}\n".encode())
