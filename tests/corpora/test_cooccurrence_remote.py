"""Counts over HTTP: the server beside the index that it serves, the client against scripted servers, and the reward without counts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrieval_served import TOKEN, Answer, ScriptedServer, check_token, request, serving, start, stop

import factgym
from factgym.core.errors import ConfigError
from factgym.corpora import http_client
from factgym.corpora.cooccurrence import build_index, memory_index, open_counter, open_index
from factgym.corpora.cooccurrence.remote import NO_COUNT, REFUSED, RemoteCounter
from factgym.corpora.cooccurrence.sources import Source
from factgym.corpora.http_client import ServerUnavailableError
from factgym.rewards.corver.extraction import RuleExtractor
from factgym.rewards.corver.rubrics import CorverRules, find_rubric
from factgym.rewards.corver.score import UNCHECKED, UNCOUNTED, reward_report, score_completion

TEXTS = [
    "Messi was born in Rosario. Messi left Rosario.",
    "Rosario lies far from Barcelona.",
    "The men's final ended 4-2.",
]
QUERIES = [["Messi", "Rosario"], ["Rosario", "Barcelona"], ["Rosario"], ["Paris", "Messi"], ["men's final", "4-2"]]


@pytest.fixture(scope="module")
def index_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counts")
    (folder / "c.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), "utf-8")
    return build_index(Source(folder / "c.jsonl"), folder / "c.cooc", workers=1).path


@pytest.fixture(scope="module")
def url(index_file: Path) -> Iterator[str]:
    pytest.importorskip("uvicorn", reason="needs factgym[serve]")
    words = ("counts", str(index_file), "--semantics", "window", "--window", "5", "--name", "c", "--port", "0")
    with serving(*words, "--max-query-chars", "100") as address:
        yield address


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(http_client, "MAX_PAUSE", 0.05)


def test_counts_and_fingerprint_are_those_of_the_index(url: str, index_file: Path) -> None:
    local = open_index(index_file, semantics="window", window=5)
    counter = open_counter(url, index="c")
    assert isinstance(counter, RemoteCounter)
    expected = local.count_many(QUERIES)
    assert counter.count_many([*QUERIES, QUERIES[0]]).tolist() == [*expected.tolist(), expected[0]]
    assert expected[0] > 0 and expected[4] > 0
    assert counter.fingerprint() == local.fingerprint()
    assert counter.describe()["window"] == 5
    assert pickle.loads(pickle.dumps(counter)).count_many(QUERIES[:1]).tolist() == expected[:1].tolist()
    with pytest.raises(ConfigError, match="at least one word"):
        counter.count_many([["Messi"], []])


@pytest.mark.parametrize(
    ("body", "status", "answer"),
    [
        ({"index": "c", "query_type": "count", "query": "Messi AND Rosario"}, 200, 2),
        ({"index": "c", "query_type": "count", "query": "Messi  OR Paris AND Rosario OR 4-2"}, 200, 2),
        ({"query_type": "count", "query": "men's final", "max_diff_tokens": 5}, 200, 1),
        ({"index": "d", "query_type": "count", "query": "Messi"}, 400, "this server has 'c'"),
        ({"index": "c", "query_type": "ntd", "query": "Messi"}, 400, "query_type"),
        ({"index": "c", "query_type": "count", "query": "Messi AND "}, 400, "no term of it is empty"),
        ({"index": "c", "query_type": "count", "query": ""}, 400, "no term of it is empty"),
        ({"index": "c", "query_type": "count", "query": "a AND " * 20 + "a"}, 400, "more than 100 characters"),
        ({"index": "c", "query_type": "count", "query": "a", "max_diff_tokens": 9}, 400, "max_diff_tokens is 5"),
        ({"index": "c", "query_type": "count", "query": 7}, 400, "The body must be"),
        ([], 400, "The body must be"),
    ],
)
def test_the_server_speaks_infini_grams_api(url: str, body: Any, status: int, answer: Any) -> None:
    actual, values = request(url + "/", body)
    assert actual == status
    if status == 200:
        assert (values["count"], values["approx"]) == (answer, False) and values["latency"] >= 0
    else:
        assert set(values) == {"error"} and answer in values["error"]


def test_the_server_describes_itself(url: str) -> None:
    assert request(f"{url}/health")[1]["index"] == "c"
    assert "factgym_count_queries_total" in request(f"{url}/metrics")[1]
    assert request(f"{url}/", raw=b"x" * 70_000)[0] == 413


def test_a_server_that_dies_costs_counts_and_no_error(index_file: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs factgym[serve]")
    process, url = start("counts", str(index_file), "--port", "0")
    try:
        counter = open_counter(url, index="c", retry_seconds=0.05)
        assert counter.count_many(QUERIES[:1]).tolist() == [2]
        stop(process)
        assert counter.count_many(QUERIES[:3]).tolist() == [2, NO_COUNT, NO_COUNT]
        process, _ = start("counts", str(index_file), "--port", url.rpartition(":")[2])
        assert counter.count_many(QUERIES[:3]).tolist() == open_index(index_file).count_many(QUERIES[:3]).tolist()
    finally:
        stop(process)


def test_each_query_is_requested_once_and_faults_again() -> None:
    queries: list[str] = []
    faults: list[Answer | None] = [(503, b""), None, (429, {"error": "slow down"})]

    def answer(path: str, body: Any) -> Answer | None:
        if path == "/health":
            return 404, b""
        if body["query"] != "the" and faults:
            return faults.pop()
        queries.append(body["query"])
        assert (body["index"], body["query_type"], body["max_diff_tokens"]) == ("v4", "count", 100)
        if body["query"].startswith("too AND"):
            return 200, {"error": "too many clauses"}
        return (
            (400, {"error": "no"}) if body["query"] == "bad" else (200, {"count": len(body["query"]), "approx": True})
        )

    with ScriptedServer(answer) as server:
        counter = open_counter(server.url, index="v4", max_diff_tokens=100, connections=1)
        batch = [["a", "b"], ["too", "many"], ["a", "b"], ["bad"], ["Rock AND Roll", "x"], [" a ", "b"]]
        for _ in range(2):
            assert counter.count_many(batch).tolist() == [7, REFUSED, 7, REFUSED, REFUSED, 7]
        assert queries == ["the", "a AND b", "too AND many", "bad"]
        assert counter.fingerprint() != open_counter(server.url, index="v4", max_diff_tokens=100, timeout=9).url


@pytest.mark.parametrize(
    "content", [b"<html>", {}, {"count": -1}, {"count": True}, {"count": "7"}, {"count": 10**30}, []]
)
def test_an_answer_that_is_no_count_is_refused(content: Any) -> None:
    def answer(path: str, body: Any) -> Answer:
        return 200, ({"count": 5} if body and body["query"] == "the" else content)

    with ScriptedServer(answer) as server:
        counter = open_counter(server.url, index="c")
        with pytest.raises(ConfigError, match=r"gave no count \(status 200\)"):
            counter.count_many([["Messi"]])


def test_faults_at_the_start_are_errors_that_say_what_to_do() -> None:
    with ScriptedServer(lambda path, body: (400, {"error": "no index x"})) as server:
        with pytest.raises(ConfigError, match=r"does not count in the index 'x'.*: no index x.*counter_options"):
            open_counter(server.url, index="x")
        address = server.url
    with pytest.raises(ServerUnavailableError, match=rf"{address} .*factgym serve counts INDEX"):
        open_counter(address, retry_seconds=0)
    with pytest.raises(ConfigError, match="no address of a server"):
        open_counter("http://")


class Partial:
    """Counts of an index, but no count where a word is in `lost`."""

    def __init__(self, lost: dict[str, int]) -> None:
        self.lost = lost
        self.index = memory_index(TEXTS * 25, semantics="window")

    def count_many(self, queries: Sequence[Sequence[str]]) -> Any:
        counts = self.index.count_many(queries)
        lost = [min((self.lost.get(word, 0) for word in query), default=0) for query in queries]
        return np.where(np.array(lost) < 0, lost, counts)


TEXT = "<think>Messi was born in Rosario. Pelé was born in Santos.</think><answer>Messi was born in Rosario.</answer>"


@pytest.mark.parametrize("rule", ["first", "min", "relcheck"])
def test_no_count_is_neutral_and_a_refused_query_is_unchecked(rule: Any) -> None:
    rules = CorverRules(rule=rule)

    def score(lost: dict[str, int]) -> Any:
        return score_completion(TEXT, ["Rosario"], Partial(lost), RuleExtractor(), rules)  # type: ignore[arg-type]

    counted, lost, refused = score({}), score({"Santos": NO_COUNT}), score({"Santos": REFUSED})
    assert [(item.reward, item.strict_reward) for item in counted.sentences][1] == (rules.none_reward,) * 2
    assert lost.counts == refused.counts == (counted.counts[0], None, counted.counts[2])
    first = counted.sentences[0].strict_reward
    assert first > 0
    assert (lost.sentences[1].reward, lost.sentences[1].note) == (0.0, UNCOUNTED)
    assert lost.sentences[1].strict_reward == pytest.approx(first)  # as if it were not there
    assert (refused.sentences[1].reward, refused.sentences[1].note) == (0.0, UNCHECKED)
    assert refused.sentences[1].strict_reward == rules.unchecked_reward
    for rubric in ("reference", "strict"):
        report = reward_report(lost, find_rubric(rubric))
        assert report.metrics["counts"][1] is None and report.metrics["counted"]
    nothing = score({"Messi": NO_COUNT, "Santos": NO_COUNT})
    assert all(item.reward == 0 == item.strict_reward for item in nothing.sentences)


def test_an_environment_counts_by_the_server(url: str, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps({"question": "Where was Messi born?", "answer": "Rosario"}), "utf-8")
    env = factgym.make("corver-qa", source="file", path=str(file), counter=url, counter_options={"index": "c"})
    env.reset(seed=0)
    report = env.step(TEXT)[4]["reward"]
    assert (report.status, report.metrics["counts"][:2]) == ("scored", [2, 0])


def test_a_token_guards_the_counts(index_file: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs factgym[serve]")
    with serving("counts", str(index_file), "--name", "c", "--port", "0", "--token", TOKEN) as url:
        check_token(url, {"index": "c", "query_type": "count", "query": "Messi"})
