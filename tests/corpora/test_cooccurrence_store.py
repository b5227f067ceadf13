"""The file format and the block codec: an incomplete or foreign file is refused with its name and the remedy."""

from __future__ import annotations

import json
import pickle
import random
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence import build_index, memory_index, open_index, store
from factgym.corpora.cooccurrence.postings import PostingList, decode, encode, prefix_sums
from factgym.corpora.cooccurrence.store import HEADER_BYTES, open_container, write_container


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "x.cooc"
    numbers = random.Random(0)
    texts = (" ".join(f"w{int(numbers.paretovariate(0.7))}" for _ in range(200)) for _ in range(30))
    build_index(((str(i), text) for i, text in enumerate(texts)), path, workers=1)
    return path


def test_every_prefix_is_refused(complete: Path, tmp_path: Path) -> None:
    raw, cut = complete.read_bytes(), tmp_path / "cut.cooc"
    lengths = {*range(0, 300), *range(300, len(raw), 197), len(raw) - 1}
    for length in sorted(lengths):
        cut.write_bytes(raw[:length])
        with pytest.raises(DataError, match=r"cut\.cooc .*(is empty|is no co-occurrence index|cut off).*again"):
            open_index(cut)
    cut.write_bytes(raw + b"\0")
    with pytest.raises(DataError, match="longer than it should be"):
        open_index(cut)


def test_every_flipped_byte_of_the_header_is_seen(complete: Path, tmp_path: Path) -> None:
    raw, path = bytearray(complete.read_bytes()), tmp_path / "flipped.cooc"
    length = 20 + int.from_bytes(raw[12:16], "little")
    for at in range(length):
        changed = bytes(raw[:at]) + bytes([raw[at] ^ 0x15]) + bytes(raw[at + 1 :])
        path.write_bytes(changed)
        with pytest.raises(DataError, match=r"flipped\.cooc"):
            open_index(path)


def test_every_flipped_byte_is_found_by_verify_and_small_sections_always(complete: Path, tmp_path: Path) -> None:
    raw, path = bytearray(complete.read_bytes()), tmp_path / "flipped.cooc"
    header = json.loads(raw[20 : 20 + int.from_bytes(raw[12:16], "little")])
    for dtype, start, items, _ in header["sections"].values():
        at = start + items * int(dtype[1:]) // 2
        path.write_bytes(bytes(raw[:at]) + bytes([raw[at] ^ 1]) + bytes(raw[at + 1 :]))
        for verify in (False, True):
            with pytest.raises(DataError, match="checksum of its section"):
                open_index(path, verify=verify)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_a_flipped_bit_of_a_large_index_is_found_when_its_page_is_first_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    if engine == "numba":
        pytest.importorskip("numba")
    monkeypatch.setattr(store, "_PAGE", 64)
    monkeypatch.setattr(store, "_CHECKED_BYTES", 0)
    complete, path = tmp_path / "x.cooc", tmp_path / "flipped.cooc"
    numbers = random.Random(1)
    texts = [" ".join(f"w{int(numbers.paretovariate(0.6))}" for _ in range(150)) for _ in range(24)]
    build_index(((str(i), text) for i, text in enumerate(texts)), complete, workers=1)
    words = sorted({word for text in texts for word in text.split()})
    queries = [[word, numbers.choice(words[:40])] for word in words]
    right = open_index(complete, preload=False, engine=engine).count_many(queries)
    raw = bytearray(complete.read_bytes())
    header = json.loads(raw[20 : 20 + int.from_bytes(raw[12:16], "little")])
    flips = [
        start + at
        for name in ("firsts", "offsets", "data", "page_sums", "ends", "block_starts")
        for _, start, items, _ in [header["sections"][name]]
        for at in (range(0, items * 4, 64 * 4) if engine == "numpy" else (items * 2,))
    ]
    detected = 0
    for at in flips:
        path.write_bytes(bytes(raw[:at]) + bytes([raw[at] ^ (1 << at % 8)]) + bytes(raw[at + 1 :]))
        try:
            index = open_index(path, preload=False, engine=engine)
            for group in (queries[:9], queries):
                assert index.count_many(group).tolist() == right[: len(group)].tolist()
        except DataError as error:
            detected += "damaged" in str(error)
    assert detected == len(flips) > 5
    with pytest.raises(DataError, match="damaged"):
        open_index(path, preload=True)


def test_foreign_and_missing_files_are_refused(tmp_path: Path) -> None:
    for name, raw in (("a.zip", b"PK\3\4" * 2000), ("b.json", b'{"a": 1}' * 1000), ("c.npy", b"\x93NUMPY" * 900)):
        (tmp_path / name).write_bytes(raw)
        with pytest.raises(DataError, match=f"{name} is no co-occurrence index"):
            open_index(tmp_path / name)
    with pytest.raises(DataError, match=r"cannot be read|is a folder"):
        open_index(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"cannot be read|is a folder"):
        open_index(tmp_path)
    write_container(tmp_path / "run", "cooccurrence-run", {}, {"firsts": [np.arange(3, dtype=np.uint32)]})
    with pytest.raises(DataError, match="holds 'cooccurrence-run'"):
        open_index(tmp_path / "run")


def test_an_index_is_read_into_memory_where_that_is_wanted_or_memory_is_ample(
    complete: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All bytes but the header's, at once for a small file and in a thread for a large one; counts are the same."""
    read: list[tuple[str, int]] = []
    touch = store.touch_pages

    def record(arrays: list[np.ndarray]) -> None:
        read.append((threading.current_thread().name, sum(array.nbytes for array in arrays)))
        touch(arrays)

    monkeypatch.setattr(store, "touch_pages", record)
    main, size = threading.current_thread().name, complete.stat().st_size
    plain = open_index(complete, preload=False)
    assert not read
    touched = open_index(complete, preload=True)
    assert touched.count(["w1", "w2"]) == plain.count(["w1", "w2"])
    assert open_index(complete).count(["w1", "w2"]) == plain.count(["w1", "w2"])
    assert [name for name, _ in read] == [main, main]
    assert all(size - HEADER_BYTES - 64 * 9 <= count <= size - HEADER_BYTES for _, count in read)
    monkeypatch.setattr(store.os, "sysconf", lambda name: 3 * size if name == "SC_PHYS_PAGES" else 1)
    assert pickle.loads(pickle.dumps(open_index(complete)))._options["preload"] is None
    assert len(read) == 2
    monkeypatch.setattr(store, "_SYNCHRONOUS_BYTES", 100)
    open_index(complete, preload=True)
    for thread in threading.enumerate():
        if thread.name == "preload":
            thread.join()
    assert read[-1] == ("preload", read[0][1])
    with pytest.raises(ConfigError, match="preload is True, False or None"):
        open_index(complete, preload="yes")


def test_a_later_version_is_recognised(complete: Path, tmp_path: Path) -> None:
    raw = bytearray(complete.read_bytes())
    raw[8] = 3
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(DataError, match="has version 3 of the format"):
        open_index(tmp_path / "x")


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_damage_in_large_sections_is_an_error_or_a_wrong_count_never_a_crash(
    complete: Path, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sections that opening does not read through: whatever they hold, counting stays inside its arrays."""
    if engine == "numba":
        pytest.importorskip("numba", reason="needs the extra 'counting'")
    monkeypatch.setattr("factgym.corpora.cooccurrence.store._CHECKED_BYTES", 0)
    raw, path = complete.read_bytes(), tmp_path / "damaged.cooc"
    header = json.loads(raw[20 : 20 + int.from_bytes(raw[12:16], "little")])
    numbers = random.Random(1)
    words = [f"w{i}" for i in range(60)]
    queries = [numbers.sample(words, 3) for _ in range(40)]
    errors = 0
    for name in ("block_starts", "offsets", "firsts", "data", "frequencies"):
        dtype, start, items, _ = header["sections"][name]
        for _ in range(12):
            changed = bytearray(raw)
            for _ in range(200):
                changed[start + numbers.randrange(items * int(dtype[1:]))] = numbers.randrange(256)
            path.write_bytes(changed)
            try:
                counts = open_index(path, engine=engine, window=20).count_many(queries)  # type: ignore[arg-type]
            except DataError as error:
                errors += 1
                assert "damaged" in str(error)
            else:
                assert counts.min() >= 0
    assert errors > 0


def test_a_container_holds_what_was_written(tmp_path: Path) -> None:
    arrays = {
        "keys": np.arange(5, dtype=np.uint64),
        "spelling": np.arange(7, dtype=np.uint8),
        "none": np.empty(0, "u4"),
    }
    parts = {name: [array[:2], array[2:]] for name, array in arrays.items()}
    write_container(tmp_path / "x", "kind", {"a": 1}, parts)
    opened = open_container(tmp_path / "x", "kind", verify=True)
    assert opened.meta == {"a": 1}
    for name, array in arrays.items():
        assert np.array_equal(opened.arrays[name], array)
        assert not opened.arrays[name].flags.writeable
    assert (tmp_path / "x").stat().st_size >= HEADER_BYTES
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


lists = st.lists(
    st.tuples(st.integers(0, 2**31), st.lists(st.integers(1, 2**20) | st.integers(1, 3), min_size=0, max_size=300)),
    min_size=1,
    max_size=6,
)


@given(lists)
def test_blocks_decode_to_what_was_encoded(given_lists: list[tuple[int, list[int]]]) -> None:
    positions = [np.cumsum([start, *gaps]).astype(np.uint32) for start, gaps in given_lists]
    frequencies = np.array([len(section) for section in positions])
    blocks = encode(np.concatenate(positions), frequencies)
    offsets = prefix_sums(blocks.sizes.astype(np.int64))
    first_byte = 0
    for section in positions:
        count = -(-len(section) // 64)
        view = PostingList(
            len(section),
            blocks.firsts[first_byte : first_byte + count],
            offsets[first_byte : first_byte + count + 1],
            blocks.data,
        )
        assert np.array_equal(decode(view), section)
        chosen = np.arange(0, count, 2)
        assert np.array_equal(decode(view, chosen), np.concatenate([section[64 * i : 64 * i + 64] for i in chosen]))
        first_byte += count


def test_positions_up_to_the_limit_are_kept() -> None:
    positions = np.array([0, *range(2**32 - 64, 2**32)], np.uint32)
    blocks = encode(positions, np.array([65]))
    view = PostingList(65, blocks.firsts, prefix_sums(blocks.sizes.astype(np.int64)), blocks.data)
    assert np.array_equal(decode(view), positions)


def test_the_file_is_small(complete: Path) -> None:
    """Postings of frequent words take about two bytes; far less than plain positions of four."""
    index = open_index(complete)
    data = sum(getattr(index._store, name).nbytes for name in ("firsts", "offsets", "data"))
    assert data / index.tokens < 2.6
    assert index.fingerprint() != memory_index(["w1"]).fingerprint()
