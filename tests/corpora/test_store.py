"""Corpora on disk: equal to the same passages in memory, with the same rankings, and never wrong when damaged."""

from __future__ import annotations

import copy
import gzip
import json
import math
import pickle
import random
import shutil
import subprocess
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from factgym.core.errors import ConfigError, DataError
from factgym.core.tasks import clear_shared
from factgym.corpora.bm25 import Bm25sIndex, SmallBM25
from factgym.corpora.build import build_corpus, iter_passages, read_passages
from factgym.corpora.corpus import Corpus, Passage, UnknownPassageError, shards
from factgym.corpora.index import build_index
from factgym.corpora.mapped_files import equal_range
from factgym.corpora.store import StoredCorpus, is_stored_corpus
from factgym.corpora.store_bm25 import StoredBm25, kernels_module
from factgym.corpora.store_chunks import SourcedPassage
from factgym.corpora.store_writer import write_corpus
from factgym.text.words import terms

DRAW = random.Random("store")
WORDS = [f"{stem}{number}" for number in range(60) for stem in ("rent", "größe", "日本", "x.")]
PASSAGES = [
    Passage(
        f"p{number}" if number % 7 else f"Straße {number}",
        f"Title {number % 9}" if number % 3 else "",
        " ".join(WORDS[int(DRAW.random() ** 3 * len(WORDS))] for _ in range(DRAW.choice((1, 12, 12, 40)))),
    )
    for number in range(1_500)
]
"""Short texts with few words: many passages have equal scores."""

QUERIES = [" ".join(DRAW.choices([*WORDS, "unknown", "Title"], k=DRAW.randint(1, 6))) for _ in range(300)]


def write(passages: Sequence[Passage], out: Path, **options: float) -> StoredCorpus:
    write_corpus(map(SourcedPassage, passages), out, source="test", **options)  # type: ignore[arg-type]
    return StoredCorpus(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(PASSAGES, tmp_path_factory.mktemp("store") / "corpus").path


@pytest.fixture
def stored(folder: Path) -> StoredCorpus:
    return StoredCorpus(folder)


def test_a_corpus_on_disk_equals_the_passages_in_memory(stored: StoredCorpus) -> None:
    memory = Corpus(PASSAGES)
    assert len(stored) == len(memory)
    assert list(stored) == list(stored.passages) == PASSAGES
    assert tuple(stored.ids) == memory.ids
    assert stored.fingerprint() == memory.fingerprint()
    for index in (0, 1, 1023, 1024, -1):
        assert stored.passages[index] == PASSAGES[index]
    assert stored.passages[98:103] == tuple(PASSAGES[98:103])
    assert all(stored.get(passage.id) == passage and passage.id in stored for passage in PASSAGES)
    assert shards(stored, 0.2) == shards(memory, 0.2)


def test_unknown_passages_are_refused(stored: StoredCorpus) -> None:
    assert "w1500" not in stored and 5 not in stored and stored.find(None) is None
    with pytest.raises(UnknownPassageError, match="no passage 'p99999' in this corpus of 1,500"):
        stored.get("p99999")
    with pytest.raises(IndexError):
        stored.passages[1500]


def test_rankings_scores_and_ties_are_those_of_the_indexes_in_memory(stored: StoredCorpus) -> None:
    index = build_index(stored)
    assert isinstance(index, StoredBm25)
    hits = index.search(QUERIES, 7)
    assert hits == Bm25sIndex(PASSAGES).search(QUERIES, 7)
    assert hits == SmallBM25(PASSAGES).search(QUERIES, 7)
    assert index.search(QUERIES[:9], 5_000) == SmallBM25(PASSAGES).search(QUERIES[:9], 5_000)
    assert index.fingerprint() == SmallBM25(PASSAGES).fingerprint()
    assert [index.idf(word) for word in WORDS[:9]] == [SmallBM25(PASSAGES).idf(word) for word in WORDS[:9]]
    assert index.search(["", "the", "unknown"], 3) == [[], [], []]


def test_rankings_agree_with_a_brute_force_scorer(stored: StoredCorpus) -> None:
    rows = [Counter(terms(f"{passage.title} {passage.text}")) for passage in PASSAGES]
    average = sum(map(Counter.total, rows)) / len(rows)
    for query, hits in zip(QUERIES, build_index(stored).search(QUERIES, 5), strict=True):
        scores = [0.0] * len(rows)
        for term in terms(query):
            frequency = sum(term in row for row in rows)
            idf = math.log(1 + (len(rows) - frequency + 0.5) / (frequency + 0.5))
            for i, row in enumerate(rows):
                if tf := row[term]:
                    scores[i] += idf * tf / (tf + 1.5 * (1 - 0.75 + 0.75 * row.total() / average))
        ranked = sorted(range(len(rows)), key=lambda i: (-round(scores[i], 9), i))
        expected = [i for i in ranked[:5] if scores[i] > 0]
        assert [hit.id for hit in hits] == [PASSAGES[i].id for i in expected]
        assert [hit.score for hit in hits] == pytest.approx([scores[i] for i in expected])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("numba", reason="needs the extra 'counting': pip install -e '.[counting]'")
    monkeypatch.setattr("factgym.corpora.store_bm25.COMPILED_FROM", 0)
    kernels_module.start()
    kernels_module.wait()
    assert kernels_module.module is not None
    yield
    monkeypatch.setattr(kernels_module, "module", None)


@pytest.mark.parametrize("k", [1, 3, 40, 256, 257])
def test_compiled_search_gives_every_hit_of_the_engine_in_memory(
    stored: StoredCorpus, compiled: None, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # MaxScore leaves most postings out; the engine in memory scores every passage. Repeated terms count twice, and
    # passages of equal scores fall in order of position also where the cut goes through them.
    rng = random.Random(k)
    queries = [" ".join(rng.choices(WORDS[: rng.choice([3, 40, 400])], k=rng.randint(1, 12))) for _ in range(150)]
    assert build_index(stored).search(queries, k) == SmallBM25(PASSAGES).search(queries, k)
    parts = [StoredBm25(stored, first, first + 500) for first in (0, 500, 1000)]
    hits = [[hit for part in parts for hit in part.search([query], k)[0]] for query in queries[:40]]
    merged = [sorted(row, key=lambda hit: (-hit.score, stored.position(hit.id)))[:k] for row in hits]
    assert merged == SmallBM25(PASSAGES).search(queries[:40], k)
    # The batch's queries one after the other, as on a machine of one core.
    monkeypatch.setattr("factgym.corpora.store_bm25.core_count", lambda: 1)
    assert build_index(stored).search(queries[:40], k) == SmallBM25(PASSAGES).search(queries[:40], k)


def test_equal_passages_are_in_order_also_in_compiled_search(tmp_path: Path, compiled: None) -> None:
    texts = ["common word"] * 700 + ["common rare"] * 5 + ["common"] * 300
    index = build_index(write([Passage(f"E{i}", "", text) for i, text in enumerate(texts)], tmp_path / "c"))
    assert isinstance(index, StoredBm25)
    for query, first in [("common", 705), ("common word", 0), ("rare common", 700), ("word", 0)]:
        assert [hit.id for hit in index.search([query], 4)[0]] == [f"E{i}" for i in range(first, first + 4)]


def test_a_damaged_page_leaves_no_sums_for_the_next_query(tmp_path: Path, compiled: None) -> None:
    index = build_index(write(PASSAGES, tmp_path / "c"))
    expected = index.search(QUERIES[:20], 5)

    def damaged(sums: Any, *_: object) -> None:
        sums[:] = 1.0
        raise DataError("is damaged")

    with pytest.MonkeyPatch.context() as patch:
        module = SimpleNamespace(search=damaged)
        patch.setattr(kernels_module, "module", module)
        with pytest.raises(DataError):
            index.search(QUERIES[:1], 5)
    assert index.search(QUERIES[:20], 5) == expected


def test_bm25s_opens_the_index_itself(stored: StoredCorpus) -> None:
    import bm25s

    engine = bm25s.BM25.load(str(stored.path / "bm25"), mmap=True, load_vocab=False)
    assert engine.scores["num_docs"] == len(PASSAGES) and engine.k1 == 1.5


def test_other_parameters_are_indexed_in_memory_or_when_building(
    stored: StoredCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build_index(stored, k1=0.9, b=0.4)
    assert isinstance(index, Bm25sIndex)
    saved = build_index(write(PASSAGES, tmp_path / "c", k1=0.9, b=0.4), "bm25s", k1=0.9, b=0.4)
    assert isinstance(saved, StoredBm25)
    assert saved.search(QUERIES[:20], 3) == index.search(QUERIES[:20], 3)
    with pytest.raises(ConfigError, match="BM25 needs"):
        write(PASSAGES, tmp_path / "d", b=2)
    monkeypatch.setattr("factgym.corpora.store_bm25.COMPILED_FROM", len(PASSAGES))
    with pytest.raises(ConfigError, match=r"corpus build \S+ NEW_FOLDER --k1 0\.9 --b 0\.75"):
        build_index(stored, k1=0.9)


def test_a_corpus_on_disk_is_written_with_other_parameters(stored: StoredCorpus, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.md").write_text("# Leave\n\nTwo days of leave.\n\n# Rent\n\nRent is due.\n", "utf-8")
    first = build_corpus(tmp_path / "texts", tmp_path / "first")
    second = build_corpus(first.path, tmp_path / "second", k1=0.9)
    assert second.fingerprint() == first.fingerprint() and list(second) == list(first)
    assert [second.source_of(id_) for id_ in second.ids] == [first.source_of(id_) for id_ in first.ids]
    query = ["days of leave"]
    assert build_index(second, k1=0.9).search(query, 3) == SmallBM25(list(first), k1=0.9).search(query, 3)
    with pytest.raises(ConfigError, match="only its k1 and b can be changed"):
        build_corpus(first.path, tmp_path / "third")


def test_it_pickles_as_its_path_copies_as_itself_and_is_safe_under_threads(stored: StoredCorpus) -> None:
    index = build_index(stored)
    assert len(pickle.dumps(index)) < 1000
    assert copy.deepcopy(stored) is stored
    again = pickle.loads(pickle.dumps(index))
    expected = index.search(QUERIES[:30], 3)
    results = []
    threads = [threading.Thread(target=lambda: results.append(again.search(QUERIES[:30], 3))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


FORKED = """
import gc, multiprocessing, sys
from factgym.corpora.index import build_index
from factgym.corpora.store import StoredCorpus
from factgym.corpora.store_bm25 import kernels_module

def search(path, queries):
    shared = bool(gc.get_freeze_count()) and not kernels_module.is_loading
    return shared, build_index(StoredCorpus(path)).search(queries, 5)

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["factgym.corpora.preload"])
    with context.Pool(2) as pool:
        for result in pool.starmap(search, [(sys.argv[1], sys.argv[2:4])] * 2, chunksize=1):
            print(result)
"""


def test_processes_of_a_fork_server_search_alike(stored: StoredCorpus, tmp_path: Path) -> None:
    """Their server has imported the package, kernels included, and left nothing for garbage collection to write to."""
    (script := tmp_path / "forked.py").write_text(FORKED, "utf-8")
    command = [sys.executable, str(script), str(stored.path), *QUERIES[:2]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{(True, StoredBm25(stored).search(QUERIES[:2], 5))}\n" * 2


def test_a_pickle_never_opens_other_passages(tmp_path: Path) -> None:
    stored = write(PASSAGES[:5], tmp_path / "c")
    pickled = pickle.dumps(stored)
    shutil.rmtree(stored.path)
    write(PASSAGES[:6], tmp_path / "c")
    with pytest.raises(DataError, match="holds other passages than it did before"):
        pickle.loads(pickled)


def test_an_open_corpus_takes_no_memory_by_passage(folder: Path) -> None:
    tracemalloc.start()
    stored = StoredCorpus(folder)
    build_index(stored).search(QUERIES[:1], 3)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 100_000


def test_ids_and_terms_of_one_hash_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("store", "store_bm25", "store_writer"):
        monkeypatch.setattr(f"factgym.corpora.{module}.hash_key", lambda data: len(data) << 58)
    passages = [Passage(name, "", f"{name}{name}") for name in ("a", "bb", "c", "d", "ee")]
    stored = write(passages, tmp_path / "c")
    assert [stored.get(name).text for name in ("d", "ee", "a", "bb", "c")] == ["dd", "eeee", "aa", "bbbb", "cc"]
    assert "x" not in stored and "yy" not in stored and "zzz" not in stored
    assert [hits[0].id for hits in build_index(stored).search(["eeee", "bbbb", "dd"], 5)] == ["ee", "bb", "d"]


def test_keys_that_are_not_uniform_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factgym.corpora.store.hash_key", lambda data: int(data))
    monkeypatch.setattr("factgym.corpora.store_writer.hash_key", lambda data: int(data) if data.isdigit() else 0)
    numbers = [*range(3_000), 2**63, 2**64 - 1]
    stored = write([Passage(str(number), "", "text") for number in numbers], tmp_path / "c")
    assert all(str(number) in stored for number in numbers)
    assert len(equal_range(stored.folder["id_keys.npy"], 2**62)) == 0


def test_texts_without_terms_make_an_index_without_hits(tmp_path: Path) -> None:
    stored = write([Passage("a", "", "the of"), Passage("b", "", "…")], tmp_path / "c")
    assert build_index(stored).search(["the", "word"], 3) == [[], []]
    assert [passage.text for passage in stored] == ["the of", "…"]


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.jsonl", '{"id": "1", "contents": "\\"Lyon\\"\\nOn the Rhône."}\n{"id": "2", "contents": "\\"Nice\\"\\nSea."}\n'),
        ("a.jsonl.gz", '{"id": 1, "contents": "Lyon\\nOn the Rhône."}\n{"id": 2, "contents": "Nice\\nSea."}\n'),
        ("a.tsv", 'id\ttext\ttitle\n1\t"On the Rhône."\tLyon\n2\tSea.\tNice\n'),
        ("a.tsv.gz", 'id\ttext\ttitle\n1\t"On the Rhône."\tLyon\n2\tSea.\tNice\n'),
        ("a.json", '[{"_id": "1", "title": "Lyon", "text": "On the Rhône."}, {"_id": "2", "title": "Nice", "text": "Sea."}]'),
    ],
)  # fmt: skip
def test_every_layout_of_rows_is_read(tmp_path: Path, name: str, content: str) -> None:
    raw = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    stored = build_corpus(tmp_path / name, tmp_path / "out")
    assert list(stored) == [Passage("1", "Lyon", "On the Rhône."), Passage("2", "Nice", "Sea.")]
    assert stored.meta["source"] == name


def test_a_folder_of_texts_keeps_documents_and_offsets(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "hr").mkdir(parents=True)
    leave = "# Leave\r\n\r\nStaff get  30 days.\r\n\r\n- *Ask* first.\r\n\r\n## Pay\r\n\r\nOn the 5th ﬁnally.\r\n"
    (docs / "hr" / "leave.md").write_bytes(leave.encode())
    (docs / "note.txt").write_text("Offices are closed on Sunday.\n")
    stored = build_corpus(docs, tmp_path / "out")
    assert list(stored) == list(iter_passages(docs))
    located = {}
    for passage in stored:
        document, start, end = stored.source_of(passage.id)
        text = (docs / document).read_text("utf-8")
        located[passage.text] = (document, None if start is None else text[start:end])
    assert located["On the 5th ﬁnally."] == ("hr/leave.md", "On the 5th ﬁnally.")
    assert located["Offices are closed on Sunday."] == ("note.txt", "Offices are closed on Sunday.")
    assert located["Staff get 30 days.\n- Ask first."] == ("hr/leave.md", "Staff get  30 days.\n\n- *Ask* first.")
    rows = tmp_path / "a.jsonl"
    rows.write_text('{"id": "1", "contents": "T\\ntext"}\n')
    assert build_corpus(rows, tmp_path / "rows").source_of("1") == ("", None, None)


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"id": 1, "contents": "a\\nb"}\n{"id": 1, "contents": "a\\nc"}', "line 2: the id '1' is at line 1 too"),
        ('{"id": 1, "contents": "a\\nb"}\n{"id": 2', "line 2: not valid JSON"),
        ('{"id": 1, "contents": "a\\nb"}\n\n[]', "line 3: a JSON object is expected"),
        ('{"size": []}', "line 1: no passage that is understood"),
        ("\n\n", "holds no passage"),
    ],
)  # fmt: skip
def test_a_broken_line_is_named_and_nothing_is_written(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        build_corpus(tmp_path / "a.jsonl", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


def test_repeated_ids_of_any_iterable_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="two passages share the id 'p1'"):
        write([PASSAGES[1], PASSAGES[2], PASSAGES[1]], tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_nothing_but_a_corpus_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "contents": "T\\ntext"}\n')
    first = build_corpus(tmp_path / "a.jsonl", tmp_path / "out")
    with pytest.raises(ConfigError, match="out exists: name another folder, or replace it with --force"):
        build_corpus(tmp_path / "a.jsonl", tmp_path / "out")
    (tmp_path / "a.jsonl").write_text('{"id": "2", "contents": "T\\nother"}\n')
    second = build_corpus(tmp_path / "a.jsonl", tmp_path / "out", replace=True)
    assert (list(first.ids), list(second.ids)) == (["1"], ["2"])  # what is open stays readable
    (tmp_path / "mine").mkdir()
    with pytest.raises(ConfigError, match="mine exists and is no corpus"):
        build_corpus(tmp_path / "a.jsonl", tmp_path / "mine", replace=True)
    with pytest.raises(ConfigError, match="is a corpus on disk already"):
        build_corpus(tmp_path / "out", tmp_path / "again")


# Damage.


def answers(path: Path) -> object:
    """Everything that a small corpus can answer."""
    stored = StoredCorpus(path)
    index = build_index(stored)
    return (
        [stored.get(passage.id) for passage in PASSAGES[:60]],
        list(stored),
        list(stored.ids),
        [stored.source_of(passage.id) for passage in PASSAGES[:9]],
        index.search(QUERIES[:40], 60),
        stored.fingerprint(),
    )


@pytest.mark.parametrize("passages, flips", [(60, 1_000), (1_500, 60)])
def test_flipped_bits_are_refused_and_never_answered(tmp_path: Path, passages: int, flips: int) -> None:
    intact = write(PASSAGES[:passages], tmp_path / "c").path
    expected = answers(intact)
    files = sorted(file for file in intact.rglob("*") if file.is_file())
    sizes = [file.stat().st_size for file in files]
    draw = random.Random("flips")
    refused = 0
    for number in range(flips):
        # Every file is hit, the larger ones more often.
        file = files[number % len(files)] if number < flips // 2 else draw.choices(files, sizes)[0]
        raw = bytearray(file.read_bytes())
        position = draw.randrange(len(raw))
        raw[position] ^= 1 << draw.randrange(8)
        before = file.read_bytes()
        file.write_bytes(raw)
        try:
            assert answers(intact) == expected, (file, position)
        except DataError as error:
            refused += 1
            assert str(intact) in str(error)
            assert "factgym corpus build SOURCE FOLDER" in str(error)
        finally:
            file.write_bytes(before)
    assert refused > 0.8 * flips


def test_every_flip_is_found_by_a_whole_check(tmp_path: Path) -> None:
    intact = write(PASSAGES[:60], tmp_path / "c").path
    StoredCorpus(intact).folder.check_all()
    draw = random.Random("check")
    files = sorted(file for file in intact.rglob("*") if file.is_file())
    for number in range(100):
        file = files[number % len(files)]
        raw = bytearray(before := file.read_bytes())
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        file.write_bytes(raw)
        # White space of the manifest's JSON is the only thing that may change.
        if file.name != "manifest.json" or json.loads(before) != _parsed(raw):
            with pytest.raises(DataError):
                StoredCorpus(intact).folder.check_all()
        file.write_bytes(before)


def _parsed(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except ValueError:
        return None


@pytest.mark.parametrize(
    "name", ["passages.txt", "fields.npy", "bm25/data.csc.index.npy", "page_sums.npy", "manifest.json"]
)
@pytest.mark.parametrize("change", ["cut", "longer", "empty", "missing"])
def test_cut_and_missing_files_are_refused(folder: Path, tmp_path: Path, name: str, change: str) -> None:
    path = tmp_path / "c"
    shutil.copytree(folder, path)
    file = path / name
    raw = file.read_bytes()
    if change == "missing":
        file.unlink()
    else:
        file.write_bytes({"cut": raw[:-8], "longer": raw + raw[-8:], "empty": b""}[change])
    with pytest.raises(DataError, match="factgym corpus build"):
        read_passages(path)


def test_foreign_and_other_versions_are_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "c"
    shutil.copytree(folder, path)
    manifest = json.loads((path / "manifest.json").read_text())
    for change, message in (
        ({"version": 99}, "has version 99"),
        ({"kind": "factgym-other"}, "no manifest of a factgym-corpus"),
    ):
        (path / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(DataError, match=message):
            StoredCorpus(path)
    assert is_stored_corpus(path) and not is_stored_corpus(tmp_path)


# The user's cache.


def test_large_files_are_built_once_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("factgym.corpora.build.ON_DISK_FROM", 100)
    file = tmp_path / "a.jsonl"
    file.write_text("".join(f'{{"id": {number}, "contents": "a\\nb{number}"}}\n' for number in range(9)))
    first = read_passages(file)
    assert isinstance(first, StoredCorpus) and first.path.parent == tmp_path / "cache" / "corpora"
    assert not isinstance(read_passages(file, on_disk=False), StoredCorpus)
    assert first.fingerprint() == read_passages(file, on_disk=False).fingerprint()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("built again")

    with monkeypatch.context() as patch:
        patch.setattr("factgym.corpora.build.write_corpus", refuse)
        clear_shared()
        assert read_passages(file).fingerprint() == first.fingerprint()
        (tmp_path / "b").mkdir()
        shutil.copy(file, tmp_path / "b")
        assert read_passages(tmp_path / "b" / "a.jsonl").fingerprint() == first.fingerprint()
    # A damaged folder is built again, and so is a file that changed.
    (first.path / "page_sums.npy").write_bytes(b"")
    clear_shared()
    assert list(read_passages(file)) == list(first)
    file.write_text('{"id": 1, "contents": "a\\nother"}\n' * 1 + " " * 200)
    clear_shared()
    assert [passage.text for passage in read_passages(file)] == ["other"]
    clear_shared()


def test_without_a_cache_folder_passages_are_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("FACTGYM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.jsonl").write_text('{"id": 1, "contents": "a\\nb"}\n')
    corpus = read_passages(tmp_path / "a.jsonl", on_disk=True)
    assert not isinstance(corpus, StoredCorpus) and len(corpus) == 1
    assert "is read into memory" in caplog.text
