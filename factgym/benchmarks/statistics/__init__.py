"""Statistics for classifiers and verifiers: pure functions from gold and predicted labels to numbers with intervals.

`counts`: tables, accuracy, F1. `scores` and `resampling`: BCa intervals, also for differences on the same items.
`paired`: McNemar's test. `calibration`: reliability, ECE, Brier. `slices`: stratified slices, seed variance. `biases`
and `style`: who is flagged wrongly, and how often. `pictures`: SVG. Shares and means without a bootstrap are in
`factgym.benchmarks.intervals`.
"""

from factgym.benchmarks.statistics.biases import (
    Distribution,
    distribution,
    false_positive_rates,
    negative_bias,
    share_difference,
    total_variation,
)
from factgym.benchmarks.statistics.calibration import Bin, Reliability, reliability
from factgym.benchmarks.statistics.counts import (
    LabelScores,
    accuracy,
    balanced_accuracy,
    confusion,
    label_scores,
    macro_f1,
    matthews,
)
from factgym.benchmarks.statistics.paired import McNemar, mcnemar
from factgym.benchmarks.statistics.pictures import confusion_svg, reliability_svg
from factgym.benchmarks.statistics.resampling import bca, bca_mean, bootstrap, sample_of
from factgym.benchmarks.statistics.scores import Comparison, bca_score, paired_bca
from factgym.benchmarks.statistics.slices import SeedVariance, seed_variance, stratified_slices
from factgym.benchmarks.statistics.style import STYLES, Style, style_groups, style_of

__all__ = [
    "STYLES",
    "Bin",
    "Comparison",
    "Distribution",
    "LabelScores",
    "McNemar",
    "Reliability",
    "SeedVariance",
    "Style",
    "accuracy",
    "balanced_accuracy",
    "bca",
    "bca_mean",
    "bca_score",
    "bootstrap",
    "confusion",
    "confusion_svg",
    "distribution",
    "false_positive_rates",
    "label_scores",
    "macro_f1",
    "matthews",
    "mcnemar",
    "negative_bias",
    "paired_bca",
    "reliability",
    "reliability_svg",
    "sample_of",
    "seed_variance",
    "share_difference",
    "stratified_slices",
    "style_groups",
    "style_of",
    "total_variation",
]
