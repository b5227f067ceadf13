"""One byte for each character of a sentence: stand-ins that let the compiled rules read what is not ASCII.

The rules ask of a character whether it is a letter, a capital, a digit, or one of a few marks, and otherwise only carry
it along. So the letters of a batch that are not ASCII get bytes above 127 in the order in which they come, capitals and
others apart, and the few marks that rules know have bytes of their own. A sentence with digits of other scripts, with a
letter whose lower case is ASCII or longer, or with more different letters than there are bytes, is left to Python.
"""

from __future__ import annotations

import re

CAPITALS, LETTERS, QUOTE, EN_DASH, EM_DASH, OTHER = 128, 160, 224, 225, 226, 227
"""Where the bytes of capitals and of other letters begin; those of ’, – and —, and that of all that parts words."""

_MARKS = {"’": chr(QUOTE), "–": chr(EN_DASH), "—": chr(EM_DASH)}
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


class StandIns:
    """The bytes of one batch, as the characters below 256."""

    def __init__(self) -> None:
        self._bytes = dict(_MARKS)
        self._back = {ord(byte): char for char, byte in _MARKS.items()}
        self._free = {CAPITALS: iter(range(CAPITALS, LETTERS)), LETTERS: iter(range(LETTERS, QUOTE))}

    def encode(self, text: str) -> str | None:
        """The text with stand-ins, of the same length; None where a character cannot have one."""
        try:
            return _NOT_ASCII.sub(self._replace, text)
        except LookupError:
            return None

    def decode(self, text: str) -> str:
        """A part of what `encode` gave, as it was."""
        return text if text.isascii() else text.translate(self._back)

    def _replace(self, match: re.Match[str]) -> str:
        known = self._bytes
        return "".join([known[char] if char in known else self._choose(char) for char in match[0]])

    def _choose(self, char: str) -> str:
        """A byte for a character that is new. LookupError where it has none."""
        byte = chr(OTHER)
        if char.isalpha():
            lower = char.lower()
            if len(lower) > 1 or lower.isascii():
                raise LookupError
            number = next(self._free[CAPITALS if char.isupper() else LETTERS], None)
            if number is None:
                raise LookupError
            byte = chr(number)
            self._back[number] = char
        elif char.isalnum():
            raise LookupError
        self._bytes[char] = byte
        return byte
