"""Training: both regressions start from the weights they had, and are held to them by a quadratic penalty.

That makes training on new data a fine-tuning: with no data nothing changes, with much the past is forgotten. Solved to
the optimum of a convex loss, so that the result follows from data and start alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from factgym.agents.feature_verifier.features import FEATURES
from factgym.agents.feature_verifier.weights import Weights
from factgym.core.errors import ConfigError
from factgym.datasets.attribution import ERROR_TYPES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one training example teaches: features, whether the claim is not attributable, and its error where known."""

    values: Mapping[str, float]
    negative: bool
    error_type: str | None = None


def fine_tune(start: Weights, lessons: Sequence[Lesson], *, pull: float = 2.0) -> Weights:
    """Weights after training on the lessons.

    pull: how strongly the old weights hold, as a number of examples: the penalty is pull / 2 · |w - w_start|² beside
    the summed log loss. Raises ConfigError for a pull that is not above 0.
    """
    if not pull > 0:
        raise ConfigError(f"pull must be above 0, not {pull}")
    if not lessons:
        return start
    from numpy import array, eye, float64

    known = [one for one in lessons if one.error_type in ERROR_TYPES]
    label = _solve(
        _matrix(lessons),
        array([[0.0, 1.0] if one.negative else [1.0, 0.0] for one in lessons]),
        array([[0.0] * len(FEATURES), [start.label[name] for name in FEATURES]], float64).T,
        pull,
        fixed=1,
    )
    errors = array([[start.errors[kind][name] for kind in ERROR_TYPES] for name in FEATURES], float64)
    if known:
        target = eye(len(ERROR_TYPES))[[ERROR_TYPES.index(str(one.error_type)) for one in known]]
        errors = _solve(_matrix(known), target, errors, pull)
    return Weights(
        {name: float(label[at, 1]) for at, name in enumerate(FEATURES)},
        {kind: {name: float(errors[at, k]) for at, name in enumerate(FEATURES)} for k, kind in enumerate(ERROR_TYPES)},
        start.seen + len(lessons),
    ).rounded()


def _matrix(lessons: Sequence[Lesson]) -> Floats:
    from numpy import array, float64

    return array([[one.values[name] for name in FEATURES] for one in lessons], float64)


def _solve(x: Floats, y: Floats, start: Floats, pull: float, fixed: int = 0) -> Floats:
    """Multinomial logistic regression near `start`, shape (features, classes); the first `fixed` columns stay."""
    import numpy as np
    from scipy.optimize import minimize

    def loss(flat: Any) -> tuple[float, Any]:
        weights = start.copy()
        weights[:, fixed:] = flat.reshape(start.shape[0], -1)
        scores = x @ weights
        scores -= scores.max(axis=1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        moved = weights - start
        slope = x.T @ (np.exp(logs) - y) + pull * moved
        return float(-(y * logs).sum() + pull * (moved**2).sum() / 2), slope[:, fixed:].ravel()

    options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
    begin = start[:, fixed:].ravel()
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]  # stubs
    weights = start.copy()
    weights[:, fixed:] = found.x.reshape(start.shape[0], -1)
    return weights
