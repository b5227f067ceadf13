"""Runs over worker processes of this machine: the records of one process, and nothing lost with a worker or the driver."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest
from worker_runs import ENV, alive, keys, lines, timeless, wait_for

import factgym
from factgym.agents.cluster import on_processes
from factgym.agents.resolve import find_agent
from factgym.agents.rollout.engine import Limits, RunAbortedError
from factgym.agents.rollout.jobs import Job
from factgym.agents.runs.collect import collect
from factgym.agents.runs.files import EPISODES
from factgym.core.errors import ConfigError
from factgym.training.difficulty_filter import only


@pytest.fixture
def play(tmp_path):
    """`collect` over two processes."""

    def run(agent, settings=None, folder="run", *, limits=None, env=None, workers=2, **rest):
        env = env or factgym.make(ENV, max_turns=2)
        engine = on_processes(workers, agent, settings)
        agent = find_agent(agent, env.env_spec.id, settings)
        return collect(env, agent, tmp_path / folder, engine=engine, limits=limits or Limits(concurrency=8), **rest)

    return run


def alone(agent, settings, folder, **rest):
    """`collect` in this process."""
    agent = find_agent(agent, ENV, settings)
    return collect(factgym.make(ENV, max_turns=2), agent, folder / "run", limits=Limits(concurrency=8), **rest)


@pytest.mark.parametrize("chosen", [slice(None), slice(7, 60, 2)], ids=["all tasks", "chosen tasks"])
def test_the_records_are_those_of_one_process(play, tmp_path, chosen):
    env = factgym.make(ENV)
    if chosen != slice(None):
        env = only(env, [env.tasks[index].id for index in range(len(env.tasks))[chosen]])
    here = collect(env, find_agent("nli", ENV), tmp_path / "here", n=30, k=2, seed=4)
    record = play("nli", env=env, n=30, k=2, seed=4)
    by_key = [
        sorted(map(timeless, lines(run)), key=lambda episode: (episode["index"], episode["sample"]))
        for run in (here, record)
    ]
    assert len(by_key[0]) == 2 * min(30, len(env.tasks))
    assert by_key[0] == by_key[1]


def test_two_processes_play_and_neither_is_this_one(play, policy, tmp_path):
    run = play(policy, {"folder": str(tmp_path / "marks"), "together": 2}, n=40)
    pids = {int(mark.name[4:]) for mark in (tmp_path / "marks").glob("pid-*")}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert set(keys(run).values()) == {1}
    assert len(keys(run)) == 40


def test_a_worker_that_is_killed_loses_and_doubles_nothing(play, policy, tmp_path, caplog):
    run = play(policy, {"folder": str(tmp_path / "marks"), "kill": "@once", "together": 2}, n=30, k=2)
    assert (tmp_path / "marks" / "killed").exists()
    assert "a worker was lost" in caplog.text
    assert len(keys(run)) == 60
    assert set(keys(run).values()) == {1}
    assert not [episode for episode in lines(run) if episode["error"]]


def test_an_episode_that_kills_every_worker_is_an_error_and_the_others_are_played(play, policy, tmp_path):
    env = factgym.make(ENV)
    env.reset(options={"task": 7})
    deadly = env.episode.messages[1]["content"]
    settings = {"folder": str(tmp_path / "marks"), "kill": deadly}
    run = play(policy, settings, n=None, env=factgym.make(ENV, max_turns=1), limits=Limits(concurrency=8))
    episodes = lines(run)
    errors = [episode for episode in episodes if episode["error"]]
    assert [episode["index"] for episode in errors] == [7]
    assert errors[0]["error"]["cause"] == "worker_lost"
    assert errors[0]["reward"]["status"] == "error"
    assert len((tmp_path / "marks" / "kills").read_text().split()) in (3, 4)  # the first may be laid to others
    assert sorted(episode["index"] for episode in episodes) == list(range(len(env.tasks)))


def test_a_run_that_was_cut_off_is_continued(play, policy, tmp_path):
    settings = {"folder": str(tmp_path / "marks")}
    first = alone(policy, settings, tmp_path, n=20)
    path = first.folder / EPISODES
    retained = path.read_bytes().splitlines(keepends=True)[:7]
    path.write_bytes(b"".join(retained) + b'{"schema":1,"env"')
    run = play(policy, settings, n=20, resume=True, workers=1)
    assert path.read_bytes().startswith(b"".join(retained))
    assert len(keys(run)) == 20
    assert set(keys(run).values()) == {1}


def test_faults_are_recorded_and_played_again(play, policy, tmp_path):
    marks = {"folder": str(tmp_path / "marks")}
    alone(policy, {**marks, "fault": "e"}, tmp_path, n=5)
    again = play(policy, {**marks, "fault": "e"}, n=5, resume=True)
    assert {episode["error"]["cause"] for episode in lines(again)} == {"connection"}
    assert Counter(episode["attempt"] for episode in lines(again)) == {1: 5, 2: 5}


def test_a_fatal_fault_and_errors_in_a_row_stop_the_run(play, policy, tmp_path):
    fault = {"folder": str(tmp_path / "marks"), "fault": "e"}
    with pytest.raises(RunAbortedError, match=r"^the run was stopped: connection: the server went away$"):
        play(policy, {**fault, "fatal": True}, "fatal", n=100)
    with pytest.raises(RunAbortedError, match="stopped after 6 errors in a row; the last: connection"):
        play(policy, fault, "row", n=None, limits=Limits(concurrency=4, max_errors=6))
    assert len((tmp_path / "row" / EPISODES).read_text("utf-8").splitlines()) < 20


def test_a_cancelled_run_leaves_no_worker_behind(policy, tmp_path):
    settings = {"folder": str(tmp_path / "marks"), "seconds": 0.2}
    env, records = factgym.make(ENV, max_turns=2), []

    async def cancelled():
        jobs = [Job(index) for index in range(200)]
        task = asyncio.create_task(
            on_processes(2, policy, settings)(env, find_agent(policy, ENV, settings), jobs, records.append)
        )
        while not records:
            await asyncio.sleep(0.05)
            assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert 0 < len(records) < 200
    wait_for(lambda: not any(map(alive, pids(tmp_path))))


def test_settings_that_cannot_be_sent_or_built_are_named(policy, tmp_path):
    plan = factgym.make(ENV), find_agent("nli", ENV), [Job(0)], print
    with pytest.raises(ConfigError, match="a setting of the environment or the agent cannot be sent to workers"):
        asyncio.run(on_processes(1, "nli", {"lock": threading.Lock()})(*plan))
    with pytest.raises(ConfigError, match="the run's agent is 'nli', and its workers were given 'random'"):
        asyncio.run(on_processes(1, "random")(*plan))
    with pytest.raises(ConfigError, match="at least 1 worker, not 0"):
        on_processes(0, "nli")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_command_that_is_stopped_ends_its_workers_and_is_continued(policy, tmp_path, number, code):
    marks = tmp_path / "marks"
    command = [sys.executable, "-m", "factgym.cli.main", "eval", ENV, "--agent", policy, "-n", "36"]
    command += ["--workers", "2", "--concurrency", "4", "--out", str(tmp_path / "run"), "--set", "max_turns=2"]
    command += ["--agent-set", f"folder={marks}", "--resume", "--agent-set", "seconds=0.2"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=tmp_path,
            # Tests that a shell runs in its background inherit an ignored SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        file = tmp_path / "run" / EPISODES
        wait_for(lambda: file.is_file() and file.read_bytes().count(b"\n") > 3, process)
        # As a terminal does: Ctrl-C reaches the workers too.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        assert process.wait(60) == code, (tmp_path / "log").read_text()
    wait_for(lambda: not any(map(alive, pids(tmp_path))))
    before = file.read_bytes().splitlines(keepends=True)
    assert 0 < len(before) < 36
    subprocess.run(command, cwd=tmp_path, check=False, capture_output=True)
    after = file.read_bytes().splitlines(keepends=True)
    assert len(after) == 36
    assert after[: len(before) - 1] == before[:-1]


def pids(folder):
    """The processes in which the policy has played."""
    return [int(mark.name[4:]) for mark in (folder / "marks").glob("pid-*")]
