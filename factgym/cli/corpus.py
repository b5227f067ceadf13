"""`factgym corpus index|count|info`: build a co-occurrence index, count in it, describe it."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factgym.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from factgym.corpora.cooccurrence import Built, Progress
    from factgym.corpora.cooccurrence.sources import Source

REFRESH_SECONDS = 0.25
LOG_SECONDS = 30.0
"""Interval of progress lines without a terminal."""

KERNEL_SECONDS = 1.0
"""Time for the kernels to load, before a message."""

_ENGINE_PREFIX = "infini-gram:"
_MAX_LISTED = 3
_MAX_MESSAGES = 5


class Kind(StrEnum):
    """Kind of index."""

    COOCCURRENCE = "cooccurrence"


class Case(StrEnum):
    """Treatment of capitals."""

    KEEP = "keep"
    FOLD = "fold"


class Form(StrEnum):
    """Format of the files."""

    JSONL = "jsonl"
    TEXT = "text"
    WIKIEXTRACTOR = "wikiextractor"
    MEDIAWIKI = "mediawiki"


class Unit(StrEnum):
    """Document boundaries of plain text."""

    FILE = "file"
    PARAGRAPH = "paragraph"
    LINE = "line"


class Semantics(StrEnum):
    """Semantics of counts."""

    INFINIGRAM = "infini-gram"
    WINDOW = "window"


corpus_app = typer.Typer(
    name="corpus", help="Index a corpus, and count in it.", no_args_is_help=True, pretty_exceptions_enable=False
)

IndexPath = Annotated[str, typer.Argument(metavar="INDEX", help="An index, or infini-gram:FOLDER for one of those.")]


@corpus_app.callback()
def _corpus() -> None:
    """Index a corpus, and count in it."""


@corpus_app.command("index")
def index(
    source: Annotated[
        Path,
        typer.Argument(
            help="A file or folder: JSON lines, text, WikiExtractor's output or a Wikipedia dump (.gz, …)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The index to write.")],
    kind: Annotated[Kind, typer.Option(help="Kind of index.")] = Kind.COOCCURRENCE,
    form: Annotated[Form | None, typer.Option(help="Format of the files; by their names otherwise.")] = None,
    text_key: Annotated[
        str | None, typer.Option(help="Key of the text in JSON lines; default text or contents.")
    ] = None,
    unit: Annotated[Unit, typer.Option(help="Document boundaries of plain text.")] = Unit.FILE,
    case: Annotated[Case, typer.Option(help="Keep capitals, or fold them away.")] = Case.KEEP,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip broken records and count them.")] = False,
    memory_mb: Annotated[
        int, typer.Option(min=1, help="Memory of all workers together, beside Python itself.")
    ] = 1024,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one for each core.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--anew", help="Resume an interrupted build, or begin anew.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing index.")] = False,
) -> None:
    """Build an index. It appears when it is complete; the same command resumes an interrupted build."""
    from rich.console import Console

    from factgym.corpora.cooccurrence import build_index
    from factgym.corpora.cooccurrence.engine import wait_for_kernels
    from factgym.corpora.cooccurrence.sources import open_source

    if out.exists() and not force:
        raise ConfigError(f"{out} exists: name another file, or replace it with --force")
    console = Console(markup=False, highlight=False, soft_wrap=True, stderr=True)
    corpus = open_source(source, form=form and form.value, text_key=text_key, unit=unit.value, skip_bad=skip_bad)
    _print_source(console, corpus)
    started = time.monotonic()
    try:
        with _ProgressDisplay(console) as display:
            built = build_index(
                corpus,
                out,
                memory_mb=memory_mb,
                workers=workers,
                case=case.value,
                resume=resume,
                progress=display.show,
            )
    except KeyboardInterrupt:
        console.print("Stopped. The same command resumes.")
        raise typer.Exit(130) from None
    _print_built(built, time.monotonic() - started)
    if not wait_for_kernels(KERNEL_SECONDS):
        console.print("numba compiles the code that counts, once after an installation: some seconds more")


@corpus_app.command("count")
def count(
    index: IndexPath,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words that must occur together.")],
    semantics: Annotated[Semantics, typer.Option(help="Semantics of the count.")] = Semantics.INFINIGRAM,
    window: Annotated[int, typer.Option(min=1, help="Largest distance, in words.")] = 1000,
    tokenizer: Annotated[
        Path | None, typer.Option(help="infini-gram: only: the tokenizer that its index was made with.")
    ] = None,
) -> None:
    """Count how often words occur near each other."""
    counter = _open(index, tokenizer, semantics=semantics.value, window=window)
    total = int(counter.count_many([words])[0])
    frequencies = {word: counter.frequency(word) for word in words}
    if len(words) == 1:
        print(f"{total:,}  {words[0]}")
    else:
        print(f"{total:,}  {' AND '.join(words)}, within {window:,} ({semantics.value})")
        for word, frequency in frequencies.items():
            print(f"  {frequency:,}  {word}")
    _print_warnings(counter.describe(), frequencies)


@corpus_app.command("info")
def info(
    index: IndexPath,
    verify: Annotated[bool, typer.Option("--verify", help="Read the whole file and compare its checksums.")] = False,
    tokenizer: Annotated[Path | None, typer.Option(help="As for `count`.")] = None,
) -> None:
    """Describe an index."""
    counter = _open(index, tokenizer, **({"verify": True} if verify else {}))
    path = Path(index.removeprefix(_ENGINE_PREFIX))
    files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    rows = {**counter.describe(), "bytes": size}
    if counter.tokens:
        rows["bytes per token"] = f"{size / counter.tokens:.2f}"
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:{width}}  {f'{value:,}' if isinstance(value, int) else value}")
    if verify:
        print(f"{'checksums':{width}}  hold")


def _open(index: str, tokenizer: Path | None, **options: Any) -> Any:
    from factgym.corpora.cooccurrence import open_counter

    if not index.startswith(_ENGINE_PREFIX):
        if tokenizer is not None:
            raise ConfigError("--tokenizer goes with infini-gram:FOLDER; an index of factgym counts words")
        return open_counter(index, **options, engine="numpy", preload=False)
    if options.pop("verify", False):
        raise ConfigError("--verify reads checksums, which an infini-gram index does not have")
    return open_counter(index, **options, tokenizer=tokenizer)


def _print_warnings(description: dict[str, Any], frequencies: dict[str, int]) -> None:
    unknown = [word for word, frequency in frequencies.items() if not frequency]
    if unknown:
        hint = " (capitals count)" if description.get("case") == "keep" else ""
        print(f"not in this corpus: {', '.join(unknown)}{hint}", file=sys.stderr)
    cap = description.get("max_frequency", 0)
    sampled = [word for word, frequency in frequencies.items() if frequency > cap]
    if sampled and description["kind"] == "infini-gram":
        print(f"sampled by infini-gram, over {cap:,} times: {', '.join(sampled)}; no exact count", file=sys.stderr)


def _print_source(console: Console, corpus: Source) -> None:
    files, parts = len({part.file for part in corpus.parts}), len(corpus.parts)
    size = f"{corpus.bytes / 1e6:,.1f} MB"
    console.print(f"{files:,} file{'s' * (files != 1)}, {size}, in {parts:,} part{'s' * (parts != 1)}")
    if corpus.ignored:
        names = ", ".join(corpus.ignored[:_MAX_LISTED]) + (" …" if len(corpus.ignored) > _MAX_LISTED else "")
        console.print(f"ignored: {len(corpus.ignored):,} ({names})")


def _print_built(built: Built, seconds: float) -> None:
    per_token = f", {built.bytes / built.tokens:.2f} bytes a token" if built.tokens else ""
    rate = f"{built.tokens / max(seconds, 1e-9):,.0f} tokens a second"
    print(f"{built.path}: {built.documents:,} documents, {built.tokens:,} tokens, {built.words:,} words")
    print(f"{built.bytes / 1e6:,.1f} MB{per_token}, {seconds:,.1f} s, {rate}")
    if built.bad:
        print(f"left out: {built.bad:,} broken record{'s' * (built.bad != 1)}", file=sys.stderr)
        for message in built.messages[:_MAX_MESSAGES]:
            print(f"  {message}", file=sys.stderr)


class _ProgressDisplay(AbstractContextManager["_ProgressDisplay"]):
    """Displays the progress of a build from a thread of its own, so that the build never waits for it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._done = threading.Event()
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._display, daemon=True)

    def show(self, progress: Progress) -> None:
        """Set the progress to display."""
        self._progress = progress

    def __enter__(self) -> _ProgressDisplay:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def _line(self) -> str:
        return format_progress(self._progress, time.monotonic() - self._started)

    def _display(self) -> None:
        if not self._console.is_terminal:
            while not self._done.wait(LOG_SECONDS):
                self._console.print(self._line())
            return
        from rich.live import Live
        from rich.text import Text

        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            while not self._done.wait(REFRESH_SECONDS):
                live.update(Text(self._line()), refresh=True)


def format_progress(progress: Progress | None, seconds: float) -> str:
    """`reading 3/12 · 5,120,000 tokens · 8,000 documents · 1,280,000 tokens/s`."""
    if progress is None:
        return f"reading · {seconds:.0f} s"
    stage = {"read": "reading", "merge": "merging", "write": "writing"}[progress.stage]
    total = "" if progress.total is None else f"/{progress.total:,}"
    parts = [f"{stage} {progress.done:,}{total}", f"{progress.tokens:,} tokens", f"{progress.documents:,} documents"]
    if progress.stage == "read" and seconds > 0:
        parts.append(f"{progress.tokens / seconds:,.0f} tokens/s")
    return " · ".join([*parts, f"{seconds:.0f} s"])
