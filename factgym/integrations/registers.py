"""`python -m factgym.integrations.registers OUT --repository URL --commit SHA [ENV …]`: entries for public registers.

    OUT/inspect_evals/register/factgym_ENV/eval.yaml    one task each, as the register of Inspect Evals asks for
    OUT/nemo_gym/environments/factgym_ENV/              manifest, configuration and rows for NeMo-Gym's catalog
    examples/inspect_tasks.py (with --tasks)            the `@task` functions to which the register points

Prime's hub takes the packages of `factgym.integrations.hub`. Entries point at a pinned commit of a public repository,
which only its owner can name, so that they are written when the package is published and not before.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import factgym
from factgym.core.errors import ConfigError, FactgymError
from factgym.core.registry import spec
from factgym.integrations.frameworks import json_quote
from factgym.integrations.hub import module_of
from factgym.integrations.session import Session, rows, self_contained, training_config

TASKS_FILE = Path("examples/inspect_tasks.py")
LICENCE = "Apache-2.0"
EXAMPLES = 5
"""Rows of a NeMo-Gym environment's example data."""

_RESOURCES = "factgym_gym"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TAGS = ("fact-checking", "claim-verification", "grounding", "tool-use")


def inspect_tasks() -> str:
    """Return a module with a `@task` function for each environment that needs no files."""
    parts = [
        '"""Tasks of Inspect, one for each environment: `inspect eval examples/inspect_tasks.py@NAME`.\n\n'
        'Written by `python -m factgym.integrations.registers --tasks`, for registers that read the source of a task.\n"""\n',
        "from typing import Any\n",
        "from inspect_ai import Task, task\n",
        "from factgym.integrations.inspect import task_of\n",
    ]
    for env_id in self_contained():
        parts.append(
            f"\n@task\ndef {module_of(env_id)}(**settings: Any) -> Task:\n"
            f'    """{spec(env_id).summary}"""\n    return task_of({json_quote(env_id)})(**settings)\n'
        )
    return "\n".join(parts)


def inspect_entry(env_id: str, repository: str, commit: str, arxiv: str | None = None) -> str:
    """Return the `eval.yaml` of an environment. arxiv: address of the paper that describes it."""
    entry, owner = spec(env_id), _owner(repository)
    value: dict[str, Any] = {
        "full_title": f"factgym {env_id}: {entry.summary.rstrip('.')}",
        "common_title": f"factgym {env_id}",
        "description": " ".join(entry.summary.split()),
        **({"arxiv": arxiv} if arxiv else {}),
        "contributors": [owner],
        "tasks": [
            {
                "name": module_of(env_id),
                "task_path": TASKS_FILE.as_posix(),
                "dataset_samples": len(factgym.make(env_id).tasks),
            }
        ],
        "source": {"repository_url": repository, "repository_commit": commit, "maintainers": [owner]},
        "tags": list(_TAGS),
    }
    source = task_permalink(env_id, repository, commit)
    return f"# Of the register's form, source: {source}\n{_yaml(value)}"


def task_permalink(env_id: str, repository: str, commit: str) -> str:
    """Return the address of the line at which an environment's `@task` is, which the register's form asks for."""
    lines = inspect_tasks().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.startswith(f"def {module_of(env_id)}(")) - 1
    return f"{repository}/blob/{commit}/{TASKS_FILE.as_posix()}#L{line}"


def nemo_files(env_id: str, url: str = "http://127.0.0.1:8000") -> dict[str, str]:
    """Return file name -> text of an environment's folder in NeMo-Gym's `environments/`.

    url: of `factgym serve openenv`. The resources server is that of the guide (`factgym_gym`).
    """
    entry, config = spec(env_id), training_config(env_id, strict=False)
    session = Session(env_id, **config)
    name = f"factgym_{module_of(env_id)}"
    data = f"environments/{name}/data/example.jsonl"
    low, high = session.env.reward_bounds
    dataset = {"name": "example", "type": "example", "jsonl_fpath": data}
    manifest = {
        "name": name,
        "version": f"{entry.version}.0.0",
        "kind": "environment",
        "integration_profile": "custom-gym-verifier",
        "domain": "knowledge",
        "description": entry.summary,
        "modality": "text",
        "licensing": LICENCE,
        "authors": ["The factgym authors"],
        "reward": {"range": [low, high], "higher_is_better": True},
        "determinism": "seeded",
        "resources_server": _RESOURCES,
        "agent_server": "simple_agent",
        "model_server": "policy_model",
        "datasets": [dataset],
        "session_model": "episode",
        "state": "per_session",
    }
    server, agent = f"{name}_resources_server", f"{name}_simple_agent"
    composition = {
        server: {
            "resources_servers": {
                _RESOURCES: {"entrypoint": "app.py", "domain": "knowledge", "verified": False, "base_url": url}
            }
        },
        agent: {
            "responses_api_agents": {
                "simple_agent": {
                    "entrypoint": "app.py",
                    "max_steps": session.env.config.max_turns,
                    "resources_server": {"type": "resources_servers", "name": server},
                    "model_server": {"type": "responses_api_models", "name": "policy_model"},
                    "datasets": [dataset],
                }
            }
        },
    }
    readme = (
        f"# {name}\n\n{entry.summary}\n\nServe it with `factgym serve openenv {env_id}`, and copy the resources server "
        f"`{_RESOURCES}` from factgym's guide to other trainers. Licence: {LICENCE}.\n"
    )
    return {
        "manifest.yaml": _yaml(manifest),
        "config.yaml": _yaml(composition),
        "README.md": readme,
        "data/example.jsonl": "".join(nemo_rows(env_id, config, EXAMPLES)),
    }


def nemo_rows(env_id: str, config: dict[str, Any], limit: int) -> Iterator[str]:
    """Yield tasks as lines of NeMo-Gym's data: the request of the first turn, and the task that the server plays."""
    schemas = Session(env_id, **config).all_tools()
    tools = [{"type": "function", "strict": False, **schema["function"]} for schema in schemas]
    for row in rows(env_id, config, limit=limit):
        request = {"input": row["prompt"], "tools": tools}
        yield json.dumps({"task": row["task"], "responses_create_params": request}, ensure_ascii=False) + "\n"


def _yaml(value: Any, indent: str = "") -> str:
    """Return JSON data as YAML in block style; texts are quoted as in JSON, which YAML reads alike."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines.append(f"{indent}{key}:\n{_yaml(item, f'{indent}  ')}")
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            lines.append(f"{indent}{key}:\n")
            for row in item:
                body = _yaml(row, f"{indent}    ")
                lines.append(f"{indent}  - {body.removeprefix(f'{indent}    ')}")
        else:
            lines.append(f"{indent}{key}: {json_quote(item)}\n")
    return "".join(lines)


def _owner(repository: str) -> str:
    """Return the owner in a repository's address. Raises ConfigError for an address without one."""
    parts = urlsplit(repository)
    path = parts.path.strip("/").split("/")
    if parts.scheme != "https" or len(path) != 2 or not all(path):
        raise ConfigError(f"--repository is an address such as https://github.com/OWNER/NAME, not {repository!r:.100}")
    return path[0]


def write_registers(
    out: Path, repository: str, commit: str, env_ids: list[str] | None = None, arxiv: str | None = None
) -> list[Path]:
    """Write the entries of environments, by default all that need no files, and return their paths.

    Raises ConfigError for an address without an owner, a commit that is no full SHA, and an unknown environment.
    """
    _owner(repository)
    if not _COMMIT.fullmatch(commit):
        raise ConfigError(f"--commit is a full SHA of 40 digits, as registers pin it, not {commit!r:.60}")
    texts: dict[Path, str] = {}
    for env_id in env_ids or self_contained():
        if env_id not in self_contained():
            raise ConfigError(f"{spec(env_id).id!r} needs files of yours, which a register cannot pin")
        name = f"factgym_{module_of(env_id)}"
        entry = inspect_entry(env_id, repository, commit, arxiv)
        texts[out / "inspect_evals" / "register" / name / "eval.yaml"] = entry
        for file, text in nemo_files(env_id).items():
            texts[out / "nemo_gym" / "environments" / name / file] = text
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return list(texts)


def main() -> None:
    """Write the entries, or with --tasks the module of tasks."""
    parser = argparse.ArgumentParser(prog="python -m factgym.integrations.registers")
    parser.add_argument("out", type=Path, nargs="?", default=Path("registers"))
    parser.add_argument("env", nargs="*", help="environments; default all that need no files")
    parser.add_argument("--repository", default="", help="address of the public repository")
    parser.add_argument("--commit", default="", help="full SHA of the commit to which entries point")
    parser.add_argument("--arxiv", help="address of the paper, which the form of Inspect Evals asks for")
    parser.add_argument("--tasks", action="store_true", help=f"write {TASKS_FILE} instead")
    arguments = parser.parse_args()
    if arguments.tasks:
        TASKS_FILE.write_text(inspect_tasks(), "utf-8")
        return
    try:
        write_registers(arguments.out, arguments.repository, arguments.commit, arguments.env, arguments.arxiv)
    except FactgymError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
