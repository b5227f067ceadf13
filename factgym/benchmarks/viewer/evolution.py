"""The page of an EVE evolution: what every iteration came to, with links to the pages of its episodes.

It needs no script. The pages that it links to are written too: one for each run, and one for the rows of the data set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from factgym.agents.runs import EPISODES, EVE_EVOLUTION, EVOLUTION_DATA, ROLLOUTS
from factgym.agents.runs.artifacts import MANIFEST, read_json
from factgym.benchmarks.eve.evolution import (
    LEGEND,
    PROPOSER,
    SOLVER,
    data_lines,
    proposer_cells,
    solver_cells,
    summary_of,
)
from factgym.benchmarks.page import escape as text
from factgym.benchmarks.viewer.overview import manifest_card, notes_list

Cells = Callable[[Mapping[str, Any]], Sequence[str]]


def is_evolution(path: Path) -> bool:
    """Whether the path is the folder of an EVE evolution."""
    manifest = path / MANIFEST
    return manifest.is_file() and read_json(manifest).get("what") == EVE_EVOLUTION


def runs_of(out: Path) -> Iterator[Path]:
    """The runs and the data set of an evolution, as far as they are there, in the order in which they were made."""
    for phase in ("proposer", EVOLUTION_DATA, "solver"):
        found = (
            [out / EVOLUTION_DATA]
            if phase == EVOLUTION_DATA
            else sorted((out / phase).glob("iteration-*"), key=_number)
        )
        for one in found:
            if (one / ROLLOUTS / EPISODES).exists():
                yield one / ROLLOUTS
        if phase == EVOLUTION_DATA and (out / EVOLUTION_DATA / "metrics.json").exists():
            yield out / EVOLUTION_DATA


def _number(folder: Path) -> int:
    last = folder.name.rpartition("-")[2]
    return int(last) if last.isdecimal() else 0


def values_of(out: Path) -> dict[str, str]:
    """What fills the template, as HTML: who, facts and parts."""
    manifest, summary = read_json(out / MANIFEST), summary_of(out)
    who = " and ".join(str(manifest.get(role, {}).get("agent", "")) for role in ("proposer", "solver"))
    known = manifest.get("fingerprints", {})
    facts = [f"{known[name]:,} {said}" for name, said in _COUNTS if isinstance(known.get(name), int)]
    facts += [f"seed {manifest['settings']['seed']}", f"factgym {manifest['factgym']}"]
    data = summary["data"]
    parts = [
        notes_list(summary["caveats"]),
        _phase(
            "Phase A: the proposer", "proposer", PROPOSER, [proposer_cells(one) for one in summary["proposer"]], LEGEND
        ),
        _data(data) if data is not None else "",
        _phase("Phase B: the solver", "solver", SOLVER, [solver_cells(one) for one in summary["solver"]]),
        manifest_card(manifest),
    ]
    return {
        "who": text(who, 200),
        "facts": "".join(f"<li>{text(fact, 120)}</li>" for fact in facts),
        "parts": "\n".join(part for part in parts if part),
    }


_COUNTS = (("passages", "passages"), ("training", "to train the proposer on"), ("held_out", "held out"))


def _phase(title: str, phase: str, names: Sequence[str], rows: Sequence[Sequence[str]], legend: str = "") -> str:
    if not rows:
        return ""
    heads = "".join(f'<th scope="col" class="num">{text(name, 40)}</th>' for name in names)
    body = "".join(_row(f"{phase}/iteration-{number}", number, cells) for number, cells in enumerate(rows, 1))
    fine = f'<p class="fine">{text(legend, 600)}</p>' if legend else ""
    return (
        f'<section class="card"><h2>{text(title)}</h2><div class="scroll"><table class="scores phases"><thead><tr>'
        f'<th scope="col"><span class="sr">iteration</span></th>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
        f"{fine}</section>"
    )


def _row(place: str, number: int, cells: Sequence[str]) -> str:
    shown = "".join(f'<td class="num">{text(cell, 40)}</td>' for cell in cells)
    link = f'<a href="{place}/{ROLLOUTS}/index.html">iteration {number}</a>'
    return f'<tr><th scope="row">{link}</th>{shown}</tr>'


def _data(data: Mapping[str, Any]) -> str:
    lines = "".join(f"<p>{text(line)}</p>" for line in data_lines(data))
    links = (
        f'<p><a href="{EVOLUTION_DATA}/index.html">Every row, its span in its document</a> &middot; '
        f'<a href="{EVOLUTION_DATA}/{ROLLOUTS}/index.html">all rollouts</a></p>'
    )
    return f'<section class="card"><h2>The solver&#x27;s data set</h2>{lines}{links}</section>'
