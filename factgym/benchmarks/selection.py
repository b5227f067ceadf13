"""The result of a difficulty filter: its buckets in the layout of CorVer's Table 11, and the histogram behind them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from factgym.agents.difficulty import Buckets, Selection
from factgym.benchmarks.formats import count, percent
from factgym.benchmarks.report import Bar, Note, Part, Section, make_table
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.terminal import render_section

if TYPE_CHECKING:
    from rich.console import Group

_MAX_NAMES = 5


def render_selection(selection: Selection, agent: str, env: str) -> Group:
    """Return the buckets, the histogram, and the questions that lack samples."""
    from rich.console import Group

    band, buckets = selection.band, selection.buckets
    anchors = f", and {count(buckets.anchors, 'anchor')}" if band.anchors else ""
    heading = (
        f"{env}  {count(buckets.pool, 'question')} × {band.samples} samples; "
        f"kept: {band.low} ≤ n_c ≤ {band.upper}{anchors}"
    )
    highest = max(buckets.histogram)
    rows = []
    for right, n in enumerate(buckets.histogram):
        share = n / highest if highest else None
        rows.append((str(right), f"{n:,}", Bar(Estimate(share, None, None, n))))
    title = f"Questions by right samples; {percent(buckets.solved)} of all samples are right"
    parts: tuple[Part, ...] = (
        Note(heading, fine=True),
        make_table("", ("policy", *bucket_columns(band.samples)), [(agent, *bucket_cells(buckets))], name_limit=24),
        make_table(title, ("right", "questions", ""), rows),
        *(Note(note) for note in (*_missing(selection), *selection.notes)),
    )
    return Group(*render_section(Section(env, parts)))


def bucket_columns(samples: int) -> tuple[str, ...]:
    """Return the heads of Table 11."""
    return ("n_c = 0", f"1–{samples - 1}", f"n_c = {samples}", "retained", "keep %")


def bucket_cells(buckets: Buckets) -> tuple[str, ...]:
    """Return the cells below them."""
    counts = (buckets.never, buckets.between, buckets.always, buckets.retained)
    return (*(f"{n:,}" for n in counts), percent(buckets.share))


def _missing(selection: Selection) -> Iterator[str]:
    short = selection.incomplete
    if not short:
        return
    samples = selection.band.samples
    errors = sum(group.errors for group in short)
    absent = sum(samples - group.scored - group.errors - group.unscored for group in short)
    names = ", ".join(group.task for group in short[:_MAX_NAMES]) + (", …" if len(short) > _MAX_NAMES else "")
    yield (
        f"{count(len(short), 'question')} without all {samples} scored samples, in no bucket and not kept: {names}."
        f" Errors: {errors}; not played: {absent}. The same command with --resume plays them again."
    )
