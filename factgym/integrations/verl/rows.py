"""Tasks as the rows of verl's datasets: parquet files that need nothing else to be trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError, MissingExtraError, did_you_mean
from factgym.core.registry import make
from factgym.integrations.session import rows

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
