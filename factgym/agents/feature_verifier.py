"""A verifier that trains on a CPU in a second: two logistic regressions over features that a person can read.

The features compare a claim with its source by words, numbers, names, negations and the form of the claim. None knows
the data set, the gold, or a probe's strategy; the weights are learned. The form of the claim is among them on purpose:
that a verifier may learn the style of a benchmark instead of the task is visible in the per-benchmark table.

Training starts from the weights of the model and is held to them by a quadratic penalty: without data nothing changes.
The penalty grows with what the model has seen, as a Gaussian approximation of the earlier log loss (Laplace; sequential
Bayesian logistic regression, Spiegelhalter and Lauritzen 1990; elastic weight consolidation has its diagonal), so that
training on some data and then on other comes near to training on both, and a few hundred probes do not replace the past.
It is solved to the optimum of a convex loss, so that the result follows from data and start alone. Weights are saved as
JSON: they can be read, compared and edited, and loading them cannot execute anything.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factgym.agents.runs.files import read_json, write_json
from factgym.baselines.fitting import fit_logistic, logistic_information
from factgym.baselines.pair_features import FEATURES, extract_features
from factgym.core.errors import ConfigError, DataError
from factgym.core.messages import Message, ToolSchema
from factgym.core.paths import is_folder
from factgym.core.policy import Policy
from factgym.datasets.attribution import ERROR_TYPES
from factgym.envs.seva.agents import (
    EpisodeBrief,
    Judgement,
    Verdict,
    ground_parts,
    parse_brief,
    source_evidence,
    verdict_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Weights

_FILE = "verifier.json"
_KIND = "seva-feature-verifier"
_VERSION = 2
_DIGITS = 6


def _zeros() -> dict[str, float]:
    return dict.fromkeys(FEATURES, 0.0)


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(values[name], _DIGITS) + 0.0 for name in FEATURES}


@dataclass(frozen=True, slots=True)
class VerifierWeights:
    """label: feature -> weight in the log-odds of Not Attributable. errors: error type -> feature -> weight.

    seen: number of training examples over all rounds. information: of those examples, a block of (features, features) for
    the label and one for each error type; empty for none. With all weights 0, p = 1/2 for every claim.
    """

    label: Mapping[str, float] = field(default_factory=_zeros)
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: {name: _zeros() for name in ERROR_TYPES})
    seen: int = 0
    information: tuple[tuple[tuple[float, ...], ...], ...] = ()

    def negative_probability(self, values: Mapping[str, float]) -> float:
        """Return the probability that a claim with these features is not attributable."""
        score = math.fsum(self.label[name] * values[name] for name in FEATURES)
        # The logistic function in two branches: exp() gets no positive argument, which could overflow.
        return 1 / (1 + math.exp(-score)) if score >= 0 else 1 - 1 / (1 + math.exp(score))

    def error_type(self, values: Mapping[str, float]) -> str:
        """Return the likeliest error type; of equals the first of the taxonomy, "fabrication" where all are equal."""
        scores = {
            name: math.fsum(self.errors[name][feature] * values[feature] for feature in FEATURES)
            for name in ERROR_TYPES
        }
        return "fabrication" if len(set(scores.values())) == 1 else max(scores, key=lambda name: scores[name])

    def rounded(self) -> VerifierWeights:
        """Return the weights as a file holds them, so that a trained model equals the same one loaded."""
        errors = {name: _rounded(self.errors[name]) for name in ERROR_TYPES}
        blocks = tuple(
            tuple(tuple(round(value, _DIGITS) + 0.0 for value in row) for row in b) for b in self.information
        )
        return VerifierWeights(_rounded(self.label), errors, self.seen, blocks)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the weights in hex."""
        return hashlib.sha256(json.dumps(self._to_dict(), sort_keys=True).encode()).hexdigest()

    def save(self, folder: Path) -> Path:
        """Write the weights into a folder and return the path of the file."""
        path = folder / _FILE
        write_json(path, self._to_dict())
        return path

    def _to_dict(self) -> dict[str, Any]:
        weights = self.rounded()
        header = {"kind": _KIND, "version": _VERSION, "seen": weights.seen}
        return {**header, "label": weights.label, "errors": weights.errors, "information": weights.information}


def load_weights(path: Path) -> VerifierWeights:
    """Load weights from a file or the folder that holds it. Raises DataError that names the file and the fault."""
    path = path / _FILE if is_folder(path) else path
    data = read_json(path)
    if data.get("kind") != _KIND or data.get("version") != _VERSION:
        raise DataError(f"{path} is no feature verifier of this version")
    errors, seen = data.get("errors"), data.get("seen")
    if not isinstance(errors, dict) or set(errors) != set(ERROR_TYPES):
        raise DataError(f"{path}: 'errors' must have the six error types")
    for where, values in {"'label'": data.get("label"), **errors}.items():
        if not isinstance(values, dict) or set(values) != set(FEATURES):
            raise DataError(
                f"{path}: {where} must have a number for each feature of this version: {', '.join(FEATURES)}"
            )
        for name, value in values.items():
            if type(value) not in (int, float) or not math.isfinite(value):
                raise DataError(f"{path}: {where}: {name} must be a finite number")
    information = _read_information(data.get("information"), path)
    return VerifierWeights(data["label"], errors, seen if isinstance(seen, int) else 0, information)


def _read_information(value: Any, path: Path) -> tuple[tuple[tuple[float, ...], ...], ...]:
    """Return the blocks of a file. Raises DataError where they are no symmetric matrices with a diagonal from 0 on."""
    import numpy as np

    if value == []:
        return ()
    shape = (1 + len(ERROR_TYPES), len(FEATURES), len(FEATURES))
    try:
        blocks = np.array(value, np.float64)
    except (TypeError, ValueError):
        blocks = np.empty(0)
    if blocks.shape != shape or not np.isfinite(blocks).all():
        raise DataError(f"{path}: 'information' must be empty or finite numbers of shape {shape}")
    if not np.array_equal(blocks, blocks.transpose(0, 2, 1)) or np.linalg.eigvalsh(blocks).min() < -1e-3:
        raise DataError(f"{path}: a block of 'information' is not symmetric, or has a negative eigenvalue")
    return tuple(tuple(tuple(map(float, row)) for row in block) for block in blocks)


# Training


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """values: the features. negative: whether the claim is not attributable. error_type: where it is known."""

    values: Mapping[str, float]
    negative: bool
    error_type: str | None = None


def fine_tune(start: VerifierWeights, examples: Sequence[TrainingExample], *, pull: float = 2.0) -> VerifierWeights:
    """Return the weights after training on the examples.

    pull: strength of the start beside the information of earlier examples, as a number of examples: the penalty is
    ½ (w − w_start)ᵀ (information + pull · 1) (w − w_start) beside the summed log loss. Raises ConfigError for a pull that
    is not above 0.
    """
    if not pull > 0:
        raise ConfigError(f"pull must be above 0, not {pull}")
    if not examples:
        return start
    from numpy import array, eye, float64, zeros

    def matrix(examples: Sequence[TrainingExample]) -> NDArray[np.float64]:
        return array([[example.values[name] for name in FEATURES] for example in examples], float64)

    # Maximum a posteriori under a Gaussian prior centred on the start: class 0 is fixed at 0, so that the weights of
    # class 1 are log-odds.
    size = len(FEATURES)
    past = array(start.information, float64) if start.information else zeros((1 + len(ERROR_TYPES), size, size))
    prior = past + pull * eye(size)
    label = fit_logistic(
        matrix(examples),
        array([[0.0, 1.0] if example.negative else [1.0, 0.0] for example in examples]),
        array([[0.0] * size, [start.label[name] for name in FEATURES]], float64).T,
        penalty=prior[:1],
        fixed=1,
    )
    past[:1] += logistic_information(matrix(examples), label, fixed=1)
    errors = array([[start.errors[kind][name] for kind in ERROR_TYPES] for name in FEATURES], float64)
    typed = [example for example in examples if example.error_type in ERROR_TYPES]
    if typed:
        targets = eye(len(ERROR_TYPES))[[ERROR_TYPES.index(str(example.error_type)) for example in typed]]
        errors = fit_logistic(matrix(typed), targets, errors, penalty=prior[1:])
        past[1:] += logistic_information(matrix(typed), errors)
    return VerifierWeights(
        {name: float(label[row, 1]) for row, name in enumerate(FEATURES)},
        {
            kind: {name: float(errors[row, column]) for row, name in enumerate(FEATURES)}
            for column, kind in enumerate(ERROR_TYPES)
        },
        start.seen + len(examples),
        tuple(tuple(tuple(map(float, row)) for row in block) for block in past),
    ).rounded()


# The policy

_MAX_SIGNS = 3
_CONFIDENCE_DIGITS = 4


class FeatureVerifier:
    """A policy that answers SEVA's prompt with a structured verdict, aligned with the nearest sentences.

    weights: by default untrained; then every claim is attributable at a confidence of 1/2. It reads claim and source
    and no instructions, so that rules in the prompt cannot change it.
    """

    def __init__(self, weights: VerifierWeights | None = None) -> None:
        self.weights = weights or VerifierWeights()

    @classmethod
    def load(cls, path: str | Path) -> FeatureVerifier:
        """Load from a file, or the folder that holds it. Raises DataError for a file that is no such model."""
        return cls(load_weights(Path(path)))

    def start(self, seed: int) -> Policy:
        """Return itself: nothing is random."""
        return self

    def describe(self) -> dict[str, Any]:
        """Return its identity for a manifest."""
        return {
            "kind": "features",
            "model": "seva-feature-verifier",
            "features": len(FEATURES),
            "seen": self.weights.seen,
            "weights_sha256": self.weights.fingerprint(),
        }

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """Return the verdict as the text of a completion."""
        return json.dumps(self.verdict(parse_brief(messages)), ensure_ascii=False)

    def verdict(self, brief: EpisodeBrief) -> Verdict:
        """Return the verdict on a claim."""
        features = extract_features(brief.claim, brief.source)
        negative = self.weights.negative_probability(features.values)
        parts = ground_parts(brief, source_evidence(brief.source))
        if negative <= 0.5:
            return verdict_of(brief, Judgement(True, round(1 - negative, _CONFIDENCE_DIGITS)), parts)
        contributions = {name: self.weights.label[name] * features.values[name] for name in FEATURES}
        positive = [name for name in FEATURES if contributions[name] > 0]
        strongest = sorted(positive, key=lambda name: -contributions[name])[:_MAX_SIGNS]
        signs = f"Signs: {', '.join(name.replace('_', ' ') for name in strongest)}."
        confidence, error_type = round(negative, _CONFIDENCE_DIGITS), self.weights.error_type(features.values)
        return verdict_of(brief, Judgement(False, confidence, error_type, features.wrong, signs), parts)
