"""The folder that `openenv validate`, `openenv build` and `openenv push` take, written for one environment.

    factgym serve openenv claimcheck-multihop --set haystack=true --folder my-environment

The server in it is `app` with the given settings; its plan for `openenv validate` is an episode of the honest baseline,
so that no gold is published with it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.resolve import scripted_agents
from factgym.core.action import parse_action
from factgym.core.env import Env
from factgym.core.errors import ConfigError
from factgym.core.registry import make
from factgym.integrations.openenv.client import FactAction
from factgym.integrations.openenv.server import Served

OPENENV = "openenv>=0.10,<0.11"
EPISODE_ID = "validation"
MEMORY_MB = 2048
_ROLES = {"honest": 0, "baseline": 1}
_TAGS = ("fact-checking", "claim-verification", "grounding")


def write_folder(
    env_id: str,
    config: Mapping[str, Any] | None,
    folder: Path,
    *,
    seed: int = 0,
    max_sessions: int = 64,
    idle_seconds: float | None = 3600.0,
) -> list[Path]:
    """Write the folder; the files in it. Raises what `make` raises, and ConfigError where something else is there."""
    found = files(
        env_id, dict(config or {}), {"seed": seed, "max_sessions": max_sessions, "idle_seconds": idle_seconds}
    )
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file: name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "openenv.yaml").is_file():
        raise ConfigError(f"{folder} holds other files: name a folder that is new, empty or of an earlier --folder")
    for name, text in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return [folder / name for name in found]


def files(env_id: str, config: dict[str, Any], serving: Mapping[str, Any]) -> dict[str, str]:
    """Name -> text. config: JSON values. serving: `app`'s other arguments."""
    env = make(env_id, **config)
    return {
        "openenv.yaml": _manifest(env, Served(env_id, config)),
        "pyproject.toml": _pyproject(env),
        "README.md": _readme(env, config),
        "Dockerfile": _DOCKERFILE,
        ".dockerignore": "__pycache__\n.venv\noutputs\nvalidation\n",
        "server/__init__.py": f'"""The server of {env_id}."""\n',
        "server/app.py": _app(env_id, config, serving),
        "validation/runtime.json": json.dumps(_plan(env), indent=1, ensure_ascii=False) + "\n",
    }


def _manifest(env: Env[Any], served: Served) -> str:
    low, high = env.reward_bounds
    tags = "".join(f"      - {tag}\n" for tag in _TAGS)
    return f"""\
# Written by `factgym serve openenv {env.env_spec.id} --folder`.
spec_version: 1
name: {_text(env.env_spec.id)}
version: {_text(factgym.__version__)}
type: space
runtime: fastapi
app: server.app:app
port: 8000
validation:
  reward:
    range: [{float(low)}, {float(high)}]
    oracle_tolerance: 0.0
    floor_margin: 0.1
  resources:
    cpu: 1.0
    memory_mb: {MEMORY_MB}
    disk_mb: 1024
    episode_timeout_s: 600.0
  network:
    mode: no-network
  task_distribution:
    generator_seed: {env.config.seed}
    dataset_version: {_text(env.env_spec.versioned)}
  capabilities:
    verifier:
      kind: reward_channel
    task_api: true
    declared_task_count:
      {_text(served.split)}: {served.size}
  types:
    tags:
{tags}  execution:
    kind: openenv_ws
    probe_path: validation/runtime.json
    dockerfile: Dockerfile
"""


def _plan(env: Env[Any]) -> dict[str, Any]:
    """An episode for `openenv validate`: the honest baseline's, else of a text that nobody asked for."""
    env.reset(seed=0)
    known = sorted(scripted_agents(env.env_spec.id).values(), key=lambda one: _ROLES.get(one.role, 2))
    policy = known[0].start(env, 0) if known and known[0].role in _ROLES else None
    actions: list[dict[str, Any]] = []
    while env.episode.stop is None:
        said = policy.act(env.policy_prompt(), env.available_tools()) if policy else "I would rather not say."
        message = parse_action(said, tags=env.tags, implicit=env.implicit).message
        actions.append(FactAction.of(dict(message)).model_dump(exclude_unset=True))
        env.step(message)
    return {"plan_schema_version": "1", "reset": {"episode_id": EPISODE_ID, "seed": 0}, "actions": actions}


def _pyproject(env: Env[Any]) -> str:
    return f"""\
[build-system]
requires = ["hatchling>=1.25,<2"]
build-backend = "hatchling.build"

[project]
name = {_text(f"openenv-{env.env_spec.id}")}
version = {_text(factgym.__version__)}
description = {_text(env.env_spec.summary)}
readme = "README.md"
requires-python = ">=3.11,<3.14"
dependencies = [{_text(OPENENV)}, {_text(f"factgym[openenv]=={factgym.__version__}")}]

[project.scripts]
server = "server.app:main"

[tool.hatch.build.targets.wheel]
packages = ["server"]
"""


def _app(env_id: str, config: dict[str, Any], serving: Mapping[str, Any]) -> str:
    given = "".join(f", {name}={value!r}" for name, value in serving.items())
    return f'''\
"""{env_id}, served to OpenEnv's clients: `python -m server.app --port 8000`, or `uvicorn server.app:app`."""

from factgym.integrations.openenv import app as app_of
from factgym.integrations.openenv.server import run

app = app_of({env_id!r}, {config!r}{given})


def main() -> None:
    """Serve."""
    run(app)


if __name__ == "__main__":
    main()
'''


_DOCKERFILE = """\
FROM python:3.11-slim
WORKDIR /app
COPY . /app
# A wheel of factgym in wheels/ is taken where the package index has none.
RUN mkdir -p wheels && pip install --no-cache-dir --find-links wheels .
RUN useradd --create-home factgym
USER factgym
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \\
    CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"
CMD ["python", "-m", "server.app", "--host", "0.0.0.0", "--port", "8000"]
"""


def _readme(env: Env[Any], config: dict[str, Any]) -> str:
    entry = env.env_spec
    card = (inspect.getdoc(entry.load()) or "").replace("\n## ", "\n### ")
    settings = json.dumps(config, ensure_ascii=False) if config else "the environment's own"
    return f"""\
---
title: {_text(entry.id)}
sdk: docker
app_port: 8000
base_path: /docs
tags:
  - openenv
---

# {entry.id}

{entry.summary} One of the environments of factgym, served to OpenEnv's clients. Settings: {settings}.

```bash
python -m server.app --port 8000
openenv validate --url http://127.0.0.1:8000
```

```python
from factgym.integrations.openenv import FactClient

with FactClient("http://127.0.0.1:8000").sync() as client:
    result = client.reset()
    print(result.observation.text)
```

`openenv validate` checks this folder, `openenv build` makes the image, `openenv push` publishes it.

## The environment

{card}
"""


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
