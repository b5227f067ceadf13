"""Reads the lists of triplets that an extractor model writes, with all that small models get wrong in them.

    entities: [["Rajiv Rai", "place of birth", "Mumbai, Maharashtra, India"], [“O'Brien”, wrote, 'The "Big" Book']

Lists may be nested to any depth and need not be closed. Parts may stand in straight or curly, double or single quotes,
or in none. A quote ends a part only before a comma, a closing bracket or the end, so that quotes inside names do no
harm; a backslash takes the next character as it is. Commas inside quotes belong to the part, and what an unquoted or
wrongly quoted tail was cut into is joined again. A part that the output's end has cut is dropped, and its triplet.
"""

from __future__ import annotations

from factgym.rewards.corver.triplets import Triplet

_MAX_CHARS = 16_384
_MAX_DEPTH = 16
_CLOSING = {'"': '"', "“": "”", "”": "”", "„": "”", "'": "'", "‘": "’"}


def read_triplets(text: str) -> list[Triplet]:
    """The triplets in a model's output, in order; lists of other than three parts are none. Never raises.

    A list of more than three texts has its tail cut by commas and counts as one triplet. What follows the first whole
    list is not read, nor what lies beyond the first 16,384 characters.
    """
    start = text.find("[")
    if start < 0:
        return []
    return _Reader(text[start : start + _MAX_CHARS]).read()


class _Reader:
    """One pass over the text. Each open list has its parts, and whether it holds lists itself."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.found: list[Triplet] = []

    def read(self) -> list[Triplet]:
        open_lists: list[list[str]] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "[":
                if len(open_lists) >= _MAX_DEPTH:
                    break
                open_lists.append([])
                self.at += 1
            elif char == "]":
                self._close(open_lists.pop())
                self.at += 1
                if not open_lists:
                    break
            elif char == "," or char.isspace():
                self.at += 1
            elif not self._part(open_lists[-1]):
                open_lists.pop()
        for parts in reversed(open_lists):
            self._close(parts)
        return self.found

    def _close(self, parts: list[str]) -> None:
        """Keep a finished list of texts when it is a triplet."""
        if len(parts) >= 3:
            self.found.append(Triplet(parts[0], parts[1], ", ".join(parts[2:])))

    def _part(self, parts: list[str]) -> bool:
        """Read one part; False where the end of the text cut it."""
        closing = _CLOSING.get(self.text[self.at])
        part, whole = self._quoted(closing) if closing else self._bare()
        if whole and part:
            parts.append(part)
        return whole

    def _quoted(self, closing: str) -> tuple[str, bool]:
        text, i = self.text, self.at + 1
        kept: list[str] = []
        while i < len(text):
            char = text[i]
            if char == "\\" and i + 1 < len(text):
                kept.append(text[i + 1])
                i += 2
                continue
            if char == closing and self._ends(i + 1):
                self.at = i + 1
                return "".join(kept).strip(), True
            kept.append(char)
            i += 1
        self.at = i
        return "", False

    def _ends(self, i: int) -> bool:
        """Whether a part may end here. Looks a few characters ahead at most."""
        rest = self.text[i : i + 8].lstrip()
        return not rest or rest[0] in ",]"

    def _bare(self) -> tuple[str, bool]:
        text, start = self.text, self.at
        ends = [end for end in (text.find(one, start) for one in ",[]") if end >= 0]
        self.at = min(ends, default=len(text))
        return text[start : self.at].strip(' \t\r\n"“”'), bool(ends)
