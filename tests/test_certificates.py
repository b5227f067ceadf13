"""Committed certificates of the exploit search still hold: same code and data, and no worse upper bound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from public_data import find_data_dir

import factgym
from factgym.benchmarks.search.certificate import best_exploit, read_certificate, worse
from factgym.cli.docs import BUDGET, CERTIFICATES, DATA, TASKS, certify, data_settings

FOLDER = Path(__file__).resolve().parents[1] / CERTIFICATES
FILES = sorted(FOLDER.glob("*.json"))


def test_every_environment_has_a_validation_and_a_certificate_of_its_search() -> None:
    searches = {}
    for env_id in factgym.list_envs():
        checks = json.loads((FOLDER.with_name("validations") / f"{env_id}.json").read_text("utf-8"))["checks"]
        searches[env_id] = next(check for check in checks if check["name"] == "search")
    skipped = {env_id: check["detail"] for env_id, check in searches.items() if check["status"] == "skip"}
    assert skipped == {"toy": "12 tasks are too few for a verdict"}
    assert {path.stem for path in FILES} == searches.keys() - skipped.keys()


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


def test_the_best_exploit_is_no_composition_of_honest_operators() -> None:
    strategies = [
        {"kind": kind, "reward": {"value": value}} for kind, value in (("honest", 0.9), ("attack", 0.5), ("blind", 0.2))
    ]
    assert best_exploit({"strategies": strategies}) == 0.5
    assert best_exploit({"strategies": strategies[:1]}) is None
