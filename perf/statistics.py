"""BCa intervals: ours beside `scipy.stats.bootstrap(method="BCa")`, on items like those of ClearFacts.

1,590 items, two classifiers with the error rates of SEVA's Table 15, 10,000 resamples. SciPy gets the same items and
statistics, vectorised as it asks for; its macro-F1 is from integer labels in arrays, ours from the labels as strings.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from factgym.benchmarks.statistics.bootstrap import bca_mean, bca_score, paired_bca

ITEMS = 1_590
RESAMPLES = 10_000
_LABELS = ("Attributable", "Not Attributable")


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(prog="python -m perf statistics", description="BCa intervals beside SciPy's.")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args(arguments)
    return measure_statistics(options.repeats)


def measure_statistics(repeats: int) -> list[str]:
    """Lines of a report: median seconds of each interval, ours and the peer's, interleaved in the same run."""
    from scipy import stats

    golds, first, second = _items()
    gold, earlier, predicted = (
        np.array([_LABELS.index(label) for label in column]) for column in (golds, first, second)
    )
    right = (gold == predicted).astype(float)
    values = np.random.default_rng(1).beta(4, 1, ITEMS)

    def peer(data: tuple[Any, ...], statistic: Callable[..., Any]) -> None:
        stats.bootstrap(
            data, statistic, n_resamples=RESAMPLES, paired=True, vectorized=True, method="BCa", batch=500, rng=0
        )

    ways: list[tuple[str, Callable[[], object]]] = [
        ("accuracy, ours", lambda: bca_score(golds, second, "accuracy")),
        ("accuracy, SciPy", lambda: peer((right,), np.mean)),
        ("mean of 1,590 different numbers, ours", lambda: bca_mean(values.tolist())),
        ("mean of 1,590 different numbers, SciPy", lambda: peer((values,), np.mean)),
        ("macro-F1, ours", lambda: bca_score(golds, second)),
        ("macro-F1, SciPy", lambda: peer((gold, predicted), _macro_f1)),
        ("difference in macro-F1, ours", lambda: paired_bca(golds, first, second)),
        ("difference in macro-F1, SciPy", lambda: peer((gold, earlier, predicted), _macro_f1_gain)),
        ("mean over 530 clusters of 3, ours", lambda: bca_mean(values.tolist(), clusters=_clusters())),
    ]
    durations: dict[str, list[float]] = {name: [] for name, _ in ways}
    for _ in range(repeats):
        for name, run in ways:
            start = time.perf_counter()
            run()
            durations[name].append(time.perf_counter() - start)
    return [
        f"BCa intervals of {ITEMS:,} items, {RESAMPLES:,} resamples, {repeats} repeats, median [min – max] seconds",
        *(
            f"  {name:40} {statistics.median(times):8.3f}  [{min(times):.3f} – {max(times):.3f}]"
            for name, times in durations.items()
        ),
    ]


def _clusters() -> list[int]:
    return [i // 3 for i in range(ITEMS)]


def _items() -> tuple[list[str], list[str], list[str]]:
    """Gold labels and two classifiers' predictions, with the error rates of the paper's SFT and GRPO models."""
    rng = np.random.default_rng(0)
    gold = rng.random(ITEMS) < 0.5
    golds = [_LABELS[int(label)] for label in gold]
    predictions = []
    for false_positive, false_negative in ((0.318, 0.385), (0.359, 0.254)):
        wrong = rng.random(ITEMS) < np.where(gold, false_negative, false_positive)
        predictions.append([_LABELS[int(label)] for label in gold ^ wrong])
    return golds, predictions[0], predictions[1]


def _macro_f1(gold: Any, predicted: Any, axis: int = -1) -> Any:
    """Return the mean of the two labels' F1 along `axis`."""
    scores = []
    for label in (0, 1):
        right = ((gold == label) & (predicted == label)).sum(axis)
        scores.append(2 * right / ((gold == label).sum(axis) + (predicted == label).sum(axis)))
    return (scores[0] + scores[1]) / 2


def _macro_f1_gain(gold: Any, earlier: Any, predicted: Any, axis: int = -1) -> Any:
    return _macro_f1(gold, predicted, axis) - _macro_f1(gold, earlier, axis)
