"""A chat server without a model, in a process of its own, for the commands of README and guides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ADDRESS = "http://127.0.0.1:8000/v1"
"""How README and guides write the server's address; the tests put the real one in its place."""


@contextmanager
def served() -> Iterator[str]:
    """The address of a server that plays a fixed script."""
    command = [sys.executable, "-m", "factgym.agents.script_server", "--port", "0", "--delay-ms", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
