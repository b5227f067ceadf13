"""Nothing is lost: runs killed at any instant, cut anywhere, on a disk that fills up, continued to the same episodes."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import policies
import pytest
from killed_runs import kill_until_done, run_command, size_of
from test_engine import agent, by_job
from timeless import timeless
from typer.testing import CliRunner

import factgym
from factgym.agents.agent import agent_from_script
from factgym.agents.resolve import find_agent, find_scripted_agent
from factgym.agents.rollout.engine import Limits, RunAbortedError
from factgym.agents.rollout.jobs import Job
from factgym.agents.runs.collect import collect, manifest_of
from factgym.agents.runs.files import EPISODES, MANIFEST, check_same
from factgym.agents.runs.read import REMOVED, read_run, repair_run
from factgym.agents.runs.write import RunWriter, last_folder
from factgym.cli.main import app
from factgym.core.errors import ConfigError, DataError

ENV = "claimcheck-multihop"
POLICIES = Path(__file__).parent / "policies.py"


@pytest.fixture(scope="module")
def env():
    return factgym.make(ENV)


@pytest.fixture(scope="module")
def whole(env, tmp_path_factory):
    """A run that was never interrupted: 12 tasks, 2 samples."""
    folder = tmp_path_factory.mktemp("whole")
    return episodes(collect(env, agent(policies.Seeded()), folder, n=12, k=2))


def episodes(run):
    recorded = list(run.episodes())
    assert len(by_job(recorded)) == len(recorded), "an episode is there twice"
    return by_job(recorded)


def command(out, *more):
    return [
        *(sys.executable, "-m", "factgym", "eval", ENV, "--agent", f"{POLICIES}:Seeded", "--agent-set", "wait=0.01"),
        *("-n", "100", "-k", "2", "--concurrency", "8", "--out", str(out), *more),
    ]


def test_a_run_killed_at_random_points_equals_an_uninterrupted_run(env, tmp_path):
    """SIGKILL, again and again, at points that a seed chose; the reference is one run without interruption."""
    reference = episodes(collect(env, agent(policies.Seeded(wait=0.002)), tmp_path / "reference", n=100, k=2))
    out, size = tmp_path / "killed", size_of(tmp_path / "reference" / EPISODES)
    assert kill_until_done(run_command, (command(out, "--resume")[3:], tmp_path), out / EPISODES, size, seed=5) >= 3
    assert {episode["agent"] for episode in read_run(out).episodes()} == {"policies.py:Seeded"}
    killed = {key: {**episode, "agent": "mine"} for key, episode in episodes(read_run(out)).items()}
    assert killed == reference


@pytest.mark.parametrize("seed", range(12))
def test_a_file_cut_at_any_byte_is_continued(env, whole, tmp_path, seed):
    collect(env, agent(policies.Seeded()), tmp_path, n=12, k=2)
    path = tmp_path / EPISODES
    data = path.read_bytes()
    rng = random.Random(seed)
    ends = [index + 1 for index, byte in enumerate(data) if byte == 10]
    # Anywhere, and at the places where off-by-one lives: before, at and after a line break.
    cut = rng.choice([rng.randrange(len(data)), rng.choice(ends) - 1, rng.choice(ends), rng.choice(ends[:-1]) + 1])
    path.write_bytes(data[:cut])
    retained = data[:cut].rpartition(b"\n")[0]
    assert episodes(collect(env, agent(policies.Seeded()), tmp_path, n=12, k=2, resume=True)) == whole
    assert path.read_bytes().startswith(retained)


def test_a_complete_run_is_not_changed(env, whole, tmp_path):
    collect(env, agent(policies.Seeded()), tmp_path, n=12, k=2)
    before = (tmp_path / EPISODES).read_bytes()
    assert episodes(collect(env, agent(policies.Seeded()), tmp_path, n=12, k=2, resume=True)) == whole
    assert (tmp_path / EPISODES).read_bytes() == before


def test_a_run_killed_before_its_first_episode_is_restarted(env, whole, tmp_path):
    (tmp_path / EPISODES).touch()
    (tmp_path / "manifest.tmp").write_text('{"env": ')
    assert episodes(collect(env, agent(policies.Seeded()), tmp_path, n=12, k=2, resume=True)) == whole


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv[1:] = sys.argv[2:]
from factgym.cli.main import main
main()
"""


def test_a_full_disk_stops_the_run_between_lines(env, tmp_path):
    """The system takes a part of a line and refuses the rest, as a full disk does (here: a limit on file size)."""
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-c", FULL, "200000", *command(out)[3:]], capture_output=True, text=True, cwd=tmp_path, check=False
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "cannot write to" in done.stderr and "--resume" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    data = (out / EPISODES).read_bytes()
    assert 100_000 < len(data) <= 200_000
    assert data.endswith(b"\n")
    for line in data.splitlines():
        json.loads(line)
    assert "The run is incomplete" in done.stdout
    collect(env, find_agent(f"{POLICIES}:Seeded", ENV, {"wait": 0.01}), out, n=100, k=2, resume=True)
    assert (out / EPISODES).read_bytes().startswith(data)
    assert len(episodes(read_run(out))) == 200


def test_errors_are_played_again_and_counted(env, tmp_path):
    flaky = policies.Flaky()
    first = collect(env, agent(flaky), tmp_path, n=30, k=2, limits=Limits(max_errors=0))
    errors = [episode for episode in first.episodes() if episode["error"]]
    assert 5 < len(errors) < 60
    assert not first.notes
    again = collect(env, agent(flaky), tmp_path, n=30, k=2, resume=True, limits=Limits(max_errors=0))
    attempts = {episode["attempt"] for episode in again.episodes() if episode["error"]}
    assert attempts == {2}
    flaky.broken = False
    last = collect(env, agent(flaky), tmp_path, n=30, k=2, resume=True)
    episodes = list(last.episodes())
    assert len(episodes) == len(by_job(episodes)) == 60
    assert not any(episode["error"] for episode in episodes)
    assert sorted(episode["attempt"] for episode in episodes).count(3) == len(errors)
    lines = (tmp_path / EPISODES).read_text("utf-8").splitlines()
    assert len(lines) == 60 + 2 * len(errors), "what happened stays in the file"


def test_a_dead_server_stops_the_run_and_it_can_go_on(env, tmp_path):
    with pytest.raises(RunAbortedError, match="errors in a row"):
        collect(env, agent(policies.Broken()), tmp_path, n=60, limits=Limits(max_errors=16))
    assert "The run is incomplete: 16 of 60 episodes." in read_run(tmp_path).notes
    recorded = episodes(collect(env, agent(policies.Seeded()), tmp_path, n=60, resume=True))
    assert len(recorded) == 60


def test_another_run_is_never_continued(env, tmp_path):
    collect(env, agent(policies.Seeded()), tmp_path, n=3)
    for change, message in (
        ({"n": 4}, "n: 3 then, 4 now"),
        ({"k": 2, "n": 3}, "k: 1 then, 2 now"),
        ({"seed": 1, "n": 3}, "seed: 0 then, 1 now"),
    ):
        with pytest.raises(ConfigError, match=message):
            collect(env, agent(policies.Seeded()), tmp_path, resume=True, **change)
    with pytest.raises(ConfigError, match="agent"):
        collect(env, agent(policies.Seeded(), "another"), tmp_path, n=3, resume=True)
    with pytest.raises(ConfigError, match=r"config\.reward"):
        collect(factgym.make(ENV, reward="r0"), agent(policies.Seeded()), tmp_path, n=3, resume=True)


def test_two_processes_never_write_to_one_run(env, tmp_path):
    manifest = manifest_of(env, agent(policies.Seeded()), 3, 1, 0)
    with RunWriter(tmp_path, manifest), pytest.raises(ConfigError, match="another process"):
        RunWriter(tmp_path, manifest, resume=True)
    RunWriter(tmp_path, manifest, resume=True).close()


def test_a_broken_line_inside_is_named_and_nothing_is_touched(env, tmp_path):
    collect(env, agent(policies.Seeded()), tmp_path, n=5)
    path = tmp_path / EPISODES
    lines = path.read_bytes().splitlines(keepends=True)
    for broken in (b'{"torn": \n', b"[]\n", b'{"index": 1}\n'):
        data = b"".join([lines[0], broken, *lines[1:]])
        path.write_bytes(data)
        with pytest.raises(DataError, match="line 2"):
            collect(env, agent(policies.Seeded()), tmp_path, n=5, resume=True)
        assert path.read_bytes() == data


def test_a_lost_manifest_is_an_error(env, tmp_path):
    collect(env, agent(policies.Seeded()), tmp_path, n=3)
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(ConfigError, match=r"manifest\.json cannot be read"):
        collect(env, agent(policies.Seeded()), tmp_path, n=3, resume=True)


@pytest.mark.parametrize(
    ("number", "ignored"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)]
)
def test_an_interrupt_writes_finished_episodes_and_names_the_resume_option(tmp_path, number, ignored):
    """Ctrl-C as a person presses it, SIGTERM as a cluster sends it; shells start background jobs with SIGINT ignored."""
    out = tmp_path / "out"
    process = subprocess.Popen(
        command(out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL),
    )  # fmt: skip
    while process.poll() is None and not ((out / EPISODES).exists() and (out / EPISODES).stat().st_size):
        time.sleep(0.005)  # it is never interrupted before it did anything
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number, (stdout, stderr)
    assert "continue with --resume" in stdout
    assert "The run is incomplete" in stdout
    assert "Traceback" not in stderr
    data = (out / EPISODES).read_bytes()
    assert data.endswith(b"\n")
    assert 0 < len(data.splitlines()) < 200


def test_the_newest_run_of_a_name_is_continued(tmp_path):
    assert last_folder(tmp_path, "run") == tmp_path / "run"
    for name in ("run", "run-2", "run-3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / EPISODES).touch()
    assert last_folder(tmp_path, "run") == tmp_path / "run-3"


def test_a_scripted_run_is_continued_too(env, tmp_path):
    agent = agent_from_script(find_scripted_agent(ENV, "random"))
    reference = episodes(collect(env, agent, tmp_path / "a", n=20))
    collect(env, agent, tmp_path / "b", n=20)
    lines = (tmp_path / "b" / EPISODES).read_bytes().splitlines(keepends=True)
    (tmp_path / "b" / EPISODES).write_bytes(b"".join(lines[:9]) + lines[9][:50])
    assert episodes(collect(env, agent, tmp_path / "b", n=20, resume=True)) == reference


def test_reading_skips_what_was_played_again(env, tmp_path):
    """As a file would stand if the process died between an error and its second attempt, and after it."""
    episodes = []
    manifest = manifest_of(env, agent(policies.Seeded()), 2, 1, 0)
    with RunWriter(tmp_path, manifest) as writer:
        run = collect(env, agent(policies.Seeded()), tmp_path / "other", n=2)
        good, other = list(run.episodes())
        bad = {**good, "error": {"cause": "connection", "message": "reset"}, "turns": [], "attempt": 1}
        for item in (bad, other, {**good, "attempt": 2}):
            writer.add(item)
        episodes = list(read_run(tmp_path).episodes())
    assert [timeless(item) for item in episodes] == [timeless(other), timeless({**good, "attempt": 2})]
    writer = RunWriter(tmp_path, manifest, resume=True)
    assert writer.remaining(Job(good["index"], good["sample"])) is None
    writer.close()


def test_an_unwritable_folder_is_an_error(env, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="--out"):
        collect(env, agent(policies.Seeded()), tmp_path / "file" / "run", n=1)


def test_a_run_is_continued_at_another_address_but_not_with_another_model(tmp_path):
    """How a server is reached changes no answer; its model and sampling do."""
    details = {"kind": "endpoint", "model": "m", "base_url": "http://a/v1", "timeout": 9.0, "connections": 8}
    (tmp_path / MANIFEST).write_text(json.dumps({"agent": "http://a/v1", "agent_details": details}))
    moved = {**details, "base_url": "http://b/v1", "timeout": 1.0, "max_retries": 3, "connections": 1}
    check_same(tmp_path, {"agent": "http://b/v1", "agent_details": moved})
    for change in ({"model": "n"}, {"temperature": 0.5}):
        with pytest.raises(ConfigError, match=next(iter(change))):
            check_same(tmp_path, {"agent": "http://b/v1", "agent_details": {**moved, **change}})
    with pytest.raises(ConfigError, match="agent: "):
        check_same(tmp_path, {"agent": "oracle", "agent_details": moved})


def foreign_lines(whole):
    """Lines that are no part of a run of seed 0, by the words for them; each is a valid record."""
    other = {**whole, "seed": whole["seed"] + 1}
    another = {**whole, "env": "seva"}
    version = {**whole, "version": whole["version"] + 1}
    agents = {**whole, "agent": "another"}
    lines = [other, another, version, agents, whole]
    return dict(zip(("seed", "environment", "version", "another agent", "further line"), lines, strict=True))


def test_foreign_and_doubled_lines_are_refused_by_name_never_counted_and_repaired(env, tmp_path):
    reference = episodes(collect(env, agent(policies.Seeded()), tmp_path, n=6, k=2))
    path = tmp_path / EPISODES
    lines = path.read_bytes().splitlines(keepends=True)
    added = foreign_lines(json.loads(lines[0]))
    foreign = [json.dumps(episode).encode() + b"\n" for episode in added.values()]
    half = [*lines[:3], *foreign, b'{"torn": \n', *lines[3:9]]
    path.write_bytes(b"".join(half))
    with pytest.raises(DataError, match="line 9: no valid JSON"):
        collect(env, agent(policies.Seeded()), tmp_path, n=6, k=2, resume=True)
    path.write_bytes(b"".join(line for line in half if b"torn" not in line))
    with pytest.raises(DataError, match=r"line 4 is of another seed.*`factgym repair") as refused:
        collect(env, agent(policies.Seeded()), tmp_path, n=6, k=2, resume=True)
    assert all(words in str(refused.value) for words in added)
    run = read_run(tmp_path)
    assert len(list(run.episodes())) == 9
    assert any("factgym repair" in note and "1 of another seed" in note for note in run.notes)
    path.write_bytes(b"".join(half) + lines[9][:30])
    result = repair_run(tmp_path)
    assert result.lines == 9 and sum(result.removed.values()) == len(foreign) + 2
    assert path.read_bytes() == b"".join(lines[:9])
    removed = (tmp_path / REMOVED).read_bytes()
    assert all(line in removed for line in [*foreign, b'{"torn": \n', lines[9][:30]])
    assert repair_run(tmp_path).removed == {}
    assert episodes(collect(env, agent(policies.Seeded()), tmp_path, n=6, k=2, resume=True)) == reference


def test_the_command_repairs_and_says_how_many_of_what(env, tmp_path):
    collect(env, agent(policies.Seeded()), tmp_path, n=3)
    path = tmp_path / EPISODES
    path.write_bytes(path.read_bytes() * 3)
    result = CliRunner().invoke(app, ["repair", str(tmp_path)])
    assert result.exit_code == 0
    assert "6 lines removed: a further line of an episode" in result.output and "3 lines stay" in result.output
    assert "nothing to repair" in CliRunner().invoke(app, ["repair", str(tmp_path)]).output
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(DataError, match="cannot be repaired"):
        repair_run(tmp_path)


def test_attempts_that_failed_stay_in_a_repaired_run(env, tmp_path):
    manifest = manifest_of(env, agent(policies.Seeded()), 2, 1, 0)
    (good, other) = collect(env, agent(policies.Seeded()), tmp_path / "other", n=2).episodes()
    bad = {**good, "error": {"cause": "connection", "message": "reset"}, "attempt": 1}
    with RunWriter(tmp_path / "run", manifest) as writer:
        for item in (bad, other, {**good, "attempt": 2}, bad):
            writer.add(item)
    assert repair_run(tmp_path / "run").removed == {"a further line of an episode that is finished": 1}
    assert [episode["attempt"] for episode in read_run(tmp_path / "run").episodes()] == [1, 2]
