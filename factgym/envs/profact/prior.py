"""How probable each label of a claim is by its words and its metadata alone, before any evidence.

Fact-checkers refute other topics than they confirm: a classifier of AVeriTeC's claims gives right labels for .65 of them,
where the commonest label is right for .57. The verdict's reward subtracts the probability of the label that was given, so
that such knowledge earns nothing on average. A claim's own label takes no part in its probabilities.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from factgym.baselines.fitting import fit_logistic
from factgym.datasets.averitec import LABELS, FactCheck

Prior = Mapping[str, float]
"""Label -> probability, rounded to three places so that machines agree on it."""

_PENALTY, _PART_VALUE = 20.0, 0.5
"""Quadratic penalty of the weights, and value of a part of a name, which is one of many. With these no classifier of the
claim earns more than chance on AVeriTeC's train claims, cross-fitted, and the log loss (.927) is near the lowest (.926)."""
_FOLDS = 5
_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"\b[A-Z][\w'’-]*")


class ClaimPrior:
    """A multinomial logistic regression over words, pairs of words, names and metadata of labelled claims.

    Without any claims all labels are equally probable.
    """

    def __init__(self, checks: Sequence[FactCheck]) -> None:
        counts = Counter(chain.from_iterable(map(claim_features, checks)))
        # A feature of a single claim tells nothing of others.
        features = sorted(feature for feature, count in counts.items() if count > 1)
        self._columns = {feature: column for column, feature in enumerate(features, 1)}
        targets = np.array([[check.label == label for label in LABELS] for check in checks], float).reshape(
            -1, len(LABELS)
        )
        self._weights = np.zeros((len(features) + 1, len(LABELS)))
        self._weights[0] = np.log(targets.sum(axis=0) + 1)
        if checks:
            self._weights = fit_logistic(self._matrix(checks), targets, self._weights, penalty=_PENALTY)

    def __call__(self, checks: Sequence[FactCheck]) -> list[Prior]:
        """Return the probabilities for each claim, in order."""
        odds = np.exp(self._matrix(checks) @ self._weights)
        shares = (odds / odds.sum(axis=1, keepdims=True)).round(3)
        return [dict(zip(LABELS, row, strict=True)) for row in shares.tolist()]

    def _matrix(self, checks: Sequence[FactCheck]) -> Any:
        """Return the features of claims behind a constant, sparse, of shape (claims, 1 + features)."""
        from scipy.sparse import csr_matrix

        rows = [
            {0: 1.0}
            | {self._columns[name]: value for name, value in claim_features(check).items() if name in self._columns}
            for check in checks
        ]
        ends = np.cumsum([0, *map(len, rows)])
        columns, values = (np.array(list(chain.from_iterable(parts))) for parts in (rows, map(dict.values, rows)))
        return csr_matrix((values, columns.astype(np.int64), ends), (len(rows), len(self._columns) + 1))


def claim_features(check: FactCheck) -> dict[str, float]:
    """Return feature -> value: words and pairs of words of a claim, parts of its names, and its metadata.

    That is all that a policy sees at first.
    """
    words = [word.lower() for word in _TOKEN.findall(check.claim)]
    names = [f" {name.lower()} " for name in _NAME.findall(check.claim)]
    parts = (name[start : start + size] for name in names for size in (3, 4) for start in range(len(name) - size + 1))
    speaker, medium = (check.speaker or "").lower(), (check.reporting_source or "").lower()
    year = check.claim_date.year if check.claim_date else ""
    features = chain(
        words,
        map(" ".join, pairwise(words)),
        (f"by={word}" for word in _WORD.findall(f"{speaker} {medium}")),
        (f"speaker={speaker}", f"medium={medium}", f"place={check.location}", f"year={year}"),
    )
    return dict.fromkeys(sorted(features), 1.0) | dict.fromkeys(sorted(f"part={part}" for part in parts), _PART_VALUE)


def label_priors(checks: Sequence[FactCheck], training: Sequence[FactCheck]) -> list[Prior]:
    """Return the probabilities for each claim by a classifier of `training`; cross-fitted where these are the claims."""
    if list(checks) != list(training):
        return ClaimPrior(training)(checks)
    priors: dict[int, Prior] = {}
    for fold in range(_FOLDS):
        others = [check for index, check in enumerate(checks) if index % _FOLDS != fold]
        priors |= zip(range(fold, len(checks), _FOLDS), ClaimPrior(others)(checks[fold::_FOLDS]), strict=True)
    return [priors[index] for index in range(len(checks))]
