"""Adversarial probes: the six strategies of SEVA as operators on real claims, and checkers of what they make."""

from factgym.generators.probes.base import (
    ATTRIBUTABLE,
    ERROR_TYPES,
    NOT_ATTRIBUTABLE,
    STRATEGIES,
    ClaimLike,
    Label,
    NoProbe,
    Probe,
    strategies_for,
)
from factgym.generators.probes.checks import aim_faults, changed_faults, check_probe
from factgym.generators.probes.fluency import fluency_faults
from factgym.generators.probes.operators import attempt, probe, probes
from factgym.generators.probes.pool import Pool
from factgym.generators.probes.survey import StrategyReport, survey

__all__ = [
    "ATTRIBUTABLE",
    "ERROR_TYPES",
    "NOT_ATTRIBUTABLE",
    "STRATEGIES",
    "ClaimLike",
    "Label",
    "NoProbe",
    "Pool",
    "Probe",
    "StrategyReport",
    "aim_faults",
    "attempt",
    "changed_faults",
    "check_probe",
    "fluency_faults",
    "probe",
    "probes",
    "strategies_for",
    "survey",
]
