"""The recipes: each against the framework where it is installed, else skipped."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import same_episodes
from guide_pages import GUIDES
from playback import PlaybackServer, in_thread
from recipes import write_files
from same_episodes import Case

from factgym.integrations.session import Session


def test_an_actor_on_ray_plays_what_a_session_plays(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs factgym[ray]")
    write_files(tmp_path, "on_ray.py")
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "on_ray.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines() if re.match(r"\S+ [\d.]+ [\d.]+$", line)]
    tasks = Session("claimcheck-multihop", split="validation").env.tasks
    assert [line[0] for line in lines] == [tasks[n].id for n in range(6)]
    assert all(float(reward) == 1.0 and float(turns) > 1 for _, reward, turns in lines)


RLLM = [one for one in same_episodes.cases("messages", files=False, tasks=1) if one.name in ("oracle", "hostile")]


@pytest.mark.parametrize("case", RLLM, ids=str)
def test_a_flow_of_rllm_plays_the_same_episode(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    types: Any = pytest.importorskip("rllm.types", reason="needs rllm from its repository")
    write_files(tmp_path, "factgym_rllm.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "factgym_rllm", raising=False)
    import factgym_rllm

    reference, episode = case.reference, case.episode
    (task,) = [one for one in factgym_rllm.tasks(case.env, **episode.config) if one.id == episode.task]
    assert task.instruction == reference.first
    server = PlaybackServer()
    server.script["policy"] = episode.messages
    with in_thread(server) as url:
        config = types.AgentConfig(base_url=url, model="policy", session_uid="0")
        found = asyncio.run(types.run_agent_flow(factgym_rllm.FactFlow(), task, config))
    (trajectory,) = found.trajectories
    played = len(reference.said)
    shown = [body["messages"] for body in server.shown["policy"][:played]]
    assert [[one["content"] for one in messages] for messages in shown] == [
        [one["content"] for one in messages] for messages in case.prompts[:played]
    ]
    assert len(trajectory.steps) >= played
    if reference.stop == "submitted":
        assert trajectory.reward == reference.total
        assert sum(step.reward for step in trajectory.steps) == pytest.approx(sum(one[3] for one in reference.spans))
        assert {name: found.metrics[name] for name in reference.components} == reference.components
        scored = factgym_rllm.FactEvaluator().evaluate(task, found)
        assert scored.reward == reference.total
        assert {signal.name for signal in scored.signals} >= reference.components.keys()


def test_the_page_names_what_it_runs() -> None:
    text = (GUIDES / "recipes.md").read_text("utf-8")
    assert "## rLLM" in text and "## Ray" in text
