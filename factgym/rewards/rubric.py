"""Rubrics: components are scored once and combined by named weights.

`total = Σ weight[name] · component[name] · gate[name]`; a name without a gate counts in full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from factgym.core.episode import RewardReport, SpanCredit
from factgym.core.errors import ConfigError, did_you_mean


@dataclass(frozen=True, slots=True)
class Rubric:
    """Weights by component. gated: component -> name of the gate that multiplies it."""

    name: str
    weights: Mapping[str, float]
    gated: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for component, weight in self.weights.items():
            if not isinstance(weight, (int, float)) or not math.isfinite(weight):
                raise ConfigError(f"rubric {self.name!r}: the weight of {component!r} must be a finite number")
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))
        object.__setattr__(self, "gated", MappingProxyType(dict(self.gated)))

    def check(self, components: tuple[str, ...], gates: tuple[str, ...]) -> None:
        """Raise ConfigError when the rubric names a component or gate that does not exist."""
        for name in (*self.weights, *self.gated):
            if name not in components:
                raise ConfigError(f"rubric {self.name!r}: no component {name!r}.{did_you_mean(name, components)}")
        for gate in self.gated.values():
            if gate not in gates:
                raise ConfigError(f"rubric {self.name!r}: no gate {gate!r}.{did_you_mean(gate, gates)}")

    def gate_factors(self, gates: Mapping[str, float]) -> dict[str, float]:
        """Return the factor that multiplies each gated component."""
        return {component: gates[gate] for component, gate in self.gated.items()}

    def shares(self, components: Mapping[str, float], gates: Mapping[str, float]) -> dict[str, float]:
        """Return the part of the total that each component contributes."""
        shares = {name: weight * components[name] for name, weight in self.weights.items()}
        for component, gate in self.gated.items():
            if component in shares:
                shares[component] *= gates[gate]
        return shares

    def total(self, components: Mapping[str, float], gates: Mapping[str, float]) -> float:
        """Return the combined reward."""
        return math.fsum(self.shares(components, gates).values())

    def report(
        self,
        components: Mapping[str, float],
        gates: Mapping[str, float] = MappingProxyType({}),
        *,
        spans: tuple[SpanCredit, ...] = (),
        metrics: Mapping[str, Any] = MappingProxyType({}),
    ) -> RewardReport:
        """Return the report of scored components; `metrics["gates"]` holds the gates, for other rubrics."""
        return RewardReport(
            total=self.total(components, gates),
            components=dict(components),
            weights=dict(self.weights),
            gates=self.gate_factors(gates),
            spans=spans,
            metrics={**metrics, "gates": dict(gates)},
        )

    def __reduce__(self) -> tuple[type[Rubric], tuple[str, dict[str, float], dict[str, str]]]:
        return Rubric, (self.name, dict(self.weights), dict(self.gated))
