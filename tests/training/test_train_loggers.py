"""Metrics of a training run in TensorBoard's files and Trackio's database, read back from disk by other means."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from factgym.cli.train import _tensorboard, scalars_of

STEP = {"stage": 0, "kind": "grpo", "step": 3, "total_step": 7, "loss": 0.5, "components": {"quote": 0.25}}
HELD_OUT = {
    "stage": 0, "step": 3, "total_step": 7, "evaluation": "validation", "name": "0-grpo-000003", "reward": 1.5,
    "low": None, "recall": {"supported": 0.75}, "weights": {"quote": 1.0},
}  # fmt: skip
EXPECTED = {"loss": 0.5, "components/quote": 0.25, "validation/reward": 1.5, "validation/recall/supported": 0.75}


def test_the_scalars_of_a_line_have_the_names_of_its_split_and_tables() -> None:
    assert {**scalars_of(STEP), **scalars_of(HELD_OUT)} == EXPECTED


def test_tensorboard_has_every_scalar_at_the_step_of_the_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs factgym[train]")
    pytest.importorskip("torch", reason="needs factgym[train]")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = _tensorboard(tmp_path)
    for line in (STEP, HELD_OUT):
        logger.log(scalars_of(line), line["total_step"])  # type: ignore[arg-type]
    logger.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]} == {
        name: [(7, value)] for name, value in EXPECTED.items()
    }


LOG_WITH_TRACKIO = """
import json, sys
from pathlib import Path
from factgym.cli.train import _trackio, scalars_of

for line in json.loads(sys.argv[2]):  # a run each: the command goes on with the same one
    logger = _trackio(Path(sys.argv[1]))
    logger.log(scalars_of(line), line["total_step"])
    logger.close()
"""


def test_trackio_has_every_scalar_in_a_database_on_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("trackio", reason="needs factgym[trackio]")
    # A process of its own: Trackio reads the folder of its database when it is imported, which other tests do too.
    command = [sys.executable, "-c", LOG_WITH_TRACKIO, str(tmp_path / "my-run"), json.dumps([STEP, HELD_OUT])]
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    (database,) = (tmp_path / "trackio").glob("*.db")
    rows = sqlite3.connect(database).execute("SELECT run_name, step, metrics FROM metrics").fetchall()
    assert {(name, step) for name, step, _ in rows} == {("my-run", 7)}
    assert {key: value for _, _, text in rows for key, value in json.loads(text).items()} == EXPECTED
