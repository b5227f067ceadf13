"""Runs with worker processes: an agent that says who plays and kills its process, and what is compared of records."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

from factgym.agents.runs.files import EPISODES

ENV = "claimcheck-multihop"

POLICY = '''
import contextlib, os, signal, time
from pathlib import Path
from factgym.core.policy import PolicyError

class Policy:
    """Never submits. The settings say what it does besides: mark who plays, wait until so many processes play
    together, raise faults, kill its own process (where a text is in the prompt, or once in the run)."""
    threads = 4

    def __init__(self, folder, kill="", fault="", fatal=False, seconds=0.0, together=1):
        self.folder, self.kill, self.fault, self.fatal, self.seconds = Path(folder), kill, fault, fatal, seconds
        self.together = together

    def act(self, messages, tools):
        text = str(messages[1]["content"])
        (self.folder / f"pid-{os.getpid()}").touch()
        end = time.monotonic() + 30
        while len(list(self.folder.glob("pid-*"))) < self.together and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(self.seconds)
        if self.kill and self.kill in text:
            with (self.folder / "kills").open("a") as kills:
                kills.write(f"{os.getpid()}\\n")
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kill == "@once" and len(list(self.folder.glob("act-*"))) > 30:
            with contextlib.suppress(FileExistsError):
                (self.folder / "killed").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        (self.folder / f"act-{time.monotonic_ns()}-{os.getpid()}").touch()
        if self.fault and self.fault in text:
            raise PolicyError("connection", "the server went away", fatal=self.fatal)
        return "I cannot say."
'''


def wait_for(true, process=None, seconds=60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert process is None or process.poll() is None, "ray start ended"
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def timeless(value):
    """A record without what a clock measured."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key != "seconds"}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def keys(run):
    return Counter((episode["index"], episode["sample"]) for episode in lines(run))


def lines(run):
    return [json.loads(line) for line in (run.folder / EPISODES).read_text("utf-8").splitlines()]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
