"""A horizontal bar for terminal tables, in plain ASCII where the terminal has no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.measure import Measurement
    from rich.segment import Segment


@dataclass(frozen=True, slots=True)
class Meter:
    """`value` of [0, 1] as a bar of `width` cells; values outside are drawn at the nearer end, None as nothing."""

    value: float | None
    width: int = 16
    style: str = "cyan"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """The bar as segments."""
        from rich.segment import Segment

        if self.value is None:
            return
        filled, rest = ("#", ".") if options.ascii_only else ("━", "─")
        cells = round(min(1.0, max(0.0, self.value)) * self.width)
        yield Segment(filled * cells, console.get_style(self.style))
        yield Segment(rest * (self.width - cells), console.get_style("dim"))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Always the same width."""
        from rich.measure import Measurement

        return Measurement(self.width, self.width)
