"""`factgym validate`: an environment in order passes, each fault fails its own check, and the badge says which."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import gymnasium
import pytest
from commands import run_factgym

from factgym.benchmarks import validation
from factgym.benchmarks.validation import badge, card_sections, markdown, validate
from factgym.cli.docs import VALIDATIONS
from factgym.core import registry
from factgym.core.errors import ConfigError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VALIDATED = sorted((ROOT / VALIDATIONS).glob("*.json"))


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """The registry without the broken environments, for the tests that come after."""
    tables: list[dict[str, Any]] = [registry._specs, gymnasium.registry]
    before = [dict(table) for table in tables]
    yield
    sys.modules.pop("broken_envs", None)
    for table, saved in zip(tables, before, strict=True):
        table.clear()
        table.update(saved)


def test_an_environment_in_order_passes_and_writes_its_badge(tmp_path: Path) -> None:
    done = run_factgym(["validate", "toy", "-n", "12", "--json", "--out", "out"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    value = json.loads(done.stdout)
    assert value["passed"] and value["env"] == "toy"
    statuses = {check["name"]: check["status"] for check in value["checks"]}
    assert statuses.pop("leaks") == statuses.pop("search") == "skip"  # twelve tasks are too few
    assert set(statuses.values()) == {"pass"} and len(statuses) == 7
    assert json.loads((tmp_path / "out" / "toy.validation.json").read_text("utf-8"))["checks"] == value["checks"]
    assert "validated 7/9" in (tmp_path / "out" / "toy.svg").read_text("utf-8")


def outcome(monkeypatch: pytest.MonkeyPatch, env: str, name: str) -> validation.Check:
    """The outcome of one check on a broken environment."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setattr(validation, "_CHECKS", {name: validation._CHECKS[name]})
    (check,) = validate(f"broken_envs:broken-{env}", n=12).checks
    return check


@pytest.mark.parametrize(
    ("env", "name", "reason"),
    [
        ("hash", "determinism", "another transcript in another process"),
        ("generous", "malformed actions", "without a submission 1.000 of 1"),
        ("crashing", "malformed actions", "ended the episode as a fault"),
        ("unscored", "malformed actions", "not scored (KeyError: 'gold')"),
        ("unscored", "audit", "has no scored episode under 'toy': KeyError: 'gold'"),
        ("blind-oracle", "oracle", "above it: honest"),
        ("no-agents", "oracle", "needs at least one agent"),
        ("seeing-teacher", "teacher", "acts on what it has not seen"),
        ("open", "audit", "label reaches the honest baseline"),
        ("hash", "card and licence", "lacks ## Description"),
    ],
)
def test_each_fault_fails_its_check(monkeypatch: pytest.MonkeyPatch, env: str, name: str, reason: str) -> None:
    check = outcome(monkeypatch, env, name)
    assert check.status == "fail" and reason in check.detail, check


def test_a_label_that_the_words_of_a_claim_tell_is_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="needs the extra 'audit'")
    leak = outcome(monkeypatch, "leaking", "leaks")
    assert leak.status == "fail" and "the claim alone 100 %" in leak.detail
    assert outcome(monkeypatch, "balanced", "leaks").status == "pass"


def test_a_failure_is_exit_code_1_and_an_environment_that_cannot_be_made_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{HERE}:{ROOT}")
    (tmp_path / "broken_envs.py").write_text((HERE / "broken_envs.py").read_text("utf-8"), "utf-8")
    done = run_factgym(["validate", "broken_envs:broken-generous", "-n", "6"], tmp_path)
    text = " ".join(done.stdout.split())
    assert done.returncode == 1 and "FAIL" in text and "without a submission 1.000 of 1" in text
    assert run_factgym(["validate", "toi"], tmp_path).returncode == 2
    done = run_factgym(["validate", "broken_envs:broken-unscored", "-n", "6"], tmp_path)
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1, "once, and not for every episode"
    with pytest.raises(ConfigError, match="needs"):
        validate("claimcheck-docs")


def test_the_badge_is_a_picture_of_its_own_with_escaped_names() -> None:
    checks = [{"name": "x", "status": status, "detail": "a | b"} for status in ("pass", "skip", "pass")]
    value = {"env": "<script>&\"'", "version": 3, "passed": True, "checks": checks}
    root = ElementTree.fromstring(badge(value))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["<script>&\"'-v3", "validated 2/3"]
    assert not [element for element in root.iter() if any("href" in key for key in element.attrib)]
    failed = badge({**value, "passed": False, "checks": [{**checks[0], "status": "fail"}]})
    assert "fails 0/1" in failed and failed != badge(value)
    assert r"a \| b" in markdown(value, "x.svg")


def test_sections_of_a_card() -> None:
    assert card_sections("Sum.\n## A\n one\n two\n\n## B\n") == {"A": "one\n two", "B": ""}


@pytest.mark.parametrize("path", VALIDATED, ids=lambda path: path.stem)
def test_a_committed_validation_is_of_this_version_and_its_badge_shows_it(path: Path) -> None:
    value = json.loads(path.read_text("utf-8"))
    assert value["env"] == path.stem and value["version"] == registry.spec(path.stem).version
    assert [check["name"] for check in value["checks"]] == list(validation._CHECKS)
    assert value["passed"] == all(check["status"] != "fail" for check in value["checks"])
    assert path.with_suffix(".svg").read_text("utf-8") == badge(value)
