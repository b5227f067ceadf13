"""One real browser for the tests of a module; what it complains about fails the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chrome import Chromium, find_chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    binary = find_chromium()
    if binary is None:
        pytest.skip("needs Chromium: install the package 'chromium', or put google-chrome on the PATH")
    with Chromium(binary, tmp_path_factory.mktemp("profile")) as opened:
        opened.resize(1280, 800)
        yield opened


@pytest.fixture(autouse=True)
def _nothing_to_complain_about(browser: Chromium) -> Iterator[None]:
    browser.events.clear()
    yield
    assert browser.complaints() == []
