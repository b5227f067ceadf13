"""Numbers in TensorBoard's files, Trackio's database and W&B's offline log, read back from disk by the owners' readers."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from factgym.cli.main import app
from factgym.cli.sinks import opened_sinks, scalars_of
from factgym.core.errors import MissingExtraError

STEP = {"stage": 0, "kind": "grpo", "step": 3, "total_step": 7, "loss": 0.5, "components": {"quote": 0.25}}
HELD_OUT = {
    "stage": 0, "step": 3, "total_step": 7, "evaluation": "validation", "name": "0-grpo-000003", "reward": 1.5,
    "low": None, "recall": {"supported": 0.75}, "weights": {"quote": 1.0},
}  # fmt: skip
EXPECTED = {"loss": 0.5, "components/quote": 0.25, "validation/reward": 1.5, "validation/recall/supported": 0.75}
NONE = {"tensorboard": False, "trackio": False, "wandb": False}

# A process of its own: the libraries read their environment when they are imported, which other tests do too. A run
# for each line: a command that was stopped goes on with the same one.
LOG = """
import json, sys
from pathlib import Path
from factgym.cli.sinks import opened_sinks

sinks = {"tensorboard": False, "trackio": False, "wandb": False, sys.argv[1]: True}
for line in json.loads(sys.argv[3]):
    with opened_sinks(Path(sys.argv[2]), {"model": "scratch:1m"}, **sinks) as log:
        log(line, line["total_step"])
"""


def log_apart(sink: str, folder: Path, **environment: str) -> None:
    command = [sys.executable, "-c", LOG, sink, str(folder), json.dumps([STEP, HELD_OUT])]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def tensorboard_scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_the_scalars_of_a_line_have_the_names_of_its_split_and_tables() -> None:
    assert {**scalars_of(STEP), **scalars_of(HELD_OUT)} == EXPECTED


def test_tensorboard_has_every_scalar_at_the_step_of_the_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs factgym[tensorboard]")
    with opened_sinks(tmp_path, {}, **{**NONE, "tensorboard": True}) as log:
        for line in (STEP, HELD_OUT):
            log(line, 7)
    assert tensorboard_scalars(tmp_path) == {name: [(7, value)] for name, value in EXPECTED.items()}


def test_trackio_has_every_scalar_in_a_database_on_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("trackio", reason="needs factgym[trackio]")
    log_apart("trackio", tmp_path / "my-run", TRACKIO_DIR=str(tmp_path / "trackio"))
    (database,) = (tmp_path / "trackio").glob("*.db")
    rows = sqlite3.connect(database).execute("SELECT run_name, step, metrics FROM metrics").fetchall()
    assert {(name, step) for name, step, _ in rows} == {("my-run", 7)}
    assert {key: value for _, _, text in rows for key, value in json.loads(text).items()} == EXPECTED


def wandb_records(folder: Path) -> list[Any]:
    """The records of W&B's files: LevelDB's log format behind a header of seven bytes, in blocks of 32 KiB."""
    from wandb.proto import wandb_internal_pb2

    records, parts = [], b""
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        data, offset = path.read_bytes(), 7
        while offset + 7 <= len(data):
            if 32768 - offset % 32768 < 7:  # a block's padding
                offset += 32768 - offset % 32768
                continue
            size, kind = int.from_bytes(data[offset + 4 : offset + 6], "little"), data[offset + 6]
            parts += data[offset + 7 : offset + 7 + size]
            offset += 7 + size
            if kind in (1, 4):  # whole, or the last part
                records.append(wandb_internal_pb2.Record.FromString(parts))
                parts = b""
    return records


def test_wandb_offline_has_every_scalar_and_nothing_of_the_machine(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="needs factgym[wandb]")
    folder = tmp_path / "my-run"
    log_apart("wandb", folder, WANDB_MODE="offline", WANDB_DIR=str(tmp_path), HOME=str(tmp_path))
    records = wandb_records(folder)
    runs = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert {(run.project, run.display_name) for run in runs} == {("factgym", "my-run")}
    assert len({run.run_id for run in runs}) == 1, "the second call continues the run of the first"
    assert any(item.key == "model" and item.value_json == '"scratch:1m"' for run in runs for item in run.config.update)
    rows = [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    assert {row["step"] for row in rows} == {7}
    assert {name: value for row in rows for name, value in row.items() if name in EXPECTED} == EXPECTED
    assert not any(run.host or run.git.remote_url for run in runs)
    assert not list(folder.glob("wandb/*/files/wandb-metadata.json"))


def test_eval_writes_the_numbers_of_its_summary(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs factgym[tensorboard]")
    out = tmp_path / "run"
    words = ["eval", "toy", "--agent", "oracle", "-n", "4", "--out", str(out), "--tensorboard"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    scalars = tensorboard_scalars(out)
    totals = [json.loads(line)["reward"]["total"] for line in (out / "episodes.jsonl").read_text("utf-8").splitlines()]
    assert scalars["reward"] == [(0, pytest.approx(sum(totals) / 4))]
    assert scalars["episodes"] == [(0, 4.0)]


@pytest.mark.parametrize("sink", ["tensorboard", "trackio", "wandb"])
def test_a_missing_library_is_named_by_its_extra_before_anything_is_played(
    sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("factgym.cli.sinks.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["eval", "toy", "--out", str(tmp_path / "run"), f"--{sink}"])
    assert isinstance(result.exception, MissingExtraError) and f"the extra '{sink}'" in str(result.exception)
    assert not (tmp_path / "run").exists()
