"""`factgym serve check` in a real browser: paste a text, choose documents, see verdicts beside highlighted documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chrome import Chromium

pytest.importorskip("starlette", reason="needs factgym[serve]")
pytest.importorskip("uvicorn", reason="needs factgym[serve]")

from retrieval_served import serving

REFUNDS = """# Refund policy

Refunds are paid within 14 days of the request.
A refund above 500 euros needs the approval of the finance team.
"""
TEXT = (
    "Refunds are paid within 30 days of the request.\\nA refund above 500 euros needs the approval of the finance team."
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("handbook")
    for name, text in {"handbook": REFUNDS, "other": "# Other\n\nNothing of interest is in here.\n"}.items():
        (root / name).mkdir()
        (root / name / "page.md").write_text(text, "utf-8")
    with serving("check", str(root / "other"), str(root / "handbook"), "--port", "0") as address:
        yield address


@pytest.mark.parametrize("width", [1280, 390])
def test_a_pasted_text_is_checked(browser: Chromium, url: str, width: int, tmp_path: Path) -> None:
    browser.origin = url
    browser.resize(width, 900)
    browser.open(url + "/")
    browser.run(f"document.getElementById('text').value = '{TEXT}'")
    browser.run("document.getElementById('documents').value = 'handbook'")
    browser.run("document.querySelector('button').click()")
    browser.wait("document.querySelector('.summary')")
    assert browser.run("document.querySelector('.summary').textContent") == "2 claims: 1 supported, 1 contradicted."
    assert browser.run("document.getElementById('text').value.split('\\n').length") == 2
    assert browser.run("document.getElementById('documents').value") == "handbook"
    assert browser.run("[...document.querySelectorAll('mark')].map((mark) => mark.className).join()") == (
        "contradicted,supported"
    )
    assert browser.run("document.documentElement.scrollWidth") <= width
    # A claim leads to its verdict, and from there to the passage.
    browser.run("document.querySelector('a.claim').click()")
    assert browser.run("location.hash") == "#c1"
    browser.run("document.querySelector('blockquote a').click()")
    assert browser.run("document.querySelector(':target mark') !== null")
    assert browser.screenshot(tmp_path / f"{width}.png", full=True).stat().st_size > 10_000
