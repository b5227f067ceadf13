"""Writing the page: overview first, then the script and its index, then the episodes one data block each.

The order is what makes a large run open at once: the overview is drawn before the episodes have been read from disk,
and an episode is parsed when it is opened. What is no plain run (EVE's data sets and evolutions) has readers of its own,
which are imported when they are needed.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from factgym.agents.runs import EPISODES
from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.formats import count
from factgym.benchmarks.page import data_block
from factgym.benchmarks.page import escape as text
from factgym.benchmarks.prices import PriceTable
from factgym.benchmarks.statistics.classification import labels_in_order
from factgym.benchmarks.summary import RunSummary, summarise
from factgym.benchmarks.usage import model_of
from factgym.benchmarks.viewer.episodes import COLUMNS, detail_of, row_of
from factgym.benchmarks.viewer.overview import overview
from factgym.core.errors import DataError

_STYLES = ("base.css", "overview.css", "episodes.css")
_SCRIPTS = ("text.js", "turn.js", "detail.js", "list.js", "main.js")
_MAX_LABELS = 40
_SHARED_ROLES = frozenset({"system", "developer"})


if TYPE_CHECKING:
    from factgym.benchmarks.viewer.dataset import DatasetRows

    Viewed = Run | DatasetRows


def write_page(
    run_dir: str | Path,
    out_path: str | Path | None = None,
    prices: PriceTable | None = None,
) -> Path:
    """Write the page of the run in `run_dir` and return its path, by default `run_dir/index.html`.

    A data set of EVE's solver, or its folder, is shown row by row. Of a whole EVE evolution the page is what its parts
    came to, and links to pages of the parts, which are written into their folders. prices: turns tokens into money.

    Raises DataError when the run is unusable or the page cannot be written. A page that was there is replaced only
    by a complete one.
    """
    folder = Path(run_dir)
    if not _is_run(folder) and _is_evolution(folder):
        return _write_evolution(folder, out_path, prices)
    run = open_viewed(folder)
    rows: list[list[Any]] = []
    summary = summarise(_listing(run, rows), prices, model=model_of(run.manifest))
    with _replaced(_place(out_path, run.folder)) as page:
        _write(page, run, summary, rows)
    return _place(out_path, run.folder)


def _is_run(path: Path) -> bool:
    return path.name == EPISODES or (path / EPISODES).is_file()


def _is_evolution(path: Path) -> bool:
    from factgym.benchmarks.viewer.evolution import is_evolution

    return is_evolution(path)


def _write_evolution(folder: Path, out_path: str | Path | None, prices: PriceTable | None) -> Path:
    from factgym.benchmarks.viewer.evolution import runs_of, values_of

    for part in runs_of(folder):
        write_page(part, None, prices)
    style = _asset(_STYLES[:2])
    values = {"style": style, "policy": _policy(style), "title": "EVE", **values_of(folder)}
    with _replaced(_place(out_path, folder)) as page:
        page.write(_filled("evolution.html", values))
    return _place(out_path, folder)


def _place(out_path: str | Path | None, folder: Path) -> Path:
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
    """The run or data set at a path, or the run of an iteration. Raises DataError where there is none."""
    if _is_run(path):
        return read_run(path)
    from factgym.agents.runs import ROLLOUTS
    from factgym.benchmarks.viewer.dataset import is_dataset, read_dataset

    if is_dataset(path):
        return read_dataset(path)
    return read_run(path / ROLLOUTS if _is_run(path / ROLLOUTS) else path)


def _listing(run: Viewed, rows: list[list[Any]]) -> Any:
    for episode in run.episodes():
        rows.append(row_of(episode))
        yield episode


def _write(page: IO[str], run: Viewed, summary: RunSummary, rows: list[list[Any]]) -> None:
    style, script = _asset(_STYLES), _asset(_SCRIPTS)
    page.write(_shell("page.html", run, summary, style=style, policy=_policy(style, script)))
    page.write(data_block("index", _index(rows)))
    page.write(f"<script>{script}</script>\n")
    shared: dict[str, int] = {}
    for i, episode in enumerate(run.episodes()):
        detail = detail_of(episode)
        for step in detail["steps"]:
            _share(step, shared)
        page.write(data_block(f"e{i}", detail))
    page.write(data_block("shared", list(shared)))
    page.write("</body>\n</html>\n")


def _index(rows: list[list[Any]]) -> dict[str, Any]:
    golds, said = COLUMNS.index("gold"), COLUMNS.index("said")
    return {
        "columns": COLUMNS,
        "golds": _labels(row[golds] for row in rows if row[golds]),
        "said": _labels(row[said] for row in rows if row[said]),
        "rows": rows,
    }


def _labels(found: Iterable[str]) -> tuple[str, ...]:
    """The labels to filter by; none where there are so many that they are answers."""
    labels = labels_in_order(found)
    return labels if len(labels) <= _MAX_LABELS else ()


def _share(step: dict[str, Any], shared: dict[str, int]) -> None:
    """Instructions are the same in all episodes: they are written once and referred to by number."""
    if step["role"] in _SHARED_ROLES:
        step["text"] = shared.setdefault(step["text"], len(shared))


def _shell(name: str, run: Viewed, summary: RunSummary, *, style: str, policy: str) -> str:
    """The page up to the data. Our own template, filled by name; values are HTML already."""
    environment = text(summary.env or run.manifest.get("env") or "run", 80)
    version = f" v{summary.version}" if summary.version is not None else ""
    values = {
        "policy": policy,
        "style": style,
        "title": f"{environment} &middot; {text(summary.agent, 80)}",
        "environment": environment + text(version, 20),
        "agent": text(summary.agent or "no agent", 80),
        "facts": _facts(run, summary),
        "n": f"{summary.n:,}",
        "overview": overview(summary, run.manifest, (*run.notes, *run.warnings)),
    }
    return _filled(name, values)


def _filled(name: str, values: Mapping[str, str]) -> str:
    page = _asset((name,))
    before, *rest = page.split("{{")
    return before + "".join(values[key] + tail for key, tail in (piece.split("}}", 1) for piece in rest))


def _facts(run: Viewed, summary: RunSummary) -> str:
    seed = run.manifest.get("seed")
    facts = [count(summary.n, "episode")]
    facts += [f"{count(summary.tasks, 'task')}, several samples each"] if summary.groups else []
    facts += [f"split {', '.join(summary.splits)}"] if summary.splits else []
    facts += [f"seed {seed}"] if seed is not None else []
    facts += [f"factgym {run.manifest['factgym']}"] if run.manifest.get("factgym") else []
    return "".join(f"<li>{text(fact, 120)}</li>" for fact in facts)


def _asset(names: tuple[str, ...]) -> str:
    folder = files("factgym.benchmarks") / "templates"
    return "\n".join((folder / name).read_text(encoding="ascii") for name in names)


def _policy(style: str, script: str = "") -> str:
    scripts = f"script-src '{_hash(script)}'; " if script else ""
    return f"default-src 'none'; style-src '{_hash(style)}'; {scripts}base-uri 'none'; form-action 'none'"


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("ascii")).digest()).decode("ascii")
