"""A folder of runs as static pages: boards, certificates and training curves on one index, the runs' pages beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from factgym.agents.runs.files import EPISODES, read_json
from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.answers import group_by
from factgym.benchmarks.benchmark import folder_name
from factgym.benchmarks.comparison import SAME_MEMBERS, RunComparison, check_comparable, compare_with_first
from factgym.benchmarks.formats import count, decimal, interval, signed
from factgym.benchmarks.metrics import RunSummary, summarise
from factgym.benchmarks.page import cut, report_page, write_page
from factgym.benchmarks.report import Cell, Chart, Column, Link, Note, Part, Report, Section, make_table
from factgym.benchmarks.search.certificate import best_exploit, describe, read_certificate
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.viewer.page import run_names, write_comparison
from factgym.benchmarks.viewer.page import write_page as write_run_page
from factgym.core.errors import ConfigError, DataError
from factgym.training.recipes.curves import (
    checkpoint_runs,
    held_out_chart,
    is_training_run,
    result_tables,
    write_curves,
)
from factgym.training.recipes.recipe import read_recipe, recipe_of
from factgym.training.recipes.run import METRICS, RECIPE, RESULT

_MAX_CERTIFICATE_BYTES = 4 << 20


def publish(folder: Path, out: Path, *, episodes: bool = True) -> Path:
    """Write the pages of all runs, training runs and certificates below a folder; return the index.

    episodes: write the pages of episodes as well. Raises ConfigError for a folder without any, and DataError for a run
    that cannot be read.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder")
    training = sorted(path.parent for path in folder.rglob(RECIPE) if is_training_run(path.parent))
    runs = [path.parent for path in sorted(folder.rglob(EPISODES)) if not _below(path, [*training, out])]
    certificates = list(_certificates(path for path in sorted(folder.rglob("*.json")) if not _below(path, [out])))
    if not runs and not training and not certificates:
        raise ConfigError(f"{folder} holds no run, no training run and no certificate")
    sections = [*_board_sections(runs, out, episodes), *_certificate_sections(certificates)]
    names = dict(zip(training, _page_names(training), strict=True))
    sections += [_training_section(run, names[run], out, episodes) for run in training]
    return write_page(report_page(Report(folder.resolve().name, tuple(sections))), out / "index.html")


def _below(path: Path, folders: Iterable[Path]) -> bool:
    resolved = path.resolve()
    return any(resolved.is_relative_to(folder.resolve()) for folder in folders)


def _page_names(folders: list[Path]) -> list[str]:
    """Names for files: letters, digits and dashes, numbered, so that no two are equal."""
    return [f"{number}-{folder_name(name)}" for number, name in enumerate(run_names(folders), 1)]


def _board_sections(runs: list[Path], out: Path, episodes: bool) -> Iterator[Section]:
    entries = []
    for folder, name, page in zip(runs, run_names(runs), _page_names(runs), strict=True):
        run = read_run(folder)
        address = f"runs/{page}.html" if episodes else ""
        if episodes:
            (out / "runs").mkdir(parents=True, exist_ok=True)
            write_run_page(folder, out / address)
        entries.append(Entry(name, run, summarise(run.episodes(), bounds=run.reward_bounds), address))
    boards = make_boards(entries)
    pages = {}
    for number, board in enumerate(boards):
        if episodes and len(board.entries) > 1:
            pages[number] = f"runs/board-{number + 1}.html"
            write_comparison({entry.name: entry.run for entry in board.entries}, out / pages[number])
    yield from board_sections(boards, pages)
    if bare := [entry.name for entry in entries if not entry.run.manifest]:
        yield Section("Other runs", (Note(f"Without a manifest, and so on no board: {', '.join(bare)}"),))


def _certificates(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        if path.is_file() and path.stat().st_size <= _MAX_CERTIFICATE_BYTES:
            try:
                yield read_certificate(path.read_text("utf-8", "replace"))
            except DataError:
                continue  # another file of JSON


def _certificate_sections(certificates: list[dict[str, Any]]) -> list[Section]:
    if not certificates:
        return []
    rows = []
    for value in certificates:
        scripted = {role: estimate["value"] for role, estimate in value["scripted"].items()}
        rewards = value["baseline"]["value"], scripted.get("teacher"), value["without_judgement"], best_exploit(value)
        cells = [decimal(reward) for reward in (*rewards, scripted.get("oracle"))]
        passed = "passed" if value["passed"] else "FAILED"
        rows.append([f"{value['env']} v{value['version']}", value["reward"], *cells, str(value["tried"]), passed])
    heads = (
        "environment",
        Column("reward", left_aligned=True),
        "honest baseline",
        "teacher",
        "never judges",
        "best exploit",
    )
    table = make_table("", (*heads, "oracle", "strategies tried", "outcome"), rows)
    about = (
        "Mean rewards on fresh tasks of the best strategies that factgym audit --search composed against each reward."
    )
    strategies: list[Part] = [_strategy_table(value) for value in certificates if value["strategies"]]
    return [
        Section("Certificates", (table,), about=about, in_navigation=True),
        Section("The strategies of the certificates", tuple(strategies), folded=True),
    ]


def _strategy_table(value: Mapping[str, Any]) -> Part:
    rows = []
    for entry in value["strategies"]:
        difference = entry["difference"]
        reach = interval(Estimate(difference["value"], difference["low"], difference["high"], difference["n"]))
        cells = [entry["kind"], decimal(entry["reward"]["value"]), signed(difference["value"], 3), reach]
        rows.append([describe(entry["strategy"]), *cells, entry["verdict"]])
    heads = ("strategy", Column("kind", left_aligned=True), "reward", "to the baseline", "95 % interval")
    return make_table(value["env"], (*heads, Column("verdict", left_aligned=True)), rows)


def _training_section(run: Path, name: str, out: Path, episodes: bool) -> Section:
    recipe = recipe_of(read_recipe(run / RECIPE))
    (out / "training").mkdir(parents=True, exist_ok=True)
    checkpoints = {step: read_run(folder) for step, folder in checkpoint_runs(run).items()} if episodes else {}
    beside = f"{name}-checkpoints.html" if len(checkpoints) > 1 else None
    if beside is not None:
        write_comparison(checkpoints, out / "training" / beside)
    page = write_curves(run, out / "training" / f"{name}.html", beside)
    parts: list[Part] = []
    if (run / RESULT).is_file():
        result = read_json(run / RESULT)
        parts += result_tables(result)
        if result.get("held_out"):
            steps = [stage["steps"] for stage in result["stages"]]
            parts.append(Chart("held-out reward", partial(held_out_chart, "held-out reward", result, steps)))
    else:
        parts.append(Note(f"This run is not finished: {METRICS} has its curves so far."))
    parts.append(Link("All curves, the recipe and episodes", f"training/{page.name}"))
    title = f"Training: {recipe.model} on {recipe.env}"
    return Section(title, tuple(parts), about=" then ".join(stage.kind for stage in recipe.stages), in_navigation=True)


# Leaderboards: runs of the same tasks, prompts and settings by their reward, each in pairs with the best.

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
    groups = group_by(
        (entry for entry in entries if entry.run.manifest),
        lambda entry: json.dumps({name: entry.run.manifest.get(name) for name in SAME_MEMBERS}, sort_keys=True),
    )
    return sorted([Board(tuple(sorted(group, key=_rank))) for group in groups.values()], key=lambda board: board.title)


def _rank(entry: Entry) -> tuple[float, str]:
    reward = entry.summary.reward.value
    return (float("inf") if reward is None else -reward), entry.name


def board_sections(boards: Sequence[Board], pages: Mapping[int, str]) -> list[Section]:
    """Return a section for each board. pages: number of a board -> the address of its runs side by side."""
    sections = []
    for number, board in enumerate(boards):
        parts: list[Part] = [_table(board), *_notes(board)]
        if other := next((other for other in boards[:number] if other.title == board.title), None):
            try:
                check_comparable(other.entries[0].run, board.entries[0].run)
            except ConfigError as error:
                parts.append(Note(f"Not on one board with the above: {error}", fine=True))
        if number in pages:
            parts.append(Link("These runs side by side, task by task", pages[number]))
        sections.append(Section(board.title, tuple(parts), about=board.settings, in_navigation=True))
    return sections


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
