"""A task for every registered environment, with the environment's settings as its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from secrets import token_hex
from typing import Any

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import mean, stderr

import factgym
from factgym.core.errors import FactgymError
from factgym.core.registry import spec
from factgym.integrations.inspect.messages import chat_message
from factgym.integrations.inspect.play import arguments_of, play_episode
from factgym.integrations.inspect.score import episode_reward, metric_names
from factgym.integrations.session import Session, rows
from factgym.integrations.settings import settings_of


@cache
def task_of(env_id: str) -> Callable[..., Task]:
    """The registered task of an environment, `factgym/<env_id>`: its arguments are the environment's plain settings.

    An argument or a value that the environment does not take raises Inspect's PrerequisiteError, which its command
    shows as one line.
    """
    entry = spec(env_id)

    def made(**settings: Any) -> Task:
        try:
            return _task(entry.id, settings)
        except FactgymError as error:
            raise PrerequisiteError(f"factgym/{entry.id}: {error}") from error

    kinds = inspect.Parameter
    given = [
        kinds(one.name, kinds.KEYWORD_ONLY, default=one.default, annotation=one.hint) for one in settings_of(entry.id)
    ]
    # Inspect drops an argument that a task has no name for with a warning; the last parameter has them refused.
    every = [*given, kinds("settings", kinds.VAR_KEYWORD)]
    made.__name__ = entry.id.replace("-", "_")
    made.__qualname__ = made.__name__
    made.__doc__ = entry.summary
    made.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    registered: Callable[..., Task] = task(name=entry.id)(made)
    return registered


def _task(env_id: str, settings: Mapping[str, Any]) -> Task:
    arguments = arguments_of(env_id, settings)
    session = Session(env_id, **arguments)
    names = metric_names(session)
    return Task(
        dataset=MemoryDataset(list(_samples(env_id, arguments)), name=env_id),
        solver=play_episode(env_id, dict(settings)),
        scorer=episode_reward(names),
        metrics={name: [mean(), stderr()] for name in names},
        name=env_id,
        version=session.env.env_spec.version,
        metadata={
            "factgym": factgym.__version__,
            "env": session.env.env_spec.versioned,
            "tasks": session.env.tasks.fingerprint(),
            "prompts": session.env.prompt_hashes(),
        },
    )


def _samples(env_id: str, arguments: Mapping[str, Any]) -> Iterator[Sample]:
    for row in rows(env_id, arguments):
        yield Sample(
            id=row["task"],
            input=[chat_message(message, {}, token_hex(11)) for message in row["prompt"]],
            metadata={"env": row["env"], "task": row["task"], "index": row["index"]},
        )
