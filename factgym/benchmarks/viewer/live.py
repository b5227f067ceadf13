"""A page that follows its runs: a server on 127.0.0.1 that writes the page anew when it is read after a change.

A page of a large run takes seconds to write. After one that took t seconds the next is due t / `_SHARE` seconds later,
and until then readers are told of no change: following a run costs a bounded share of a core, however large it grows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, active_count
from time import monotonic
from typing import Any

from factgym.agents.runs.files import EPISODES, ROLLOUTS
from factgym.core.errors import ConfigError, FactgymError

_WATCHED = (EPISODES, f"{ROLLOUTS}/{EPISODES}", "metrics.jsonl", "result.json")
_SHARE = 0.05
"""Of the time that goes by, how much goes to writing the page."""
_RELOAD_EVERY = 10
"""Seconds after which a browser reads a page without a script again."""
_MAX_THREADS = 100

HeaderCheck = Callable[[Mapping[str, str]], tuple[int, str] | None]


def state_of(runs: Iterable[Path]) -> str:
    """Return a text that changes whenever a file of the runs grows."""
    folders = (run.parent if run.is_file() else run for run in runs)
    files = (path for folder in folders for name in _WATCHED if (path := folder / name).is_file())
    return " ".join(f"{path.stat().st_size}" for path in files)


class PageServer(ThreadingHTTPServer):
    """A server of one page on this machine.

    write: writes the page and returns its path. state: changes with its sources. reloads: the browser reads the page
    again by itself. refusal: status and reason for a request that is refused, by its headers. clock: seconds. Raises
    ConfigError for a port that is taken, and what `write` raises for the first page.
    """

    def __init__(
        self,
        write: Callable[[], Path],
        state: Callable[[], str],
        port: int,
        reloads: bool,
        refusal: HeaderCheck,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.reloads, self.refusal = reloads, refusal
        self._write, self._state, self._clock, self._lock = write, state, clock, Lock()
        self._write_page()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise ConfigError(f"port {port} cannot be opened ({error.strerror}): choose another with --port") from None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a new thread, and hang up while there are too many."""
        if active_count() > _MAX_THREADS:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def _write_page(self) -> None:
        written, started = self._state(), self._clock()
        self.page = self._write()
        self._written, ended = written, self._clock()
        self._due = ended + (ended - started) / _SHARE

    @property
    def version(self) -> str:
        """The state of the sources that the next reader of the page gets."""
        return self._written if self._clock() < self._due else self._state()

    def refresh(self) -> None:
        """Write the page if its sources have changed since and it is due."""
        with self._lock:
            if self.version != self._written:
                self._write_page()


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 30.0  # seconds for a client that sends or reads nothing

    def do_GET(self) -> None:
        with suppress(ConnectionError):  # a reader that has closed the page
            self._answer()

    def _answer(self) -> None:
        if refused := self.server.refusal({name.lower(): value for name, value in self.headers.items()}):
            self.send_error(refused[0])
        elif self.path == "/version":
            self._send_text(self.server.version)
        elif self.path in ("/", f"/{self.server.page.name}"):
            try:
                self.server.refresh()
            except FactgymError as error:
                self._send_text(f"The page cannot be written: {error}", 503)
            else:
                self._send_file(self.server.page)
        elif (beside := self.server.page.parent / self.path[1:]).name == self.path[1:] and beside.is_file():
            self._send_file(beside)
        else:
            self.send_error(404)

    def _send_text(self, text: str, status: int = 200) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_file(self, path: Path) -> None:
        with path.open("rb") as file:  # of this version, whatever is written meanwhile
            size = file.seek(0, 2)
            file.seek(0)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=us-ascii")
            self.send_header("Content-Length", str(size))
            self.send_header("Cache-Control", "no-store")
            if self.server.reloads:
                self.send_header("Refresh", str(_RELOAD_EVERY))
            self.end_headers()
            shutil.copyfileobj(file, self.wfile)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for the address."""
