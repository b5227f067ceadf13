"""Committed certificates of the exploit search still hold: same code and data, and no worse upper bound."""

from __future__ import annotations

from pathlib import Path

import pytest

import factgym
from factgym.benchmarks.search.certificate import read_certificate, worse
from factgym.cli.docs import BUDGET, CERTIFICATES, TASKS, certify

FOLDER = Path(__file__).resolve().parents[1] / CERTIFICATES
FILES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_committed_certificate_holds(path: Path) -> None:
    pytest.importorskip("sklearn")
    committed = read_certificate(path.read_text("utf-8"))
    assert (committed["env"], committed["budget"], committed["n"]) == (path.stem, BUDGET, TASKS)
    assert committed["classifiers"] and path.stem in factgym.list_envs()
    fresh = certify(path.stem)
    assert fresh is not None
    faults = worse(committed, fresh)
    assert not faults, f"{faults}: python -m factgym.cli.docs . --certify {path.stem}, and read what changed"
