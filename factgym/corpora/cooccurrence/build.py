"""Building an index: documents of any number, in bounded memory, on several cores, and again from where it stopped.

    build_index(open_source("wiki.jsonl"), "wiki.cooc", memory_mb=2048, workers=4)

Runs and slices (`runs`, `merge`) lie in a folder beside the destination until the index is whole; only then does the
destination appear. A build that was killed is started again with the same arguments: it goes on with what is there, if
the source and the settings are still the same, and from the beginning if they are not.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

import numpy as np

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence.container import Array, open_container, write_container, written
from factgym.corpora.cooccurrence.engine import LARGE, kernel
from factgym.corpora.cooccurrence.files import INDEX
from factgym.corpora.cooccurrence.merge import POSTING_BYTES, SLICE, merge, plan_ranges
from factgym.corpora.cooccurrence.runs import (
    TOKEN_BYTES,
    Done,
    PartedSource,
    Task,
    read_done,
    run_path,
    text_digest,
    work,
)
from factgym.corpora.cooccurrence.store import check_positions, running_from
from factgym.corpora.cooccurrence.tokens import TOKENIZER, Case

MEMORY_MB = 1024
_CHARACTERS = 5
"""Of text per token, about: how long a batch of a plain iterable is."""

T = TypeVar("T")
R = TypeVar("R")


class Progress(NamedTuple):
    """How far a build is."""

    stage: str
    """"read" (tokens are those of finished parts), "merge" (tokens are postings of finished slices) or "write"."""
    done: int
    """Parts or slices that are finished."""
    total: int | None
    """Of how many, where that is known."""
    tokens: int
    documents: int


class Built(NamedTuple):
    """What a build made."""

    path: Path
    tokens: int
    documents: int
    words: int
    bytes: int
    bad: int
    """Records that the source left out."""
    messages: list[str]


def build_index(
    documents: Iterable[tuple[str, str]],
    destination: str | Path,
    *,
    memory_mb: int = MEMORY_MB,
    workers: int | None = None,
    case: Case = "keep",
    resume: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> Built:
    """Write an index of (id, text) documents, in their order, to `destination`.

    documents: a source with `parts` (see `sources.open_source`), which workers read on their own, or any iterable; an
    iterable is read here and only its words are counted in parallel. memory_mb: for all workers together, beside what
    Python itself takes (some 60 MB each). workers: processes; all cores by default. resume: go on with what an
    interrupted build of the same documents and settings left; False starts anew.
    With several workers, a script must guard its start with `if __name__ == "__main__":`, as processes are spawned.
    Raises `ConfigError` for a setting, `DataError` for documents that cannot be read or are too many.
    """
    count = _check(memory_mb, workers, case)
    target = Path(destination)
    if target.is_dir():
        raise ConfigError(f"{target} is a folder: name the file that the index is to become")
    folder = target.with_name(f"{target.name}.building")
    report = progress or (lambda _: None)
    _allow_many_files()
    with _alone(folder, resume), _pool(count) as run:
        plan = _plan(documents, folder, memory_mb, count, case)
        parts = _read(documents, folder, plan, run, report)
        runs = [run_path(folder, part.number, i) for part in parts for i in range(part.runs)]
        tokens, held = sum(part.tokens for part in parts), sum(part.documents for part in parts)
        # Where numba is installed: compiled and cached by the time that the index is opened.
        kernel("auto", tokens >= LARGE)
        ranges = plan_ranges(runs, folder, plan["postings"])
        merged = 0
        for i, postings in enumerate(run(merge, iter(ranges))):
            merged += postings
            report(Progress("merge", i + 1, len(ranges), merged, held))
        report(Progress("write", 0, 1, tokens, held))
        meta = {"case": case, "tokenizer": TOKENIZER, "tokens": tokens, "documents": held, "source": plan["source"]}
        words = _assemble(folder / "index", [each.path for each in ranges], meta)
        (folder / "index").replace(target)
    shutil.rmtree(folder)
    report(Progress("write", 1, 1, tokens, held))
    bad, messages = sum(part.bad for part in parts), [line for part in parts for line in part.messages]
    return Built(target, tokens, held, words, target.stat().st_size, bad, messages[:20])


def _check(memory_mb: int, workers: int | None, case: str) -> int:
    count = workers if workers is not None else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if count < 1:
        raise ConfigError(f"workers is at least 1, not {workers!r}")
    if case not in ("keep", "fold"):
        raise ConfigError(f"case is 'keep' or 'fold', not {case!r}")
    if memory_mb < 16 * count:
        raise ConfigError(f"memory_mb is at least 16 for each of {count} workers, not {memory_mb!r}")
    return count


@contextlib.contextmanager
def _alone(folder: Path, resume: bool) -> Iterator[None]:
    """Make the folder of the build and hold it: a second build of the same destination is refused."""
    if folder.exists() and not resume:
        shutil.rmtree(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be made ({error.strerror}): the index is built there before it is moved to its place"
        ) from None
    with lock:
        if not _locked(lock):
            raise ConfigError(
                f"another process is building there: {folder}. Wait for it, or name another destination."
            )
        for left in folder.glob(".*.partial"):
            left.unlink()
        yield


def _locked(file: TextIO) -> bool:
    try:
        import fcntl
    except ImportError:  # not on this system
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _plan(
    documents: Iterable[tuple[str, str]], folder: Path, memory_mb: int, workers: int, case: str
) -> dict[str, Any]:
    """What the files in the folder depend on. Those of an earlier build that depend on something else are removed."""
    source = documents.fingerprint() if isinstance(documents, PartedSource) else None
    plan = {"source": source, "case": case, "tokenizer": TOKENIZER, "version": 1}
    kept = folder / "plan.json"
    if not kept.is_file() or json.loads(kept.read_text("utf-8")) != plan:
        for old in [*folder.glob("part-*"), *folder.glob("slice-*")]:
            old.unlink()
        with written(kept) as file:
            file.write(json.dumps(plan).encode())
    room = (memory_mb << 20) // workers
    return {**plan, "run_tokens": room // TOKEN_BYTES, "postings": room // POSTING_BYTES}


Runner = Callable[[Callable[[T], R], Iterator[T]], Iterator[R]]


def _allow_many_files() -> None:
    """Every run stays open while runs are merged; where the system permits it, as many as there may be."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _start_worker() -> None:
    """Prepare a worker, and let it leave when the build is killed, so that nothing is written any more."""
    _allow_many_files()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is the builder's to report; a worker just ends
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _pool:  # noqa: N801 - a context manager that reads like a function
    """Runs tasks in order of arrival: in processes, or here when there is one worker."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Callable[[Callable[[Any], Any], Iterator[Any]], Iterator[Any]]:
        if self._workers == 1:
            return map
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(self._workers, spawn, initializer=_start_worker)
        return self._run

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def _run(self, call: Callable[[Any], Any], tasks: Iterator[Any]) -> Iterator[Any]:
        """Results as they come; no more tasks are taken than there are workers, so memory stays bounded."""
        assert self._pool is not None
        waiting: set[Future[Any]] = set()
        try:
            for task in tasks:
                waiting.add(self._pool.submit(call, task))
                if len(waiting) > self._workers:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            for future in waiting:
                yield future.result()
        except BrokenProcessPool:
            raise DataError(
                "a worker of the build was killed, as systems do when memory runs out. Start the build again with less"
                " memory_mb or fewer workers; it goes on from what is finished."
            ) from None


def _read(
    documents: Iterable[tuple[str, str]],
    folder: Path,
    plan: Mapping[str, Any],
    run: Callable[[Callable[[Any], Any], Iterator[Any]], Iterator[Any]],
    report: Callable[[Progress], None],
) -> list[Done]:
    """Every part, in order; those of an earlier build are not read again."""
    found: list[Done] = []
    total = len(documents.parts) if isinstance(documents, PartedSource) else None
    for done in run(_work_or_skip, _tasks(documents, folder, plan)):
        found.append(done)
        tokens, held = sum(part.tokens for part in found), sum(part.documents for part in found)
        check_positions(tokens + held)
        report(Progress("read", len(found), total, tokens, held))
    return sorted(found)


def _work_or_skip(task: Task) -> Done:
    earlier = read_done(task.folder, task.number)
    if earlier and (task.source is not None or earlier.digest == text_digest(task.texts)):
        return earlier
    if earlier or task.source is None:
        _forget(task.folder, task.number)
    return work(task)


def _forget(folder: Path, part: int) -> None:
    """Remove what an earlier build made of other documents."""
    for path in folder.glob(f"part-{part:06d}*"):
        path.unlink(missing_ok=True)


def _tasks(documents: Iterable[tuple[str, str]], folder: Path, plan: Mapping[str, Any]) -> Iterator[Task]:
    case, run_tokens = plan["case"], plan["run_tokens"]
    if isinstance(documents, PartedSource):
        for number, part in enumerate(documents.parts):
            yield Task(number, folder, case, run_tokens, documents, part, ())
        return
    for number, texts in enumerate(_batches(documents, run_tokens * _CHARACTERS)):
        yield Task(number, folder, case, run_tokens, None, None, texts)


def _batches(documents: Iterable[tuple[str, str]], characters: int) -> Iterator[Sequence[str]]:
    texts: list[str] = []
    room = characters
    for _, text in documents:
        texts.append(text)
        room -= len(text) + 1
        if room <= 0:
            yield texts
            texts, room = [], characters
    if texts:
        yield texts


def _assemble(target: Path, slices: Sequence[Path], meta: dict[str, Any]) -> int:
    """Join the slices into the index; the number of its words."""
    opened = [open_container(path, SLICE).arrays for path in slices]

    def each(name: str) -> Iterator[Array]:
        return (arrays[name] for arrays in opened)

    def blocks() -> Iterator[Array]:
        return ((arrays["frequencies"].astype(np.int64) + 63) // 64 for arrays in opened)

    sections: dict[str, Iterable[Array]] = {
        "keys": each("keys"),
        "spelling": each("spelling"),
        "ends": running_from(each("lengths"), first=False),
        "frequencies": each("frequencies"),
        "block_starts": running_from(blocks()),
        "firsts": each("firsts"),
        "offsets": running_from(each("sizes")),
        "data": [*each("data"), np.zeros(1, np.uint32)],
    }
    if sum(len(arrays["data"]) for arrays in opened) >= 2**32:
        raise DataError("the postings of this corpus take more than 16 GiB: split the corpus")
    write_container(target, INDEX, meta, sections)
    return sum(len(arrays["keys"]) for arrays in opened)


__all__ = ["Built", "Progress", "build_index"]
