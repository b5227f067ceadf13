"""One step of verl's own trainer on Ray, up to the advantages, and a validation: all but the engine and the weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="needs factgym[verl]")

from tiny_verl import oracle, written

from factgym.core.env import Env
from factgym.integrations.session import Session
from factgym.rewards.advantages import group_advantages

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

HERE = Path(__file__).resolve().parent


def scripts(env_id: str, tasks: int) -> dict[str, list[list[str]]]:
    """For each task the oracle, one who submits at once, and one who has nothing to say."""
    found = {}
    for task in range(tasks):
        said = [written(message) for message in oracle(env_id, task)]
        found[Session(env_id).start(task)[-1]["content"]] = [said, said[-1:], ["I cannot say.<|im_end|>"]]
    return found


RUNS: dict[str, dict[str, Any]] = {
    "dense": {"env": "claimcheck-multihop", "credit": "grpo", "tasks": 2, "samples": 3},
    "contexts": {"env": "profact", "credit": "hrpo", "tasks": 2, "samples": 3, "hops": [2, 2]},
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("verl")
    told = {name: {**run, "scripts": scripts(run["env"], run["tasks"])} for name, run in RUNS.items()}
    (folder / "told.json").write_text(json.dumps(told), "utf-8")
    path = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, str(HERE / "verl_rollouts.py"), str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "found.json").read_text("utf-8"))


def sessions(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rows of each rollout, in their order: verl names them UID_SESSION_PLACE."""
    parts: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda one: one["key"]):
        uid, session, _ = row["key"].rsplit("_", 2)
        parts[uid, session].append(row)
    return parts


@pytest.mark.parametrize("name", RUNS)
def test_every_rollout_reaches_the_trainer_with_its_reward(name: str, found: dict[str, Any]) -> None:
    run, rows = RUNS[name], found[name]["rows"]
    played = sessions(rows)
    assert len(played) == run["tasks"] * run["samples"]
    isolated = type(Session(run["env"]).env).policy_prompt is not Env.policy_prompt
    assert isolated == (len(rows) > len(played))
    for parts in played.values():
        report = parts[-1]["extra_fields"]["factgym"]["report"]
        for row in parts:
            assert sum(row["rm_scores"]) == pytest.approx(report["total"], abs=1e-5)
            assert len(row["rm_scores"]) == len(row["responses"]) == len(row["response_mask"])
    rewards = {parts[-1]["extra_fields"]["factgym"]["report"]["total"] for parts in played.values()}
    assert len(rewards) > 1


@pytest.mark.parametrize("name", RUNS)
def test_the_advantages_are_those_of_the_form(name: str, found: dict[str, Any]) -> None:
    """A + λ (c − mean c), where both groups come from the whole batch for HRPO and from the prompt's rollouts else."""
    played = sessions(found[name]["rows"])
    groups: dict[str, list[list[dict[str, Any]]]] = defaultdict(list)
    for (uid, _), parts in played.items():
        groups["all" if RUNS[name]["credit"] == "hrpo" else uid].append(parts)
    for members in groups.values():
        rewards = [parts[-1]["extra_fields"]["factgym"]["report"]["total"] for parts in members]
        values, own = [], []
        for parts in members:
            masks = [np.array(row["response_mask"], dtype=bool) for row in parts]
            scaled = [np.array(row["rm_scores"])[m] * 1024 for row, m in zip(parts, masks, strict=True)]
            values.append(np.concatenate(scaled))
            given = [np.array(row["advantages"])[m] for row, m in zip(parts, masks, strict=True)]
            assert not any(np.array(row["advantages"])[~m].any() for row, m in zip(parts, masks, strict=True))
            own.append(np.concatenate(given))
        mean = np.mean([one.mean() for one in values])
        for base, credit, advantages in zip(group_advantages(rewards), values, own, strict=True):
            assert advantages == pytest.approx(base + credit - mean, abs=1e-4)


@pytest.mark.parametrize("name", RUNS)
def test_a_validation_reports_every_metric(name: str, found: dict[str, Any]) -> None:
    env_id = RUNS[name]["env"]
    session = Session(env_id)
    session.start(0)
    session.close()
    seen = {key.split("/")[2] for key in found[name]["validation"] if key.startswith("val-")}
    assert {"reward", *session.report.components, "turns", "errors", "truncated"} <= seen
