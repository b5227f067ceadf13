"""What a probe is: a claim of a data set with one controlled change, the label that it has now, and the error aimed at.

SEVA (appendix on adversarial data) makes claims that a source does not support out of claims that it does, by six
strategies. Only claims that are attributable are made false here: of a claim that is false already, another change
leaves the label, but nobody could say which error it has. What keeps the meaning keeps the label, whichever it is.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol

from factgym.core.errors import ConfigError, did_you_mean
from factgym.datasets.attribution.claims import ATTRIBUTABLE, ERROR_TYPES, NOT_ATTRIBUTABLE, Label

STRATEGIES: Mapping[str, tuple[str | None, ...]] = MappingProxyType(
    {
        "entity_confusion": ("entity_substitution",),
        "numerical_perturb": ("numerical_exaggeration", "temporal_shift"),
        "multi_hop_graft": ("fabrication", "temporal_shift", None),
        "paraphrase": ("negation_flip", "scope_inflation", None),
        "presupposition": ("fabrication", "scope_inflation"),
        "unanswerable_wrap": ("fabrication",),
    }
)
"""Each strategy with the errors that it can aim at; None stands for a probe that keeps its claim's label."""

__all__ = [
    "ATTRIBUTABLE",
    "ERROR_TYPES",
    "NOT_ATTRIBUTABLE",
    "STRATEGIES",
    "ClaimLike",
    "Draft",
    "Label",
    "NoProbe",
    "Probe",
    "check_strategy",
    "rng_for",
    "strategies_for",
]

Reason = Literal["question", "fragment", "not_attributable", "no_place", "no_donor", "refused", "too_long"]
"""Why there is no probe.

question, fragment: the claim asserts nothing that the strategy can change. not_attributable: another error in a false
claim could not be told from the one it has. no_place: nothing in it fits the strategy. no_donor: nothing in the pool
can stand in the place. refused: what was made failed its own checks.
too_long: the claim is longer than `MAX_CLAIM_CHARS` of `operators`.
"""


class ClaimLike(Protocol):
    """What probes need of a claim; `factgym.datasets.attribution.AttributionClaim` has it."""

    @property
    def id(self) -> str:
        """The claim's name in its data set."""
        ...

    @property
    def claim(self) -> str:
        """The text."""
        ...

    @property
    def source(self) -> str:
        """What it is checked against."""
        ...

    @property
    def label(self) -> str:
        """ "Attributable" or "Not Attributable"."""
        ...

    @property
    def error_type(self) -> str | None:
        """The error of a claim that is not attributable, where it is known."""
        ...


@dataclass(frozen=True, slots=True)
class Probe:
    """A claim with one change.

    claim: the changed text. gold_label: "Attributable" or "Not Attributable". error_type: the error aimed at, one of
    ERROR_TYPES, or None for a probe that is attributable. by: who made it ("rules", or the description of a model).
    meta: small JSON data; "variant" says which rule made it.
    """

    id: str
    claim: str
    source: str
    original_claim: str
    gold_label: Label
    error_type: str | None
    strategy: str
    seed: int
    by: str = "rules"
    meta: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, keys in a fixed order."""
        names = ("id", "claim", "source", "original_claim", "gold_label", "error_type", "strategy", "seed", "by")
        return {name: getattr(self, name) for name in names} | {"meta": dict(self.meta)}

    def as_case(self) -> dict[str, str]:
        """The probe as a case of the rubric "probe-check"."""
        case = {"source": self.source, "probe": self.claim, "label": self.gold_label, "original": self.original_claim}
        return case | ({"error_type": self.error_type} if self.error_type else {})


@dataclass(frozen=True, slots=True)
class NoProbe:
    """Why a strategy gave nothing on a claim."""

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """What an operator made of a claim's text: the new text, the error it aims at, and the rule's name."""

    text: str
    error_type: str | None
    variant: str


def check_strategy(strategy: str, error_type: str | None = None) -> None:
    """Raises ConfigError for a strategy that there is not, or for an error that it does not aim at."""
    if strategy not in STRATEGIES:
        hint = did_you_mean(str(strategy), list(STRATEGIES))
        raise ConfigError(f"there is no probe strategy {strategy!r}.{hint} There are: {', '.join(STRATEGIES)}.")
    if error_type is not None and error_type not in STRATEGIES[strategy]:
        aims = ", ".join(one for one in STRATEGIES[strategy] if one)
        raise ConfigError(f"the strategy {strategy!r} does not aim at {error_type!r}. It aims at: {aims}.")


def strategies_for(error_type: str) -> tuple[str, ...]:
    """The strategies that aim at an error. Raises ConfigError for one that is not in the taxonomy."""
    if error_type not in ERROR_TYPES:
        hint = did_you_mean(str(error_type), ERROR_TYPES)
        raise ConfigError(f"there is no error type {error_type!r}.{hint} There are: {', '.join(ERROR_TYPES)}.")
    return tuple(name for name, aims in STRATEGIES.items() if error_type in aims)


def rng_for(seed: int, *names: object) -> random.Random:
    """A generator that follows from the seed and what it is for."""
    text = "\x1f".join(str(name) for name in (seed, "probe", *names))
    return random.Random(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
