"""Processes that the command line started end with it, also after `kill -9`: real processes, really killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")

MARK = "FACTGYM_TEST_MARK"

BUSY = '''
import pathlib, os


class Busy:
    """Never answers, and never waits either."""

    def act(self, messages, tools):
        pathlib.Path(__file__).with_name(f"busy-{os.getpid()}").touch()
        while True:
            pass
'''

NESTED = """
import multiprocessing, pathlib, os, time
from factgym.core.processes import end_with_parent


def busy(folder):
    end_with_parent()
    pathlib.Path(folder, f"busy-{os.getpid()}").touch()
    while True:
        pass


if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=busy, args=(os.path.dirname(__file__),), daemon=True).start()
    time.sleep(600)
"""

PROGRAM = "import pathlib, time; pathlib.Path('busy-1').touch(); time.sleep(600)"


def marked(mark):
    """The processes whose environment holds the mark."""
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                environ, state = (folder / "environ").read_bytes(), (folder / "stat").read_text().rpartition(")")[2]
            except OSError:
                continue
            if mark.encode() in environ and state.split()[0] != "Z":
                pids.append(int(folder.name))
    return pids


def until(condition, seconds=90.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


EVAL = ["-m", "factgym", "eval", "claimcheck-mini", "--split", "train", "--agent", "busy.py:Busy", "--workers", "2"]
TRAINING = ["-m", "factgym.training.supervised", sys.executable, "-c", PROGRAM]


@pytest.mark.parametrize(
    ("command", "busy", "how"),
    [
        pytest.param(EVAL, 2, signal.SIGKILL, id="workers of a run, kill -9"),
        pytest.param(EVAL, 2, signal.SIGTERM, id="workers of a run, kill"),
        pytest.param(["nested.py"], 1, signal.SIGKILL, id="a process of multiprocessing, kill -9"),
        pytest.param(TRAINING, 1, signal.SIGKILL, id="a training program, kill -9"),
    ],
)
def test_child_processes_end_with_the_command(tmp_path, command, busy, how):
    (tmp_path / "busy.py").write_text(BUSY)
    (tmp_path / "nested.py").write_text(NESTED)
    mark = uuid.uuid4().hex
    environment = {**os.environ, MARK: mark}
    process = subprocess.Popen(
        [sys.executable, *command], cwd=tmp_path, env=environment, start_new_session=True, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: process.poll() is not None or len(list(tmp_path.glob("busy-*"))) == busy)
        assert process.poll() is None
        assert len(marked(mark)) > busy
        process.send_signal(how)
        process.wait(30)
        until(lambda: not marked(mark), 15.0)
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
        process.stdin.close()
