"""The words of SEVA's output schema, and how the many ways to write a label are read (Tables 13 and 20)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args

Label = Literal["Attributable", "Not Attributable"]

LABELS: tuple[Label, ...] = get_args(Label)
"""The two labels, the positive one first."""

STATUSES = ("match", "mismatch", "not_found")
JUDGMENTS = ("supported", "not_supported", "partially_supported")
NOT_FOUND = "NOT_FOUND"
"""What stands for a source span where the source is silent."""

ERROR_TYPES = (
    "numerical_exaggeration",
    "negation_flip",
    "scope_inflation",
    "temporal_shift",
    "entity_substitution",
    "fabrication",
)

_ALIASES: Mapping[str, Label] = {
    **dict.fromkeys(("attributable", "yes", "true", "entailment", "supported"), LABELS[0]),
    **dict.fromkeys(("not attributable", "no", "false", "contradiction", "neutral", "not supported"), LABELS[1]),
}
_EXACT: Mapping[str, Label] = {label: label for label in LABELS}
_LONGEST_FIRST = sorted(LABELS, key=len, reverse=True)

_ERROR_ALIASES = {name: name for name in ERROR_TYPES} | {
    "numerical_exag": "numerical_exaggeration",
    "entity_sub": "entity_substitution",
}
_SEPARATORS = re.compile(r"[\s_-]+")
_MAX_ERROR_CHARS = 64


def canonical_label(value: object) -> Label | None:
    """The label that a value of any type means; None when it is no text or names no label.

    First the aliases of Table 13, case, underscores and hyphens aside; else the label that the text contains, the
    longer one first, so that "clearly not attributable" is negative. A text that contains both is negative. As in
    the paper's rule, "unattributable" contains "attributable" and is read as that.
    """
    if not isinstance(value, str):
        return None
    found = _EXACT.get(value)
    if found is not None:
        return found
    folded = _SEPARATORS.sub(" ", value).strip().lower()
    found = _ALIASES.get(folded)
    if found is not None:
        return found
    return next((label for label in _LONGEST_FIRST if label.lower() in folded), None)


def canonical_error_type(value: object) -> str | None:
    """The category of the taxonomy that a value of any type names; None for another or none ("N/A", null, …).

    Case and separators are ignored and the paper's two short forms are known. This is for statistics: the reward
    takes the exact names only, as the paper's does.
    """
    if not isinstance(value, str) or len(value) > _MAX_ERROR_CHARS:
        return None
    return _ERROR_ALIASES.get(_SEPARATORS.sub("_", value.strip().lower()).strip("_."))
