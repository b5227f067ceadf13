"""`python -m factgym.cli.docs [ROOT] [--certify ENV …]`: the pages that are generated from what runs.

Writes one card per environment class family to `docs/environments/`, and the table of environments into the README. A
card ends with the environment's certificate where `docs/environments/certificates` has one. `--certify` first writes
those of the environments named, of all that need no data where none is.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError
from factgym.core.registry import EnvSpec, list_envs, make, spec

START, END = "<!-- environments -->", "<!-- /environments -->"
CERTIFICATES = Path("docs/environments/certificates")
BUDGET, TASKS = 300, 100
"""Training episodes and fresh tasks of the certificates: a few seconds for each environment."""


def table() -> str:
    """The Markdown table of environments."""
    rows = ["| environment | task |", "| --- | --- |"]
    rows += [f"| `{entry.id}` | {entry.summary} |" for entry in map(spec, list_envs())]
    return "\n".join(rows)


def card(entry: EnvSpec) -> str:
    """The Markdown card of an environment, from its class's docstring."""
    about = inspect.getdoc(entry.load()) or ""
    settings = ", ".join(f"`{key}={value!r}`" for key, value in sorted(entry.kwargs.items()))
    return (
        f"# {entry.versioned}\n\n{entry.summary} In Gymnasium: `{entry.gymnasium_id}`. "
        f"It sets {settings or 'nothing'}.\n\n{about}\n"
    )


def pages(root: Path) -> dict[Path, str]:
    """Path -> text of every generated page."""
    readme = (root / "README.md").read_text("utf-8")
    head, _, generated = readme.partition(START)
    tail = generated.partition(END)[2]
    texts = {root / "README.md": f"{head}{START}\n{table()}\n{END}{tail}"}
    for env_id in list_envs():
        texts[root / "docs" / "environments" / f"{env_id}.md"] = card(spec(env_id)) + certificate_section(root, env_id)
    return texts


def certificate_section(root: Path, env_id: str) -> str:
    """The section of a card that shows the environment's certificate; empty where there is none."""
    path = root / CERTIFICATES / f"{env_id}.json"
    if not path.is_file():
        return ""
    from factgym.benchmarks.search.certificate import markdown, read_certificate
    from factgym.core.registry import load_attribute

    default = load_attribute(spec(env_id).load().strategies or "").strategy().to_json()
    return f"\n{markdown(read_certificate(path.read_text('utf-8')), default)}"


def certify(env_id: str) -> dict[str, Any] | None:
    """The certificate of an environment at the small budget.

    None for one without a strategy space, with fewer tasks than a certificate needs, or that needs data.
    """
    from factgym.benchmarks.search.certificate import certificate
    from factgym.benchmarks.search.run import run_search

    if spec(env_id).load().strategies is None:
        return None
    try:
        env = make(env_id)
    except ConfigError:
        return None
    if len(env.tasks) < TASKS:
        return None
    return certificate(run_search(env, budget=BUDGET, n=TASKS))


def main() -> None:
    """Write the pages."""
    arguments = sys.argv[1:]
    if "--certify" in arguments:
        split = arguments.index("--certify")
        arguments, chosen = arguments[:split], arguments[split + 1 :] or list_envs()
    else:
        chosen = []
    root = Path(arguments[0] if arguments else ".")
    for env_id in chosen:
        value = certify(env_id)
        if value is not None:
            path = root / CERTIFICATES / f"{env_id}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")
            print(f"{env_id}: {'passed' if value['passed'] else 'FAILED'}")
    for path, text in pages(root).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
