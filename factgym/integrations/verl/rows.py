"""Tasks as the rows of verl's datasets (parquet files), the sessions made from rows, and a reward function for texts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError, FactgymError, MissingExtraError, did_you_mean
from factgym.core.registry import make
from factgym.integrations.session import Session, rows

AGENT = "factgym"
"""The name of the agent loop, in the column `agent_name`."""


def table(env_id: str, *, limit: int | None = None, start: int = 0, columns: Sequence[str] = (), **config: Any) -> Any:
    """The environment's tasks as a `pyarrow.Table`, one row each; without any gold but what `columns` names.

    Columns: data_source (the environment's id), agent_name, prompt (messages), reward_model, and extra_info with env
    (id with version), task, index and settings (`config` as JSON, so that workers on other machines make the same
    environment). limit, start: which tasks. columns: more of them, each a plain value of the task's view ("hops").
    Raises what `make` raises, and ConfigError for a setting that is no JSON and a column that no task has.
    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError as missing:
        raise MissingExtraError("Writing parquet rows", "verl") from missing
    settings = _settings(config)
    env = make(env_id, **config)
    found = []
    for row in rows(env_id, config, limit=limit, start=start):
        view = env.view_task(env.tasks[row["index"]]) if columns else {}
        found.append(_row(env.env_spec.id, row, settings) | {name: _viewed(view, name) for name in columns})
    return pa.Table.from_pylist(found)


def write_rows(
    env_id: str,
    path: str | Path,
    *,
    limit: int | None = None,
    start: int = 0,
    columns: Sequence[str] = (),
    **config: Any,
) -> int:
    """Write `table` to a parquet file; the number of rows. Raises ConfigError where there are none."""
    found = table(env_id, limit=limit, start=start, columns=columns, **config)
    if not found.num_rows:
        raise ConfigError(f"{env_id} has no tasks with these settings: nothing was written to {path}")
    import pyarrow.parquet as pq

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(found, str(path))
    return int(found.num_rows)


def _viewed(view: Mapping[str, Any], name: str) -> Any:
    plain = [key for key, value in view.items() if isinstance(value, (str, int, float))]
    if name not in plain:
        raise ConfigError(
            f"a task has no plain value {name!r}.{did_you_mean(name, plain)} It has {', '.join(plain)}; "
            "other columns are added to the parquet file."
        )
    return view[name]


def _row(env_id: str, row: Mapping[str, Any], settings: str) -> dict[str, Any]:
    return {
        "data_source": env_id,
        "agent_name": AGENT,
        "prompt": [{"role": message["role"], "content": message["content"]} for message in row["prompt"]],
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {"env": row["env"], "task": row["task"], "index": row["index"], "settings": settings},
    }


def _settings(config: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(config), sort_keys=True)
    except TypeError as error:
        raise ConfigError(
            f"verl's workers make the environment from the rows, so that its settings must be JSON: {error}. "
            "A setting that is an object can be named by a text (index='bm25', counter=FILE)."
        ) from error


_MAX_FREE = 256
_free: dict[tuple[str, str], list[Session]] = {}


@dataclass(frozen=True, slots=True)
class RowTask:
    """The task of a row. env: id with version. settings: JSON text."""

    env: str
    task: str
    settings: str

    @classmethod
    def of(cls, extra_info: Any) -> RowTask:
        """From the column `extra_info`. Raises ConfigError for a row that `rows.table` did not write."""
        known = extra_info if isinstance(extra_info, Mapping) else {}
        env, task, settings = known.get("env"), known.get("task"), known.get("settings")
        if isinstance(env, str) and isinstance(task, str) and isinstance(settings, str):
            return cls(env, task, settings)
        missing = [name for name in ("env", "task", "settings") if not isinstance(known.get(name), str)]
        raise ConfigError(
            f"a row's extra_info lacks {', '.join(missing)}. Write the rows with "
            "`python -m factgym.integrations.verl rows ENV FILE.parquet`."
        )

    def session(self) -> Session:
        """A new slot. Raises what `make` raises, for rows of another version of the environment too."""
        return Session(self.env, **json.loads(self.settings))


class slot:  # noqa: N801 - used as a function is; a generator's context manager takes as long as a turn
    """`async with slot(row) as session`: a slot for the row's environment, with its task started."""

    __slots__ = ("_free", "_row", "_session")

    def __init__(self, row: RowTask) -> None:
        self._row = row
        self._free = _free.setdefault((row.env, row.settings), [])

    async def __aenter__(self) -> Session:
        # The first one may build an index, which must not hold up the other rollouts of this process.
        self._session = self._free.pop() if self._free else await asyncio.to_thread(self._row.session)
        self._session.env.reset(options={"task": self._row.task})
        return self._session

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and len(self._free) < _MAX_FREE:
            self._free.append(self._session)


class UnscoredError(FactgymError):
    """An answer could not be scored for a fault of the infrastructure; a zero would be a lie."""


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any = None, extra_info: Any = None, **_: Any
) -> dict[str, float]:
    """What a text earns as the only answer to the row's task: "score", the total, and every component and metric.

    For environments in which the answer is one message. An episode with tools needs the agent loop: its rows have
    their reward before verl asks for one. Raises ConfigError for rows that are not ours, what `make` raises, and
    UnscoredError for a fault of the infrastructure.
    """
    row = RowTask.of(extra_info)
    session = row.session()
    session.start(row.task)
    session.say(solution_str)
    report = session.close()
    if report.total is None:
        raise UnscoredError(f"{row.task} of {row.env} was not scored: {report.error}")
    return {**session.metrics(), "score": report.total}
