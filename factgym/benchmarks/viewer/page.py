"""Writing the page: overview first, then the script and its index, then the episodes one data block each.

The order is what makes a large run open at once: the overview is drawn before the episodes have been read from disk,
and an episode is parsed when it is opened.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

from factgym.agents.runs.read import Run, read_run
from factgym.benchmarks.formats import count
from factgym.benchmarks.prices import PriceTable
from factgym.benchmarks.summary import RunSummary, labels_in_order, summarise
from factgym.benchmarks.usage import model_of
from factgym.benchmarks.viewer.episodes import COLUMNS, detail_of, row_of
from factgym.benchmarks.viewer.overview import overview
from factgym.benchmarks.viewer.safe import data_block, text
from factgym.core.errors import DataError

_STYLES = ("base.css", "overview.css", "episodes.css")
_SCRIPTS = ("text.js", "turn.js", "detail.js", "list.js", "main.js")
_SHARED_ROLES = frozenset({"system", "developer"})


def write_page(
    run_dir: str | Path,
    out_path: str | Path | None = None,
    prices: PriceTable | None = None,
) -> Path:
    """Write the page of the run in `run_dir` and return its path, by default `run_dir/index.html`.

    prices: turns tokens into money.

    Raises DataError when the run is unusable or the page cannot be written. A page that was there is replaced only
    by a complete one.
    """
    run = read_run(run_dir)
    out = Path(out_path) if out_path is not None else run.folder / "index.html"
    out = out / "index.html" if out.is_dir() else out
    rows: list[list[Any]] = []
    summary = summarise(_listing(run, rows), prices, model=model_of(run.manifest))
    part = out.with_name(out.name + ".part")
    try:
        with part.open("w", encoding="ascii", newline="\n") as page:
            _write(page, run, summary, rows)
        part.replace(out)
    except OSError as error:
        raise DataError(f"cannot write {out} ({error.strerror}): name another file") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return out


def _listing(run: Run, rows: list[list[Any]]) -> Any:
    for episode in run.episodes():
        rows.append(row_of(episode))
        yield episode


def _write(page: IO[str], run: Run, summary: RunSummary, rows: list[list[Any]]) -> None:
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
        "golds": labels_in_order(row[golds] for row in rows if row[golds]),
        "said": labels_in_order(row[said] for row in rows if row[said]),
        "rows": rows,
    }


def _share(step: dict[str, Any], shared: dict[str, int]) -> None:
    """Instructions are the same in all episodes: they are written once and referred to by number."""
    if step["role"] in _SHARED_ROLES:
        step["text"] = shared.setdefault(step["text"], len(shared))


def _shell(name: str, run: Run, summary: RunSummary, *, style: str, policy: str) -> str:
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
        "overview": overview(summary, run.manifest, (*run.notes, *run.caveats)),
    }
    page = _asset((name,))
    before, *rest = page.split("{{")
    return before + "".join(values[key] + tail for key, tail in (piece.split("}}", 1) for piece in rest))


def _facts(run: Run, summary: RunSummary) -> str:
    seed = run.manifest.get("seed")
    facts = [count(summary.n, "episode")]
    facts += [f"{count(summary.tasks, 'task')}, several samples each"] if summary.groups else []
    facts += [f"split {', '.join(summary.splits)}"] if summary.splits else []
    facts += [f"seed {seed}"] if seed is not None else []
    facts += [f"factgym {run.manifest['factgym']}"] if run.manifest.get("factgym") else []
    return "".join(f"<li>{text(fact, 120)}</li>" for fact in facts)


def _asset(names: tuple[str, ...]) -> str:
    folder = files("factgym.benchmarks.viewer") / "assets"
    return "\n".join((folder / name).read_text(encoding="ascii") for name in names)


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("ascii")).digest()).decode("ascii")
