"""factgym: environments in which an agent checks claims against evidence.

>>> import factgym
>>> env = factgym.make("claimcheck-multihop")
>>> obs, info = env.reset(seed=7)

Importing this package registers every environment with Gymnasium and loads none of them. It exports the names that an author of
an environment needs, each name imported on first use; `docs/guides/custom_environment.md` builds one step by step.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import factgym.envs  # noqa: F401 - fills the registry
from factgym.core.registry import EnvSpec, list_envs, make, register, set_policy_resolver, spec

if TYPE_CHECKING:
    from factgym.agents.agent import Agent
    from factgym.core.config import DataConfig, EnvConfig
    from factgym.core.env import Env
    from factgym.core.episode import EpisodeState, RewardReport, SpanCredit, ToolResult
    from factgym.core.errors import ToolError
    from factgym.core.policy import GeneratorPolicy, Policy, ScriptedAgent
    from factgym.core.tasks import SimpleTask, Task, TaskList, TaskSet
    from factgym.corpora.corpus import Corpus, Passage
    from factgym.rewards.rubric import Rubric
    from factgym.tools.toolbox import Toolbox, tool

__version__ = "0.1.0"

set_policy_resolver("factgym.agents.resolve:agent_from")

_EXPORTS = {
    "factgym.agents.agent": "Agent",
    "factgym.core.config": "DataConfig EnvConfig",
    "factgym.core.env": "Env",
    "factgym.core.episode": "EpisodeState RewardReport SpanCredit ToolResult",
    "factgym.core.errors": "ToolError",
    "factgym.core.policy": "GeneratorPolicy Policy ScriptedAgent",
    "factgym.core.tasks": "SimpleTask Task TaskList TaskSet",
    "factgym.corpora.corpus": "Corpus Passage",
    "factgym.rewards.rubric": "Rubric",
    "factgym.tools.toolbox": "Toolbox tool",
}
"""Module -> the names that it exports, imported on first use."""

_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

# fmt: off
__all__ = [
    "Agent", "Corpus", "DataConfig", "Env", "EnvConfig", "EnvSpec", "EpisodeState", "GeneratorPolicy", "Passage",
    "Policy", "RewardReport", "Rubric", "ScriptedAgent", "SimpleTask", "SpanCredit", "Task", "TaskList", "TaskSet",
    "ToolError", "ToolResult", "Toolbox", "__version__", "list_envs", "make", "register", "spec", "tool",
]
# fmt: on


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'factgym' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
