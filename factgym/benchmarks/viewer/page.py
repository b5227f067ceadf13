"""Writing the page: overview first, then the script and its index, then the episodes one data block each.

The overview is drawn before the episodes have been read from disk, and an episode is parsed when it is opened, so that a
large run opens at once. Only the overview is a template; episodes are streamed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from factgym.agents.runs.files import EPISODES, ROLLOUTS
from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.comparison import RunComparison, compare_with_first
from factgym.benchmarks.costs import PriceTable, model_of
from factgym.benchmarks.formats import ABSENT, count
from factgym.benchmarks.metrics import RunSummary, summarise
from factgym.benchmarks.page import asset, data_block, fill_template, open_page
from factgym.benchmarks.records import text_form
from factgym.benchmarks.statistics.classification import NO_VERDICT, labels_in_order
from factgym.benchmarks.tables import fault_sentence
from factgym.benchmarks.viewer.episodes import COLUMNS, detail_of, row_of
from factgym.benchmarks.viewer.eve import (
    DatasetRows,
    evolution_runs,
    evolution_values,
    is_dataset,
    is_evolution,
    read_dataset,
)
from factgym.core.errors import ConfigError

_STYLES = ("base.css", "overview.css", "episodes.css")
_SCRIPTS = ("text.js", "turn.js", "detail.js", "list.js", "compare.js", "search.js", "main.js")
_LIVE = "live.js"
_MAX_LABELS = 40
_MAX_COMPONENTS = 60
_MAX_DEPTH = 3
"""Levels of the manifest that are listed one by one."""
_SHARED_ROLES = frozenset({"system", "developer"})
_QUESTIONS = {
    "format": "Is it in the agreed form?",
    "grounding": "Is it tied to real evidence?",
    "coverage": "Is all of the evidence there?",
    "calibration": "Is the label right?",
    "safety": "Does it avoid doing harm?",
}
_TOKEN_KINDS = {
    "prompt_tokens": ("prompt", ""),
    "cached_tokens": ("of these cached", "part"),
    "completion_tokens": ("completion", ""),
    "reasoning_tokens": ("of these reasoning", "part"),
}

Viewed = Run | DatasetRows


def write_page(
    run_dir: str | Path, out_path: str | Path | None = None, prices: PriceTable | None = None, live: bool = False
) -> Path:
    """Write the page of the run in `run_dir` and return its path, by default `run_dir/index.html`.

    A data set of EVE's solver, or its folder, is shown row by row. The page of a whole EVE evolution has its phases, and
    links to pages of the parts, which are written into their folders. prices: turns tokens into money. live: the page asks
    its server for changes.

    Raises DataError when the run is unusable or the page cannot be written. An existing page is replaced only by a
    complete one.
    """
    folder = Path(run_dir)
    run = None if not _is_run(folder) and is_evolution(folder) else open_viewed(folder)
    out = Path(out_path) if out_path is not None else (folder if run is None else run.folder) / "index.html"
    out = out / "index.html" if out.is_dir() else out
    if run is None:
        for part in evolution_runs(folder):
            write_page(part, None, prices)
        values = {
            "styles": _STYLES[:2],
            "policy": _policy(asset(*_STYLES[:2])),
            "title": "EVE",
            **evolution_values(folder),
        }
        values["manifest"] = list(flat_manifest(values["manifest"]))
        with open_page(out) as page:
            page.write(fill_template("evolution.html", values))
        return out
    rows: list[list[Any]] = []
    summary = _summarised(run, rows, prices=prices)
    with open_page(out) as page:
        _write(page, _values(run, summary), [run], rows, {}, live)
    return out


def write_comparison(runs: Mapping[str, Run], out: Path, live: bool = False) -> Path:
    """Write the page of several runs by name, side by side, the same task in each; return its path.

    Raises DataError when a run is unusable or the page cannot be written.
    """
    rows: list[list[Any]] = []
    summaries = [_summarised(run, rows, number) for number, run in enumerate(runs.values())]
    out = out / "index.html" if out.is_dir() else out
    with open_page(out) as page:
        _write(page, comparison_values(runs, summaries, rows), list(runs.values()), rows, {"runs": list(runs)}, live)
    return out


def _summarised(run: Viewed, rows: list[list[Any]], *cells: Any, prices: PriceTable | None = None) -> RunSummary:
    """Summarise a run in one pass that appends a row of the list for each episode, with `cells` at its end."""

    def listed() -> Iterator[dict[str, Any]]:
        for episode in run.episodes():
            rows.append([*row_of(episode), *cells])
            yield episode

    return summarise(listed(), prices, model=model_of(run.manifest), bounds=run.reward_bounds)


def _is_run(path: Path) -> bool:
    return path.name == EPISODES or (path / EPISODES).is_file()


def open_viewed(path: Path) -> Viewed:
    """Return the run or data set at a path, or the run of an iteration. Raises DataError where there is none."""
    if _is_run(path):
        return read_run(path)
    if is_dataset(path):
        return read_dataset(path)
    return read_run(path / ROLLOUTS if _is_run(path / ROLLOUTS) else path)


def _write(
    page: IO[str],
    values: Mapping[str, Any],
    runs: Sequence[Viewed],
    rows: Sequence[list[Any]],
    index: Mapping[str, Any],
    live: bool,
) -> None:
    """Write the page: values of its template, then rows and episodes as data. index: further members of the index."""
    style, script = asset(*_STYLES), asset(*_SCRIPTS, *((_LIVE,) if live else ()))
    policy = _policy(style, script, live)
    page.write(fill_template("page.html", {"policy": policy, "styles": _STYLES, "live": live, **values}))
    labels = {}
    for key, column in (("golds", "gold"), ("verdicts", "verdict")):
        distinct = labels_in_order(row[COLUMNS.index(column)] for row in rows if row[COLUMNS.index(column)])
        # Of many different labels, which are answers, none can be filtered by.
        labels[key] = distinct if len(distinct) <= _MAX_LABELS else ()
    parts = COLUMNS.index("parts")
    components = list(dict.fromkeys(name for row in rows for name in row[parts]))[:_MAX_COMPONENTS]
    for row in rows:
        row[parts] = [row[parts].get(name) for name in components]
    columns = [*COLUMNS, *(("run",) if index else ())]
    page.write(data_block("index", {"columns": columns, **labels, "components": components, **index, "rows": rows}))
    page.write(f"<script>{script}</script>\n")
    shared: dict[str, int] = {}
    for i, episode in enumerate(episode for run in runs for episode in run.episodes()):
        detail = detail_of(episode)
        for step in detail["steps"]:
            # Instructions are the same in all episodes: they are written once and referred to by number.
            if step["role"] in _SHARED_ROLES:
                step["text"] = shared.setdefault(step["text"], len(shared))
        page.write(data_block(f"e{i}", detail))
    page.write(data_block("shared", list(shared)))
    page.write("</body>\n</html>\n")


def _values(run: Viewed, summary: RunSummary) -> dict[str, Any]:
    """Values of the template up to the data."""
    notes = [*run.notes, *run.warnings]
    if summary.errors:
        notes.append(fault_sentence(summary))
    if summary.losses is not None:
        notes += summary.losses.sentences()
    if summary.unscored:
        notes.append(f"{count(summary.unscored, 'episode')} not scored.")
    environment = summary.env or str(run.manifest.get("env") or "run")
    version = f" v{summary.version}" if summary.version is not None else ""
    return {
        "overview": "overview.html",
        "n": summary.n,
        "environment": f"{environment[:80]}{version[:20]}",
        "agent": summary.agent or "no agent",
        "title": f"{environment[:80]} · {summary.agent[:80]}",
        "facts": list(_facts(run, summary)),
        "summary": summary,
        "notes": notes,
        "manifest": list(flat_manifest(run.manifest)),
        "no_verdict": NO_VERDICT,
        "surface_questions": _QUESTIONS,
        "token_kinds": _TOKEN_KINDS,
    }


def _facts(run: Viewed, summary: RunSummary) -> Iterator[str]:
    yield count(summary.n, "episode")
    if summary.groups:
        yield f"{count(summary.tasks, 'task')}, several samples each"
    if summary.splits:
        yield f"split {', '.join(summary.splits)}"
    if (seed := run.manifest.get("seed")) is not None:
        yield f"seed {seed}"
    if run.manifest.get("factgym"):
        yield f"factgym {run.manifest['factgym']}"


def flat_manifest(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the members of a manifest with dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value and prefix.count(".") < _MAX_DEPTH:
            yield from flat_manifest(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", ABSENT if value is None else text_form(value)


def _policy(style: str, script: str = "", live: bool = False) -> str:
    style_hash, script_hash = (
        "sha256-" + base64.b64encode(hashlib.sha256(source.encode("ascii")).digest()).decode("ascii")
        for source in (style, script)
    )
    scripts = f"script-src '{script_hash}'; " if script else ""
    server = "connect-src 'self'; " if live else ""
    return f"default-src 'none'; style-src '{style_hash}'; {scripts}{server}base-uri 'none'; form-action 'none'"


# The overview of several runs side by side: scores of each, paired differences to the first, and what changed.


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return names of folders: their ends as far as needed to tell them apart, numbered where one comes twice."""
    paths = [folder.resolve().parts for folder in folders]
    names: list[str] = []
    for length in range(1, max(map(len, paths), default=0) + 1):
        names = ["/".join(parts[-length:]) for parts in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({number})" for number, name in enumerate(names, 1)]


def comparison_values(
    runs: Mapping[str, Run], summaries: Sequence[RunSummary], rows: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """Return values of the page's template. rows: those of all runs, each with its run's number at the end."""
    names = list(runs)
    compared = compare_with_first(list(runs.values()))
    entries = [
        {
            "name": name,
            "summary": summary,
            "difference": result.differences[0] if isinstance(result, RunComparison) else None,
            "fixed": fixed,
            "broken": broken,
            "number": number,
        }
        for number, (name, summary, result, (fixed, broken)) in enumerate(
            zip(names, summaries, [None, *compared], _changes(rows, len(names)), strict=True)
        )
    ]
    environments = list(dict.fromkeys(summary.env for summary in summaries if summary.env))
    title = ", ".join(environments)[:80] or "runs"
    return {
        "overview": "runs.html",
        "n": len({(row[COLUMNS.index("task")], row[COLUMNS.index("sample")]) for row in rows}),
        "environment": title,
        "agent": f"{len(names)} runs",
        "title": f"{title} \u00b7 {len(names)} runs",
        "facts": [count(len(rows), "episode"), count(len({row[0] for row in rows}), "task")],
        "notes": list(_notes(runs, summaries, compared)),
        "runs": entries,
        "components": list(dict.fromkeys(name for summary in summaries for name in summary.components)),
    }


def _notes(
    runs: Mapping[str, Run], summaries: Sequence[RunSummary], compared: Sequence[RunComparison | ConfigError]
) -> Iterator[str]:
    for (name, run), summary in zip(runs.items(), summaries, strict=True):
        yield from (f"{name}: {note}" for note in (*run.notes, *run.warnings))
        if summary.errors:
            yield f"{name}: {count(summary.errors, 'infrastructure error')} left out of all scores."
    for name, result in zip(list(runs)[1:], compared, strict=True):
        if isinstance(result, ConfigError):
            yield f"{name} has no paired difference. {result}"


def _changes(rows: Sequence[Sequence[Any]], number: int) -> list[tuple[int, int]]:
    """Return how many tasks' samples each run has right that the first has not, and the reverse."""
    task, sample, state = (COLUMNS.index(name) for name in ("task", "sample", "state"))
    right: list[dict[tuple[Any, Any], bool]] = [{} for _ in range(number)]
    for row in rows:
        right[row[-1]][row[task], row[sample]] = row[state] == "right"
    pairs = [[(right[0][key], value) for key, value in run.items() if key in right[0]] for run in right]
    return [(pair.count((False, True)), pair.count((True, False))) for pair in pairs]
