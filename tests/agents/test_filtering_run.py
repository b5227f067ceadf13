"""The filter over the rollout engine: retained tasks, retries, and kills at any instant."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import policies
import pytest
from forgetful import Forgetful, chance
from killed_runs import kill_until_done, run_command, size_of
from test_engine import agent

import factgym
from factgym.agents.agent import Agent
from factgym.agents.difficulty import DifficultyBand, find_rule, select
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs.files import EPISODES
from factgym.agents.runs.read import read_run
from factgym.core.errors import ConfigError
from factgym.training.difficulty_filter import KEPT, SUMMARY, TASKS, filter_tasks, only, read_tasks

POLICY = Path(__file__).parent / "forgetful.py"
G = 8


def forgetful_agent(**settings):
    item = Forgetful(**settings)
    return Agent("forgetful", lambda env, seed: item.start(seed))


@pytest.fixture(scope="module")
def env():
    return factgym.make("corver-qa", size=60)


@pytest.fixture(scope="module")
def filtered(env, tmp_path_factory):
    folder = tmp_path_factory.mktemp("filtered")
    return folder, filter_tasks(env, forgetful_agent(), folder, DifficultyBand(samples=G, anchors=4))


def files(folder):
    return {name: (folder / name).read_bytes() for name in (KEPT, TASKS, SUMMARY)}


def test_the_counts_are_those_of_the_episodes(env, filtered):
    folder, result = filtered
    right = Counter()
    for episode in read_run(folder).episodes():
        right[episode["task"]] += episode["reward"]["metrics"]["label"] == "good"
    assert {task: group.correct for task, group in result.groups.items()} == dict(right)
    zone = [task for task, n in right.items() if 0 < n < G]
    assert {task for task, kind in result.retained.items() if kind == "learning"} == set(zone)
    assert result.buckets.pool == 60
    assert 10 < len(zone) < 55
    assert result.buckets.anchors == 4
    # What the policy was made to know is what the filter finds.
    questions = {env.tasks[index].id: env.tasks[index].question for index in range(60)}
    assert all(right[task] == 0 for task, question in questions.items() if chance(question) == 0.0)
    assert all(right[task] == G for task, question in questions.items() if chance(question) == 1.0)


def test_retained_tasks_are_played_again_from_the_file(env, filtered):
    folder, result = filtered
    again = factgym.make("corver-qa", source="file", path=str(folder / KEPT))
    assert len(again.tasks) == len(result.retained)
    for i, task in enumerate(result.retained):
        old, new = env.tasks[env.tasks.index_of(task)].item, again.tasks[i].item
        assert (new.question, new.aliases) == (old.question, old.aliases)
        assert new.meta["own_id"] == task


def test_retained_tasks_are_played_again_by_id(filtered, tmp_path):
    folder, result = filtered
    part = only(factgym.make("corver-qa", size=60), read_tasks(folder / TASKS))
    again = filter_tasks(part, forgetful_agent(), tmp_path, DifficultyBand(samples=G))
    assert set(again.groups) == set(result.retained)


def test_another_zone_over_the_same_samples_plays_nothing(env, filtered, tmp_path):
    folder, _ = filtered
    copied = tmp_path / "copy"
    copied.mkdir()
    for name in (EPISODES, "manifest.json"):
        (copied / name).write_bytes((folder / name).read_bytes())
    before = (copied / EPISODES).read_bytes()

    def never(env, seed):
        raise AssertionError("nothing is to be played")

    silent = Agent("forgetful", never)
    wide = filter_tasks(env, silent, copied, DifficultyBand.parse(f"0:{G}", samples=G), resume=True)
    assert len(wide.retained) == 60
    assert (copied / EPISODES).read_bytes() == before
    with pytest.raises(ConfigError, match="k: 8 then, 4 now"):
        filter_tasks(env, silent, copied, DifficultyBand(samples=4), resume=True)
    with pytest.raises(ConfigError, match="already holds a run"):
        filter_tasks(env, silent, copied, DifficultyBand(samples=G))


def test_faults_are_excluded_and_played_again_on_resume(env, filtered, tmp_path):
    whole, _ = filtered
    zone, limits = DifficultyBand(samples=G, anchors=4), Limits(max_errors=0)
    first = filter_tasks(env, forgetful_agent(fail=0.1), tmp_path, zone, limits=limits)
    errors = sum(episode.errors for episode in first.groups.values())
    assert 20 < errors < 120
    assert first.buckets.incomplete == len(first.incomplete) > 10
    assert all(episode.scored == G for episode in first.groups.values() if episode.task in first.retained)
    data = json.loads((tmp_path / SUMMARY).read_text("utf-8"))
    assert not data["complete"]
    assert sum(episode["errors"] for episode in data["short"].values()) == errors
    # The same choices with a server that answers: the fault alone decided that an episode was none.
    again = filter_tasks(env, forgetful_agent(fail=0.0), tmp_path, zone, resume=True)
    assert again.buckets.incomplete == 0
    assert again.buckets.pool == 60
    rows = list(read_run(tmp_path).episodes())
    assert sum(episode["attempt"] == 2 for episode in rows) == errors
    assert set(files(whole)) == set(files(tmp_path))


@pytest.mark.parametrize("rule", ["auto", "verdict", "reward>=0.9"])
def test_every_environment_can_be_filtered(tmp_path, rule):
    env = factgym.make("claimcheck-multihop")
    selection = filter_tasks(env, agent(policies.Seeded()), tmp_path, DifficultyBand(samples=6), find_rule(rule), n=20)
    right = Counter()
    for episode in read_run(tmp_path).episodes():
        metrics = episode["reward"]["metrics"]
        if rule == "reward>=0.9":
            right[episode["task"]] += episode["reward"]["total"] >= 0.9
        else:
            right[episode["task"]] += metrics["verdict"] == metrics["gold_verdict"]
    assert {task: group.correct for task, group in selection.groups.items()} == dict(right)
    assert selection.rule == rule


def test_seva_is_judged_by_its_own_fact(tmp_path):
    env = factgym.make("seva")
    from factgym.agents.agent import agent_from_script
    from factgym.agents.resolve import find_scripted_agent

    selection = filter_tasks(
        env, agent_from_script(find_scripted_agent("seva", "random")), tmp_path, DifficultyBand(samples=4), n=30
    )
    right = Counter()
    for episode in read_run(tmp_path).episodes():
        right[episode["task"]] += episode["reward"]["metrics"]["correct"]
    assert {task: group.correct for task, group in selection.groups.items()} == dict(right)
    assert 0 < selection.buckets.between < 30


def test_a_filter_killed_at_random_points_equals_an_uninterrupted_filter(filtered, tmp_path):
    """SIGKILL, again and again, at points that a seed chose, the writing of the result among them."""
    out = tmp_path / "killed"
    arguments = [
        *("filter", "corver-qa", "--agent", f"{POLICY}:Forgetful", "-G", str(G), "--agent-set", "wait=0.005"),
        *("--set", "size=60", "--anchors", "4", "--concurrency", "8", "--out", str(out), "--resume"),
    ]
    assert kill_until_done(run_command, (arguments, tmp_path), out, size_of(filtered[0]), seed=7) >= 2
    assert files(out)[KEPT] == files(filtered[0])[KEPT]
    assert files(out)[TASKS] == files(filtered[0])[TASKS]
    assert select(read_run(out).episodes(), DifficultyBand(samples=G)).buckets.pool == 60
