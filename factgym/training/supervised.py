"""Run a command and end it with the process that started it: `python -m factgym.training.supervised COMMAND …`.

The command ends, with its whole process group, when standard input closes: the system closes that pipe however its
writer ends, by `kill -9` too. Exit code of the command; 127 for one that cannot be started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

from factgym.core.processes import kill_with_parent

NOT_STARTED = 127


def main(arguments: Sequence[str]) -> int:
    """Run the command until it ends or standard input closes."""
    try:
        # The system kills the command if this process is killed itself: then nobody reads standard input.
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, preexec_fn=kill_with_parent)
    except OSError as error:
        sys.stderr.write(f"{arguments[0]!r} could not be started: {error.strerror or error}\n")
        return NOT_STARTED
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = process.wait()
    return code if code >= 0 else 128 - code


def _end_with_parent() -> None:
    # Raw reads: at the end of the process, a thread in a buffered read would hold the lock of the stream.
    while os.read(0, 1):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
