"""The notebooks run from top to bottom and print what they show."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
from pathlib import Path
from typing import Any

import pytest
from served import ADDRESS, served

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def printed_by(cell: str, scope: dict[str, Any]) -> str:
    """Run a cell as IPython does, `await` outside of functions included."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        # `eval` returns the coroutine of code that awaits.
        result = eval(compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), scope)  # noqa: S307
        if inspect.iscoroutine(result):
            asyncio.run(result)
    return output.getvalue()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    scope: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(served()) if ADDRESS in path.read_text("utf-8") else ADDRESS
        stack.enter_context(contextlib.chdir(tmp_path))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                expected = "".join(line for output in cell["outputs"] for line in output["text"])
                assert printed_by("".join(cell["source"]).replace(ADDRESS, url), scope) == expected
