"""The report of an evolution: macro-F1 of every round, and its change against the seed (SEVA's Tables 2 and 22).

The change is measured on the same claims, with a paired BCa interval. A round is called a specialist when one benchmark
rose and another fell and neither interval holds 0: the paper shows the signs alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from factgym.agents.runs.files import ALLOCATION, MANIFEST, METRICS, read_json
from factgym.benchmarks.charts import COLOURS, MUTED, error_bars, label_text, panel_chart
from factgym.benchmarks.formats import ABSENT, printable
from factgym.benchmarks.report import Column, Note, Part, Row, Section, make_table
from factgym.benchmarks.statistics.bootstrap import paired_bca
from factgym.benchmarks.statistics.classification import confusion, table_score
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.terminal import render_section
from factgym.core.errors import DataError
from factgym.datasets.attribution import LABELS
from factgym.training.seva.settings import ARMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Group

Shape = Literal["specialist", "gain", "loss", "flat"]

RESAMPLES = 2000
_BENCHMARKS_PER_TABLE = 4
_NAME_CHARS = 10


@dataclass(frozen=True, slots=True)
class BenchmarkScore:
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

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        change = self.change
        interval = {} if change is None else {"change": change.value, "low": change.low, "high": change.high}
        return {"macro_f1": self.f1, "n": self.n, **interval}


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One round. arm: empty for the seed. refined: "seed", "rules" or "trained". probes: numbers of the "asked", "made"
    and "kept" ones. lines: of its training data.
    """

    arm: str
    number: int
    refined: str
    scores: Mapping[str, BenchmarkScore]
    probes: Mapping[str, int] = field(default_factory=dict)
    lines: int = 0

    @property
    def average(self) -> float:
        """The mean macro-F1, benchmarks at equal weight."""
        return sum(score.f1 for score in self.scores.values()) / len(self.scores)

    @property
    def spread(self) -> float:
        """The largest change minus the smallest; 0 for the seed."""
        changes = [score.change.value or 0.0 for score in self.scores.values() if score.change is not None]
        return max(changes) - min(changes) if changes else 0.0

    @property
    def shape(self) -> Shape:
        """A summary of the changes whose intervals leave out 0."""
        signs = {score.sign for score in self.scores.values()}
        if {1, -1} <= signs:
            return "specialist"
        return "gain" if 1 in signs else "loss" if -1 in signs else "flat"

    @property
    def name(self) -> str:
        """The row's name in a table."""
        return f"{self.arm} {self.number}" if self.arm else "seed"


@dataclass(frozen=True, slots=True)
class EvolutionReport:
    """All rounds of an evolution, the seed first. notes: sentences for people, the judge's among them."""

    benchmarks: tuple[str, ...]
    rows: tuple[RoundResult, ...]
    notes: tuple[str, ...] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that have a round, in their order."""
        return tuple(dict.fromkeys(row.arm for row in self.rows if row.arm))

    def rows_of(self, arm: str) -> list[RoundResult]:
        """The seed and the rounds of an arm."""
        return [row for row in self.rows if row.arm in ("", arm)]

    def to_dict(self) -> dict[str, Any]:
        """JSON data; macro-F1 and changes in [0, 1], not percent."""
        rounds = [
            {
                "arm": row.arm,
                "round": row.number,
                "what": row.refined,
                "average": row.average,
                "average_change": row.average - self.rows[0].average,
                "spread": row.spread,
                "shape": row.shape,
                "probes": row.probes,
                "trained_on": row.lines,
                "benchmarks": {name: score.to_dict() for name, score in row.scores.items()},
            }
            for row in self.rows
        ]
        return {"benchmarks": list(self.benchmarks), "rounds": rounds, "notes": list(self.notes)}


def read_report(folder: str | Path, *, resamples: int = RESAMPLES) -> EvolutionReport:
    """Read the finished rounds in the folder of an evolution, off their `metrics.json`.

    resamples: of each interval. Raises DataError without an evolution, and before its seed is measured.
    """
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        raise DataError(f"{folder} holds no evolution: `factgym evolve seva --out {folder}` makes one")
    if not (folder / "round-0" / METRICS).is_file():
        raise DataError(f"the seed in {folder} is not measured yet: continue with --resume")
    manifest, seed = read_json(folder / MANIFEST), read_json(folder / "round-0" / METRICS)
    rows = [_round_result(seed, seed, resamples)]
    judges: dict[str, None] = {}
    shortfalls, limited = [], []
    for arm in ARMS:
        number = 1
        while (path := folder / arm / f"round-{number}" / METRICS).is_file():
            number += 1
            metrics = read_json(path)
            row = _round_result(metrics, seed, resamples)
            rows.append(row)
            probes = metrics["probes"]
            if arm != "claims" and manifest.get("proposer") != "claims":  # claims of a source are not judged
                judges[str(probes["cross_check"]["note"])] = None
            by_source = [*probes["shortfall"].values()]
            if any(by_source):
                total = sum(sum(counts.values()) for counts in by_source)
                # Of several sources the last one counts for "most lacking".
                missing = {category: n for counts in by_source for category, n in counts.items()}
                lacking = max(missing, key=lambda category: missing[category])
                shortfalls.append(
                    f"{row.name}: {total} probes short of {row.probes['asked']}; most lacking: {lacking}."
                )
            if read_json(path.with_name(ALLOCATION)).get("limit") is not None:
                limited.append(row.name)
    notes = [*judges, *shortfalls]
    if limited:
        notes.append(
            f"At most as many probes were kept as the arm weakness kept in the same round: {', '.join(limited)}."
        )
    if len(rows) > 1 and (manifest.get("agent") or {}).get("kind") == "features":
        notes.append("The feature verifier reads no instructions: the rules of round 1 cannot change it.")
    return EvolutionReport(tuple(seed["benchmarks"]), tuple(rows), tuple(notes), manifest)


def _round_result(metrics: Mapping[str, Any], seed: Mapping[str, Any], resamples: int) -> RoundResult:
    """Return a round's macro-F1 on each benchmark, with the paired BCa interval of its change from the seed."""
    scores = {}
    for name, measured in metrics["benchmarks"].items():
        before = seed["benchmarks"][name]
        if measured["tasks"] != before["tasks"]:
            raise DataError(f"round {metrics['round']} of {metrics['arm']!r} was measured on other claims of {name}")
        f1 = table_score(confusion(measured["gold"], measured["said"], LABELS), "macro_f1")
        change = None
        if metrics is not seed:
            change = paired_bca(
                measured["gold"], before["said"], measured["said"], "macro_f1", labels=LABELS, resamples=resamples
            ).difference
        scores[name] = BenchmarkScore(f1, change, len(measured["tasks"]))
    report = metrics.get("probes") or {}
    probes = {name: int(report.get(name, 0)) for name in ("asked", "made", "kept")}
    lines = int((metrics.get("train") or {}).get("lines", 0))
    return RoundResult(metrics["arm"], int(metrics["round"]), str(metrics["what"]), scores, probes, lines)


def short_name(benchmark: str) -> str:
    """A benchmark's name for a column or a line."""
    return printable(benchmark.removeprefix("generated-"), _NAME_CHARS)


def render_evolution(report: EvolutionReport) -> Group:
    """Macro-F1 in percent and its change in points, by round and benchmark; then the probes and a summary.

    Print it with a rich Console.
    """
    from rich.console import Group

    rows, names = report.rows, list(report.benchmarks)
    last_of_arm = {row.arm: row for row in rows}
    ends = [row is last_of_arm[row.arm] for row in rows]
    parts: list[Part] = []
    for start in range(0, len(names), _BENCHMARKS_PER_TABLE):
        chosen = names[start : start + _BENCHMARKS_PER_TABLE]
        last = start + _BENCHMARKS_PER_TABLE >= len(names)
        lines = []
        for row, end in zip(rows, ends, strict=True):
            cells = []
            for score in (row.scores[name] for name in chosen):
                change = "" if score.change is None else f" {_points(score.change.value)}{'*' if score.sign else ''}"
                cells.append(f"{100 * score.f1:.1f}{change}")
            if last:
                change = "" if row is rows[0] else f" {_points(row.average - rows[0].average)}"
                cells.append(f"{100 * row.average:.1f}{change}")
            lines.append(Row((row.name, *cells), ends_group=end))
        columns = ("round", *map(short_name, chosen), *(["average"] if last else []))
        parts.append(make_table("" if start else "Macro-F1 by round and benchmark", columns, lines))
    parts.append(
        Note("Change against the seed in points; * where its paired 95 % BCa interval leaves out 0.", fine=True)
    )
    if len(rows) > 1:
        lines = []
        for row, end in zip(rows[1:], ends[1:], strict=True):
            gains, losses = (
                [short_name(name) for name, score in row.scores.items() if score.sign == sign] for sign in (1, -1)
            )
            signs = [f"{mark} {', '.join(moved)}" for mark, moved in (("+", gains), ("-", losses)) if moved]
            counts = [f"{n:,}" for n in row.probes.values()]
            cells = [*counts, f"{row.lines:,}" if row.lines else ABSENT, f"{100 * row.spread:.1f}"]
            summary = f"{row.shape}: {'; '.join(signs)}" if signs else row.shape
            lines.append(Row((row.name, *cells, summary), ends_group=end))
        heads = ("round", "asked", "made", "kept", "taught", "spread", Column("beyond chance", left_aligned=True))
        parts.append(replace(make_table("Probes, and a summary of the changes", heads, lines), wrap=True))
    parts += [Note(note, fine="NOT judged" not in note) for note in report.notes]
    return Group(*render_section(Section("", tuple(parts))))


def _points(change: float | None) -> str:
    return ABSENT if change is None else f"{round(100 * change, 1) + 0.0:+.1f}"


def evolution_chart(report: EvolutionReport, title: str = "Changes by round of self-evolution") -> str:
    """The specialisation chart as SVG: each benchmark's change of macro-F1 by round, a panel for each arm.

    Bars are paired 95 % intervals in points; the dotted line is the average of the benchmarks. The paper's Figures 3 and
    7. Raises MissingExtraError without the chart library.
    """
    changes = [score.change for row in report.rows for score in row.scores.values() if score.change is not None]
    ends = [end for change in changes for end in (change.value, change.low, change.high) if end is not None]
    reach = max(5.0, *(abs(100 * end) for end in ends)) if ends else 5.0

    def draw(axes: Axes, arm: str) -> None:
        rows = report.rows_of(arm)
        for index, name in enumerate(report.benchmarks):
            xs = [row.number + 0.04 * (index % 5 - 2) for row in rows]
            estimates = [row.scores[name].change or Estimate(0.0, None, None, 0) for row in rows]
            style = {"ls": "-" if index < len(COLOURS) else "--", "color": COLOURS[index % len(COLOURS)]}
            error_bars(axes, xs, estimates, 100, marker="o", markersize=4, label=label_text(short_name(name)), **style)
        averages = [100 * (row.average - rows[0].average) for row in rows]
        axes.plot([row.number for row in rows], averages, ":", color=MUTED, linewidth=2, label="average")
        axes.axhline(0, color=MUTED, linewidth=0.8)
        axes.set_xticks([row.number for row in rows])
        axes.set(xlabel="round (1: rules in the prompt)", ylim=(-1.05 * reach, 1.05 * reach))
        axes.set_ylabel("macro-F1 against the seed, points")
        axes.legend(fontsize=8)

    panels = {arm: partial(draw, arm=arm) for arm in report.arms}
    return panel_chart(title, panels, (1.0 + 4.2 * max(1, len(panels)), 4.6))
