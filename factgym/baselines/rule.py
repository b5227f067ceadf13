"""A rule judges a statement against the sentences that were read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from factgym.baselines.reading import Line, Reading, Statement
from factgym.datasets.claims import Status


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says of a statement: its status, the lines that decide, the part that they do not carry, and why."""

    status: Status
    lines: tuple[Line, ...]
    span: str
    reason: str


Rule = Callable[[Statement, Reading], Finding]


def bare(text: str) -> str:
    """A statement without its closing full stop."""
    return text.rstrip().rstrip(".").rstrip()
