"""The documentation site builds without a broken link, and its pages work in a real browser at two widths."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from chrome import Chromium

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["", "quickstart/", "concepts/", "environments/claimcheck-multihop/", "guides/training/", "reference/python/"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("zensical", reason="needs factgym[docs]")
    copy = tmp_path_factory.mktemp("site")
    # The builder writes beside its configuration, and the checkout is to stay as it is.
    shutil.copytree(ROOT / "docs", copy / "docs")
    shutil.copy(ROOT / "zensical.toml", copy)
    (copy / "factgym").symlink_to(ROOT / "factgym")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    handler = functools.partial(_Quiet, directory=copy / "site")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_their_window_and_load_nothing_from_elsewhere(browser: Chromium, site: str, width: int) -> None:
    browser.origin = site
    browser.resize(width, 900)
    for page in PAGES:
        browser.open(site + page)
        assert browser.run("document.querySelector('article h1').textContent.length") > 2, page
        assert browser.run("document.documentElement.scrollWidth") <= width, page
        broken = "[...document.images].filter((image) => image.complete && !image.naturalWidth).length"
        assert browser.run(broken) == 0, page
        if width < 480:  # a phone shows no bar by which one could scroll a line of code
            cut = "[...document.querySelectorAll('pre code')].filter((code) => code.scrollWidth > code.clientWidth).length"
            assert browser.run(cut) == 0, page


def test_the_reference_shows_the_docstrings(browser: Chromium, site: str) -> None:
    browser.origin = site
    browser.open(site + "reference/python/")
    text = browser.run("document.querySelector('article').textContent")
    assert "total: the combined reward, None unless" in text and "async def" not in text
    assert browser.run("document.querySelectorAll('article h2').length") >= 25
