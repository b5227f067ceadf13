"""The first half of a build: documents become runs, each some millions of tokens inverted in one file.

A source is read in parts (`sources.Source.parts`, or batches of a plain iterable), each by one worker from its start.
When the worker's memory is full it writes a run and goes on; when the part ends it writes how many runs there are.
What is written is never written again: a build that was killed skips finished parts, and in an unfinished one the
documents that its runs already hold.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from factgym.corpora.cooccurrence.container import Opened, open_container, write_container, written
from factgym.corpora.cooccurrence.engine import LARGE, has_numba, scanning
from factgym.corpora.cooccurrence.numbering import number_compiled, number_plainly
from factgym.corpora.cooccurrence.store import Inverted, check_positions, check_words, invert
from factgym.corpora.cooccurrence.tokens import Case

TOKEN_BYTES = 48
"""Memory per token of a run while it is gathered, inverted and written."""

RUN = "cooccurrence-run"


@runtime_checkable
class PartedSource(Protocol):
    """A source whose parts other processes can read on their own."""

    @property
    def parts(self) -> Sequence[Any]:
        """The parts in order."""
        ...

    def read(self, part: Any) -> Iterable[tuple[str, str]]:
        """The documents of one."""
        ...

    def fingerprint(self) -> str:
        """Of the documents and their order."""
        ...


class Task(NamedTuple):
    """One part to read: from a source, or documents that came along."""

    number: int
    folder: Path
    case: Case
    run_tokens: int
    source: PartedSource | None
    part: Any
    texts: Sequence[str]


class Done(NamedTuple):
    """What a part became."""

    number: int
    runs: int
    documents: int
    tokens: int
    bad: int
    messages: list[str]
    digest: int


def run_path(folder: Path, part: int, run: int) -> Path:
    """Where a run lies."""
    return folder / f"part-{part:06d}-run-{run:04d}"


def read_done(folder: Path, part: int) -> Done | None:
    """What an earlier build finished of this part; None where it did not."""
    path = folder / f"part-{part:06d}.json"
    if not path.is_file():
        return None
    return Done(**json.loads(path.read_text("utf-8")))


def work(task: Task) -> Done:
    """Read a part, write its runs, and say what it became."""
    finished = list(_finished_runs(task))
    documents = sum(run.meta["documents"] for run in finished)
    tokens = sum(run.meta["tokens"] for run in finished)
    bad = _Bad()
    texts = itertools.islice(_texts(task, bad), documents, None)
    runs = len(finished)
    for run in _inverted(texts, task):
        _write_run(run_path(task.folder, task.number, runs), run)
        runs, documents = runs + 1, documents + len(run.separators)
        tokens += run.length - len(run.separators)
    done = Done(task.number, runs, documents, tokens, bad.count, bad.messages, text_digest(task.texts))
    with written(task.folder / f"part-{task.number:06d}.json") as file:
        file.write(json.dumps(done._asdict()).encode())
    return done


class _Bad:
    """Counts what a source leaves out, in the form that sources expect."""

    def __init__(self) -> None:
        self.count = 0
        self.messages: list[str] = []

    def add(self, message: str) -> None:
        self.count += 1
        self.messages = [*self.messages, message][:20]


def text_digest(texts: Iterable[str]) -> int:
    """A checksum by which a plain iterable's batches are told apart on resuming."""
    digest = 0
    for text in texts:
        digest = zlib.crc32(text.encode("utf-8", "surrogatepass"), zlib.crc32(b"\0", digest))
    return digest


def _texts(task: Task, bad: _Bad) -> Iterator[str]:
    if task.source is None:
        yield from task.texts
        return
    read: Any = task.source.read
    documents = read(task.part, bad) if hasattr(task.source, "bad") else read(task.part)
    for _, text in documents:
        yield text


def _finished_runs(task: Task) -> Iterator[Opened]:
    for run in itertools.count():
        path = run_path(task.folder, task.number, run)
        if not path.is_file():
            return
        yield open_container(path, RUN)


def _inverted(texts: Iterator[str], task: Task) -> Iterator[Inverted]:
    """Runs of about `run_tokens`, a document never split; shorter ones before and while the kernels are loaded."""
    for run in itertools.count():
        kernels = scanning(worth=run > 0)
        if kernels is None:
            numbered = number_plainly(
                texts, task.case, min(task.run_tokens, LARGE) if has_numba() else task.run_tokens
            )
        else:
            numbered = number_compiled(kernels, texts, task.case, task.run_tokens)
        if not len(numbered.lengths):
            return
        yield invert(numbered)


def _write_run(path: Path, run: Inverted) -> None:
    check_words(run.keys)
    lengths = np.fromiter(map(len, run.words), np.uint32, len(run.words))
    meta = {"documents": len(run.separators), "tokens": run.length - len(run.separators), "length": run.length}
    sections: dict[str, NDArray[Any]] = {
        "keys": run.keys,
        "lengths": lengths,
        "spelling": np.frombuffer(b"".join(run.words), np.uint8),
        "frequencies": run.frequencies.astype(np.uint32),
        "positions": run.positions,
        "separators": run.separators,
    }
    write_container(path, RUN, meta, {name: [array] for name, array in sections.items()})


def runs_digest(paths: Iterable[Path]) -> int:
    """A checksum over runs and their order."""
    digest = 0
    for path in paths:
        says = sorted(open_container(path, RUN).checksums.items())
        digest = zlib.crc32(json.dumps([path.name, says]).encode(), digest)
    return digest


class Run(NamedTuple):
    """A run, mapped, with the position in the corpus at which it begins."""

    base: int
    keys: NDArray[np.uint64]
    lengths: NDArray[np.uint32]
    spelling: NDArray[np.uint8]
    frequencies: NDArray[np.uint32]
    positions: NDArray[np.uint32]
    separators: NDArray[np.uint32]


def open_runs(paths: Iterable[Path]) -> list[Run]:
    """Runs in the order of the corpus; `DataError` when together they hold too much for one index."""
    runs, base = [], 0
    for path in paths:
        meta, arrays, _ = open_container(path, RUN)
        runs.append(Run(base, **arrays))
        base += meta["length"]
    check_positions(base)
    return runs
