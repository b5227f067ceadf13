"""Passages that are elsewhere: a server's and a user's own index, whose hits bring their documents."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from retrieval_served import PASSAGES, Answer, ScriptedServer, serving, write_passages

import factgym
from factgym.core.errors import ConfigError
from factgym.corpora import retrieved
from factgym.corpora.build import build_corpus, read_passages
from factgym.corpora.corpus import UnknownPassageError
from factgym.corpora.index import FingerprintedIndex, HybridIndex, build_index
from factgym.corpora.retrieved import RetrievedCorpus, parse_document
from factgym.datasets.evidence_search import EvidenceSearch
from factgym.generators.fact_checks import GeneratedFactChecks, generated_store

SEARCH = {"tool": "search", "arguments": {"query": "refunds days"}}


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_passages(tmp_path_factory.mktemp("corpus") / "passages.jsonl")


@pytest.fixture(scope="module")
def url(corpus_file: Path) -> Iterator[str]:
    pytest.importorskip("uvicorn", reason="needs factgym[serve]")
    with serving("retrieval", str(corpus_file), "--port", "0") as address:
        yield address


def search_r1(path: str, body: Any) -> Answer:
    """What Search-R1's server answers: documents as its JSONL has them, and nothing at /health."""
    if path == "/health":
        return 404, b""
    hits = [{"document": {"id": id_, "contents": text}, "score": 1 / n} for n, (id_, text) in enumerate(PASSAGES, 1)]
    return 200, {"result": [hits[: body["topk"]] for _ in body["queries"]]}


class OwnIndex:
    """A user's index over passages of its own. Searches all, in order."""

    documents: Sequence[Any] = [{"document": {"id": "a", "title": "T", "text": "Refunds of days."}, "score": 2}]

    def search(self, queries: Sequence[str], k: int) -> list[Any]:
        return [list(self.documents) for _ in queries]


def test_a_server_needs_no_local_copy_and_gives_the_same_episode(url: str, corpus_file: Path) -> None:
    """The oracle is the same environment over the file that the server has."""
    local = factgym.make("eve-solver", corpus=str(corpus_file))
    remote = factgym.make("eve-solver", corpus=url, index=url)
    for env in (local, remote):
        env.reset(seed=0)
    assert remote.step(SEARCH)[0] == local.step(SEARCH)[0]
    corpus = RetrievedCorpus(url)
    assert corpus.fingerprint() == read_passages(corpus_file).fingerprint()
    assert len(corpus) == 3 and repr(corpus).endswith(f"({url!r})")
    hits = build_index(corpus, url).search(["refunds days"], 2)[0]
    assert [corpus.get(hit.id) for hit in hits] == [read_passages(corpus_file).get(hit.id) for hit in hits]
    with pytest.raises(UnknownPassageError, match="among those that were retrieved"):
        corpus.get("3")
    again = pickle.loads(pickle.dumps(corpus))
    assert again.source == url and again.find("1") is None


def test_a_server_without_health_is_searched_and_read(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"id": "q", "question": "When are refunds paid?", "answer": "30 days"}\n', "utf-8")
    with ScriptedServer(search_r1) as server:
        env = factgym.make("corver-qa-search", source="file", path=str(questions), corpus=server.url, index=server.url)
        env.reset(seed=0)
        text = env.step({"tool": "search", "arguments": {"query": "refunds"}})[0]
        assert "Refunds are paid within 30 days." in text and 'title="Refund policy"' in text
        prints = fingerprints(server.url)
    with ScriptedServer(search_r1) as other:
        assert fingerprints(other.url) == prints
        assert RetrievedCorpus(other.url).size is None


def fingerprints(url: str) -> tuple[str, str]:
    """Those of a server's corpus and index."""
    index = build_index(RetrievedCorpus(url), url)
    assert isinstance(index, FingerprintedIndex)
    return RetrievedCorpus(url).fingerprint(), index.fingerprint()


def test_an_index_of_ones_own_brings_its_passages() -> None:
    index = OwnIndex()
    corpus = RetrievedCorpus(index)
    env = factgym.make("eve-solver", corpus=corpus, index=index)
    env.reset(seed=0)
    assert "Refunds of days." in env.step(SEARCH)[0]
    assert build_index(corpus, index).search(["x"], 3) == [[("a", 2.0)]]
    for hit in (("a", 1.0), {"id": "a"}, {"document": {"id": "a", "contents": " "}}, None):
        index.documents = [hit]
        with pytest.raises(ConfigError, match=r"gave the hit .*expected \{\"document\""):
            build_index(corpus, index).search(["x"], 3)


def test_indexes_that_need_all_passages_are_refused_by_name() -> None:
    corpus = RetrievedCorpus("http://127.0.0.1:9/retrieve")
    assert corpus.source == "http://127.0.0.1:9"
    for request in (lambda: list(corpus), lambda: corpus.passages, lambda: corpus.ids):
        with pytest.raises(ConfigError, match=r"this needs all of them\. Give corpus=FILE or FOLDER"):
            request()
    with pytest.raises(ConfigError, match="not here to be indexed: give its server or object as index"):
        build_index(corpus, "bm25")
    with pytest.raises(ConfigError, match="cannot be retrieved"):
        RetrievedCorpus(3)


DOCUMENTS = [
    *(
        None,
        [],
        {},
        {"id": "1"},
        {"id": True, "contents": "x"},
        {"id": "", "contents": "x"},
        {"id": "1", "contents": 3},
    ),
    *({"id": "x" * 201, "contents": "x"}, {"id": 10**400, "contents": "x"}, {"id": [1], "contents": "x"}),
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_that_is_none_is_refused(document: Any) -> None:
    assert parse_document(document) is None
    result = {"result": [[{"document": document, "score": 1.0}]]}
    with (
        ScriptedServer(lambda path, body: (404, b"") if path == "/health" else (200, result)) as server,
        pytest.raises(ConfigError, match="a hit without"),
    ):
        build_index(RetrievedCorpus(server.url), server.url).search(["x"], 1)


def test_few_passages_are_held_and_those_of_late_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieved, "MAX_PASSAGES", 3)
    corpus = RetrievedCorpus(OwnIndex())
    for number in range(3):
        corpus.add({"id": number, "contents": "text"})
    assert corpus.get("0").text == "text"
    corpus.add({"id": "3", "contents": "text"})
    assert [corpus.find(str(number)) is None for number in range(4)] == [False, True, False, False]
    monkeypatch.setattr(retrieved, "MAX_CHARS", 20)
    corpus.add({"id": "4", "contents": "x" * 15})
    assert [id_ for id_ in "01234" if corpus.find(id_)] == ["4"]
    corpus.add({"id": "5", "contents": "x" * 500})
    assert corpus.find("4") is None and corpus.get("5").text == "x" * 500


def test_the_fingerprint_of_a_search_in_evidence_has_no_address() -> None:
    store = generated_store(GeneratedFactChecks(size=4))
    prints = []
    for fingerprint in ("a" * 64, "a" * 64, "b" * 64):
        health = {"index": fingerprint}
        with ScriptedServer(lambda path, body, health=health: (200, health)) as server:
            prints.append(EvidenceSearch(store, index=server.url, timeout=len(prints) + 1.0).fingerprint())
    assert prints[0] == prints[1] != prints[2]


def test_other_parameters_than_those_on_disk_are_told(
    corpus_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = build_corpus(corpus_file, tmp_path / "built")
    with caplog.at_level(logging.WARNING):
        build_index(corpus)
        assert not caplog.records
        build_index(corpus, k1=0.9)
    assert f"factgym corpus build {corpus.path} NEW_FOLDER --k1 0.9 --b 0.75" in caplog.text
    ties = HybridIndex(corpus, [build_index(corpus)])
    assert [[hit.id for hit in row] for row in ties.search(["refunds", "none"], 2)] == [["1", "2"], []]
    assert [corpus.position(id_) for id_ in ("1", "3", "x")] == [0, 2, -1]
