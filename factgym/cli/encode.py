"""`factgym corpus encode|push`: the vectors of a corpus on disk, and in PostgreSQL."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from factgym.cli.display import Display
from factgym.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from factgym.corpora.approximate import Measured
    from factgym.corpora.encode import EncodeProgress
    from factgym.corpora.store import StoredCorpus

EncoderOption = Annotated[
    str | None, typer.Option(help="A model's name or folder; e5, qwen3 or plain for their models. Default e5.")
]
PresetOption = Annotated[
    Literal["e5", "plain", "qwen3"] | None, typer.Option(help="The encoder's prompts and pooling; default by its name.")
]


def encode(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A folder that `corpus build` wrote.")],
    encoder: EncoderOption = None,
    preset: PresetOption = None,
    late: Annotated[
        bool, typer.Option("--late", help='A vector for each token, for index="late"; the encoder is a ColBERT model.')
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Passages in a batch of the encoder.")] = 32,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda …, or several: cuda:0,cuda:1. Default the best.")
    ] = None,
    approximate: Annotated[
        Literal["sq8", "ivf", "hnsw", "ivf-pq"] | None, typer.Option(help="Build this index over the vectors, too.")
    ] = None,
    recall: Annotated[float, typer.Option(min=0.01, max=1, help="Recall@10 that the index is tuned to.")] = 0.95,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Encode and build the index on a Ray cluster: HOST:PORT, auto or local."),
    ] = None,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Build ivf or ivf-pq on this machine's GPUs by FAISS (extra gpu).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the vectors, or the approximate index.")] = False,
) -> None:
    """Encode a corpus for `index="dense"` or "late". The same command resumes an interrupted encoding."""
    from rich.console import Console

    from factgym.agents.cluster.encoding import encoding_on_ray
    from factgym.corpora.dense import Encoder, resolve_encoder
    from factgym.corpora.encode import encode_corpus, is_encoded
    from factgym.corpora.late import LATE, MODEL, LateEncoder
    from factgym.corpora.mapped_files import check_output
    from factgym.corpora.store import StoredCorpus
    from factgym.corpora.stored_dense import APPROXIMATE, DENSE, StoredDense, open_vectors

    _check_options(late, preset, approximate, device, ray, gpu)
    stored = StoredCorpus(corpus)
    layout = LATE if late else DENSE
    arguments: Any = (encoder or MODEL, None) if late else resolve_encoder(encoder or "e5", preset)
    # With an approximate index, --force replaces that, and the vectors only where they are of another encoder.
    replace = force and approximate is None
    current = not replace and is_encoded(stored, *arguments)
    if current and approximate is None:
        print(f"{open_vectors(stored, layout).path} has the vectors of this encoder already")
        return
    if approximate is not None:
        check_output(corpus / APPROXIMATE, replace=force)
    console = Console(markup=False, highlight=False, soft_wrap=True, stderr=True)
    try:
        with _EncodeDisplay(console, corpus) as display, ExitStack() as cluster:
            options: Any = {"device": device, "batch_size": batch_size}
            model = LateEncoder.shared(arguments[0], **options) if late else Encoder.shared(*arguments, **options)
            blocks = None if ray is None or current else cluster.enter_context(encoding_on_ray(ray, model))
            display.started = time.monotonic()
            folder = encode_corpus(stored, model, blocks=blocks, replace=force and not current, progress=display.watch)
        if not current:
            seconds = time.monotonic() - display.started
            rows = folder.records[layout.file].bytes // (2 * folder.meta["dimension"])
            print(f"{folder.path}: {rows:,} vectors of {folder.meta['dimension']} dimensions, half precision")
            of = f", preset {model.preset.name}" if isinstance(model, Encoder) else f", {len(stored):,} passages"
            print(f"{folder.bytes / 1e6:,.1f} MB, {seconds:,.1f} s; encoder {model.source}{of}")
        if not isinstance(model, Encoder):
            return
        dense = StoredDense(stored, model, exact=True)
        if approximate is None:
            _explain_exact(stored, dense, str(model.source))
        else:
            _build_approximate(console, dense, approximate, recall, force, ray, gpu)
    except KeyboardInterrupt:
        console.print("Stopped. The same command resumes.")
        raise typer.Exit(130) from None


def _check_options(
    late: bool, preset: str | None, approximate: str | None, device: str | None, ray: str | None, gpu: bool
) -> None:
    from factgym.corpora.approximate import check_gpu

    if ray is not None and device is not None:
        raise ConfigError(
            "--device chooses devices of this machine, and a cluster's workers take their own: leave it out"
        )
    if late and (preset is not None or approximate is not None):
        raise ConfigError("--late has neither a preset nor an approximate index: leave out --preset and --approximate")
    if gpu:
        if approximate is None or ray is not None:
            raise ConfigError("--gpu builds an approximate index here: give --approximate ivf, and no --ray")
        check_gpu(approximate)


def _explain_exact(corpus: StoredCorpus, dense: Any, encoder: str) -> None:
    """Say what exact search costs where the corpus is so large that an approximate index may be wanted."""
    from factgym.corpora.approximate import EXACT_UP_TO, measure_exact, sample_queries

    if len(corpus) > EXACT_UP_TO:
        _, measured = measure_exact(dense, sample_queries(dense), time.perf_counter)
        print(
            f"exact search takes {measured.milliseconds:,.0f} ms a query here and reads {measured.bytes / 1e6:,.0f} MB; if that "
            f"is too much: factgym corpus encode {corpus.path} --encoder {encoder} --approximate ivf"
        )


def _build_approximate(
    console: Console, dense: Any, kind: str, recall: float, force: bool, ray: str | None, gpu: bool
) -> None:
    from factgym.agents.cluster.encoding import building_on_ray
    from factgym.corpora.approximate import build_approximate

    header = f"{'index':8}{'setting':>14}{'recall@1':>10}{'recall@10':>11}{'ms/query':>10}{'MB':>10}"

    def report(row: Measured) -> None:
        if row.name == "exact":
            print(header)
        name, setting = ("exact", "") if row.name == "exact" else (kind, row.name)
        numbers = f"{row.recall_1:10.3f}{row.recall:11.3f}{row.milliseconds:10.2f}{row.bytes / 1e6:10,.1f}"
        print(f"{name:8}{setting:>14}{numbers}", flush=True)

    started = time.monotonic()
    with ExitStack() as stack:
        cluster = None if ray is None else stack.enter_context(building_on_ray(ray))
        options: Any = {"recall": recall, "replace": force, "report": report, "progress": console.print, "gpu": gpu}
        best = build_approximate(dense, kind, clock=time.perf_counter, cluster=cluster, **options)
    seconds = time.monotonic() - started
    reached = f"recall@10 {best.recall:.3f}" + (
        "" if best.recall >= recall else f", below {recall:g}: another kind may reach it"
    )
    print(
        f"stored: {kind} {best.name}".rstrip()
        + f' ({reached}), {seconds:,.1f} s. index="dense" uses it; exact=True does not'
    )


class _EncodeDisplay(Display):
    """The progress of encoding a corpus; prints the estimate once."""

    def __init__(self, console: Console, corpus: Path) -> None:
        super().__init__(console, "")
        self._corpus, self._estimated = corpus, False

    def watch(self, progress: EncodeProgress) -> None:
        super().watch(progress)
        if not self._estimated:
            self._estimated = True
            needed = 2 * progress.dimension * progress.total * progress.rows // progress.done
            free = shutil.disk_usage(self._corpus).free
            self._console.print(
                f"{progress.total:,} passages ({progress.resumed:,} encoded earlier), {progress.dimension} dimensions: "
                f"{needed / 1e6:,.1f} MB on disk ({free / 1e6:,.0f} MB free), about {self._remaining():,.0f} s more"
            )

    def _remaining(self) -> float:
        progress = self.progress
        seconds = time.monotonic() - self.started
        return float(seconds / max(progress.done - progress.resumed, 1) * (progress.total - progress.done))

    def line(self) -> str:
        if self.progress is None:
            return f"loading the encoder, first passages · {time.monotonic() - self.started:.0f} s"
        return f"encoding {self.progress.done:,}/{self.progress.total:,} passages · {self._remaining():,.0f} s left"


def push(
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", help="A corpus on disk, or a file or folder of passages.")
    ],
    url: Annotated[
        str, typer.Argument(metavar="URL", help="postgresql://USER@HOST:PORT/DATABASE?table=NAME; PGPASSWORD is read.")
    ],
    encoder: EncoderOption = None,
    preset: PresetOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the table where it holds another corpus or encoder.")
    ] = False,
) -> None:
    """Write passages and vectors into PostgreSQL with pgvector. Continues where an earlier push was interrupted."""
    from factgym.corpora.build import read_passages
    from factgym.corpora.dense import shared_encoder
    from factgym.corpora.postgres import parse_address, push_corpus

    parse_address(url)
    passages = read_passages(corpus)

    def report(done: int) -> None:
        print(f"\r{done:,} of {len(passages):,} passages", end="", file=sys.stderr, flush=True)

    model = shared_encoder(encoder or "e5", preset)
    written, present = push_corpus(passages, url, model, replace=force, progress=report)
    print(file=sys.stderr)
    print(f"{url}: {written:,} passages written, {present:,} there already")
