"""The page as a parser sees it: hostile texts stay text, the policy fits, and the data come through unchanged.

What a browser makes of it is tested in `tests/end_to_end/test_viewer_browser.py`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import fake_runs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym import make
from factgym.agents.resolve import scripted_agents
from factgym.agents.rollout.engine import play_many
from factgym.agents.runs.read import read_run
from factgym.benchmarks.costs import Price, PriceTable
from factgym.benchmarks.page import data_block, templates, visible
from factgym.benchmarks.viewer import live
from factgym.benchmarks.viewer.episodes import COLUMNS, detail_of, row_of
from factgym.benchmarks.viewer.eve import read_dataset
from factgym.benchmarks.viewer.live import PageServer
from factgym.benchmarks.viewer.page import run_names, write_comparison, write_page
from factgym.benchmarks.viewer.transcript import made_of, marked_pieces, quote_span, steps_of
from factgym.core.errors import DataError
from factgym.datasets.multihop import Evidence, Triple, triple_row
from factgym.integrations.frameworks import Shell

VOID = {"meta", "input", "rect", "line", "br"}


class _Page(HTMLParser):
    """Collects scripts, attributes and whether every element is closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            kind, body = self.scripts[-1]
            self.scripts[-1] = (kind, body + data)
        elif self.open and self.open[-1] == "style":
            self.styles.append(data)
        else:
            self.text.append(data)

    def block(self, name: str) -> Any:
        return json.loads(next(body for kind, body in self.scripts if kind.get("id") == name))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, _Page]:
    facts = {
        **fake_runs.manifest(2),
        "env": fake_runs.HOSTILE[0],
        "agent_details": {"model": fake_runs.HOSTILE[0]},
        "x": dict.fromkeys(fake_runs.HOSTILE, "\n".join(fake_runs.HOSTILE)),
    }
    again = {**fake_runs.hostile_episode(), "sample": 1}
    episodes = [fake_runs.hostile_episode(), fake_runs.episode(1), fake_runs.hostile_fault(), again]
    run = fake_runs.write_run(tmp_path_factory.mktemp("hostile"), episodes, facts)
    prices = PriceTable(fake_runs.HOSTILE[0], {"other": Price(1.0, 1.0)})
    source = write_page(run, prices=prices).read_text(encoding="ascii")
    return source, _Page(source)


def test_the_page_is_closed_in_order_and_plain_ascii(hostile: tuple[str, _Page]) -> None:
    source, page = hostile
    assert page.open == []
    assert page.tags.count("html") == page.tags.count("body") == 1
    assert not re.search(r"[^\n\x20-\x7e]", source)


def test_no_hostile_text_becomes_an_element(hostile: tuple[str, _Page]) -> None:
    _, page = hostile
    assert not {"img", "iframe", "b", "link", "object", "base", "embed"} & set(page.tags)
    assert not [
        attribute for attribute in page.attributes if attribute[1].startswith("on") or attribute[1] in ("style", "src")
    ]
    assert all(value.startswith("#") for _, name, value in page.attributes if name == "href")
    output = "".join(page.text)
    assert "</script><img src=x onerror=" in output
    assert "[U+202E]reversed" in output and "\u202e" not in output
    assert "[U+D800]" in output and "[U+0000]" in output


def test_one_script_runs_and_the_policy_names_it(hostile: tuple[str, _Page]) -> None:
    _, page = hostile
    kinds = [kind.get("type") for kind, _ in page.scripts]
    assert kinds.count(None) == 1
    assert set(kinds) == {None, "application/json"}
    policy = next(
        value for tag, name, value in page.attributes if tag == "meta" and name == "content" and "src" in value
    )
    script = next(body for kind, body in page.scripts if not kind)
    assert policy.startswith("default-src 'none'; ")
    for rule, source in (("script-src", script), ("style-src", "".join(page.styles))):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}';" in policy
    assert "unsafe" not in policy and "http" not in policy


def test_nothing_points_outside(hostile: tuple[str, _Page]) -> None:
    source, _ = hostile
    assert re.findall(r"\b(?:https?|wss?|ftp|data|blob):[^\s\"']*", source) == ["http://www.w3.org/2000/svg"]
    assert "@import" not in source and "url(" not in source


def test_the_script_writes_text_nodes_only(hostile: tuple[str, _Page]) -> None:
    script = next(body for kind, body in hostile[1].scripts if not kind)
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "fetch("):
        assert forbidden not in script


def test_every_text_comes_through_unchanged(hostile: tuple[str, _Page]) -> None:
    _, page = hostile
    detail = page.block("e0")
    bad = "\n".join(fake_runs.HOSTILE)
    assert "".join(part[0] for part in detail["answer"]) == bad
    assert ["".join(part[0] for part in passage["text"]) for passage in detail["passages"]] == list(fake_runs.HOSTILE)
    index = page.block("index")
    assert dict(zip(index["columns"], index["rows"][0], strict=True))["task"] == fake_runs.HOSTILE[0]
    step = detail["steps"][2]
    made = step["made"]
    assert step["reasoning"].startswith(bad)
    assert json.loads(made["received"]) == {"content": "raw " + bad, fake_runs.HOSTILE[0]: bad}
    assert made["notes"] == {fake_runs.HOSTILE[0]: bad, "note": [bad]}
    assert (made["finish"], made["model"], made["retries"]) == (
        *[fake_runs.HOSTILE[0]] * 2,
        [[fake_runs.HOSTILE[0], 1]],
    )
    assert page.block("e2")["error"] == [fake_runs.HOSTILE[0], bad]


def test_hostile_causes_models_and_currencies_are_text_on_the_overview(hostile: tuple[str, _Page]) -> None:
    output = "".join(hostile[1].text)
    assert "1 infrastructure error left out of all scores: 1 </script><img src=x onerror=" in output
    assert "tokens of '</script><img" in output
    links = [value for _, name, value in hostile[1].attributes if name == "href" and value.startswith("#cause=")]
    assert [parse_qs(link[1:])["cause"] for link in links] == [[fake_runs.HOSTILE[0]]]


def test_shared_instructions_are_written_once(hostile: tuple[str, _Page]) -> None:
    _, page = hostile
    shared = page.block("shared")
    assert page.block("e1")["steps"][0]["text"] == shared.index(fake_runs.SYSTEM)


@given(st.text(st.characters(blacklist_categories=()), max_size=60))
def test_any_text_survives_a_data_block(foreign: str) -> None:
    block = data_block("x", {"a": foreign})
    page = _Page(block)
    assert block.isascii() and page.open == [] and len(page.scripts) == 1
    assert page.block("x") == {"a": foreign}


@given(st.text(st.characters(blacklist_categories=()), max_size=60))
def test_any_text_survives_as_html_text(foreign: str) -> None:
    page = _Page(templates().from_string('<p title="{{ text }}">{{ text }}</p>').render(text=foreign))
    assert page.tags == ["p"]
    assert "".join(page.text).replace("\r", "\n") == visible(foreign).replace("\r", "\n")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(task_view=JSON, arguments=JSON, content=JSON, metrics=JSON, spans=JSON, passage=JSON, claim=JSON)
def test_any_json_in_a_record_is_shown_not_refused(
    task_view: Any, arguments: Any, content: Any, metrics: Any, spans: Any, passage: Any, claim: Any
) -> None:
    view = {
        "question": content,
        "answer": content,
        "passages": [passage, {"id": claim, "text": content}],
        "gold": {"claims": [claim]},
    }
    calls = [{"tool": "submit", "arguments": {"claims": [claim, arguments]}, "error": None}]
    for output in (task_view, view):
        episode = {
            **fake_runs.episode(1),
            "messages": [
                {"role": content, "content": content},
                {"role": "assistant", "content": content, "tool_calls": claim},
            ],
            "turns": [
                {"message": 1, "calls": calls, "error": None, "completion": claim, "seconds": passage, "sent": spans},
                {"message": 0, "completion": {"raw": claim, "usage": claim, "retries": spans, "notes": metrics}},
            ],
            "task_view": output,
            "usage": claim,
            "seconds": content,
            "sample": content,
            "error": passage,
            "reward": {
                "total": 1.0,
                "status": "scored",
                "metrics": metrics if isinstance(metrics, dict) else {},
                "spans": spans,
            },
        }
        json.dumps([row_of(episode), detail_of(episode)])


def test_the_state_of_a_row() -> None:
    def state(**more: Any) -> Any:
        return dict(zip(COLUMNS, row_of({**fake_runs.episode(1), **more}), strict=True))["state"]

    def verdict(gold: str | None, label: str | None) -> Any:
        return fake_runs.report(0.5, metrics={"gold_verdict": gold, "verdict": label})

    assert state(reward=verdict("supported", "supported")) == "right"
    assert state(reward=verdict("supported", "overclaim")) == "wrong"
    assert state(reward=verdict("supported", None)) == "silent"
    assert state(reward=verdict(None, None)) == "played"
    assert state(error={"cause": "timeout", "message": "gone"}) == "error"
    assert state(stop="context_limit", reward=verdict("supported", None)) == "silent"
    assert state(reward=None) == "unscored"


def _row(episode: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(COLUMNS, row_of(episode), strict=True))


def test_a_row_has_its_usage_and_its_cause_of_failure() -> None:
    episode = fake_runs.episode(1, sample=3)
    usage = episode["usage"]
    row = _row(episode)
    assert row["tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert (row["sample"], row["seconds"], row["cause"]) == (3, episode["seconds"], "")
    fault = _row({**episode, "error": {"cause": "timeout", "message": "gone"}, "stop": "error"})
    assert (fault["cause"], fault["reward"], fault["state"]) == ("timeout", None, "error")
    scripted = _row({**episode, "usage": None, "seconds": 0.0})
    assert (scripted["tokens"], scripted["seconds"]) == (None, None)


CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("raw", "message", "received"),
    [
        ("same", {"content": "same"}, ""),
        ("<think>a</think>b", {"content": "b", "reasoning_content": "a"}, "<think>a</think>b"),
        (None, {"content": "x"}, ""),
        ({"role": "assistant", "content": "x", "refusal": None}, {"content": "x"}, ""),
        ({"content": None, "tool_calls": [CALL]}, {"content": "", "tool_calls": [CALL]}, ""),
        ({"content": "y", "tool_calls": []}, {"content": "x"}, '{"content": "y", "tool_calls": []}'),
    ],
)
def test_the_reply_as_it_came_is_shown_where_it_differs(raw: Any, message: dict[str, Any], received: str) -> None:
    assert made_of(message, {"completion": {"raw": raw}}).get("received", "") == received


def test_how_a_reply_came_about_leaves_out_missing_values() -> None:
    completion = {
        "model": "m",
        "finish_reason": "length",
        "usage": {"prompt_tokens": 0, "completion_tokens": 7},
        "retries": [{"cause": "timeout", "waited": 2}],
        "notes": {"votes": 3},
    }
    turn = {"completion": completion, "seconds": {"model": 1.5, "tool": 0.0}, "sent": [0, 1, 4]}
    assert made_of({}, turn) == {
        "model": "m",
        "finish": "length",
        "tokens": {"prompt_tokens": 0.0, "completion_tokens": 7.0},
        "retries": [["timeout", 2.0]],
        "notes": {"votes": 3},
        "seconds": {"model": 1.5, "tool": 0.0},
        "sent": 3,
    }
    assert made_of({"content": "x"}, {"completion": None, "sent": None}) == {}


def test_the_overview_has_the_usage_and_the_groups(tmp_path: Path) -> None:
    prices = PriceTable("USD", {"Qwen/Qwen3-8B": Price(0.1, 0.4)})
    run = fake_runs.write_run(tmp_path, [episode for i in range(20) for episode in fake_runs.group(i, 4)])
    output = " ".join(" ".join(_Page(write_page(run, prices=prices).read_text()).text).split())
    for words in ("Effort", "of these reasoning", "cost per verdict", "USD 0.0", "Groups: 20 tasks with", "tries"):
        assert words in output
    for item in (episodes := [fake_runs.episode(i) for i in range(5)]):
        for turn in item["turns"]:
            del turn["completion"]["model"]
    facts = {**fake_runs.manifest(5), "agent_details": {"model": "Qwen/Qwen3-8B"}}
    unnamed = _Page(write_page(fake_runs.write_run(tmp_path / "u", episodes, facts), prices=prices).read_text())
    assert "cost per verdict" in unnamed.text, "the manifest names the model where turns do not"
    alone = fake_runs.write_run(tmp_path / "alone", [{**fake_runs.episode(1), "usage": None, "turns": []}])
    bare = " ".join(_Page(write_page(alone, prices=prices).read_text()).text)
    assert "Effort" not in bare and "Groups" not in bare


def _marks(parts: list[list[str]]) -> list[list[str]]:
    return [part for part in parts if part[1]]


def test_spans_facts_and_quotes_are_marked() -> None:
    view = fake_runs.task_view(fake_runs.CASES[0], "contradicted")
    submission = fake_runs.submission(view, "contradicted", good_quotes=True, mark=True, cited=["E2"])
    submission["claims"][1]["quote"] = "The policy says so."
    episode = {
        **fake_runs.episode(3),
        "task_view": view,
        "turns": [
            {"message": 2, "calls": [{"tool": "submit", "arguments": submission, "error": None}], "error": None},
            {"message": 4, "calls": [{"tool": "submit", "arguments": {"claims": []}, "error": "invalid_arguments"}]},
        ],
    }
    detail = detail_of(episode)
    assert _marks(detail["answer"]) == [["within 10 business days", "mu"]]
    passages = {passage["id"]: _marks(passage["text"]) for passage in detail["passages"]}
    assert passages["E2"] == [[fake_runs.CASES[0].facts[0][1], "gq"]]
    assert passages["E3"] == [[fake_runs.CASES[0].facts[1][1], "g"]]
    assert [claim["quotes"] for claim in detail["submitted"]] == [
        [[fake_runs.CASES[0].facts[0][1], True]],
        [["The policy says so.", False]],
    ]


def test_a_quote_is_marked_where_the_default_reward_counts_it() -> None:
    text = "Each ‘remote day’ needs the manager’s approval – in writing."
    start, end = quote_span("the manager's approval - in writing", text) or (0, 0)
    assert text[start:end] == "the manager’s approval – in writing"
    assert quote_span("the manager approval", text) is None and quote_span(" ", text) is None


@given(
    st.text(max_size=30),
    st.lists(st.tuples(st.integers(-3, 33), st.integers(-3, 33), st.sampled_from("gqum")), max_size=6),
)
def test_pieces_agree_with_marking_every_character(words: str, marks: list[tuple[int, int, str]]) -> None:
    parts = marked_pieces(words, marks)
    assert "".join(part[0] for part in parts) == words
    by_character = [mark for part, mark in parts for _ in part]
    for at, result in enumerate(by_character):
        assert set(result) == {mark for start, end, mark in marks if max(0, start) <= at < end}


@pytest.mark.parametrize(
    ("content", "reasoning", "prose"),
    [
        ("<think>why</think>Well.<tool_call>{}</tool_call>", "why", "Well."),
        ("why</think>Well.", "why", "Well."),
        ("<think>never closed", "never closed", ""),
        ('{"final_verdict": "supported"}', "", ""),
        ("<tool_call>{}", "", ""),
        ("a<think>b</think>c<think>d</think>e", "b\n\nd", "ace"),
    ],
)
def test_a_message_is_taken_apart(content: str, reasoning: str, prose: str) -> None:
    episode = {
        "messages": [{"role": "assistant", "content": content}],
        "turns": [{"message": 0, "calls": [{"tool": "x", "arguments": {}, "error": None}], "error": None}],
        "reward": {"spans": [[0, 0, 2, 0.25], [0, 2, 3, 0.5]]},
    }
    step = steps_of(episode)[0]
    assert (step["reasoning"], step["text"], step["turn"], step["credit"]) == (reasoning, prose, 1, 0.75)
    assert step["raw"] == content


def test_an_unreadable_message_is_shown_whole() -> None:
    content = "<tool_call>{broken</tool_call>"
    turn = {"message": 0, "calls": [], "error": "invalid_json"}
    step = steps_of({"messages": [{"role": "assistant", "content": content}], "turns": [turn]})[0]
    assert (step["text"], step["error"]) == (content, "invalid_json")


def test_a_truncated_run_has_a_note_on_the_page(tmp_path: Path) -> None:
    run = fake_runs.write_run(tmp_path, [fake_runs.episode(i) for i in range(3)])
    path = run / "episodes.jsonl"
    path.write_bytes(path.read_bytes()[:-50])
    assert "is left out" in write_page(run).read_text()


def test_an_empty_run_has_a_page(tmp_path: Path) -> None:
    page = _Page(write_page(fake_runs.write_run(tmp_path, [])).read_text())
    assert page.open == [] and page.block("index")["rows"] == []


def test_where_the_page_goes(tmp_path: Path) -> None:
    run = fake_runs.write_run(tmp_path / "run", [fake_runs.episode(1)])
    assert write_page(run) == run / "index.html"
    assert write_page(run, tmp_path) == tmp_path / "index.html"
    assert write_page(run, tmp_path / "a.html") == tmp_path / "a.html"
    with pytest.raises(DataError, match="cannot write"):
        write_page(run, tmp_path / "missing" / "a.html")
    with pytest.raises(DataError, match="cannot write"):
        write_page(run, tmp_path / "a.html" / "b.html")


def test_a_broken_line_leaves_the_old_page_alone(tmp_path: Path) -> None:
    run = fake_runs.write_run(tmp_path, [fake_runs.episode(i) for i in range(20)])
    before = write_page(run).read_bytes()
    path = run / "episodes.jsonl"
    path.write_text(path.read_text().replace("multihop/00016", '"', 1))
    with pytest.raises(DataError, match="line 17"):
        write_page(run)
    assert (run / "index.html").read_bytes() == before
    assert sorted(item.name for item in run.iterdir()) == ["episodes.jsonl", "index.html", "manifest.json"]


def test_the_page_of_a_run_is_always_the_same(tmp_path: Path) -> None:
    run = fake_runs.write_run(tmp_path, [fake_runs.episode(i) for i in range(4)])
    assert write_page(run, tmp_path / "a.html").read_bytes() == write_page(run, tmp_path / "b.html").read_bytes()


# EVE's episodes and data sets as the page's data: spans in their documents, whatever the records hold.

JSON_EVE = st.recursive(
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
        assert (listed["verdict"], listed["question"]) == (facts["answer"], facts["question"][:300])
        assert listed["state"] == ("played" if facts["valid"] else "invalid")
    assert elsewhere


def test_an_invented_span_is_called_so(proposals: list[dict[str, Any]]) -> None:
    episode = json.loads(json.dumps(proposals[0]))
    facts = episode["reward"]["metrics"]
    facts |= {"evidence": "Nobody wrote this.", "evidence_span": None, "valid": False}
    detail = detail_of(episode)
    assert detail["triple"]["evidence"] == [["evidence", "Nobody wrote this.", "", "in no document or search result"]]
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
    st.dictionaries(
        st.sampled_from(["evidence_span", "valid", "em", "evidence_f1", "evidence", "k", "n", "V"]), JSON_EVE
    ),
    JSON_EVE,
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
    (folder / "triples.jsonl").write_text("".join(json.dumps(triple_row(triple)) + "\n" for triple in triples), "utf-8")
    if documents:
        (folder / "documents.jsonl").write_text(json.dumps({"id": "d1", "title": "Vera", "text": text}) + "\n", "utf-8")
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


def test_a_row_without_its_passage_has_a_note(tmp_path: Path) -> None:
    rows = read_dataset(_data_set(tmp_path / "set", documents=False))
    assert any("1 span of 1 cannot be shown in place" in note for note in rows.notes)
    assert "cannot be shown in place" in write_page(tmp_path / "set").read_text("ascii")


def test_a_page_of_hostile_runs_is_whole_and_says_why_they_have_no_difference(tmp_path: Path) -> None:
    facts = {**fake_runs.manifest(3), "prompts": {"system": fake_runs.HOSTILE[0]}}
    episodes = [*map(fake_runs.hostile_episode, range(2)), fake_runs.hostile_fault()]
    runs = {
        "plain": read_run(fake_runs.write_run(tmp_path / "a", [fake_runs.episode(1)])),
        fake_runs.HOSTILE[0]: read_run(fake_runs.write_run(tmp_path / "b", episodes, facts)),
    }
    page = _Page(write_comparison(runs, tmp_path / "page.html").read_text("ascii"))
    assert page.open == [] and [kind.get("type") for kind, _ in page.scripts].count(None) == 1
    index = page.block("index")
    assert index["runs"] == list(runs)
    assert [row[-1] for row in index["rows"]] == [i for i, run in enumerate(runs.values()) for _ in run.episodes()]
    text = " ".join("".join(page.text).split())
    assert "has no paired difference." in text and "prompts.system is '9b1c77ad20fe' and" in text


def test_folders_are_named_as_shortly_as_tells_them_apart(tmp_path: Path) -> None:
    assert run_names([]) == []
    assert run_names([tmp_path / "x/a", tmp_path / "x/b"]) == ["a", "b"]
    assert run_names([tmp_path / "x/a", tmp_path / "y/a"]) == ["x/a", "y/a"]
    assert run_names([tmp_path / "a", tmp_path / "a"])[1].endswith("(2)")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_a_watched_page_is_read_from_this_machine_alone(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    page = tmp_path / "index.html"
    page.write_text("page")
    with PageServer(lambda: page, lambda: "1", 0, reloads=False, refusal=Shell().refusal) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
        connection.request("GET", "/version", headers=headers)
        assert connection.getresponse().status == status
        server.shutdown()
        thread.join()


def test_a_silent_client_of_a_watched_page_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live._Handler, "timeout", 0.05)
    with PageServer(lambda: tmp_path, lambda: "1", 0, False, Shell().refusal) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as client:
            assert client.recv(1) == b""
        server.shutdown()
        thread.join()


def test_a_watched_page_of_a_large_run_is_written_rarely(tmp_path: Path) -> None:
    """With a clock of the test: after a page that took 30 seconds the next comes 600 seconds later."""
    now, size, written = [0.0], [1], []

    def write() -> Path:
        now[0] += 30.0
        written.append(size[0])
        return tmp_path / "index.html"

    with PageServer(write, lambda: str(size[0]), 0, False, Shell().refusal, clock=lambda: now[0]) as server:
        size[0] = 2
        now[0] = 30.0 + 599.0
        server.refresh()
        assert (server.version, written) == ("1", [1])
        now[0] += 1.0
        assert server.version == "2"
        server.refresh()
        server.refresh()
        assert (server.version, written) == ("2", [1, 2])
