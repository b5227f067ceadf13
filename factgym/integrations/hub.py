"""`python -m factgym.integrations.hub [ROOT]`: writes `environments/<name>/`, one hub package for each environment.

For every environment that runs without files: `pyproject.toml`, a README from the environment's card, and a module that
only names it. `prime env install NAME` installs such a folder, `prime env push` publishes it. What is checked in is
exactly what this writes; a test holds them equal.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import factgym
from factgym.core.registry import EnvSpec, spec
from factgym.integrations.session import Session, self_contained
from factgym.integrations.settings import Setting, settings_of

VERIFIERS = "verifiers>=0.4,<0.5"
"""The range that is tested; its lower bound tells the hub that a package speaks the v1 API."""

PYTHON = ">=3.11,<3.14"
_TAGS = ("fact-checking", "claim-verification", "grounding", "single-agent", "train", "eval")


def module_of(env_id: str) -> str:
    """The name of the package's module and folder."""
    return env_id.replace("-", "_")


def packages(root: Path) -> dict[Path, str]:
    """Path -> text of every file of every package."""
    found: dict[Path, str] = {}
    for env_id in self_contained():
        entry, folder = spec(env_id), root / "environments" / module_of(env_id)
        found[folder / "pyproject.toml"] = _pyproject(entry)
        found[folder / "README.md"] = _readme(entry)
        found[folder / module_of(env_id) / "__init__.py"] = _module(entry)
    return found


def _pyproject(entry: EnvSpec) -> str:
    tags = [*_TAGS, *(["tool-use", "multi-turn"] if _max_turns(entry) > 1 else [])]
    return f"""\
# Written by `python -m factgym.integrations.hub`.
[build-system]
requires = ["hatchling>=1.25,<2"]
build-backend = "hatchling.build"

[project]
name = {_text(entry.id)}
version = {_text(factgym.__version__)}
description = {_text(entry.summary)}
readme = "README.md"
requires-python = {_text(PYTHON)}
license = "Apache-2.0"
keywords = {json.dumps(tags)}
tags = {json.dumps(tags)}
dependencies = [{_text(VERIFIERS)}, {_text(f"factgym[verifiers]=={factgym.__version__}")}]

[tool.uv.sources]
factgym = {{ path = "../..", editable = true }}

[tool.hatch.build.targets.wheel]
packages = [{_text(module_of(entry.id))}]
"""


def _module(entry: EnvSpec) -> str:
    return f'''\
"""{entry.versioned} for verifiers and prime. Written by `python -m factgym.integrations.hub`."""

from factgym.integrations.verifiers import hub_environment

Taskset, FactEnv, FactHarness = hub_environment({_text(entry.id)})

__all__ = ["FactEnv", "FactHarness", "Taskset"]
'''


def _readme(entry: EnvSpec) -> str:
    card = (inspect.getdoc(entry.load()) or "").replace("\n## ", "\n### ")
    return f"""\
# {entry.id}

{entry.summary} One of the environments of factgym; this package is its integration with verifiers and prime.

```bash
prime env install {entry.id}
vf-eval {entry.id} -m MODEL --client.base-url http://127.0.0.1:8000/v1 -n 20 -r 4 --no-push
```

Everything runs on this machine: no sandbox, no login, no network but the model's own server.

## Settings

Flags are `--env.taskset.NAME`; in a TOML file they stand under `[env.taskset]`.

| setting | type | default | |
| --- | --- | --- | --- |
{_settings_table(settings_of(entry.id))}

## What is recorded

`reward` is the environment's own total. Metrics: {_listed(_metric_names(entry))}. `trace.info["factgym"]` holds the whole
reward report, with the credit of each stretch of the policy's own text, and `turn_rewards`, the credit of each message.

## The environment

{card}
"""


def _settings_table(settings: tuple[Setting, ...], prefix: str = "") -> str:
    lines = []
    for one in settings:
        if one.inner:
            lines.append(_settings_table(one.inner, f"{prefix}{one.name}."))
        else:
            cells = (f"`{prefix}{one.name}`", f"`{_type_name(one.hint)}`", f"`{one.default!r}`", one.about)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _metric_names(entry: EnvSpec) -> list[str]:
    session = Session(entry.id)
    session.start(0)
    session.close()
    return list(session.metrics())


def _max_turns(entry: EnvSpec) -> int:
    return Session(entry.id).env.config.max_turns


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Write the packages."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for path, text in packages(root).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
