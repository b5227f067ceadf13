"""What a certificate hashes of the code: all that runs when an episode is scored, and little else."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import factgym
from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import play_episode
from factgym.benchmarks.search.reward_code import reward_files, reward_sources, without_comments
from factgym.core.env import Env

ENVS = ("claimcheck", "claimcheck-mini", "seva", "profact", "corver-qa", "eve-solver", "eve-proposer")
LAYERS = ("factgym.rewards", "factgym.corpora", "factgym.datasets", "factgym.baselines", "factgym.envs")
DATA = ("factgym.corpora.cooccurrence", "factgym.corpora.corpus", "factgym.envs.task_sets")
"""Counts over a corpus, passages and tasks: these are hashed as tasks, or are a tool's."""


def run_code(env: Env[Any], agent: str) -> set[tuple[str, CodeType]]:
    """Return the module and code of each function of these layers that runs inside `score`."""
    seen: set[tuple[str, CodeType]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith(LAYERS) and not name.startswith(DATA):
            seen.add((name, frame.f_code))

    score = env.score

    def traced() -> Any:
        sys.setprofile(note)
        try:
            return score()
        finally:
            sys.setprofile(None)

    env.score = traced  # type: ignore[method-assign]
    play_episode(env, find_scripted_agent(env.env_spec.id, agent), 0)
    return seen


@pytest.mark.parametrize("env_id", ENVS)
def test_all_code_that_runs_while_an_episode_is_scored_is_hashed(env_id: str) -> None:
    """Against Python's profiler."""
    env = factgym.make(env_id)
    sources = reward_sources(env)
    seen = run_code(env, "oracle")
    assert seen
    missed = {
        f"{name}.{code.co_qualname}"
        for name, code in seen
        if "<" not in code.co_qualname and inspect.getsource(code).rstrip() not in sources.get(name, "")
    }
    assert not missed
    assert all(without_comments(source) for source in sources.values())


def test_what_decides_a_reward_is_hashed_and_agents_strategies_and_rendering_are_not() -> None:
    sources = reward_sources(factgym.make("profact"))
    assert "def label_priors" in sources["factgym.envs.profact.prior"]
    assert "def fit_logistic" in sources["factgym.baselines.fitting"]
    assert "def value_terms" in sources["factgym.text.numbers"]
    assert "def read_fact_checks" not in sources["factgym.datasets.averitec"]
    families = ("agents", "strategies", "scripted", "gold_agents")
    for env_id in ENVS:
        names = reward_sources(factgym.make(env_id))
        assert not [name for name in names if name.startswith(("factgym.core", "factgym.tools", "factgym.generators"))]
        assert not [name for name in names if name.rpartition(".")[2] in families]
    assert [*reward_files(sources)] == ["factgym.text/sentence_words.toml", "factgym.text/wordnet.tsv.gz"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "own_reward"
    folder.mkdir()
    (folder / "__init__.py").write_text("", "utf-8")
    (folder / "env.py").write_text(
        "from factgym.envs.toy import ToyEnv\nfrom .helpers import worth\n\n\nclass OwnEnv(ToyEnv):\n    value = worth(2)\n",
        "utf-8",
    )
    (folder / "helpers.py").write_text(
        "from functools import cache\nfrom factgym.text.folding import fold as folded\n\nUNIT = 1\n\n\n"
        "@cache\ndef worth(count):\n    return count * UNIT * len(folded('a'))\n\n\ndef other():\n    return UNIT + 1\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("own_reward")]:
        del sys.modules[name]


def test_an_own_package_counts_by_the_definitions_that_its_environment_uses(package: Path) -> None:
    from own_reward.env import OwnEnv  # type: ignore[import-not-found]

    sources = reward_sources(object.__new__(OwnEnv))
    assert [*sources][:2] == ["factgym.envs.toy", "own_reward.env"]
    assert sources["own_reward.helpers"] == (
        "UNIT = 1\n@cache\ndef worth(count):\n    return count * UNIT * len(folded('a'))\n"
    )
