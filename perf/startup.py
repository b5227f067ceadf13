"""Seconds of a fresh process until the first `reset` has returned, beside `import gymnasium`."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence


def main(arguments: Sequence[str]) -> Iterable[str]:
    """Lines of the report for the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m perf startup", description="Import, and make + reset in a fresh process."
    )
    parser.add_argument("--env", default="claimcheck-multihop")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args(arguments)
    return measure_startup(options.env, options.repeats)


def measure_startup(env_id: str, repeats: int) -> list[str]:
    """Median seconds of fresh processes, interleaved, the interpreter's own start subtracted."""
    programs = {
        "interpreter": "pass",
        "import gymnasium": "import gymnasium",
        "import factgym": "import factgym",
        f"make({env_id!r}) + reset()": f"import factgym; factgym.make({env_id!r}).reset(seed=7)",
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            seconds[name].append(_run(program))
    base = statistics.median(seconds["interpreter"])
    lines = [f"fresh processes, median of {repeats} [min – max], interpreter's {base:.3f} s included"]
    for name, runs in seconds.items():
        lines.append(f"  {name:44} {statistics.median(runs):7.3f} s  [{min(runs):.3f} – {max(runs):.3f}]")
    return lines


def _run(program: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return time.perf_counter() - start
