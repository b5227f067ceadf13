"""The calibration curve as one SVG that stands alone: the share of right sentences by bucket, with intervals (figure 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from factgym.benchmarks.corver.calibration import CountBucket, CountCalibration
from factgym.benchmarks.formats import ABSENT, count, decimal
from factgym.benchmarks.viewer.escape import text

_LEFT, _TOP, _TALL, _STEP = 62.0, 76.0, 240.0, 104.0
_UNDER = 62.0
_COLOURS = (("#2f5b9e", "#7fa8e8"), ("#ad3a2c", "#f0938a"), ("#23744b", "#74c69a"), ("#8a5a00", "#e0b050"))
"""On light and on dark; a fifth curve begins anew."""
_RULES = (
    ("", "font:13px ui-sans-serif,system-ui,'Segoe UI','Helvetica Neue',Arial,sans-serif"),
    (" .m", "fill:var(--muted);font-size:12px"),
    (" .t", "fill:var(--ink);font-size:16px;font-weight:600"),
    (" .g", "stroke:var(--line)"),
    (" .d", "stroke:var(--muted);stroke-dasharray:5 4"),
    (" .p", "fill:var(--panel)"),
)
_LIGHT = "--ink:#1d2025;--muted:#626873;--line:#e0ddd6;--panel:#ffffff"
_DARK = "--ink:#e5e6e8;--muted:#99a1ac;--line:#363c44;--panel:#1a1d21"

Named = tuple[str, CountCalibration]


def curve_svg(curves: Sequence[Named], boundaries: Sequence[int] = (), title: str = "Right sentences by count") -> str:
    """Points are shares, bars Wilson 95 % intervals, dashed lines the boundaries of the reward's tiers.

    curves: by name, all with the buckets of the first one.
    """
    lows = [one.low for one in curves[0][1].buckets] if curves else []
    wide = _LEFT + max(1, len(lows)) * _STEP + 24
    parts = [_words(20, 28, title, "t"), *_grid(lows, boundaries, wide - 24)]
    for i, (_, curve) in enumerate(curves):
        aside = 14 * (i - (len(curves) - 1) / 2)
        parts += [_point(one, _x(place) + aside, i) for place, one in enumerate(curve.buckets) if one.n]
    parts += _legend([name for name, _ in curves])
    high = _TOP + _TALL + _UNDER + 20 * max(0, len(curves) - 1)
    said = " ".join(sentence for name, curve in curves for sentence in _said(name, curve))
    return _document(wide, high, title, said, parts, len(curves))


def _x(place: int) -> float:
    return _LEFT + (place + 0.5) * _STEP


def _y(share: float) -> float:
    return _TOP + _TALL * (1 - share)


def _grid(lows: Sequence[int], boundaries: Sequence[int], right: float) -> Iterator[str]:
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield f'<line class="g" x1="{_LEFT:g}" x2="{right:g}" y1="{_y(tick):g}" y2="{_y(tick):g}"/>'
        yield _words(_LEFT - 8, _y(tick) + 4, f"{100 * tick:.0f} %", "m", "end")
    for place, low in enumerate(lows):
        high = lows[place + 1] - 1 if place + 1 < len(lows) else None
        name = f"{low} or more" if high is None else str(low) if high == low else f"{low} to {high}"
        yield _words(_x(place), _TOP + _TALL + 20, name, "m", "middle")
        if low in boundaries:
            at = _LEFT + place * _STEP
            yield f'<line class="d" x1="{at:g}" x2="{at:g}" y1="{_TOP - 8:g}" y2="{_TOP + _TALL:g}"/>'


def _point(one: CountBucket, x: float, curve: int) -> str:
    share, low, high = one.share.value or 0.0, one.share.low or 0.0, one.share.high or 0.0
    caption = f"{one.name}: {decimal(100 * share, 1)} % of {count(one.n, 'sentence')} [{decimal(100 * low, 1)}, {decimal(100 * high, 1)}]"
    return (
        f'<g class="c{curve % len(_COLOURS)}"><title>{text(caption)}</title>'
        f'<path d="M{x - 4:.1f} {_y(high):.1f}h8M{x:.1f} {_y(high):.1f}V{_y(low):.1f}M{x - 4:.1f} {_y(low):.1f}h8"/>'
        f'<circle cx="{x:.1f}" cy="{_y(share):.1f}" r="5"/></g>'
    )


def _legend(names: Sequence[str]) -> Iterator[str]:
    for i, name in enumerate(names):
        y = _TOP + _TALL + 46 + 20 * i
        yield f'<g class="c{i % len(_COLOURS)}"><circle cx="{_LEFT + 5:g}" cy="{y - 4:g}" r="5"/></g>'
        yield _words(_LEFT + 18, y, name if len(name) <= 60 else name[:59] + "…", "m")


def _said(name: str, curve: CountCalibration) -> Iterator[str]:
    for one in curve.buckets:
        share = ABSENT if one.share.value is None else f"{decimal(100 * one.share.value, 1)} %"
        yield f"{name}, {one.name}: {share} of {one.n:,}."


def _words(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text(words)}</text>'


def _document(wide: float, high: float, title: str, said: str, parts: Sequence[str], curves: int) -> str:
    rules = "".join(f".corver{scope}{{{look}}}" for scope, look in _RULES)
    used = list(enumerate(_COLOURS))[: max(1, curves)]
    light = _LIGHT + "".join(f";--c{i}:{one}" for i, (one, _) in used)
    dark = _DARK + "".join(f";--c{i}:{one}" for i, (_, one) in used)
    rules += "".join(f".corver .c{i}{{fill:var(--c{i});stroke:var(--c{i});stroke-width:1.5}}" for i, _ in used)
    style = f".corver{{{light}}}@media (prefers-color-scheme:dark){{.corver{{{dark}}}}}{rules}"
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="corver" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" '
        f'height="{high:g}" role="img"><title>{text(title)}</title><desc>{text(said, 4000)}</desc><style>{style}</style>'
        f'<rect class="p" width="{wide:g}" height="{high:g}" rx="10"/>\n{body}\n</svg>\n'
    )
