"""The Parquet table: read back by pyarrow and by `datasets`, row by row against the records."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import episode_records as made
import pytest

from factgym.agents.export.table import export_table
from factgym.core.errors import DataError, MissingExtraError

Json = dict[str, Any]


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    run = made.write(tmp_path / "run", [made.played()])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="needs the extra 'export'"):
        export_table([run], tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


@pytest.fixture(scope="module")
def records() -> list[Json]:
    odd = made.sample_of(made.played("nli", 2), 1, 0.25)
    odd["reward"]["components"]["own"] = 3
    odd["reward"]["metrics"] |= {"flag": True, "count": 7, "mixed": "text", "huge": 10**30}
    other = made.played("random", 5)
    other["reward"]["metrics"] |= {"flag": False, "count": 0.5, "mixed": 1, "verdict": None}
    hostile = copy.deepcopy(made.played("oracle", 6))
    hostile["messages"][1]["content"] = "\ud800 \x00 \u2028 𝒳" + "z" * 1_000_000
    hostile["split"] = None
    return [made.native(3), odd, other, hostile, made.failed()]


@pytest.fixture(scope="module")
def table(records: list[Json], tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyarrow", reason="the extra 'export' is not installed")
    folder = tmp_path_factory.mktemp("table")
    out = folder / "out.parquet"
    assert export_table([made.write(folder / "run", records)], out).lines == len(records)
    return out


def test_rows_equal_the_records(table, records):
    from pyarrow import parquet

    rows = parquet.read_table(table).to_pylist()
    for row, record in zip(rows, records, strict=True):
        record = record | {"agent": "recorded"}  # as `made.write` names it
        reward, usage = record["reward"] or {}, record["usage"] or {}
        for name in (
            "env",
            "version",
            "task",
            "index",
            "split",
            "sample",
            "seed",
            "attempt",
            "agent",
            "stop",
            "seconds",
        ):
            assert row[name] == record[name]
        assert row["reward_total"] == reward.get("total")
        assert row["status"] == reward.get("status")
        assert row["turns"] == len(record["turns"])
        assert row["error_cause"] == (record["error"] or {}).get("cause")
        for name in ("prompt_tokens", "completion_tokens", "requests"):
            assert row[name] == usage.get(name)
        for name in ("verdict", "own"):
            assert row[f"component.{name}"] == reward.get("components", {}).get(name)
        for name in ("gold_verdict", "verdict", "flag", "count"):
            assert row[f"metric.{name}"] == reward.get("metrics", {}).get(name)
        for name in ("tools", "turns", "reward", "task_view", "other_messages"):
            assert json.loads(row[f"{name}_json"]) == record[name]


def test_messages_keep_every_field(table, records):
    from pyarrow import parquet

    rows = parquet.read_table(table, columns=["messages"]).to_pylist()
    for row, record in zip(rows, records, strict=True):
        for written, message in zip(row["messages"], record["messages"], strict=True):
            calls = written.pop("tool_calls")
            expected = {**message, "content": message["content"] and message["content"].replace("\ud800", "\ufffd")}
            assert (json.loads(calls) if calls else None) == expected.pop("tool_calls", None)
            assert {key: value for key, value in written.items() if value is not None} == {
                key: value for key, value in expected.items() if value is not None
            }


def test_columns_have_types_and_odd_metrics_none(table):
    from pyarrow import parquet

    schema = parquet.read_schema(table)
    assert str(schema.field("component.own").type) == "double"
    assert str(schema.field("metric.flag").type) == "bool"
    assert str(schema.field("metric.count").type) == "double"
    assert str(schema.field("metric.gold_verdict").type) == "string"
    assert not {"metric.mixed", "metric.huge", "metric.read"} & set(schema.names)


def test_the_same_run_gives_the_same_bytes(table, records, tmp_path):
    again = tmp_path / "again.parquet"
    export_table([made.write(tmp_path / "run", records)], again)
    assert again.read_bytes() == table.read_bytes()


def test_large_tables_are_written_in_row_groups(tmp_path, monkeypatch, records):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra 'export' is not installed")
    from factgym.agents.export import table as module

    monkeypatch.setattr(module, "_ROWS", 2)
    run = made.write(tmp_path / "run", records)
    export_table([run], tmp_path / "rows")
    assert parquet.ParquetFile(tmp_path / "rows").num_row_groups == 3
    monkeypatch.setattr(module, "_CHARS", 1)
    export_table([run], tmp_path / "chars")
    assert parquet.ParquetFile(tmp_path / "chars").num_row_groups == len(records)
    assert parquet.read_table(tmp_path / "rows").equals(parquet.read_table(tmp_path / "chars"))


def test_an_empty_run_is_no_table(tmp_path):
    pytest.importorskip("pyarrow", reason="the extra 'export' is not installed")
    with pytest.raises(DataError, match="nothing to write: no row came out of 0 episodes"):
        export_table([made.write(tmp_path / "run", [])], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_datasets_loads_the_table(table, records, tmp_path):
    datasets = pytest.importorskip("datasets", reason="the 'datasets' package is not installed")
    loaded = datasets.load_dataset("parquet", data_files=str(table), split="train", cache_dir=str(tmp_path))
    assert loaded.num_rows == len(records)
    assert loaded.filter(lambda row: row["status"] == "scored").num_rows == len(records) - 1
    assert loaded["reward_total"][:] == [(episode["reward"] or {}).get("total") for episode in records]
    assert [message["role"] for message in loaded[0]["messages"]] == [
        episode["role"] for episode in records[0]["messages"]
    ]
