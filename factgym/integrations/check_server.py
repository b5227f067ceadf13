"""The check server: `factgym serve check FOLDER …`, the verdicts of `factgym check` as a page and a JSON API.

    GET  /         the page: paste a text, choose documents
    POST /         the page with the verdicts, from the form of the page
    POST /check    {"text": "…", "documents": "handbook", "question": ""}    as `factgym check --json` prints it
    GET  /health   documents, agent, limits

A request names documents by a label from a fixed list, and nothing of it reaches the file system. Texts are checked on a
thread with an event loop of its own, so that the server answers meanwhile. Every text of a page is escaped, and a page
runs no scripts.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, Field

import factgym
from factgym.agents.rollout.engine import RunAbortedError
from factgym.benchmarks.page import STATIC_POLICY, fill_template
from factgym.check.answers import MAX_CLAIM_CHARS, Answer, checked_answer, split_claims
from factgym.check.checker import CheckedAnswer, Checker
from factgym.check.report import page_values, to_dict
from factgym.core.errors import ConfigError, DataError, FactgymError, did_you_mean
from factgym.core.strict_json import clean_text
from factgym.integrations.frameworks import Shell, framework_import
from factgym.integrations.serving import Guard, read_model, refuse

with framework_import("check server", "serve", "starlette", "uvicorn"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

__all__ = ["CheckLimits", "CheckRequest", "CheckServer"]

_POLICY = STATIC_POLICY.replace("form-action 'none'", "form-action 'self'")
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Bounds of a server; a request beyond one is refused with status 4xx, and 503 where too many wait.

    max_text_chars, max_claims: of a text. max_running: texts that are checked at a time. max_waiting: further ones that
    wait. max_seconds: of one check, after which it is given up with status 504.
    """

    max_text_chars: int = 20_000
    max_claims: int = 200
    max_running: int = 2
    max_waiting: int = 16
    max_seconds: float = 300.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < (0 if name == "max_waiting" else 1):
                raise ConfigError(f"{name} is at least 1, not {value!r}")

    @property
    def max_body_bytes(self) -> int:
        """Of a request: a character is at most 12 bytes, as percent escapes of UTF-8 or as two JSON escapes."""
        return 12 * (self.max_text_chars + MAX_CLAIM_CHARS) + 4096


class CheckRequest(BaseModel):
    """The body of `POST /check`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: str = Field(description="The text to check.")
    documents: str | None = Field(None, description="A label of `/health`; needed where there are several.")
    question: str = Field("", description="The question that the text answers, if there is one.")


class _LoopThread:
    """An event loop on a thread of its own, started with the first call. Agents keep connections that belong to a loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine there; cancelled with the caller."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="factgym-check", daemon=True).start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))


class CheckServer:
    """The application; `app` is an ASGI application.

    checkers: label -> checker of the documents that are offered under it. shell: rights of requests; the token is also
    taken as the password of HTTP's basic authentication. Raises ConfigError without checkers.
    """

    def __init__(
        self, checkers: Mapping[str, Checker], *, limits: CheckLimits | None = None, shell: Shell | None = None
    ) -> None:
        if not checkers:
            raise ConfigError("a check server needs documents")
        self.limits = limits or CheckLimits()
        self._checkers = dict(checkers)
        self._worker = _LoopThread()
        self._running = asyncio.Semaphore(self.limits.max_running)
        self._active = 0
        # Only a page of this server knows it, so that no other site can send the form (cross-site request forgery).
        self._form_key = secrets.token_urlsafe(16)
        routes = [
            Route("/", self._get_page, methods=["GET"]),
            Route("/", self._post_page, methods=["POST"]),
            Route("/check", self._post_check, methods=["POST"]),
            Route("/health", self._get_health, methods=["GET"]),
        ]
        self.app = Guard(
            Starlette(routes=routes, exception_handlers={HTTPException: refuse}),
            shell or Shell(),
            max_body_bytes=self.limits.max_body_bytes,
            policy="frame-ancestors 'none'",
            asks_password=True,
        )

    async def _get_page(self, request: Request) -> Response:
        return HTMLResponse(self._page())

    async def _post_page(self, request: Request) -> Response:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        values = {name: clean_text(entries[0]) for name, entries in form.items()}
        if not hmac.compare_digest(values.get("key", "").encode(), self._form_key.encode()):
            return HTMLResponse(self._page(values, problem="This form is out of date: send it again."), 403)
        try:
            checker, answer = self._checked_request(
                CheckRequest(
                    text=values.get("text", "").replace("\r\n", "\n"),
                    documents=values.get("documents"),
                    question=values.get("question", ""),
                )
            )
            checked = await self._check(checker, answer)
        except HTTPException as error:
            return HTMLResponse(self._page(values, problem=error.detail), error.status_code)
        return HTMLResponse(self._page(values, page_values([checked], checker)))

    async def _post_check(self, request: Request) -> Response:
        # A page of another site cannot send this type without asking first, which is never answered.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "The body must be of type application/json.")
        checker, answer = self._checked_request(await read_model(request, CheckRequest))
        return JSONResponse(to_dict([await self._check(checker, answer)], checker))

    async def _get_health(self, request: Request) -> Response:
        documents = {
            label: {
                "documents": len(checker.documents.documents),
                "fingerprint": checker.documents.library.corpus.fingerprint(),
            }
            for label, checker in self._checkers.items()
        }
        agent = next(iter(self._checkers.values())).agent_name
        server = f"factgym {factgym.__version__}"
        return JSONResponse(
            {"status": "ok", "server": server, "agent": agent, "documents": documents, "limits": asdict(self.limits)}
        )

    def _checked_request(self, request: CheckRequest) -> tuple[Checker, Answer]:
        """Return checker and answer of a request. Raises HTTPException with status 422."""
        label = request.documents
        if label is None and len(self._checkers) == 1:
            (label,) = self._checkers
        if label not in self._checkers:
            hint = did_you_mean(label, self._checkers) if label else ""
            raise HTTPException(
                422, f"documents: there is no {label!r:.80}.{hint} There are: {', '.join(self._checkers)}."
            )
        limit = self.limits.max_text_chars
        if len(request.text) > limit:
            raise HTTPException(422, f"text: {len(request.text):,} characters; the limit is {limit:,}.")
        if len(request.question) > MAX_CLAIM_CHARS:
            raise HTTPException(422, f"question: more than {MAX_CLAIM_CHARS:,} characters.")
        try:
            answer = checked_answer(Answer("text", clean_text(request.text), clean_text(request.question)), "text")
        except DataError as error:
            raise HTTPException(422, str(error)) from None
        if (count := len(split_claims(answer.text))) > self.limits.max_claims:
            raise HTTPException(422, f"text: {count} claims; the limit is {self.limits.max_claims}.")
        return self._checkers[label], answer

    async def _check(self, checker: Checker, answer: Answer) -> CheckedAnswer:
        """Check an answer. Raises HTTPException with status 502, 503 or 504."""
        limits = self.limits
        if self._active >= limits.max_running + limits.max_waiting:
            raise HTTPException(503, "Too many texts wait already: try again.", {"Retry-After": "5"})
        self._active += 1
        try:
            async with self._running, asyncio.timeout(limits.max_seconds):
                (checked,) = await self._worker.run(checker.check_async([answer], close=False))
                return checked
        except TimeoutError:
            raise HTTPException(504, f"The check took more than {limits.max_seconds:g} seconds.") from None
        except (RunAbortedError, FactgymError) as error:
            _log.error("a check failed: %s", error)
            raise HTTPException(502, f"The agent failed: {error}"[:500]) from None
        finally:
            self._active -= 1

    def _page(
        self, form: Mapping[str, str] | None = None, result: Mapping[str, Any] | None = None, *, problem: str = ""
    ) -> str:
        from markupsafe import escape

        form = form or {}
        values = {
            "title": "Check a text against documents",
            "by": f"factgym {factgym.__version__}, {next(iter(self._checkers.values())).agent_name}",
            "policy": _POLICY,
            "styles": ("base.css", "check.css"),
            "labels": list(self._checkers),
            "chosen": form.get("documents", ""),
            "question": form.get("question", ""),
            # Escaped here: a text of the form comes back whole, where others are cut.
            "text": escape(form.get("text", "")[: self.limits.max_text_chars]),
            "max_chars": self.limits.max_text_chars,
            "key": self._form_key,
            "problem": problem,
            "result": result,
        }
        return fill_template("check_form.html", values)
