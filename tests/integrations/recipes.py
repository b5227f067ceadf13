"""The files that a recipe shows, written to a folder as a reader would."""

from __future__ import annotations

from pathlib import Path

from guide_pages import FILE, blocks


def write_files(folder: Path, *names: str) -> None:
    """Write the blocks of `recipes.md` that begin with `# file: NAME`."""
    found = {named[1]: code for _, code in blocks("recipes") if (named := FILE.match(code))}
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(found[name], "utf-8")
