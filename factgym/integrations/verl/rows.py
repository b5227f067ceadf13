"""A run's files: tasks as rows of verl's datasets (parquet), the sessions made from rows, a reward function for texts,
and a Hydra configuration with the settings that an environment needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from factgym.core.env import Env
from factgym.core.errors import ConfigError, FactgymError, MissingExtraError, did_you_mean
from factgym.core.registry import make
from factgym.integrations.credit import FORMS
from factgym.integrations.frameworks import render_template
from factgym.integrations.session import SessionPool, episode_tokens, training_config
from factgym.integrations.session import rows as task_rows

AGENT = "factgym"
"""The name of the agent loop, in the column `agent_name`."""

_PLAIN_TYPES = (str, int, float)
_CHARS_PER_TOKEN = 3
_STEP = 512
_MEASURED_TASKS = 16
_ORACLE_LENGTHS = 4


def table(
    env_id: str,
    *,
    limit: int | None = None,
    start: int = 0,
    indices: Sequence[int] | None = None,
    columns: Sequence[str] = (),
    **config: Any,
) -> Any:
    """Return the tasks as a `pyarrow.Table`, one row each; without any gold but the requested columns.

    Columns: data_source (the environment's id), agent_name, prompt (messages), reward_model, and extra_info with env
    (id with version), task, index and settings (`config` as JSON, so that workers on other machines make the same
    environment), on the training split where `config` names none. limit, start: of the tasks. indices: these tasks
    instead. columns: further plain values of the task's view ("hops"). Raises the errors of `make`, and ConfigError for a setting that is no JSON, a
    column that no task has, and an environment that has evaluation splits only.
    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError as missing:
        raise MissingExtraError("Writing parquet rows", "verl") from missing
    try:
        json.dumps(config)
    except TypeError as error:
        raise ConfigError(
            f"verl's workers make the environment from the rows, so that its settings must be JSON: {error}. "
            "A setting that is an object can be named by a text (index='bm25', counter=FILE)."
        ) from error
    config = training_config(env_id, config)
    settings, env = json.dumps(config, sort_keys=True), make(env_id, **config)
    rows = []
    for row in task_rows(env_id, config, limit=limit, start=start, indices=indices):
        view = env.view_task(env.tasks[row["index"]]) if columns else {}
        values = {key: value for key, value in view.items() if isinstance(value, _PLAIN_TYPES)}
        for name in columns:
            if name not in values:
                raise ConfigError(
                    f"a task has no plain value {name!r}.{did_you_mean(name, values)} It has {', '.join(values)}; "
                    "other columns are added to the parquet file."
                )
        rows.append(
            {
                "data_source": env.env_spec.id,
                "agent_name": AGENT,
                "prompt": [{"role": message["role"], "content": message["content"]} for message in row["prompt"]],
                "reward_model": {"style": "rule", "ground_truth": ""},
                "extra_info": {"env": row["env"], "task": row["task"], "index": row["index"], "settings": settings},
                **{name: values[name] for name in columns},
            }
        )
    return pa.Table.from_pylist(rows)


def write_rows(
    env_id: str,
    path: str | Path,
    *,
    limit: int | None = None,
    start: int = 0,
    indices: Sequence[int] | None = None,
    columns: Sequence[str] = (),
    **config: Any,
) -> int:
    """Write `table` to a parquet file; return the number of rows. Raises ConfigError where there are none."""
    rows = table(env_id, limit=limit, start=start, indices=indices, columns=columns, **config)
    if not rows.num_rows:
        raise ConfigError(f"{env_id} has no tasks with these settings: nothing was written to {path}")
    import pyarrow.parquet as pq

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, str(path))
    return int(rows.num_rows)


@cache
def _session_pool(env: str, settings: str) -> SessionPool:
    return SessionPool(env, json.loads(settings))


@dataclass(frozen=True, slots=True)
class RowTask:
    """The task of a row. env: id with version. settings: JSON text."""

    env: str
    task: str
    settings: str

    @classmethod
    def of(cls, extra_info: Any) -> RowTask:
        """Read the column `extra_info`. Raises ConfigError for a row that `table` did not write."""
        info = extra_info if isinstance(extra_info, Mapping) else {}
        fields = {name: info.get(name) for name in ("env", "task", "settings")}
        missing = [name for name, value in fields.items() if not isinstance(value, str)]
        if missing:
            raise ConfigError(
                f"a row's extra_info lacks {', '.join(missing)}. Write the rows with "
                "`python -m factgym.integrations.verl rows ENV FILE.parquet`."
            )
        return cls(**fields)  # type: ignore[arg-type]

    @property
    def pool(self) -> SessionPool:
        """Sessions of the row's environment. Their making raises the errors of `make`, for another version too."""
        return _session_pool(self.env, self.settings)


class UnscoredError(FactgymError):
    """An answer could not be scored for a fault of the infrastructure; a zero would be false."""


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any = None, extra_info: Any = None, **_: Any
) -> dict[str, float]:
    """Score a text as the only answer to the row's task: "score", the total, and every component and metric.

    For environments in which the answer is one message. An episode with tools needs the agent loop: its rows have
    their reward before verl calls a reward function. Raises ConfigError for rows that are not ours, the errors of `make`,
    and UnscoredError for a fault of the infrastructure.
    """
    row = RowTask.of(extra_info)
    session = row.pool.acquire()
    session.start(row.task)
    session.step(solution_str)
    report = session.close()
    if report.total is None:
        raise UnscoredError(f"{row.task} of {row.env} was not scored: {report.error}")
    score = {**session.metrics(), "score": report.total}
    row.pool.release(session)
    return score


def config_text(env_id: str, config: Mapping[str, Any] | None = None, credit: str | None = None) -> str:
    """Return a run's configuration as YAML; verl's own defaults (`ppo_trainer`) hold for everything else.

    config: settings of the environment, which bound the length of its episodes; the rows carry them. credit: "grpo",
    "hrpo" or "stepwise" for token advantages, "none" for verl's own GRPO; None chooses "stepwise" for CorVer's
    environments, whose paper it is, and "none" elsewhere. Raises the errors of `make`, and ConfigError for another credit.
    """
    from factgym.envs.corver.env import CorverEnv

    config = training_config(env_id, config)
    env = make(env_id, **config)
    credit = credit or ("stepwise" if isinstance(env, CorverEnv) else "none")
    if credit not in (*FORMS, "none"):
        forms = [*FORMS, "none"]
        raise ConfigError(f"credit is one of {', '.join(forms)}, not {credit!r:.40}.{did_you_mean(credit, forms)}")

    def count(text: str) -> int:
        return len(text) // _CHARS_PER_TOKEN

    # The oracle goes the shortest way. Where contexts are isolated, later prompts hold the evidence of earlier stages.
    tokens = episode_tokens(env_id, count, config, tasks=_MEASURED_TASKS)
    isolated = type(env).policy_prompt is not Env.policy_prompt
    prompt = tokens.prompt + (tokens.completion if isolated else _STEP)
    prompt, response = _round_up(prompt), _round_up(_ORACLE_LENGTHS * max(tokens.completion, _STEP))
    return render_template(
        "verl-config.yaml",
        env=env.env_spec.id,
        versioned=env.env_spec.versioned,
        prompt=prompt,
        response=response,
        total=prompt + response,
        agent=AGENT,
        estimator="grpo" if credit == "none" else f"factgym_{credit}",
        turns=env.config.max_turns,
    )


def _round_up(tokens: int) -> int:
    return -(-tokens // _STEP) * _STEP
