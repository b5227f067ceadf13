"""The queue of a local model: batches, waiting, faults.

The model is a stand-in with threading gates, so that what waits and what runs is exact. No extra is needed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.agents.local.engine import BatchMemoryError, Prompt, Row
from factgym.agents.local.worker import Request, Worker, choose_batch
from factgym.core.errors import ConfigError
from factgym.core.policy import ContextOverflowError, PolicyError

WAIT = 20.0


class FakeEngine:
    """Answers a row by its text in capitals. A text "slow" holds its batch until `gate` is set."""

    def __init__(
        self, max_rows: int = 10_000, fault: Callable[[list[str]], Exception | None] = lambda texts: None
    ) -> None:
        self.max_rows, self.fault = max_rows, fault
        self.batches: list[list[str]] = []
        self.gate, self.running = threading.Event(), threading.Event()
        self.closed = False
        self.stopped_seen: list[bool] = []

    def prepare(self, messages: Sequence[Any], tools: Sequence[Any], scored: Any = None) -> Prompt:
        text = messages[0]["content"]
        if text == "too long":
            raise ContextOverflowError("the prompt does not fit")
        if text == "bad template":
            raise ZeroDivisionError("in a template")
        return Prompt([0] * len(text), 10, notes={"text": text})

    def generate(self, rows: Sequence[Row]) -> list[Any]:
        texts = [row.prompt.notes["text"] for row in rows]
        self.batches.append(texts)
        self.running.set()
        if "slow" in texts:
            while not self.gate.wait(0.005) and not all(row.stopped() for row in rows):
                pass
        self.stopped_seen += [row.stopped() for row in rows]
        if len(rows) > self.max_rows:
            raise BatchMemoryError("CUDA out of memory")
        if error := self.fault(texts):
            raise error
        return [
            {"role": "assistant", "content": text.upper(), "completion": {"usage": {"completion_tokens": len(text)}}}
            for text in texts
        ]

    def close(self) -> None:
        self.closed = True


def worker_of(engine: FakeEngine, size: int = 4, wait: float = 0.0, tokens: int = 10_000) -> Worker:
    return Worker(lambda: engine, size, wait, tokens)


def ask(worker: Worker, text: str) -> Request:
    request = Request([{"role": "user", "content": text}], [], 0)
    worker.submit(request)
    return request


def answer(request: Request) -> str | None:
    return request.future.result(WAIT)["content"]


@given(
    st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 200)), min_size=1, max_size=24),
    st.integers(1, 16),
    st.integers(1, 20_000),
)
def test_a_batch_keeps_its_limits_and_holds_the_oldest(rows: list[tuple[int, int]], size: int, tokens: int) -> None:
    prompts, replies = [row[0] for row in rows], [row[1] for row in rows]
    chosen = choose_batch(prompts, replies, size, tokens)
    assert chosen[0] == 0
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= size
    lengths = [prompts[i] for i in chosen]
    assert len(chosen) == 1 or len(chosen) * (max(lengths) + max(replies[i] for i in chosen)) <= tokens
    assert max(lengths) <= 2 * min(lengths) + 128


def test_a_batch_takes_the_nearest_lengths() -> None:
    assert choose_batch([1000, 5000, 990, 10, 1010, 1400], [100] * 6, 3, 1_000_000) == [0, 2, 4]
    assert choose_batch([10, 5000, 12], [5] * 3, 8, 1_000_000) == [0, 2]


def test_a_batch_takes_every_request_that_fits() -> None:
    assert choose_batch([50] * 20, [10] * 20, 16, 1_000_000) == list(range(16))
    assert len(choose_batch([50] * 20, [10] * 20, 16, 600)) == 10


def test_requests_that_queue_up_are_one_batch() -> None:
    engine = FakeEngine()
    worker = worker_of(engine)
    first = ask(worker, "slow")
    assert engine.running.wait(WAIT)
    rest = [ask(worker, text) for text in "abcdef"]
    engine.gate.set()
    assert [answer(item) for item in [first, *rest]] == ["SLOW", *"ABCDEF"]
    assert engine.batches == [["slow"], ["a", "b", "c", "d"], ["e", "f"]]
    worker.close()


def test_a_batch_that_is_not_full_waits_for_more() -> None:
    engine = FakeEngine()
    worker = worker_of(engine, size=3, wait=WAIT)
    requests = [ask(worker, text) for text in "abc"]
    assert [answer(request) for request in requests] == ["A", "B", "C"]
    assert engine.batches == [["a", "b", "c"]]
    worker.close()


def test_no_request_starves_behind_shorter_ones() -> None:
    """A long prompt never fits with the short ones, which keep coming; it is served when it is the oldest."""
    engine = FakeEngine()
    worker = worker_of(engine, size=2)
    slow = ask(worker, "slow")
    assert engine.running.wait(WAIT)
    short = [ask(worker, f"s{n}") for n in range(3)]
    long = ask(worker, "x" * 900)
    short += [ask(worker, f"t{n}") for n in range(6)]
    engine.gate.set()
    assert answer(long) == "X" * 900
    for item in [slow, *short]:
        answer(item)
    order = [text for batch in engine.batches for text in batch]
    assert order.index("x" * 900) <= 5
    worker.close()


def test_a_cancelled_request_is_never_run() -> None:
    engine = FakeEngine()
    worker = worker_of(engine)

    async def play() -> None:
        first = ask(worker, "slow")
        await asyncio.to_thread(engine.running.wait, WAIT)
        waiting = [ask(worker, text) for text in ("a", "b", "c")]
        tasks = [asyncio.ensure_future(asyncio.wrap_future(item.future)) for item in waiting]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        engine.gate.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(done[1], asyncio.CancelledError)
        assert answer(first) == "SLOW"

    asyncio.run(play())
    worker.close()
    assert engine.batches == [["slow"], ["a", "c"]]


def test_a_running_row_learns_that_nobody_waits() -> None:
    engine = FakeEngine()
    worker = worker_of(engine)
    request = ask(worker, "slow")
    assert engine.running.wait(WAIT)
    request.abandoned = True
    assert answer(request) == "SLOW"
    assert engine.stopped_seen == [True]
    worker.close()


def test_one_model_serves_several_event_loops() -> None:
    engine = FakeEngine()
    worker = worker_of(engine, size=8, wait=0.02)
    result: dict[int, list[Any]] = {}

    def loop(n: int) -> None:
        async def play() -> list[Any]:
            return await asyncio.gather(*[asyncio.wrap_future(ask(worker, f"{n}-{k}").future) for k in range(10)])

        result[n] = asyncio.run(play())

    threads = [threading.Thread(target=loop, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert {n: [reply["content"] for reply in replies] for n, replies in result.items()} == {
        n: [f"{n}-{k}" for k in range(10)] for n in range(3)
    }
    worker.close()


def test_a_batch_that_exceeds_memory_is_halved_and_later_batches_are_smaller() -> None:
    engine = FakeEngine(max_rows=2)
    worker = worker_of(engine, size=8, wait=WAIT)
    requests = [ask(worker, text) for text in "abcdefgh"]
    assert [answer(request) for request in requests] == list("ABCDEFGH")
    assert [len(batch) for batch in engine.batches] == [8, 4, 2, 2, 4, 2, 2]
    engine.batches.clear()
    worker._batch_wait = 0.0
    requests = [ask(worker, text) for text in "abcdefgh"]
    assert [answer(request) for request in requests] == list("ABCDEFGH")
    assert max(len(batch) for batch in engine.batches) <= 2
    worker.close()


def test_a_single_row_that_exceeds_memory_is_an_error() -> None:
    engine = FakeEngine(max_rows=0)
    worker = worker_of(engine)
    with pytest.raises(PolicyError, match="no room for one reply of up to 15 tokens") as caught:
        answer(ask(worker, "hello"))
    assert caught.value.cause == "out_of_memory"
    assert not caught.value.fatal
    engine.max_rows = 4
    assert answer(ask(worker, "hello")) == "HELLO"
    worker.close()


def test_a_fault_reaches_those_that_wait_for_it_and_the_thread_lives_on() -> None:
    engine = FakeEngine(fault=lambda texts: RuntimeError("shapes") if "bad" in texts else None)
    worker = worker_of(engine, size=2, wait=WAIT)
    both = [ask(worker, "bad"), ask(worker, "fine")]
    errors = [error.future.exception(WAIT) for error in both]
    assert all(isinstance(error, PolicyError) and error.cause == "local_model" for error in errors)
    assert "RuntimeError: shapes" in str(errors[0])
    assert errors[0] is not errors[1]
    again = [ask(worker, "ok"), ask(worker, "fine")]
    assert [answer(error) for error in again] == ["OK", "FINE"]
    worker.close()


def test_a_prompt_that_cannot_be_made_fails_alone() -> None:
    engine = FakeEngine()
    worker = worker_of(engine, size=3, wait=WAIT)
    requests = [ask(worker, text) for text in ("too long", "bad template", "fine")]
    worker._batch_wait = 0.0
    assert isinstance(requests[0].future.exception(WAIT), ContextOverflowError)
    fault = requests[1].future.exception(WAIT)
    assert isinstance(fault, PolicyError)
    assert fault.cause == "local_model"
    assert answer(requests[2]) == "FINE"
    worker.close()


def test_a_model_that_does_not_load_answers_everyone_now_and_later() -> None:
    go = threading.Event()

    def load() -> FakeEngine:
        go.wait(WAIT)
        raise ConfigError("there is no model folder 'x'")

    worker = Worker(load, 4, 0.0, 1000)
    early = [ask(worker, "a"), ask(worker, "b")]
    go.set()
    for request in early:
        with pytest.raises(ConfigError, match="no model folder"):
            answer(request)
    with pytest.raises(ConfigError, match="no model folder"):
        worker.loaded.result(WAIT)
    with pytest.raises(ConfigError, match="no model folder"):
        answer(ask(worker, "c"))
    worker.close()


def test_an_error_with_arguments_of_its_own_keeps_them() -> None:
    def load() -> FakeEngine:
        raise PolicyError("out_of_memory", "the model does not fit", fatal=True)

    worker = Worker(load, 4, 0.0, 1000)
    with pytest.raises(PolicyError, match=r"^the model does not fit$") as caught:
        answer(ask(worker, "a"))
    assert (caught.value.cause, caught.value.fatal) == ("out_of_memory", True)
    worker.close()


def test_closing_ends_running_and_waiting_requests() -> None:
    engine = FakeEngine()
    worker = worker_of(engine)
    running = ask(worker, "slow")
    assert engine.running.wait(WAIT)
    waiting = ask(worker, "a")
    worker.close()
    for item in (running, waiting, ask(worker, "later")):
        with pytest.raises(PolicyError, match="closed") as caught:
            answer(item)
        assert caught.value.cause == "closed"
    assert engine.closed
    assert engine.stopped_seen == [True]
    worker.close()


_LEFT_OPEN = """
import sys, threading
from factgym.agents.local.engine import Prompt
from factgym.agents.local.worker import Request, Worker

running = threading.Event()

class Engine:
    def prepare(self, messages, tools, scored):
        return Prompt([0], 1)

    def generate(self, rows):
        running.set()
        while not rows[0].stopped():
            pass
        return [{"completion": {"usage": {"completion_tokens": 0}}}]

    def close(self):
        sys.stdout.write("closed")

worker = Worker(Engine, 1, 0.0, 10)
worker.submit(Request([], [], 0))
running.wait()
"""


def test_an_unclosed_model_is_stopped_at_process_exit() -> None:
    done = subprocess.run([sys.executable, "-c", _LEFT_OPEN], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("closed", "")
