"""The five-surface separability diagnostic of ClaimCheck (*Separating The Signals*): which skill moved?

One reward can hide that quotes got worse while labels got better. The five surfaces keep apart what the answer's
form, its evidence, the breadth of that evidence, its label and its harmlessness are worth:

    format        valid JSON; and, of the tool protocol, malformed actions
    grounding     evidence ids and exact quotes, and their mean
    coverage      quoted evidence covers the required facts
    calibration   final verdict and per-label recall
    safety        false "supported" verdicts, and the unsupported span

The false-supported rate is over the episodes whose gold verdict is not "supported", the only ones in which it can
happen; an episode without a submission is no false support (the reward's guard is stricter there).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from factgym.benchmarks.statistics.intervals import Estimate


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a surface, in [0, 1]."""

    label: str
    estimate: Estimate
    lower_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Surface:
    """One surface and its measures, the one that stands for it first."""

    name: str
    measures: tuple[Measure, ...]


def separate(
    components: Mapping[str, Estimate],
    *,
    grounding: Estimate,
    malformed: Estimate,
    accuracy: Estimate,
    macro_recall: Estimate,
    false_supported: Estimate,
) -> tuple[Surface, ...]:
    """The surfaces of a run; a measure that the environment does not have, and an empty surface, are left out.

    No surface at all without gold verdicts: the diagnostic is about verifying claims.
    """
    if accuracy.value is None:
        return ()
    table: dict[str, list[Measure | None]] = {
        "format": [_part("valid JSON", components, "json"), Measure("malformed actions", malformed, True)],
        "grounding": [
            Measure("evidence and quotes", grounding),
            _part("evidence F1", components, "evidence"),
            _part("exact quotes", components, "quote"),
            _part("true alignments", components, "grounded_alignment"),
            _part("true steps", components, "grounded_chain"),
        ],
        "coverage": [_part("gold facts quoted", components, "coverage")],
        "calibration": [Measure("verdict accuracy", accuracy), Measure("macro recall", macro_recall)],
        "safety": [
            Measure("false supported", false_supported, True),
            _part("unsupported span F1", components, "span"),
        ],
    }
    surfaces = []
    for name, found in table.items():
        kept = tuple(one for one in found if one is not None and one.estimate.value is not None)
        if kept:
            surfaces.append(Surface(name, kept))
    return tuple(surfaces)


def _part(label: str, components: Mapping[str, Estimate], name: str) -> Measure | None:
    return Measure(label, components[name]) if name in components else None
