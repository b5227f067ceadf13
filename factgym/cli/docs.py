"""`python -m factgym.cli.docs [ROOT]`: the pages that are generated from what runs.

Writes one card per environment class family to `docs/environments/`, and the table of environments into the README.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from factgym.core.registry import EnvSpec, list_envs, spec

START, END = "<!-- environments -->", "<!-- /environments -->"


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
        texts[root / "docs" / "environments" / f"{env_id}.md"] = card(spec(env_id))
    return texts


def main() -> None:
    """Write the pages."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for path, text in pages(root).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
