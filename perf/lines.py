"""How a measurement is told: line by line, as each is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TextIO

from factgym.core.errors import FactgymError


def tell(measure: Callable[[], Iterable[str]], out: TextIO, faults: TextIO) -> int:
    """Write what `measure` gives to `out`; the exit status. What factgym refuses is told on `faults`."""
    try:
        for line in measure():
            out.write(f"{line}\n")
            out.flush()
    except FactgymError as error:
        faults.write(f"{error}\n")
        return 2
    return 0
