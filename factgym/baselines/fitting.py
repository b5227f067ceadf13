"""Fitting of linear verifiers: multinomial logistic regression with a quadratic penalty, solved to its optimum.

The weights in `nli` were fitted on training splits only: 2,500 synthetic examples of `train`, 1,000 each of the training
streams of `hard` and `multihop`, and, counted fourfold, 300 each over two folders of public policies (18F's and
GitHub's). Nothing was fitted to ContractNLI. After a change of the generator or the features, write
`format_weights(fit_nli(...))` over the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from factgym.baselines.evidence import build_evidence, parse_statement
from factgym.baselines.nli import compute_features
from factgym.baselines.premise import nearest_premise
from factgym.datasets.claims import STATUSES, ClaimExample

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


NliCase = tuple[Mapping[str, float], int, float]
"""Features of a claim, its status as an index into `STATUSES`, and the weight of the example."""


def nli_cases(examples: Iterable[ClaimExample], weight: float = 1.0) -> list[NliCase]:
    """Compute the features of each claim of the examples, with all passages of its example as evidence."""
    cases: list[NliCase] = []
    for example in examples:
        evidence = build_evidence(example.passages)
        for claim in example.claims:
            statement = parse_statement(claim.text)
            premise = nearest_premise(evidence, statement)
            if premise is not None:
                features = compute_features(statement, premise, evidence).values
                cases.append((features, STATUSES.index(claim.status), weight))
    return cases


def fit_nli(cases: Sequence[NliCase], l2: float = 3.0) -> dict[str, tuple[float, ...]]:
    """Fit the weights of the NLI verifier: weighted mean log loss with an L2 penalty of `l2 / len(cases)`."""
    import numpy as np

    names = sorted({name for features, _, _ in cases for name in features})
    features = np.array([[case[0].get(name, 0.0) for name in names] for case in cases])
    example_weights = np.array([weight for _, _, weight in cases])
    example_weights /= example_weights.sum()
    targets = np.eye(len(STATUSES))[[status for _, status, _ in cases]] * example_weights[:, None]
    start = np.zeros((len(names), len(STATUSES)))
    weights = fit_logistic(features, targets, start, penalty=l2 / len(cases))
    return {name: tuple(float(value) for value in row) for name, row in zip(names, weights, strict=True)}


def format_weights(weights: Mapping[str, Sequence[float]]) -> str:
    """Return the source text of `nli.WEIGHTS`."""
    rows = [f'    "{name}": ({", ".join(f"{value + 0.0:.2f}" for value in row)}),' for name, row in weights.items()]
    head = ["WEIGHTS: Mapping[str, tuple[float, float, float, float]] = {", f"    # {', '.join(STATUSES)}"]
    return "\n".join([*head, *rows, "}"]).replace("-0.00", "0.00")
