"""The record of an attribution claim, and the gold labels of many data sets as SEVA's two.

A model's own labels are read elsewhere, by the table of the paper (`factgym.rewards.seva.canonical_label`); here are
the names that data sets use. Labels of three-way inference map as in the paper's training data: entailment is
Attributable, neutral and contradiction are Not Attributable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

Label = Literal["Attributable", "Not Attributable"]
LABELS: tuple[Label, ...] = get_args(Label)
ATTRIBUTABLE, NOT_ATTRIBUTABLE = LABELS

ERROR_TYPES = (
    "numerical_exaggeration",
    "negation_flip",
    "scope_inflation",
    "temporal_shift",
    "entity_substitution",
    "fabrication",
)
"""The six categories of the paper's error taxonomy."""

_NAMES: Mapping[Label, tuple[str, ...]] = {
    "Attributable": (
        "attributable", "s", "supports", "supported", "support", "fully supported", "e", "entailment", "entailed", "entails",
        "yes", "true", "correct", "factual", "faithful", "consistent",
    ),
    "Not Attributable": (
        "not attributable", "unattributable", "ns", "not supported", "unsupported", "refutes", "refuted", "c", "contradiction",
        "contradicted", "contradictory", "contradicts", "n", "neutral", "not entailment", "not entailed", "nei", "not enough info",
        "not enough information", "not enough evidence", "not enough", "no", "false", "incorrect", "hallucinated", "hallucination",
        "unfaithful", "inconsistent",
    ),
}  # fmt: skip
_LABELS: Mapping[str, Label] = {name: label for label, names in _NAMES.items() for name in names}


def gold_label(value: object) -> Label | None:
    """A data set's label as one of the two, None for anything else.

    Text in any case, with `_` or `-` for spaces, or a boolean. Numbers are refused: what 0 means differs between data
    sets.
    """
    if isinstance(value, bool):
        return LABELS[0] if value else LABELS[1]
    if not isinstance(value, str):
        return None
    return _LABELS.get(" ".join(value[:80].lower().replace("_", " ").replace("-", " ").split()))


@dataclass(frozen=True, slots=True)
class AttributionClaim:
    """One claim, the source that it is checked against, and what is true of it.

    id: unique in its set. error_type: one of `ERROR_TYPES` where it is known, else None. benchmark: which data set.
    meta: a few small facts about where it comes from, JSON data.
    """

    id: str
    claim: str
    source: str
    label: Label
    error_type: str | None = None
    benchmark: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "meta", MappingProxyType(dict(self.meta)))

    def __reduce__(self) -> tuple[Any, ...]:
        own = (self.id, self.claim, self.source, self.label, self.error_type, self.benchmark, dict(self.meta))
        return AttributionClaim, own

    def __deepcopy__(self, memo: dict[int, Any]) -> AttributionClaim:
        return self
