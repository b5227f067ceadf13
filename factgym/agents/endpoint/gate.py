"""The rate at which one server takes requests: a gate that all episodes of an endpoint share, in all worker processes.

Until a server refuses a request for its rate, requests pass as they come. A refusal pauses all of them for as long as
the server asks, and from then on they are sent in order at an even pace. The pace is that of CUBIC's congestion window
(RFC 9438), as in the adaptive mode of the AWS SDKs, but measured: after a refusal it falls to a part of the rate that
the server has really taken, comes back slowly, stays there, and then probes for more.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from factgym.core.processes import HAS_LOCKS, lock, unlock

DECREASE = 0.85
"""After a refusal, the pace as a part of the rate that was taken before it (CUBIC's beta)."""

RECOVERY_SECONDS = 10.0
"""Seconds until the pace is back at that rate (CUBIC's K)."""

_DOUBLING_SECONDS = 2.0
_MAX_INTERVAL = 1.0
"""Seconds between two requests, at most: a slower probe would take minutes to learn that the server is free again."""


_STATE = struct.Struct("9d")
_REFUSALS = struct.Struct("d")
"""The third number of the state."""

_folder: Path | None = None


def share_gates(folder: str | Path) -> None:
    """Let this process share its gates with all others of this machine that name the same folder."""
    global _folder
    _folder = Path(folder)


def gate_of(url: str, max_wait: float) -> RateGate:
    """The gate of a server, shared with other processes where `share_gates` was called and the system has locks."""
    if _folder is None or not HAS_LOCKS:
        return RateGate(max_wait)
    return RateGate(max_wait, file=_folder / hashlib.sha256(url.encode()).hexdigest()[:32])


class RateGate:
    """Paces the requests to one server, within one event loop, and across processes where it has a file.

    max_wait: the longest pause that doubles by itself, in seconds; 0 never paces. clock: seconds, monotonic, and with a
    file the same for all processes of the machine. file: holds the state, which every process reads and writes under
    a lock of the system, so that one that is killed leaves no lock behind. accepted: requests that the server did not
    refuse for its rate, so that a caller sees whether waiting is of use.
    """

    def __init__(
        self, max_wait: float, clock: Callable[[], float] = time.monotonic, file: str | Path | None = None
    ) -> None:
        self.accepted = 0
        self._max_wait = max_wait
        self._recovery = min(RECOVERY_SECONDS, max_wait)
        self._clock = clock
        self._turn = asyncio.Lock()
        self._next = 0.0
        self._paused_until = 0.0
        self._refusals = 0  # pauses so far
        self._since = clock()  # the time from which the accepted requests of this epoch are counted
        self._accepted_before = 0
        self._pause = 0.0
        self._elapsed = 1.0  # seconds of the last epoch, its pause included
        self._reference = 0.0  # requests a second that the server took before the last refusal
        self._path = file
        self._file: FileIO | None = None
        self._state: mmap.mmap | None = None

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._file is not None and self._state is not None:
            self._state.close()
            self._file.close()
            self._file = self._state = None

    def _open(self) -> tuple[FileIO, mmap.mmap]:
        if self._file is None or self._state is None:
            self._file = FileIO(os.open(self._path or "", os.O_RDWR | os.O_CREAT, 0o600), "r+")
            self._file.truncate(_STATE.size)  # zeros where it is new
            self._state = mmap.mmap(self._file.fileno(), _STATE.size)
        return self._file, self._state

    @property
    def _paces(self) -> bool:
        """Whether any process was refused a request; read without the lock, as requests do not wait before."""
        if self._path is None:
            return self._refusals > 0
        return bool(_REFUSALS.unpack_from(self._open()[1], 2 * _REFUSALS.size)[0])

    @contextmanager
    def _shared(self) -> Iterator[None]:
        """The state as all processes have it, to be read and changed."""
        if self._path is None:
            yield
            return
        file, state = self._open()
        lock(file, wait=True)
        try:
            accepted, before, refusals, *times = _STATE.unpack_from(state)
            if any(times):  # not of a new file
                self.accepted, self._accepted_before, self._refusals = int(accepted), int(before), int(refusals)
                self._next, self._paused_until, self._since, self._pause, self._elapsed, self._reference = times
            yield
            counts = self.accepted, self._accepted_before, self._refusals
            times = [self._next, self._paused_until, self._since, self._pause, self._elapsed, self._reference]
            _STATE.pack_into(state, 0, *counts, *times)
        finally:
            unlock(file)

    @property
    def rate(self) -> float | None:
        """Requests a second at which they are sent now; None for no limit."""
        if not self._refusals or not self._recovery:
            return None
        seconds = max(0.0, self._clock() - self._paused_until)
        if self._refusals == 1:  # slow start: the first measurement may be of few requests
            doublings = min(60.0, seconds * RECOVERY_SECONDS / self._recovery / _DOUBLING_SECONDS)
            pace = DECREASE * self._reference * math.exp2(doublings)
        else:
            pace = self._reference * (1 + (1 - DECREASE) * (seconds / self._recovery - 1) ** 3)
        return max(pace, 1 / min(self._max_wait, _MAX_INTERVAL))

    async def wait(self) -> float:
        """Wait until a request may be sent; return the time of sending, which `refused` takes."""
        if not self._paces:
            return self._clock()
        async with self._turn:  # fair: in the order of arrival
            while True:
                with self._shared():
                    now = self._clock()
                    seconds = max(self._paused_until, self._next) - now
                    if seconds <= 0:
                        rate = self.rate
                        self._next = max(now, self._paused_until) + (1 / rate if rate else 0.0)
                        return now
                await asyncio.sleep(seconds)

    def taken(self, sent: float) -> None:
        """Count a request that was not refused. sent: when it was sent."""
        with self._shared():
            self.accepted += 1
            if self._refusals and sent <= self._since:  # in flight at the last refusal: it belongs to the epoch before
                self._accepted_before += 1
                self._reference += 1 / self._elapsed

    def refused(self, sent: float, pause: float) -> None:
        """Pause all requests for at least `pause` seconds. sent: when the refused request was sent."""
        with self._shared():
            self._refuse(sent, pause)

    def _refuse(self, sent: float, pause: float) -> None:
        now, announced = self._clock(), pause
        accepted = self.accepted - self._accepted_before
        # Where nothing was taken since the last pause, that was too short: the next is twice as long.
        pause = max(pause, 0.0 if accepted or not self._refusals else min(2 * self._pause, self._max_wait))
        until = now + pause
        # Requests in flight at a refusal are refused, too: one pause for all of them, and one decrease.
        if self._refusals and sent <= self._since:
            self._paused_until = max(self._paused_until, now + announced)
            return
        self._elapsed = max(until - (self._paused_until if self._refusals else self._since), 1e-3)
        self._reference = max(accepted / self._elapsed, self._reference / 2)
        self._pause = pause
        self._refusals += 1
        self._since, self._accepted_before = now, self.accepted
        self._paused_until = max(self._paused_until, until)
