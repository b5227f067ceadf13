"""Building an index: the same file whatever the memory, the workers and the interruptions."""

from __future__ import annotations

import errno
import itertools
import json
import os
import pickle
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from killed_runs import kill_until_done, size_of

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.cooccurrence import (
    CooccurrenceIndex,
    Progress,
    build_index,
    engine,
    memory_index,
    open_index,
    segments,
)
from factgym.corpora.cooccurrence import build as building
from factgym.corpora.cooccurrence.sources import BadRecords, Part, Source
from factgym.corpora.cooccurrence.tokenizer import number_documents, number_documents_compiled

Documents = list[tuple[str, str]]


def documents_of(seed: int, count: int = 400, words: int = 300) -> Documents:
    """Documents of unequal length over a vocabulary from very frequent words to ones that stand there once."""
    numbers = random.Random(seed)
    return [
        (str(i), " ".join(f"w{int(numbers.paretovariate(0.6))}" for _ in range(numbers.choice([0, 3, words]))))
        for i in range(count)
    ]


def same(item: CooccurrenceIndex, second: CooccurrenceIndex) -> bool:
    """Equal in every section: the fingerprint is over their checksums and lengths."""
    return item.fingerprint() == second.fingerprint()


def write_jsonl(path: Path, documents: Documents) -> Path:
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in documents), "utf-8")
    return path


def test_compiled_and_plain_numbering_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over ASCII, accents, marks, CJK, what NFKC changes, empty documents, and tables that have to grow."""
    pytest.importorskip("numba", reason="needs the extra 'counting'")
    engine.text_kernels()
    engine.text_module.wait()
    kernels = engine.text_kernels()
    assert kernels is not None
    numbers = random.Random(8)
    odd = [
        "é",
        "Ångström",
        "e\u0301",
        "東京",
        "ﬁn",
        "–",
        "’s",
        "²",
        "हिन्दी",
        "😀x",
        "\u2028",
        "ÉTÉ",
        "ß",
        "\x85",
        "ǅ",
        "\ud800",
    ]
    texts = [
        *(" ".join(numbers.choices([*odd, "Men's", "a_b", "U.S.", "x"], k=numbers.randint(0, 30))) for _ in range(200)),
        *("".join(numbers.choices("aB é.Ω", k=200)) for _ in range(50)),
        *documents_text(9, 80),
        " ".join(f"word{i}" for i in range(60_000)),
        "".join(chr(i) for i in range(0x3100)),
    ]
    for case in ("keep", "fold"):
        plain = number_documents(iter(texts), case, None)  # type: ignore[arg-type]
        compiled = number_documents_compiled(kernels, iter(texts), case, None)  # type: ignore[arg-type]
        assert compiled.words == plain.words
        assert compiled.lengths.tolist() == plain.lengths.tolist()
        assert np.array_equal(np.concatenate(compiled.tokens), np.concatenate(plain.tokens))
    few = number_documents_compiled(kernels, iter(["a b"] * 1000), "keep", 300)
    assert 100 <= len(few.lengths) < 300


def documents_text(seed: int, count: int) -> list[str]:
    return [text for _, text in documents_of(seed, count)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_built_index_is_its_twin_in_memory(tmp_path: Path, workers: int) -> None:
    documents = documents_of(1)
    observed: list[Progress] = []
    built = build_index(iter(documents), tmp_path / "x.cooc", memory_mb=64, workers=workers, progress=observed.append)
    twin = memory_index(text for _, text in documents)
    index = open_index(tmp_path / "x.cooc", verify=True)
    assert same(index, twin)
    assert (built.tokens, built.documents, built.words) == (twin.tokens, twin.documents, twin.words)
    assert built.bytes == (tmp_path / "x.cooc").stat().st_size
    assert {step.stage for step in observed} == {"read", "merge", "write"}
    assert observed[-1].tokens == twin.tokens
    assert [path.name for path in tmp_path.iterdir()] == ["x.cooc"]
    queries = [["w1", "w2"], ["w7", "w1", "w30"], ["w2", "nowhere"]]
    assert index.count_many(queries).tolist() == twin.count_many(queries).tolist()


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and slices of some thousand tokens, as a large corpus has them of some million."""
    monkeypatch.setattr("factgym.corpora.cooccurrence.build.TOKEN_BYTES", 1 << 13)
    monkeypatch.setattr("factgym.corpora.cooccurrence.build.POSTING_BYTES", 1 << 13)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.usefixtures("small_pieces")
def test_many_runs_and_slices_make_the_same_file(tmp_path: Path, compiled: bool) -> None:
    """Also where one word alone is more than a slice holds, and where a part of the source is several runs."""
    if compiled:
        pytest.importorskip("numba", reason="needs the extra 'counting'")
        engine.text_kernels()
        engine.text_module.wait()
    documents = [*documents_of(2), ("long", "w1 " * 9000)]
    steps: list[Progress] = []
    source = Source(write_jsonl(tmp_path / "c.jsonl", documents), part_bytes=150_000)
    build_index(source, tmp_path / "x.cooc", memory_mb=16, workers=1, progress=steps.append)
    assert sum(step.stage == "read" for step in steps) > 1
    assert sum(step.stage == "merge" for step in steps) > 10
    assert same(open_index(tmp_path / "x.cooc", verify=True), memory_index(text for _, text in documents))


def test_an_empty_corpus_is_an_index(tmp_path: Path) -> None:
    build_index([], tmp_path / "x.cooc", workers=1)
    index = open_index(tmp_path / "x.cooc", verify=True)
    assert index.tokens == index.documents == index.count(["A", "B"]) == 0
    assert same(index, memory_index([]))


def test_case_is_the_index_own(tmp_path: Path) -> None:
    build_index([("a", "Rose rose")], tmp_path / "x.cooc", workers=1, case="fold")
    assert open_index(tmp_path / "x.cooc").frequency("ROSE") == 2


def test_an_opened_index_pickles_as_its_path(tmp_path: Path) -> None:
    build_index(documents_of(3), tmp_path / "x.cooc", workers=1)
    index = open_index(tmp_path / "x.cooc", window=9, semantics="window")
    raw = pickle.dumps(index)
    assert len(raw) < 1000
    again = pickle.loads(raw)
    assert again.describe() == index.describe()
    assert again.count(["w1", "w2"]) == index.count(["w1", "w2"])


class Stopping:
    """Documents that end in an error after some of them, as a process does that is stopped."""

    def __init__(self, documents: Documents, after: int) -> None:
        self._documents, self._after = documents, after

    def __iter__(self) -> Iterator[tuple[str, str]]:
        yield from itertools.islice(self._documents, self._after)
        raise KeyboardInterrupt


@pytest.mark.usefixtures("small_pieces")
def test_a_stopped_build_goes_on_and_a_changed_corpus_does_not(tmp_path: Path) -> None:
    documents = documents_of(4)
    target = tmp_path / "x.cooc"

    def build(these: object) -> None:
        build_index(these, target, memory_mb=16, workers=1)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        build(Stopping(documents, 300))
    assert not target.exists()
    runs = {path: path.stat().st_mtime_ns for path in (tmp_path / "x.cooc.building").glob("part-*-run-*")}
    assert len(runs) > 2
    changed = [(key, text.replace("w2 ", "w3 ") if i > 200 else text) for i, (key, text) in enumerate(documents)]
    with pytest.raises(KeyboardInterrupt):
        build(Stopping(changed, 350))
    retained = [path for path, written in runs.items() if path.stat().st_mtime_ns == written]
    assert 0 < len(retained) < len(runs)
    build(changed[:330])
    assert same(open_index(target, verify=True), memory_index(text for _, text in changed[:330]))


def test_a_build_that_was_killed_while_it_removed_its_folder_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, target = documents_of(3, 40), tmp_path / "x.cooc"

    def remove_one(folder: Path) -> None:
        for file in folder.glob("part-*-run-*"):
            file.unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("factgym.corpora.cooccurrence.building._clear", remove_one)
        build_index(documents, target, workers=1)
    build_index(documents, target, workers=1)
    assert same(open_index(target, verify=True), memory_index(text for _, text in documents))
    assert [path.name for path in tmp_path.iterdir()] == ["x.cooc"]


def test_other_settings_start_anew(tmp_path: Path) -> None:
    documents = documents_of(5, 50)
    target = tmp_path / "x.cooc"
    with pytest.raises(KeyboardInterrupt):
        build_index(Stopping(documents, 40), target, workers=1)
    build_index(documents, target, workers=1, case="fold")
    assert same(open_index(target), memory_index((text for _, text in documents), case="fold"))
    build_index(documents, target, workers=1, resume=False)
    assert same(open_index(target), memory_index(text for _, text in documents))


def build_in_small_parts(corpus: Path, target: Path, workers: int) -> None:
    building.TOKEN_BYTES = building.POSTING_BYTES = 1 << 12
    build_index(Source(corpus, part_bytes=80_000), target, memory_mb=32, workers=workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_build_never_leaves_half_an_index(tmp_path: Path, workers: int) -> None:
    documents = documents_of(6, 1200)
    corpus, target = write_jsonl(tmp_path / "c.jsonl", documents), tmp_path / "x.cooc"
    folder = tmp_path / "x.cooc.building"
    arguments, size = (corpus, target, workers), 4 * size_of(corpus)
    kills = kill_until_done(
        build_in_small_parts, arguments, folder, size, seed=workers,
        after=lambda: target.exists() and open_index(target, verify=True),
    )  # fmt: skip
    assert kills >= 2
    assert same(open_index(target, verify=True), memory_index(text for _, text in documents))
    assert not folder.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the lock is the system's own")
def test_two_builds_of_one_index_do_not_meet(tmp_path: Path) -> None:
    target = tmp_path / "x.cooc"

    def documents() -> Iterator[tuple[str, str]]:
        yield "a", "A"
        with pytest.raises(ConfigError, match="another process is building"):
            build_index([("b", "B")], target, workers=1)
        yield "c", "C"

    build_index(documents(), target, workers=1)
    assert open_index(target).documents == 2


@pytest.fixture
def no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled beside a build, which would be measured with it."""
    engine.counting_module.wait()
    engine.text_module.wait()
    monkeypatch.setattr("factgym.corpora.cooccurrence.build.counting_kernels", lambda engine, load: None)
    monkeypatch.setattr("factgym.corpora.cooccurrence.segments.text_kernels", lambda load: None)


@pytest.mark.usefixtures("no_compiling")
def test_building_keeps_to_its_memory(tmp_path: Path) -> None:
    """A million tokens, which take fifty megabytes when inverted at once, in a budget of sixteen."""
    text = " ".join(f"w{int(x)}" for x in np.random.default_rng(0).pareto(0.7, 20_000))
    tracemalloc.start()
    try:
        build_index(((str(i), text) for i in range(50)), tmp_path / "x.cooc", memory_mb=16, workers=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 << 20
    assert open_index(tmp_path / "x.cooc").tokens == 1_000_000


@pytest.mark.usefixtures("no_compiling")
def test_counting_keeps_to_its_memory(tmp_path: Path) -> None:
    """A list of seventy-five thousand positions, 600 kB when decoded, is never decoded whole."""
    build_index(((str(i), "A B " * 5000) for i in range(15)), tmp_path / "x.cooc", workers=1)
    for semantics, expected in (("infini-gram", 75_000 - 14), ("window", 75_000)):
        index = open_index(tmp_path / "x.cooc", memory_mb=2, engine="numpy", semantics=semantics, window=3)
        tracemalloc.start()
        try:
            assert index.count(["A", "B"]) == expected
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1 << 18


def test_mistakes_are_told(tmp_path: Path) -> None:
    for options, message in (
        ({"workers": 0}, "workers is at least 1"),
        ({"workers": 1, "memory_mb": 8}, "memory_mb is at least 16"),
        ({"workers": 1, "case": "lower"}, "case is"),
    ):
        with pytest.raises(ConfigError, match=message):
            build_index([], tmp_path / "x.cooc", **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is a folder"):
        build_index([], tmp_path, workers=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made"):
        build_index([], tmp_path / "file" / "x.cooc", workers=1)


def test_a_corpus_that_is_too_large_is_refused_as_soon_as_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("factgym.corpora.cooccurrence.store.MAX_POSITIONS", 1000)
    read = 0

    def documents() -> Iterator[tuple[str, str]]:
        nonlocal read
        for read in range(100_000):
            yield str(read), "A " * 4000

    with pytest.raises(DataError, match="up to 1,000 positions"):
        build_index(documents(), tmp_path / "x.cooc", memory_mb=16, workers=1)
    assert read < 10_000
    with pytest.raises(DataError, match="split the corpus"):
        memory_index(["A " * 2000])


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("factgym.corpora.cooccurrence.store.os.fsync", full)
        with pytest.raises(DataError, match="No space left on device"):
            build_index([("a", "A")], tmp_path / "x.cooc", workers=1)
    build_index([("a", "A")], tmp_path / "x.cooc", workers=1)
    assert open_index(tmp_path / "x.cooc").count(["A"]) == 1


class Deadly(Source):
    """A source whose reader is killed, as by a system that is short of memory."""

    def read(self, part: Part, bad: BadRecords | None = None) -> Iterator[tuple[str, str]]:
        yield "a", "A"
        os._exit(9)


def test_a_worker_that_is_killed_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a worker of the build was killed"):
        build_index(Deadly(write_jsonl(tmp_path / "c.jsonl", [("a", "A")])), tmp_path / "x.cooc", workers=2)
    assert not (tmp_path / "x.cooc").exists()


def test_omissions_of_a_source_are_counted(tmp_path: Path) -> None:
    corpus = write_jsonl(tmp_path / "c.jsonl", documents_of(7, 20))
    corpus.write_text(corpus.read_text() + "{broken\n")
    with pytest.raises(DataError, match=r"c\.jsonl"):
        build_index(Source(corpus), tmp_path / "x.cooc", workers=1)
    built = build_index(Source(corpus, skip_bad=True), tmp_path / "x.cooc", workers=2)
    assert (built.documents, built.bad, len(built.messages)) == (20, 1, 1)


def test_two_words_of_one_hash_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, lengths = np.zeros(2, np.uint64), np.array([1, 1])
    with pytest.raises(DataError, match="share a 64-bit hash"):
        segments.check_spelling(keys, lengths, np.frombuffer(b"ab", np.uint8), np.array([0, 1]))
    segments.check_spelling(keys, lengths, np.frombuffer(b"aa", np.uint8), np.array([0, 1]))
    monkeypatch.setattr("factgym.corpora.cooccurrence.store.word_keys", lambda words: np.zeros(2, np.uint64))
    with pytest.raises(DataError, match="share a 64-bit hash"):
        memory_index(["a b"])
