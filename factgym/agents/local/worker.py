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
from typing import Protocol

from factgym.agents.local.batching import choose_batch
from factgym.agents.local.counters import LocalCounters
from factgym.agents.local.errors import NoRoomError
from factgym.agents.local.prompt import Prompt
from factgym.agents.local.scoring import GivenReply
from factgym.core.errors import FactgymError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import PolicyError

_log = logging.getLogger(__name__)

_EXIT_WAIT = 10.0
"""Seconds that the process waits at its end for a model that was not closed."""


@dataclass(slots=True, eq=False)
class Request:
    """One reply that is asked for. abandoned: whoever asked has gone; a running row may stop.

    scored: a reply that is given, whose log-probabilities are asked for instead of a reply.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSchema]
    seed: int
    scored: GivenReply | None = None
    future: Future[Message] = field(default_factory=Future)
    abandoned: bool = False


@dataclass(slots=True, eq=False)
class Row:
    """A request with its prompt. stopped(): the reply is no longer wanted."""

    request: Request
    prompt: Prompt
    stopped: Callable[[], bool]

    @property
    def seed(self) -> int:
        """Of the reply's random choices."""
        return self.request.seed


class Engine(Protocol):
    """What the thread runs. `generate` raises NoRoomError when the rows do not fit together."""

    def prepare(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Prompt:
        """The prompt of a request."""
        ...

    def prepare_scored(self, messages: Sequence[Message], tools: Sequence[ToolSchema], scored: GivenReply) -> Prompt:
        """The prompt of a request whose reply is given."""
        ...

    def generate(self, rows: Sequence[Row]) -> list[Message | PolicyError]:
        """One reply for each row, or its fault."""
        ...

    def close(self) -> None:
        """Give back memory."""
        ...


class Worker:
    """Requests in, replies out. The thread starts with the first request or `wake`."""

    def __init__(self, load: Callable[[], Engine], batch_size: int, batch_wait: float, max_batch_tokens: int) -> None:
        self.counters = LocalCounters()
        self.loaded: Future[None] = Future()
        self.loaded.set_running_or_notify_cancel()  # whoever waits for it must not cancel it for the others
        self._load = load
        self._batch_size, self._batch_wait, self._max_tokens = batch_size, batch_wait, max_batch_tokens
        self._expected = batch_size
        self._changed = threading.Condition()
        self._arrived: deque[Request] = deque()
        self._ready: list[Row] = []
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
        """Stop the thread and wait for it, at most `wait` seconds; replies that are not finished become errors.

        May be called again.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(wait)
        atexit.unregister(self.close)

    def _run(self) -> None:
        engine = self._loaded_engine()
        if engine is None:
            return
        while batch := self._next_batch(engine):
            self._answer(engine, batch)
        self._refuse(_closed)
        engine.close()

    def _loaded_engine(self) -> Engine | None:
        try:
            engine = self._load()
        except Exception as fault:  # noqa: BLE001 - the boundary to the libraries: every request gets the typed error
            make = _copies(fault, "the local model did not load", fatal=True)
            self._refuse(make)
            self.loaded.set_exception(make())
            return None
        self.loaded.set_result(None)
        return engine

    def _refuse(self, make: Callable[[], FactgymError]) -> None:
        with self._changed:
            self._fault = make
            left = [*(row.request for row in self._ready), *self._arrived]
            self._ready, self._arrived = [], deque()
        for request in left:
            if request.future.set_running_or_notify_cancel():
                request.future.set_exception(make())

    def _next_batch(self, engine: Engine) -> list[Row]:
        """The rows to answer next; none when the model is being closed."""
        while self._wait_for_requests():
            self._admit(engine)
            self._ready = [row for row in self._ready if not row.request.future.cancelled()]
            if not self._ready:
                continue
            lengths = [len(row.prompt.ids) for row in self._ready]
            replies = [row.prompt.max_tokens for row in self._ready]
            chosen = choose_batch(lengths, replies, self._batch_size, self._max_tokens)
            self._expected = min(self._batch_size, len(self._ready))
            batch = [self._ready[index] for index in chosen]
            self._ready = [row for row in self._ready if row not in batch]
            if running := [row for row in batch if row.request.future.set_running_or_notify_cancel()]:
                return running
        return []

    def _wait_for_requests(self) -> bool:
        """Block until a batch is worth starting: as many rows as last time wait, or the oldest waited long enough."""
        with self._changed:
            while not self._closing and not self._ready and not self._arrived:
                self._changed.wait()
            until = time.monotonic() + self._batch_wait
            while not self._closing and self._waiting() < self._expected:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return not self._closing

    def _waiting(self) -> int:
        requests = [*(row.request for row in self._ready), *self._arrived]
        return sum(not request.future.cancelled() for request in requests)

    def _admit(self, engine: Engine) -> None:
        with self._changed:
            new, self._arrived = self._arrived, deque()
        for request in new:
            if request.future.cancelled():
                continue
            try:
                prompt = _prompt(engine, request)
            except Exception as fault:  # noqa: BLE001 - the boundary to tokenizers and templates
                if request.future.set_running_or_notify_cancel():
                    request.future.set_exception(_copies(fault, "the prompt could not be made")())
            else:
                self._ready.append(Row(request, prompt, lambda one=request: one.abandoned or self._closing))  # type: ignore[misc]

    def _answer(self, engine: Engine, rows: list[Row]) -> None:
        try:
            replies = engine.generate(rows)
        except NoRoomError as fault:
            text = str(fault)
        except Exception as fault:  # noqa: BLE001 - the boundary to the model: whoever waits gets the typed error
            _log.warning("a batch of a local model failed", exc_info=True)
            make = _copies(fault, "the local model failed")
            for row in rows:
                row.request.future.set_exception(make())
            return
        else:
            self._count(rows, replies)
            for row, reply in zip(rows, replies, strict=True):
                _settle(row.request.future, _closed() if self._closing else reply)
            return
        self._halve(engine, rows, text)

    def _halve(self, engine: Engine, rows: list[Row], text: str) -> None:
        if len(rows) == 1:
            need = len(rows[0].prompt.ids) + rows[0].prompt.max_tokens
            say = f"the device has no room for one reply of up to {need} tokens: lower max_tokens or context_length"
            rows[0].request.future.set_exception(PolicyError("out_of_memory", f"{say} ({text})"))
            return
        self.counters = replace(self.counters, out_of_memory=self.counters.out_of_memory + 1)
        half = len(rows) // 2
        tokens = max(len(row.prompt.ids) for row in rows) + max(row.prompt.max_tokens for row in rows)
        self._max_tokens = min(self._max_tokens, tokens * (len(rows) - half))
        self._answer(engine, rows[:half])
        self._answer(engine, rows[half:])

    def _count(self, rows: Sequence[Row], replies: Sequence[Message | PolicyError]) -> None:
        lengths = [len(row.prompt.ids) for row in rows]
        old = self.counters
        self.counters = replace(
            old,
            batches=old.batches + 1,
            rows=old.rows + len(rows),
            largest_batch=max(old.largest_batch, len(rows)),
            prompt_tokens=old.prompt_tokens + sum(lengths),
            padding_tokens=old.padding_tokens + max(lengths) * len(rows) - sum(lengths),
            completion_tokens=old.completion_tokens + sum(map(_completion_tokens, replies)),
        )


def _prompt(engine: Engine, request: Request) -> Prompt:
    if request.scored is not None:
        return engine.prepare_scored(request.messages, request.tools, request.scored)
    return engine.prepare(request.messages, request.tools)


def _settle(future: Future[Message], outcome: Message | FactgymError) -> None:
    if isinstance(outcome, FactgymError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _completion_tokens(reply: Message | PolicyError) -> int:
    return 0 if isinstance(reply, PolicyError) else reply["completion"]["usage"]["completion_tokens"]


def _closed() -> FactgymError:
    return PolicyError("closed", "the local model has been closed", fatal=True)


def _copies(fault: Exception, what: str, *, fatal: bool = False) -> Callable[[], FactgymError]:
    """Makes the error for one of those that wait: they must not share one exception and its traceback."""
    if isinstance(fault, FactgymError):
        kind, arguments, state = type(fault), fault.args, dict(vars(fault))
        return lambda: _again(kind, arguments, state)
    text = f"{what}: {type(fault).__name__}: {fault}"[:2000]
    return lambda: PolicyError("local_model", text, fatal=fatal)


def _again(kind: type[FactgymError], arguments: tuple[object, ...], state: dict[str, object]) -> FactgymError:
    error = kind.__new__(kind)
    error.args = arguments
    vars(error).update(state)
    return error
