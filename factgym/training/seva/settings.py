"""What an evolution is told, and its arms: the loop of the paper and the two controls that the paper leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from factgym.core.errors import ConfigError, did_you_mean
from factgym.training.seva.splits import NAMES

ProbeKind = Literal["weakness", "random"]

PUBLIC = ("clearfacts", "fever", "truthfulqa", "halueval")
"""The benchmarks of the paper's tables, where public data is at hand."""

EMBEDDED = ("generated-validation", "generated-ood")
"""What is measured without any data."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to make probes. shares: source -> share of the probes. probes: by weakness, or at random."""

    name: str
    probes: ProbeKind
    shares: Mapping[str, Fraction]

    def describe(self) -> dict[str, Any]:
        """JSON data for a manifest."""
        return {
            "name": self.name,
            "probes": self.probes,
            "shares": {name: str(value) for name, value in self.shares.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolveSettings:
    """Settings of the loop.

    benchmarks: what is measured. source: where probes and replay come from. mix: source -> share, for the arm "mix";
    empty for equal shares of the source and the benchmarks. budgets: B_k of round 1, 2, …; the last holds for later
    rounds. warm_sources: where the seed verifier's training claims come from; empty for the source. replay: replayed examples for each probe. balance: choose replay so that both labels are taught equally.
    keep_rules: the rules of round 1 stay in the instructions of later rounds. warm_up: claims of the source with
    their gold that the seed verifier is trained on first; 0 to begin with the verifier as it is. size: claims of each
    benchmark at most. material: claims of each source at most. path: file or folder of public data. prior: accuracy of
    a category without episodes.
    """

    benchmarks: tuple[str, ...] = EMBEDDED
    source: str = "generated-train"
    mix: Mapping[str, Fraction] = field(default_factory=dict)
    budgets: tuple[int, ...] = (200,)
    replay: float = 1.0
    balance: bool = True
    keep_rules: bool = True
    warm_up: int = 0
    warm_sources: tuple[str, ...] = ()
    size: int | None = None
    material: int = 1000
    path: str | None = None
    prior: Fraction = Fraction(1, 2)
    seed: int = 0

    def __post_init__(self) -> None:
        _check(bool(self.benchmarks), "an evolution needs a benchmark to be measured on")
        _check(len(set(self.benchmarks)) == len(self.benchmarks), "a benchmark is named twice")
        for name in (*self.benchmarks, self.source, *self.mix, *self.warm_sources):
            known = ", ".join(NAMES)
            _check(name in NAMES, f"there is no benchmark {name!r}.{did_you_mean(name, NAMES)} There are: {known}.")
        _check(bool(self.budgets) and min(self.budgets) >= 1, "each probe budget must be at least 1")
        _check(self.replay >= 0, f"replay must be 0 or more, not {self.replay}")
        _check(self.warm_up >= 0, f"warm_up must be 0 or more, not {self.warm_up}")
        _check(self.size is None or self.size >= 1, f"size must be at least 1, not {self.size}")
        _check(self.material >= 1, f"material must be at least 1, not {self.material}")
        _check(0 <= self.prior <= 1, f"the prior accuracy must be from 0 to 1, not {self.prior}")
        shares = self.mix.values()
        _check(not shares or (min(shares) >= 0 and sum(shares) > 0), "shares must not be negative, and one above 0")

    def budget(self, number: int) -> int:
        """B_k of round `number`, from 1."""
        return self.budgets[min(number, len(self.budgets)) - 1]

    @property
    def mixed(self) -> Mapping[str, Fraction]:
        """The sources of the arm "mix" with their shares, in a fixed order."""
        return self.mix or dict.fromkeys(
            (self.source, *(one for one in self.benchmarks if one != self.source)), Fraction(1)
        )

    def arm(self, name: str) -> Arm:
        """An arm by name. Raises ConfigError for another."""
        if name not in ARMS:
            raise ConfigError(f"there is no arm {name!r}.{did_you_mean(name, ARMS)} There are: {', '.join(ARMS)}.")
        single = {self.source: Fraction(1)}
        return Arm(name, "random" if name == "random" else "weakness", self.mixed if name == "mix" else single)

    def describe(self) -> dict[str, Any]:
        """Everything but the path of the data, whose content has fingerprints, as JSON data."""
        return {
            "benchmarks": list(self.benchmarks),
            "source": self.source,
            "mix": {name: str(value) for name, value in self.mixed.items()},
            "budgets": list(self.budgets),
            "replay": self.replay,
            "balance": self.balance,
            "keep_rules": self.keep_rules,
            "warm_up": self.warm_up,
            "warm_sources": list(self.warm_sources or (self.source,)),
            "size": self.size,
            "material": self.material,
            "prior": str(self.prior),
            "seed": self.seed,
        }


ARMS = ("weakness", "random", "mix")
"""weakness: the paper's loop. random: as many probes, of categories drawn uniformly. mix: several source distributions."""


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ConfigError(otherwise)
