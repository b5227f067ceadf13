"""`factgym corpus build|index|count|calibrate|info`: a corpus or a co-occurrence index, and counts in it."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from factgym.cli.display import Display
from factgym.cli.encode import encode, push
from factgym.cli.options import CountSemantics, CountTokenizer, CountWindow, IndexSettings, KeyValues, parse_settings
from factgym.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from factgym.corpora.cooccurrence import Progress
    from factgym.corpora.estimates import Estimate

KERNEL_SECONDS = 1.0
"""Time for the kernels to load, before a message."""

_ENGINE_PREFIX = "infini-gram:"
_MAX_LISTED = 3
_MAX_MESSAGES = 5

corpus_app = typer.Typer(
    name="corpus",
    help="Build a corpus for search, index one for counts, and count in it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

corpus_app.command("encode")(encode)
corpus_app.command("push")(push)

CorpusPath = Annotated[
    Path, typer.Argument(metavar="CORPUS", help="A corpus on disk, or a file or folder of passages.")
]
IndexPath = Annotated[
    str, typer.Argument(metavar="INDEX", help="An index, a folder of them (summed), or infini-gram:FOLDER.")
]


@corpus_app.command("build")
def build(
    source: Annotated[
        Path,
        typer.Argument(
            help="Passages (JSON lines, JSON, CSV, TSV; .gz …), a Wikipedia dump (.xml.bz2), or texts (Markdown, text, "
            "HTML, PDF, DOCX, CSV, XLSX)."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    layout: Annotated[
        Literal["auto", "web-pages", "flashrag", "squad", "contexts", "title-text", "mediawiki", "folder"],
        typer.Option(help="Layout of the passages; by their columns otherwise."),
    ] = "auto",
    words: Annotated[int | None, typer.Option(min=1, help="Cut texts into passages of so many words.")] = None,
    sentences: Annotated[int | None, typer.Option(min=1, help="Cut texts into passages of so many sentences.")] = None,
    overlap: Annotated[
        int, typer.Option(min=0, help="Words or sentences that a passage shares with the one before.")
    ] = 0,
    k1: Annotated[float, typer.Option("--k1", help="BM25's k1.")] = 1.5,
    b: Annotated[float, typer.Option("--b", help="BM25's b.")] = 0.75,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip broken records and files, and count them.")
    ] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; default one a core.")] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Split and count on a Ray cluster: HOST:PORT, auto or local.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing corpus.")] = False,
    read_seconds: Annotated[float, typer.Option(min=0, help="Deadline for reading a folder of texts.")] = 7200.0,
    read_memory_mb: Annotated[int, typer.Option(min=1, help="Memory for reading hostile documents.")] = 4096,
) -> None:
    """Build a corpus with a BM25 index, for `corpus=FOLDER`. It appears when it is complete; the same command resumes an
    interrupted build."""
    from rich.console import Console

    from factgym.agents.cluster.encoding import building_on_ray
    from factgym.corpora.build import BUILD_CHARS, Split, build_corpus, source_files
    from factgym.corpora.cooccurrence.engine import core_count
    from factgym.corpora.cooccurrence.sources import BadRecords
    from factgym.corpora.estimates import estimate_build
    from factgym.corpora.extraction import ReadingBudget
    from factgym.corpora.http_client import printable
    from factgym.corpora.mapped_files import check_output
    from factgym.corpora.store_writer import building_folder

    check_output(out, replace=force)
    if words is not None and sentences is not None:
        raise ConfigError("passages are cut by --words or by --sentences: leave one of them out")
    if overlap and words is None and sentences is None:
        raise ConfigError("--overlap goes with --words or --sentences")
    split = Split("words", words, overlap) if words else Split("sentences", sentences, overlap) if sentences else None
    console = Console(markup=False, highlight=False, soft_wrap=True, stderr=True)
    workers = jobs or core_count()
    estimate = estimate_build(source_files(source, layout), workers)
    free = shutil.disk_usage(next(folder for folder in out.absolute().parents if folder.exists())).free
    console.print(format_estimate(estimate, free, workers))
    if estimate.disk + estimate.building > free:
        console.print("The disk may be too small: make room, or name a folder on another one. Building all the same.")
    started, bad = time.monotonic(), BadRecords()
    try:
        with ExitStack() as cluster, _CorpusDisplay(console, "") as display:
            display.text = estimate.text
            options: dict[str, Any] = {"layout": layout, "k1": k1, "b": b, "skip_bad": skip_bad, "bad": bad}
            options |= {
                "jobs": workers,
                "budget": ReadingBudget(read_seconds, read_memory_mb, BUILD_CHARS),
                "run": None if ray is None else cluster.enter_context(building_on_ray(ray)).run,
            }
            corpus = build_corpus(source, out, split=split, **options, replace=force, progress=display.watch)
    except KeyboardInterrupt:
        is_kept = building_folder(out).exists()
        console.print("Stopped. The same command resumes." if is_kept else "Stopped. Nothing was written.")
        raise typer.Exit(130) from None
    except DataError as error:
        if not building_folder(out).exists():
            raise
        raise DataError(
            f"{error} Finished parts are in {building_folder(out)}: the same command, also with --skip-bad, resumes."
        ) from None
    seconds = time.monotonic() - started
    index = corpus.meta["bm25"]
    print(f"{out}: {len(corpus):,} passages, {index['terms']:,} terms, {index['postings']:,} postings")
    print(
        f"{corpus.folder.bytes / 1e6:,.1f} MB, {seconds:,.1f} s, {len(corpus) / max(seconds, 1e-9):,.0f} passages a second"
    )
    _print_bad(bad.count, bad.messages)
    if others := corpus.meta.get("not_read_count"):
        names = ", ".join(map(printable, corpus.meta["not_read"][:10]))
        print(f"{others:,} not read (other kinds, hidden, links): {names}{' …' * (others > 10)}", file=sys.stderr)


def format_estimate(estimate: Estimate, free: int, jobs: int) -> str:
    """`2 files, 30.0 MB; about 75.0 MB on disk and 67.5 MB more while it is built (9,000 MB free), …`."""
    files, disk, building = estimate.files, estimate.disk / 1e6, estimate.building / 1e6
    minutes, seconds = divmod(round(estimate.seconds), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds} s"
    return (
        f"{files:,} file{'s' * (files != 1)}, {estimate.bytes / 1e6:,.1f} MB; about {disk:,.1f} MB on disk and "
        f"{building:,.1f} MB more while it is built ({free / 1e6:,.0f} MB free), {estimate.memory / 1e6:,.0f} MB of memory, "
        f"{clock} with {jobs} process{'es' * (jobs != 1)}"
    )


@corpus_app.command("search")
def search(
    corpus: CorpusPath,
    query: Annotated[str, typer.Argument(help="Words to search for.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Hits.")] = 5,
    index: Annotated[
        str, typer.Option(help="bm25, dense, hybrid, rerank, late, multi-hop, or the URL of a server.")
    ] = "bm25",
    settings: IndexSettings = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each hit, with the whole text.")] = False,
) -> None:
    """Search a corpus: rank, score, id, title and the beginning of each passage."""
    from factgym.benchmarks.formats import printable
    from factgym.corpora.build import read_passages
    from factgym.corpora.index import build_index

    passages = read_passages(corpus)
    (hits,) = build_index(passages, index, **parse_settings(settings)).search([query], k)
    for rank, hit in enumerate(hits, 1):
        passage = passages.get(hit.id)
        if as_json:
            row = {"rank": rank, "score": hit.score, "id": hit.id, "title": passage.title, "text": passage.text}
            print(json.dumps(row, ensure_ascii=False))
        else:
            print(f"{rank:>3}  {hit.score:8.3f}  {printable(hit.id, 60)}  {printable(passage.title, 60)}")
            print(f"     {printable(passage.text, 160)}")
    if not hits:
        print("no passage has a word of the query", file=sys.stderr)


@corpus_app.command("evaluate")
def evaluate(
    queries: Annotated[
        str,
        typer.Argument(
            help="hotpotqa, 2wikimultihopqa, musique, nq, popqa, squad, scifact, or a folder in BEIR's layout."
        ),
    ],
    indexes: Annotated[list[str] | None, typer.Option("--index", help="May be repeated; default bm25.")] = None,
    path: Annotated[
        Path | None, typer.Option(help="File or folder of the data set; default FACTGYM_DATA.", show_default=False)
    ] = None,
    split: Annotated[str | None, typer.Option(help="Part of the data set.")] = None,
    corpus: Annotated[Path | None, typer.Option(help="Passages to search instead of those of the data set.")] = None,
    cutoffs: Annotated[
        list[int] | None, typer.Option("-k", min=1, max=1000, help="May be repeated; default 2, 5, 10.")
    ] = None,
    n: Annotated[int | None, typer.Option("-n", min=1, help="Only the first queries.")] = None,
    settings: IndexSettings = None,
    out: Annotated[Path | None, typer.Option(help="Write the numbers to this JSON file.")] = None,
) -> None:
    """Measure recall@k, nDCG@10 and MRR of indexes over queries whose relevant passages are known."""
    from factgym.agents.runs.files import atomic_file
    from factgym.benchmarks.retrieval import CUTOFFS, evaluate_index, read_judged
    from factgym.core.config import data_folder
    from factgym.corpora.index import accepted_options, build_index

    judged = read_judged(queries, path or data_folder(), split=split, corpus=corpus)
    chosen = judged.queries[:n]
    left_out = f"; {judged.left_out:,} queries without a relevant passage left out" if judged.left_out else ""
    print(f"{queries}: {len(chosen):,} queries, {len(judged.corpus):,} passages{left_out}")
    options, names = parse_settings(settings), indexes or ["bm25"]
    accepted = {name: accepted_options(name, options) for name in names}
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        # An option goes to the indexes that have it; an option that none has is an error of the first.
        own = {k: v for k, v in options.items() if k in accepted[name] or not any(k in of for of in accepted.values())}
        quality = evaluate_index(build_index(judged.corpus, name, **own), chosen, sorted(set(cutoffs or CUTOFFS)))
        if not results:
            print("  ".join([f"{'index':16}", *(f"{metric:>18}" for metric in quality.metrics), "queries/s"]))
        cells = (
            f"{value.value:.3f} [{value.low or 0:.3f}, {value.high or 1:.3f}]" for value in quality.metrics.values()
        )
        rate = f"{len(chosen) / max(quality.seconds, 1e-9):9,.0f}"
        print("  ".join([f"{name:16}", *(f"{cell:>18}" for cell in cells), rate]), flush=True)
        results[name] = {metric: asdict(value) for metric, value in quality.metrics.items()}
    if out is not None:
        record = {"queries": queries, "n": len(chosen), "passages": judged.corpus.fingerprint(), "indexes": results}
        with atomic_file(out, force=True) as file:
            file.write((json.dumps(record, indent=1) + "\n").encode())


@corpus_app.command("index")
def index(
    source: Annotated[
        Path,
        typer.Argument(help="A file or folder: JSON lines, text, WikiExtractor's output or a Wikipedia dump (.gz, …)."),
    ],
    out: Annotated[Path, typer.Option(help="The index to write.")],
    kind: Annotated[Literal["cooccurrence"], typer.Option(help="Kind of index.")] = "cooccurrence",
    form: Annotated[
        Literal["jsonl", "text", "wikiextractor", "mediawiki"] | None,
        typer.Option(help="Format of the files; by their names otherwise."),
    ] = None,
    text_key: Annotated[
        str | None, typer.Option(help="Key of the text in JSON lines; default text or contents.")
    ] = None,
    unit: Annotated[
        Literal["file", "paragraph", "line"], typer.Option(help="Document boundaries of plain text.")
    ] = "file",
    case: Annotated[Literal["keep", "fold"], typer.Option(help="Keep capitals, or fold them away.")] = "keep",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip broken records and count them.")] = False,
    memory_mb: Annotated[int, typer.Option(min=1, help="Memory of all workers together, beside Python itself.")] = 1024,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one for each core.")] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Read and merge on a Ray cluster: HOST:PORT, auto or local.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume/--anew", help="Resume an interrupted build, or begin anew.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing index.")] = False,
) -> None:
    """Build an index. It appears when it is complete; the same command resumes an interrupted build."""
    from rich.console import Console

    from factgym.agents.cluster.encoding import building_on_ray
    from factgym.corpora.cooccurrence import build_index
    from factgym.corpora.cooccurrence.engine import wait_for_kernels
    from factgym.corpora.cooccurrence.sources import Source

    if out.exists() and not force:
        raise ConfigError(f"{out} exists: name another file, or replace it with --force")
    console = Console(markup=False, highlight=False, soft_wrap=True, stderr=True)
    corpus = Source(
        source if ray is None else source.absolute(), form=form, text_key=text_key, unit=unit, skip_bad=skip_bad
    )
    files, parts = len({part.file for part in corpus.parts}), len(corpus.parts)
    size = f"{corpus.bytes / 1e6:,.1f} MB"
    console.print(f"{files:,} file{'s' * (files != 1)}, {size}, in {parts:,} part{'s' * (parts != 1)}")
    if corpus.ignored:
        names = ", ".join(corpus.ignored[:_MAX_LISTED]) + (" …" if len(corpus.ignored) > _MAX_LISTED else "")
        console.print(f"ignored: {len(corpus.ignored):,} ({names})")
    started = time.monotonic()
    try:
        with ExitStack() as stack, _BuildDisplay(console, "") as display:
            cluster = None if ray is None else stack.enter_context(building_on_ray(ray))
            options: dict[str, Any] = {"memory_mb": memory_mb, "case": case, "resume": resume}
            if cluster is not None:
                options |= {"run": cluster.run}
                workers = workers or cluster.cpus
            built = build_index(corpus, out, workers=workers, progress=display.watch, **options)
    except KeyboardInterrupt:
        console.print("Stopped. The same command resumes.")
        raise typer.Exit(130) from None
    seconds = time.monotonic() - started
    per_token = f", {built.bytes / built.tokens:.2f} bytes a token" if built.tokens else ""
    rate = f"{built.tokens / max(seconds, 1e-9):,.0f} tokens a second"
    print(f"{built.path}: {built.documents:,} documents, {built.tokens:,} tokens, {built.words:,} words")
    print(f"{built.bytes / 1e6:,.1f} MB{per_token}, {seconds:,.1f} s, {rate}")
    _print_bad(built.bad, built.messages)
    if not wait_for_kernels(KERNEL_SECONDS):
        console.print("numba compiles the code that counts, once after an installation: some seconds more")


def _print_bad(count: int, messages: Sequence[str]) -> None:
    if count:
        print(f"left out: {count:,} broken record{'s' * (count != 1)}", file=sys.stderr)
        for message in messages[:_MAX_MESSAGES]:
            print(f"  {message}", file=sys.stderr)


@corpus_app.command("count")
def count(
    index: IndexPath,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words that must occur together.")],
    semantics: CountSemantics = "infini-gram",
    window: CountWindow = 1000,
    tokenizer: CountTokenizer = None,
) -> None:
    """Count how often words occur near each other."""
    counter = _open(index, tokenizer, semantics=semantics, window=window)
    total = int(counter.count_many([words])[0])
    frequencies = {word: counter.frequency(word) for word in words}
    if len(words) == 1:
        print(f"{total:,}  {words[0]}")
    else:
        print(f"{total:,}  {' AND '.join(words)}, within {window:,} ({semantics})")
        for word, frequency in frequencies.items():
            print(f"  {frequency:,}  {word}")
    description = counter.describe()
    unknown = [word for word, frequency in frequencies.items() if not frequency]
    if unknown:
        hint = " (capitals count)" if description.get("case") == "keep" else ""
        print(f"not in this corpus: {', '.join(unknown)}{hint}", file=sys.stderr)
    cap = description.get("max_frequency", 0)
    sampled = [word for word, frequency in frequencies.items() if frequency > cap]
    if sampled and description["kind"] == "infini-gram":
        print(f"sampled by infini-gram, over {cap:,} times: {', '.join(sampled)}; no exact count", file=sys.stderr)


@corpus_app.command("calibrate")
def calibrate(
    index: IndexPath,
    texts: Annotated[Path, typer.Argument(help="Text such as a policy writes; queries are those of its sentences.")],
    against: Annotated[str, typer.Option(help="The reference: another index, or the URL of a count server.")],
    semantics: CountSemantics = "infini-gram",
    window: CountWindow = 1000,
    settings: Annotated[
        KeyValues,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Setting of the reference, such as --set tokenizer=PATH. Repeatable."
        ),
    ] = None,
) -> None:
    """Find the thresholds of CorVer's tiers with which an index agrees most with a reference's tiers."""
    from factgym.corpora.cooccurrence import open_counter
    from factgym.corpora.cooccurrence.sources import Source
    from factgym.rewards.corver import calibration
    from factgym.rewards.corver.extraction import find_extractor

    counter = _open(index, None, semantics=semantics, window=window)
    queries = calibration.text_queries((text for _, text in Source(texts)), find_extractor("rule"))
    reference = open_counter(against, **parse_settings(settings))
    counts, reference_counts = (c.count_many(queries).tolist() if queries else [] for c in (counter, reference))
    result = calibration.calibrate(counts, reference_counts)
    print(f"{len(queries):,} queries; same tier with the published thresholds: {result.before:.1%}")
    print(f"low_count={result.low_count} high_count={result.high_count}: {result.after:.1%}")


@corpus_app.command("info")
def info(
    index: IndexPath,
    verify: Annotated[bool, typer.Option("--verify", help="Read the whole file and compare its checksums.")] = False,
    tokenizer: CountTokenizer = None,
) -> None:
    """Describe an index, or a corpus."""
    from factgym.corpora.store import is_stored_corpus

    if is_stored_corpus(index):
        _describe_corpus(Path(index), verify)
        return
    counter = _open(index, tokenizer, **({"verify": True} if verify else {}))
    path = Path(index.removeprefix(_ENGINE_PREFIX))
    files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    rows = {**counter.describe(), "bytes": size}
    if counter.tokens:
        rows["bytes per token"] = f"{size / counter.tokens:.2f}"
    _print_rows(rows, verify)


def _describe_corpus(path: Path, verify: bool) -> None:
    from factgym.corpora.late import LATE
    from factgym.corpora.store import StoredCorpus
    from factgym.corpora.stored_dense import DENSE, has_vectors, open_approximate, open_vectors

    corpus = StoredCorpus(path)
    folders = [corpus.folder]
    meta = corpus.meta
    rows = {f"bm25 {name.replace('_', ' ')}": value for name, value in meta.pop("bm25").items()}
    for layout in (DENSE, LATE):
        if has_vectors(corpus, layout):
            vectors = open_vectors(corpus, layout)
            folders.append(vectors)
            rows[f"{layout.name} encoder"] = vectors.meta["source"] or vectors.meta["encoder"]
            if "preset" in vectors.meta:
                rows[f"{layout.name} preset"] = vectors.meta["preset"]["name"]
            rows[f"{layout.name} dimension"] = vectors.meta["dimension"]
            if layout is DENSE and (approximate := open_approximate(corpus, vectors)) is not None:
                rows |= {f"approximate {name}": approximate.meta[name] for name in ("factory", "recall@10")}
                folders.append(approximate)
    if verify:
        for folder in folders:
            folder.check_all()
    _print_rows({"kind": "corpus", **meta, **rows, "bytes": sum(folder.bytes for folder in folders)}, verify)


def _print_rows(rows: Mapping[str, Any], verified: bool) -> None:
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:{width}}  {f'{value:,}' if isinstance(value, int) else value}")
    if verified:
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


class _CorpusDisplay(Display):
    """The progress of building a corpus."""

    text: float = 0.0
    """Estimated bytes of its passages."""

    def line(self) -> str:
        seconds = time.monotonic() - self.started
        if self.progress is None:
            return f"reading · {seconds:.0f} s"
        if self.progress.stage == "index":
            return f"merging, step {self.progress.done}/{self.progress.total} · {seconds:.0f} s"
        done = self.progress.done
        share = f"about {self._percent()} % · {done:,} passages · {done / max(seconds, 1e-9):,.0f} passages/s"
        return f"counting · {share} · {seconds:.0f} s"

    def render(self, line: str) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        return Group(ProgressBar(100, self._percent(), width=40), Text(line))

    def _percent(self) -> int:
        """Return the share that is done: counting takes four fifths of the time, merging the rest."""
        if self.progress is None:
            return 0
        if self.progress.stage == "index":
            return 80 + int(20 * self.progress.done / max(self.progress.total, 1))
        return 80 if self.progress.total else min(79, int(80 * self.progress.bytes / max(self.text, 1.0)))


class _BuildDisplay(Display):
    """The progress of a build."""

    def line(self) -> str:
        return format_progress(self.progress, time.monotonic() - self.started)


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
