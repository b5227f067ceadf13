"""What a GRPOTrainer is given beside the environment: rows, reward columns, and how long its episodes are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from factgym.core.errors import MissingExtraError
from factgym.integrations import lengths
from factgym.integrations.lengths import EpisodeTokens
from factgym.integrations.session import Session, rows
from factgym.integrations.trl.environment import FactEnvironment

Column = Callable[..., list[float | None]]


def dataset(env_id: str, *, limit: int | None = None, start: int = 0, **config: Any) -> Any:
    """The environment's tasks as a `datasets.Dataset` with the columns env, index, prompt (messages) and task.

    limit, start: which tasks. config: as for `make`, and as for `environment_factory`. Raises what `make` raises.
    """
    try:
        from datasets import Dataset
    except ModuleNotFoundError as missing:
        raise MissingExtraError("The TRL door", "trl") from missing
    return Dataset.from_list(list(rows(env_id, config, limit=limit, start=start)))


def reward_columns(env_id: str, **config: Any) -> list[Column]:
    """A reward function for each component, which TRL logs as `rewards/NAME/mean`; give them weight 0.

    The total is the environment's own reward. None where an episode has no score. The first one also logs every metric
    (turns, errors, truncated …) and writes task and stop into the completions' table. Together they show a plain text
    to the environment as its answer, where no trainer of ours has done so.
    """
    return [_column(name, first=n == 0) for n, name in enumerate(_components(env_id, config))]


def column_weights(env_id: str, **config: Any) -> list[float]:
    """Zeros, `reward_weights=` for `reward_columns` alone: TRL adds the environment's own reward with weight 1."""
    return [0.0] * len(_components(env_id, config))


def _components(env_id: str, config: Mapping[str, Any]) -> list[str]:
    session = Session(env_id, **config)
    session.start(0)
    return list(session.close().components)


def _column(name: str, first: bool) -> Column:
    def column(completions: Sequence[Any], environments: Sequence[Any], **given: Any) -> list[float | None]:
        show_all(environments, completions)
        ours = [env.session.close() if isinstance(env, FactEnvironment) else None for env in environments]
        if first:
            _log(environments, given)
        scored = [report is not None and report.status == "scored" for report in ours]
        return [
            report.components.get(name) if report is not None and good else None
            for report, good in zip(ours, scored, strict=True)
        ]

    column.__name__ = name
    return column


def _log(environments: Sequence[Any], given: Mapping[str, Any]) -> None:
    if not all(isinstance(env, FactEnvironment) and not env._logged for env in environments):
        return
    sessions = []
    for env in environments:
        env._logged = True
        sessions.append(env.session)
    found: dict[str, list[float]] = {}
    for session in sessions:
        components = session.report.components if session.report else {}
        for name, value in session.metrics().items():
            if name not in components:
                found.setdefault(name, []).append(value)
    for name, values in found.items():
        given["log_metric"](f"factgym/{name}", sum(values) / len(values))
    given["log_extra"]("task_id", [session.task for session in sessions])
    given["log_extra"]("stop", [str(session.stop) for session in sessions])


def show_all(
    environments: Sequence[Any], completions: Sequence[Any], ids: Sequence[Any] | None = None, tokenizer: Any = None
) -> None:
    """Show each environment what its policy said, where it has seen nothing yet; with ids its tokens too."""
    for n, (env, completion) in enumerate(zip(environments, completions, strict=True)):
        if not isinstance(env, FactEnvironment):
            continue
        if ids is not None and not env._seen:
            parsed = completion[-1] if isinstance(completion, list) else {"content": completion}
            env._play(parsed, list(ids[n]), 0, tokenizer)
        env._show(completion)


def episode_tokens(env_id: str, tokenizer: Any, *, tasks: int = 16, **config: Any) -> EpisodeTokens:
    """How long episodes are under a tokenizer: what `max_completion_length` has to hold at least.

    The oracle goes the shortest way; twice its length is a fair beginning. The completion is 0 where there is none.
    """

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    return lengths.episode_tokens(env_id, count, config, tasks=tasks)
