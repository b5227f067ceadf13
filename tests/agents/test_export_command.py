"""`factgym export`: options reach the exporter, those that do not fit are refused, one line says what was done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import episode_records as made
import pytest
import typer
from typer.testing import CliRunner

from factgym.cli.export import export
from factgym.core.errors import ConfigError

Json = dict[str, Any]

app = typer.Typer()
app.command("export")(export)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [made.native(3, 0, 0.9), made.native(3, 1, 0.2, verdict="overclaim"), made.failed()]
    return made.write(tmp_path_factory.mktemp("run") / "run", records)


def call(run: Path, out: Path, *args: str) -> Any:
    return CliRunner().invoke(app, [str(run), "--out", str(out), *args])


def test_sft(run, tmp_path):
    out = tmp_path / "out.jsonl"
    done = call(run, out, "--to", "sft", "--min-reward", "0.5", "--best", "1", "--no-errors", "--reasoning", "drop")
    assert done.exit_code == 0, done.output
    assert done.output == f"1 line from 1 of 3 episodes: {out}; left out: 1 below the threshold, 1 failed\n"
    (line,) = made.lines_of(out)
    assert "reasoning_content" not in json.dumps(line)


def test_preferences(run, tmp_path):
    out = tmp_path / "out.jsonl"
    done = call(
        run,
        out,
        "--to",
        "preferences",
        "--margin",
        "0.5",
        "--pairs",
        "all",
        "--max-pairs",
        "3",
        "--arguments",
        "object",
    )
    assert done.exit_code == 0, done.output
    assert done.output.startswith("1 pair from 2 of 3 episodes")
    (line,) = made.lines_of(out)
    assert isinstance(line["chosen"][0]["tool_calls"][0]["function"]["arguments"], dict)


def test_table(run, tmp_path):
    pytest.importorskip("pyarrow", reason="the extra 'export' is not installed")
    done = call(run, tmp_path / "out.parquet", "--to", "table")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("3 rows from 3 of 3 episodes")


def test_force_and_any_stop(run, tmp_path):
    out = tmp_path / "out.jsonl"
    for extra in ([], ["--force", "--any-stop"]):
        assert call(run, out, "--to", "sft", *extra).exit_code == 0
    assert isinstance(call(run, out, "--to", "sft").exception, ConfigError)


@pytest.mark.parametrize(
    ("to", "args", "said"),
    [
        ("table", ["--best", "1"], "--best goes with --to sft, not with --to table"),
        ("sft", ["--margin", "0.1"], "--margin goes with --to preferences, not with --to sft"),
        ("preferences", ["--any-stop"], "--any-stop goes with --to sft, not"),
        ("table", ["--reasoning", "drop"], "--reasoning goes with --to sft and --to preferences, not"),
    ],
)
def test_options_of_another_format_are_refused(run, tmp_path, to, args, said):
    error = call(run, tmp_path / "out", "--to", to, *args).exception
    assert isinstance(error, ConfigError)
    assert said in str(error)
    assert not (tmp_path / "out").exists()
