"""Integration with SkyRL: any environment as a `BaseTextEnv` of skyrl-gym 0.4, and a generator for skyrl 0.3.

    register_skyrl("claimcheck-multihop")                           # in the process that trains: the Ray entrypoint
    write_rows(Path("train.jsonl"), "claimcheck-multihop")

The tools are text in the system message, and an environment with isolated contexts (ProFact) shows its policy all of the
transcript, because SkyRL's policies write text and its rollouts only append."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from factgym.agents.sampling import tools_as_text
from factgym.core.errors import ConfigError, FactgymError
from factgym.core.messages import Message
from factgym.core.registry import make, spec
from factgym.integrations import session as sessions
from factgym.integrations.frameworks import framework_import
from factgym.integrations.session import SessionPool, training_config

with framework_import("SkyRL", "skyrl", "skyrl_gym"):
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
    from skyrl_gym.envs.registration import registry

if TYPE_CHECKING:
    from factgym.integrations.skyrl.generator import FactGenerator

__all__ = ["EpisodeFaultError", "FactGenerator", "FactTextEnv", "register_skyrl", "rows", "write_rows"]

_T = TypeVar("_T")
ENTRY_POINT = "factgym.integrations.skyrl:FactTextEnv"
ENVS_KEY = "factgym_envs"
"""The key of a rollout's extras in which `FactGenerator` finds its environment again."""

_PLAIN_TYPES = (str, int, float, bool, type(None))
_pools: dict[tuple[Any, ...], SessionPool] = {}
"""Sessions by environment and settings: SkyRL makes an environment for every rollout."""


def __getattr__(name: str) -> Any:
    """Import the generator on first use: it needs `skyrl` and torch, the environments only `skyrl-gym`."""
    if name != "FactGenerator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.generator").FactGenerator


class EpisodeFaultError(FactgymError, RuntimeError):
    """The infrastructure broke an episode. It has no reward, and SkyRL cannot leave it out: never a zero."""


class FactTextEnv(BaseTextEnv):
    """One episode of `make(env_id, **config)` on the task that a row of the data set names.

    env_config: SkyRL's own settings; unused. extras: the row, with "task" (an id or an index), and the generator's
    "max_turns": a limit where it is above 1, SkyRL's default, and below the environment's own.
    """

    def __init__(
        self,
        env_config: Any = None,
        extras: Mapping[str, Any] | None = None,
        *,
        env_id: str,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        row = extras or {}
        if "task" not in row:
            raise ConfigError(f'a row for {env_id!r} has no "task": make the data set with `write_rows`')
        self._pool = _pool(env_id, config or {})
        self.session = self._pool.acquire()
        limit, self.max_turns = row.get("max_turns"), self.session.env.config.max_turns
        if isinstance(limit, int) and limit > 1:
            self.max_turns = min(int(limit), self.max_turns)
        self.paid = self._closed = False
        self._task = row["task"]
        if ENVS_KEY in row:
            row[ENVS_KEY].append(self)

    def init(self, prompt: Any = None) -> tuple[list[Message], dict[str, Any]]:
        """Return the first messages, with every tool in them as text; the row's own prompt equals them."""
        return tools_as_text(self.session.start(self._task), self.session.all_tools()), {"task": self.session.task}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play a completion. The reward is 0 until the last step, then the report's total.

        At the end "metadata" has stop, report and turn_rewards, the spans' credit for each message. Raises
        EpisodeFaultError where the infrastructure broke the episode.
        """
        session = self.session
        answers = session.step(action)
        env, episode = session.env, session.env.episode
        self.turns = len(episode.turns)
        if self.turns >= self.max_turns and episode.stop is None:
            session.close("turn_limit")
        done, reward = episode.stop is not None, 0.0
        metadata: dict[str, Any] = {"stage": env.stage, "error": episode.turns[-1].error}
        if done:
            if not self.paid:
                reward, self.paid = self.total(), True
            metadata["stop"] = episode.stop
            metadata["report"] = session.close().to_dict()
            metadata["turn_rewards"] = session.turn_rewards()
        return {
            "observations": [{"role": message["role"], "content": message["content"] or ""} for message in answers],
            "reward": reward,
            "done": done,
            "metadata": metadata,
        }

    def total(self) -> float:
        """Return the episode's total; an episode that still runs is truncated and scored. Raises EpisodeFaultError."""
        report = self.session.close("context_limit")
        if report.total is None:
            raise EpisodeFaultError(
                f"an episode of {self.session.env.env_spec.id!r} on task {self.session.task!r} was not scored "
                f"({report.status}: {report.error or 'no reason given'}); `FactGenerator` plays such an episode again"
            )
        return report.total

    def get_metrics(self) -> dict[str, Any]:
        """Every component and numeric metric, logged as `environment/NAME`; a rollout that was cut is ended here."""
        return {"reward": self.total(), **self.session.metrics()}

    def close(self) -> None:
        """Release the session, as SkyRL does when it has the metrics. The finished episode can still be read."""
        if not self._closed:
            released, self.session = self.session, _shallow_copy(self.session)
            self.session.env = _shallow_copy(released.env)  # the next episode is an attribute of the released one
            self._pool.release(released)
        self._closed = True


def _shallow_copy(original: _T) -> _T:
    """The same as `copy.copy`, in a tenth of the time."""
    twin = object.__new__(type(original))
    twin.__dict__.update(original.__dict__)
    return twin


def _pool(env_id: str, config: Mapping[str, Any]) -> SessionPool:
    """The pool for an environment and its settings; a new pool where a setting is an object."""
    if not all(type(value) in _PLAIN_TYPES for value in config.values()):
        return SessionPool(env_id, config)
    key = (env_id, *((name, type(value), value) for name, value in config.items()))
    return _pools.get(key) or _pools.setdefault(key, SessionPool(env_id, config))


def register_skyrl(env_id: str, *, name: str | None = None, **config: Any) -> str:
    """Register `make(env_id, **config)` with skyrl-gym; return the name for `env_class`, by default the id.

    Call it where episodes are played: in the Ray task that runs the entrypoint. A second call with the same settings
    does nothing. config: on the training split where it names none. Raises the errors of `make`, and ConfigError for a
    name of another environment and for an environment that has evaluation splits only.
    """
    env_class, config = name or spec(env_id).id, training_config(env_id, config)
    make(env_id, **config)
    kwargs = {"env_id": env_id, "config": config}
    registered = registry.get(env_class)
    if registered is None:
        skyrl_gym.register(id=env_class, entry_point=ENTRY_POINT, kwargs=kwargs)
    elif registered.entry_point != ENTRY_POINT or registered.kwargs != kwargs:
        raise ConfigError(f"skyrl-gym has another environment {env_class!r}: give this one a name, name=…")
    return env_class


def rows(
    env_id: str,
    *,
    name: str | None = None,
    limit: int | None = None,
    indices: Sequence[int] | None = None,
    **config: Any,
) -> Iterator[dict[str, Any]]:
    """Yield the tasks as rows of SkyRL's data sets, without any gold: prompt, env_class, data_source, task.

    name, config: as registered. limit: of the rows. indices: these tasks instead. Raises the errors of `register_skyrl`.
    """
    env_class, config = name or spec(env_id).id, training_config(env_id, config)
    tools = make(env_id, **config).all_tools()
    for row in sessions.rows(env_id, config, limit=limit, indices=indices):
        prompt = tools_as_text(row["prompt"], tools)
        yield {"prompt": prompt, "env_class": env_class, "data_source": env_class, "task": row["task"]}


def write_rows(path: Path, env_id: str, **options: Any) -> int:
    """Write `rows(env_id, **options)` as JSON lines, which `data.train_data` takes; return their number."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows(env_id, **options)]
    path.write_text("".join(lines), "utf-8")
    return len(lines)
