"""`python -m perf vf-eval`: the whole `vf-eval` command against a local server without delay.

Two ways over the same tasks: the tools in process, as the packages do it, and a tool server for each rollout. The
servers are started and not called, so that what they add is the least that they cost. Everything counts, from the
start of Python to the last line written.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from factgym.core.errors import FactgymError
from factgym.integrations.hub import module_of
from perf.integrations.compare import ENV
from perf.rollouts import SERVER

WAYS = {"tools in process": (), "a server for each rollout": ("--env.taskset.task.tool-server", "rollout")}


@dataclass(frozen=True, slots=True)
class _Run:
    """Seconds by the clock, and of CPU with that of all children."""

    wall: float
    cpu: float


def main(arguments: Sequence[str]) -> Iterator[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m perf vf-eval",
        description="The whole command of verifiers, and the least that tool servers cost.",
    )
    parser.add_argument("--env", default=ENV)
    parser.add_argument("--episodes", type=int, default=128)
    parser.add_argument("--servers", type=int, default=16, help="episodes where each rollout starts a tool server")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    return measure_vf_eval(options.env, options.episodes, options.servers, options.repeats)


def measure_vf_eval(env_id: str, episodes: int, servers: int, repeats: int) -> Iterator[str]:
    """Lines of a report. servers: episodes of the way that starts one process for each."""
    command = [sys.executable, "-m", SERVER, "--port", "0", "--delay-ms", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            for way, flags in WAYS.items():
                count = servers if flags else episodes
                runs = [_run(env_id, url, count, flags) for _ in range(repeats)]
                wall = statistics.median(run.wall for run in runs)
                cpu = statistics.median(run.cpu for run in runs)
                least = min(run.wall for run in runs)
                yield (
                    f"{way:>26}: {count:4} episodes in {wall:.1f} s (least {least:.1f}), {cpu:.1f} s of CPU, "
                    f"median of {repeats}"
                )
        finally:
            process.terminate()


def _run(env_id: str, url: str, episodes: int, flags: tuple[str, ...]) -> _Run:
    with tempfile.TemporaryDirectory() as folder:
        words = [str(Path(sys.executable).with_name("vf-eval")), env_id, "-m", "claimcheck-script"]
        words += ["--client.base-url", url, "-n", str(episodes), "-r", "1", "--no-push", "--no-rich"]
        used = _children()
        start = time.perf_counter()
        done = subprocess.run(
            [*words, "--run.name", "one", *flags], cwd=folder, capture_output=True, text=True, check=False
        )
        wall, cpu = time.perf_counter() - start, _children() - used
        traces = Path(folder) / "outputs" / "one" / "traces.jsonl"
        lines = traces.read_text("utf-8").splitlines() if traces.exists() else []
        if len(lines) != episodes or not all(json.loads(line)["ok"] for line in lines):
            raise FactgymError(f"vf-eval failed (is {module_of(env_id)} installed?): {done.stderr[-1000:]}")
        return _Run(wall, cpu)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
