"""An infini-gram index over words, written by the package's own indexer: the peer of our measurements and tests.

The indexer is a program, so this lives above the layers that start none.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.corpora.cooccurrence.infinigram import FORMAT, LISTING, MAX_SHORT, VERSION, WORDS
from factgym.corpora.cooccurrence.tokenizer import Case

_BATCH_TOKENS = 1 << 20
_LEAST_PART = 1 << 19
"""Bytes of tokens for each thread of the indexer: it sorts parts that overlap by 100,000 bytes, and repeats what lies in
two overlaps when they are not much longer than that."""
_ERROR_LINE = re.compile(r"memory|error|panicked|wrong|No space", re.I)


def write_infinigram(
    documents: Iterable[Sequence[str]],
    folder: str | Path,
    *,
    case: Case = "keep",
    memory_gb: int = 2,
    threads: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Build an infini-gram index over words from tokenized documents; return its folder.

    folder: must not exist, or be empty. case: "fold" when the tokens are folded, which is then done to queries too.
    memory_gb, threads: what the package's indexer may use, at least 1. progress: gets a line when a stage begins.
    Raises MissingExtraError without the package, ConfigError for a folder with files in it, DataError for a corpus
    without a token and when the indexer fails.
    """
    if find_spec("infini_gram") is None:
        raise MissingExtraError("writing an infini-gram index", "infini-gram")
    target = Path(folder).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target} exists and is not an empty folder: name another one")
    target.mkdir(parents=True, exist_ok=True)
    report = progress or (lambda line: None)
    report("writing tokens")
    words = _write_tokens(documents, target)
    width = _narrow(target, len(words))
    tokens = (target / "tokenized.0").stat().st_size // width - (target / "offset.0").stat().st_size // 8
    if not tokens:
        raise DataError(f"the documents for {target} hold no token")
    (target / WORDS).write_text("".join(f"{word}\n" for word in words), "utf-8", newline="\n")
    listing = {"format": FORMAT, "version": VERSION, "words": len(words), "tokens": tokens, "case": case}
    (target / LISTING).write_text(json.dumps(listing), "utf-8")
    report("sorting suffixes")
    run_indexer(target, width, memory_gb, threads)
    return target


def _write_tokens(documents: Iterable[Sequence[str]], target: Path) -> list[str]:
    """Write 4-byte tokens and each document's first token; return the words in the order of their numbers."""
    ids: dict[str, int] = {}
    separator = np.iinfo("<u4").max
    position = 0
    pending: list[int] = []
    starts: list[int] = []

    def flush() -> None:
        np.array(pending, "<u4").tofile(tokens)
        np.array(starts, "<u8").tofile(offsets)
        pending.clear()
        starts.clear()

    with (target / "tokenized.0").open("wb") as tokens, (target / "offset.0").open("wb") as offsets:
        for document in documents:
            starts.append(position)
            pending.append(int(separator))
            pending.extend([ids.setdefault(token, len(ids)) for token in document])
            position += 1 + len(document)
            if len(pending) > _BATCH_TOKENS:
                flush()
        flush()
    if broken := next((word for word in ids if "\n" in word), None):
        raise ConfigError(f"the token {broken[:40]!r} has a line break in it")
    return list(ids)


def _narrow(target: Path, words: int) -> int:
    """Narrow tokens to 2 bytes where the vocabulary allows it, and turn offsets in tokens into offsets in bytes."""
    width = 2 if words <= MAX_SHORT else 4
    if width == 2:
        _convert(target / "tokenized.0", "<u4", "<u2", 1)
    _convert(target / "offset.0", "<u8", "<u8", width)
    return width


def _convert(file: Path, old: str, new: str, factor: int) -> None:
    """Rewrite a file of numbers block by block. A separator stays all ones: its removed bytes are ones too."""
    beside = file.with_name(file.name + ".new")
    with file.open("rb") as source, beside.open("wb") as target:
        while block := source.read(8 << 20):
            (np.frombuffer(block, old) * np.dtype(old).type(factor)).astype(new).tofile(target)
    beside.replace(file)


def run_indexer(target: Path, width: int, memory_gb: int, threads: int) -> None:
    """Sort the suffixes of `tokenized.0`, whose tokens have `width` bytes, into `table.0`."""
    if min(memory_gb, threads) < 1:
        raise ConfigError(f"memory_gb ({memory_gb}) and threads ({threads}) must be at least 1")
    threads = max(1, min(threads, (target / "tokenized.0").stat().st_size // _LEAST_PART))
    command = [sys.executable, "-m", "infini_gram.indexing", "--data_dir", str(target), "--save_dir", str(target)]
    command += ["--token_dtype", f"u{8 * width}", "--cpus", str(threads), "--mem", str(memory_gb)]
    command += ["--ulimit", str(_open_files())]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode or not (target / "table.0").is_file():
        errors = [line for line in (done.stdout + done.stderr).splitlines() if _ERROR_LINE.search(line)]
        reason = " ".join(errors[-2:])[:300] or "no further message"
        raise DataError(
            f"infini-gram's indexer failed on {target} (exit {done.returncode}): {reason}. For words of more than "
            f"{MAX_SHORT:,} kinds it needs over 32 GiB of memory."
        )


def _open_files() -> int:
    """Return how many files this process may open; the indexer asks for a million, which few machines grant."""
    if os.name != "posix":
        return 1024
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return hard if hard != resource.RLIM_INFINITY else max(soft, 65_536)
