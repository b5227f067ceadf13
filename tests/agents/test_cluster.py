"""Runs on a real Ray cluster: one node on this machine, started as a user starts it, with two worker processes."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import gymnasium
import pytest
from worker_runs import ENV, alive, keys, lines, timeless, wait_for

import factgym
from factgym.agents.cluster import on_ray
from factgym.agents.cluster.worker import build, recipe_of
from factgym.agents.resolve import find_agent
from factgym.agents.rollout.engine import Limits
from factgym.agents.rollout.jobs import Job
from factgym.agents.runs.collect import collect
from factgym.agents.runs.write import RunWriteError
from factgym.core import registry
from factgym.core.errors import ConfigError, MissingExtraError

NOTES = """# Storage

The archive keeps every signed contract for twelve years after the last payment. Invoices above 500 euros must be
approved by the head of the department within 10 working days. The registry deletes personal data after 36 months
unless a court has asked for it. Employees may take copies home only with the written consent of the archivist.

# Access

Visitors must register at the front desk at least 24 hours before they arrive. The reading room is open on every
working day from 9 to 17 hours. A visitor may request no more than 20 boxes in one week, and each box must be returned
on the same day. The archivist may refuse requests that would damage the original documents.
"""


def needs_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs the extra 'ray'")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster with two CPUs that asks for the token of `tests/agents/conftest.py`."""
    needs_ray()
    port, folder = free_port(), tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    node = start_node(folder, "--head", f"--port={port}")
    try:
        wait_for(lambda: reachable(port), node)
        yield f"127.0.0.1:{port}"
    finally:
        stop_node(node)
        shutil.rmtree(folder, ignore_errors=True)


def nodes(address: str) -> int:
    """How many machines the cluster has."""
    ray = importlib.import_module("ray")
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        return sum(node["Alive"] for node in ray.nodes())
    finally:
        ray.shutdown()


def start_node(folder: str, *options: str, head: bool = True) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=2", *options]
    command += [f"--node-ip-address=127.0.0.{1 if head else 2}", "--object-store-memory=100000000"]
    if head:
        command += [f"--temp-dir={folder}", "--include-dashboard=false", "--disable-usage-stats"]
    log = Path(folder, "start.log").open("wb")  # noqa: SIM115 - closed below; the process has its own
    with log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def stop_node(node: subprocess.Popen[bytes]) -> None:
    node.terminate()
    try:
        node.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()


def kill_node(node: subprocess.Popen[bytes]) -> None:
    """As a machine that fails: every process of it at once."""
    result = [node.pid]
    for pid in result:
        result += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    for pid in result:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def reachable(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def play(cluster, tmp_path):
    """`collect` on the cluster."""

    def run(agent, settings=None, folder="run", *, limits=None, env=None, options=None, **rest):
        engine = on_ray(cluster, agent, settings, **{"workers": 2, **(options or {})})
        env = env or factgym.make(ENV, max_turns=2)
        agent = find_agent(agent, env.env_spec.id, settings)
        return collect(env, agent, tmp_path / folder, engine=engine, limits=limits or Limits(concurrency=8), **rest)

    return run


def test_the_records_are_those_of_one_process(play, tmp_path):
    env = factgym.make(ENV)
    here = collect(env, find_agent("nli", ENV), tmp_path / "here", n=30, k=2, seed=4)
    record = play("nli", env=env, n=30, k=2, seed=4)
    by_key = [
        sorted(map(timeless, lines(run)), key=lambda episode: (episode["index"], episode["sample"]))
        for run in (here, record)
    ]
    assert len(by_key[0]) == 60
    assert by_key[0] == by_key[1]


def test_a_worker_that_is_killed_loses_and_doubles_nothing(play, policy, tmp_path, caplog):
    run = play(policy, {"folder": str(tmp_path / "marks"), "kill": "@once", "together": 2}, n=30, k=2)
    assert (tmp_path / "marks" / "killed").exists()
    assert "a worker was lost" in caplog.text
    assert len(keys(run)) == 60
    assert set(keys(run).values()) == {1}
    assert not [episode for episode in lines(run) if episode["error"]]


def test_a_machine_that_fails_loses_and_doubles_nothing(cluster, play, policy, tmp_path, caplog):
    marks = tmp_path / "marks"
    settings = {"folder": str(marks), "seconds": 0.05, "together": 4}
    second = start_node(str(tmp_path), f"--address={cluster}", head=False)

    def fail_when_four_play():
        wait_for(lambda: len([*marks.glob("pid-*")]) >= 4, second)
        kill_node(second)

    failing = threading.Thread(target=fail_when_four_play)
    try:
        wait_for(lambda: nodes(cluster) == 2, second)
        failing.start()
        run = play(policy, settings, n=60, k=2, options={"workers": 4}, limits=Limits(concurrency=16))
    finally:
        failing.join()
        stop_node(second)
    assert "a worker was lost" in caplog.text
    assert len(keys(run)) == 120
    assert set(keys(run).values()) == {1}
    assert not [episode for episode in lines(run) if episode["error"]]


def test_a_cancelled_run_leaves_no_worker_behind(cluster, policy, tmp_path):
    marks = tmp_path / "marks"
    settings = {"folder": str(marks), "seconds": 0.2}
    env, retained = factgym.make(ENV, max_turns=2), []

    async def cancelled():
        run = on_ray(cluster, policy, settings, workers=2)(
            env, find_agent(policy, ENV, settings), [Job(i) for i in range(200)], retained.append
        )
        task = asyncio.create_task(run)
        while not retained:
            await asyncio.sleep(0.05)
            assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    pids = [int(mark.name[4:]) for mark in marks.glob("pid-*")]
    assert pids
    assert 0 < len(retained) < 200
    wait_for(lambda: not any(map(alive, pids)))


def test_an_unwritable_run_stops(cluster, policy, tmp_path):
    settings = {"folder": str(tmp_path / "marks")}

    def full(record):
        raise RunWriteError("the disk is full")

    run = on_ray(cluster, policy, settings)(
        factgym.make(ENV), find_agent(policy, ENV, settings), [Job(1), Job(2)], full
    )
    with pytest.raises(RunWriteError, match="the disk is full"):
        asyncio.run(run)


def test_a_cluster_that_does_not_fit_the_run_is_refused(cluster, play, monkeypatch):
    with pytest.raises(ConfigError, match=r"has \d CPUs and 0 GPUs, and a worker needs 1 and 1"):
        play("nli", n=1, options={"gpus_per_worker": 1})
    plan = factgym.make(ENV), find_agent("nli", ENV), [Job(0)]
    with pytest.raises(ConfigError, match="cannot be sent to workers"):
        asyncio.run(on_ray(cluster, "nli", {"lock": threading.Lock()})(*plan, print))
    monkeypatch.setattr(factgym, "__version__", "9.9.9")
    with pytest.raises(ConfigError, match=r"a worker of the Ray cluster has factgym \d.*and this is 9\.9\.9: install"):
        play("nli", folder="version", n=1)


def test_a_worker_that_cannot_build_its_recipe_is_an_error(cluster, policy, tmp_path):
    settings = {"folder": str(tmp_path / "marks")}
    agent = find_agent(policy, ENV, settings)
    Path(policy.rpartition(":")[0]).write_text("raise RuntimeError('no display on this machine')", "utf-8")
    with pytest.raises(ConfigError, match=r"a worker could not build the environment or the agent: .*no display on"):
        asyncio.run(on_ray(cluster, policy, settings)(factgym.make(ENV), agent, [Job(0)], print))
    with pytest.raises(ConfigError, match=r"the run's agent is 'mine.py:Policy', and its workers were given 'nli'"):
        asyncio.run(on_ray(cluster, "nli")(factgym.make(ENV), agent, [Job(0)], print))


@pytest.fixture
def own_env():
    """An environment that only this process has registered."""
    like = factgym.spec("claimcheck-docs")
    kwargs = {"kwargs": like.kwargs, "fixed": like.fixed, "agents": like.agents}
    own = factgym.register("only-here", like.entry_point, "For a test.", **kwargs)
    yield own.id
    del registry._specs[own.id]
    del gymnasium.registry[own.gymnasium_id]


def test_a_users_environment_and_a_relative_path(play, own_env, tmp_path, monkeypatch):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text(NOTES, "utf-8")
    monkeypatch.chdir(tmp_path)
    run = play("nli", n=2, env=factgym.make(own_env, path="notes"))
    assert [line["env"] for line in lines(run)] == ["only-here"] * 2


def test_an_existing_connection_is_reused_and_stays_open(cluster):
    ray = importlib.import_module("ray")
    plan = factgym.make(ENV), find_agent("nli", ENV), [Job(999999)]
    ray.init(address=cluster, log_to_driver=False, logging_level="ERROR")
    try:
        with pytest.raises(ConfigError, match="there is no task 999999"):
            asyncio.run(on_ray("local", "nli", workers=1)(*plan, print))
        assert ray.is_initialized()
    finally:
        ray.shutdown()


def test_a_cluster_of_its_own(cluster, tmp_path):
    """ "local" starts one and ends it; SIGTERM is answered as before."""
    ray = importlib.import_module("ray")
    before = signal.getsignal(signal.SIGTERM)
    agent = find_agent("nli", ENV)
    run = collect(factgym.make(ENV), agent, tmp_path / "run", n=4, engine=on_ray("local", "nli", workers=1))
    assert len(keys(run)) == 4
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_users_file_reaches_a_machine_that_does_not_have_it(policy, tmp_path):
    settings = {"folder": str(tmp_path / "marks")}
    recipe = recipe_of(factgym.make(ENV, split="train"), policy, settings)
    local_agent = find_agent(policy, ENV, settings)
    Path(policy.rpartition(":")[0]).unlink()
    (tmp_path / "there").mkdir()
    env, agent = build(recipe, lambda: tmp_path / "there")
    assert agent.name == local_agent.name
    assert agent.describe() == local_agent.describe()
    assert env.tasks.fingerprint() == factgym.make(ENV, split="train").tasks.fingerprint()
    assert agent.start(env, 1).act([{}, {"content": "x"}], []) == "I cannot say."


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("ray://head:10001", "does not stream results: start factgym on a machine of the cluster with --ray auto"),
        ("head", "is no address of a Ray cluster: give auto, local or HOST:PORT"),
        ("head:99999", "is no address"),
        ("", "is no address"),
    ],
)
def test_an_address_that_cannot_be_is_refused(address, expected):
    needs_ray()
    with pytest.raises(ConfigError, match=expected):
        on_ray(address, "nli")


def test_an_unreachable_cluster_is_an_error_at_once():
    needs_ray()
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConfigError, match=rf"there is no Ray cluster at {address} \(Connection refused\): start one"):
        on_ray(address, "nli")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="--ray needs the extra 'ray'"):
        on_ray("auto", "nli")


@pytest.mark.parametrize("options", [{"workers": 0}, {"cpus_per_worker": -1}, {"gpus_per_worker": float("nan")}])
def test_impossible_settings_are_refused(options):
    with pytest.raises(ConfigError):
        on_ray("auto", "nli", **options)
