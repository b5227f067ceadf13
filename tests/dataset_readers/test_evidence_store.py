"""The two stores of evidence: the published layout on disk, and the gold haystack of the real claims."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.corpus import Passage
from factgym.corpora.web_pages import host_of, original_url, windows
from factgym.datasets.averitec import FactCheck, GoldAnswer, GoldQuestion, read_fact_checks
from factgym.datasets.evidence import (
    GOLD_HAYSTACK,
    Evidence,
    FolderStore,
    GoldStore,
    KnowledgeStore,
    open_store,
    split_sentences,
    url_date,
)
from factgym.datasets.evidence_search import EvidenceSearch

BEFORE = dt.date(2020, 8, 25)


def page(url: str, *sentences: Any, **more: Any) -> dict[str, Any]:
    return {"claim_id": "0", "type": "claim", "query": "bridge", "url": url, "url2text": list(sentences)} | more


def hero_store(data_dir: Path, folder: Path, claims: int) -> Path:
    """HerO's retrieved sentences of dev, which are lines of the real knowledge store, put back into its layout."""
    lines = (data_dir / "averitec" / "HerO_dev_reranking_top_k.json").read_text(encoding="utf-8")
    rows = json.loads(lines) if lines.startswith("[") else [json.loads(line) for line in lines.splitlines()]
    (folder / "dev").mkdir(parents=True)
    for row in rows[:claims]:
        pages = [page(hit["url"], hit["sentence"]) | {"claim_id": str(row["claim_id"])} for hit in row["top_10"]]
        (folder / "dev" / f"{row['claim_id']}.json").write_text(
            "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in pages), encoding="utf-8"
        )
    return folder


def small_store(folder: Path, **claims: list[Any]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in claims.items():
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (folder / f"{name.removeprefix('c')}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_every_answer_with_evidence_is_in_the_haystack_and_nothing_else(data_dir: Path) -> None:
    checks = read_fact_checks(data_dir, "dev")
    store = open_store(checks)
    expected = {
        (answer.source_url, " ".join((answer.explanation or answer.text).split()))
        for check in checks
        for question in check.questions
        for answer in question.answers
        if answer.type != "Unanswerable"
    }
    joined: dict[str, str] = {}
    for evidence in store.passages():
        joined[evidence.url] = joined.get(evidence.url, "") + "\n" + evidence.text
    for url, text in expected:
        assert len(text) > 800 or text in joined[url]
    all_evidence = "\n".join(text for _, text in expected)
    assert all(evidence.text in all_evidence and 0 < len(evidence.text) <= 800 for evidence in store.passages())
    assert store.for_claim(3) is store.for_claim("x") is store.for_claim(checks[9])
    assert dict(store.for_claim(0).counts) == {
        "claims": 500, "answers": 1399, "without_evidence": 39, "repeated": 23, "dated": 230,
    }  # fmt: skip


def test_neither_ids_nor_order_of_the_haystack_reveal_whose_evidence_it_is(data_dir: Path) -> None:
    checks = read_fact_checks(data_dir, "dev")
    all_passages = list(open_store(checks).passages())
    assert [evidence.id for evidence in all_passages] == sorted({evidence.id for evidence in all_passages})
    assert all(set(evidence.id) <= set("0123456789abcdef") and len(evidence.id) == 16 for evidence in all_passages)
    backwards = list(GoldStore(tuple(reversed(checks))).passages())
    assert [(passage.id, passage.text) for passage in backwards] == [
        (evidence.id, evidence.text) for evidence in all_passages
    ]


def test_reports_name_the_haystack(data_dir: Path) -> None:
    store = open_store(read_fact_checks(data_dir, "dev"))
    assert isinstance(store, GoldStore) and store.kind == GOLD_HAYSTACK and isinstance(store, KnowledgeStore)
    report = EvidenceSearch(store).describe()
    assert report["store"]["kind"] == "gold haystack" and report["scope"] == "global"
    assert "annotated answers of all 500 claims" in report["store"]["note"] and "not comparable" in store.note
    json.dumps(report)


def test_unanswerable_and_bare_boolean_answers_are_no_evidence() -> None:
    answers = (GoldAnswer("No answer could be found.", "Unanswerable"), GoldAnswer("Yes", "Boolean"))
    check = FactCheck("a-0", 0, "c", "Refuted", questions=(GoldQuestion("q", answers),))
    with pytest.raises(DataError, match="no gold evidence"):
        GoldStore([check])
    more = FactCheck("a-1", 1, "c", "Refuted", questions=(GoldQuestion("q", (GoldAnswer("It was."),)),))
    assert [evidence.text for evidence in GoldStore([check, more]).passages()] == ["It was."]


def test_the_published_layout_is_read_claim_by_claim(data_dir: Path, tmp_path: Path) -> None:
    store = FolderStore(hero_store(data_dir, tmp_path, claims=40), "dev")
    assert (len(store.claims), store.claims[:3], store.kind) == (40, ("0", "1", "2"), "knowledge store")
    check = read_fact_checks(data_dir, "dev")[0]
    corpus = store.for_claim(check)
    assert corpus is store.for_claim(0) is store.for_claim("0")
    assert corpus.counts["pages"] == 10 and corpus.counts["broken_lines"] == 0
    assert any("never actually sent a typewritten letter" in evidence.text for evidence in corpus)
    snopes = [evidence for evidence in corpus if evidence.url.startswith("https://www.snopes.com/")]
    assert snopes and {evidence.title for evidence in snopes} == {"snopes.com"}
    hits = EvidenceSearch(store).search(check, ["Did Sean Connery write a letter to Steve Jobs?", "zebra"], 3)
    assert [len(row) for row in hits] == [3, 0] and hits[0][0].score >= hits[0][2].score
    assert {hit.evidence.id for hit in hits[0]} <= set(corpus.ids)


def test_hostile_lines_are_passed_over_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factgym.datasets.evidence.MAX_LINE_BYTES", 2_000)
    rows = [
        "",
        "{oops",
        "[1]",
        '{"url": "https://a.org"}',
        '{"url": "https://a.org", "url2text": null}',
        "[" * 1_500,
        page("https://long.org", "x" * 9_000),
        page("https://b.org", "First  fact.", None, 7, "Second \ud800 fact."),
        page(None, "A page without an address.", " "),  # type: ignore[arg-type]
        page("https://c.org"),
        page("https://d.org", "FIRST fact."),
        {"url": "https://e.org", "url2text": "One text and no list."},
        '{"url": "https://cut.org", "url2text": ["broken off',
    ]
    corpus = FolderStore(small_store(tmp_path / "s", c7=rows)).for_claim(7)
    assert [(evidence.title, evidence.text) for evidence in corpus] == [
        ("b.org", "First fact. Second \ufffd fact."),
        ("", "A page without an address."),
        ("e.org", "One text and no list."),
    ]
    assert dict(corpus.counts) == {
        "pages": 5, "empty_pages": 2, "broken_lines": 6, "long_lines": 1, "bad_sentences": 2, "repeated": 1,
        "dropped": 0, "dated": 0,
    }  # fmt: skip


def test_a_claim_without_a_usable_file_is_an_error(tmp_path: Path) -> None:
    folder = small_store(tmp_path / "s", c0=[page("https://a.org", "x.")], c1=["{oops"], c12=[""])
    store = FolderStore(folder)
    assert store.claims == ("0", "1", "12")
    with pytest.raises(DataError, match=r"no file 3\.json for claim '3'; there are 3 files, 0 to 12"):
        store.for_claim(3)
    for bad in (1, 12):
        with pytest.raises(DataError, match=rf"{bad}\.json: no line is a page"):
            store.for_claim(bad)
    with pytest.raises(ConfigError, match="not bool"):
        store.for_claim(True)
    (folder / "0.jsonl").write_text("{}")
    with pytest.raises(DataError, match=r"are both of claim '0'"):
        FolderStore(folder)


def test_the_folder_of_the_split_is_found_in_its_usual_places(tmp_path: Path) -> None:
    rows = [page("https://a.org", "x.")]
    small_store(tmp_path / "a", c0=rows)
    (tmp_path / "knowledge_store").mkdir()
    small_store(tmp_path / "knowledge_store" / "output_dev", c1=rows)
    (tmp_path / "train").mkdir()
    small_store(tmp_path / "train" / "train_0_999", c0=rows)
    small_store(tmp_path / "train" / "train_1000_1999", c1000=rows)
    assert FolderStore(tmp_path / "a", "dev").claims == ("0",)
    assert FolderStore(tmp_path, "dev").claims == ("1",)
    assert FolderStore(tmp_path, "train").claims == ("0", "1000")
    for path, split, message in [
        (tmp_path / "none", "", "is no folder"),
        (tmp_path, "test", "neither a folder 'test'"),
        (tmp_path, "../a", "no name of a split"),
        (tmp_path / "knowledge_store", "", "a"),
    ]:
        if message == "a":
            assert FolderStore(path).claims == ("1",)
            continue
        with pytest.raises(ConfigError, match=message):
            FolderStore(path, split)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no claim's file"):
        FolderStore(tmp_path / "empty")


def test_fingerprints_follow_names_sizes_heads_and_settings(tmp_path: Path) -> None:
    rows = [page("https://a.org", f"Fact {n}.") for n in range(200)]
    first = FolderStore(small_store(tmp_path / "one", c0=rows, c1=rows))
    second = FolderStore(small_store(tmp_path / "two", c1=rows, c0=rows))
    assert first.fingerprint() == second.fingerprint() == first.describe()["fingerprint"]
    assert FolderStore(tmp_path / "one", max_chars=200).fingerprint() != first.fingerprint()
    search = EvidenceSearch(first).fingerprint()
    assert search == EvidenceSearch(second).fingerprint() != EvidenceSearch(first, k1=1.2).fingerprint()
    assert EvidenceSearch(first, scope="global").fingerprint() != search
    for changed in ({"c0": rows[:-1]}, {"c0": [page("https://b.org", "Fact 0."), *rows[1:]]}, {"c2": rows}):
        small_store(tmp_path / "two", c0=rows, c1=rows)
        assert FolderStore(small_store(tmp_path / "two", **changed)).fingerprint() != first.fingerprint()


def test_a_large_store_is_read_within_little_memory(tmp_path: Path) -> None:
    """3 MB in ten claims: opening and fingerprinting hold next to nothing, reading all of it two claims at most."""
    filler = "word-" * 100
    (tmp_path / "big").mkdir()
    for claim in range(10):
        with (tmp_path / "big" / f"{claim}.json").open("w", encoding="utf-8") as stream:
            for n in range(24):
                texts = [f"Fact {claim}-{n}-{i}: {filler}" for i in range(24)]
                stream.write(json.dumps(page(f"https://a.org/{n}", *texts)) + "\n")
    assert sum(file.stat().st_size for file in (tmp_path / "big").iterdir()) > 3_000_000
    tracemalloc.start()
    try:
        store = FolderStore(tmp_path / "big", keep=1)
        store.fingerprint()
        opened = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        total = sum(1 for _ in store.passages())
        streamed = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        by_claim = [len(store.for_claim(claim)) for claim in (0, 4, 8)]
        by_claim_peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 10 * 24 * 24 and by_claim == [24 * 24] * 3
    assert opened < 2**19
    assert max(streamed, by_claim_peak) < 2.5 * 2**20, (streamed, by_claim_peak)


def test_a_claim_with_too_many_passages_is_cut_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factgym.datasets.evidence.MAX_PASSAGES", 20)
    rows = [page(f"https://a.org/{n}", f"Fact {n}.") for n in range(50)]
    corpus = FolderStore(small_store(tmp_path / "s", c0=rows)).for_claim(0)
    assert [evidence.text for evidence in corpus] == [f"Fact {n}." for n in range(20)] and corpus.counts[
        "dropped"
    ] == 30


@pytest.mark.parametrize(
    ("url", "day"),
    [
        ("https://www.cnn.com/2020/10/11/politics/x.html", dt.date(2020, 10, 11)),
        ("https://web.archive.org/web/20210516223549/https://cnn.com/2020/10/11/x", dt.date(2020, 10, 11)),
        ("https://web.archive.org/web/20210516223549/https://example.org/x", None),
        ("https://politifact.com/factchecks/2020/aug/19/x", dt.date(2020, 8, 19)),
        ("https://www.abc.net.au/news/2020-08-21/x", dt.date(2020, 8, 21)),
        ("https://news.example.edu/stories/2020/09/x", dt.date(2020, 9, 1)),
        ("https://x.org/2020/sept/3", dt.date(2020, 9, 3)),
        ("https://x.org/2020/02/31/x", None),
        ("https://x.org/2020/augury/x", None),
        ("https://x.org/2020/123456", None),
        ("https://x.org/item/202008", None),
        ("Metadata", None),
        ("", None),
        ("/2020/13/" * 100_000, None),
    ],
)
def test_days_of_addresses(url: str, day: dt.date | None) -> None:
    assert url_date(url) == day


def test_hosts_and_originals() -> None:
    copy_ = "https://web.archive.org/web/20201129141238im_/https://www.scoopertino.com/a?b"
    assert original_url(copy_) == "https://www.scoopertino.com/a?b" and host_of(copy_) == "scoopertino.com"
    assert [host_of(item) for item in ("", "Metadata", "http://[bad", "https://X.org:80/")] == [
        "",
        "Metadata",
        "http:",
        "x.org",
    ]


@given(st.lists(st.text(max_size=400), max_size=12), st.integers(100, 300))
def test_windows_lose_no_word_and_keep_their_bound(texts: list[str], limit: int) -> None:
    all_passages = list(windows(texts, limit))
    assert all(0 < len(evidence) <= limit for evidence in all_passages)
    plain = [text.encode("utf-8", "replace").decode() for text in texts]
    assert "".join("".join(all_passages).split()) == "".join("".join(plain).split())


@given(st.text(max_size=600))
def test_sentences_of_a_text_lose_nothing(text: str) -> None:
    assert "".join(split_sentences(text)) == text


def test_a_piece_of_evidence_is_a_passage() -> None:
    evidence = Evidence("1", "a.org", "text", "https://a.org", BEFORE)
    assert isinstance(evidence, Passage) and pickle.loads(pickle.dumps(evidence)) == evidence
