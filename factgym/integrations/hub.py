"""`python -m factgym.integrations.hub [ROOT]`: writes `environments/<name>/`, one hub package for each environment.

For every environment that runs without files: `pyproject.toml`, a README from the environment's card, and a module of
one call. `prime env install NAME` installs such a folder, `prime env push` publishes it. The checked-in packages equal
the output of this command; a test compares them.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import factgym
from factgym.core.errors import install_command
from factgym.core.registry import spec
from factgym.integrations.frameworks import Setting, json_quote, render_template, settings_of
from factgym.integrations.session import Session, self_contained, training_config

VERIFIERS = "verifiers>=0.4,<0.5"
"""The range that is tested; its lower bound marks a package as one of the v1 API for the hub."""

PYTHON = ">=3.11,<3.14"
_TAGS = ("fact-checking", "claim-verification", "grounding", "single-agent", "train", "eval")


def module_of(env_id: str) -> str:
    """Return the name of the package's module and folder."""
    return env_id.replace("-", "_")


def packages(root: Path) -> dict[Path, str]:
    """Return path -> text of every file of every package."""
    texts: dict[Path, str] = {}
    for env_id in self_contained():
        entry, module, session = spec(env_id), module_of(env_id), Session(env_id)
        session.start(0)
        session.close()
        multi_turn = session.env.config.max_turns > 1
        values = {
            "id": env_id,
            "env_version": entry.versioned,
            "name": json_quote(env_id),
            "module": json_quote(module),
            "version": json_quote(factgym.__version__),
            "description": json_quote(entry.summary),
            "python": json_quote(PYTHON),
            "tags": json.dumps([*_TAGS, *(["tool-use", "multi-turn"] if multi_turn else [])]),
            "verifiers": json_quote(VERIFIERS),
            "factgym": json_quote(f"factgym[verifiers]=={factgym.__version__}"),
            "install": install_command("verifiers"),
            "summary": entry.summary,
            "settings": "\n".join(_setting_rows(settings_of(env_id))),
            "split": _split_sentence(env_id),
            "metrics": ", ".join(f"`{name}`" for name in session.metrics()),
            "card": (inspect.getdoc(entry.load()) or "").replace("\n## ", "\n### "),
        }
        folder = root / "environments" / module
        texts[folder / "pyproject.toml"] = render_template("hub-pyproject.toml", **values)
        texts[folder / "README.md"] = render_template("hub-readme.md", **values)
        texts[folder / module / "__init__.py"] = render_template("hub-module.py.txt", **values)
    return texts


def _setting_rows(settings: tuple[Setting, ...], prefix: str = "") -> Iterator[str]:
    """Rows of a Markdown table; the fields of a nested configuration are rows of their own."""
    for setting in settings:
        name, hint = f"{prefix}{setting.name}", setting.hint
        if setting.inner:
            yield from _setting_rows(setting.inner, f"{name}.")
            continue
        type_name = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
        cells = (f"`{name}`", f"`{type_name}`", f"`{setting.default!r}`", setting.description)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _split_sentence(env_id: str) -> str:
    split = training_config(env_id, strict=False).get("split")
    if split is None:
        return ""
    return f" The tasks are those of the split `{split}` unless `split` is set: evaluate with another one."


def main() -> None:
    """Write the packages."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for path, text in packages(root).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
