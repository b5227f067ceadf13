"""One self-contained HTML page of a benchmark or of single runs: tables, plots, comparisons, and the paper's tables.

It needs no script and no network: plain HTML and inline SVG under a content security policy that allows neither. Names
of agents, data sets and folders are foreign text and are escaped.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import factgym
from factgym.benchmarks.formats import ABSENT, count, decimal, interval, label, p_value, percent
from factgym.benchmarks.intervals import Estimate
from factgym.benchmarks.papers.table import KINDS, PaperTable
from factgym.benchmarks.seva.collapse_chart import collapse_svg
from factgym.benchmarks.seva.compare import SevaComparison
from factgym.benchmarks.seva.paper.variance import simulation
from factgym.benchmarks.seva.report import SLICE, SevaReport
from factgym.benchmarks.seva.suite import Result
from factgym.benchmarks.seva.terminal import STRUCTURE
from factgym.benchmarks.statistics import confusion_svg, reliability_svg
from factgym.benchmarks.viewer import charts
from factgym.benchmarks.viewer.escape import text
from factgym.core.errors import DataError

_WIDE_COLUMNS = 6
_WORDS = "strategy"


@dataclass(frozen=True, slots=True)
class PageContent:
    """What a page shows. notes: sentences for people."""

    title: str
    results: Sequence[Result] = ()
    comparisons: Sequence[SevaComparison] = ()
    tables: Sequence[PaperTable] = ()
    notes: Sequence[str] = ()


def write_report(content: PageContent, path: str | Path) -> Path:
    """Write the page and return its path. A page that was there is replaced only by a complete one.

    Raises DataError when the file cannot be written.
    """
    path = Path(path)
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(report_page(content), "ascii")
        part.replace(path)
    except OSError as error:
        raise DataError(f"cannot write {path} ({error.strerror}): name another file") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return path


def report_page(content: PageContent) -> str:
    """The page as ASCII text."""
    names = list(dict.fromkeys(one.data_set for one in content.results))
    sections = [_notes(content.notes)]
    if len(names) > 1:
        sections.append(_matrix(content.results, names))
    for i, name in enumerate(names):
        sections.append(_data_set(f"d{i}", name, [one for one in content.results if one.data_set == name]))
    if content.comparisons:
        sections.append(_comparisons(content.comparisons))
    if content.tables:
        sections.append(_paper(content.tables))
    links = [(f"d{i}", name) for i, name in enumerate(names)] + ([("paper", "the paper")] if content.tables else [])
    values = {
        "title": text(content.title, 120),
        "by": f"factgym {text(factgym.__version__)}",
        "nav": "".join(f'<a href="#{anchor}">{text(name, 40)}</a>' for anchor, name in links),
        "style": _asset("viewer", "base.css") + _asset("seva", "page.css"),
        "body": "\n".join(filter(None, sections)),
    }
    before, *rest = _asset("seva", "page.html").split("{{")
    page = before + "".join(values[key] + tail for key, tail in (piece.split("}}", 1) for piece in rest))
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _asset(package: str, name: str) -> str:
    return (files(f"factgym.benchmarks.{package}") / "assets" / name).read_text("utf-8")


def _notes(notes: Iterable[str]) -> str:
    return "".join(f'<p class="note">{text(note)}</p>' for note in notes)


def _matrix(results: Sequence[Result], names: Sequence[str]) -> str:
    agents = list(dict.fromkeys(one.agent for one in results))
    found = {(one.data_set, one.agent): one.report for one in results}
    rows = []
    for agent in agents:
        cells = "".join(_matrix_cell(found.get((name, agent))) for name in names)
        rows.append(f'<tr><th scope="row">{text(agent, 60)}</th>{cells}</tr>')
    heads = "".join(f'<th scope="col">{text(name, 40)}</th>' for name in names)
    return (
        '<section class="card"><h2>Macro-F1</h2><p class="about">With BCa 95 % intervals over claims; 10,000 resamples.</p>'
        f'<div class="scroll"><table class="matrix"><thead><tr><th scope="col">agent</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _matrix_cell(report: SevaReport | None) -> str:
    if report is None:
        return f"<td>{ABSENT}</td>"
    one = report.scores["macro_f1"]
    return f'<td><strong>{_hundred(one.value)}</strong> <span class="muted">{_reach(one)}</span>{charts.bar(one)}</td>'


def _hundred(value: float | None) -> str:
    return ABSENT if value is None else decimal(100 * value, 1)


def _reach(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return ABSENT
    return f"[{_hundred(found.low)}, {_hundred(found.high)}]"


def _data_set(anchor: str, name: str, results: Sequence[Result]) -> str:
    report = results[0].report
    gold = report.labels["Attributable"].gold
    columns = ("agent", "macro-F1", "accuracy", "alignment", "chain", "format", "says NA", "false pos.", "ECE")
    rows = "".join(_agent_row(one) for one in results)
    details = "".join(_agent_detail(one) for one in results)
    heads = "".join(f'<th scope="col">{column}</th>' for column in columns)
    return (
        f'<section class="card" id="{anchor}"><h2>{text(name, 80)}</h2>'
        f'<p class="about">{count(report.tasks, "claim")}, {percent(gold / report.n)} attributable</p>'
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{details}</section>'
    )


def _agent_row(one: Result) -> str:
    found = one.report
    cells = [
        f'<strong>{_hundred(found.scores["macro_f1"].value)}</strong><span class="muted">{_reach(found.scores["macro_f1"])}</span>',
        _hundred(found.scores["accuracy"].value),
        decimal(found.structure["alignment"].value),
        decimal(found.structure["chain"].value),
        percent(found.structure["format"].value),
        percent(found.predicted_negative.value),
        percent(found.false_positive.value),
        decimal(found.reliability.ece),
    ]
    return f'<tr><th scope="row">{text(one.agent, 60)}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _agent_detail(one: Result) -> str:
    found = one.report
    matrix = confusion_svg(found.confusion, f"{one.agent[:40]}: labels")
    plot = reliability_svg(found.reliability, f"{one.agent[:40]}: calibration") if found.reliability.n else ""
    took = f", {decimal(one.seconds, 1)} s" if one.seconds else ""
    summary = f'{text(one.agent, 60)}<span class="muted">{count(found.n, "answer")}{took}</span>'
    top = f'<div class="stack">{matrix}{_biases(found)}</div><div class="stack">{plot}</div>'
    below = f"{_structure(found)}{_styles(found)}{_diagnoses(found)}"
    notes = _notes([*_faults(found), *found.notes])
    return (
        f'<details><summary>{summary}</summary><div class="detail">{notes}<div class="pair">{top}{below}</div></div>'
        "</details>"
    )


def _faults(found: SevaReport) -> list[str]:
    notes = []
    if found.errors:
        notes.append(f"{count(found.errors, 'infrastructure error')} left out of all scores.")
    if found.unscored:
        notes.append(f"{count(found.unscored, 'episode')} not scored.")
    return notes


def _estimates(title: str, rows: Iterable[tuple[str, Estimate]]) -> str:
    body = "".join(
        f'<tr><th scope="row">{text(name, 60)}</th><td>{decimal(one.value)}</td>'
        f'<td><span class="muted">{text(interval(one))}</span></td></tr>'
        for name, one in rows
    )
    return f"<div><h3>{title}</h3><table><tbody>{body}</tbody></table></div>"


def _structure(found: SevaReport) -> str:
    rows = [(STRUCTURE[name], one) for name, one in found.structure.items()]
    return _estimates("Structure", [*rows, *((f"reward, {name}", one) for name, one in found.rewards.items())])


def _biases(found: SevaReport) -> str:
    rows = [
        ("accuracy", found.scores["accuracy"]),
        ("balanced accuracy", found.scores["balanced_accuracy"]),
        ("Matthews correlation", found.scores["matthews"]),
        ("false positives", found.false_positive),
        ("false negatives", found.false_negative),
        ("says Not Attributable", found.predicted_negative),
        ("more than there are", found.negative_bias),
    ]
    if found.slices is not None and found.slices.std is not None:
        spread = Estimate(found.slices.std, found.slices.low, found.slices.high, len(found.slices.values))
        rows.append((f"σ of F1 over {spread.n} slices of {SLICE}; lowest, highest", spread))
    return _estimates("Labels and biases", rows)


def _styles(found: SevaReport) -> str:
    rows = []
    for name, groups in found.by_style.items():
        for i, (group, one) in enumerate(groups.items()):
            rows.append(
                f'<tr{" class=first" if i == 0 else ""}><th scope="row">{text(name)}</th><td>{text(group)}</td><td>{one.n:,}</td>'
                f'<td>{percent(one.value)}</td><td><span class="muted">{text(interval(one, 2))}</span></td></tr>'
            )
    if not rows:
        return ""
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("style", "claims that are", "supported", "rejected", "95 %")
    )
    return (
        f"<div><h3>False positives by writing style</h3><table class=styles><thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _diagnoses(found: SevaReport) -> str:
    if not found.diagnoses.counts:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{text(label(kind))}</th><td>{n:,}</td><td>{percent(found.diagnoses.shares[kind].value)}</td>'
        f'<td><span class="muted">{text(interval(found.diagnoses.shares[kind], 2))}</span></td></tr>'
        for kind, n in found.diagnoses.counts.items()
    )
    right = found.diagnosed
    known = f'<p class="fine">Of the rejections whose true error is known, {percent(right.value)} name it.</p>'
    return (
        f"<div><h3>Error types of the rejections</h3><table><tbody>{rows}</tbody></table>"
        f"{known if right.value is not None else ''}</div>"
    )


def _comparisons(found: Sequence[SevaComparison]) -> str:
    rows = []
    for one in found:
        for name, score in (("macro-F1", one.macro_f1), ("accuracy", one.accuracy)):
            rows.append(
                f'<tr><th scope="row">{text(one.env, 40)}: {text(one.second, 60)} against {text(one.first, 60)}, {name}</th>'
                f"<td>{decimal(score.first)}</td><td>{decimal(score.second)}</td>"
                f'<td><strong>{decimal(score.difference.value)}</strong><span class="muted">{text(interval(score.difference))}</span></td>'
                f"<td>{text(p_value(score.p))}</td></tr>"
            )
        if one.mcnemar is not None:
            test = one.mcnemar
            rows.append(
                f'<tr><th scope="row">McNemar, only one of the two right</th><td>{test.first_only:,}</td>'
                f"<td>{test.second_only:,}</td><td></td><td>{text(p_value(test.p))}</td></tr>"
            )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("", "first", "second", "difference, 95 %", "p"))
    notes = _notes(note for one in found for note in one.notes)
    return (
        '<section class="card"><h2>Comparisons</h2><p class="about">Paired BCa bootstrap over the same claims.</p>'
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>{notes}</section>'
    )


def _paper(tables: Sequence[PaperTable]) -> str:
    legend = '<span><span class="yes">✓</span> ours is theirs, to the digits printed</span><span><span class="no">✗</span> it is not</span>'
    cards = "".join(_paper_table(one) for one in tables)
    return (
        '<h2 class="group" id="paper">The paper’s tables, ours beside theirs</h2>'
        f'<p class="legend">{legend}</p><div class="tables">{cards}</div>'
    )


def _paper_table(table: PaperTable) -> str:
    marked = any(row.agrees is not None for row in table.rows)
    heads = "".join(f'<th scope="col">{text(name)}</th>' for name in table.columns) + ("<th></th>" if marked else "")
    rows = []
    for row in table.rows:
        first, *others = row.cells
        cells = "".join(f"<td>{text(cell)}</td>" for cell in others)
        mark = {
            None: '<td class="mark"></td>',
            True: '<td class="mark yes">✓</td>',
            False: '<td class="mark no">✗</td>',
        }
        rows.append(f'<tr><th scope="row">{text(first)}</th>{cells}{mark[row.agrees] if marked else ""}</tr>')
    words = table.columns[0] == _WORDS
    wide = words or len(table.columns) >= _WIDE_COLUMNS or table.kind == "simulated"
    notes = "".join(f'<p class="fine">{text(note)}</p>' for note in table.notes)
    return (
        f'<section class="card{" wide" if wide else ""}"><div class="head"><h2>{text(table.title)}</h2>'
        f'<span class="source">{text(table.source)}</span><span class="kind {table.kind}">{text(KINDS[table.kind])}</span></div>'
        f'<div class="scroll"><table{" class=words" if words else ""}><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{notes}{_picture(table)}</section>"
    )


def _picture(table: PaperTable) -> str:
    """The chart of Table 18, as an image of its own: its style must not reach the page."""
    if table.kind != "simulated":
        return ""
    data = base64.b64encode(collapse_svg(simulation()).encode("utf-8")).decode("ascii")
    alt = "Advantages and groups without a signal by training step, binary against process reward"
    return f'<img class="picture" alt="{alt}" src="data:image/svg+xml;base64,{data}">'
