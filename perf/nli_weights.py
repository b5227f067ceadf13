"""Fits the weights of `factgym.baselines.nli` again, after a change of the generator or the features.

The weights in `phrases.toml` were fitted on training splits only: 2,500 synthetic examples of `train`, 1,000 each of the training
streams of `hard` and `multihop`, and, counted fourfold, 300 each over two folders of public policies (18F's and
GitHub's). Nothing was fitted to ContractNLI. Write `format_weights(fit_nli(...))`
over its table `[weights]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from factgym.baselines.evidence import build_evidence, parse_statement
from factgym.baselines.fitting import fit_logistic
from factgym.baselines.nli import compute_features
from factgym.baselines.premise import nearest_premise
from factgym.datasets.claims import STATUSES, ClaimExample

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
    names = sorted({name for features, _, _ in cases for name in features})
    features = np.array([[case[0].get(name, 0.0) for name in names] for case in cases])
    example_weights = np.array([weight for _, _, weight in cases])
    example_weights /= example_weights.sum()
    targets = np.eye(len(STATUSES))[[status for _, status, _ in cases]] * example_weights[:, None]
    start = np.zeros((len(names), len(STATUSES)))
    weights = fit_logistic(features, targets, start, penalty=l2 / len(cases))
    return {name: tuple(float(value) for value in row) for name, row in zip(names, weights, strict=True)}


def format_weights(weights: Mapping[str, Sequence[float]]) -> str:
    """Return the table `[weights]` of `phrases.toml`."""
    rows = [f"{name} = [{', '.join(f'{value + 0.0:.2f}' for value in row)}]" for name, row in weights.items()]
    return "\n".join(["[weights]", *rows]).replace("-0.00", "0.00")
