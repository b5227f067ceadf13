"""Rounds of self-evolution on every benchmark: macro-F1, and the change against the seed (SEVA's Tables 2 and 22).

Read off the `metrics.json` of each round that `factgym evolve seva` leaves. The change is measured on the same claims,
with a paired BCa interval. A round is called a specialist when one benchmark rose and another fell and neither interval
holds 0: the paper shows the signs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from factgym.agents.runs.files import ALLOCATION, MANIFEST, METRICS, read_json
from factgym.benchmarks.charts import COLOURS, MUTED, label_text, panel_chart
from factgym.benchmarks.formats import ABSENT, printable
from factgym.benchmarks.statistics.bootstrap import paired_bca
from factgym.benchmarks.statistics.classification import confusion, macro_f1
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.terminal import add, number_columns, plain_table
from factgym.core.errors import DataError
from factgym.datasets.attribution import LABELS
from factgym.training import ARMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Group, RenderableType
    from rich.table import Table

Shape = Literal["specialist", "gain", "loss", "flat"]

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Cell:
    """A round on a benchmark. f1: macro-F1 in [0, 1]. change: against the seed, None for the seed. n: claims."""

    f1: float
    change: Estimate | None
    n: int

    @property
    def sign(self) -> int:
        """1 or -1 where the interval of the change lies on one side of 0, else 0."""
        if self.change is None or self.change.low is None or self.change.high is None:
            return 0
        return int(self.change.low > 0) - int(self.change.high < 0)


@dataclass(frozen=True, slots=True)
class Round:
    """One row. arm: empty for the seed. what: "seed", "rules" or "trained". asked, made, kept: probes. lines: trained on."""

    arm: str
    number: int
    what: str
    cells: Mapping[str, Cell]
    asked: int = 0
    made: int = 0
    kept: int = 0
    lines: int = 0

    @property
    def average(self) -> float:
        """The mean macro-F1, benchmarks at equal weight."""
        return sum(one.f1 for one in self.cells.values()) / len(self.cells)

    @property
    def spread(self) -> float:
        """The largest change minus the smallest; 0 for the seed."""
        changes = [one.change.value or 0.0 for one in self.cells.values() if one.change is not None]
        return max(changes) - min(changes) if changes else 0.0

    @property
    def shape(self) -> Shape:
        """What the changes whose intervals leave out 0 amount to."""
        signs = {one.sign for one in self.cells.values()}
        if {1, -1} <= signs:
            return "specialist"
        return "gain" if 1 in signs else "loss" if -1 in signs else "flat"

    @property
    def name(self) -> str:
        """How a table calls the row."""
        return f"{self.arm} {self.number}" if self.arm else "seed"


@dataclass(frozen=True, slots=True)
class Rounds:
    """All rounds of an evolution, the seed first. notes: sentences for people; who judged is among them."""

    benchmarks: tuple[str, ...]
    rows: tuple[Round, ...]
    notes: tuple[str, ...] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that have a round, in their order."""
        return tuple(dict.fromkeys(row.arm for row in self.rows if row.arm))

    def of(self, arm: str) -> list[Round]:
        """The seed and the rounds of an arm."""
        return [row for row in self.rows if row.arm in ("", arm)]

    def to_dict(self) -> dict[str, Any]:
        """JSON data; macro-F1 and changes in [0, 1], not percent."""
        return {
            "benchmarks": list(self.benchmarks),
            "rounds": [_row_data(row, self.rows[0]) for row in self.rows],
            "notes": list(self.notes),
        }


def read_rounds(folder: str | Path, *, resamples: int = RESAMPLES) -> Rounds:
    """The rounds in the folder of an evolution, finished ones only.

    resamples: of each interval. Raises DataError where there is no evolution, or its seed is not measured yet.
    """
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        raise DataError(f"{folder} holds no evolution: `factgym evolve seva --out {folder}` makes one")
    manifest = read_json(folder / MANIFEST)
    if not (folder / "round-0" / METRICS).is_file():
        raise DataError(f"the seed in {folder} is not measured yet: continue with --resume")
    seed = read_json(folder / "round-0" / METRICS)
    benchmarks = tuple(seed["benchmarks"])
    rows = [_row(seed, seed, resamples)]
    reports = []
    for path in _finished(folder):
        metrics = read_json(path / METRICS)
        rows.append(_row(metrics, seed, resamples))
        reports.append((rows[-1], metrics["probes"], read_json(path / ALLOCATION)))
    return Rounds(benchmarks, tuple(rows), tuple(_notes(reports)), manifest)


def _finished(folder: Path) -> Iterator[Path]:
    for arm in ARMS:
        number = 1
        while (path := folder / arm / f"round-{number}" / METRICS).is_file():
            yield path.parent
            number += 1


def _row(metrics: Mapping[str, Any], seed: Mapping[str, Any], resamples: int) -> Round:
    probes = metrics.get("probes") or {}
    cells = {}
    for name, found in metrics["benchmarks"].items():
        first = seed["benchmarks"][name]
        if found["tasks"] != first["tasks"]:
            raise DataError(f"round {metrics['round']} of {metrics['arm']!r} was measured on other claims of {name}")
        score = macro_f1(confusion(found["gold"], found["said"], LABELS))
        change = None
        if metrics is not seed:
            change = paired_bca(
                found["gold"], first["said"], found["said"], "macro_f1", labels=LABELS, resamples=resamples
            ).difference
        cells[name] = Cell(score, change, len(found["tasks"]))
    counts = {name: int(probes.get(name, 0)) for name in ("asked", "made", "kept")}
    lines = int((metrics.get("train") or {}).get("lines", 0))
    return Round(metrics["arm"], int(metrics["round"]), str(metrics["what"]), cells, **counts, lines=lines)


def _notes(reports: Sequence[tuple[Round, Mapping[str, Any], Mapping[str, Any]]]) -> Iterator[str]:
    yield from dict.fromkeys(str(probes["cross_check"]["note"]) for _, probes, _ in reports)
    for row, probes, _ in reports:
        short = {name: n for own in probes["shortfall"].values() for name, n in own.items()}
        if short:
            total = sum(sum(own.values()) for own in probes["shortfall"].values())
            yield f"{row.name}: {total} probes short of {row.asked}; most lacking: {max(short, key=lambda one: short[one])}."
    cut = [row.name for row, _, allocation in reports if allocation.get("limit") is not None]
    if cut:
        yield f"At most as many probes were kept as the arm weakness kept in the same round: {', '.join(cut)}."


def _row_data(row: Round, seed: Round) -> dict[str, Any]:
    return {
        "arm": row.arm,
        "round": row.number,
        "what": row.what,
        "average": row.average,
        "average_change": row.average - seed.average,
        "spread": row.spread,
        "shape": row.shape,
        "probes": {"asked": row.asked, "made": row.made, "kept": row.kept},
        "trained_on": row.lines,
        "benchmarks": {name: _cell_data(cell) for name, cell in row.cells.items()},
    }


def _cell_data(cell: Cell) -> dict[str, Any]:
    found: dict[str, Any] = {"macro_f1": cell.f1, "n": cell.n}
    if cell.change is not None:
        found |= {"change": cell.change.value, "low": cell.change.low, "high": cell.change.high}
    return found


_PER_TABLE = 4
"""Benchmarks side by side."""
_NAME_CHARS = 10
_NOTE_CHARS = 600


def short_name(benchmark: str) -> str:
    """A benchmark's name for a column or a line."""
    return printable(benchmark.removeprefix("generated-"), _NAME_CHARS)


def render_rounds(rounds: Rounds) -> Group:
    """Macro-F1 in percent and the change against the seed in points, by round and benchmark; then what it amounts to.

    Print it with a rich Console.
    """
    from rich.console import Group
    from rich.text import Text

    names = list(rounds.benchmarks)
    parts: list[RenderableType] = []
    for start in range(0, len(names), _PER_TABLE):
        chosen = names[start : start + _PER_TABLE]
        parts.append(_table(rounds, chosen, last=start + _PER_TABLE >= len(names), first=not start))
    legend = "Change against the seed in points; * where its paired 95 % BCa interval leaves out 0."
    parts.append(Text(legend, style="dim"))
    if len(rounds.rows) > 1:
        parts += [Text(""), _probes(rounds)]
    parts += [
        Text(printable(note, _NOTE_CHARS), style="yellow" if "NOT judged" in note else "") for note in rounds.notes
    ]
    return Group(*parts)


def _table(rounds: Rounds, names: Sequence[str], *, last: bool, first: bool) -> Table:
    table = plain_table("Macro-F1 by round and benchmark" if first else "")
    table.add_column("round", no_wrap=True)
    number_columns(table, *(short_name(name) for name in names), *(["average"] if last else []))
    seed = rounds.rows[0]
    for index, row in enumerate(rounds.rows):
        ends = index + 1 == len(rounds.rows) or rounds.rows[index + 1].arm != row.arm
        cells = [_cell(row.cells[name]) for name in names]
        if last:
            cells.append(_average(row, seed))
        add(table, row.name, *cells, end_section=ends)
    return table


def _cell(cell: Cell) -> str:
    if cell.change is None:
        return f"{100 * cell.f1:.1f}"
    return f"{100 * cell.f1:.1f} {_points(cell.change.value)}{'*' if cell.sign else ' '}"


def _average(row: Round, seed: Round) -> str:
    change = "" if row is seed else f" {_points(row.average - seed.average)}"
    return f"{100 * row.average:.1f}{change}"


def _points(change: float | None) -> str:
    return ABSENT if change is None else f"{round(100 * change, 1) + 0.0:+.1f}"


def _probes(rounds: Rounds) -> Table:
    table = plain_table("Probes, and what the changes amount to")
    table.add_column("round", no_wrap=True)
    number_columns(table, "asked", "made", "kept", "taught", "spread")
    table.add_column("beyond chance")
    for index, row in enumerate(rounds.rows):
        ends = index + 1 == len(rounds.rows) or rounds.rows[index + 1].arm != row.arm
        if row.arm:
            counts = [f"{n:,}" for n in (row.asked, row.made, row.kept)]
            taught = f"{row.lines:,}" if row.lines else ABSENT
            add(table, row.name, *counts, taught, f"{100 * row.spread:.1f}", _amounts(row), end_section=ends)
    return table


def _amounts(row: Round) -> str:
    """`specialist: + halueval, - truthfulqa`."""
    said = [
        f"{mark} {', '.join(names)}"
        for mark, sign in (("+", 1), ("-", -1))
        if (names := [short_name(name) for name, cell in row.cells.items() if cell.sign == sign])
    ]
    return f"{row.shape}: {'; '.join(said)}" if said else row.shape


def rounds_chart(rounds: Rounds, title: str = "What each round of self-evolution changed") -> str:
    """Return the specialisation chart as SVG: each benchmark's change of macro-F1 by round, a panel for each arm.

    Bars are paired 95 % intervals in points; the dotted line is the average of the benchmarks. The paper's Figures 3 and
    7. Raises MissingExtraError without the chart library.
    """
    reach = 5.0
    for cell in (cell for row in rounds.rows for cell in row.cells.values()):
        if cell.change is not None:
            ends = (cell.change.value, cell.change.low, cell.change.high)
            reach = max(reach, *(abs(100 * end) for end in ends if end is not None))

    def draw(axes: Axes, arm: str) -> None:
        rows = rounds.of(arm)
        for index, name in enumerate(rounds.benchmarks):
            xs = [row.number + 0.04 * (index % 5 - 2) for row in rows]
            changes = [row.cells[name].change for row in rows]
            values = [100 * ((change.value if change else None) or 0.0) for change in changes]
            low = [
                v - 100 * (c.low if c and c.low is not None else v / 100) for v, c in zip(values, changes, strict=True)
            ]
            high = [
                100 * (c.high if c and c.high is not None else v / 100) - v
                for v, c in zip(values, changes, strict=True)
            ]
            reaches = [[max(0.0, end) for end in low], [max(0.0, end) for end in high]]
            line, colour = "-" if index < len(COLOURS) else "--", COLOURS[index % len(COLOURS)]
            name = label_text(short_name(name))
            axes.errorbar(xs, values, yerr=reaches, marker="o", markersize=4, label=name, linestyle=line, color=colour)
        averages = [100 * (row.average - rows[0].average) for row in rows]
        axes.plot([row.number for row in rows], averages, ":", color=MUTED, linewidth=2, label="average")
        axes.axhline(0, color=MUTED, linewidth=0.8)
        axes.set_xticks([row.number for row in rows])
        axes.set(xlabel="round (1: rules in the prompt)", ylim=(-1.05 * reach, 1.05 * reach))
        axes.set_ylabel("macro-F1 against the seed, points")
        axes.legend(fontsize=8)

    panels = {arm: partial(draw, arm=arm) for arm in rounds.arms}
    return panel_chart(title, panels, (1.0 + 4.2 * max(1, len(panels)), 4.6))
