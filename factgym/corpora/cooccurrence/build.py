"""Building an index: documents of any number, in bounded memory, on several cores, resumable.

    build_index(Source("wiki.jsonl"), "wiki.cooc", memory_mb=2048, workers=4)

Segments and slices (`segments`) lie in a folder beside the destination until the index is complete; only then does the
destination appear. A build that was killed is started again with the same arguments: it reuses the folder if the source
and the settings are unchanged, and starts anew if not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence.building import (
    Run,
    discard_other_plan,
    locked_folder,
    raise_file_limit,
    remove_folder,
    run_tasks,
)
from factgym.corpora.cooccurrence.engine import LARGE_INDEX, core_count, counting_kernels
from factgym.corpora.cooccurrence.postings import block_counts
from factgym.corpora.cooccurrence.segments import (
    POSTING_BYTES,
    SLICE_KIND,
    TOKEN_BYTES,
    PartResult,
    PartTask,
    merge,
    plan_merge,
    read_part,
    segment_path,
)
from factgym.corpora.cooccurrence.sources import Source
from factgym.corpora.cooccurrence.store import INDEX_KIND, Array, check_positions, open_container, write_container
from factgym.corpora.cooccurrence.tokenizer import TOKENIZER, Case

MEMORY_MB = 1024
_TOKEN_CHARS = 5
"""Estimated characters per token, for the size of an iterable's batches."""
_MAX_MESSAGES = 20


class Progress(NamedTuple):
    """Progress of a build."""

    stage: str
    """"read" (tokens are those of finished parts), "merge" (tokens are postings of finished slices) or "write"."""
    done: int
    """Finished parts or slices."""
    total: int | None
    """All parts or slices, if known."""
    tokens: int
    documents: int


class Built(NamedTuple):
    """Summary of a build."""

    path: Path
    tokens: int
    documents: int
    words: int
    bytes: int
    bad: int
    """Records that the source skipped."""
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
    run: Run | None = None,
) -> Built:
    """Write an index of (id, text) documents, in their order, to `destination`.

    documents: a `Source`, whose parts workers read on their own, or any iterable; an
    iterable is read here and only its words are counted in parallel. memory_mb: for all workers together, besides the
    interpreters (some 60 MB each). workers: processes; all cores by default. resume: reuse the results of an
    interrupted build of the same documents and settings; False starts anew. run: reads and merges elsewhere, such as
    `factgym.agents.cluster.encoding`, by as many `workers`, which see sources and destination under the same paths.
    With several workers, a script must guard its start with `if __name__ == "__main__":`, as processes are spawned.
    Raises `ConfigError` for a setting, `DataError` for documents that cannot be read or are too many.
    """
    if workers is None:
        workers = core_count()
    if workers < 1:
        raise ConfigError(f"workers is at least 1, not {workers!r}")
    if case not in ("keep", "fold"):
        raise ConfigError(f"case is 'keep' or 'fold', not {case!r}")
    if memory_mb < 16 * workers:
        raise ConfigError(f"memory_mb is at least 16 for each of {workers} workers, not {memory_mb!r}")
    target = Path(destination).absolute()
    if target.is_dir():
        raise ConfigError(f"{destination} is a folder: name the file that the index is to become")
    folder = target.with_name(f"{target.name}.building")
    report = progress or (lambda _: None)
    raise_file_limit()
    local = run_tasks(workers, "less memory_mb or fewer workers")
    with locked_folder(folder, resume), local if run is None else nullcontext(run) as run_parts:
        source = documents.fingerprint() if isinstance(documents, Source) else None
        discard_other_plan(folder, {"source": source, "case": case, "tokenizer": TOKENIZER, "version": 2})
        worker_memory = (memory_mb << 20) // workers
        part_tasks = _part_tasks(documents, folder, case, worker_memory // TOKEN_BYTES)
        part_count = len(documents.parts) if isinstance(documents, Source) else None
        parts: list[PartResult] = []
        tokens = document_count = 0
        for part in run_parts(read_part, part_tasks):
            parts.append(part)
            tokens, document_count = tokens + part.tokens, document_count + part.documents
            check_positions(tokens + document_count)
            report(Progress("read", len(parts), part_count, tokens, document_count))
        parts.sort()
        # Compiles and caches the kernels, if numba is installed, before the index is opened.
        counting_kernels("auto", tokens >= LARGE_INDEX)
        segments = [segment_path(folder, part.number, i) for part in parts for i in range(part.segments)]
        slices = plan_merge(segments, folder, worker_memory // POSTING_BYTES)
        merged = 0
        for i, postings in enumerate(run_parts(merge, iter(slices))):
            merged += postings
            report(Progress("merge", i + 1, len(slices), merged, document_count))
        report(Progress("write", 0, 1, tokens, document_count))
        meta = {"case": case, "tokenizer": TOKENIZER, "tokens": tokens, "documents": document_count, "source": source}
        words = _write_index(folder / "index", [task.path for task in slices], meta)
        (folder / "index").replace(target)
    remove_folder(folder)
    report(Progress("write", 1, 1, tokens, document_count))
    bad, messages = sum(part.bad for part in parts), [message for part in parts for message in part.messages]
    return Built(Path(destination), tokens, document_count, words, target.stat().st_size, bad, messages[:_MAX_MESSAGES])


def _part_tasks(
    documents: Iterable[tuple[str, str]], folder: Path, case: Case, segment_tokens: int
) -> Iterator[PartTask]:
    """Yield the parts of a source, or batches of an iterable's texts."""
    if isinstance(documents, Source):
        for number, part in enumerate(documents.parts):
            yield PartTask(number, folder, case, segment_tokens, documents, part, ())
        return
    number = chars = 0
    texts: list[str] = []
    for _, text in documents:
        texts.append(text)
        chars += len(text) + 1
        if chars >= segment_tokens * _TOKEN_CHARS:
            yield PartTask(number, folder, case, segment_tokens, None, None, texts)
            number, chars, texts = number + 1, 0, []
    if texts:
        yield PartTask(number, folder, case, segment_tokens, None, None, texts)


def _write_index(target: Path, slices: Sequence[Path], meta: dict[str, Any]) -> int:
    """Concatenate the slices into the index; return the number of its words."""
    opened = [open_container(path, SLICE_KIND).arrays for path in slices]
    columns = {name: [arrays[name] for arrays in opened] for name in opened[0]}
    if sum(map(len, columns["data"])) >= 2**32:
        raise DataError("the postings of this corpus take more than 16 GiB: split the corpus")
    blocks = (block_counts(frequencies.astype(np.int64)) for frequencies in columns["frequencies"])
    zero = np.zeros(1, np.uint32)
    sections: dict[str, Iterable[Array]] = {
        "keys": columns["keys"],
        "spelling": columns["spelling"],
        "ends": _running_sums(columns["lengths"]),
        "frequencies": columns["frequencies"],
        "block_starts": itertools.chain([zero], _running_sums(blocks)),
        "firsts": columns["firsts"],
        "offsets": itertools.chain([zero], _running_sums(columns["sizes"])),
        "data": [*columns["data"], zero],
    }
    write_container(target, INDEX_KIND, meta, sections)
    return sum(map(len, columns["keys"]))


def _running_sums(parts: Iterable[Array]) -> Iterator[Array]:
    """Yield running totals over counts that come in parts."""
    total = 0
    for part in parts:
        sums = np.cumsum(part, dtype=np.int64) + total
        total = int(sums[-1]) if len(sums) else total
        if total >= 2**32:
            raise DataError("this corpus is too large for one index: split it")
        yield sums.astype(np.uint32)
