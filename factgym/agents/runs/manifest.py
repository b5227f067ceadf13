"""The manifest of a run: what it was made with, so that runs can be compared, and continued."""

from __future__ import annotations

import dataclasses
import math
import platform
from collections.abc import Mapping
from typing import Any

import factgym
from factgym.agents.agent import Agent
from factgym.core.env import Env


def manifest_of(env: Env[Any], agent: Agent, n: int, k: int, seed: int) -> dict[str, Any]:
    """What a run was made with. Two runs whose manifests agree (but for the agent) can be compared.

    n: tasks. k: episodes of each.
    """
    auxiliary_policies = {name: _plain_value(one) for name, one in env.auxiliary_policies().items()}
    return {
        "env": env.env_spec.id,
        "version": env.env_spec.version,
        "agent": agent.name,
        "agent_details": _plain_value(dict(agent.describe())),
        "n": n,
        "k": k,
        "seed": seed,
        "config": _plain(env.config),
        "factgym": factgym.__version__,
        "python": platform.python_version(),
        "fingerprints": {"tasks": env.tasks.fingerprint()},
        "prompts": env.prompt_hashes(),
        "caveats": env.warnings(),
        **({"guests": auxiliary_policies} if auxiliary_policies else {}),
    }


def _plain(config: Any) -> dict[str, Any]:
    values = {name: getattr(config, name) for name in type(config).model_fields}
    return {name: _plain_value(value) for name, value in values.items()}


def _plain_value(value: Any) -> Any:
    """JSON data; an object is named, with its fingerprint where it has one."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, (list, tuple)):
        return [_plain_value(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _plain_value(one) for key, one in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return f"{name} {value.fingerprint()}" if callable(getattr(value, "fingerprint", None)) else name
