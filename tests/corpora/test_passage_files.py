"""Corpora out of files: every layout, packed and not, real and broken files, memory that stays flat, stored corpora."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.build import read_passages
from factgym.corpora.corpus import Corpus, Passage, shards
from factgym.corpora.index import build_index
from factgym.corpora.passage_files import LAYOUTS, iter_passages
from factgym.corpora.rows import read_rows, stem_of

PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}

CONTEXT = [
    ["Neil Peart", ["Neil Peart is a drummer.", " He plays in Rush."]],
    ["Rush", ["Rush is a band.", "It is Canadian."]],
]
TEXTS = {"Neil Peart": "Neil Peart is a drummer. He plays in Rush.", "Rush": "Rush is a band. It is Canadian."}
HUB = {"title": ["Neil Peart", "Rush"], "sentences": [pair[1] for pair in CONTEXT]}
MUSIQUE = [{"idx": 0, "title": title, "paragraph_text": text, "is_supporting": True} for title, text in TEXTS.items()]
SQUAD = {"version": "1.1", "data": [{"title": title.replace(" ", "_"), "paragraphs": [{"context": text, "qas": []}]} for title, text in TEXTS.items()]}  # fmt: skip

FILES: dict[str, tuple[str, Any]] = {
    "HotpotQA": ("a.json", [{"_id": "1", "question": "q", "answer": "a", "context": CONTEXT}]),
    "HotpotQA as JSON lines": ("a.json", json.dumps({"question": "q", "context": CONTEXT})),
    "HotpotQA of the hub": ("a.jsonl", json.dumps({"question": "q", "context": HUB})),
    "HotpotQA of FlashRAG": ("a.jsonl", json.dumps({"question": "q", "golden_answers": ["a"], "metadata": {"context": HUB}})),
    "MuSiQue": ("a.jsonl", json.dumps({"id": "2hop__1", "question": "q", "paragraphs": MUSIQUE})),
    "PopQA": ("a.json", [{"paragraphs": [{"title": title, "text": text} for title, text in TEXTS.items()]}]),
    "DPR": ("a.json", [{"ctxs": [{"title": title, "text": text} for title, text in TEXTS.items()]}]),
    "SQuAD": ("a.json", SQUAD),
    "SQuAD on one line": ("a.json", json.dumps(SQUAD)),
    "2Wiki's corpus": ("a.json", [{"title": title, "text": text} for title, text in TEXTS.items()]),
    "table": ("a.tsv", "title\ttext\n" + "".join(f"{title}\t{text}\n" for title, text in TEXTS.items())),
    "CSV": ("a.csv", "title,text\n" + "".join(f"{title},{text}\n" for title, text in TEXTS.items())),
}  # fmt: skip


def written(file: Path, content: Any) -> Path:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
    file.write_text(text, "utf-8")
    return file


@pytest.mark.parametrize("name", FILES)
def test_every_layout_gives_the_same_passages_with_titles_as_ids(tmp_path: Path, name: str) -> None:
    file, content = FILES[name]
    passages = read_passages(written(tmp_path / file, content))
    assert {passage.id: passage.text for passage in passages} == TEXTS
    assert [passage.title for passage in passages] == list(TEXTS)


FLASHRAG = [
    {"id": "0", "contents": '"Aaron"\nAaron is a prophet.\nHe was the brother of Moses.'},
    {"id": 17, "contents": "Moses\nMoses led the people."},
    {"id": "x", "contents": "No title here."},
]


@pytest.mark.parametrize("suffix", PACKERS)
def test_flashrag_lines_keep_their_ids_and_give_titles(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"wiki.jsonl{suffix}"
    file.write_bytes(PACKERS[suffix]("\n".join(map(json.dumps, FLASHRAG)).encode()))
    assert list(read_passages(file)) == [
        Passage("0", "Aaron", "Aaron is a prophet.\nHe was the brother of Moses."),
        Passage("17", "Moses", "Moses led the people."),
        Passage("x", "", "No title here."),
    ]
    assert list(read_passages(file, layout="flashrag")) == list(read_passages(file))


def test_repeated_titles_get_distinct_ids_and_shared_paragraphs_are_one_passage(tmp_path: Path) -> None:
    rows = [
        {"context": [["Rush", ["A band."]], ["Rush", ["A hurry."]]]},
        {"context": [["Rush", ["A hurry."]], ["Rush#2", ["A trap."]], ["Rush", ["A plant."]]]},
    ]
    passages = read_passages(written(tmp_path / "a.json", rows))
    assert {passage.id: passage.text for passage in passages} == {
        "Rush": "A band.",
        "Rush#2": "A hurry.",
        "Rush#2#2": "A trap.",
        "Rush#3": "A plant.",
    }
    corpus = written(tmp_path / "b.json", [{"title": "Rush", "text": "A band."}, {"title": "Rush", "text": "A band."}])
    assert read_passages(corpus).ids == ("Rush", "Rush#2")  # a corpus says what it holds, also twice


REAL = {
    "2wikimultihopqa/2wikimultihopqa_corpus.json": 6119,
    "2wikimultihopqa/2wiki_dev_sample_migres.json": 1294,
    "hotpotqa/hotpot_distractor_sample_migres.json": 1971,
    "squad/dev-v1.1.json": 2067,
    "squad/cs224n_dev-v2.0.json": 646,
    "popqa/popqa.json": 408,
    "nq_open/nq-open-oracle.jsonl.gz": 2599,
}


@pytest.mark.parametrize("file", REAL)
def test_real_files_are_read_whole(data_dir: Path, file: str) -> None:
    passages = read_passages(data_dir / file)
    assert len(passages) == REAL[file]
    assert all(passage.text and passage.title for passage in passages)


def test_the_contexts_of_2wiki_are_passages_of_its_corpus_under_the_same_ids(data_dir: Path) -> None:
    corpus = read_passages(data_dir / "2wikimultihopqa" / "2wikimultihopqa_corpus.json")
    contexts = read_passages(data_dir / "2wikimultihopqa" / "2wiki_dev_sample_migres.json")
    common = [passage for passage in contexts if passage.id in corpus]
    assert len(common) == 408
    assert all(corpus.get(item.id).text == item.text for item in common)


def test_squad_paragraphs_are_the_contexts_to_the_letter(data_dir: Path) -> None:
    value = json.loads((data_dir / "squad" / "dev-v1.1.json").read_text("utf-8"))
    contexts = [item["context"].strip() for article in value["data"] for item in article["paragraphs"]]
    assert [passage.text for passage in read_passages(data_dir / "squad" / "dev-v1.1.json")] == contexts


def test_folders_of_texts_and_of_rows(tmp_path: Path, data_dir: Path) -> None:
    policies = read_passages(data_dir / "policies_basecamp")
    assert len(policies) > 100 and all("#" in passage.id for passage in policies)
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(3):
        written(folder / f"part-{number}.jsonl", json.dumps({"id": number, "contents": f"T{number}\ntext {number}"}))
    assert read_passages(folder).ids == ("0", "1", "2")
    written(tmp_path / "a.md", "# Returns\n\nGoods may be sent back within thirty days.\n")
    assert [passage.title for passage in read_passages(tmp_path / "a.md")] == ["Returns"]
    assert [passage.title for passage in read_passages(tmp_path / "a.md", layout="folder")] == ["Returns"]


def test_an_index_over_real_passages_finds_the_answers(data_dir: Path) -> None:
    corpus = read_passages(data_dir / "2wikimultihopqa" / "2wikimultihopqa_corpus.json")
    hits = build_index(corpus).search(["Who directed the film Forbidden Ground?", "wife of Lothair II queen"], 3)
    assert hits[0][0].id == "Forbidden Ground"
    assert "Teutberga" in {hit.id for hit in hits[1]}


GOOD = '{"id": "0", "contents": "T\\ntext"}'


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.jsonl", f"{GOOD}\n{{", r"a\.jsonl line 2: not valid JSON"),
        ("a.jsonl", f'{GOOD}\n\n{{"id": "0", "contents": "again"}}', "line 3: the id '0' is at line 1 too"),
        ("a.jsonl", f'{GOOD}\n{{"id": "1"}}', "line 2: no 'contents' in this row of the layout flashrag"),
        ("a.jsonl", f'{GOOD}\n{{"id": "1", "contents": " "}}', "line 2: a passage without text"),
        ("a.jsonl", f'{GOOD}\n{{"id": "1", "contents": ["x"]}}', "line 2: the text of a passage must be a string, not a list"),
        ("a.jsonl", f'{GOOD}\n{{"id": true, "contents": "x"}}', "line 2: 'id' must be a text or a whole number"),
        ("a.jsonl", f'{GOOD}\n{{"id": "{"x" * 301}", "contents": "x"}}', "line 2: 'id' has 301 characters"),
        ("a.jsonl", f"{GOOD}\n[1]", "line 2: a JSON object is expected, not a list"),
        ("a.jsonl", f"{GOOD}\n{'[' * 100_000}", "line 2: not usable JSON"),
        ("a.jsonl", '{"a": 1, "b": 2}', "line 1: no passage that is understood; its keys are a, b. Understood: web-pages"),
        ("a.jsonl", '{"text": 5}', "line 1: the text of a passage must be a string, not a int"),
        ("a.jsonl", '{"text": "x", "title": 5}', "line 1: a title must be a text, not a int"),
        ("a.jsonl", '{"context": [["T"]]}', "line 1: a context must be a title with a list of sentences"),
        ("a.jsonl", '{"context": [["T", [5]]]}', "line 1: the text of a passage must be a string, not a int"),
        ("a.jsonl", '{"context": {"title": ["T"], "sentences": []}}', "line 1: 'context' must hold a list of titles"),
        ("a.jsonl", '{"paragraphs": ["T"]}', "line 1: a paragraph of 'paragraphs' must be an object"),
        ("a.jsonl", '{"ctxs": {}}', "line 1: 'ctxs' must be a list, not a dict"),
        ("a.jsonl", "\n \n", "holds no passage"),
        ("a.json", '[\n{"title": "T", "text": "x"},\n{"title": "U"\n]', r"a\.json line 3 \(entry 2\): not valid JSON .* on line 4"),
        ("a.json", '[\n{"title": "T", "text": "x"},\n5]', r"line 3 \(entry 2\): a JSON object is expected, not '5'"),
        ("a.json", '[{"title": "T", "text": "x"}', "line 1: , or ] is expected after entry 1, not the end of the file"),
        ("a.json", '[{"title": "T", "text": "x"}] x', "line 1: text after the end of the JSON array"),
        ("a.json", '{\n"data": [\n{"title": "T"}]}', "an article must be an object with a list of 'paragraphs'"),
        ("a.json", '{\n"data": [', "line 2: not valid JSON at column 10"),
        ("a.json", "[]", "holds no passage"),
        ("a.tsv", "title\ttext\nT\tx\ty\n", "line 2: 3 fields under 2 column names"),
    ],
)  # fmt: skip
def test_faults_are_named_with_file_and_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_passages(written(tmp_path / name, text))


def test_bytes_that_are_no_utf8_and_files_that_are_cut_off_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(GOOD.encode() + b'\n{"id": "\xff"}')
    with pytest.raises(DataError, match=r"a\.jsonl line 2: not UTF-8 \(byte 0xff at column 9\)"):
        read_passages(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(GOOD.encode() * 200)[:-9])
    with pytest.raises(DataError, match=r"b\.jsonl\.gz cannot be read to its end"):
        read_passages(tmp_path / "b.jsonl.gz")


def test_long_texts_long_lines_and_lone_surrogates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = written(tmp_path / "a.jsonl", json.dumps({"title": "T", "text": "x" * 1_000_001}))
    with pytest.raises(DataError, match="line 1: a passage of 1,000,001 characters; 1,000,000 are allowed"):
        read_passages(long)
    monkeypatch.setattr("factgym.corpora.rows.MAX_ROW_CHARS", 1000)
    with pytest.raises(DataError, match="line 1: longer than 1,000 characters"):
        read_passages(written(tmp_path / "b.jsonl", "x" * 3000))
    with pytest.raises(DataError, match=r"entry 1\): not valid JSON"):
        read_passages(written(tmp_path / "c.json", '[{"text": "' + "x" * 5_000_000))
    (passage,) = read_passages(written(tmp_path / "d.jsonl", '{"title": "T\\ud800", "text": "x\\udfff"}'))
    assert (passage.title, passage.text) == ("T�", "x�")


def test_a_packed_file_that_grows_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factgym.corpora.rows.MAX_BYTES", 300_000)
    monkeypatch.setattr("factgym.corpora.byte_ranges.CHUNK", 1 << 16)
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress(b"\n" * 5_000_000))
    with pytest.raises(DataError, match="more than 300,000 bytes unpacked"):
        read_passages(file)


def test_paths_layouts_and_suffixes_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_passages(tmp_path / "none.jsonl")
    file = written(tmp_path / "a.jsonl", GOOD)
    with pytest.raises(ConfigError, match=r"no layout 'flashrg' of passages .* Did you mean 'flashrag'"):
        read_passages(file, layout="flashrg")
    with pytest.raises(DataError, match=r"line 1: no passage that is understood; .* Understood: squad"):
        read_passages(file, layout="squad")
    with pytest.raises(DataError, match="no document found"):
        read_passages(written(tmp_path / "a.png", "x"))


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.text() | st.floats(allow_nan=False), st.lists, max_leaves=5), max_size=4), max_size=8),
    st.sampled_from([None, 1]),
    st.integers(1, 40),
)  # fmt: skip
def test_arrays_and_lines_read_as_the_standard_library_reads_them(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, Any]], indent: int | None, chunk: int
) -> None:
    """Wherever the pieces that are read end: inside an entry, a string, an escape or a character."""
    folder = tmp_path_factory.mktemp("rows")
    file = folder / "a.json"
    file.write_text(json.dumps(entries, ensure_ascii=False, indent=indent), "utf-8")
    lines = folder / "b.jsonl"
    lines.write_text("".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("factgym.corpora.byte_ranges.CHUNK", chunk)
        assert [row.values for row in read_rows(file)] == entries
        assert [row.values for row in read_rows(lines)] == entries
        assert [row.number for row in read_rows(file)] == list(range(1, len(entries) + 1))


def test_fields_of_tables_may_hold_blank_lines_and_lines_are_counted(tmp_path: Path) -> None:
    file = written(tmp_path / "a.tsv", 'id\ttext\ttitle\n1\t"one\n\ntwo ""x"""\tT\n\n2\tthree\tU\n')
    assert list(read_passages(file)) == [Passage("1", "T", 'one\n\ntwo "x"'), Passage("2", "U", "three")]
    assert [row.number for row in read_rows(file)] == [2, 6]


def test_every_byte_is_reported_in_order(tmp_path: Path) -> None:
    content = json.dumps([{"text": "é"}] * 50).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(content))
    observed: list[bytes] = []
    assert len(list(read_rows(tmp_path / "a.json.gz", observed.append))) == 50
    assert b"".join(observed) == content
    assert stem_of(tmp_path / "a.b.json.gz") == "a.b"


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three megabytes pass through less than two, most of which are two chunks and their text."""
    monkeypatch.setattr("factgym.corpora.byte_ranges.CHUNK", 1 << 18)
    entry = json.dumps({"id": 0, "contents": "T\n" + "word " * 200})
    entries = (entry.replace('"id": 0', f'"id": {number}') for number in range(3_000))
    content = ("[" + ",".join(entries) + "]" if name == "a.json" else "\n".join(entries)).encode()
    assert len(content) > 3_000_000
    (tmp_path / name).write_bytes(gzip.compress(content, 1) if name.endswith(".gz") else content)
    del content
    tracemalloc.start()
    count = sum(1 for _ in read_rows(tmp_path / name))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 3_000
    assert peak < 2_000_000


def corpus_of(size: int) -> Corpus:
    return Corpus(Passage(f"d{number}", "", "text") for number in range(size))


def test_shards_divide_a_corpus_by_a_hash_of_the_id() -> None:
    corpus = corpus_of(4000)
    training, held_out = shards(corpus, 0.25, seed=3)
    assert set(training) | set(held_out) == set(corpus.ids) and not set(training) & set(held_out)
    assert abs(len(held_out) / 4000 - 0.25) < 0.03
    assert shards(corpus, 0.25, seed=3) == (training, held_out)
    assert shards(corpus, 0.25, seed=4)[1] != held_out
    larger = shards(corpus_of(8000), 0.25, seed=3)[1]
    assert set(held_out) == {item for item in larger if item in corpus}
    assert set(held_out) < set(shards(corpus, 0.5, seed=3)[1])


def test_shares_that_leave_a_side_empty_are_refused() -> None:
    for share in (0, 1, -0.1, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="held_out is a share above 0 and below 1"):
            shards(corpus_of(10), share)
    with pytest.raises(ConfigError, match="leaves 1 to train on and 0 held out"):
        shards(corpus_of(1), 0.0001)


def test_files_are_read_once_and_layouts_are_named(tmp_path: Path) -> None:
    assert set(LAYOUTS) == {"web-pages", "flashrag", "title-text", "contexts", "squad"}
    file = written(tmp_path / "a.jsonl", GOOD)
    assert read_passages(file) is read_passages(str(file))


def test_passages_are_yielded_one_after_another(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", f"{GOOD}\n" + "{broken")
    passages = iter_passages(file)
    assert next(passages) == Passage("0", "T", "text")
    with pytest.raises(DataError, match="line 2"):
        next(passages)
