"""What an evolution of EVE amounts to so far, read off the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from factgym.agents.runs import ROLLOUTS
from factgym.agents.runs import artifacts as files


def summary_of(out: str | Path) -> dict[str, Any]:
    """The measures of every finished iteration of both phases, and of the data set (None before it is there).

    caveats: what the environments want said beside every result.
    """
    out = Path(out)
    data = out / "data" / files.METRICS
    return {
        "proposer": _iterations(out / "proposer"),
        "data": files.read_json(data) if data.exists() else None,
        "solver": _iterations(out / "solver"),
        "caveats": _caveats(out),
    }


def _caveats(out: Path) -> list[str]:
    first = (out / phase / "iteration-1" / ROLLOUTS / files.MANIFEST for phase in ("proposer", "solver"))
    said = (one for path in first if path.exists() for one in files.read_json(path).get("caveats", ()))
    return [one for one in dict.fromkeys(said) if isinstance(one, str)]


def _iterations(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while (path := folder / f"iteration-{len(found) + 1}" / files.METRICS).exists():
        found.append(files.read_json(path))
    return found
