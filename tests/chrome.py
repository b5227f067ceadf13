"""A real headless Chromium for tests, driven over its debugging pipe; nothing but the standard library.

The browser speaks JSON messages that end in NUL on file descriptors 3 (in) and 4 (out). It gets a profile folder of its
own and no network but this machine's.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Self

REBOUND = "rebound.example"
"""A foreign name that leads to this machine."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
_TIMEOUT = 300.0


class NoAnswerError(RuntimeError):
    """The browser refused a command, such as one to a page that is gone."""


def find_chromium() -> str | None:
    """The browser to test with, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Chromium:
    """One browser with one page; a context manager. origin: a server of the test, which pages may ask."""

    origin = "file:/"

    def __init__(self, binary: str, profile: Path) -> None:
        down, self._to = os.pipe()
        self._from, up = os.pipe()

        def wire() -> None:
            high_down, high_up = os.dup(down), os.dup(up)
            while min(high_down, high_up) < 5:
                high_down, high_up = os.dup(high_down), os.dup(high_up)
            os.dup2(high_down, 3)
            os.dup2(high_up, 4)

        command = [binary, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, stdin=quiet, stdout=quiet, stderr=quiet, pass_fds=(3, 4), preexec_fn=wire, start_new_session=True
        )
        os.close(down)
        os.close(up)
        self._watchdog = threading.Timer(_TIMEOUT, self._kill)
        self._watchdog.start()
        self._buffer = b""
        self._last = 0
        self.events: list[dict[str, Any]] = []
        page = next(target for target in self._send("Target.getTargets")["targetInfos"] if target["type"] == "page")
        attached = self._send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    _session: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._watchdog.cancel()
        self._kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command to the page."""
        return self._send(method, **params)

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise NoAnswerError(f"{method}: {answer['error']}")
                return answer.get("result", {})
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._from, 1 << 16)
            if not chunk:
                raise RuntimeError("the browser has gone")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, url: str) -> None:
        """Load a page and wait until all of it has been read."""
        # From one hash of a page to another nothing is loaded, so the way leads over an empty page.
        for step in ("about:blank", url):
            loaded = self._loads()
            self.send("Page.navigate", url=step)
            while self._loads() == loaded:
                self.events.append(self._receive())

    def _loads(self) -> int:
        return sum(event.get("method") == "Page.loadEventFired" for event in self.events)

    def run(self, expression: str) -> Any:
        """The value of an expression in the page, promises awaited."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Ask until the condition holds in a page that has loaded, also while it reloads; the watchdog ends a wait that
        never would."""
        while True:
            with contextlib.suppress(NoAnswerError):  # between two pages there is none to ask
                if self.run(f"document.readyState === 'complete' && Boolean({condition})"):
                    return
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """One key, as a person presses it."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the view in CSS pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """Emulate a preference for "light" or "dark"."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path, full: bool = False) -> Path:
        """Write a PNG of the view, or of the whole page."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full)["data"]
        path.write_bytes(base64.b64decode(data))
        return path

    def complaints(self) -> list[str]:
        """What the browser reported since the start: exceptions, console errors, refused resources, requests made."""
        self.run("0")
        complaints = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                complaints.append(f"exception: {params['exceptionDetails']}"[:500])
            elif method == "Log.entryAdded":
                complaints.append(f"log: {params['entry']['text']}"[:500])
            elif method == "Runtime.consoleAPICalled":
                complaints.append(f"console: {params['args']}"[:500])
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(
                ("file:/", "about:", "data:", self.origin)
            ):
                complaints.append(f"request: {params['request']['url']}"[:500])
        return complaints
