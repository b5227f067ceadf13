"""What a feature verifier has learned: one number a feature for the label, and one a feature for each kind of error.

Saved as JSON, so that a model can be read, compared and edited, and loading one can run nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factgym.agents.feature_verifier.features import FEATURES
from factgym.agents.runs.artifacts import read_json, write_json
from factgym.core.errors import DataError
from factgym.datasets.attribution import ERROR_TYPES

FILE = "verifier.json"
_KIND = "seva-feature-verifier"
_VERSION = 1
_PLACES = 6


def _zeros() -> dict[str, float]:
    return dict.fromkeys(FEATURES, 0.0)


@dataclass(frozen=True, slots=True)
class Weights:
    """label: feature -> weight in the log-odds of Not Attributable. errors: error type -> feature -> weight.

    seen: examples that were learned from, over all rounds. Everything 0 knows nothing: p = 1/2.
    """

    label: Mapping[str, float] = field(default_factory=_zeros)
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: {name: _zeros() for name in ERROR_TYPES})
    seen: int = 0

    def negative(self, values: Mapping[str, float]) -> float:
        """The probability that a claim with these features is not attributable."""
        score = math.fsum(self.label[name] * values[name] for name in FEATURES)
        return 1 / (1 + math.exp(-score)) if score >= 0 else 1 - 1 / (1 + math.exp(score))

    def error_type(self, values: Mapping[str, float]) -> str:
        """The likeliest error type; of equals the first of the taxonomy, but fabrication, the catch-all, where all are equal."""
        scores = {
            name: math.fsum(own[feature] * values[feature] for feature in FEATURES)
            for name, own in self.errors.items()
        }
        best = max(scores.values())
        if all(score == best for score in scores.values()):
            return "fabrication"
        return next(name for name in ERROR_TYPES if scores[name] == best)

    def rounded(self) -> Weights:
        """As a file holds them: a model that was just trained and the same one loaded say the same."""
        return Weights(_rounded(self.label), {name: _rounded(own) for name, own in self.errors.items()}, self.seen)

    def fingerprint(self) -> str:
        """SHA-256 in hex of what was learned."""
        return hashlib.sha256(json.dumps(self._data(), sort_keys=True).encode()).hexdigest()

    def save(self, folder: Path) -> Path:
        """Write them into a folder, and say where."""
        path = folder / FILE
        write_json(path, self._data())
        return path

    def _data(self) -> dict[str, Any]:
        own = self.rounded()
        return {
            "kind": _KIND,
            "version": _VERSION,
            "seen": own.seen,
            "label": dict(own.label),
            "errors": {name: dict(own.errors[name]) for name in ERROR_TYPES},
        }


def load_weights(path: Path) -> Weights:
    """Weights from a file or the folder that holds it. Raises DataError that names the file and what is wrong."""
    path = path / FILE if path.is_dir() else path
    data = read_json(path)
    if data.get("kind") != _KIND or data.get("version") != _VERSION:
        raise DataError(f"{path} is no feature verifier of this version")
    errors = data.get("errors")
    if not isinstance(errors, dict) or set(errors) != set(ERROR_TYPES):
        raise DataError(f"{path}: 'errors' must have the six error types")
    seen = data.get("seen")
    return Weights(
        _numbers(data.get("label"), f"{path}: 'label'"),
        {name: _numbers(errors[name], f"{path}: the errors' {name!r}") for name in ERROR_TYPES},
        seen if isinstance(seen, int) else 0,
    )


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(values[name], _PLACES) + 0.0 for name in FEATURES}


def _numbers(found: Any, what: str) -> dict[str, float]:
    if not isinstance(found, dict) or set(found) != set(FEATURES):
        raise DataError(f"{what} must have a number for each feature of this version: {', '.join(FEATURES)}")
    for name, value in found.items():
        if type(value) not in (int, float) or not math.isfinite(value):
            raise DataError(f"{what}: {name} must be a finite number")
    return {name: float(found[name]) for name in FEATURES}
