"""The picture of advantage collapse, as one SVG without outside parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from factgym.benchmarks.seva.collapse import PAPER, RUNS, CollapseRow, Run

_WIDTH, _HEIGHT = 860, 400
_TOP, _BOTTOM = 84, 326
_PANELS = ((64, 414), (510, 830))
_COLOURS: dict[Run, str] = {"process": "#2f5b9e", "binary": "#ad3a2c"}
_SPREAD = 2.6
_SPREAD_MARKS = [(float(v), f"{v:+d}" if v else "0") for v in (-2, -1, 0, 1, 2)]
_SHARE_MARKS = [(v / 4, f"{25 * v} %") for v in range(5)]
_STYLE = (
    "text{font:13px ui-sans-serif,system-ui,'Segoe UI','Noto Sans',Arial,sans-serif;fill:#1d2025}"
    ".t{font-size:16px;font-weight:600}.h{font-weight:600}.m{fill:#626873;font-size:12px}.e{text-anchor:end}"
    ".c{text-anchor:middle}.g{stroke:#e7e4de}.z{stroke:#99a1ac}"
)

Scale = Callable[[float], float]


def collapse_svg(rows: Sequence[CollapseRow]) -> str:
    """A picture of the rows in which a run is scored by its own reward.

    Left: the lowest and the highest advantage of a group, averaged over the groups, by training step, with the paper's
    Table 18 as crosses. Right: the share of groups whose rewards are all equal.
    """
    own = [row for row in rows if row.run == row.reward]
    steps = sorted({row.step for row in own})
    span = max(1, steps[-1] - steps[0]) if steps else 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'aria-label="Advantage collapse under binary and process reward">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        _text(24, 30, "Advantage collapse on simulated policies, binary against process reward", "t"),
    ]
    panels = (
        ("Advantage of a group’s worst and best sample, mean", _scale(-_SPREAD, _SPREAD), _SPREAD_MARKS),
        ("Groups whose rewards are all equal", _scale(0.0, 1.0), _SHARE_MARKS),
    )
    for panel, (title, up, marks) in zip(_PANELS, panels, strict=True):
        parts += _axes(panel, title, up, marks, [(step, _across(panel, step - steps[0], span)) for step in steps])
    scales = [up for _, up, _ in panels]
    for run in RUNS:
        mine = [row for row in own if row.run == run]
        if mine:
            parts += _spread(run, mine, [_across(_PANELS[0], row.step - steps[0], span) for row in mine], scales[0])
            parts += _share(run, mine, [_across(_PANELS[1], row.step - steps[0], span) for row in mine], scales[1])
    return "".join([*parts, *_legend(), "</svg>\n"])


def _scale(low: float, high: float) -> Scale:
    return lambda value: _BOTTOM - (min(max(value, low), high) - low) / (high - low) * (_BOTTOM - _TOP)


def _across(panel: tuple[int, int], offset: float, span: float) -> float:
    left, right = panel
    return left + 14 + offset / span * (right - left - 28)


def _axes(
    panel: tuple[int, int],
    title: str,
    up: Scale,
    marks: Sequence[tuple[float, str]],
    steps: Sequence[tuple[int, float]],
) -> list[str]:
    left, right = panel
    parts = [_text(left, _TOP - 22, title, "h")]
    for value, name in marks:
        y = up(value)
        parts.append(f'<line class="{"g" if value else "z"}" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(left - 8, y + 4, name, "m e"))
    parts += [_text(x, _BOTTOM + 20, str(step), "m c") for step, x in steps]
    return [*parts, _text((left + right) / 2, _BOTTOM + 38, "training step", "m c")]


def _spread(run: Run, rows: Sequence[CollapseRow], xs: Sequence[float], up: Scale) -> list[str]:
    colour = _COLOURS[run]
    high = [(x, up(row.found.high_mean)) for x, row in zip(xs, rows, strict=True)]
    low = [(x, up(row.found.low_mean)) for x, row in zip(xs, rows, strict=True)]
    parts = [f'<polygon points="{_points([*high, *reversed(low)])}" fill="{colour}" fill-opacity=".13"/>']
    parts += [_curve(line, colour) for line in (high, low)]
    for x, row in zip(xs, rows, strict=True):
        theirs = PAPER[run].get(row.step)
        parts += [_cross(x, up(value), colour) for value in (theirs[1:] if theirs else ())]
    return parts


def _share(run: Run, rows: Sequence[CollapseRow], xs: Sequence[float], up: Scale) -> list[str]:
    return [_curve([(x, up(row.found.zero_variance)) for x, row in zip(xs, rows, strict=True)], _COLOURS[run])]


def _legend() -> list[str]:
    parts = []
    x = 24.0
    for run, colour in _COLOURS.items():
        parts.append(f'<line x1="{x}" x2="{x + 22}" y1="384" y2="384" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(_text(x + 28, 388, f"{run} reward, its own run"))
        x += 230
    return [*parts, _cross(x + 8, 384, "#626873"), _text(x + 22, 388, "the paper’s Table 18 (lowest and highest)")]


def _curve(points: Sequence[tuple[float, float]], colour: str) -> str:
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{_points(points)}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'


def _cross(x: float, y: float, colour: str) -> str:
    return f'<path d="M{x - 4.5:.1f} {y - 4.5:.1f}l9 9m0 -9l-9 9" stroke="{colour}" stroke-width="1.6" fill="none"/>'


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _text(x: float, y: float, said: str, kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{styled}>{said}</text>'
