"""The search tool of the EVE environments: its arguments, the budget of tokens, and marks where something is cut."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from eve_examples import CORPUS, PASSAGES, WRITTEN, blocks, call, report, searched, started
from hypothesis import given
from hypothesis import strategies as st

from factgym.corpora.corpus import Passage
from factgym.envs.eve.tasks import open_corpus, open_library
from factgym.envs.eve.tools import (
    MIN_RESPONSE_TOKENS,
    EveState,
    first_tokens,
    fit_results,
    normalise_arguments,
    render_results,
    search,
)
from factgym.rewards.eve.proposal import count_tokens

WORDS = ["alpha", "beta", "gamma", "delta"]
IDS = re.compile(r'<result id="([^"]*)"')


def long_passage(name: str, words: int) -> Passage:
    return Passage(name, f"About {name}", " ".join(WORDS[i % 4] for i in range(words)) + ".")


@pytest.mark.parametrize("query", ["Velmora", ["Velmora"], '["Velmora"]', ' ["Velmora"] '])
def test_a_query_comes_as_a_list_alone_or_as_json(query: Any) -> None:
    content = searched(query=query).episode.messages[-1]["content"]
    assert IDS.findall(content)[0] == "velmora" and "Query 1" not in content


@pytest.mark.parametrize("name", ["query", "queries", "q"])
def test_other_names_of_the_argument_are_understood(name: str) -> None:
    env = started()
    obs, *_, info = env.step(call("search", **{name: "Velmora"}))
    assert info["error"] is None and 'id="velmora"' in obs
    tagged = started().step("<search>Velmora</search>")[0]
    assert tagged == obs
    assert started().step('<search>["Velmora"]</search>')[0] == obs
    assert started().step({"tool": "search", "arguments": {"query_list": ["Velmora"]}})[0] == obs
    assert started().step('{"query_list": "Velmora"}')[0] == obs


@pytest.mark.parametrize("query", [[], [""], ["x"] * 9, 5, None, "", [["x"]], ["x" * 1001], "x" * 1001, {"a": 1}])
def test_an_argument_that_is_no_query_is_refused_with_a_reason(query: Any) -> None:
    obs, _, terminated, _, info = started().step(call("search", query_list=query))
    assert not terminated and info["error"] == "invalid_arguments" and "query_list" in obs


def test_json_that_is_no_list_of_texts_is_a_query_by_itself() -> None:
    for text in ('["a", 5]', "[not json", "[]", '[["a"]]', "[" * 5000):
        assert normalise_arguments({"query_list": text})["query_list"] == text
    assert normalise_arguments({"query_list": '["a", "b"]'}) == {"query_list": ["a", "b"]}
    assert normalise_arguments({"query": "a", "query_list": "b"}) == {"query": "a", "query_list": "b"}


def test_several_queries_are_answered_in_their_order() -> None:
    env = searched(query=["river Tarn", "clockmaker"], top_k=1)
    content = env.episode.messages[-1]["content"]
    assert content.index("Query 1: river Tarn") < content.index('id="velmora"') < content.index("Query 2: clockmaker")
    assert IDS.findall(content) == ["velmora", "dolvin"]
    nothing = searched(query=["zzz", "river"]).episode.messages[-1]["content"]
    assert "Query 1: zzz\nNo passage matches. Try other words.\nQuery 2: river\n<result" in nothing


def test_three_passages_a_query_by_default() -> None:
    assert len(IDS.findall(searched(query="Orvessa Dolvin Velmora notes").episode.messages[-1]["content"])) == 3
    assert (
        len(IDS.findall(searched(query="Orvessa Dolvin Velmora notes", top_k=4).episode.messages[-1]["content"])) == 4
    )


def test_a_token_is_a_run_of_word_characters_or_another_mark() -> None:
    assert count_tokens("Don't pay 1,000 euros!") == 9
    assert first_tokens("Don't pay 1,000 euros!", 4) == "Don't pay"
    assert first_tokens("a b  ", 2) == "a b  "
    assert first_tokens("a b", 0) == ""


@given(st.text(max_size=60), st.integers(0, 40))
def test_the_first_tokens_are_a_beginning_with_as_many(text: str, limit: int) -> None:
    beginning = first_tokens(text, limit)
    assert text.startswith(beginning)
    assert count_tokens(beginning) == min(limit, count_tokens(text))


@given(
    st.lists(st.tuples(st.text(max_size=80), st.lists(st.integers(0, 400), max_size=5)), min_size=1, max_size=8),
    st.integers(MIN_RESPONSE_TOKENS, 700),
)
def test_a_response_keeps_its_budget_whatever_is_asked(requests: list[tuple[str, list[int]]], limit: int) -> None:
    results = [(query, [long_passage(f"p{i}", n) for i, n in enumerate(sizes)]) for query, sizes in requests]
    content = render_results(fit_results(results, limit), "").replace(" >", ">")  # the codes are not counted
    frame = sum(count_tokens(f"Query {i}: ") + 26 for i in range(1, len(requests) + 1)) if len(requests) > 1 else 0
    assert count_tokens(content) <= max(limit, frame + 9 * len(requests))


def test_of_a_response_that_is_too_long_the_last_passage_is_cut_and_the_cut_is_marked() -> None:
    passages = [long_passage(name, 200) for name in ("one", "two", "three")]
    (result,) = fit_results([("alpha", passages)], 512)
    content = render_results([result], "").replace(" >", ">")
    assert [snippet.document for snippet in result.snippets] == ["one", "two", "three"]
    assert count_tokens(content) <= 512 < count_tokens(render_results(fit_results([("alpha", passages)], 10_000)))
    assert content.count("[cut: ") == 1
    cut = result.snippets[2]
    assert passages[2].text.startswith(cut.text)
    assert count_tokens(cut.text) + cut.cut == count_tokens(passages[2].text)
    (few,) = fit_results([("alpha", passages)], 300)
    assert few.omitted == 1 and render_results([few]).endswith("[cut: 1 more results]")


def test_unused_tokens_of_a_query_go_to_the_others() -> None:
    short, long = long_passage("short", 5), long_passage("long", 600)
    alone = fit_results([("q", [long])], 512)[0].snippets[0]
    beside = fit_results([("q", [short]), ("q", [long])], 512)[1].snippets[0]
    shared = fit_results([("q", [long]), ("q", [long])], 512)[1].snippets[0]
    assert count_tokens(alone.text) > count_tokens(beside.text) > 400 > 260 > count_tokens(shared.text)


def test_evidence_in_the_part_that_was_cut_was_not_seen() -> None:
    env = searched(query="Orvessa written novel", top_k=1, max_passage_tokens=64)
    assert report(env, blocks("Dolvin", WRITTEN)).metrics["evidence_verbatim"] is True
    far = Passage("far", "Far", " ".join(["alpha beta"] * 60) + " The novel is by Dolvin.")
    env = searched(query="alpha novel", corpus=open_corpus(CORPUS.__class__([far])), max_passage_tokens=64)
    assert "more tokens]" in env.episode.messages[-1]["content"]
    assert report(env, blocks("Dolvin", "The novel is by Dolvin.")).metrics["evidence_verbatim"] is False


def test_the_echo_of_a_query_is_no_evidence() -> None:
    stated = "Crimson Orvessa was surely written by Selma Brandt."
    env = searched(query=[stated, "Velmora"])
    assert stated in env.episode.messages[-1]["content"]
    assert report(env, blocks("Selma Brandt", stated)).metrics["evidence_verbatim"] is False


def test_of_a_document_that_was_shown_twice_the_longest_part_is_in_sight() -> None:
    state = EveState(started().tasks, 1, 64)
    search.function(state, query_list="Velmora river Tarn")
    state.turn, state.max_tokens = 1, 512
    search.function(state, query_list=["Velmora river Tarn"])
    assert state.texts_in_view(0) == []
    assert state.texts_in_view(5) == [("velmora", PASSAGES[2].text)]


def test_equal_corpora_and_indexes_share_a_library() -> None:
    twin = CORPUS.__class__(PASSAGES)
    assert open_library(CORPUS) is open_library(twin) is not open_library(CORPUS, "bm25", {"k1": 0.9})
    index = type("Own", (), {"search": lambda self, queries, k: [[("novel", 1.0)] for _ in queries]})()
    assert open_library(CORPUS, index) is open_library(CORPUS, index) is not open_library(CORPUS)
    env = started(index=index)
    assert IDS.findall(env.step("<search>anything</search>")[0]) == ["novel"]


def test_a_dense_index_can_be_chosen() -> None:
    pytest.importorskip("faiss", reason="needs the extra 'dense'")

    class Letters:
        """Counts letters: a stand-in for an encoder."""

        def encode(self, texts: Any, **_: Any) -> Any:
            import numpy as np

            rows = [[text.lower().count(chr(97 + i)) + 1e-3 for i in range(26)] for text in texts]
            return np.array(rows, dtype="float32")

    env = started(index="dense", index_options={"encoder": Letters()})
    assert env.slow_steps
    assert IDS.findall(env.step(call("search", query_list=PASSAGES[2].text))[0])[0] == "velmora"


def test_the_schema_offers_a_list_and_a_text() -> None:
    (schema,) = (tool for tool in started().available_tools() if tool["function"]["name"] == "search")
    arms = schema["function"]["parameters"]["properties"]["query_list"]["anyOf"]
    assert [arm["type"] for arm in arms] == ["array", "string"]
    json.dumps(schema)
