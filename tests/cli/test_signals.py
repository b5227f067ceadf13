"""SIGTERM and Ctrl-C end a command at once, with a shell's exit codes (128 + the signal): real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BUSY = '''
import pathlib


class Busy:
    """Computes for ever, as a model in a thread does."""

    def act(self, messages, tools):
        pathlib.Path("busy").touch()
        while True:
            pass
'''
EVAL = ["eval", "claimcheck-mini", "--split", "train", "--agent", "busy.py:Busy", "--out", "run"]
TRAIN = ["train", "claimcheck-mini", "--model", "scratch:20k", "--stages", "sft", "--out", "run"]
TRAIN += ["--set", "stages.0.tasks=4", "--set", "stages.0.steps=100000", "--set", "stages.0.warmup_steps=1"]
TRAIN += ["--set", "evaluation.tasks=2", "--set", "evaluation.test_tasks=2", "--set", "evaluation.max_tokens=4"]


def stop(arguments: list[str], signals: list[int], folder: Path, begun: Path) -> tuple[int, str, str]:
    """Exit code and output of a command that gets the signals once it has begun."""
    process = subprocess.Popen(
        [sys.executable, "-m", "factgym", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        while process.poll() is None and not begun.exists():
            time.sleep(0.02)
        for number in signals:
            process.send_signal(number)
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, output, errors


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ([signal.SIGTERM], 143),
        ([signal.SIGINT], 130),
        ([signal.SIGINT] * 2, 130),
        ([signal.SIGINT] * 5, 130),
        ([signal.SIGTERM] * 2, 143),
        ([signal.SIGINT, signal.SIGTERM], 143),
    ],
    ids=str,
)
def test_a_run_whose_agent_computes_for_ever_ends_without_a_traceback(tmp_path, signals, code):
    (tmp_path / "busy.py").write_text(BUSY)
    returned, output, errors = stop(EVAL, signals, tmp_path, tmp_path / "busy")
    assert (returned, errors) == (code, "")
    assert len(signals) > 1 or "continue with --resume" in " ".join(output.split())


@pytest.mark.parametrize(("signals", "code"), [([signal.SIGTERM], 143), ([signal.SIGINT] * 2, 130)], ids=str)
def test_training_ends_and_computes_no_further(tmp_path, signals, code):
    for module in ("torch", "trl", "datasets"):
        pytest.importorskip(module, reason="needs the extra 'train'")
    returned, _, errors = stop(TRAIN, signals, tmp_path, tmp_path / "run" / "stages")
    assert returned == code and "Traceback" not in errors
