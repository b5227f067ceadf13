"""The recipes: each against the framework where it is installed, else skipped."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reference_episodes
from guide_pages import GUIDES, write_files
from playback import PlaybackServer, in_thread
from reference_episodes import Case

from factgym.agents.sampling import tools_as_text
from factgym.integrations.session import Session


def test_an_actor_on_ray_plays_what_a_session_plays(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs factgym[ray]")
    write_files(tmp_path, "on_ray.py")
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "on_ray.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines() if re.match(r"\S+ [\d.]+ [\d.]+$", line)]
    tasks = Session("claimcheck-multihop", split="train").env.tasks
    assert [line[0] for line in lines] == [tasks[n].id for n in range(6)]
    assert all(float(reward) == 1.0 and float(turns) > 1 for _, reward, turns in lines)


RLLM = [
    case for case in reference_episodes.cases("messages", files=False, tasks=1) if case.name in ("oracle", "hostile")
]


@pytest.mark.parametrize("case", RLLM, ids=str)
def test_a_flow_of_rllm_plays_the_same_episode(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    types: Any = pytest.importorskip("rllm.types", reason="needs rllm from its repository")
    write_files(tmp_path, "factgym_rllm.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "factgym_rllm", raising=False)
    import factgym_rllm

    reference, episode = case.reference, case.episode
    (task,) = [row for row in factgym_rllm.tasks(case.env, **episode.config) if row.id == episode.task]
    assert task.instruction == reference.first
    server = PlaybackServer()
    server.script["policy"] = episode.messages
    with in_thread(server) as url:
        config = types.AgentConfig(base_url=url, model="policy", session_uid="0")
        result = asyncio.run(types.run_agent_flow(factgym_rllm.FactFlow(), task, config))
    (trajectory,) = result.trajectories
    played = len(reference.answers)
    prompts = [body["messages"] for body in server.bodies["policy"][:played]]
    assert [[message["content"] for message in messages] for messages in prompts] == [
        [message["content"] for message in messages] for messages in case.prompts[:played]
    ]
    assert len(trajectory.steps) >= played
    if reference.stop == "submitted":
        assert trajectory.reward == reference.total
        assert sum(step.reward for step in trajectory.steps) == pytest.approx(sum(span[3] for span in reference.spans))
        assert {name: result.metrics[name] for name in reference.components} == reference.components
        scored = factgym_rllm.FactEvaluator().evaluate(task, result)
        assert scored.reward == reference.total
        assert {signal.name for signal in scored.signals} >= reference.components.keys()


def test_the_page_names_what_it_runs() -> None:
    text = (GUIDES / "recipes.md").read_text("utf-8")
    assert "## rLLM" in text and "## Ray" in text


@pytest.fixture(scope="module")
def gem_recipe(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("gem", reason="needs gem-llm 0.1 (docs/guides/integrations/recipes.md)")
    folder = tmp_path_factory.mktemp("recipe")
    write_files(folder, "gem_factgym.py", "gem_first.py")
    sys.path.insert(0, str(folder))
    import gem_factgym

    gem_factgym.folder = folder
    yield gem_factgym
    sys.path.remove(str(folder))


def seed_of(env: Any, task: str) -> int | None:
    """A seed that chooses the task: GEM has no other way to ask for one."""
    for seed in range(4000):
        env.reset(seed=seed)
        if env.task.id == task:
            return seed
    return None


@reference_episodes.each_setup
def test_every_episode_is_the_same_through_gem(gem_recipe: Any, env_id: str, needs: Callable[..., Any]) -> None:
    gem = gem_recipe.gem
    played = 0
    for case in reference_episodes.cases("texts", env=env_id, needs=needs):
        name = f"here:{case}"
        if name not in gem.envs.registration.ENV_REGISTRY:
            gem.register(name, gem_recipe.FactEnv, environment=env_id, **case.episode.config)
        env = gem.make(name)
        seed = seed_of(case.episode.make(), case.episode.task)
        if seed is None:
            continue
        text, info = env.reset(seed=seed)
        assert info["task"] == case.episode.task
        first = tools_as_text(case.reference.first, env._session.all_tools())
        assert text == "\n\n".join(message["content"] or "" for message in first)
        for message, expected in zip(case.episode.messages, case.reference.results(), strict=False):
            answer, reward, terminated, truncated, info = env.step(message["content"])
            assert answer == expected
            if terminated or truncated:
                break
            assert (reward, info) == (0.0, {})
        if case.reference.stop == "turn_limit" and not (terminated or truncated):
            continue  # the script was cut, which GEM leaves to the environment
        report = info["report"]
        assert (reward, terminated) == (case.reference.total, case.reference.stop == "submitted")
        assert (report["components"], report["spans"]) == (case.reference.components, case.reference.spans)
        assert env.reset(seed=seed)[1]["previous"]["reward"] == reward
        played += 1
    assert played


def test_a_vector_plays_different_tasks_and_keeps_the_last_metrics(gem_recipe: Any) -> None:
    gem = gem_recipe.gem
    env = gem.make_vec(["factgym:claimcheck-multihop"] * 3, seed=7)
    again = gem.make_vec(["factgym:claimcheck-multihop"] * 3, seed=7)
    _, infos = env.reset()
    assert [info["task"] for info in infos] == [info["task"] for info in again.reset()[1]]
    assert len({info["task"] for info in infos}) == 3
    tasks = [info["task"] for info in infos]
    for _ in range(40):
        infos = env.step(["I think so."] * 3)[-1]
        if "previous" in infos[0]:
            break
    assert [info["previous"]["task"] for info in infos] == tasks
    assert all(info["previous"]["truncated"] == 1.0 for info in infos)


def test_the_recipes_own_lines_run(gem_recipe: Any) -> None:
    done = subprocess.run(
        [sys.executable, "gem_first.py"], cwd=gem_recipe.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "turns left" in done.stdout
