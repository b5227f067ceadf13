"""The one thread that owns a model: it loads it, renders prompts, picks batches and answers them.

Tokenizers and models are not made for several threads, so nothing else touches them. Requests come from any thread
and any event loop; each has a `concurrent.futures.Future`. A fault answers those that wait for it, and the thread
lives on.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from factgym.agents.local.engine import GivenReply, LocalEngine, NoRoomError, Row
from factgym.core.errors import FactgymError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import PolicyError

_log = logging.getLogger(__name__)

_EXIT_WAIT = 10.0
"""Seconds that the process waits at its end for a model that was not closed."""

_LENGTH_RATIO, _LENGTH_SLACK = 2, 128
"""Prompts of one batch have at most twice the tokens of the shortest, and this many more."""


@dataclass(frozen=True, slots=True)
class LocalCounters:
    """Totals since the model was made.

    batches: batches that were answered. rows: their rows. largest_batch: rows of the largest. prompt_tokens and
    completion_tokens: without padding. padding_tokens: padding of the prompts. out_of_memory: batches that did not fit
    and were halved.
    """

    batches: int = 0
    rows: int = 0
    largest_batch: int = 0
    prompt_tokens: int = 0
    padding_tokens: int = 0
    completion_tokens: int = 0
    out_of_memory: int = 0


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


@dataclass(slots=True, eq=False)
class _Job:
    """A request with its row of a batch."""

    request: Request
    row: Row


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
        self.counters = LocalCounters()
        self.loaded: Future[None] = Future()
        self.loaded.set_running_or_notify_cancel()  # whoever waits for it must not cancel it for the others
        self._load = load
        self._batch_size, self._batch_wait, self._max_tokens = batch_size, batch_wait, max_batch_tokens
        self._expected = batch_size
        self._changed = threading.Condition()
        self._arrived: deque[Request] = deque()
        self._ready: list[_Job] = []
        self._thread: threading.Thread | None = None
        self._fault: Callable[[], FactgymError] | None = None
        self._closing = False

    def wake(self) -> None:
        """Start loading, once; does not wait for it."""
        with self._changed:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="factgym-local-model", daemon=True)
                self._thread.start()
                atexit.register(self.close, _EXIT_WAIT)  # native code that still runs at exit would abort the process

    def submit(self, request: Request) -> None:
        """Queue a request; its future has the outcome."""
        self.wake()
        with self._changed:
            if self._closing:
                self._fault = _closed
            if self._fault is not None:
                request.future.set_exception(self._fault())
                return
            self._arrived.append(request)
            self._changed.notify_all()

    def close(self, wait: float | None = None) -> None:
        """Stop the thread and wait for it, at most `wait` seconds; unfinished replies become errors. Idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(wait)
        atexit.unregister(self.close)

    def _run(self) -> None:
        try:
            engine = self._load()
        except Exception as error:  # noqa: BLE001 - the boundary to the libraries: every request gets the typed error
            make = _error_maker(error, "the local model did not load", fatal=True)
            self._refuse_all(make)
            self.loaded.set_exception(make())
            return
        self.loaded.set_result(None)
        while batch := self._next_batch(engine):
            self._answer(engine, batch)
        self._refuse_all(_closed)
        engine.close()

    def _refuse_all(self, make: Callable[[], FactgymError]) -> None:
        with self._changed:
            self._fault = make
            waiting = [*(job.request for job in self._ready), *self._arrived]
            self._ready, self._arrived = [], deque()
        for request in waiting:
            if request.future.set_running_or_notify_cancel():
                request.future.set_exception(make())

    def _next_batch(self, engine: LocalEngine) -> list[_Job]:
        """The jobs to run next; none when the model is being closed."""
        while self._wait_for_requests():
            self._prepare_arrived(engine)
            self._ready = [job for job in self._ready if not job.request.future.cancelled()]
            if not self._ready:
                continue
            lengths = [len(job.row.prompt.ids) for job in self._ready]
            limits = [job.row.prompt.max_tokens for job in self._ready]
            chosen = choose_batch(lengths, limits, self._batch_size, self._max_tokens)
            self._expected = min(self._batch_size, len(self._ready))
            batch = [self._ready[index] for index in chosen]
            self._ready = [job for job in self._ready if job not in batch]
            if running := [job for job in batch if job.request.future.set_running_or_notify_cancel()]:
                return running
        return []

    def _wait_for_requests(self) -> bool:
        """Block until a batch is worth starting: as many rows as last time wait, or the oldest waited long enough."""
        with self._changed:
            while not self._closing and not self._ready and not self._arrived:
                self._changed.wait()
            deadline = time.monotonic() + self._batch_wait
            while not self._closing and self._waiting() < self._expected:
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    break
                self._changed.wait(seconds)
            return not self._closing

    def _waiting(self) -> int:
        requests = [*(job.request for job in self._ready), *self._arrived]
        return sum(not request.future.cancelled() for request in requests)

    def _prepare_arrived(self, engine: LocalEngine) -> None:
        with self._changed:
            arrived, self._arrived = self._arrived, deque()
        for request in arrived:
            if request.future.cancelled():
                continue
            try:
                prompt = engine.prepare(request.messages, request.tools, request.scored)
            except Exception as error:  # noqa: BLE001 - the boundary to tokenizers and templates
                if request.future.set_running_or_notify_cancel():
                    request.future.set_exception(_error_maker(error, "the prompt could not be made")())
            else:
                row = Row(prompt, request.seed, lambda request=request: request.abandoned or self._closing)  # type: ignore[misc]
                self._ready.append(_Job(request, row))

    def _answer(self, engine: LocalEngine, jobs: list[_Job]) -> None:
        """Run a batch; one that does not fit the device is halved, and later batches are smaller."""
        try:
            replies = engine.generate([job.row for job in jobs])
        except NoRoomError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - the boundary to the model: whoever waits gets the typed error
            _log.warning("a batch of a local model failed", exc_info=True)
            make = _error_maker(error, "the local model failed")
            for job in jobs:
                job.request.future.set_exception(make())
            return
        else:
            self._count(jobs, replies)
            for job, reply in zip(jobs, replies, strict=True):
                outcome = _closed() if self._closing else reply
                if isinstance(outcome, FactgymError):
                    job.request.future.set_exception(outcome)
                else:
                    job.request.future.set_result(outcome)
            return
        prompts = [job.row.prompt for job in jobs]
        tokens = max(len(prompt.ids) for prompt in prompts) + max(prompt.max_tokens for prompt in prompts)
        if len(jobs) == 1:
            hint = f"the device has no room for one reply of up to {tokens} tokens: lower max_tokens or context_length"
            jobs[0].request.future.set_exception(PolicyError("out_of_memory", f"{hint} ({reason})"))
            return
        self.counters = replace(self.counters, out_of_memory=self.counters.out_of_memory + 1)
        half = len(jobs) // 2
        self._max_tokens = min(self._max_tokens, tokens * (len(jobs) - half))
        self._answer(engine, jobs[:half])
        self._answer(engine, jobs[half:])

    def _count(self, jobs: Sequence[_Job], replies: Sequence[Message | PolicyError]) -> None:
        lengths = [len(job.row.prompt.ids) for job in jobs]
        written = [reply["completion"]["usage"] for reply in replies if not isinstance(reply, PolicyError)]
        old = self.counters
        self.counters = replace(
            old,
            batches=old.batches + 1,
            rows=old.rows + len(jobs),
            largest_batch=max(old.largest_batch, len(jobs)),
            prompt_tokens=old.prompt_tokens + sum(lengths),
            padding_tokens=old.padding_tokens + max(lengths) * len(jobs) - sum(lengths),
            completion_tokens=old.completion_tokens + sum(usage["completion_tokens"] for usage in written),
        )


def _closed() -> FactgymError:
    return PolicyError("closed", "the local model has been closed", fatal=True)


def _error_maker(error: Exception, context: str, *, fatal: bool = False) -> Callable[[], FactgymError]:
    """Makes a copy of the error for each one that waits: they must not share one exception and its traceback."""
    if not isinstance(error, FactgymError):
        text = f"{context}: {type(error).__name__}: {error}"[:2000]
        return lambda: PolicyError("local_model", text, fatal=fatal)
    kind, arguments, state = type(error), error.args, dict(vars(error))

    def copy() -> FactgymError:
        made = kind.__new__(kind)
        made.args = arguments
        vars(made).update(state)
        return made

    return copy
