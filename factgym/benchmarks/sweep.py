"""What the benchmarks share that play several agents: who plays, under which folder, and the file of the results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from factgym.agents.agent import Agent, agent_from_script
from factgym.agents.resolve import find_agent, scripted_agents
from factgym.core.errors import DataError

EVERY_SCRIPT = "scripted"
"""In the place of an agent: every scripted agent of the family, exploiters included."""

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS = 60


def baselines(env_id: str) -> tuple[str, ...]:
    """The scripted agents that are played by default: all that exploit nothing, with the oracle as the ceiling."""
    return tuple(name for name, agent in scripted_agents(env_id).items() if agent.role != "exploiter")


def chosen_agents(env_id: str, named: Sequence[str]) -> tuple[str, ...]:
    """The agents to play: the baselines where none is named, every scripted one for `EVERY_SCRIPT`; each once."""
    found: list[str] = []
    for name in named or baselines(env_id):
        found += scripted_agents(env_id) if name == EVERY_SCRIPT else [name]
    return tuple(dict.fromkeys(found))


def agent_named(name: str, env_id: str, settings: Mapping[str, Any]) -> Agent:
    """The agent of a name; a scripted one beside a model takes none of the model's settings."""
    agent = scripted_agents(env_id).get(name)
    return find_agent(name, env_id, settings) if agent is None else agent_from_script(agent)


def folder_name(agent: str) -> str:
    """An agent's name as the name of a folder."""
    return _NO_NAME.sub("-", agent).strip("-.")[:_MAX_NAME_CHARS] or "agent"


class Report(Protocol):
    """What an evaluation found."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        ...


class Played(Protocol):
    """One agent on one data set. seconds: playing and evaluating."""

    @property
    def data_set(self) -> str:
        """Its name."""
        ...

    @property
    def agent(self) -> str:
        """Its name."""
        ...

    @property
    def report(self) -> Report:
        """The evaluation."""
        ...

    @property
    def seconds(self) -> float:
        """Playing and evaluating, on this machine, now."""
        ...


def write_json(results: Sequence[Played], path: Path) -> None:
    """The numbers of every report as JSON. Raises DataError when the file cannot be written."""
    found = [
        {"data_set": one.data_set, "agent": one.agent, "seconds": one.seconds, "report": one.report.to_dict()}
        for one in results
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", "utf-8")
    except OSError as error:
        raise DataError(f"cannot write {path} ({error.strerror}): name another folder") from None
