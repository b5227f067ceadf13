"""The pages of `factgym report` in a real browser, at two widths."""

from __future__ import annotations

from pathlib import Path

import fake_runs
import pytest
from chrome import Chromium
from typer.testing import CliRunner

from factgym.cli.main import app


@pytest.mark.parametrize("width", [1280, 390])
def test_a_board_and_what_is_not_on_it_fit_the_window(browser: Chromium, width: int, tmp_path: Path) -> None:
    episodes, manifest = [fake_runs.episode(i) for i in range(8)], fake_runs.manifest(8)
    changed = {**manifest, "prompts": {"full": "x" * 64}}
    for name, written in {"first": manifest, "second": manifest, "unlike": changed}.items():
        fake_runs.write_run(tmp_path / "runs" / name, episodes, written)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "runs"), "--out", str(tmp_path / "site")])
    assert done.exit_code == 0, done.output
    browser.resize(width, 900)
    browser.open((tmp_path / "site" / "index.html").as_uri())
    assert "Not on one board with the above" in browser.run("document.body.textContent")
    assert browser.run("document.documentElement.scrollWidth") <= width
