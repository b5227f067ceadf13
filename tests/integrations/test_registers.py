"""Entries for public registers: what the checks of Inspect Evals 0.28 and NeMo-Gym 0.5 asked of them when they were written."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.licenses import canonicalize_license_expression

import factgym
from factgym.core.errors import ConfigError
from factgym.integrations.hub import module_of
from factgym.integrations.registers import TASKS_FILE, inspect_tasks, task_permalink, write_registers
from factgym.integrations.session import Session, self_contained

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY, COMMIT = "https://github.com/example/factgym", "0123456789" * 4
ENVS = ["toy", "claimcheck-mini"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("registers")
    write_registers(out, REPOSITORY, COMMIT, ENVS, "https://arxiv.org/abs/2404.10774")
    return out


def yaml_of(path: Path) -> Any:
    return pytest.importorskip("yaml", reason="needs PyYAML").safe_load(path.read_text("utf-8"))


def test_the_module_of_tasks_is_the_commands_output_and_each_is_a_plain_task_function() -> None:
    text = (ROOT / TASKS_FILE).read_text("utf-8")
    assert text == inspect_tasks(), "stale: run python -m factgym.integrations.registers --tasks"
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    # The register finds a task by its decorator in the source, and by the line to which the address points.
    assert [function.name for function in functions] == [module_of(env_id) for env_id in self_contained()]
    for function, env_id in zip(functions, self_contained(), strict=True):
        (decorator,) = function.decorator_list
        assert isinstance(decorator, ast.Name) and decorator.id == "task"
        expected = f"{REPOSITORY}/blob/{COMMIT}/{TASKS_FILE.as_posix()}#L{decorator.lineno}"
        assert task_permalink(env_id, REPOSITORY, COMMIT) == expected


@pytest.mark.parametrize("env_id", ENVS)
def test_an_entry_of_inspect_evals_has_its_fields_and_no_other(written: Path, env_id: str) -> None:
    path = written / "inspect_evals" / "register" / f"factgym_{module_of(env_id)}" / "eval.yaml"
    assert path.read_text("utf-8").startswith(f"# Of the register's form, source: {REPOSITORY}/blob/{COMMIT}/")
    entry = yaml_of(path)
    allowed = {"full_title", "common_title", "description", "arxiv", "contributors", "tasks", "source", "tags"}
    assert entry.keys() == allowed and "\n" not in entry["description"]
    (task,) = entry["tasks"]  # one task an entry
    assert task == {
        "name": module_of(env_id),
        "task_path": "examples/inspect_tasks.py",
        "dataset_samples": len(factgym.make(env_id).tasks),
    }
    assert entry["source"] == {"repository_url": REPOSITORY, "repository_commit": COMMIT, "maintainers": ["example"]}


@pytest.mark.parametrize("env_id", ENVS)
def test_a_manifest_of_nemo_gym_mirrors_its_configuration_and_data(written: Path, env_id: str) -> None:
    name = f"factgym_{module_of(env_id)}"
    folder = written / "nemo_gym" / "environments" / name
    manifest, config = yaml_of(folder / "manifest.yaml"), yaml_of(folder / "config.yaml")
    assert manifest["name"] == folder.name and re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert manifest["licensing"] == canonicalize_license_expression(manifest["licensing"])
    low, high = manifest["reward"]["range"]
    assert (low, high) == factgym.make(env_id).reward_bounds and low < high
    (server,), (agent,) = (list(config[f"{name}_{kind}"].values()) for kind in ("resources_server", "simple_agent"))
    assert list(server) == [manifest["resources_server"]] and list(agent) == [manifest["agent_server"]]
    settings = agent[manifest["agent_server"]]
    assert settings["model_server"]["name"] == manifest["model_server"]
    assert settings["resources_server"]["name"] == f"{name}_resources_server"
    assert settings["datasets"] == manifest["datasets"]
    (dataset,) = manifest["datasets"]
    lines = (written / "nemo_gym" / dataset["jsonl_fpath"]).read_text("utf-8").splitlines()
    assert len(lines) == 5
    for row in map(json.loads, lines):
        session = Session(env_id)
        assert row["responses_create_params"]["tools"][0]["type"] == "function"
        if session.env.config.splits == ():  # without splits the task of a row is the default one's too
            assert session.start(row["task"]) == row["responses_create_params"]["input"]


def test_nemo_gyms_own_model_of_a_manifest_accepts_it(written: Path) -> None:
    manifest = pytest.importorskip("nemo_gym.environment.manifest", reason="needs nemo-gym from 0.5 on")
    for path in (written / "nemo_gym" / "environments").glob("*/manifest.yaml"):
        assert manifest.load_manifest(path).name == path.parent.name


def test_entries_are_refused_without_a_pinned_public_source(tmp_path: Path) -> None:
    cases = [
        (("git@github.com:a/b", COMMIT), "--repository"),
        (("https://github.com/a", COMMIT), "--repository"),
        ((REPOSITORY, "main"), "full SHA"),
        ((REPOSITORY, COMMIT, ["claimcheck-docs"]), "needs files of yours"),
    ]
    for arguments, reason in cases:
        with pytest.raises(ConfigError, match=reason):
            write_registers(tmp_path, *arguments)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
    command = [sys.executable, "-m", "factgym.integrations.registers", str(tmp_path / "out"), "toy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--repository" in done.stderr
