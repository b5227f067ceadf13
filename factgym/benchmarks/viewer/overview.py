"""The overview of a run as plain HTML: it reads and prints without a script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from factgym.benchmarks.formats import ABSENT, count, decimal, interval, label, percent
from factgym.benchmarks.page import escape as text
from factgym.benchmarks.statistics.classification import NO_VERDICT
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.summary import RunSummary
from factgym.benchmarks.tables import fault_sentence
from factgym.benchmarks.viewer import charts
from factgym.benchmarks.viewer.loose import as_text
from factgym.benchmarks.viewer.spending import fact, groups_card, usage_card

_DEEP = 3
"""Levels of the manifest that are listed one by one."""

_SURFACE_WORDS = {
    "format": "Is it said in the agreed form?",
    "grounding": "Is it tied to real evidence?",
    "coverage": "Is all of the evidence there?",
    "calibration": "Is the label right?",
    "safety": "Does it avoid doing harm?",
}


def overview(summary: RunSummary, manifest: Mapping[str, Any], notes: Sequence[str]) -> str:
    """The sections of the overview, in reading order."""
    parts = [_notes(summary, notes)]
    if summary.scored:
        parts += [_headline(summary), _components(summary), _surfaces(summary), _labels(summary), _play(summary)]
        parts += [groups_card(summary.groups), usage_card(summary.usage)]
    else:
        parts.append('<section class="card"><p class="empty">This run holds no scored episode yet.</p></section>')
    parts.append(manifest_card(manifest))
    return "\n".join(part for part in parts if part)


def _notes(summary: RunSummary, notes: Sequence[str]) -> str:
    lines = list(notes)
    if summary.errors:
        lines.append(fault_sentence(summary))
    if summary.unscored:
        lines.append(f"{count(summary.unscored, 'episode')} not scored.")
    return notes_list(lines)


def notes_list(lines: Sequence[str]) -> str:
    """Sentences that stand out; nothing where there are none."""
    return f'<ul class="notes">{"".join(f"<li>{text(line)}</li>" for line in lines)}</ul>' if lines else ""


def _headline(summary: RunSummary) -> str:
    tiles = [
        _tile("Verdict accuracy", summary.accuracy, 3),
        _tile("Macro recall", summary.macro_recall, 3),
        _tile("Turns per episode", summary.turns, 2),
        _tile("Malformed actions", summary.malformed, 3),
    ]
    reward = summary.reward
    return (
        '<section class="card headline"><div class="hero"><h2>Mean reward</h2>'
        f'<p class="big num">{decimal(reward.value)}</p>'
        f'<p class="muted num">95 % interval {text(interval(reward))}</p>'
        f'<p class="muted num">{count(summary.scored, "episode")} scored</p></div>'
        f'<div class="spread"><h2>Rewards</h2>{charts.reward_histogram(summary.histogram)}</div>'
        f'<dl class="tiles">{"".join(tiles)}</dl></section>'
    )


def _tile(name: str, found: Estimate, places: int) -> str:
    if found.value is None:
        return ""
    return (
        f'<div><dt>{name}</dt><dd><span class="value num">{decimal(found.value, places)}</span> '
        f'<span class="muted num">{text(interval(found, places))}</span></dd></div>'
    )


def _components(summary: RunSummary) -> str:
    rows = []
    for name, part in summary.components.items():
        weight, gate = summary.weights.get(name), summary.gates.get(name)
        rows.append(
            f'<tr><th scope="row">{text(name, 60)}</th><td class="wide">{charts.bar(part)}</td>'
            f'<td class="num">{decimal(part.value)}</td><td class="num muted hide-s">{text(interval(part))}</td>'
            f'<td class="num">{decimal(weight, 2) if weight is not None else ""}</td>'
            f'<td class="num">{f"&times;{decimal(gate.value, 2)}" if gate is not None else ""}</td>'
            f'<td class="num">{decimal(summary.earned.get(name)) if weight is not None else ""}</td></tr>'
        )
    heads = (
        '<th scope="col">component</th><th scope="col"><span class="sr">bar</span></th><th scope="col">mean</th>'
        '<th scope="col" class="hide-s">95 % interval</th><th scope="col">weight</th>'
        '<th scope="col">gate</th><th scope="col">earned</th>'
    )
    total = (
        f'<tr><th scope="row">reward</th><td class="wide">{charts.bar(summary.reward)}</td>'
        f'<td class="num">{decimal(summary.reward.value)}</td>'
        f'<td class="num muted hide-s">{text(interval(summary.reward))}</td>'
        f'<td></td><td></td><td class="num">{decimal(summary.reward.value)}</td></tr>'
    )
    return (
        '<section class="card"><h2>Where the reward comes from</h2><div class="scroll"><table class="scores">'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody><tfoot>{total}</tfoot></table></div>"
        '<p class="fine">Earned is weight &times; component &times; gate, averaged over the episodes.</p></section>'
    )


def _surfaces(summary: RunSummary) -> str:
    cards = []
    for surface in summary.surfaces:
        rows = "".join(
            f'<div class="measure"><dt>{text(one.label)}{" <small>lower is better</small>" if one.lower_is_better else ""}'
            f'</dt><dd><span class="num">{decimal(one.estimate.value)}</span> '
            f'<span class="muted num small">{text(interval(one.estimate, 2))}</span></dd>'
            f"{charts.bar(one.estimate, 'bad' if one.lower_is_better else '')}</div>"
            for one in surface.measures
        )
        cards.append(
            f'<div class="surface"><h3>{text(surface.name)}</h3>'
            f'<p class="muted">{_SURFACE_WORDS.get(surface.name, "")}</p><dl>{rows}</dl></div>'
        )
    if not cards:
        return ""
    return f'<section class="card"><h2>Five surfaces</h2><div class="surfaces">{"".join(cards)}</div></section>'


def _labels(summary: RunSummary) -> str:
    if summary.confusion is None:
        return ""
    golds, said, counts = summary.confusion.golds, summary.confusion.predictions, summary.confusion.counts
    heads = "".join(
        f'<th scope="col">{text("no verdict" if one == NO_VERDICT else label(one), 40)}</th>' for one in said
    )
    rows = []
    for gold, row in zip(golds, counts, strict=True):
        cells = "".join(_cell(gold, one, n, sum(row)) for one, n in zip(said, row, strict=True))
        found = summary.recall[gold]
        rows.append(
            f'<tr><th scope="row">{text(label(gold), 40)}</th>{cells}<td class="num recall">{decimal(found.value, 2)}</td>'
            f'<td class="num muted hide-s">{text(interval(found, 2))}</td></tr>'
        )
    return (
        '<section class="card"><h2>Labels</h2><div class="scroll"><table class="confusion"><thead>'
        f'<tr><th scope="col" class="corner">gold &darr;&ensp;submitted &rarr;</th>{heads}'
        '<th scope="col" class="recall">recall</th><th scope="col" class="hide-s">95 % interval</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="fine">Each cell opens its episodes.</p></section>'
    )


def _cell(gold: str, said: str, n: int, row: int) -> str:
    shade = -(-9 * n // row) if row else 0
    kind = "hit" if gold == said else "miss"
    if not n:
        return '<td class="cell none">&middot;</td>'
    link = urlencode({"gold": gold[:300], "said": "" if said == NO_VERDICT else said[:300]}, errors="replace")
    return f'<td class="cell {kind} h{shade}"><a href="#{text(link, 4000)}">{n:,}</a></td>'


def _play(summary: RunSummary) -> str:
    causes = "".join(_cause(name, n) for name, n in list(summary.causes.items())[:12])
    stops = "".join(
        fact(label(name), f"{n:,}") + (causes if name == "error" else "") for name, n in summary.stops.items()
    )
    tools = "".join(
        fact(one.name, f"{one.calls:,}" + (f" ({one.errors:,} refused)" if one.errors else ""))
        for one in summary.tools[:12]
    )
    malformed = percent(summary.malformed.value)
    return (
        '<section class="card play"><div><h2>How episodes ended</h2>'
        f'<dl class="facts">{stops}</dl></div><div><h2>Tool calls</h2><dl class="facts">{tools or fact("none", "")}'
        f"{fact('malformed actions', malformed)}</dl></div></section>"
    )


def _cause(name: str, n: int) -> str:
    link = urlencode({"cause": name[:300]}, errors="replace")
    return f'<div class="part"><dt>{text(label(name), 80)}</dt><dd class="num"><a href="#{text(link, 4000)}">{n:,}</a></dd></div>'


def manifest_card(manifest: Mapping[str, Any]) -> str:
    """What a manifest holds, as a list; empty for an empty one."""
    if not manifest:
        return ""
    rows = "".join(fact(name, value, "mono") for name, value in _flat(manifest))
    return f'<section class="card"><h2>Manifest</h2><dl class="facts manifest">{rows}</dl></section>'


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value and prefix.count(".") < _DEEP:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", ABSENT if value is None else as_text(value)
