"""Searches of several threads as one call: of a server, or of an encoder and a pass over all vectors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from factgym.core.errors import ConfigError, FactgymError
from factgym.corpora.index import Hit


class _Search:
    """A caller's search: waiting, then taken into a request, then done."""

    __slots__ = ("error", "is_done", "is_taken", "k", "queries", "results")

    def __init__(self, queries: list[str], k: int) -> None:
        self.queries, self.k = queries, k
        self.is_taken = self.is_done = False
        self.results: list[list[Hit]] = []
        self.error: BaseException | None = None


class Combiner:
    """Combines the searches of threads that wait at the same time into calls of `retrieve(queries, k)`.

    Leader and followers: a thread that finds one of `slots` calls free takes all waiting searches of its `k`, up to
    `max_queries` queries, and makes one call; the threads that they belong to wait for it. No thread and no timer of its
    own. Safe under threads and after a fork.
    """

    def __init__(self, retrieve: Callable[[list[str], int], list[list[Hit]]], slots: int, max_queries: int) -> None:
        self._retrieve, self._max_queries, self._total = retrieve, max_queries, slots
        self._reset()

    def _reset(self) -> None:
        self._process_id, self._slots = os.getpid(), self._total
        self._changed = threading.Condition()
        self._waiting: list[_Search] = []

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the hits of each query. Raises the error of `retrieve`."""
        if self._process_id != os.getpid():  # after a fork the parent's locks may be held for ever
            self._reset()
        starts = range(0, len(queries), self._max_queries)
        return [hits for start in starts for hits in self._run(list(queries[start : start + self._max_queries]), k)]

    def _run(self, queries: list[str], k: int) -> list[list[Hit]]:
        """Return a search's results, maybe of another thread's batch (flat combining, Hendler et al., 2010).

        A thread that gets a slot takes all waiting searches and runs them; the others sleep until theirs is done.
        """
        search = _Search(queries, k)
        with self._changed:
            self._waiting.append(search)
            self._changed.wait_for(lambda: search.is_taken or self._slots > 0)
            batch = [] if search.is_taken else self._take(search)
            if batch:
                self._slots -= 1
            else:
                self._changed.wait_for(lambda: search.is_done)
        if batch:
            try:
                self._send(batch, k)
            finally:
                with self._changed:
                    self._slots += 1
                    for other in batch:
                        other.is_done = True
                    self._changed.notify_all()
        if search.error is not None:
            raise type(search.error)(*search.error.args) from search.error
        return search.results

    def _take(self, search: _Search) -> list[_Search]:
        """Take a search out of those that wait, with the others of its `k` that fit."""
        batch, size = [search], len(search.queries)
        for other in self._waiting:
            if other is not search and other.k == search.k and size + len(other.queries) <= self._max_queries:
                batch.append(other)
                size += len(other.queries)
        for other in batch:
            other.is_taken = True
        self._waiting = [other for other in self._waiting if not other.is_taken]
        return batch

    def _send(self, batch: list[_Search], k: int) -> None:
        """Run a batch and hand out its results or its error; a refusal is tried again search by search."""
        try:
            results = self._retrieve([query for search in batch for query in search.queries], k)
        except ConfigError as error:
            if len(batch) == 1:
                batch[0].error = error
            else:  # the fault of one search is no other's
                for search in batch:
                    self._send([search], k)
        except BaseException as error:
            for search in batch:
                search.error = error
            if not isinstance(error, FactgymError):
                raise
        else:
            start = 0
            for search in batch:
                search.results = results[start : start + len(search.queries)]
                start += len(search.queries)
