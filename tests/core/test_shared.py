"""What is heavy is built once a process, whatever threads ask for it."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from factgym.core.tasks import Immutable, clear_shared, shared


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    clear_shared()


def test_a_value_is_built_once_while_many_threads_wait_for_it() -> None:
    built: list[object] = []
    start = threading.Barrier(8)
    slow = threading.Event()

    def build() -> object:
        built.append(object())
        slow.wait(0.05)
        return built[-1]

    def ask(_: int) -> object:
        start.wait()
        return shared(("test", "once"), build)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(ask, range(8)))
    assert len(built) == 1
    assert all(value is built[0] for value in results)


def test_different_keys_do_not_wait_for_each_other() -> None:
    inside = threading.Barrier(2, timeout=10)

    def build() -> int:
        return inside.wait()  # passes only when both builds are under way together

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda key: shared(("test", key), build), "ab"))
    assert sorted(results) == [0, 1]


def test_a_build_may_ask_for_other_shared_values() -> None:
    assert shared(("test", "outer"), lambda: shared(("test", "inner"), lambda: 1) + 1) == 2


def test_a_build_that_asks_for_itself_fails_instead_of_hanging() -> None:
    def build() -> int:
        return shared(("test", "circle"), build)

    with pytest.raises(RecursionError):
        shared(("test", "circle"), build)


def test_a_failed_build_leaves_nothing_and_is_tried_again() -> None:
    def broken() -> int:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        shared(("test", "retry"), broken)
    assert shared(("test", "retry"), lambda: 3) == 3


def test_none_is_a_value_too() -> None:
    assert shared(("test", "none"), lambda: None) is None
    assert shared(("test", "none"), lambda: 1) is None


def test_a_value_that_is_cleared_while_it_is_built_is_still_returned() -> None:
    def build() -> str:
        clear_shared()
        return "mine"

    assert shared(("test", "cleared"), build) == "mine"
    clear_shared()
    assert shared(("test", "cleared"), lambda: "new") == "new"


def test_copies_of_shared_objects_are_the_objects() -> None:
    class Heavy(Immutable):
        pass

    value = Heavy()
    assert copy.copy(value) is value
    assert copy.deepcopy({"a": [value]})["a"][0] is value
