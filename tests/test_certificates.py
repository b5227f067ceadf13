"""Committed certificates of the exploit search still hold: same code and data, and no worse upper bound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from public_data import find_data_dir

import factgym
from factgym.benchmarks.search.certificate import read_certificate, worse
from factgym.cli.docs import BUDGET, CERTIFICATES, DATA, TASKS, certify, data_settings

FOLDER = Path(__file__).resolve().parents[1] / CERTIFICATES
FILES = sorted(FOLDER.glob("*.json"))


def test_every_environment_with_a_strategy_space_has_a_certificate() -> None:
    assert {path.stem for path in FILES} == {
        name for name in factgym.list_envs() if factgym.spec(name).load().strategies is not None
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_committed_certificate_holds(path: Path) -> None:
    pytest.importorskip("sklearn")
    committed = read_certificate(path.read_text("utf-8"))
    assert committed["budget"] == BUDGET and committed["n"] <= TASKS and committed["classifiers"]
    assert (committed["env"], committed.get("data")) == (path.stem, DATA.get(path.stem))
    folder = find_data_dir()
    if data_settings(path.stem, folder) is None:
        pytest.skip(f"needs the public data set {DATA[path.stem]}: set FACTGYM_DATA to the folder that holds it")
    fresh = certify(path.stem, folder)
    assert fresh is not None
    faults = worse(committed, fresh)
    assert not faults, f"{faults}: python -m factgym.cli.docs . --certify {path.stem}, and read what changed"


@pytest.mark.parametrize("env_id", sorted(DATA))
def test_what_is_committed_of_data_names_it_without_its_place(env_id: str) -> None:
    for folder in (FOLDER, FOLDER.with_name("validations")):
        value = json.loads((folder / f"{env_id}.json").read_text("utf-8"))
        assert value["data"] == DATA[env_id] and not {"path"} & {*value.get("config", {}), *value.get("settings", {})}
    assert f"--path {DATA[env_id]}`" in (FOLDER.parent / f"{env_id}.md").read_text("utf-8")
