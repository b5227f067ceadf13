"""A folder of runs as static pages: boards, certificates and training curves on one index, the runs' pages beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from factgym.agents.runs.files import EPISODES, read_json
from factgym.agents.runs.read import read_run
from factgym.benchmarks.benchmark import folder_name
from factgym.benchmarks.formats import decimal, interval, signed
from factgym.benchmarks.leaderboard import Entry, board_sections, make_boards
from factgym.benchmarks.metrics import summarise
from factgym.benchmarks.page import report_page, write_page
from factgym.benchmarks.report import Chart, Column, Link, Note, Part, Report, Section, make_table
from factgym.benchmarks.search.certificate import best_exploit, describe, read_certificate
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.viewer.comparison import run_names
from factgym.benchmarks.viewer.page import write_comparison
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
        entries.append(Entry(name, run, summarise(run.episodes()), address))
    boards = make_boards(entries)
    pages = {}
    for number, board in enumerate(boards):
        if episodes and len(board.entries) > 1:
            pages[number] = f"runs/board-{number + 1}.html"
            write_comparison({entry.name: entry.run for entry in board.entries}, out / pages[number])
    yield from board_sections(boards, pages)
    if bare := [entry.name for entry in entries if not entry.run.manifest]:
        text = f"Without a manifest, and so on no board: {', '.join(bare)}"
        yield Section("Other runs", (Note(text),))


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
