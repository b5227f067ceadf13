"""Fitting of linear verifiers: multinomial logistic regression with a quadratic penalty, solved to its optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def fit_logistic(features: Array, targets: Array, start: Array, *, penalty: float, fixed: int = 0) -> Array:
    """Minimise the summed log loss plus penalty / 2 · |w − start|² over weights of shape (features, classes), by L-BFGS.

    features: shape (examples, features). targets: shape (examples, classes), each row a distribution times the weight
    of its example. fixed: number of leading classes whose weights stay as they are in `start`.
    """
    import numpy as np
    from scipy.optimize import minimize

    counts = targets.sum(axis=1, keepdims=True)

    def assemble(flat: Any) -> Array:
        weights = start.copy()
        weights[:, fixed:] = flat.reshape(start.shape[0], -1)
        return weights

    # Softmax regression is convex in the free classes, so L-BFGS reaches the optimum whatever the start.
    def loss_and_gradient(flat: Any) -> tuple[float, Any]:
        weights = assemble(flat)
        scores = features @ weights
        scores -= scores.max(axis=1, keepdims=True)
        log_probabilities = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        moved = weights - start
        gradient = features.T @ (counts * np.exp(log_probabilities) - targets) + penalty * moved
        loss = float(-(targets * log_probabilities).sum() + penalty * (moved**2).sum() / 2)
        return loss, gradient[:, fixed:].ravel()

    options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
    initial = start[:, fixed:].ravel()
    result = minimize(loss_and_gradient, initial, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]  # stubs
    return assemble(result.x)
