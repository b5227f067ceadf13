"""Small pictures in SVG. Geometry goes into attributes, colours into classes: the page allows no inline styles."""

from __future__ import annotations

from factgym.benchmarks.formats import decimal
from factgym.benchmarks.page import escape as text
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.summary import Histogram

_HIGH = 100.0


def bar(estimate: Estimate, kind: str = "") -> str:
    """A horizontal bar over [0, 1] with its interval as a whisker; values outside are drawn at the nearer end."""
    value = _clip(estimate.value or 0.0)
    parts = ['<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">']
    parts.append('<rect class="track" x="0" y="3.5" width="100" height="3"/>')
    parts.append(f'<rect class="fill {kind}" x="0" y="3.5" width="{100 * value:.2f}" height="3"/>')
    if estimate.low is not None and estimate.high is not None:
        low, high = _clip(estimate.low), _clip(estimate.high)
        wide = max(0.4, 100 * (high - low))
        parts.append(f'<rect class="reach" x="{100 * low:.2f}" y="1" width="{wide:.2f}" height="8"/>')
        at = f"{100 * value:.2f}"
        parts.append(f'<line class="point" x1="{at}" x2="{at}" y1="1" y2="9"/>')
    parts.append("</svg>")
    return "".join(parts)


def reward_histogram(found: Histogram) -> str:
    """Columns of episodes by reward; each is a link that lists its episodes."""
    top = max([1, *found.counts])
    width = (found.high - found.low) / len(found.counts)
    columns = []
    for i, n in enumerate(found.counts):
        low, high = found.low + i * width, found.low + (i + 1) * width
        tall = max(1.5 if n else 0.0, _HIGH * n / top)
        where = f"{decimal(low, 2)} to {decimal(high, 2)}"
        last = i == len(found.counts) - 1
        columns.append(
            f'<a href="#min={low:.6f}&amp;max={high if last else high - 1e-6:.6f}" aria-label="{n} episodes, {where}">'
            f"<title>{n:,} with reward {text(where)}</title>"
            f'<rect class="hit" x="{i * 20}" y="0" width="20" height="{_HIGH:g}"/>'
            f'<rect class="column" x="{i * 20 + 1}" y="{_HIGH - tall:.2f}" width="18" height="{tall:.2f}"/></a>'
        )
    size = 20 * len(found.counts)
    return (
        f'<svg class="histogram" viewBox="0 0 {size} {_HIGH:g}" preserveAspectRatio="none" role="group" '
        f'aria-label="Histogram of rewards">{"".join(columns)}</svg>'
        f'<div class="axis"><span>{decimal(found.low, 1)}</span><span>{decimal((found.low + found.high) / 2, 1)}</span>'
        f"<span>{decimal(found.high, 1)}</span></div>"
    )


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
