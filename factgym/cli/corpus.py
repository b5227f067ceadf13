"""`factgym corpus index|count|info`: an index over a corpus, asked and described."""

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
"""How often a line is printed where there is no terminal to draw on."""

PATIENCE = 1.0
"""Seconds that compiled code may take to load, before a word is said of it."""


class Kind(StrEnum):
    """What is built."""

    COOCCURRENCE = "cooccurrence"


class Case(StrEnum):
    """What becomes of capitals."""

    KEEP = "keep"
    FOLD = "fold"


class Form(StrEnum):
    """What the files hold."""

    JSONL = "jsonl"
    TEXT = "text"
    WIKIEXTRACTOR = "wikiextractor"
    MEDIAWIKI = "mediawiki"


class Unit(StrEnum):
    """What a document of plain text is."""

    FILE = "file"
    PARAGRAPH = "paragraph"
    LINE = "line"


class Semantics(StrEnum):
    """By which rules is counted."""

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
    kind: Annotated[Kind, typer.Option(help="What is built.")] = Kind.COOCCURRENCE,
    form: Annotated[Form | None, typer.Option(help="What the files hold; by their names otherwise.")] = None,
    text_key: Annotated[
        str | None, typer.Option(help="Key of the text in JSON lines; default text or contents.")
    ] = None,
    unit: Annotated[Unit, typer.Option(help="What a document of plain text is.")] = Unit.FILE,
    case: Annotated[Case, typer.Option(help="Keep capitals, or fold them away.")] = Case.KEEP,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave broken records out and count them.")] = False,
    memory_mb: Annotated[
        int, typer.Option(min=1, help="Memory of all workers together, beside Python itself.")
    ] = 1024,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one for each core.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--anew", help="Go on with what an interrupted build left, or begin anew.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace an index that is there.")] = False,
) -> None:
    """Build an index. It appears when it is complete; an interrupted build goes on with the same command."""
    from rich.console import Console

    from factgym.corpora.cooccurrence import build_index
    from factgym.corpora.cooccurrence.engine import wait_for_kernels
    from factgym.corpora.cooccurrence.sources import open_source

    if out.exists() and not force:
        raise ConfigError(f"{out} exists: name another file, or replace it with --force")
    console = Console(markup=False, highlight=False, soft_wrap=True, stderr=True)
    corpus = open_source(source, form=form and form.value, text_key=text_key, unit=unit.value, skip_bad=skip_bad)
    _announce(console, corpus)
    started = time.monotonic()
    try:
        with _Live(console) as live:
            built = build_index(
                corpus, out, memory_mb=memory_mb, workers=workers, case=case.value, resume=resume, progress=live.show
            )
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on where this one was.")
        raise typer.Exit(130) from None
    _tell(built, time.monotonic() - started)
    if not wait_for_kernels(PATIENCE):
        console.print("numba compiles the code that counts, once after an installation: some seconds more")


@corpus_app.command("count")
def count(
    index: IndexPath,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words that must stand together.")],
    semantics: Annotated[Semantics, typer.Option(help="By which rules.")] = Semantics.INFINIGRAM,
    window: Annotated[int, typer.Option(min=1, help="How far apart, in words.")] = 1000,
    tokenizer: Annotated[
        Path | None, typer.Option(help="infini-gram: only: the tokenizer that its index was made with.")
    ] = None,
) -> None:
    """Count how often words stand near each other."""
    counter = _open(index, tokenizer, semantics=semantics.value, window=window)
    found = int(counter.count_many([words])[0])
    frequencies = {word: counter.frequency(word) for word in words}
    if len(words) == 1:
        print(f"{found:,}  {words[0]}")
    else:
        print(f"{found:,}  {' AND '.join(words)}, within {window:,} ({semantics.value})")
        for word, frequency in frequencies.items():
            print(f"  {frequency:,}  {word}")
    _warn(counter, frequencies)


@corpus_app.command("info")
def info(
    index: IndexPath,
    verify: Annotated[bool, typer.Option("--verify", help="Read the whole file and compare its checksums.")] = False,
    tokenizer: Annotated[Path | None, typer.Option(help="As for `count`.")] = None,
) -> None:
    """Say what an index holds."""
    counter = _open(index, tokenizer, **({"verify": True} if verify else {}))
    size = _bytes(Path(index.removeprefix("infini-gram:")))
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

    engine = index.startswith("infini-gram:")
    if tokenizer is not None and not engine:
        raise ConfigError("--tokenizer goes with infini-gram:FOLDER; an index of factgym counts words")
    if engine and options.pop("verify", False):
        raise ConfigError("--verify reads checksums, which an infini-gram index does not have")
    return open_counter(
        index, **options, **({"tokenizer": tokenizer} if engine else {"engine": "numpy", "preload": False})
    )


def _warn(counter: Any, frequencies: dict[str, int]) -> None:
    unknown = [word for word, frequency in frequencies.items() if not frequency]
    if unknown:
        says = "" if counter.describe().get("case") != "keep" else " (capitals count)"
        print(f"not in this corpus: {', '.join(unknown)}{says}", file=sys.stderr)
    cap = counter.describe().get("max_frequency", 0)
    over = [word for word, frequency in frequencies.items() if frequency > cap]
    if over and counter.describe()["kind"] == "infini-gram":
        print(f"sampled by infini-gram, over {cap:,} times: {', '.join(over)}; no exact count", file=sys.stderr)


def _bytes(path: Path) -> int:
    return (
        path.stat().st_size if path.is_file() else sum(one.stat().st_size for one in path.iterdir() if one.is_file())
    )


def _announce(console: Console, corpus: Source) -> None:
    files = len({part.file for part in corpus.parts})
    console.print(
        f"{files:,} file{'s' * (files != 1)}, {corpus.bytes / 1e6:,.1f} MB, in {len(corpus.parts):,} part{'s' * (len(corpus.parts) != 1)}"
    )
    if corpus.ignored:
        some = ", ".join(corpus.ignored[:3]) + (" …" if len(corpus.ignored) > 3 else "")
        console.print(f"passed over: {len(corpus.ignored):,} ({some})")


def _tell(built: Built, seconds: float) -> None:
    per_token = f", {built.bytes / built.tokens:.2f} bytes a token" if built.tokens else ""
    print(f"{built.path}: {built.documents:,} documents, {built.tokens:,} tokens, {built.words:,} words")
    print(
        f"{built.bytes / 1e6:,.1f} MB{per_token}, {seconds:,.1f} s, {built.tokens / max(seconds, 1e-9):,.0f} tokens a second"
    )
    if built.bad:
        print(f"left out: {built.bad:,} broken record{'s' * (built.bad != 1)}", file=sys.stderr)
        for message in built.messages[:5]:
            print(f"  {message}", file=sys.stderr)


class _Live(AbstractContextManager["_Live"]):
    """Draws how far a build is. A thread of its own does it; the build never waits for it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: Progress | None = None
        self._over = threading.Event()
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def show(self, progress: Progress) -> None:
        """What is drawn from now on."""
        self._last = progress

    def __enter__(self) -> _Live:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _draw(self) -> None:
        if not self._console.is_terminal:
            while not self._over.wait(LOG_SECONDS):
                self._console.print(status(self._last, time.monotonic() - self._started))
            return
        from rich.live import Live
        from rich.text import Text

        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            while not self._over.wait(REFRESH_SECONDS):
                live.update(Text(status(self._last, time.monotonic() - self._started)), refresh=True)


def status(progress: Progress | None, seconds: float) -> str:
    """`reading 3/12 · 5,120,000 tokens · 8,000 documents · 1,280,000 tokens/s`."""
    if progress is None:
        return f"reading · {seconds:.0f} s"
    what = {"read": "reading", "merge": "merging", "write": "writing"}[progress.stage]
    total = "" if progress.total is None else f"/{progress.total:,}"
    parts = [f"{what} {progress.done:,}{total}", f"{progress.tokens:,} tokens", f"{progress.documents:,} documents"]
    if progress.stage == "read" and seconds > 0:
        parts.append(f"{progress.tokens / seconds:,.0f} tokens/s")
    return " · ".join([*parts, f"{seconds:.0f} s"])
