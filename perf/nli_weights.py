"""Fits the weights of `factgym.baselines.nli` again, after a change of the generator or the features.

The weights in `phrases.toml` were fitted on training splits only: 2,500 synthetic examples of `train`, 1,000 each of the training
streams of `hard` and `multihop`, and, counted fourfold, 300 each over two folders of public policies (18F's and
GitHub's). Nothing was fitted to ContractNLI. Write `format_weights(fit_nli(...))`
over its table `[weights]`, and `format_weights(fit_nli(human_cases(FOLDER), names=HUMAN_FEATURES), "human_weights")`
over the table of that name: those are fitted to SciFact's train split and the claims of Factcheck-GPT, so that nothing
was fitted to WiCE, Fool Me Twice and SciFact's validation split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from factgym.baselines.evidence import build_evidence, parse_statement
from factgym.baselines.fitting import fit_logistic
from factgym.baselines.nli import compute_features
from factgym.baselines.premise import nearest_premise
from factgym.datasets.claims import STATUSES, ClaimExample
from factgym.datasets.grounding import read_claims

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


HUMAN_FEATURES = (
    *("agreed", "bias", "conflict", "coverage", "foreign", "gap", "missing_value", "nowhere"),
    *("reverse_coverage", "reversed", "same_modality"),
)
"""Those that do not look for the generator's wordings."""


def human_cases(data: Path) -> list[NliCase]:
    """Compute the features of the claims of SciFact's train split and of Factcheck-GPT, each status with equal weight."""
    sets = (read_claims("scifact", data, "train"), read_claims("factcheck-gpt-claims", data))
    cases = [case for examples in sets for case in nli_cases(examples)]
    counts = Counter(status for _, status, _ in cases)
    return [(features, status, 1.0 / counts[status]) for features, status, _ in cases]


def fit_nli(
    cases: Sequence[NliCase], l2: float = 3.0, names: Collection[str] | None = None
) -> dict[str, tuple[float, ...]]:
    """Fit the weights of the NLI verifier: weighted mean log loss with an L2 penalty of `l2 / len(cases)`.

    names: the features to use, by default all.
    """
    names = sorted(names or {name for features, _, _ in cases for name in features})
    features = np.array([[case[0].get(name, 0.0) for name in names] for case in cases])
    example_weights = np.array([weight for _, _, weight in cases])
    example_weights /= example_weights.sum()
    targets = np.eye(len(STATUSES))[[status for _, status, _ in cases]] * example_weights[:, None]
    start = np.zeros((len(names), len(STATUSES)))
    weights = fit_logistic(features, targets, start, penalty=l2 / len(cases))
    return {name: tuple(float(value) for value in row) for name, row in zip(names, weights, strict=True)}


def format_weights(weights: Mapping[str, Sequence[float]], table: str = "weights") -> str:
    """Return a table of `phrases.toml`."""
    rows = [f"{name} = [{', '.join(f'{value + 0.0:.2f}' for value in row)}]" for name, row in weights.items()]
    return "\n".join([f"[{table}]", *rows]).replace("-0.00", "0.00")
