"""One episode as skyrl-gym plays it, its registration, and the rows of a data set."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
from skyrl_gym.envs.registration import registry

from factgym.agents.sampling import tools_as_text
from factgym.core.errors import ConfigError, FactgymError
from factgym.core.messages import Message, ToolSchema
from factgym.core.registry import make, spec
from factgym.integrations import session as sessions
from factgym.integrations.session import Session

_T = TypeVar("_T")
ENTRY_POINT = "factgym.integrations.skyrl.environment:FactTextEnv"
_MAX_HEADS = 64
_heads: dict[tuple[Any, ...], tuple[Sequence[ToolSchema], list[Message]]] = {}
"""System messages with tools in them; the schemas are held too, so that no other object gets the id of one."""

_MAX_IDLE = 256
_PLAIN = (str, int, float, bool, type(None))
_idle: defaultdict[tuple[Any, ...], list[Session]] = defaultdict(list)
"""Slots of rollouts that were closed, by environment and settings: SkyRL makes an environment for every rollout."""

SLOT = "factgym_envs"
"""The key of a rollout's extras in which `FactGenerator` finds its environment again."""


class EpisodeFaultError(FactgymError, RuntimeError):
    """The infrastructure broke an episode. It has no reward, and SkyRL has no way to leave it out: never a zero."""


class FactTextEnv(BaseTextEnv):
    """One episode of `make(env_id, **config)` on the task that a row of the data set names.

    env_config: SkyRL's own settings, of which there are none here. extras: the row, with "task" (an id or an index),
    and the generator's "max_turns": a limit where it is above 1 and below the environment's own.
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
        given = extras or {}
        if "task" not in given:
            raise ConfigError(f'a row for {env_id!r} has no "task": make the data set with `write_rows`')
        self._idle, self.session = _slot(env_id, config or {})
        self.max_turns = _limit(given.get("max_turns"), self.session.env.config.max_turns)
        self.paid = self._closed = False
        self._task = given["task"]
        if SLOT in given:
            given[SLOT].append(self)

    def init(self, prompt: Any = None) -> tuple[list[Message], dict[str, Any]]:
        """The first messages, with every tool in them as text; the row's own prompt is these already."""
        first = self.session.start(self._task)
        return _with_tools(first, self.session.all_tools()), {"task": self.session.task}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play a completion. The reward is 0 until the last step, then the report's total.

        At the end "metadata" holds stop, report and turn_rewards, what the spans credit to each message. Raises
        EpisodeFaultError where the infrastructure broke the episode.
        """
        session = self.session
        new = session.say(action)
        env, episode = session.env, session.env.episode
        self.turns = len(episode.turns)
        if self.turns >= self.max_turns and episode.stop is None:
            session.close("turn_limit")
        done, reward = episode.stop is not None, 0.0
        told: dict[str, Any] = {"stage": env.stage, "error": episode.turns[-1].error}
        if done:
            if not self.paid:
                reward, self.paid = self.total(), True
            told |= {"stop": episode.stop, "report": session.close().to_dict(), "turn_rewards": session.turn_rewards()}
        return {
            "observations": [{"role": one["role"], "content": one["content"] or ""} for one in new],
            "reward": reward,
            "done": done,
            "metadata": told,
        }

    def total(self) -> float:
        """The episode's total; one that still runs is ended, and scored as it stands. Raises EpisodeFaultError."""
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
        """Leave the slot to another rollout, as SkyRL asks for when it has the metrics. What was played can still be read."""
        if not self._closed and len(self._idle) < _MAX_IDLE:
            slot, self.session = self.session, _twin(self.session)
            self.session.env = _twin(slot.env)  # the slot's next episode is an object of its own
            self._idle.append(slot)
        self._closed = True


def _twin(thing: _T) -> _T:
    """Another object with the same attributes: what `copy.copy` makes of it, in a tenth of the time."""
    twin = object.__new__(type(thing))
    twin.__dict__.update(thing.__dict__)
    return twin


def _slot(env_id: str, config: Mapping[str, Any]) -> tuple[list[Session], Session]:
    """A slot, and where it belongs when its rollout is over."""
    if not all(type(value) in _PLAIN for value in config.values()):
        return [], Session(env_id, **config)
    idle = _idle[(env_id, *((name, type(value), value) for name, value in config.items()))]
    session = idle.pop() if idle else None
    if session is None or session.env.env_spec is not spec(env_id):  # somebody may register another under its name
        session = Session(env_id, **config)
    return idle, session


def _with_tools(first: list[Message], tools: Sequence[ToolSchema]) -> list[Message]:
    """`tools_as_text`; the system message is kept, since writing the schemas takes longer than a step."""
    told = 1 if first[0]["role"] == "system" else 0
    key = (first[0]["content"] if told else None, *map(id, tools))
    if key not in _heads:
        if len(_heads) >= _MAX_HEADS:
            _heads.clear()
        _heads[key] = (tools, tools_as_text(first[:told], tools))
    return [*(one.copy() for one in _heads[key][1]), *tools_as_text(first[told:], ())]


def _limit(wanted: Any, own: int) -> int:
    """SkyRL's default is 1 and says nothing: the environment counts its turns itself."""
    return min(int(wanted), own) if isinstance(wanted, int) and wanted > 1 else own


def register_skyrl(env_id: str, *, name: str | None = None, **config: Any) -> str:
    """Register `make(env_id, **config)` with skyrl-gym; the name for `env_class`, which is the id unless given.

    Call it where episodes are played: in the Ray task that runs the entrypoint. Again with the same settings is
    nothing. Raises what `make` raises, and ConfigError for a name that stands for something else.
    """
    known = name or spec(env_id).id
    make(env_id, **config)
    kwargs = {"env_id": env_id, "config": dict(config)}
    found = registry.get(known)
    if found is None:
        skyrl_gym.register(id=known, entry_point=ENTRY_POINT, kwargs=kwargs)
    elif found.entry_point != ENTRY_POINT or found.kwargs != kwargs:
        raise ConfigError(f"skyrl-gym has another environment {known!r}: give this one a name, name=…")
    return known


def rows(env_id: str, *, name: str | None = None, limit: int | None = None, **config: Any) -> Iterator[dict[str, Any]]:
    """The tasks as rows of SkyRL's data sets, without any gold: prompt, env_class, data_source, task.

    name: as registered. limit: how many. Raises what `make` raises.
    """
    known = name or spec(env_id).id
    tools = make(env_id, **config).all_tools()
    for row in sessions.rows(env_id, config, limit=limit):
        yield {
            "prompt": _with_tools(row["prompt"], tools),
            "env_class": known,
            "data_source": known,
            "task": row["task"],
        }


def write_rows(path: Path, env_id: str, *, name: str | None = None, limit: int | None = None, **config: Any) -> int:
    """Write the rows as JSON lines, which `data.train_data` takes; how many."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in rows(env_id, name=name, limit=limit, **config):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count
