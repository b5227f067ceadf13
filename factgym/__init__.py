"""factgym: environments in which an agent checks claims against evidence.

>>> import factgym
>>> env = factgym.make("claimcheck-multihop")
>>> obs, info = env.reset(seed=7)

Importing this package registers every environment with Gymnasium and loads none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import factgym.envs  # noqa: F401 - fills the registry
from factgym.core.registry import EnvSpec, list_envs, make, register, set_policy_resolver, spec

if TYPE_CHECKING:
    from factgym.core.env import Env
    from factgym.core.episode import RewardReport, SpanCredit
    from factgym.core.policy import Policy, ScriptedAgent
    from factgym.core.tasks import Task, TaskSet

__version__ = "0.1.0"

set_policy_resolver("factgym.agents.resolve:agent_from")

_LAZY = {
    "Env": "factgym.core.env",
    "ScriptedAgent": "factgym.core.policy",
    "Policy": "factgym.core.policy",
    "RewardReport": "factgym.core.episode",
    "SpanCredit": "factgym.core.episode",
    "Task": "factgym.core.tasks",
    "TaskSet": "factgym.core.tasks",
}

__all__ = [
    "Env",
    "EnvSpec",
    "Policy",
    "RewardReport",
    "ScriptedAgent",
    "SpanCredit",
    "Task",
    "TaskSet",
    "__version__",
    "list_envs",
    "make",
    "register",
    "spec",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'factgym' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
