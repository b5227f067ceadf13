"""The specialisation chart: the change of each benchmark's macro-F1 against the seed, round by round, arm beside arm.

One SVG that stands alone, readable on light and dark grounds, with a description in words. The paper's Figures 3 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from factgym.benchmarks.page import escape as text
from factgym.training.seva.rounds import Round, Rounds
from factgym.training.seva.rounds_table import short_name

_PANEL, _GAP, _LEFT, _NAMES = 190, 118, 58, 84
_TOP, _TALL, _UNDER = 92, 250, 70
_LINE = 15
"""Least distance of two names, in pixels."""
_COLOURS = (
    ("#2f5b9e", "#7fa8e8"),
    ("#ad3a2c", "#f0938a"),
    ("#23744b", "#74c69a"),
    ("#8a5a00", "#e0b050"),
    ("#6b3fa0", "#b794f0"),
    ("#00707a", "#5cc4cf"),
)
"""On light and on dark; the next benchmark begins anew with a dashed line."""
_RULES = (
    ("", "font:13px ui-sans-serif,system-ui,'Segoe UI','Helvetica Neue',Arial,sans-serif"),
    (" .ink", "fill:var(--ink)"),
    (" .m", "fill:var(--muted);font-size:12px"),
    (" .t", "fill:var(--ink);font-size:16px;font-weight:600"),
    (" .h", "fill:var(--ink);font-weight:600"),
    (" .g", "stroke:var(--line)"),
    (" .z", "stroke:var(--muted)"),
    (" .a", "stroke:var(--muted);stroke-width:2;stroke-dasharray:2 4;fill:none"),
    (" .r", "stroke-opacity:.35;stroke-width:5;fill:none"),
)

Scale = Callable[[float], float]


def rounds_svg(rounds: Rounds, title: str = "What each round of self-evolution changed") -> str:
    """The chart. Bars are paired 95 % intervals; the dotted line is the average of the benchmarks."""
    arms = rounds.arms
    reach = _reach(rounds)
    up: Scale = lambda change: _TOP + _TALL / 2 - change / reach * _TALL / 2  # noqa: E731 - one expression
    wide = _LEFT + max(1, len(arms)) * (_PANEL + _GAP)
    high = _TOP + _TALL + _UNDER
    parts = [_text(20, 28, title, "t"), _text(20, 48, "macro-F1 against the seed, in points, on the same claims", "m")]
    for place, arm in enumerate(arms):
        parts += _panel(rounds, arm, _LEFT + place * (_PANEL + _GAP), up, reach)
    if not arms:
        parts.append(_text(_LEFT, _TOP + 30, "no round is finished yet", "m"))
    return _document(max(wide, 460), high, title, _described(rounds), parts, len(rounds.benchmarks))


def _reach(rounds: Rounds) -> float:
    """Half the height of the panels in [0, 1]: a multiple of 5 points that holds every change and interval."""
    ends = [0.04]
    for row in rounds.rows:
        for cell in row.cells.values():
            if cell.change is not None:
                ends += [abs(one) for one in (cell.change.value, cell.change.low, cell.change.high) if one is not None]
    return math.ceil(max(ends) * 20 + 1e-9) / 20


def _panel(rounds: Rounds, arm: str, left: float, up: Scale, reach: float) -> list[str]:
    rows = rounds.of(arm)
    last = max(row.number for row in rows)
    across: Scale = lambda number: left + 12 + number / max(1, last) * (_PANEL - 24)  # noqa: E731
    parts = [_text(left, _TOP - 16, arm, "h"), *_grid(left, up, reach, first=left == _LEFT)]
    parts += [_text(across(row.number), _TOP + _TALL + 20, str(row.number), "m", "middle") for row in rows]
    parts.append(_text(left + _PANEL / 2, _TOP + _TALL + 40, "round (1: rules in the prompt)", "m", "middle"))
    averages = [(across(row.number), up(row.average - rows[0].average)) for row in rows]
    parts.append(f'<polyline class="a" points="{_points(averages)}"/>')
    ends = []
    for place, name in enumerate(rounds.benchmarks):
        aside = 3 * (place % 5 - 2)
        line = [(across(row.number) + aside, up(_change(row, name))) for row in rows]
        parts += _line(rows, name, place, line, up)
        ends.append((line[-1][1], place, short_name(name)))
    ends.append((averages[-1][1], -1, "average"))
    return parts + _names(ends, left + _PANEL + 4)


def _change(row: Round, name: str) -> float:
    change = row.cells[name].change
    return 0.0 if change is None or change.value is None else change.value


def _grid(left: float, up: Scale, reach: float, *, first: bool) -> list[str]:
    parts = []
    for mark in (-reach, -reach / 2, 0.0, reach / 2, reach):
        y = up(mark)
        parts.append(
            f'<line class="{"g" if mark else "z"}" x1="{left}" x2="{left + _PANEL}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        if first:
            parts.append(_text(left - 8, y + 4, f"{100 * mark:+.3g}" if mark else "0", "m", "end"))
    return parts


def _line(rows: Sequence[Round], name: str, place: int, line: Sequence[tuple[float, float]], up: Scale) -> list[str]:
    parts = []
    for (x, y), row in zip(line, rows, strict=True):
        cell = row.cells[name]
        change = cell.change
        if change is None or change.low is None or change.high is None:
            continue
        said = f"{row.name}, {name}: macro-F1 {100 * cell.f1:.1f}, {_said(row, name)}"
        parts.append(
            f'<g><title>{text(said)}</title><path class="r s{place}" d="M{x:.1f} {up(change.low):.1f}V{up(change.high):.1f}"/>'
            f'<circle class="f{place}" cx="{x:.1f}" cy="{y:.1f}" r="{4.5 if cell.sign else 3}"/></g>'
        )
    dashed = ' stroke-dasharray="7 4"' if place >= len(_COLOURS) else ""
    return [f'<polyline class="s{place}" points="{_points(line)}" fill="none" stroke-width="2"{dashed}/>', *parts]


def _names(ends: list[tuple[float, int, str]], x: float) -> list[str]:
    """The names at the ends of the lines, pushed apart where they would stand on each other."""
    parts = []
    free = -math.inf
    ends = sorted(ends)
    excess = ends[-1][0] - (_TOP + _TALL)
    for at, (y, place, name) in enumerate(ends):
        room = _TOP + _TALL + 8 - (len(ends) - 1 - at) * _LINE - max(0.0, excess)
        free = max(min(y + 4, room), free + _LINE)
        parts.append(_text(x, free, name, "m" if place < 0 else f"f{place}"))
    return parts


def _said(row: Round, name: str) -> str:
    change = row.cells[name].change
    if change is None or change.value is None:
        return "no change"
    inside = (
        "" if change.low is None or change.high is None else f" [{100 * change.low:+.1f}, {100 * change.high:+.1f}]"
    )
    return f"change {100 * change.value:+.1f}{inside} points"


def _described(rounds: Rounds) -> str:
    return " ".join(
        f"{row.name}: " + "; ".join(f"{name} {_said(row, name)}" for name in rounds.benchmarks) + "."
        for row in rounds.rows
        if row.arm
    )


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _text(x: float, y: float, said: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text(said)}</text>'


def _document(wide: float, high: float, title: str, description: str, parts: Sequence[str], lines: int) -> str:
    scope = ".fg-rounds"
    colours = [_COLOURS[place % len(_COLOURS)] for place in range(lines)]
    palettes = [
        "--ground:#fff;--ink:#1d2025;--muted:#626873;--line:#e0ddd6;" + _palette(colours, 0),
        "--ground:#1a1d21;--ink:#e5e6e8;--muted:#99a1ac;--line:#363c44;" + _palette(colours, 1),
    ]
    rules = "".join(f"{scope}{name}{{{look}}}" for name, look in _RULES)
    for place in range(lines):
        rules += f"{scope} .s{place}{{stroke:var(--c{place})}}{scope} .f{place}{{fill:var(--c{place})}}"
    style = f"{scope}{{{palettes[0]}}}@media (prefers-color-scheme: dark){{{scope}{{{palettes[1]}}}}}{rules}"
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fg-rounds" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" '
        f'height="{high:g}" role="img" aria-labelledby="fg-rounds-title fg-rounds-desc">\n'
        f'<title id="fg-rounds-title">{text(title)}</title>\n<desc id="fg-rounds-desc">{text(description, 6000)}</desc>\n'
        f'<style>{style}</style>\n<rect width="{wide:g}" height="{high:g}" rx="10" style="fill:var(--ground)"/>\n'
        f"{body}\n</svg>\n"
    )


def _palette(colours: Sequence[tuple[str, str]], kind: int) -> str:
    return "".join(f"--c{place}:{pair[kind]};" for place, pair in enumerate(colours))
