"""A run as a Parquet table, one row an episode, for `datasets`, pandas, Polars and DuckDB.

Numbers and names are flat columns. The messages are a list of structs; data without a fixed shape (arguments of
calls, tools, turns, the reward report) is JSON text, because Arrow columns have one type. pyarrow is the extra
"export".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from factgym.agents.export.source import Episode, Source, Summary
from factgym.agents.runs.files import atomic_file, json_text
from factgym.core.errors import MissingExtraError
from factgym.core.strict_json import clean_text

Kind = Literal["text", "number", "flag"]

_ROWS, _CHARS = 1_000, 16_000_000
"""A row group is written at whichever comes first, which bounds memory."""

_TEXTS = ("env", "factgym", "task", "split", "agent", "stop")
_WHOLE = ("version", "index", "sample", "seed", "attempt")
_TOKENS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens", "requests")
_JSON = ("other_messages", "tools", "turns", "reward", "task_view")
_MESSAGE = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")
_MAX_NUMBER = 2**63


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


def _kind(value: Any) -> Kind | None:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, (int, float)):
        return "number" if abs(value) < _MAX_NUMBER else None
    return "text" if isinstance(value, str) else None


def export_table(runs: Sequence[Path], out: Path, *, force: bool = False, mixed: bool = False) -> Summary:
    """Write one row for each episode, failed ones included (`error_cause` says why).

    Raises MissingExtraError without pyarrow, else as `export_sft`.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("a Parquet table", "export") from error
    source, summary = Source(runs, mixed), Summary(out, "row")
    with atomic_file(out, force) as file:
        columns = _Columns()
        for _, episode in source.first_pass():
            summary.episodes += 1
            columns.add(episode)
        _write(source, columns, file, (arrow, parquet))
        summary.exported = summary.lines = summary.episodes
        summary.check_not_empty()
    return summary


def _write(source: Source, columns: _Columns, file: IO[bytes], modules: tuple[Any, Any]) -> None:
    arrow, parquet = modules
    schema = _schema(columns, arrow)
    rows: list[dict[str, Any]] = []
    chars = 0
    with parquet.ParquetWriter(file, schema) as writer:
        for _, episode in source.second_pass():
            rows.append(_row(episode, columns))
            chars += _size(rows[-1])
            if len(rows) >= _ROWS or chars >= _CHARS:
                writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
                rows, chars = [], 0
        if rows:
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))


def _size(row: dict[str, Any]) -> int:
    texts = [value for value in row.values() if isinstance(value, str)]
    texts += [text for message in row["messages"] for text in message.values() if text]
    return sum(map(len, texts))


def _schema(columns: _Columns, arrow: Any) -> Any:
    types = {"text": arrow.string(), "number": arrow.float64(), "flag": arrow.bool_()}
    message = arrow.list_(arrow.struct([(name, arrow.string()) for name in _MESSAGE]))
    return arrow.schema(
        [
            *((name, arrow.string()) for name in _TEXTS),
            *((name, arrow.int64()) for name in _WHOLE),
            *((name, arrow.string()) for name in ("status", "error_cause", "error_message")),
            *((name, arrow.int64()) for name in ("turns", *_TOKENS)),
            *((name, arrow.float64()) for name in ("seconds", "reward_total")),
            *((f"component.{name}", arrow.float64()) for name in map(clean_text, columns.components)),
            *((f"metric.{clean_text(name)}", types[kind]) for name, kind in columns.flat_metrics().items()),
            ("messages", message),
            *((f"{name}_json", arrow.string()) for name in _JSON),
        ]
    )


def _row(episode: Episode, columns: _Columns) -> dict[str, Any]:
    reward, error, usage = episode["reward"] or {}, episode["error"] or {}, episode["usage"] or {}
    components, metrics = reward.get("components", {}), reward.get("metrics", {})
    row: dict[str, Any] = {name: _text(episode[name]) for name in _TEXTS}
    row |= {name: episode[name] for name in _WHOLE}
    row |= {"status": reward.get("status"), "error_cause": _text(error.get("cause"))}
    row |= {"error_message": _text(error.get("message")), "turns": len(episode["turns"])}
    row |= {name: usage.get(name) for name in _TOKENS}
    row |= {"seconds": episode["seconds"], "reward_total": reward.get("total")}
    row |= {f"component.{clean_text(name)}": _float(components.get(name)) for name in columns.components}
    for name, kind in columns.flat_metrics().items():
        row[f"metric.{clean_text(name)}"] = _AS[kind](metrics.get(name))
    row["messages"] = [_message(message) for message in episode["messages"]]
    return row | {f"{name}_json": json_text(episode[name]) for name in _JSON}


def _message(message: dict[str, Any]) -> dict[str, str | None]:
    calls = message.get("tool_calls")
    fields = {**message, "tool_calls": json_text(calls) if calls else None}
    return {name: _text(fields.get(name)) for name in _MESSAGE}


def _text(value: str | None) -> str | None:
    return value if value is None else clean_text(value)


def _float(value: float | None) -> float | None:
    return value if value is None else float(value)


def _flag(value: bool | None) -> bool | None:
    return value


_AS: dict[Kind, Callable[[Any], Any]] = {"text": _text, "number": _float, "flag": _flag}
