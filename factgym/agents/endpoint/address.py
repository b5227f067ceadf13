"""Where the server is and which key it gets: keys come from the environment only, and go to no other server.

A key that belongs to OpenAI (`OPENAI_API_KEY`) is sent to OpenAI, or to the server that `OPENAI_BASE_URL` names; a URL
that a user types gets it only if they name the variable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from factgym.core.errors import ConfigError

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_HOST = "api.openai.com"
NO_KEY = "none"
"""What is sent where a server asks for no key: the client wants some text."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server. url: without a slash at its end. key: never shown; `secret` is None where it is a placeholder."""

    url: str
    host: str
    key: str = field(repr=False)

    @property
    def secret(self) -> str | None:
        """The key, if it is one: shorter texts such as `EMPTY` are placeholders, which hold no secret."""
        return self.key if len(self.key) >= 8 else None

    @property
    def is_openai(self) -> bool:
        """Whether OpenAI itself answers there."""
        return self.host == OPENAI_HOST


def find_address(base_url: str | None, api_key_env: str | None, environ: Mapping[str, str] = os.environ) -> Address:
    """The server and its key. Raises ConfigError for a URL that cannot be used and a key that is not there."""
    url = base_url or environ.get("OPENAI_BASE_URL") or OPENAI_URL
    host = _checked_host(url, "base_url" if base_url else "OPENAI_BASE_URL")
    return Address(url.rstrip("/"), host, _key(host, base_url is not None and bool(base_url), api_key_env, environ))


def _checked_host(url: str, name: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"{name} is not a URL: write it like http://127.0.0.1:8000/v1") from None
    if parts.scheme not in ("http", "https") or not host or url != url.strip() or not url.isprintable():
        raise ConfigError(f"{name} must be a URL like http://127.0.0.1:8000/v1")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{name} holds a user name or password: it would be recorded. Use api_key_env")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ConfigError(f"{name} holds a query string or fragment: it would be recorded. Leave it out")
    return host.lower()


def _key(host: str, typed: bool, named: str | None, environ: Mapping[str, str]) -> str:
    if named:
        if not environ.get(named, "").strip():
            raise ConfigError(f"api_key_env names {named}, which is not set: export {named}=…")
        return _checked_key(environ[named], named)
    name = "FACTGYM_API_KEY" if typed else "OPENAI_API_KEY"
    if environ.get(name, "").strip():
        return _checked_key(environ[name], name)
    if host == OPENAI_HOST:
        way = "name it with api_key_env" if typed else "export it, or give base_url for another server"
        raise ConfigError(f"{name} is not set, and {host} asks for a key: {way}")
    return NO_KEY


def _checked_key(value: str, name: str) -> str:
    key = value.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{name} holds characters that no key has, such as a space or a line end")
    return key
