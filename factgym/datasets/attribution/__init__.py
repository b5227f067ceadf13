"""Claims with the source that they should follow from: readers of public benchmarks, and a generator that needs no data.

Everything gives the same record, `AttributionClaim`, with the two labels of SEVA ("Problem Formulation"): a claim is
Attributable when its source fully supports it, and Not Attributable otherwise, whether the source says otherwise or
is silent.
"""

from factgym.datasets.attribution.benchmarks import BENCHMARKS, BenchmarkClaims, read_benchmark
from factgym.datasets.attribution.claims import (
    ATTRIBUTABLE,
    ERROR_TYPES,
    LABELS,
    NOT_ATTRIBUTABLE,
    AttributionClaim,
    Label,
    gold_label,
)
from factgym.datasets.attribution.slices import Claims, Slice, balanced, stratified

__all__ = [
    "ATTRIBUTABLE",
    "BENCHMARKS",
    "ERROR_TYPES",
    "LABELS",
    "NOT_ATTRIBUTABLE",
    "AttributionClaim",
    "BenchmarkClaims",
    "Claims",
    "Label",
    "Slice",
    "balanced",
    "gold_label",
    "read_benchmark",
    "stratified",
]
