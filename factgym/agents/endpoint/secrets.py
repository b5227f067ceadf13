"""Keys out of every text: servers echo them, whole or masked, in what they say about them."""

from __future__ import annotations

import re
from json import JSONEncoder

SHOWN = "[key]"
_PIECE = 6
"""So many characters in a row of the key are taken out wherever they stand in an error."""

_BEARER = re.compile(r"(?i)\b(bearer|api[-_ ]?key[\"']?\s*[:=])\s*[\"']?[^\s\"',}]{4,}")
_SK = re.compile(r"\bsk-[\w*.•…-]{2,}")
_MASKED = re.compile(r"[^\s\"'`,;(){}\[\]]*(?:\*{2,}|•{2,}|…|\.{3,}|[xX]{4,})[^\s\"'`,;(){}\[\]]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]+")


class Redactor:
    """Takes one key out of texts. secret None: there is no key, and only what looks like one is taken out of errors."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret
        forms = {secret, JSONEncoder().encode(secret)[1:-1]} if secret else set()
        self._forms = sorted((form.encode() for form in forms if form), key=len, reverse=True)

    def reply(self, body: bytes) -> bytes:
        """A server's reply without the whole key; what a model writes is not touched otherwise."""
        for form in self._forms:
            if form in body:
                body = body.replace(form, SHOWN.encode())
        return body

    def error(self, text: str, limit: int = 500) -> str:
        """A bounded line about a fault, without the key, its pieces, masked forms of it, or control characters."""
        text = _CONTROL.sub(" ", text[: 20 * limit])
        if self._secret:
            text = self._without_pieces(_MASKED.sub(self._unmasked, text), self._secret)
        text = _SK.sub(SHOWN, _BEARER.sub(lambda found: f"{found[1]} {SHOWN}", text)).strip()
        return text if len(text) <= limit else text[: limit - 1] + "…"

    def _without_pieces(self, text: str, secret: str) -> str:
        size = min(_PIECE, len(secret))
        pieces = {secret[at : at + size] for at in range(len(secret) - size + 1)}
        hits = [at for at in range(len(text) - size + 1) if text[at : at + size] in pieces]
        kept: list[str] = []
        end = 0
        for at in hits:
            if at > end or not kept:
                kept += [text[end:at], SHOWN]
            end = at + size
        return "".join(kept) + text[end:]

    def _unmasked(self, found: re.Match[str]) -> str:
        """A word with stars or dots in it, unless it shares neither end with the key."""
        word, secret = found[0], self._secret or ""
        same = word[:2] == secret[:2] or word[-2:] == secret[-2:] or SHOWN in word
        return SHOWN if same else word
