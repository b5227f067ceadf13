"""A table of the paper with our numbers in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

Kind = Literal["computed", "simulated", "data", "theirs"]
KINDS: Mapping[Kind, str] = MappingProxyType(
    {
        "computed": "computed from the definitions",
        "simulated": "simulated, not trained",
        "data": "counted in the files at hand",
        "theirs": "their trained models beside our scripts: not a reproduction",
    }
)
"""What a table is, in words."""

assert tuple(KINDS) == get_args(Kind)


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One line. agrees: whether ours is theirs to the digits that the paper prints; None where they cannot be compared."""

    cells: tuple[str, ...]
    agrees: bool | None = None


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table: `source` is where the paper has it, such as "Table 14"; the first column holds names."""

    source: str
    title: str
    kind: Kind
    columns: tuple[str, ...]
    rows: tuple[PaperRow, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{self.source}: {len(row.cells)} cells for {len(self.columns)} columns: {row.cells}")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        rows = [{"cells": list(row.cells), "agrees": row.agrees} for row in self.rows]
        return {
            "source": self.source,
            "title": self.title,
            "kind": self.kind,
            "columns": list(self.columns),
            "rows": rows,
            "notes": list(self.notes),
        }


def signed(value: float, places: int = 1) -> str:
    """`+1.3`, `-0.7`, `0.0`."""
    shown = f"{round(value, places) + 0.0:.{places}f}"
    return shown if float(shown) <= 0 else f"+{shown}"


def same(ours: float, theirs: float, places: int) -> bool:
    """Whether a number is the printed one: within half a unit of its last digit, ties included."""
    return abs(ours - theirs) <= 0.5 * 10.0**-places + 1e-9
