"""Counts of a server that speaks infini-gram's public API: `open_counter("https://api.infini-gram.io", index="v4_…")`.

    POST /  {"index": "v4_pileval_llama", "query_type": "count", "query": "Philadelphia AND Flyers AND Cup"}
            {"count": 1234, "approx": false, …}    or    {"error": "…"}

`factgym serve counts INDEX` is such a server over an index of one's own. A query that gets no answer has no count, and
one that the server refuses has none either: both are negative numbers, which the reward knows, and no errors, so that a
server that is gone for a while ends no episode.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factgym.core.errors import ConfigError
from factgym.core.tasks import Immutable
from factgym.corpora.http_client import (
    FIRST_CONTACT_SECONDS,
    HttpClient,
    ServerUnavailableError,
    error_detail,
    parse_health,
    printable,
)

NO_COUNT = -1
"""Count of a query that no server answered: neutral in the reward."""

REFUSED = -2
"""Count of a query that the server does not count, such as one of too many words: the sentence is unchecked."""

TIMEOUT = 30.0
RETRY_SECONDS = 20.0
CONNECTIONS = 8
MAX_CACHED = 1_000_000
_REFUSALS = (400, 413, 414, 422)
_OPERATOR = re.compile(r"\b(AND|OR)\b")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_START = "factgym serve counts INDEX --host HOST --port PORT"


class RemoteCounter(Immutable):
    """Counts by a server; each distinct query is requested once in a process.

    index: the server's name of the corpus. timeout: seconds of silence after which a request counts as lost.
    retry_seconds: how long one is tried again, before it and those behind it have no count. connections: requests at a
    time. max_diff_tokens, max_clause_freq: of the API, the server's own by default.

    Raises ServerUnavailableError where no server answers at the start, and ConfigError for an index that it does not
    have and for answers that are not of the API.
    """

    def __init__(
        self,
        url: str,
        *,
        index: str = "",
        timeout: float = TIMEOUT,
        retry_seconds: float = RETRY_SECONDS,
        connections: int = CONNECTIONS,
        max_diff_tokens: int | None = None,
        max_clause_freq: int | None = None,
    ) -> None:
        self._client = HttpClient(url, timeout, "count server", _START, retry_seconds, connections)
        self.url = self._client.url
        limits = {"max_diff_tokens": max_diff_tokens, "max_clause_freq": max_clause_freq}
        patience = {"timeout": timeout, "retry_seconds": retry_seconds, "connections": connections}
        self._options: dict[str, Any] = {"index": index, **patience, **limits}
        self._settings = {"index": index} | {name: limit for name, limit in limits.items() if limit is not None}
        self._connections = connections
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()
        window = min(retry_seconds, FIRST_CONTACT_SECONDS)
        status, answer = self._client.exchange("GET", "/health", None, window)
        self._server = _description(parse_health(status, answer))
        status, answer = self._post("the", window)
        if status != 200 or self._parse(status, answer) == REFUSED:
            raise ConfigError(
                f"the count server at {self.url} does not count in the index {index[:80]!r} (status {status})"
                f"{error_detail(answer)}: name one that it has with index=… (counter_options in an environment)"
            )

    def count_many(self, queries: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """Return the count of each query; `NO_COUNT` where no server answered, `REFUSED` where it does not count one."""
        if not all(queries) or not all(word.strip() for words in queries for word in words):
            raise ConfigError("a query needs at least one word, and every clause of it too")
        texts = [
            "" if any(map(_OPERATOR.search, words)) else " AND ".join(" ".join(word.split()) for word in words)
            for words in queries
        ]
        with self._lock:
            counts = {text: self._counts[text] for text in texts if text in self._counts}
        counts[""] = REFUSED
        missing = [text for text in dict.fromkeys(texts) if text not in counts]
        if missing:
            is_lost = threading.Event()
            with ThreadPoolExecutor(min(self._connections, len(missing))) as pool:
                new = dict(zip(missing, pool.map(partial(self._count, is_lost), missing), strict=True))
            counts |= new
            with self._lock:
                self._counts |= {text: count for text, count in new.items() if count != NO_COUNT}
                while len(self._counts) > MAX_CACHED:  # first in, first out: dicts keep their order
                    del self._counts[next(iter(self._counts))]
        return np.array([counts[text] for text in texts], np.int64)

    def _count(self, is_lost: threading.Event, text: str) -> int:
        """Return the count of a query. is_lost: set when the server is gone, so that others do not wait for it as well."""
        if is_lost.is_set():
            return NO_COUNT
        try:
            return self._parse(*self._post(text))
        except ServerUnavailableError:
            is_lost.set()
            return NO_COUNT

    def _post(self, text: str, window: float | None = None) -> tuple[int, bytes]:
        body = json.dumps({**self._settings, "query_type": "count", "query": text}).encode()
        return self._client.exchange("POST", "/", body, window)

    def _parse(self, status: int, answer: bytes) -> int:
        """Return the count in an answer of infini-gram's API, or REFUSED where it explicitly gives none."""
        if status in _REFUSALS:
            return REFUSED
        try:
            values = json.loads(answer) if status == 200 else None
        except (ValueError, RecursionError):
            values = None
        if isinstance(values, dict) and isinstance(values.get("error"), str):
            return REFUSED
        count = values.get("count") if isinstance(values, dict) else None
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**62:
            excerpt = printable(answer[:80].decode("utf-8", "replace"))
            raise ConfigError(f"the count server at {self.url} gave no count (status {status}): {excerpt}")
        return count

    def describe(self) -> dict[str, Any]:
        """Return the settings that determine the counts, and what the server says about itself."""
        return {"kind": "remote", "url": self.url, **self._settings, **self._server, "fingerprint": self.fingerprint()}

    def fingerprint(self) -> str:
        """The fingerprint of the server's index; of address and settings where it tells none."""
        served = self._server.get("fingerprint")
        settings = json.dumps([served or self.url, dict(sorted(self._settings.items()))])
        if served and set(self._settings) == {"index"}:
            return str(served)
        return hashlib.sha256(settings.encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(RemoteCounter, **self._options), (self.url,)


def _description(health: Mapping[str, Any]) -> dict[str, Any]:
    """Return semantics, window and fingerprint out of `/health`; nothing where the server has none."""
    description: dict[str, Any] = {}
    for name, kinds in (("semantics", str), ("window", int), ("tokens", int), ("documents", int)):
        value = health.get(name)
        if isinstance(value, kinds) and len(str(value)) < 40:
            description[name] = printable(value) if isinstance(value, str) else value
    fingerprint = health.get("fingerprint")
    if isinstance(fingerprint, str) and _FINGERPRINT.fullmatch(fingerprint):
        description["fingerprint"] = fingerprint
    return description
