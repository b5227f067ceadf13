"""Windows of words or sentences over a text: the passages of `factgym corpus build --words N` and `--sentences N`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from factgym.core.errors import ConfigError
from factgym.corpora.sentences import sentences

_WORD = re.compile(r"\S+")


class Split(NamedTuple):
    """size: words or sentences of a passage. overlap: those that it shares with the one before, below `size`."""

    unit: Literal["words", "sentences"]
    size: int
    overlap: int = 0

    def check(self) -> None:
        """Raise ConfigError for sizes that cannot be."""
        if self.size < 1 or not 0 <= self.overlap < self.size:
            raise ConfigError(
                f"passages of {self.size} {self.unit} overlap by 0 to {self.size - 1}, not by {self.overlap}"
            )

    def ranges(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the character ranges of passages, in order; a last window that is inside the one before is left out.

        Words are what white space separates, sentences those of `factgym.corpora.sentences`.
        """
        units = sentences(text) if self.unit == "sentences" else [match.span() for match in _WORD.finditer(text)]
        step = self.size - self.overlap
        for first in range(0, max(len(units) - self.overlap, min(len(units), 1)), step):
            window = units[first : first + self.size]
            yield window[0][0], window[-1][1]
