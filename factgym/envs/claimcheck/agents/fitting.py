"""How the weights of the honest baseline are made: multinomial logistic regression over claims of known status.

The weights in the package were fitted on training splits only: 2,500 synthetic examples of `train`, 1,000 each of the
training streams of `hard` and `multihop`, and, counted fourfold, 300 each over two folders of public policies (18F's
and GitHub's). Nothing was fitted to ContractNLI. The generator or the features changed? `python -m` has no part in
this: call `fit` and write `as_source` over `weights.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from factgym.baselines.features import compute
from factgym.baselines.reading import Seen, reading_of, statement_of
from factgym.baselines.rules import nearest_rule
from factgym.datasets.claims import STATUSES, ClaimExample

Case = tuple[Mapping[str, float], int, float]
"""Features of a claim, its status as an index into `STATUSES`, and how much it counts."""


def cases(examples: Iterable[ClaimExample], count: float = 1.0) -> list[Case]:
    """One case for each claim of the examples, judged with all passages of the example open."""
    found: list[Case] = []
    for example in examples:
        reading = reading_of([Seen(one.id, one.title, one.text) for one in example.passages])
        for claim in example.claims:
            asked = statement_of(claim.text)
            rule = nearest_rule(reading, asked)
            if rule is not None:
                found.append((compute(asked, rule, reading).values, STATUSES.index(claim.status), count))
    return found


def fit(some: Sequence[Case], l2: float = 3.0) -> dict[str, tuple[float, ...]]:
    """Feature -> a weight for each status, by L-BFGS on the weighted mean log loss with an L2 penalty of `l2 / n`."""
    import numpy as np
    from scipy.optimize import minimize

    names = sorted({name for values, _, _ in some for name in values})
    x = np.array([[values.get(name, 0.0) for name in names] for values, _, _ in some])
    y = np.eye(len(STATUSES))[[status for _, status, _ in some]]
    counts = np.array([count for _, _, count in some])
    counts /= counts.sum()
    shape = (len(names), len(STATUSES))

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        scores = x @ weights
        scores -= scores.max(axis=1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        slope = x.T @ ((np.exp(logs) - y) * counts[:, None]) + l2 / len(some) * weights
        return float(-(counts[:, None] * y * logs).sum() + l2 / len(some) * (weights**2).sum() / 2), slope.ravel()

    best = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return {name: tuple(float(value) for value in row) for name, row in zip(names, best.x.reshape(shape), strict=True)}


def as_source(weights: Mapping[str, Sequence[float]]) -> str:
    """The text of `weights.py`."""
    lines = [f'    "{name}": ({", ".join(f"{value + 0.0:.2f}" for value in row)}),' for name, row in weights.items()]
    return "\n".join([_HEAD, *lines, "}", ""]).replace("-0.00", "0.00")


_HEAD = '''"""The weights of the honest baseline: feature -> its weight for each status; made by `fitting`."""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, tuple[float, float, float, float]] = {
    # supported, unsupported, contradicted, overclaim'''
