"""Small evolutions for tests: generated claims, the feature verifier, and a digest of everything that follows from the seed."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from factgym.agents.resolve import find_model
from factgym.training.seva import Evolution, EvolveSettings
from factgym.training.trainer import find_trainer


def small(**changes: Any) -> EvolveSettings:
    """Settings under which a round takes about half a second."""
    values: dict[str, Any] = {
        "benchmarks": ("generated-validation", "generated-ood"),
        "size": 40,
        "material": 60,
        "warm_up": 32,
        "budgets": (16,),
    }
    return EvolveSettings(**values | changes)


def evolution(out: Path, settings: EvolveSettings | None = None, **parts: Any) -> Evolution:
    given: dict[str, Any] = {"start": lambda: find_model("features"), "trainer": find_trainer("features")}
    return Evolution(out, settings or small(), **given | parts)


def digests(folder: Path) -> dict[str, str]:
    """File -> a hash of what it holds; of episodes, without the seconds they took and in the order of tasks and samples."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != ".lock":
            data = _episodes(path) if path.name == "episodes.jsonl" else path.read_bytes()
            hashes[str(path.relative_to(folder))] = hashlib.sha256(data).hexdigest()
    return hashes


def _episodes(path: Path) -> bytes:
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    for row in rows:
        row.pop("seconds")
        for turn in row["turns"]:
            turn.pop("seconds")
    return json.dumps(sorted(rows, key=lambda row: (row["index"], row["sample"]))).encode()


def stopped_after_each_file(whole: Path, folder: Path) -> Iterator[Path]:
    """`folder` as it stood whenever a file of a finished evolution had just been written; gives that file's name.

    A kill at a random moment seldom falls between two small files; this falls between any two.
    """
    written = sorted((path for path in whole.rglob("*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns)
    for number, last in enumerate(written, 1):
        shutil.rmtree(folder, ignore_errors=True)
        for path in written[:number]:
            copy = folder / path.relative_to(whole)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
        yield last.relative_to(whole)
