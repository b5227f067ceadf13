"""The count server: `factgym serve counts INDEX`, in the form of infini-gram's public API.

    POST /        {"index": "world", "query_type": "count", "query": "Fedora AND Staesov"}
                  {"count": 12, "approx": false, "latency": 0.1}    or status 400 with {"error": "…"}
    GET /health   the index and its fingerprint
    GET /metrics  as of the retrieval server

A query is clauses joined by ` AND `, a clause terms joined by ` OR `, which binds tighter; a term of several words is
a phrase. Queries that wait at the same time are counted in one call on a worker thread.
"""

from __future__ import annotations

import time
from typing import Any

from factgym.core.strict_json import clean_text
from factgym.corpora.cooccurrence import Counter
from factgym.integrations.frameworks import Shell, framework_import
from factgym.integrations.retrieval import Metrics, MicroBatcher
from factgym.integrations.serving import Guard, read_json

with framework_import("count server", "serve", "starlette"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

__all__ = ["CountServer"]

MAX_QUERY_CHARS = 2000
MAX_CLAUSES = 64
_MAX_BODY_BYTES = 2**16
_MAX_WAITING = 20_000
_MAX_BATCH = 512


class CountServer:
    """The application over one counter; `app` is an ASGI application.

    name: of the index, in requests. shell: rights of requests.
    """

    def __init__(
        self, counter: Counter, name: str, *, max_query_chars: int = MAX_QUERY_CHARS, shell: Shell | None = None
    ) -> None:
        self._counter, self._name, self._max_query_chars = counter, name, max_query_chars
        self._description = counter.describe()
        self._metrics = Metrics("count")
        self._batcher = MicroBatcher(self._count, _MAX_BATCH, self._metrics.add_batch)
        routes = [
            Route("/", self._post, methods=["POST"]),
            Route("/health", self._get_health),
            Route("/metrics", self._get_metrics),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: self._refuse})
        self.app = Guard(app, shell or Shell(), max_body_bytes=_MAX_BODY_BYTES)

    async def _post(self, request: Request) -> Response:
        started = time.monotonic()
        query = self._checked_query(await read_json(request))
        if len(self._batcher) >= _MAX_WAITING:
            raise HTTPException(503, "Too many queries wait already: try again.", {"Retry-After": "1"})
        try:
            ((count, is_approximate),) = await self._batcher.search([query], 0)
        except Exception as error:  # noqa: BLE001 - the boundary: a fault of the index is an answer
            self._metrics.totals["failed"] += 1
            return JSONResponse({"error": f"The count failed ({type(error).__name__})."}, 500)
        seconds = time.monotonic() - started
        self._metrics.add_request(1, seconds)
        return JSONResponse({"count": count, "approx": is_approximate, "latency": round(1000 * seconds, 3)})

    def _checked_query(self, values: Any) -> str:
        """Return the query of a request in a normal form. Raises HTTPException with status 400."""
        if not isinstance(values, dict) or not isinstance(values.get("query"), str):
            raise HTTPException(400, 'The body must be {"index": …, "query_type": "count", "query": "A AND B"}.')
        if values.get("index") not in (self._name, "", None):
            raise HTTPException(400, f"There is no such index: this server has {self._name!r}.")
        if values.get("query_type") != "count":
            raise HTTPException(400, 'This server has one query_type: "count".')
        window, limit = values.get("max_diff_tokens"), self._description.get("window")
        if window is not None and window != limit:
            raise HTTPException(400, f"max_diff_tokens is {limit} here: leave it out.")
        if len(values["query"]) > self._max_query_chars:
            raise HTTPException(400, f"A query of more than {self._max_query_chars:,} characters.")
        query = " ".join(clean_text(values["query"]).split())
        clauses = parse_cnf(query)
        if len(clauses) > MAX_CLAUSES or not all(term for clause in clauses for term in clause):
            raise HTTPException(400, f"A query is 1 to {MAX_CLAUSES} clauses, and no term of it is empty.")
        return query

    def _count(self, queries: list[str], _: int) -> list[tuple[int, bool]]:
        """Return count and approximation of each query; runs on the worker thread."""
        cnfs = [parse_cnf(query) for query in queries]
        words = [[clause[0] for clause in cnf] for cnf in cnfs if max(map(len, cnf)) == 1]
        conjunctions = iter(self._counter.count_many(words).tolist() if words else ())
        count_cnf: Any = getattr(self._counter, "count_cnf", None)
        is_exact: Any = getattr(self._counter, "is_exact", None)
        results = []
        for cnf in cnfs:
            count = next(conjunctions) if max(map(len, cnf)) == 1 else int(count_cnf(cnf))
            terms = [term for clause in cnf for term in clause]
            results.append((count, is_exact is not None and not is_exact(terms)))
        return results

    async def _get_health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "index": self._name, **self._description})

    async def _get_metrics(self, request: Request) -> Response:
        return PlainTextResponse(self._metrics.render(len(self._batcher)), media_type="text/plain; version=0.0.4")

    async def _refuse(self, request: Request, error: Any) -> Response:
        self._metrics.totals["refused"] += 1
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def parse_cnf(query: str) -> list[list[str]]:
    """Return the clauses of a query, each a list of terms; a term is empty where an operator lacks an operand."""
    cnf: list[list[list[str]]] = [[[]]]
    for word in query.split():
        if word == "AND":
            cnf.append([[]])
        elif word == "OR":
            cnf[-1].append([])
        else:
            cnf[-1][-1].append(word)
    return [[" ".join(term) for term in clause] for clause in cnf]
