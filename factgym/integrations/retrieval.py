"""The retrieval server: `factgym serve retrieval SOURCE`, with the `/retrieve` that Search-R1, ZeroSearch, verl and SkyRL speak.

    POST /retrieve      {"queries": ["…", "…"], "topk": 3, "return_scores": true}
                        {"result": [[{"document": {"id": "7", "contents": "Title\\ntext"}, "score": 1.5}, …], …]}
    GET  /health        passages, fingerprints of corpus and index, limits
    GET  /metrics       counters and quantiles in Prometheus' text format
    GET  /openapi.json  the schema of all of it

Queries that wait at the same time, of whichever clients, are one call of the index on a worker thread. A request names
no file, and nothing of it reaches the file system.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

import factgym
from factgym.core.errors import ConfigError
from factgym.core.strict_json import clean_text
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.index import FingerprintedIndex, Hit, Index
from factgym.integrations.frameworks import Shell, framework_import
from factgym.integrations.serving import Guard, read_model

with framework_import("HTTP server", "serve", "starlette"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

__all__ = ["MicroBatcher", "RetrievalLimits", "RetrievalServer", "RetrieveRequest"]

TOPK = 3
"""Hits of a request that names no number, as in Search-R1."""

_WINDOW_SECONDS = 60.0
_SAMPLES = 4096
_QUANTILES = (0.5, 0.95)
_GATHERING = 0.1
"""Part of a batch's time that the next batch waits for the clients that were answered."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetrievalLimits:
    """Bounds of a server; a request beyond one is refused with status 4xx, and 503 while `max_waiting` queries wait.

    max_queries: of one request. max_query_chars: of one query. max_topk: hits of one query. max_body_bytes: of one
    request. max_waiting: queries that wait for the index. max_batch: queries of one call of the index.
    """

    max_queries: int = 4096
    max_query_chars: int = 20_000
    max_topk: int = 100
    max_body_bytes: int = 16 * 2**20
    max_waiting: int = 20_000
    max_batch: int = 256

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise ConfigError(f"{name} is at least 1, not {value!r}")


class RetrieveRequest(BaseModel):
    """The body of `POST /retrieve`. Unknown keys are ignored."""

    model_config = ConfigDict(strict=True)

    queries: list[str] | None = Field(None, description="The queries; the result has one list of hits for each.")
    query: str | None = Field(None, description="A single query, as SkyRL sends it, in place of queries.")
    topk: int | None = Field(None, ge=1, description="Hits per query; the server's default where missing or null.")
    return_scores: bool | None = Field(False, description="Whether a hit is a document with its score, or bare.")


class MicroBatcher:
    """Combines queries that wait at the same time into one call of `search(queries, k)` on a worker thread.

    While the worker is busy, queries of the same `k` gather, up to `max_batch`, and equal queries are searched once. After a
    batch the next waits for the clients that were just answered, at most a tenth of the time that the batch took:
    otherwise the first to return is searched alone, and clients that each wait for an answer are served in two batches
    where one would do. Used from one event loop. observe: gets the number of queries of every batch.
    """

    def __init__(
        self,
        search: Callable[[list[str], int], Sequence[Any]],
        max_batch: int,
        observe: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._search, self._max_batch, self._observe = search, max_batch, observe
        self._waiting: deque[tuple[str, int, asyncio.Future[Any]]] = deque()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="retrieval")
        self._task: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._expected, self._patience = 0, 0.0  # queries for which the next batch waits, and until when

    def __len__(self) -> int:
        """Queries that wait for the worker."""
        return len(self._waiting)

    async def search(self, queries: Iterable[str], k: int) -> list[Any]:
        """Return the result of each query, in order. Raises the error of the index; a cancelled call is not searched."""
        loop = asyncio.get_running_loop()
        entries = [(query, k, loop.create_future()) for query in queries]
        futures = [future for _, _, future in entries]
        self._waiting.extend(entries)
        self._arrived.set()
        if futures and (self._task is None or self._task.done()):
            self._task = loop.create_task(self._run())
        results = await asyncio.gather(*futures, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    async def _run(self) -> None:
        """Run waiting queries batch by batch: each waits for others at most a share of the last search's time."""
        while self._waiting:
            await self._gather()
            batch = self._take()
            queries = list(dict.fromkeys(query for query, _, _ in batch))
            if not batch:
                continue
            self._observe(len(batch))
            started = time.monotonic()
            outcome: dict[str, Any] | Exception
            try:
                results = await asyncio.get_running_loop().run_in_executor(
                    self._worker, self._search, queries, batch[0][1]
                )
                outcome = dict(zip(queries, results, strict=True))
            except Exception as error:  # noqa: BLE001 - the boundary: the index's fault becomes the answer of its requests
                outcome = error
            finished = time.monotonic()
            self._expected = min(len(batch) + len(self._waiting), self._max_batch)
            self._patience = finished + _GATHERING * (finished - started)
            for query, _, future in batch:
                if future.done():
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome[query])

    async def _gather(self) -> None:
        """Wait for as many queries as there were at the end of the last batch, its own included."""
        while len(self._waiting) < self._expected and (seconds := self._patience - time.monotonic()) > 0:
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), seconds)

    def _take(self) -> list[tuple[str, int, asyncio.Future[Any]]]:
        """Take the oldest query and those of the same `k`; the others keep their order, cancelled queries are dropped."""
        batch: list[tuple[str, int, asyncio.Future[Any]]] = []
        others: list[tuple[str, int, asyncio.Future[Any]]] = []
        while self._waiting and len(batch) < self._max_batch:
            entry = self._waiting.popleft()
            if not entry[2].done():
                (batch if not batch or entry[1] == batch[0][1] else others).append(entry)
        self._waiting.extendleft(reversed(others))
        return batch


class Metrics:
    """Counts since the start; rates and quantiles over the last minute or the last few thousand requests.

    name: between "factgym_" and the metric.
    """

    def __init__(self, name: str) -> None:
        self._prefix = f"factgym_{name}"
        self.totals = dict.fromkeys(("requests", "queries", "batches", "refused", "failed"), 0)
        self.seconds: deque[float] = deque(maxlen=_SAMPLES)
        self.batch_sizes: deque[int] = deque(maxlen=_SAMPLES)
        self._started = time.monotonic()
        self._answered: deque[tuple[float, int]] = deque()

    def add_batch(self, size: int) -> None:
        """Record a call of the index."""
        self.totals["batches"] += 1
        self.batch_sizes.append(size)

    def add_request(self, queries: int, seconds: float) -> None:
        """Record an answered request."""
        now = time.monotonic()
        self.totals["requests"] += 1
        self.totals["queries"] += queries
        self.seconds.append(seconds)
        self._answered.append((now, queries))
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._answered and self._answered[0][0] < now - _WINDOW_SECONDS:
            self._answered.popleft()

    def render(self, waiting: int) -> str:
        """Return the metrics in Prometheus' text format."""
        now = time.monotonic()
        self._forget(now)
        span = max(min(_WINDOW_SECONDS, now - self._started), 1e-9)
        values: list[tuple[str, str, float]] = [
            (f"{name}_total", "counter", count) for name, count in self.totals.items()
        ]
        values.append(("queries_per_second", "gauge", sum(count for _, count in self._answered) / span))
        values.append(("waiting_queries", "gauge", waiting))
        lines = [
            line
            for name, kind, value in values
            for line in (f"# TYPE {self._prefix}_{name} {kind}", f"{self._prefix}_{name} {value:.10g}")
        ]
        for name, samples in (("request_seconds", self.seconds), ("batch_size", self.batch_sizes)):
            lines.append(f"# TYPE {self._prefix}_{name} summary")
            if samples:
                for quantile, value in zip(_QUANTILES, np.quantile(samples, _QUANTILES), strict=True):
                    lines.append(f'{self._prefix}_{name}{{quantile="{quantile}"}} {value:.6g}')
        return "\n".join(lines) + "\n"


class RetrievalServer:
    """The application over one corpus and its index; `app` is an ASGI application.

    name: of the index, for `/health`. topk: hits of a request that names no number. shell: rights of requests.
    """

    def __init__(
        self,
        corpus: Corpus,
        index: Index,
        name: str = "bm25",
        *,
        topk: int = TOPK,
        limits: RetrievalLimits | None = None,
        shell: Shell | None = None,
    ) -> None:
        self.limits = limits or RetrievalLimits()
        if not 1 <= topk <= self.limits.max_topk:
            raise ConfigError(f"topk is 1 to max_topk={self.limits.max_topk}, not {topk!r}")
        self._corpus, self._index, self._topk = corpus, index, topk
        self.metrics = Metrics("retrieval")
        self._batcher = MicroBatcher(self._search, self.limits.max_batch, self.metrics.add_batch)
        self._health = {
            "status": "ok",
            "server": f"factgym {factgym.__version__}",
            "passages": len(corpus),
            "corpus": corpus.fingerprint(),
            "index": index.fingerprint() if isinstance(index, FingerprintedIndex) else None,
            "name": name,
            "topk": topk,
            "limits": asdict(self.limits),
        }
        routes = [
            Route("/retrieve", self._retrieve, methods=["POST"]),
            Route("/health", self._get_health),
            Route("/metrics", self._get_metrics),
            Route("/openapi.json", self._get_openapi),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: self._refuse})
        self.app = Guard(app, shell or Shell(), max_body_bytes=self.limits.max_body_bytes)

    def _search(self, queries: list[str], k: int) -> list[list[tuple[dict[str, str], float]]]:
        """Return documents and scores of each query; runs on the worker thread, where passages may be read from disk."""
        results: list[list[Hit]] = self._index.search(queries, k)
        return [[(document(self._corpus.get(hit.id)), float(hit.score)) for hit in hits] for hits in results]

    async def _retrieve(self, request: Request) -> Response:
        started = time.monotonic()
        parsed = await read_model(request, RetrieveRequest)
        queries = checked_queries(parsed, self.limits)
        if len(self._batcher) + len(queries) > self.limits.max_waiting:
            raise HTTPException(503, "Too many queries wait already: try again.", {"Retry-After": "1"})
        try:
            ranked = await self._batcher.search(queries, parsed.topk or self._topk)
        except Exception as error:  # noqa: BLE001 - the boundary: a fault of the index is an answer
            self.metrics.totals["failed"] += 1
            _log.error("a search failed: %s: %s", type(error).__name__, error)
            return JSONResponse({"detail": f"The search failed ({type(error).__name__})."}, 500)
        result: list[Any] = [
            [{"document": text, "score": score} if parsed.return_scores else text for text, score in hits]
            for hits in ranked
        ]
        self.metrics.add_request(len(queries), time.monotonic() - started)
        return JSONResponse({"result": result})

    async def _get_health(self, request: Request) -> Response:
        return JSONResponse(self._health)

    async def _get_metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.metrics.render(len(self._batcher)), media_type="text/plain; version=0.0.4")

    async def _get_openapi(self, request: Request) -> Response:
        return JSONResponse(openapi())

    async def _refuse(self, request: Request, error: Any) -> Response:
        self.metrics.totals["refused"] += 1
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


def document(passage: Passage) -> dict[str, str]:
    """Return a passage as clients of `/retrieve` read it: `contents` is the title's line, then the text."""
    return {"id": passage.id, "contents": f"{' '.join(passage.title.split())}\n{passage.text}"}


def checked_queries(parsed: RetrieveRequest, limits: RetrievalLimits) -> list[str]:
    """Return the queries of a request, lone surrogates replaced. Raises HTTPException with status 422."""
    queries = parsed.queries if parsed.queries is not None else None if parsed.query is None else [parsed.query]
    if queries is None:
        raise HTTPException(422, 'The body has no "queries": give a list of texts.')
    if len(queries) > limits.max_queries:
        raise HTTPException(422, f"{len(queries):,} queries in one request: the limit is {limits.max_queries:,}.")
    longest = max(map(len, queries), default=0)
    if longest > limits.max_query_chars:
        raise HTTPException(422, f"A query of {longest:,} characters: the limit is {limits.max_query_chars:,}.")
    if (parsed.topk or 1) > limits.max_topk:
        raise HTTPException(422, f"topk {parsed.topk:,}: the limit is {limits.max_topk:,}.")
    return list(map(clean_text, queries))


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the server."""

    def returns(description: str, schema: Any, media_type: str = "application/json") -> dict[str, Any]:
        return {"description": description, "content": {media_type: {"schema": schema}}}

    text, anything = {"type": "string"}, {"type": "object"}
    passage = {"type": "object", "properties": {"id": text, "contents": text}, "required": ["id", "contents"]}
    scored = {"type": "object", "properties": {"document": passage, "score": {"type": "number"}}}
    hits = {"type": "array", "items": {"type": "array", "items": {"anyOf": [scored, passage]}}}
    result = {"type": "object", "properties": {"result": hits}, "required": ["result"]}
    refusal = returns("The reason.", {"type": "object", "properties": {"detail": text}})
    retrieve = {
        "summary": "Search: one list of hits for each query, best first.",
        "requestBody": {"required": True, **returns("The queries.", RetrieveRequest.model_json_schema())},
        "responses": {"200": returns("The hits.", result), "4XX": refusal, "5XX": refusal},
    }
    health = {"summary": "Corpus, index and limits.", "responses": {"200": returns("It is ready.", anything)}}
    metrics = {"summary": "Prometheus' metrics.", "responses": {"200": returns("The metrics.", text, "text/plain")}}
    paths = {"/retrieve": {"post": retrieve}, "/health": {"get": health}, "/metrics": {"get": metrics}}
    return {"openapi": "3.1.0", "info": {"title": "factgym retrieval", "version": factgym.__version__}, "paths": paths}
