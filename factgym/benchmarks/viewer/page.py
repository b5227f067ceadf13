"""Writing the page: overview first, then the script and its index, then the episodes one data block each.

The order makes a large run open at once: the overview is drawn before the episodes have been read from disk, and an
episode is parsed when it is opened. Only the overview is a template; episodes are streamed. EVE's data sets and evolutions
have readers of their own.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from factgym.agents.runs import EPISODES, ROLLOUTS
from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.costs import PriceTable, model_of
from factgym.benchmarks.formats import ABSENT, count
from factgym.benchmarks.metrics import RunSummary, summarise
from factgym.benchmarks.page import asset, data_block, fill_template
from factgym.benchmarks.records import as_text
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
from factgym.core.errors import DataError

_STYLES = ("base.css", "overview.css", "episodes.css")
_SCRIPTS = ("text.js", "turn.js", "detail.js", "list.js", "main.js")
_MAX_LABELS = 40
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


def write_page(run_dir: str | Path, out_path: str | Path | None = None, prices: PriceTable | None = None) -> Path:
    """Write the page of the run in `run_dir` and return its path, by default `run_dir/index.html`.

    A data set of EVE's solver, or its folder, is shown row by row. The page of a whole EVE evolution has its phases, and
    links to pages of the parts, which are written into their folders. prices: turns tokens into money.

    Raises DataError when the run is unusable or the page cannot be written. A page that was there is replaced only
    by a complete one.
    """
    folder = Path(run_dir)
    if not _is_run(folder) and is_evolution(folder):
        return _write_evolution(folder, out_path, prices)
    run = open_viewed(folder)
    rows: list[list[Any]] = []
    summary = summarise(_listing(run, rows), prices, model=model_of(run.manifest))
    out = _target(out_path, run.folder)
    with _replaced(out) as page:
        _write(page, run, summary, rows)
    return out


def _is_run(path: Path) -> bool:
    return path.name == EPISODES or (path / EPISODES).is_file()


def _write_evolution(folder: Path, out_path: str | Path | None, prices: PriceTable | None) -> Path:
    for part in evolution_runs(folder):
        write_page(part, None, prices)
    style = asset(*_STYLES[:2])
    values = {"styles": _STYLES[:2], "policy": _policy(style), "title": "EVE", **evolution_values(folder)}
    values["manifest"] = list(flat_manifest(values["manifest"]))
    out = _target(out_path, folder)
    with _replaced(out) as page:
        page.write(fill_template("evolution.html", values))
    return out


def _target(out_path: str | Path | None, folder: Path) -> Path:
    out = Path(out_path) if out_path is not None else folder / "index.html"
    return out / "index.html" if out.is_dir() else out


@contextlib.contextmanager
def _replaced(out: Path) -> Iterator[IO[str]]:
    """A page to be written, which takes its name when it is complete."""
    part = out.with_name(out.name + ".part")
    try:
        with part.open("w", encoding="ascii", newline="\n") as page:
            yield page
        part.replace(out)
    except OSError as error:
        raise DataError(f"cannot write {out} ({error.strerror}): name another file") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def open_viewed(path: Path) -> Viewed:
    """Return the run or data set at a path, or the run of an iteration. Raises DataError where there is none."""
    if _is_run(path):
        return read_run(path)
    if is_dataset(path):
        return read_dataset(path)
    return read_run(path / ROLLOUTS if _is_run(path / ROLLOUTS) else path)


def _listing(run: Viewed, rows: list[list[Any]]) -> Iterator[dict[str, Any]]:
    for episode in run.episodes():
        rows.append(row_of(episode))
        yield episode


def _write(page: IO[str], run: Viewed, summary: RunSummary, rows: list[list[Any]]) -> None:
    style, script = asset(*_STYLES), asset(*_SCRIPTS)
    page.write(fill_template("page.html", _values(run, summary, _policy(style, script))))
    page.write(data_block("index", _index(rows)))
    page.write(f"<script>{script}</script>\n")
    shared: dict[str, int] = {}
    for i, episode in enumerate(run.episodes()):
        detail = detail_of(episode)
        for step in detail["steps"]:
            # Instructions are the same in all episodes: they are written once and referred to by number.
            if step["role"] in _SHARED_ROLES:
                step["text"] = shared.setdefault(step["text"], len(shared))
        page.write(data_block(f"e{i}", detail))
    page.write(data_block("shared", list(shared)))
    page.write("</body>\n</html>\n")


def _index(rows: list[list[Any]]) -> dict[str, Any]:
    golds, labels = COLUMNS.index("gold"), COLUMNS.index("said")
    return {
        "columns": COLUMNS,
        "golds": _labels(row[golds] for row in rows if row[golds]),
        "said": _labels(row[labels] for row in rows if row[labels]),
        "rows": rows,
    }


def _labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The labels to filter by; none where there are so many that they are answers."""
    distinct = labels_in_order(labels)
    return distinct if len(distinct) <= _MAX_LABELS else ()


def _values(run: Viewed, summary: RunSummary, policy: str) -> dict[str, Any]:
    """Values of the template up to the data."""
    notes = [*run.notes, *run.warnings]
    if summary.errors:
        notes.append(fault_sentence(summary))
    if summary.unscored:
        notes.append(f"{count(summary.unscored, 'episode')} not scored.")
    environment = summary.env or str(run.manifest.get("env") or "run")
    version = f" v{summary.version}" if summary.version is not None else ""
    return {
        "policy": policy,
        "styles": _STYLES,
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
            yield f"{prefix}{name}", ABSENT if value is None else as_text(value)


def _policy(style: str, script: str = "") -> str:
    scripts = f"script-src '{_hash(script)}'; " if script else ""
    return f"default-src 'none'; style-src '{_hash(style)}'; {scripts}base-uri 'none'; form-action 'none'"


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("ascii")).digest()).decode("ascii")
