"""The folder that `openenv validate`, `openenv build` and `openenv push` take, written for one environment.

The server in it is `app` with the given settings; its plan for `openenv validate` is an episode of the honest baseline,
so that no gold is published with it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.resolve import scripted_agents
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.integrations.frameworks import json_quote, render_template
from factgym.integrations.openenv.client import FactAction
from factgym.integrations.openenv.server import ServedEnv

OPENENV = "openenv>=0.10,<0.11"
EPISODE_ID = "validation"
_PLAN_ROLES = {"honest": 0, "baseline": 1}
"""Roles of the agents whose episode may be published, the preferred one first."""


def write_folder(
    env_id: str,
    config: Mapping[str, Any] | None,
    folder: Path,
    *,
    seed: int = 0,
    max_sessions: int = 64,
    idle_seconds: float | None = 3600.0,
) -> list[Path]:
    """Write the folder; return its files. Raises the errors of `make`, and ConfigError for a folder with other files."""
    serving = {"seed": seed, "max_sessions": max_sessions, "idle_seconds": idle_seconds}
    texts = files(env_id, dict(config or {}), serving)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file: name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "openenv.yaml").is_file():
        raise ConfigError(f"{folder} holds other files: name a folder that is new, empty or of an earlier --folder")
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return [folder / name for name in texts]


def files(env_id: str, config: dict[str, Any], serving: Mapping[str, Any]) -> dict[str, str]:
    """Return file name -> text. config: JSON values. serving: `app`'s other arguments."""
    served = ServedEnv(env_id, config)
    env = served.session().env
    entry = env.env_spec
    low, high = env.reward_bounds
    values = {
        "id": entry.id,
        "name": json_quote(entry.id),
        "package": json_quote(f"openenv-{entry.id}"),
        "version": json_quote(factgym.__version__),
        "env_version": json_quote(entry.versioned),
        "low": float(low),
        "high": float(high),
        "seed": env.config.seed,
        "split": json_quote(served.split),
        "size": served.size,
        "description": json_quote(entry.summary),
        "openenv": json_quote(OPENENV),
        "factgym": json_quote(f"factgym[openenv]=={factgym.__version__}"),
        "arguments": ", ".join([repr(env_id), repr(config), *(f"{name}={value!r}" for name, value in serving.items())]),
        "summary": entry.summary,
        "settings": json.dumps(config, ensure_ascii=False) if config else "the environment's own",
        "card": (inspect.getdoc(entry.load()) or "").replace("\n## ", "\n### "),
    }
    return {
        "openenv.yaml": render_template("openenv-manifest.yaml", **values),
        "pyproject.toml": render_template("openenv-pyproject.toml", **values),
        "README.md": render_template("openenv-readme.md", **values),
        "Dockerfile": render_template("openenv-Dockerfile"),
        ".dockerignore": "__pycache__\n.venv\noutputs\nvalidation\n",
        "server/__init__.py": f'"""The server of {env_id}."""\n',
        "server/app.py": render_template("openenv-app.py.txt", **{**values, "id": env_id}),
        "validation/runtime.json": json.dumps(validation_plan(env), indent=1, ensure_ascii=False) + "\n",
    }


def validation_plan(env: Env[Any]) -> dict[str, Any]:
    """Return an episode for `openenv validate`: the honest baseline's, else one of refusals to answer."""
    env.reset(seed=0)
    agents = [agent for agent in scripted_agents(env.env_spec.id).values() if agent.role in _PLAN_ROLES]
    agents.sort(key=lambda agent: _PLAN_ROLES[agent.role])
    policy = agents[0].start(env, 0) if agents else None
    actions: list[dict[str, Any]] = []
    while env.episode.stop is None:
        reply = policy.act(env.policy_prompt(), env.available_tools()) if policy else "I would rather not say."
        message = env.parser.parse(reply).message
        actions.append(FactAction.of(dict(message)).model_dump(exclude_unset=True))
        env.step(message)
    return {"plan_schema_version": "1", "reset": {"episode_id": EPISODE_ID, "seed": 0}, "actions": actions}
