"""EVE's episodes and data sets as the page's data: spans in their documents, whatever the records hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym import make
from factgym.agents.resolve import scripted_agents
from factgym.agents.rollout.engine import play_many
from factgym.benchmarks.viewer import write_page
from factgym.benchmarks.viewer.episodes import COLUMNS, detail_of, row_of
from factgym.benchmarks.viewer.eve import read_dataset
from factgym.datasets.multihop import Evidence, Triple, triple_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def marked(card: dict[str, Any], mark: str) -> str:
    return "".join(text for text, marks in card["text"] if mark in marks)


def whole(card: dict[str, Any]) -> str:
    return "".join(text for text, _ in card["text"])


def row(episode: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(COLUMNS, row_of(episode), strict=True))


@pytest.fixture(scope="module")
def proposals() -> list[dict[str, Any]]:
    env = make("eve-proposer", size=30, n=2, m=1)
    agent = scripted_agents("eve-proposer")["extractive"]
    return list(play_many(env, agent, range(len(env.tasks))))


def test_a_proposal_is_shown_in_its_document(proposals: list[dict[str, Any]]) -> None:
    elsewhere = 0
    for episode in proposals:
        facts, view = episode["reward"]["metrics"], episode["task_view"]
        detail = detail_of(episode)
        cards = {card["id"]: card for card in detail["passages"]}
        assert whole(cards[view["document"]["id"]]) == view["document"]["text"]
        assert "source" in cards[view["document"]["id"]]["tags"]
        assert detail["triple"]["question"] == facts["question"]
        span = facts["evidence_span"]
        if span is None:
            continue
        if span["document"] == view["document"]["id"]:
            expected = view["document"]["text"][span["start"] : span["end"]]
        else:
            elsewhere += 1
            expected = facts["evidence"]
            assert cards[span["document"]]["tags"] == ["search result"]
        assert marked(cards[span["document"]], "q") == expected
        listed = row(episode)
        assert (listed["said"], listed["question"]) == (facts["answer"], facts["question"][:300])
        assert listed["state"] == ("played" if facts["valid"] else "invalid")
    assert elsewhere


def test_an_invented_span_is_called_so(proposals: list[dict[str, Any]]) -> None:
    episode = json.loads(json.dumps(proposals[0]))
    facts = episode["reward"]["metrics"]
    facts |= {"evidence": "Nobody wrote this.", "evidence_span": None, "valid": False}
    detail = detail_of(episode)
    assert detail["triple"]["evidence"] == [
        ["evidence", "Nobody wrote this.", "", "stands in no document or search result"]
    ]
    assert not any(marked(card, "q") for card in detail["passages"])
    assert row(episode)["state"] == "invalid"


def test_a_solution_is_shown_beside_the_gold() -> None:
    env = make("eve-solver", size=25)
    states = set()
    for episode in play_many(env, scripted_agents("eve-solver")["extractive"], range(len(env.tasks))):
        facts, view = episode["reward"]["metrics"], episode["task_view"]
        detail = detail_of(episode)
        cards = {card["id"]: card for card in detail["passages"]}
        for gold in view["gold_evidence"]:
            assert gold["text"] in marked(cards[gold["document"]], "g")
            assert ["gold", gold["text"], f"{gold['document']} · characters {gold['start']}–{gold['end']}", ""] in (
                detail["triple"]["evidence"]
            )
        if facts["evidence_verbatim"]:
            assert any("cited" in card["tags"] and marked(card, "q") for card in cards.values())
        states.add(row(episode)["state"])
        assert row(episode)["state"] == ("right" if facts["em"] else "wrong" if facts["answer"] else "silent")
    assert {"right", "wrong"} <= states


@given(
    st.dictionaries(st.sampled_from(["evidence_span", "valid", "em", "evidence_f1", "evidence", "k", "n", "V"]), JSON),
    JSON,
)
def test_records_of_any_shape_are_shown(facts: dict[str, Any], view: Any) -> None:
    """A record comes from a file: nothing in it may break the page."""
    episode = {
        "task": "t",
        "messages": [{"role": "user", "content": view}],
        "turns": [],
        "reward": {"status": "scored", "total": 1.0, "metrics": facts},
        "task_view": {"document": view, "passages": [view], "gold_evidence": view, "gold_answers": view},
    }
    json.dumps([detail_of(episode), row_of(episode)])


def _data_set(folder: Path, documents: bool = True) -> Path:
    text = "Vera Tandov was born in <b>Molgrad</b>.\u202e She taught there."
    span = "Vera Tandov was born in <b>Molgrad</b>."
    meta = {"source": "d1", "V": 0.6, "plus": 0.8, "minus": 0.2, "reward": 1.1}
    hostile = "</script><script>alert(1)</script>"
    triples = [
        Triple("r1", f"Where? {hostile}", ("Molgrad",), (Evidence("d1", 0, len(span), span),), 1, "eve", meta=meta),
        Triple("r2", "Who?", ("nobody",), (Evidence("", None, None, "Somewhere it is said."),)),
    ]
    folder.mkdir()
    (folder / "triples.jsonl").write_text("".join(json.dumps(triple_row(one)) + "\n" for one in triples), "utf-8")
    if documents:
        (folder / "documents.jsonl").write_text(
            json.dumps({"id": "d1", "title": "Vera", "text": text}) + "\n", "utf-8"
        )
    return folder


def test_the_rows_of_a_data_set_are_shown_in_their_passages(tmp_path: Path) -> None:
    rows = read_dataset(_data_set(tmp_path / "set"))
    first, second = map(detail_of, rows.episodes())
    assert marked(first["passages"][0], "q") == "Vera Tandov was born in <b>Molgrad</b>."
    assert ["V", "0.600"] in first["triple"]["facts"]
    assert second["passages"] == []
    assert second["triple"]["evidence"][0][1] == "Somewhere it is said."
    page = write_page(tmp_path / "set").read_text("ascii")
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert write_page(tmp_path / "set" / "triples.jsonl", tmp_path / "other.html").read_text("ascii") == page


def test_a_row_without_its_passage_says_so(tmp_path: Path) -> None:
    rows = read_dataset(_data_set(tmp_path / "set", documents=False))
    assert any("1 span of 1 cannot be shown in place" in note for note in rows.notes)
    assert "cannot be shown in place" in write_page(tmp_path / "set").read_text("ascii")
