"""Fitting of linear verifiers: multinomial logistic regression with a quadratic penalty, solved to its optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def fit_logistic(features: Array, targets: Array, start: Array, *, penalty: float | Array, fixed: int = 0) -> Array:
    """Minimise the summed log loss plus penalty / 2 · |w − start|² over weights of shape (features, classes), by L-BFGS.

    features: shape (examples, features). targets: shape (examples, classes), each row a distribution times the weight
    of its example. penalty: a number, or the precision of a Gaussian prior around `start` as a matrix for each free
    class, shape (classes − fixed, features, features). fixed: number of leading classes whose weights stay as they are in
    `start`.
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
        moved = (weights - start)[:, fixed:]
        pull = penalty * moved if isinstance(penalty, float | int) else np.einsum("cij,jc->ic", penalty, moved)
        gradient = features.T @ (counts * np.exp(log_probabilities) - targets)
        loss = float(-(targets * log_probabilities).sum() + (moved * pull).sum() / 2)
        return loss, (gradient[:, fixed:] + pull).ravel()

    options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
    initial = start[:, fixed:].ravel()
    result = minimize(loss_and_gradient, initial, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]  # stubs
    return assemble(result.x)


def logistic_information(features: Array, weights: Array, *, fixed: int = 0) -> Array:
    """Return the Fisher information of the examples at `weights`, one block for each free class.

    Shape (classes − fixed, features, features): Σ p (1 − p) x xᵀ. With `fixed` one class short of all it is the Hessian
    of the log loss; with more classes the blocks between two classes are left out.
    """
    import numpy as np

    scores = features @ weights
    probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    variances = (probabilities * (1 - probabilities))[:, fixed:]
    information: Array = np.einsum("nc,ni,nj->cij", variances, features, features)
    return information
