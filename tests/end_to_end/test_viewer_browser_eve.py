"""EVE's pages in a real headless Chromium: a span in its document, the rows of a data set, and the way to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chrome import Chromium

from factgym.agents.resolve import find_agent
from factgym.benchmarks.viewer.page import write_page
from factgym.training.eve import EveEvolution, EveSettings, Learner

SIZES: dict[str, Any] = {"size": 40, "batch": 12, "prompts": 5, "samples": 2, "rows": 4, "group": 2, "n": 2, "m": 2}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eve")
    learners = [
        Learner(role, lambda role=role: find_agent("extractive", f"eve-{role}")) for role in ("proposer", "solver")
    ]
    EveEvolution(folder, EveSettings(**SIZES), *learners).run(1, 1)
    write_page(folder)
    return folder


def _texts(browser: Chromium, selector: str) -> list[str]:
    texts = browser.run(f"[...document.querySelectorAll({selector!r})].map((one) => one.textContent)")
    return [str(text) for text in texts]


def test_every_row_is_highlighted_in_its_passage(browser: Chromium, out: Path) -> None:
    rows = [json.loads(line) for line in (out / "data" / "triples.jsonl").read_text("utf-8").splitlines()]
    page = (out / "data" / "index.html").as_uri()
    for number, row in enumerate(rows[:6]):
        browser.open(f"{page}#e={number}")
        assert _texts(browser, ".dhead .id") == [row["id"]]
        [span] = row["evidence"]
        assert "".join(_texts(browser, ".passage mark.q")) == span["text"]
        ids = _texts(browser, ".passage .pid")
        assert span["document"] in ids
        assert row["meta"]["source"] in ids
        assert row["question"] in _texts(browser, ".answered .answer")
        assert _texts(browser, ".answered mark.q")[0] == span["text"]


def test_the_evolution_leads_to_its_runs(browser: Chromium, out: Path) -> None:
    browser.open((out / "index.html").as_uri())
    assert len(_texts(browser, "table.phases tbody tr")) == 2
    links = browser.run("[...document.querySelectorAll('main a')].map((one) => one.href)")
    assert len(links) == 4
    for link in links:
        browser.open(link)
        assert int(_texts(browser, "#to-episodes .num")[0]) > 0
        browser.open(link + "#e=0")
        assert _texts(browser, ".passage .body")


def test_a_solver_sees_gold_and_submitted_spans_apart(browser: Chromium, out: Path) -> None:
    page = (out / "solver" / "iteration-1" / "rollouts" / "index.html").as_uri()
    lines = (out / "solver" / "iteration-1" / "rollouts" / "episodes.jsonl").read_text("utf-8").splitlines()
    for number, episode in enumerate(map(json.loads, lines)):
        browser.open(f"{page}#e={number}")
        [gold] = episode["task_view"]["gold_evidence"]
        assert "".join(_texts(browser, ".passage mark.g")) == gold["text"]
        right = browser.run("document.querySelector('.dhead .outcome').classList.contains('right')")
        assert right == (episode["reward"]["metrics"]["em"] == 1)
    assert _texts(browser, ".samples .sample")
