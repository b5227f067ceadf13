"""A run as a Parquet table, one row an episode, for `datasets`, pandas, Polars and DuckDB.

Numbers and names are flat columns. The messages are a list of structs; data without a fixed shape (arguments of
calls, tools, turns, the reward report) is JSON text, because Arrow columns have one type. pyarrow is the extra
"export".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from factgym.agents.export.source import Episode, Source, Summary
from factgym.agents.runs.files import atomic_file, json_text
from factgym.core.errors import MissingExtraError
from factgym.core.strict_json import clean_text

Kind = Literal["text", "number", "flag"]

_ROWS, _CHARS = 1_000, 16_000_000
"""Rows and characters of a row group, whichever comes first: this bounds memory."""

_TEXTS = ("env", "factgym", "task", "split", "agent", "stop")
_INTEGERS = ("version", "index", "sample", "seed", "attempt")
_TOKENS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens", "requests")
_JSON = ("other_messages", "tools", "turns", "reward", "task_view")
_MESSAGE = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")
_MAX_NUMBER = 2**63


def export_table(runs: Sequence[Path], out: Path, *, force: bool = False, mixed: bool = False) -> Summary:
    """Write one row for each episode, failed ones included (`error_cause` says why).

    Raises MissingExtraError without pyarrow, else as `export_sft`.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("a Parquet table", "export") from error
    source, summary = Source(runs, mixed, allow_oracle=True, allow_evaluation_split=True), Summary(out, "row")
    with atomic_file(out, force) as file:
        columns = _Columns()
        for _, episode in source.first_pass():
            summary.episodes += 1
            columns.add(episode)
        schema = columns.schema(arrow)
        rows: list[dict[str, Any]] = []
        chars = 0
        with parquet.ParquetWriter(file, schema) as writer:
            for _, episode in source.second_pass():
                rows.append(columns.row(episode))
                texts = [text for message in rows[-1]["messages"] for text in message.values()]
                chars += sum(len(text) for text in [*rows[-1].values(), *texts] if isinstance(text, str))
                if len(rows) >= _ROWS or chars >= _CHARS:
                    writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
                    rows, chars = [], 0
            if rows:
                writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
        summary.exported = summary.lines = summary.episodes
        summary.check_not_empty()
    return summary


@dataclass(slots=True)
class _Columns:
    """The columns that depend on the runs: names of components, and of metrics with the kind they have throughout."""

    components: dict[str, None] = field(default_factory=dict)
    metrics: dict[str, Kind | None] = field(default_factory=dict)

    def add(self, episode: Episode) -> None:
        """Add the names of one episode."""
        reward = episode["reward"] or {}
        self.components |= dict.fromkeys(reward.get("components", ()))
        for name, value in reward.get("metrics", {}).items():
            if value is not None:
                kind = _kind(value)
                self.metrics[name] = kind if self.metrics.get(name, kind) == kind else None

    def flat_metrics(self) -> dict[str, Kind]:
        """Metrics that fit one column each; the others are in `reward_json` alone."""
        return {name: kind for name, kind in self.metrics.items() if kind}

    def schema(self, arrow: Any) -> Any:
        """The Arrow schema; `arrow` is the module pyarrow."""
        text, whole, number = arrow.string(), arrow.int64(), arrow.float64()
        types = {"text": text, "number": number, "flag": arrow.bool_()}
        return arrow.schema(
            [
                *((name, text) for name in _TEXTS),
                *((name, whole) for name in _INTEGERS),
                *((name, text) for name in ("status", "error_cause", "error_message")),
                *((name, whole) for name in ("turns", *_TOKENS)),
                *((name, number) for name in ("seconds", "reward_total")),
                *((f"component.{name}", number) for name in map(clean_text, self.components)),
                *((f"metric.{clean_text(name)}", types[kind]) for name, kind in self.flat_metrics().items()),
                ("messages", arrow.list_(arrow.struct([(name, text) for name in _MESSAGE]))),
                *((f"{name}_json", text) for name in _JSON),
            ]
        )

    def row(self, episode: Episode) -> dict[str, Any]:
        """The values of one episode by column."""
        reward, error, usage = episode["reward"] or {}, episode["error"] or {}, episode["usage"] or {}
        components, metrics = reward.get("components", {}), reward.get("metrics", {})
        row: dict[str, Any] = {name: _text(episode[name]) for name in _TEXTS}
        row |= {name: episode[name] for name in _INTEGERS}
        row |= {"status": reward.get("status"), "error_cause": _text(error.get("cause"))}
        row |= {"error_message": _text(error.get("message")), "turns": len(episode["turns"])}
        row |= {name: usage.get(name) for name in _TOKENS}
        row |= {"seconds": episode["seconds"], "reward_total": reward.get("total")}
        row |= {f"component.{clean_text(name)}": _number(components.get(name)) for name in self.components}
        convert: dict[Kind, Callable[[Any], Any]] = {"text": _text, "number": _number, "flag": lambda value: value}
        for name, kind in self.flat_metrics().items():
            row[f"metric.{clean_text(name)}"] = convert[kind](metrics.get(name))
        row["messages"] = []
        for message in episode["messages"]:
            calls = message.get("tool_calls")
            fields = {**message, "tool_calls": json_text(calls) if calls else None}
            row["messages"].append({name: _text(fields.get(name)) for name in _MESSAGE})
        return row | {f"{name}_json": json_text(episode[name]) for name in _JSON}


def _kind(value: Any) -> Kind | None:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, (int, float)):
        return "number" if abs(value) < _MAX_NUMBER else None
    return "text" if isinstance(value, str) else None


def _text(value: str | None) -> str | None:
    return value if value is None else clean_text(value)


def _number(value: float | None) -> float | None:
    return value if value is None else float(value)
