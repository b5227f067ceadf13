"""A reliability plot and a confusion matrix as SVG text that stands alone: in a page, in a file, in a README.

Each carries its colours, for light and dark, and its own ground, so that it reads wherever it is put; a title and a
description that say in words what it shows; and no script, font or link. Foreign text is escaped. Names of styles and
of parts carry a hash of the picture, so that several can share a page.
"""

from __future__ import annotations

import textwrap
import zlib
from collections.abc import Sequence

from factgym.benchmarks.formats import count, decimal, interval, percent
from factgym.benchmarks.page import escape as text
from factgym.benchmarks.statistics.classification import NO_VERDICT, Bin, Confusion, Reliability, accuracy

_LIGHT = {
    "ground": "#ffffff",
    "ink": "#1d2025",
    "muted": "#626873",
    "line": "#e0ddd6",
    "soft": "#f4f2ee",
    "fill": "#5b83bd",
    "good": "#23744b",
    "bad": "#ad3a2c",
}
_DARK = {
    "ground": "#1a1d21",
    "ink": "#e5e6e8",
    "muted": "#99a1ac",
    "line": "#363c44",
    "soft": "#22262b",
    "fill": "#6d97d6",
    "good": "#74c69a",
    "bad": "#f0938a",
}
_FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"

_SIDE = 300.0
"""Of the square in which the reliability plot stands, in its own units (pixels at natural size)."""
_LEFT, _TOP = 62.0, 58.0
_STRIP = 54.0
"""Height of the columns of counts under it."""


def reliability_svg(found: Reliability, title: str = "Reliability", *, mass: bool = False) -> str:
    """Accuracy with its interval against mean confidence, bin by bin, over columns of how many items each bin holds.

    mass: the bins of equal mass instead of those of equal width. Empty bins are left out.
    """
    bins = [one for one in (found.mass_bins if mass else found.bins) if one.n]
    error = found.adaptive_ece if mass else found.ece
    summary = f"{count(found.n, 'item')} · ECE {decimal(error)} · Brier {decimal(found.brier)}"
    description = f"{summary}. " + " ".join(
        f"Confidence {decimal(one.confidence, 2)}: accuracy {decimal(one.accuracy.value, 2)} of {count(one.n, 'item')}."
        for one in bins
    )
    parts = [_heading(title, summary), *_frame(), *(_point(one) for one in bins), *_columns(bins)]
    return _document(_LEFT + _SIDE + 24, _TOP + _SIDE + _STRIP + 66, title, description, parts)


def _frame() -> list[str]:
    parts = [f'<rect class="soft" x="{_LEFT:g}" y="{_TOP:g}" width="{_SIDE:g}" height="{_SIDE:g}"/>']
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _x(tick), _y(tick)
        parts.append(f'<line class="line" x1="{_LEFT:g}" x2="{_LEFT + _SIDE:g}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(f'<line class="line" x1="{x:g}" x2="{x:g}" y1="{_TOP:g}" y2="{_TOP + _SIDE:g}"/>')
        parts.append(_words(_LEFT - 8, y + 4, f"{tick:g}", "muted", "end"))
        parts.append(_words(x, _TOP + _SIDE + _STRIP + 26, f"{tick:g}", "muted", "middle"))
    parts.append(
        f'<line class="ideal" x1="{_x(0):g}" y1="{_y(0):g}" x2="{_x(1):g}" y2="{_y(1):g}"/>'
        + _words(_x(0.5), _TOP + _SIDE + _STRIP + 48, "confidence", "muted", "middle")
        + f'<text class="muted" text-anchor="middle" transform="translate(16 {_y(0.5):g}) rotate(-90)">accuracy</text>'
    )
    return parts


def _point(one: Bin) -> str:
    x, y = _x(one.confidence or 0.0), _y(one.accuracy.value or 0.0)
    low, high = _y(one.accuracy.low or 0.0), _y(1.0 if one.accuracy.high is None else one.accuracy.high)
    caption = (
        f"{count(one.n, 'item')}: confidence {decimal(one.confidence)}, accuracy {decimal(one.accuracy.value)} "
        f"[{decimal(one.accuracy.low)}, {decimal(one.accuracy.high)}]"
    )
    return (
        f"<g><title>{text(caption)}</title>"
        f'<path class="reach" d="M{x - 4:.2f} {high:.2f}h8M{x:.2f} {high:.2f}V{low:.2f}M{x - 4:.2f} {low:.2f}h8"/>'
        f'<circle class="fill dot" cx="{x:.2f}" cy="{y:.2f}" r="5"/></g>'
    )


def _columns(bins: Sequence[Bin]) -> list[str]:
    floor, most = _TOP + _SIDE + _STRIP + 8, max((one.n for one in bins), default=1)
    parts = [f'<line class="axis" x1="{_LEFT:g}" x2="{_LEFT + _SIDE:g}" y1="{floor:g}" y2="{floor:g}"/>']
    for one in bins:
        tall = max(1.0, (_STRIP - 6) * one.n / most)
        left, wide = _x(one.low) + 1, max(2.0, _x(one.high) - _x(one.low) - 2)
        parts.append(
            f'<rect class="fill" x="{left:.2f}" y="{floor - tall:.2f}" width="{wide:.2f}" height="{tall:.2f}">'
            f"<title>{text(count(one.n, 'item'))}</title></rect>"
        )
    if bins:
        parts.append(_words(_LEFT - 8, floor - _STRIP + 16, f"{most:,}", "muted", "end"))
        parts.append(_words(_LEFT - 8, floor - _STRIP + 31, "items" if most > 1 else "item", "muted", "end"))
    return parts


def _x(value: float) -> float:
    return _LEFT + _SIDE * value


def _y(value: float) -> float:
    return _TOP + _SIDE * (1 - value)


_WIDE, _TALL = 104.0, 56.0
_NAME_WIDTH = 148.0
_NAME_LIMIT = 20
_LINE_LIMIT = 15
_TITLE_LIMIT = 90
_TITLE_CHAR = 8.6
"""Pixels for a character of the title: the picture is never narrower than its title."""


def confusion_svg(table: Confusion, title: str = "Confusion matrix") -> str:
    """Gold labels down, predictions across: counts, the share of their row, and a ground as strong as that share."""
    right = accuracy(table)
    summary = f"{count(right.n, 'item')} · accuracy {decimal(right.value)} {interval(right)}"
    parts = [_heading(title, summary)]
    top = 104.0
    parts.append(_words(20, top - 12, "gold \u2193   predicted \u2192", "muted"))
    for j, said in enumerate(table.predictions):
        lines = _two_lines(_name(said, 2 * _LINE_LIMIT))
        parts += [
            _words(_column(j) + _WIDE / 2, top - 12 - 16 * (len(lines) - 1 - i), line, "ink", "middle")
            for i, line in enumerate(lines)
        ]
    sentences = []
    for i, (gold, row) in enumerate(zip(table.golds, table.counts, strict=True)):
        y = top + i * (_TALL + 4)
        parts.append(_words(_NAME_WIDTH + 10, y + _TALL / 2 + 4, _name(gold), "ink", "end"))
        parts += [
            _cell(_column(j), y, n, sum(row), gold == said)
            for j, (said, n) in enumerate(zip(table.predictions, row, strict=True))
        ]
        told = ", ".join(f"{n:,} predicted {_name(said)}" for said, n in zip(table.predictions, row, strict=True))
        sentences.append(f"Gold {_name(gold)}: {told}.")
    high = top + len(table.golds) * (_TALL + 4) + 14
    wide = max(_column(len(table.predictions)) + 16, 320.0)
    return _document(wide, high, title, f"{summary}. {' '.join(sentences)}", parts)


def _column(j: int) -> float:
    return _NAME_WIDTH + 24 + j * (_WIDE + 4)


def _cell(x: float, y: float, n: int, total: int, right: bool) -> str:
    share = n / total if total else None
    kind, middle = ("good" if right else "bad"), x + _WIDE / 2
    shade = 0.45 * (share or 0.0)
    return (
        f'<rect class="soft" x="{x:g}" y="{y:g}" width="{_WIDE:g}" height="{_TALL:g}" rx="6"/>'
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{_WIDE:g}" height="{_TALL:g}" rx="6" opacity="{shade:.3f}"/>'
        + (
            _words(middle, y + 25, f"{n:,}", "strong", "middle")
            + _words(middle, y + 43, percent(share), "ink", "middle")
            if n
            else _words(middle, y + 33, "0", "muted", "middle")
        )
    )


def _name(label: str, limit: int = _NAME_LIMIT) -> str:
    shown = "no prediction" if label == NO_VERDICT else label.replace("_", " ")
    return _cut(shown, limit)


def _cut(words: str, limit: int) -> str:
    return words if len(words) <= limit else words[: limit - 1] + "…"


def _two_lines(name: str) -> list[str]:
    return textwrap.wrap(name, _LINE_LIMIT, max_lines=2, placeholder="…")


def _heading(title: str, summary: str) -> str:
    return _words(20, 26, _cut(title, _TITLE_LIMIT), "strong") + _words(20, 45, summary, "muted")


def _words(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{text(words)}</text>'


def _document(wide: float, high: float, title: str, description: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    wide = max(wide, 40 + _TITLE_CHAR * min(len(title), _TITLE_LIMIT))
    name = f"fg{zlib.crc32((title + body).encode('utf-8', 'surrogatepass')):08x}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{name}" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" '
        f'height="{high:g}" role="img" aria-labelledby="{name}-title {name}-desc">\n'
        f'<title id="{name}-title">{text(title)}</title>\n'
        f'<desc id="{name}-desc">{text(description, 4000)}</desc>\n'
        f"<style>{_style(f'.{name}')}</style>\n"
        f'<rect class="ground" width="{wide:g}" height="{high:g}" rx="10"/>\n{body}\n</svg>\n'
    )


def _style(scope: str) -> str:
    rules = (
        f"{scope} {{ {_colours(_LIGHT)} font: 13px {_FONT}; font-variant-numeric: tabular-nums; }}\n"
        f"@media (prefers-color-scheme: dark) {{ {scope} {{ {_colours(_DARK)} }} }}\n"
    )
    fills = {name: f"fill: var(--{name})" for name in ("ground", "ink", "muted", "soft", "fill", "good", "bad")}
    fills["strong"] = "fill: var(--ink); font-weight: 600; font-size: 15px"
    fills["line"] = "stroke: var(--line)"
    fills["axis"] = "stroke: var(--muted)"
    fills["ideal"] = "stroke: var(--muted); stroke-dasharray: 5 4; stroke-width: 1.5"
    fills["reach"] = "stroke: var(--fill); stroke-width: 1.5; fill: none"
    fills["dot"] = "stroke: var(--ground); stroke-width: 1.5"
    return rules + "".join(f"{scope} .{name} {{ {look}; }}\n" for name, look in fills.items())


def _colours(palette: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in palette.items())
