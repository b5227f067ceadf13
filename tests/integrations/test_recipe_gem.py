"""The GEM recipe: every environment's episodes are the same through GEM's own registry and vector environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("gem", reason="needs gem-llm 0.1 (docs/guides/integrations/recipes.md)")

import gem
import same_episodes
from conformance.setups import SETUPS
from recipes import write_files

from factgym.agents.sampling import tools_as_text

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own
SETUP_IDS = [f"{env_id}-{needs.__name__}".removesuffix("-nothing") for env_id, needs in SETUPS]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Any:
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


@pytest.mark.parametrize(("env_id", "needs"), SETUPS, ids=SETUP_IDS)
def test_every_episode_is_the_same_through_gem(recipe: Any, env_id: str, needs: Callable[..., Any]) -> None:
    played = 0
    for case in same_episodes.cases("texts"):
        if (case.env, case.needs) != (env_id, needs):
            continue
        name = f"here:{case}"
        if name not in gem.envs.registration.ENV_REGISTRY:
            gem.register(name, recipe.FactEnv, environment=env_id, **case.episode.config)
        env = gem.make(name)
        seed = seed_of(case.episode.make(), case.episode.task)
        if seed is None:
            continue
        text, info = env.reset(seed=seed)
        assert info["task"] == case.episode.task
        told = tools_as_text(case.reference.first, env._session.all_tools())
        assert text == "\n\n".join(one["content"] or "" for one in told)
        for message, said in zip(case.episode.messages, case.reference.results(), strict=False):
            found, reward, terminated, truncated, info = env.step(message["content"])
            assert found == said
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


def test_a_vector_plays_different_tasks_and_keeps_the_last_metrics(recipe: Any) -> None:
    env = gem.make_vec(["factgym:claimcheck-multihop"] * 3, seed=7)
    again = gem.make_vec(["factgym:claimcheck-multihop"] * 3, seed=7)
    _, infos = env.reset()
    assert [one["task"] for one in infos] == [one["task"] for one in again.reset()[1]]
    assert len({one["task"] for one in infos}) == 3
    tasks = [one["task"] for one in infos]
    for _ in range(40):
        infos = env.step(["I think so."] * 3)[-1]
        if "previous" in infos[0]:
            break
    assert [one["previous"]["task"] for one in infos] == tasks
    assert all(one["previous"]["truncated"] == 1.0 for one in infos)


def test_the_recipes_own_lines_run(recipe: Any) -> None:
    done = subprocess.run(
        [sys.executable, "gem_first.py"], cwd=recipe.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "turns left" in done.stdout
