"""Charts of the pages, as SVG by Matplotlib (the extra `charts`): the same data give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from factgym.benchmarks.formats import count, decimal
from factgym.benchmarks.page import cut, visible
from factgym.benchmarks.statistics.classification import Reliability
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.core.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#2f5b9e", "#ad3a2c", "#23744b", "#8a5a00", "#6b3fa0", "#00707a")
MUTED = "#626873"
_STYLE: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "factgym",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#e7e4de",
    "legend.frameon": False,
    "text.parse_math": False,
}
_POINTS: Mapping[str, Any] = {"fmt": "o", "capsize": 3, "linewidth": 1.2, "markersize": 4}


def label_text(text: str) -> str:
    """Return foreign text as a label: visible and short."""
    return visible(cut(text, 60))


def error_bars(
    axes: Axes, xs: Sequence[float], estimates: Sequence[Estimate], scale: float = 1.0, **style: Any
) -> None:
    """Draw points with their intervals as whiskers; one without an interval, as of one task, has none."""
    rows = [(estimate.value or 0.0, estimate.low, estimate.high) for estimate in estimates]
    below = [0.0 if low is None else max(0.0, scale * (value - low)) for value, low, _ in rows]
    above = [0.0 if high is None else max(0.0, scale * (high - value)) for value, _, high in rows]
    axes.errorbar(xs, [scale * value for value, _, _ in rows], yerr=[below, above], **style)


def reliability_chart(curve: Reliability, title: str = "Calibration") -> str:
    """Accuracy with its interval against mean confidence by bin, without empty bins, beside a histogram of the items."""
    bins = [bin_ for bin_ in curve.bins if bin_.n]
    confidences, accuracies = [bin_.confidence or 0.0 for bin_ in bins], [bin_.accuracy for bin_ in bins]

    def points(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], linestyle="--", color=MUTED, linewidth=1)
        error_bars(axes, confidences, accuracies, color=COLOURS[0], **_POINTS)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")

    def items(axes: Axes) -> None:
        widths = [max(0.004, bin_.high - bin_.low - 0.01) for bin_ in bins]
        axes.bar([bin_.low for bin_ in bins], [bin_.n for bin_ in bins], widths, align="edge", color=COLOURS[0])
        axes.set(xlim=(0, 1), xlabel="confidence", ylabel="items")

    names = f"ECE {decimal(curve.ece)}, Brier {decimal(curve.brier)}", count(curve.n, "item")
    return panel_chart(title, dict(zip(names, (points, items), strict=True)), (8.4, 3.8))


def share_curves(
    curves: Sequence[tuple[str, Sequence[str], Sequence[Estimate]]], title: str, boundaries: Sequence[float] = ()
) -> str:
    """Shares with their intervals by bucket. curves: name, names of the buckets, shares; boundaries: dashed lines."""

    def draw(axes: Axes) -> None:
        for i, (name, _, shares) in enumerate(curves):
            filled = [(j, share) for j, share in enumerate(shares) if share.n]
            shift = 0.1 * (i - (len(curves) - 1) / 2)
            xs = [j + shift for j, _ in filled]
            style = {"color": COLOURS[i % len(COLOURS)], "label": label_text(name), **_POINTS}
            error_bars(axes, xs, [share for _, share in filled], **style)
        for boundary in boundaries:
            axes.axvline(boundary, linestyle="--", color=MUTED, linewidth=1)
        names = curves[0][1] if curves else ()
        axes.set_xticks(range(len(names)), list(names))
        axes.set(ylim=(0, 1), xlabel="count", ylabel="share")
        if curves:
            axes.legend(loc="lower right")

    return panel_chart(title, {"": draw}, (7.6, 4.0))


def panel_chart(
    title: str,
    panels: Mapping[str, Callable[[Axes], None]],
    size: tuple[float, float] = (9.0, 4.2),
    description: str | None = None,
) -> str:
    """Panels by title, side by side, each drawn by its function. Raises MissingExtraError without Matplotlib.

    description: written into the file's metadata.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("a chart", "charts") from None
    with matplotlib.rc_context(dict(_STYLE)):
        figure = Figure(figsize=size, layout="constrained")
        figure.suptitle(label_text(title), x=0.01, ha="left", fontsize=12, fontweight="bold")
        for i, (name, draw) in enumerate(panels.items()):
            axes = figure.add_subplot(1, len(panels), i + 1)
            axes.set_title(label_text(name))
            draw(axes)
        text = io.StringIO()
        metadata = {"Date": None, "Creator": None, "Title": label_text(title), "Description": description}
        figure.savefig(text, format="svg", metadata=metadata)
        return text.getvalue()
