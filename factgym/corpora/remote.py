"""The client of a retrieval server: `index="http://127.0.0.1:8000"` wherever an index is named.

The server searches, the passages stay here: a hit is an id of the local corpus, and no text of the server is used; over a
`RetrievedCorpus` the passages are those that the server returns. Any server with Search-R1's `/retrieve` will do. Of one with `/health`, as `factgym serve retrieval` has it, the corpus is
compared with the local one, at the start and whenever the connection was lost.

Searches of one process that wait at the same time become one request. Lost connections, timeouts and answers with
status 5xx are tried again with growing pauses, so that a server may be restarted in the middle of a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from factgym.core.errors import ConfigError
from factgym.core.tasks import Immutable
from factgym.corpora.combiner import Combiner
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.http_client import FIRST_CONTACT_SECONDS, HttpClient, error_detail, parse_health, printable
from factgym.corpora.index import Hit, check_request, index_fingerprint
from factgym.corpora.retrieved import RetrievedCorpus

TIMEOUT = 60.0
"""Seconds of silence after which a request counts as lost."""

RETRY_SECONDS = 120.0
"""How long a request is tried again."""

CONNECTIONS = 4
"""Requests at a time; searches beyond them wait, and become one request."""

MAX_QUERIES = 256
"""Queries of one request."""

_MAX_SCORE = 1e300
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_START = "factgym serve retrieval SOURCE --host HOST --port PORT"


class RemoteIndex(Immutable):
    """Search by a server over the passages of the local corpus, or over its own for a `RetrievedCorpus`.

    timeout: seconds of silence after which a request counts as lost. retry_seconds: how long one is tried again.
    connections: requests at a time. Safe under threads and after a fork. Proxies of the environment are not used.

    Raises ServerUnavailableError where no server answers, ConfigError for one that serves another corpus or refuses a
    request, and for answers that are not of the protocol.
    """

    def __init__(
        self,
        passages: Iterable[Passage],
        url: str,
        *,
        timeout: float = TIMEOUT,
        retry_seconds: float = RETRY_SECONDS,
        connections: int = CONNECTIONS,
    ) -> None:
        self._client = HttpClient(url, timeout, "retrieval server", _START, retry_seconds, connections)
        self._corpus = Corpus.of(passages)
        self.url = self._client.url
        self._options: dict[str, Any] = {"timeout": timeout, "retry_seconds": retry_seconds, "connections": connections}
        self._health = self._check_health(
            *self._client.exchange("GET", "/health", None, min(retry_seconds, FIRST_CONTACT_SECONDS))
        )
        limits = self._health.get("limits")
        limit = limits.get("max_queries") if isinstance(limits, dict) else None
        self._max_queries = min(limit, MAX_QUERIES) if isinstance(limit, int) and limit > 0 else MAX_QUERIES
        self._combiner = Combiner(self._retrieve, connections, self._max_queries)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the server's hits of each query. Raises as the class does."""
        check_request(queries, k)
        return self._combiner.search(queries, k)

    def fingerprint(self) -> str:
        """The fingerprint of the server's index; of the corpus where it tells none. Independent of the address."""
        index = self._health.get("index")
        if isinstance(index, str) and _FINGERPRINT.fullmatch(index):
            return index
        return index_fingerprint("remote", {}, [self._corpus.fingerprint()])

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(RemoteIndex, **self._options), (self._corpus, self.url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _retrieve(self, queries: list[str], k: int) -> list[list[Hit]]:
        body = json.dumps({"queries": queries, "topk": k, "return_scores": True}).encode()
        status, answer = self._client.exchange("POST", "/retrieve", body, check_health=self._check_health)
        if status != 200:
            detail = error_detail(answer)
            raise ConfigError(f"the retrieval server at {self.url} refused a request (status {status}){detail}")
        return self._parse(answer, len(queries), k)

    def _check_health(self, status: int, answer: bytes) -> Mapping[str, Any]:
        """Return the answer of `/health`, empty where the server has none, as Search-R1's. Raises ConfigError for another corpus."""
        health = parse_health(status, answer)
        fingerprint = health.get("corpus")
        if not isinstance(fingerprint, str):
            return {}
        local = self._corpus.fingerprint()
        if fingerprint != local:
            served = health.get("passages")
            size = f"{served:,} passages" if isinstance(served, int) and 0 <= served < 10**12 else "passages"
            raise ConfigError(
                f"the retrieval server at {self.url} serves another corpus ({size}, fingerprint "
                f"{printable(fingerprint)[:12]}) than is searched here ({len(self._corpus):,} passages, fingerprint "
                f"{local[:12]}): start it with the same passages ({_START})"
            )
        return health

    def _parse(self, answer: bytes, count: int, k: int) -> list[list[Hit]]:
        """Return the hits of an answer, whose shape, ids and scores are checked. Raises ConfigError."""
        try:
            rows = json.loads(answer)["result"]
        except (ValueError, RecursionError, TypeError, KeyError):
            excerpt = printable(answer[:80].decode("utf-8", "replace"))
            raise self._fault(f'no JSON object with a "result": {excerpt}') from None
        if not isinstance(rows, list) or len(rows) != count:
            actual = f"{len(rows)} lists" if isinstance(rows, list) else type(rows).__name__
            raise self._fault(f"{actual} for {count} queries: expected one list of hits for each")
        results = []
        for row in rows:
            if not isinstance(row, list) or len(row) > k:
                actual = f"{len(row)} hits" if isinstance(row, list) else type(row).__name__
                raise self._fault(f"{actual} where a list of at most topk={k} hits is expected")
            hits = {hit.id: hit for hit in map(self._parse_hit, row)}
            if len(hits) < len(row):
                raise self._fault("a passage twice for one query")
            results.append(list(hits.values()))
        return results

    def _parse_hit(self, entry: Any) -> Hit:
        """Return a hit of a server, whose passage is one of the corpus here or, without a corpus, comes along."""
        document = entry.get("document") if isinstance(entry, dict) else None
        value = document.get("id") if isinstance(document, dict) else None
        score = entry.get("score") if isinstance(entry, dict) else None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._fault('a hit without {"document": {"id": …}}')
        if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) <= _MAX_SCORE:
            raise self._fault("a hit whose score is no number")
        if isinstance(self._corpus, RetrievedCorpus):
            if (passage := self._corpus.add(document)) is None:
                raise self._fault('a hit without {"document": {"id": …, "contents": …}}')
            return Hit(passage.id, float(score))
        passage_id = str(value)
        if passage_id not in self._corpus:
            raise self._fault(
                f"the passage {printable(passage_id)[:80]!r}, which is not in the corpus of {len(self._corpus):,} passages "
                f"here: start it with the same passages ({_START})"
            )
        return Hit(passage_id, float(score))

    def _fault(self, text: str) -> ConfigError:
        return ConfigError(f"the retrieval server at {self.url} gave {text}")
