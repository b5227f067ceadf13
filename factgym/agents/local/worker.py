"""The one thread that owns a model: it loads it, renders prompts, picks batches and answers them.

Tokenizers and models are not made for several threads, so nothing else touches them. Requests come from any thread
and any event loop; each has a `concurrent.futures.Future`. A fault answers those that wait for it, and the thread
lives on.
"""

from __future__ import annotations

import atexit
import copy
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from factgym.agents.local.engine import BatchMemoryError, GivenReply, LocalEngine, Row
from factgym.core.errors import FactgymError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import PolicyError

_log = logging.getLogger(__name__)

_EXIT_WAIT = 10.0
"""Seconds that the process waits at its end for a model that was not closed."""

_LENGTH_RATIO, _LENGTH_SLACK = 2, 128
"""Prompts of one batch have at most twice the tokens of the shortest, and this many more."""


@dataclass(slots=True, eq=False)
class Request:
    """A request for one reply, or for the log-probabilities of a given one (`scored`).

    abandoned: the caller is gone; a running row may stop.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSchema]
    seed: int
    scored: GivenReply | None = None
    future: Future[Message] = field(default_factory=Future)
    abandoned: bool = False

    def fail(self, error: FactgymError) -> None:
        """Answer with a copy of the error: requests must not share one exception and its traceback."""
        if not self.future.cancelled() and (self.future.running() or self.future.set_running_or_notify_cancel()):
            self.future.set_exception(copy.copy(error))


_Job = tuple[Request, Row]


def choose_batch(prompts: Sequence[int], replies: Sequence[int], max_rows: int, max_tokens: int) -> list[int]:
    """Indices of the rows to answer next, in their order of arrival: greedy by nearest prompt length.

    The oldest is always among them, so that none starves. The others are those of nearest prompt length, as long as
    the batch keeps its limits and no prompt is much longer than another: padding costs as much as tokens do. prompts,
    replies: tokens of each waiting prompt and the limit of its reply, the oldest first; not empty. max_rows: at least
    1. max_tokens: of the batch with padding; the oldest alone may have more.
    """
    first = prompts[0]
    shortest = longest = first
    reply = replies[0]
    chosen = [0]
    for index in sorted(range(1, len(prompts)), key=lambda index: (abs(prompts[index] - first), index)):
        if len(chosen) >= max_rows:
            break
        low, high = min(shortest, prompts[index]), max(longest, prompts[index])
        longest_reply = max(reply, replies[index])
        if high > _LENGTH_RATIO * low + _LENGTH_SLACK or (len(chosen) + 1) * (high + longest_reply) > max_tokens:
            continue
        shortest, longest, reply = low, high, longest_reply
        chosen.append(index)
    return sorted(chosen)


class Worker:
    """Requests in, replies out. The thread starts with the first request or `wake`."""

    def __init__(
        self, load: Callable[[], LocalEngine], batch_size: int, batch_wait: float, max_batch_tokens: int
    ) -> None:
        self.loaded: Future[None] = Future()
        self.loaded.set_running_or_notify_cancel()  # whoever waits for it must not cancel it for the others
        self._load = load
        self._batch_size, self._batch_wait, self._max_tokens = batch_size, batch_wait, max_batch_tokens
        self._expected = batch_size
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()  # None wakes a thread that is to end
        self._ready: list[_Job] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._fault: FactgymError | None = None
        self._closing = False

    def wake(self) -> None:
        """Start loading, once; does not wait for it."""
        with self._lock:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="factgym-local-model", daemon=True)
                self._thread.start()
                atexit.register(self.close, _EXIT_WAIT)  # native code that still runs at exit would abort the process

    def submit(self, request: Request) -> None:
        """Queue a request; its future has the outcome."""
        self.wake()
        with self._lock:
            fault = _CLOSED if self._closing else self._fault
            if fault is None:
                self._requests.put(request)
        if fault is not None:
            request.fail(fault)

    def close(self, wait: float | None = None) -> None:
        """Stop the thread and wait for it, at most `wait` seconds; unfinished replies become errors. Idempotent."""
        with self._lock:
            self._closing = True
            self._requests.put(None)
        if self._thread is not None:
            self._thread.join(wait)
        atexit.unregister(self.close)

    def _run(self) -> None:
        try:
            engine = self._load()
        except Exception as error:  # noqa: BLE001 - the boundary to the libraries: every request gets the typed error
            fault = _typed(error, "the local model did not load", fatal=True)
            self._refuse_all(fault)
            self.loaded.set_exception(copy.copy(fault))
            return
        self.loaded.set_result(None)
        while batch := self._next_batch(engine):
            self._answer(engine, batch)
        self._refuse_all(_CLOSED)
        engine.close()

    def _refuse_all(self, fault: FactgymError) -> None:
        with self._lock:
            self._fault = fault
        requests: list[Request | None] = [request for request, _ in self._ready]
        while not self._requests.empty():
            requests.append(self._requests.get())
        for request in requests:
            if request is not None:
                request.fail(fault)

    def _next_batch(self, engine: LocalEngine) -> list[_Job]:
        """The jobs to run next; none when the model is being closed.

        A batch is worth starting when as many rows are ready as last time, or the oldest has waited long enough.
        """
        deadline = time.monotonic() + self._batch_wait
        while not self._closing:
            self._ready = [job for job in self._ready if not job[0].future.cancelled()]
            wait = max(deadline - time.monotonic(), 0.0) if len(self._ready) < self._expected else 0.0
            try:
                request = self._requests.get(timeout=wait if self._ready else None)
            except queue.Empty:
                if batch := self._choose():
                    return batch
                continue
            if not self._ready:
                deadline = time.monotonic() + self._batch_wait
            if request is None or request.future.cancelled():
                continue
            try:
                prompt = engine.prepare(request.messages, request.tools, request.scored)
            except Exception as error:  # noqa: BLE001 - the boundary to tokenizers and templates
                request.fail(_typed(error, "the prompt could not be made"))
            else:
                stopped = lambda request=request: request.abandoned or self._closing  # noqa: E731
                self._ready.append((request, Row(prompt, request.seed, stopped)))
        return []

    def _choose(self) -> list[_Job]:
        """Take a batch from the ready jobs, without those that were cancelled meanwhile."""
        prompts = [row.prompt for _, row in self._ready]
        lengths, limits = [len(prompt.ids) for prompt in prompts], [prompt.max_tokens for prompt in prompts]
        chosen = set(choose_batch(lengths, limits, self._batch_size, self._max_tokens))
        # Episodes come back together after a batch: as many rows as were ready now are worth waiting for next time.
        self._expected = min(self._batch_size, len(self._ready))
        batch = [job for index, job in enumerate(self._ready) if index in chosen]
        self._ready = [job for index, job in enumerate(self._ready) if index not in chosen]
        return [job for job in batch if job[0].future.set_running_or_notify_cancel()]

    def _answer(self, engine: LocalEngine, jobs: Sequence[_Job]) -> None:
        """Run a batch; where it does not fit the device it is halved, and later batches are smaller."""
        requests, rows = zip(*jobs, strict=True)
        lengths = [len(row.prompt.ids) for row in rows]
        try:
            replies = engine.generate(rows)
        except BatchMemoryError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - the boundary to the model: whoever waits gets the typed error
            _log.warning("a batch of a local model failed", exc_info=True)
            for request in requests:
                request.fail(_typed(error, "the local model failed"))
            return
        else:
            padding = max(lengths) * len(jobs) - sum(lengths)
            _log.debug("a batch of %d rows, %d prompt tokens and %d of padding", len(jobs), sum(lengths), padding)
            for request, reply in zip(requests, replies, strict=True):
                if self._closing or isinstance(reply, PolicyError):
                    request.fail(_CLOSED if self._closing else reply)
                else:
                    request.future.set_result(reply)
            return
        tokens = max(lengths) + max(row.prompt.max_tokens for row in rows)
        if len(jobs) == 1:
            hint = f"the device has no room for one reply of up to {tokens} tokens: lower max_tokens or context_length"
            requests[0].fail(PolicyError("out_of_memory", f"{hint} ({reason})"))
            return
        _log.info("a batch of %d rows does not fit on the device and is halved", len(jobs))
        half = len(jobs) // 2
        self._max_tokens = min(self._max_tokens, tokens * (len(jobs) - half))
        self._answer(engine, jobs[:half])
        self._answer(engine, jobs[half:])


_CLOSED = PolicyError("closed", "the local model has been closed", fatal=True)


def _typed(error: Exception, context: str, *, fatal: bool = False) -> FactgymError:
    if isinstance(error, FactgymError):
        return error
    return PolicyError("local_model", f"{context}: {type(error).__name__}: {error}"[:2000], fatal=fatal)
