"""A corpus that stays in its file is, to whoever uses it, the corpus in memory; and it takes a tiny part of the room."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import threading
import tracemalloc
from pathlib import Path

import pytest

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.bm25 import Bm25sIndex
from factgym.corpora.corpus import UnknownPassageError, shards
from factgym.corpora.passage_files import StoredCorpus, read_passages


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    """2Wiki's passages as FlashRAG would write them, with a byte order mark and blank lines."""
    rows = json.loads((data_dir / "2wikimultihopqa" / "2wikimultihopqa_corpus.json").read_text("utf-8"))
    lines = [
        json.dumps({"id": f"w{at}", "contents": f'"{one["title"]}"\n{one["text"]}'}, ensure_ascii=False)
        for at, one in enumerate(rows)
    ]
    path = tmp_path_factory.mktemp("stored") / "wiki.jsonl"
    path.write_text("\ufeff" + "\n".join(lines[:100]) + "\n\n  \n" + "\n".join(lines[100:]), "utf-8")
    return path


def test_it_holds_what_the_file_read_into_memory_holds(file: Path) -> None:
    stored, held = read_passages(file, on_disk=True), read_passages(file)
    assert isinstance(stored, StoredCorpus) and not isinstance(held, StoredCorpus)
    assert len(stored) == len(held) == 6119
    assert list(stored) == list(held) == list(stored.passages)
    assert stored.ids == held.ids
    assert stored.fingerprint() == held.fingerprint()
    for place in (0, 99, 100, 101, 6118, -1):
        assert stored.passages[place] == held.passages[place]
    assert stored.passages[98:103] == held.passages[98:103]
    assert all(stored.get(one.id) == one and one.id in stored for one in held.passages[::97])
    assert shards(stored, 0.2) == shards(held, 0.2)


def test_what_is_not_there_is_refused(file: Path) -> None:
    stored = read_passages(file, on_disk=True)
    assert "w6119" not in stored and 5 not in stored
    with pytest.raises(UnknownPassageError, match="no passage 'w6119' in this corpus of 6,119"):
        stored.get("w6119")
    with pytest.raises(IndexError):
        stored.passages[6119]


def test_an_index_ranks_both_alike(file: Path) -> None:
    queries = ["Who directed the film Forbidden Ground?", "queen of Lotharingia", "island in the Laptev Sea"]
    stored, held = (Bm25sIndex(read_passages(file, on_disk=one)) for one in (True, False))
    assert stored.search(queries, 5) == held.search(queries, 5)
    assert stored.fingerprint() == held.fingerprint()


def test_it_pickles_as_its_path_copies_as_itself_and_is_safe_under_threads(file: Path) -> None:
    stored = StoredCorpus(file)
    again = pickle.loads(pickle.dumps(stored))
    assert len(pickle.dumps(stored)) < 1000
    assert again.get("w7") == stored.get("w7")
    assert copy.deepcopy(stored) is stored
    failures: list[str] = []

    def read(shift: int) -> None:
        for at in range(300):
            id_ = f"w{(at * 17 + shift) % 6119}"
            if stored.get(id_).id != id_:
                failures.append(id_)

    threads = [threading.Thread(target=read, args=(shift,)) for shift in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_passage_in_the_file_takes_a_tiny_part_of_one_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    with path.open("w") as stream:
        for number in range(8_000):
            stream.write(json.dumps({"id": number, "title": f"T{number}", "text": f"{number} " + "word " * 60}) + "\n")
    tracemalloc.start()
    stored = StoredCorpus(path)
    in_file = tracemalloc.get_traced_memory()[0]
    held = list(stored)
    in_memory = tracemalloc.get_traced_memory()[0] - in_file
    tracemalloc.stop()
    assert len(held) == 8_000
    assert in_file < 40 * 8_000
    assert in_memory > 15 * in_file


def test_ids_of_one_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factgym.corpora.passage_files._hash", lambda id_: len(id_))
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"id": "{one}", "contents": "T\\n{one}"}}\n' for one in ("a", "bb", "c", "d", "ee")))
    stored = StoredCorpus(path)
    assert [stored.get(one).text for one in ("d", "ee", "a", "bb", "c")] == ["d", "ee", "a", "bb", "c"]
    assert "x" not in stored and "yy" not in stored and "zzz" not in stored


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"id": 1, "contents": "a\\nb"}\n{"id": 1, "contents": "a\\nc"}', "two passages share the id '1'"),
        ('{"id": 1, "contents": "a\\nb"}\n{"contents": "a\\nc"}', "line 2: a passage without an id cannot stay in its file"),
        ('{"id": 1, "contents": "a\\nb"}\n{"id": 2', "line 2: not valid JSON"),
        ('{"id": 1, "contents": "a\\nb"}\n\n[]', "line 3: a JSON object is expected"),
        ('{"context": []}', "line 1: no passage that is understood"),
        ("\n\n", "holds no passage"),
    ],
)  # fmt: skip
def test_what_is_broken_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_passages(path, on_disk=True)


def test_what_cannot_stay_in_its_file_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"id": 1, "contents": "a"}'))
    with pytest.raises(DataError, match="packed with gzip"):
        read_passages(packed, on_disk=True)
    with pytest.raises(ConfigError, match="on_disk needs one file of JSON lines"):
        read_passages(tmp_path, on_disk=True)
    with pytest.raises(ConfigError, match="on_disk needs one file of JSON lines"):
        read_passages(packed, on_disk=True, layout="squad")


def test_a_file_that_changed_meanwhile_is_an_error_and_no_other_passage(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "contents": "a\\nb"}\n{"id": 2, "contents": "a\\nc"}\n')
    stored = StoredCorpus(path)
    path.write_text('{"id": 1, "contents": "a\\n bigger than before"}\n{"id": 2, "contents": "a\\nc"}\n')
    with pytest.raises(DataError, match="passage 2"):
        stored.get("2")


def test_large_files_stay_on_the_disk_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factgym.corpora.passage_files.ON_DISK_FROM", 100)
    plain, squad = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    plain.write_text("".join(f'{{"id": {number}, "contents": "a\\nb"}}\n' for number in range(9)))
    squad.write_text(json.dumps({"data": [{"title": "T", "paragraphs": [{"context": "x" * 200}]}]}))
    assert isinstance(read_passages(plain), StoredCorpus)
    assert not isinstance(read_passages(plain, on_disk=False), StoredCorpus)
    assert not isinstance(read_passages(squad), StoredCorpus)
