"""HTTP for clients of search and count servers: pooled connections, back-off, bounded answers. Standard library alone."""

from __future__ import annotations

import http.client
import json
import os
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from factgym.core.errors import ConfigError, FactgymError
from factgym.core.paths import is_host
from factgym.core.strict_json import clean_text

POSTGRES = "postgresql://"

TOKEN_VARIABLE = "FACTGYM_TOKEN"
"""Environment variable with the secret of the servers that `factgym serve … --token` starts."""

FIRST_CONTACT_SECONDS = 5.0
"""How long the first request to a server is tried again at most: a misspelt address is reported soon."""

MAX_ANSWER_BYTES = 64 * 2**20
FIRST_PAUSE = 0.1
MAX_PAUSE = 5.0
_MAX_DETAIL_CHARS = 300


class ServerUnavailableError(FactgymError, RuntimeError):
    """A server that cannot be reached, or that fails, for longer than the client tries again."""


class _StaleConnectionError(Exception):
    """A pooled connection that the server has closed meanwhile."""


def is_remote(name: object) -> bool:
    """Whether an index or a corpus is named by the URL of a server."""
    return isinstance(name, str) and name.startswith(("http://", "https://", POSTGRES))


def server_address(url: str) -> SplitResult:
    """Return the parts of a server's address; a final `/retrieve` is left out. Raises ConfigError for any other text."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and is_host(parts.hostname or "") and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or parts.query or parts.fragment or "@" in parts.netloc or not url.isprintable() or " " in url:
        raise ConfigError(f"{url[:80]!r} is no address of a server: write http://HOST:PORT")
    return parts._replace(path=parts.path.rstrip("/").removesuffix("/retrieve").rstrip("/"))


def printable(text: str) -> str:
    """Return a bounded excerpt of a server's text on one line."""
    return "".join(char if char.isprintable() else " " for char in clean_text(text[:_MAX_DETAIL_CHARS]))


def error_detail(answer: bytes) -> str:
    """Return the reason that an error's body gives under "detail" or "error", in the form `: reason`."""
    try:
        values = json.loads(answer)
        detail = values.get("detail", values.get("error"))
    except (ValueError, RecursionError, AttributeError):
        return ""
    return f": {printable(detail)}" if isinstance(detail, str) else ""


def parse_health(status: int, answer: bytes) -> Mapping[str, Any]:
    """Return the object that `/health` answered, empty where the server has none."""
    try:
        health = json.loads(answer) if status == 200 else {}
    except (ValueError, RecursionError):
        health = {}
    return health if isinstance(health, dict) else {}


class HttpClient:
    """Pooled connections to one server: an idle one is used again, and dropped where it fails. Safe under threads.

    timeout: seconds of silence after which a request counts as lost. noun, command: the server's name in errors, and
    the command that starts one. retry_seconds: how long an exchange is tried again. connections: the exchanges that its
    user begins at a time. Proxies of the environment are not used, and redirections not followed. A server that answers
    401 gets `FACTGYM_TOKEN` of the environment as bearer token; others never see it. Raises ConfigError for a text that
    is no address, and for numbers out of range.
    """

    def __init__(
        self, url: str, timeout: float, noun: str, command: str, retry_seconds: float = 0.0, connections: int = 1
    ) -> None:
        self._parts = server_address(url)
        if timeout <= 0 or retry_seconds < 0 or connections < 1:
            raise ConfigError(
                "a server needs timeout above 0, retry_seconds of at least 0 and connections of at least 1"
            )
        self.url = self._parts.geturl()
        self._timeout, self._retry_seconds = timeout, retry_seconds
        self._noun, self._command = noun, command
        self._token: str | None = None
        self._idle: list[tuple[int, http.client.HTTPConnection]] = []
        weakref.finalize(self, _close_all, self._idle)

    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        window: float | None = None,
        check_health: Callable[[int, bytes], object] | None = None,
    ) -> tuple[int, bytes]:
        """Return status and body of an answer below status 500; tries again until the pauses add up to `window` seconds.

        window: by default `retry_seconds`. check_health: gets the answer of `/health` after a lost connection, as
        another server may have come back. Raises ServerUnavailableError, and ConfigError for an answer that is too
        large and for a token that is refused.
        """
        # Exponential back-off. Pauses and timeouts are added up instead of reading a clock.
        waited, pause, was_lost = 0.0, FIRST_PAUSE, False
        while True:
            try:
                if was_lost and check_health is not None:
                    check_health(*self.request("GET", "/health", None))
                status, answer = self.request(method, path, body)
                if status < 500 and status != 429:
                    return status, answer
                fault = f"status {status}{error_detail(answer)}"
            except _StaleConnectionError:  # at most as often as there are idle connections
                was_lost = True
                continue
            except (OSError, http.client.HTTPException) as error:
                fault, was_lost = printable(f"{type(error).__name__}: {error}"), True
                waited += self._timeout if isinstance(error, TimeoutError) else 0.0
            if waited >= (self._retry_seconds if window is None else window):
                raise ServerUnavailableError(
                    f"no answer from a {self._noun} at {self.url} ({fault}): start one with `{self._command}`; "
                    "retry_seconds says how long to wait for it"
                )
            time.sleep(pause)
            waited += pause
            pause = min(2 * pause, MAX_PAUSE)

    def request(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Return status and body. Raises OSError, HTTPException, _StaleConnectionError for a pooled connection, and
        ConfigError where the server refuses the token.
        """
        status, content = self._send(method, path, body)
        if status == http.client.UNAUTHORIZED and self._token is None:
            self._token = _token_of_environment()
            status, content = self._send(method, path, body)
        if status == http.client.UNAUTHORIZED:
            problem = "wants a token" if self._token is None else "refuses the token"
            raise ConfigError(
                f"the {self._noun} at {self.url} {problem}: set {TOKEN_VARIABLE} to the --token that it was started with"
            )
        return status, content

    def _send(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Send a request over a pooled connection and return status and body.

        Only a pooled connection may be stale (closed by the server while idle): that is safe to send again, a fresh
        one's fault is the server's. A connection goes back to the pool when its answer was read whole.
        """
        connection, is_fresh = self._take()
        try:
            headers: dict[str, str | bytes] = {"Content-Type": "application/json"} if body is not None else {}
            if self._token is not None:
                headers["Authorization"] = b"Bearer " + self._token.encode()
            connection.request(method, self._parts.path + path, body, headers)
            answer = connection.getresponse()
            content = answer.read(MAX_ANSWER_BYTES + 1)
            if answer.length and len(content) <= MAX_ANSWER_BYTES:
                raise http.client.IncompleteRead(content, answer.length)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if is_fresh or isinstance(error, TimeoutError):
                raise
            raise _StaleConnectionError from error
        except BaseException:
            connection.close()
            raise
        if len(content) > MAX_ANSWER_BYTES:
            connection.close()
            raise ConfigError(f"the {self._noun} at {self.url} gave an answer of more than {MAX_ANSWER_BYTES:,} bytes")
        if not answer.isclosed() or answer.will_close:
            connection.close()
        else:
            self._idle.append((os.getpid(), connection))
        return answer.status, content

    def _take(self) -> tuple[http.client.HTTPConnection, bool]:
        """Return a connection, and whether it is a new one. One of another process is not touched after a fork."""
        while True:
            try:
                process_id, connection = self._idle.pop()
            except IndexError:
                break
            if process_id == os.getpid():
                return connection, False
            connection.close()  # this process's copy: the parent's stays open
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        return kind(str(self._parts.hostname), self._parts.port, timeout=self._timeout), True


def _token_of_environment() -> str | None:
    token = os.environ.get(TOKEN_VARIABLE)
    if token is not None and not token.isprintable():
        raise ConfigError(f"{TOKEN_VARIABLE} holds line breaks or control characters, which no token may have")
    return token


def _close_all(idle: list[tuple[int, http.client.HTTPConnection]]) -> None:
    for _, connection in idle:
        connection.close()
