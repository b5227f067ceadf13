"""Settings of an endpoint, the address of its server, and its key.

Keys come from the environment only and go to no other server: `OPENAI_API_KEY` is sent to OpenAI, or to the server
that `OPENAI_BASE_URL` names. A URL that a user types gets it only if they name the variable. No key reaches a file:
`Redactor` takes it out of every text that comes from a server.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from json import JSONEncoder
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from factgym.agents.endpoint.overflow import check_pattern
from factgym.agents.sampling import NonEmpty, NonNegative, Sampling
from factgym.core.config import AtLeastOne
from factgym.core.errors import ConfigError
from factgym.core.paths import is_host
from factgym.core.secrets import REDACTED

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_HOST = "api.openai.com"
NO_KEY = "none"
"""Sent to a server that asks for no key, because the client wants some text."""

_RESERVED_KEYS = frozenset({"model", "messages", "tools", "stream", "n"})
_MIN_SECRET_CHARS = 8
"""A shorter key, such as `EMPTY`, is a placeholder and holds no secret."""


class EndpointSettings(Sampling):
    """Settings of an endpoint.

    api_key_env: the environment variable that holds the key. timeout: seconds of one request. max_retries: repeated
    requests for one reply, at most. max_wait: the longest single wait before one, in seconds; a server that asks for
    more ends the episode. max_outage: seconds for which a server that has answered before may be gone; until then, failed
    requests use up no retries. connections: requests in flight at once. send_seed: send each turn's seed. top_logprobs:
    alternatives for each token, where the server gives them, stored in the record's notes. extra_body: further keys of
    the request, such as `{"chat_template_kwargs": {…}}`. stream: ask for replies as streams, which records the time to the
    first token; servers that give nothing else get it unasked. overflow_pattern: a regular expression for the words by
    which the server says that a prompt does not fit, where they are not recognized; searched without regard to case.
    """

    api_key_env: str | None = None
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 120.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 6
    max_wait: NonNegative = 60.0
    max_outage: NonNegative = 180.0
    connections: AtLeastOne = 1024
    send_seed: bool = True
    top_logprobs: Annotated[int, Field(ge=0, le=20)] = 0
    extra_body: dict[str, Any] | None = None
    stream: bool = False
    overflow_pattern: NonEmpty | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Check the further keys of requests, and the pattern."""
        try:
            json.dumps(self.extra_body, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ConfigError(f"extra_body must be JSON data, not {self.extra_body!r:.80}") from None
        if self.overflow_pattern is not None:
            check_pattern(self.overflow_pattern)
        if reserved := _RESERVED_KEYS & set(self.extra_body or ()):
            raise ConfigError(
                f"extra_body must not hold {', '.join(sorted(reserved))}: the endpoint writes these itself"
            )


@dataclass(frozen=True, slots=True)
class Address:
    """A server. url: without a slash at its end. key: not in the repr; `secret` is None where it is a placeholder."""

    url: str
    host: str
    key: str = field(repr=False)

    @property
    def secret(self) -> str | None:
        """The key, unless it is a placeholder."""
        return self.key if len(self.key) >= _MIN_SECRET_CHARS else None

    @property
    def is_openai(self) -> bool:
        """Whether the server is OpenAI's own."""
        return self.host == OPENAI_HOST


def find_address(base_url: str | None, api_key_env: str | None, environ: Mapping[str, str] = os.environ) -> Address:
    """Return the server and its key. Raises ConfigError for an unusable URL and for a missing key."""
    is_given = base_url is not None
    url = base_url if base_url is not None else environ.get("OPENAI_BASE_URL") or OPENAI_URL
    host = _checked_host(url, "base_url" if is_given else "OPENAI_BASE_URL")
    name = api_key_env or ("FACTGYM_API_KEY" if is_given else "OPENAI_API_KEY")
    key = environ.get(name, "").strip()
    if key and (not key.isascii() or not key.isprintable() or " " in key):
        raise ConfigError(f"{name} holds characters that no key has, such as a space or a line end")
    if not key and api_key_env:
        raise ConfigError(f"api_key_env names {api_key_env}, which is not set: export {api_key_env}=…")
    if not key and host == OPENAI_HOST:
        remedy = "name it with api_key_env" if is_given else "export it, or give base_url for another server"
        raise ConfigError(f"{name} is not set, and {host} asks for a key: {remedy}")
    return Address(url.rstrip("/"), host, key or NO_KEY)


def _checked_host(url: str, name: str) -> str:
    """The host of a URL. The messages never repeat the URL, which may hold a password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"{name} is not a URL: write it like http://127.0.0.1:8000/v1") from None
    if parts.scheme not in ("http", "https") or not host or not is_host(host) or " " in url or not url.isprintable():
        raise ConfigError(f"{name} must be a URL like http://127.0.0.1:8000/v1")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{name} holds a user name or password: it would be recorded. Use api_key_env")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ConfigError(f"{name} holds a query string or fragment: it would be recorded. Leave it out")
    return host.lower()


_GRAM = 6
"""Pieces of the key of this many characters are removed wherever they occur in an error."""

_BEARER = re.compile(r"(?i)\b(bearer|api[-_ ]?key[\"']?\s*[:=])\s*[\"']?[^\s\"',}]{4,}")
_SK = re.compile(r"\bsk-[\w*.•…-]{2,}")
_WORD = re.compile(r"[^\s\"'`,;(){}\[\]]+")
_MASK = re.compile(r"\*{2}|•{2}|…|\.{3}|[xX]{4}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]+")


class Redactor:
    """Removes one key from texts: servers echo keys, whole or masked, in their errors.

    secret None: there is no key, and only strings that look like one are removed from errors.
    """

    def __init__(self, secret: str | None) -> None:
        self._secret = secret
        forms = {secret, JSONEncoder().encode(secret)[1:-1]} if secret else set()
        self._forms = sorted((form.encode() for form in forms if form), key=len, reverse=True)

    def reply(self, body: bytes) -> bytes:
        """A server's reply without the whole key; a model's own words are not changed otherwise."""
        for form in self._forms:
            if form in body:
                body = body.replace(form, REDACTED.encode())
        return body

    def error(self, text: str, limit: int = 500) -> str:
        """A bounded line about a fault, without the key, its pieces, masked forms of it, or control characters."""
        text = _CONTROL.sub(" ", text[: 20 * limit])
        if self._secret:
            text = _without_grams(_WORD.sub(self._redact_masked, text), self._secret)
        text = _SK.sub(REDACTED, _BEARER.sub(lambda match: f"{match[1]} {REDACTED}", text)).strip()
        return text if len(text) <= limit else text[: limit - 1] + "…"

    def _redact_masked(self, match: re.Match[str]) -> str:
        """A word with stars or dots in it is redacted where it shares an end with the key."""
        word, secret = match[0], self._secret or ""
        if not _MASK.search(word):
            return word
        shares_end = word[:2] == secret[:2] or word[-2:] == secret[-2:] or REDACTED in word
        return REDACTED if shares_end else word


def _without_grams(text: str, secret: str) -> str:
    """Redact every maximal run of characters that is covered by `_GRAM`-grams of the secret."""
    # A server may quote any part of the key. Overlapping matches are joined, so that no border of a piece is left over.
    size = min(_GRAM, len(secret))
    grams = {secret[start : start + size] for start in range(len(secret) - size + 1)}
    parts: list[str] = []
    end = 0
    for start in range(len(text) - size + 1):
        if text[start : start + size] in grams:
            if start > end or not parts:
                parts += [text[end:start], REDACTED]
            end = start + size
    return "".join(parts) + text[end:]
