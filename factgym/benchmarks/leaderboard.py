"""Leaderboards: runs of the same tasks, prompts and settings by their reward, each in pairs with the best."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from factgym.agents.runs.read import Run
from factgym.benchmarks.comparison import SAME_MEMBERS, RunComparison, check_comparable, compare_with_first
from factgym.benchmarks.formats import count, decimal, interval, signed
from factgym.benchmarks.metrics import RunSummary
from factgym.benchmarks.page import cut
from factgym.benchmarks.report import Cell, Column, Link, Note, Part, Section, make_table
from factgym.core.errors import ConfigError

_MAX_SETTINGS_CHARS = 300


@dataclass(frozen=True, slots=True)
class Entry:
    """A run of a board. address: of its page, empty where there is none."""

    name: str
    run: Run
    summary: RunSummary
    address: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """Runs whose manifests agree, the highest reward first; those without a scored episode are last."""

    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        """The environment with its version and split."""
        summary = self.entries[0].summary
        version = f" v{summary.version}" if summary.version is not None else ""
        return f"{summary.env or 'unknown environment'}{version} {', '.join(summary.splits)}".strip()

    @property
    def settings(self) -> str:
        """The settings that all runs have, without tables of settings."""
        config = self.entries[0].run.manifest.get("config")
        values = config.items() if isinstance(config, Mapping) else ()
        return cut(
            ", ".join(f"{name}={value}" for name, value in values if isinstance(value, str | int | float)),
            _MAX_SETTINGS_CHARS,
        )


def make_boards(entries: Sequence[Entry]) -> list[Board]:
    """Return the boards of runs with a manifest: those that may be compared are on one board."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.run.manifest:
            same = {name: entry.run.manifest.get(name) for name in SAME_MEMBERS}
            groups.setdefault(json.dumps(same, sort_keys=True), []).append(entry)
    boards = [Board(tuple(sorted(group, key=_rank))) for group in groups.values()]
    return sorted(boards, key=lambda board: board.title)


def _rank(entry: Entry) -> tuple[float, str]:
    reward = entry.summary.reward.value
    return (float("inf") if reward is None else -reward), entry.name


def board_sections(boards: Sequence[Board], pages: Mapping[int, str]) -> list[Section]:
    """Return a section for each board. pages: number of a board -> the address of its runs side by side."""
    sections = []
    for number, board in enumerate(boards):
        others = [other for other in boards[:number] if other.title == board.title]
        parts: list[Part] = [_table(board), *_notes(board)]
        parts += [
            Note(f"Not on one board with the above: {_refusal(other, board)}", fine=True) for other in others[:1]
        ]
        if number in pages:
            parts.append(Link("These runs side by side, task by task", pages[number]))
        sections.append(Section(board.title, tuple(parts), about=board.settings, in_navigation=True))
    return sections


def _refusal(first: Board, second: Board) -> str:
    try:
        check_comparable(first.entries[0].run, second.entries[0].run)
    except ConfigError as error:
        return str(error)
    raise AssertionError("runs of two boards can be compared")


def _table(board: Board) -> Part:
    scored = [entry for entry in board.entries if entry.summary.scored]
    compared = [None, *compare_with_first([entry.run for entry in scored])] if scored else []
    results = dict(zip([entry.name for entry in scored], compared, strict=True))
    rows: list[list[Cell]] = []
    for entry in board.entries:
        summary, result = entry.summary, results.get(entry.name)
        difference = result.find("reward").difference if isinstance(result, RunComparison) else None
        name: Cell = Link(entry.name, entry.address) if entry.address else entry.name
        rows.append(
            [
                name,
                summary.agent,
                str(summary.tasks),
                decimal(summary.reward.value),
                interval(summary.reward),
                decimal(summary.accuracy.value),
                signed(difference.value or 0.0, 3) if difference else "",
                interval(difference) if difference else "",
            ]
        )
    heads = ("run", Column("agent", left_aligned=True), "tasks", "reward", "95 % interval", "accuracy")
    return make_table("", (*heads, "to the best", "95 % interval"), rows)


def _notes(board: Board) -> list[Note]:
    notes = [f"{entry.name}: {note}" for entry in board.entries for note in entry.run.notes]
    notes += [
        f"{entry.name}: {count(entry.summary.errors, 'infrastructure error')} left out of all scores."
        for entry in board.entries
        if entry.summary.errors
    ]
    warnings = dict.fromkeys(warning for entry in board.entries for warning in entry.run.warnings)
    texts = [Note(text) for text in (*notes, *warnings)]
    if len(board.entries) > 1:
        about = "Differences to the best are in pairs over the tasks that both have scored, with Student's interval."
        texts.append(Note(about, fine=True))
    return texts
