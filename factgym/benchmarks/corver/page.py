"""One self-contained HTML page of CorVer's evaluation: what was played, its tables, the calibration curve, the paper's tables.

Plain HTML and an inline picture under a content security policy that allows neither scripts nor network. Names of agents,
questions and folders are foreign text and are escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import factgym
from factgym.agents.runs.artifacts import write_bytes
from factgym.benchmarks.corver.calibration import CountCalibration
from factgym.benchmarks.corver.compare import CorverComparison, Difference
from factgym.benchmarks.corver.curve_chart import curve_svg
from factgym.benchmarks.corver.paper.counts import published
from factgym.benchmarks.corver.refusals import Decomposition
from factgym.benchmarks.corver.report import CorverReport
from factgym.benchmarks.corver.terminal import hundred, provenance, reach, with_same_quarters
from factgym.benchmarks.formats import ABSENT, count, decimal, interval, p_value, percent
from factgym.benchmarks.papers.table import KINDS, PaperTable, signed
from factgym.benchmarks.viewer import charts
from factgym.benchmarks.viewer.escape import text
from factgym.rewards.corver import DEFAULT_RULES

_WIDE_COLUMNS = 6

Cells = Sequence[str]


@dataclass(frozen=True, slots=True)
class PageContent:
    """What a page shows."""

    reports: Sequence[CorverReport]
    comparisons: Sequence[CorverComparison] = ()
    refusals: Sequence[tuple[str, Decomposition]] = ()
    curves: Sequence[tuple[str, CountCalibration]] = ()
    tables: Sequence[PaperTable] = ()
    notes: Sequence[str] = ()


def write_page(content: PageContent, path: Path) -> Path:
    """Write the page, whole or not at all. Raises ConfigError when it cannot be written."""
    write_bytes(path, page(content).encode("ascii"))
    return path


def page(content: PageContent) -> str:
    """The page as ASCII text."""
    sections = [_notes(content.notes), _runs(content.reports)]
    names = list(dict.fromkeys(name for one in content.reports for name in one.scores))
    sections += [_benchmark(name, [one for one in content.reports if name in one.scores]) for name in names]
    sections.append(_popularity(content.reports))
    sections += [_comparison(one) for one in content.comparisons]
    sections.append(_refusals(content.refusals))
    sections.append(_curves(content.curves))
    if content.tables:
        sections.append(_paper(content.tables))
    values = {
        "title": "CorVer benchmark",
        "by": f"factgym {text(factgym.__version__)}",
        "nav": '<a href="#paper">the paper</a>' if content.tables else "",
        "style": _asset("viewer", "base.css") + _asset("seva", "page.css"),
        "body": "\n".join(filter(None, sections)),
    }
    before, *rest = _asset("seva", "page.html").split("{{")
    whole = before + "".join(values[key] + tail for key, tail in (piece.split("}}", 1) for piece in rest))
    return whole.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _asset(package: str, name: str) -> str:
    return (files(f"factgym.benchmarks.{package}") / "assets" / name).read_text("utf-8")


def _notes(notes: Iterable[str]) -> str:
    return "".join(f'<p class="note">{text(note)}</p>' for note in notes)


def _card(title: str, about: str, body: str) -> str:
    said = f'<p class="about">{text(about, 2000)}</p>' if about else ""
    return f'<section class="card"><h2>{text(title, 200)}</h2>{said}{body}</section>'


def _table(heads: Cells, rows: Iterable[tuple[str, Cells]], kind: str = "") -> str:
    """Cells are HTML already, names are not."""
    top = "".join(f'<th scope="col">{text(head)}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row">{text(name, 80)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for name, cells in rows
    )
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _runs(reports: Sequence[CorverReport]) -> str:
    rows = [
        (", ".join(names), (text("; ".join(questions), 600), text(setting)))
        for names, questions, setting in provenance(reports)
    ]
    return _card("What was played", "", _table(("agents", "questions", "setting"), rows, "words"))


def _benchmark(name: str, reports: Sequence[CorverReport]) -> str:
    rows = []
    for report in reports:
        one = report.scores[name]
        accuracy = f'<strong>{hundred(one.accuracy.value)}</strong> <span class="muted">{text(reach(one.accuracy))}</span>{charts.bar(one.accuracy)}'
        shares = [hundred(one.judged["reference"].value), *(hundred(part.value) for part in (one.refusal, one.format))]
        lengths = [decimal(one.chars.value, 0), decimal(one.words.value, 1), decimal(one.sentences.value, 1)]
        median = ABSENT if one.median_count is None else f"{one.median_count:,.0f}"
        counts = [percent(one.queried.value, 0), median, percent(one.unsupported.value, 0)]
        rows.append((report.name, (accuracy, *shares, *lengths, *counts, decimal(one.reward.value, 2))))
    heads = ("agent", "accuracy, 95 %", "by the paper’s judge", "refusals", "format", "chars", "words", "sentences", "with query", "median c", "c = 0", "reward")  # fmt: skip
    about = f"{count(reports[0].scores[name].tasks, 'question')}; shares in percent; chars and words of the answer; c is the count of a sentence that gave a query."
    return _card(name, about, _table(heads, rows))


def _popularity(reports: Sequence[CorverReport]) -> str:
    tables = []
    for group in with_same_quarters(reports):
        first = group[0][1]
        rows = []
        for i, row in enumerate((*first.quartiles, first.all)):
            found = [(*one.quartiles, one.all)[i].accuracy for _, one in group]
            shares = [f"{hundred(one.value)}{charts.bar(one)}" for one in found]
            rows.append((row.name, (text(f"{row.low:,.0f}–{row.high:,.0f}"), f"{row.n:,}", *shares)))
        left = f'<p class="fine">{count(first.excluded, "question")} without popularity left out.</p>'
        heads = ("quarter", "views", "n", *(name for name, _ in group))
        tables.append(_table(heads, rows) + (left if first.excluded else ""))
    return _card("Accuracy by popularity, %", "", "".join(tables)) if tables else ""


def _comparison(found: CorverComparison) -> str:
    rows = []
    for name, one in found.benchmarks.items():
        p = p_value(one.mcnemar.p) if one.mcnemar is not None else ABSENT
        for part in ("accuracy", "refusal", "format"):
            rows.append((f"{name}: {part}", (*_change(one.parts[part]), text(p if part == "accuracy" else ""))))
    if len(found.benchmarks) > 1:
        rows += [(f"average: {part}", (*_change(found.average[part]), "")) for part in ("accuracy", "refusal")]
    rows += [(f"popularity {one.name}: accuracy", (*_change(one.accuracy), "")) for one in found.quarters]
    heads = ("", "before", "after", "change, 95 %", "p")
    about = "Paired BCa bootstrap over the same questions, in points; p of McNemar’s test."
    return _card(f"{found.second} against {found.first}", about, _table(heads, rows) + _notes(found.notes))


def _change(one: Difference) -> tuple[str, str, str]:
    found = one.difference
    change = ABSENT if found.value is None else signed(100 * found.value)
    return (
        hundred(one.first),
        hundred(one.second),
        f'<strong>{change}</strong> <span class="muted">{text(reach(found))}</span>',
    )


def _refusals(found: Sequence[tuple[str, Decomposition]]) -> str:
    rows = []
    for name, one in found:
        shares = [hundred(part.value) for part in (one.raw_refusal, one.trained_refusal, one.unlocked)]
        parts = [signed(100 * value) for value in (one.gain, one.from_unlocked, one.from_both, one.from_withdrawn)]
        rows.append((f"{name}, {one.benchmark}", (*shares, *parts)))
    heads = ("agent, questions", "before", "after", "right", "gain", "unlocked", "both", "withdrawn")
    about = (
        "Right: accuracy on what was refused before and is attempted now. The last three columns add up to the gain."
    )
    return _card("Refusals, and where the gain comes from", about, _table(heads, rows)) if rows else ""


def _curves(curves: Sequence[tuple[str, CountCalibration]]) -> str:
    theirs = published()
    mine = [(name, one) for name, one in curves if [b.low for b in one.buckets] == [b.low for b in theirs.buckets]]
    tiers = (1, DEFAULT_RULES.low_count, DEFAULT_RULES.high_count)
    svg = curve_svg([("the paper’s 700 sentences", theirs), *mine], tiers)
    data = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    rows = [
        (f"{name}, {bucket.name}", (f"{bucket.n:,}", f"{bucket.correct:,}", f"{hundred(bucket.share.value)} {text(interval(bucket.share, 2))}"))
        for name, one in curves
        for bucket in one.buckets
    ]  # fmt: skip
    about = "The paper’s are labelled by people. A curve “by the answer” takes a sentence as right when its answer is."
    picture = f'<img alt="Share of right sentences by count" src="data:image/svg+xml;base64,{data}">'
    table = _table(("count", "sentences", "right", "%, 95 %"), rows) if rows else ""
    return _card("Right sentences by count", about, table + picture)


def _paper(tables: Sequence[PaperTable]) -> str:
    legend = '<span><span class="yes">✓</span> ours is theirs, to the digits printed</span><span><span class="no">✗</span> it is not</span>'
    cards = "".join(_paper_table(one) for one in tables)
    return f'<h2 class="group" id="paper">The paper’s tables, ours beside theirs</h2><p class="legend">{legend}</p><div class="tables">{cards}</div>'


def _paper_table(table: PaperTable) -> str:
    marks = {None: "", True: '<span class="mark yes">✓</span>', False: '<span class="mark no">✗</span>'}
    marked = any(row.agrees is not None for row in table.rows)
    rows = [
        (row.cells[0], (*(text(cell) for cell in row.cells[1:]), *([marks[row.agrees]] if marked else [])))
        for row in table.rows
    ]
    notes = "".join(f'<p class="fine">{text(note, 2000)}</p>' for note in table.notes)
    wide = " wide" if len(table.columns) >= _WIDE_COLUMNS else ""
    return (
        f'<section class="card{wide}"><div class="head"><h2>{text(table.title)}</h2>'
        f'<span class="source">{text(table.source)}</span><span class="kind {table.kind}">{text(KINDS[table.kind])}</span></div>'
        f"{_table((*table.columns, *([''] if marked else [])), rows)}{notes}</section>"
    )
