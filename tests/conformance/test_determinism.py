"""The same id, seed and actions give the same bytes: in another process, threads, copies and pickles."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from setups import MALFORMED, Setup, digest, exact, played, sampled_actions, transcript

HERE = Path(__file__).resolve().parent

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from setups import Setup, digest, transcript
for line in sys.stdin:
    print(digest(transcript(Setup(*json.loads(line)), seed=5)), flush=True)
"""


@pytest.fixture(scope="module")
def other_process() -> Iterator[subprocess.Popen[str]]:
    """A process with a hash seed of its own, which answers a setup with the digest of its transcript."""
    paths = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    hash_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(HERE)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.communicate()


def test_another_process_gives_the_same_bytes(setup: Setup, other_process: subprocess.Popen[str]) -> None:
    assert other_process.stdin is not None and other_process.stdout is not None
    other_process.stdin.write(json.dumps([setup.id, setup.kwargs]) + "\n")
    other_process.stdin.flush()
    lines = list(transcript(setup, seed=5))
    assert other_process.stdout.readline().strip() == digest(lines)
    assert list(islice(transcript(setup, seed=6), 20)) != lines[:20]


def test_threads_that_share_the_tasks_give_the_same_bytes(setup: Setup) -> None:
    expected = digest(islice(transcript(setup, seed=8), 12))
    with ThreadPoolExecutor(3) as pool:
        digests = list(pool.map(lambda _: digest(islice(transcript(setup, seed=8), 12)), range(3)))
    assert digests == [expected] * 3


def test_a_copy_branches_an_episode(setup: Setup) -> None:
    env = setup.make()
    env.reset(seed=2)
    first, second, third = sampled_actions(env, 2, 3)
    first = f"{first} said in words".replace("<", "(")  # a sampled submission would end the episode
    if env.config.max_turns > 1:
        env.step(first)
    before = exact(env.episode.messages)
    branch, sibling = copy.deepcopy(env), copy.deepcopy(env)
    assert branch.tasks is env.tasks and branch.task is env.task
    transcript_lines = list(played(branch, iter([second, third])))
    assert exact(env.episode.messages) == exact(sibling.episode.messages) == before
    list(played(sibling, iter([third])))
    assert exact(env.episode.messages) == before
    assert list(played(env, iter([second, third]))) == transcript_lines
    branch.reset()
    env.reset()
    assert branch.task == env.task


def test_a_pickle_is_small_and_goes_on_in_the_middle_of_an_episode(setup: Setup) -> None:
    env = setup.make()
    env.reset(seed=2)
    actions = [MALFORMED["prose"], *sampled_actions(env, 2, 3)]
    if env.config.max_turns > 1:
        env.step(actions.pop(0))
    stored = pickle.dumps(env)
    chars = sum(len(message["content"] or "") for message in env.episode.messages)
    assert len(stored) < 20_000 + 8 * chars
    assert len(stored) < 100_000
    twin = pickle.loads(stored)
    assert twin.tasks is env.tasks and twin.task is env.task
    assert exact(twin.episode.messages) == exact(env.episode.messages)
    assert list(played(twin, iter(actions))) == list(played(env, iter(actions)))
    assert pickle.loads(pickle.dumps(env)).episode.report == env.episode.report
    twin.reset()
    env.reset()
    assert twin.task is env.task


def test_a_second_instance_shares_the_tasks(setup: Setup) -> None:
    first = setup.make()
    first.reset(seed=0)
    second = setup.make(max_turns=3)
    assert second.tasks is first.tasks
    second.reset(options={"task": first.episode.index})
    assert second.task is first.task


def test_the_task_set_is_a_sequence_with_names(setup: Setup) -> None:
    tasks = setup.make().tasks
    size = len(tasks)
    for index in sorted({0, size // 2, size - 1}):
        assert tasks[index].id
        assert tasks.index_of(tasks[index].id) == index
    ids = [tasks[index].id for index in range(min(size, 100))]
    assert len(set(ids)) == len(ids)
    assert tasks.fingerprint() == setup.make().tasks.fingerprint() != ""
