"""Triples out of files: the seven benchmarks, their gold evidence in the paragraphs, users' own rows, and faults."""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError, DataError
from factgym.corpora.build import read_passages
from factgym.corpora.corpus import Corpus, Passage
from factgym.datasets.multihop import BENCHMARKS, Evidence, Triple, read_triples, triple_file, triple_row
from factgym.datasets.questions import read_questions
from factgym.generators.multihop_world import world

REAL = {
    ("nq", "dev"): 3610,
    ("nq", "efficientqa"): 1800,
    ("nq", "oracle"): 2655,
    ("triviaqa", "validation"): 1805,
    ("triviaqa", "sample"): 150,
    ("popqa", "test"): 14267,
    ("popqa", "paragraphs"): 250,
    ("hotpotqa", "distractor"): 200,
    ("hotpotqa", "dev"): 7405,
    ("hotpotqa", "r1"): 500,
    ("2wikimultihopqa", "dev"): 200,
    ("2wikimultihopqa", "r1"): 500,
    ("musique", "dev"): 500,
    ("bamboogle", "test"): 125,
}
GOLD = {
    ("hotpotqa", "distractor"): (473, 200),
    ("2wikimultihopqa", "dev"): (414, 164),
    ("popqa", "paragraphs"): (500, 250),
    ("nq", "oracle"): (2655, 2655),
}
"""Pieces of gold evidence, all of which are found, and the questions that have some; as in the index of the data."""


def written(file: Path, rows: list[Any] | str) -> Path:
    file.write_text(rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


@pytest.mark.parametrize("benchmark, split", REAL)
def test_real_files_have_the_number_of_questions_of_their_index(data_dir: Path, benchmark: str, split: str) -> None:
    triples = read_triples(benchmark, data_dir, split)
    assert len(triples) == REAL[benchmark, split]
    assert len({triple.id for triple in triples}) == len(triples)
    assert all(triple.question.strip() and triple.answers and triple.benchmark == benchmark for triple in triples)
    if next(iter(BENCHMARKS[benchmark].splits)) == split:
        assert read_triples(benchmark, data_dir) is triples
    gold = GOLD.get((benchmark, split), (0, 0))
    assert (triples.located_facts, triples.facts) == (gold[0], gold[0])
    assert sum(bool(triple.evidence) for triple in triples) == gold[1]


@pytest.mark.parametrize("benchmark, split", GOLD)
def test_gold_evidence_matches_the_paragraphs_of_its_file(data_dir: Path, benchmark: str, split: str) -> None:
    triples = read_triples(benchmark, data_dir, split)
    corpus = triples.corpus
    assert corpus is not None
    assert all(span.matches(corpus) for triple in triples for span in triple.evidence)
    assert read_triples("triviaqa", data_dir).corpus is None


def test_gold_sentences_are_those_that_the_data_set_names(data_dir: Path) -> None:
    """Resolved again by hand from the raw rows, without our readers."""
    for benchmark, name in (("hotpotqa", "hotpot_distractor_sample"), ("2wikimultihopqa", "2wiki_dev_sample")):
        lines = (data_dir / benchmark / f"{name}_migres.json").read_text("utf-8").splitlines()
        for line, triple in zip(lines, read_triples(benchmark, data_dir), strict=True):
            row = json.loads(line)
            contexts = dict(row.get("context", []))
            raw = [contexts[title][number].strip() for title, number in row["supporting_facts"] if title in contexts]
            assert [span.text for span in triple.evidence] == list(dict.fromkeys(raw))
            assert triple.question == row["question"].strip() and triple.answer == row["answer"]
            assert triple.meta["own_id"] == row["_id"] and triple.kind == row["type"]


def test_hops_are_read_off_the_rows(data_dir: Path) -> None:
    wiki = read_triples("2wikimultihopqa", data_dir)
    by_kind = {
        kind: Counter(triple.hops for triple in wiki if triple.kind == kind)
        for kind in ("bridge_comparison", "compositional")
    }
    assert by_kind == {"bridge_comparison": Counter({4: 56}), "compositional": Counter({2: 61})}
    assert {triple.hops for triple in read_triples("hotpotqa", data_dir, "dev")} == {2}
    assert {triple.hops for triple in read_triples("bamboogle", data_dir)} == {2}
    assert {triple.hops for triple in read_triples("popqa", data_dir)} == {1}
    assert {triple.hops for triple in read_triples("nq", data_dir)} == {None}


def test_questions_with_several_answers_are_read_as_question_sets_are(data_dir: Path) -> None:
    for benchmark, name in (("nq", "nq-open"), ("triviaqa", "triviaqa"), ("popqa", "popqa")):
        actual, reference = read_triples(benchmark, data_dir), read_questions(name, data_dir)
        assert [(question.question, question.answers) for question in actual] == [
            (question.question, question.aliases) for question in reference
        ]


def test_supporting_facts_without_a_context_are_kept_by_name(data_dir: Path) -> None:
    bare = [triple for triple in read_triples("2wikimultihopqa", data_dir) if not triple.evidence]
    assert len(bare) == 36
    assert bare[0].meta["supporting_facts"] == [["Jatt & Juliet", 0], ["Sciopèn", 0], ["Anurag Singh (director)", 0], ["Luciano Odorisio", 0]]  # fmt: skip


def test_evidence_of_one_file_is_found_in_the_corpus_of_another(data_dir: Path) -> None:
    corpus = read_passages(data_dir / "2wikimultihopqa" / "2wikimultihopqa_corpus.json")
    moved = [triple.located_in(corpus) for triple in read_triples("2wikimultihopqa", data_dir)]
    evidence = [span for triple in moved for span in triple.evidence]
    placed = [span for span in evidence if span.is_placed]
    assert len(evidence) == 414 and len(placed) == 85  # the two files are different samples
    assert all(span.matches(corpus) for span in placed)


HUB_CONTEXT = {"title": ["A", "B"], "sentences": [["A is x.", "It is y."], ["B is z."]]}
HUB_FACTS = {"title": ["B", "A"], "sent_id": [0, 1]}
SPANS = (Evidence("B", 0, 7, "B is z."), Evidence("A", 8, 16, "It is y."))
MUSIQUE = {
    "id": "3hop1__1_2_3",
    "question": "q?",
    "answer": "z; w",
    "answer_aliases": ["zz"],
    "answerable": True,
    "question_decomposition": [{"id": 1}, {"id": 2}, {"id": 3}],
    "paragraphs": [
        {"idx": 0, "title": "A", "paragraph_text": "A is x.", "is_supporting": False},
        {"idx": 1, "title": "A", "paragraph_text": "A is y.", "is_supporting": True},
    ],
}
LAYOUTS: dict[str, tuple[str, dict[str, Any], Triple]] = {
    "HotpotQA of the hub": (
        "hotpotqa",
        {"id": "h", "question": "q?", "answer": "z", "type": "bridge", "level": "easy", "context": HUB_CONTEXT, "supporting_facts": HUB_FACTS},
        Triple("", "q?", ("z",), SPANS, 2, "hotpotqa", "bridge"),
    ),
    "HotpotQA of FlashRAG": (
        "hotpotqa",
        {"id": "h", "question": "q?", "golden_answers": ["z"], "metadata": {"type": "bridge", "context": HUB_CONTEXT, "supporting_facts": HUB_FACTS}},
        Triple("", "q?", ("z",), SPANS, 2, "hotpotqa", "bridge"),
    ),
    "2Wiki as published": (
        "2wikimultihopqa",
        {"_id": "w", "question": "q?", "answer": "yes", "type": "comparison", "context": [["A", ["A is x."]], ["B", []]], "supporting_facts": [["A", 0], ["A", 0]]},
        Triple("", "q?", ("yes",), (Evidence("A", 0, 7, "A is x."),), 1, "2wikimultihopqa", "comparison"),
    ),
    "MuSiQue": ("musique", MUSIQUE, Triple("", "q?", ("z; w", "zz"), (Evidence("A#2", 0, 7, "A is y."),), 3, "musique")),
    "MuSiQue by its id": ("musique", {"id": "4hop2__1", "question": "q?", "answer": "z"}, Triple("", "q?", ("z",), (), 4, "musique")),
    "PopQA of FlashRAG": (
        "popqa",
        {"id": "p", "question": "q?", "golden_answers": ["z", "zz"], "metadata": {"s_pop": 3, "prop": "sport"}},
        Triple("", "q?", ("z", "zz"), (), 1, "popqa"),
    ),
    "NQ of DPR": (
        "nq",
        {"question": "q?", "answers": ["z"], "ctxs": [{"title": "A", "text": "A is x.", "isgold": False}, {"title": "B", "text": "B is z.", "isgold": True}]},
        Triple("", "q?", ("z",), (Evidence("B", 0, 7, "B is z."),), None, "nq"),
    ),
    "R1-Searcher": ("bamboogle", {"idx": 7, "question": "q?", "answer": 1984, "gen_text_store": ""}, Triple("", "q?", ("1984",), (), 2, "bamboogle")),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_the_same_record(tmp_path: Path, name: str) -> None:
    benchmark, row, expected = LAYOUTS[name]
    triples = read_triples(benchmark, written(tmp_path / "a.jsonl", [row]))
    (triple,) = triples
    assert (triple.question, triple.answers, triple.evidence, triple.hops, triple.benchmark, triple.kind) == (
        expected.question,
        expected.answers,
        expected.evidence,
        expected.hops,
        expected.benchmark,
        expected.kind,
    )
    if triple.evidence:
        assert triples.corpus is not None and all(span.matches(triples.corpus) for span in triple.evidence)
    assert pickle.loads(pickle.dumps(triples)) is triples
    assert pickle.loads(pickle.dumps(triple)) == triple and copy.deepcopy(triple) is triple


def test_facts_that_the_context_lacks_are_counted_and_not_made_up(tmp_path: Path) -> None:
    row = {
        "question": "q?",
        "answer": "z",
        "context": [["A", ["A is x.", " "]]],
        "supporting_facts": [["A", 0], ["A", 1], ["A", 2], ["C", 0]],
    }
    triples = read_triples("hotpotqa", written(tmp_path / "a.jsonl", [row]))
    assert (triples.located_facts, triples.facts) == (1, 4)
    assert [span.text for span in triples[0].evidence] == ["A is x."]


@pytest.mark.parametrize(
    "row, message",
    [
        ({"question": "q"}, "line 2: no answer under golden_answers or answers or answer"),
        ({"question": "q", "answer": []}, "line 2: the question has no answer"),
        ({"question": "q", "answer": {"x": 1}}, "line 2: an answer is a dict"),
        ({"question": "q", "answer": True}, "line 2: an answer is a bool"),
        ({"question": "q", "answer": "x" * 4001}, "line 2: an answer has 4,001 characters"),
        ({"question": " ", "answer": "x"}, "line 2: 'question' is empty"),
        ({"question": "q", "answer": "x", "supporting_facts": 5}, "line 2: 'supporting_facts' must be a list, not a int"),
        ({"question": "q", "answer": "x", "supporting_facts": [["T"]]}, "line 2: a supporting fact must be a title and"),
        ({"question": "q", "answer": "x", "supporting_facts": [["T", -1]]}, "line 2: a supporting fact must be"),
        ({"question": "q", "answer": "x", "supporting_facts": [["T", True]]}, "line 2: a supporting fact must be"),
        ({"question": "q", "answer": "x", "supporting_facts": {"title": [], "sent_id": [1]}}, "line 2: 'supporting_facts' must hold"),
        ({"question": "q", "answer": "x", "context": 7}, "line 2: 'context' must be a list, not a int"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_with_its_file_and_line(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    file = written(tmp_path / "a.jsonl", [{"question": "q", "answer": "x"}, row])
    with pytest.raises(DataError, match=rf"a\.jsonl {message}"):
        read_triples("hotpotqa", file)


def test_names_paths_and_splits_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no benchmark 'hotpot'\. Did you mean 'hotpotqa'"):
        read_triples("hotpot", tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        read_triples("nq", tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match="bamboogle has no split 'train'"):
        read_triples("bamboogle", tmp_path, "train")
    with pytest.raises(DataError, match="holds no musique: looked for musique/"):
        read_triples("musique", tmp_path)
    with pytest.raises(ConfigError, match="is a folder: name the file of triples"):
        read_triples("triples", tmp_path)
    with pytest.raises(DataError, match="holds no question"):
        read_triples("nq", written(tmp_path / "a.jsonl", "\n"))


def test_the_file_of_a_benchmark_is_found_in_a_folder(tmp_path: Path, data_dir: Path) -> None:
    assert triple_file("hotpotqa", data_dir).name == "hotpot_distractor_sample_migres.json"
    assert triple_file("2wikimultihopqa", data_dir).name == "2wiki_dev_sample_migres.json"
    assert {name: triple_file(name, data_dir).is_file() for name in BENCHMARKS} == dict.fromkeys(BENCHMARKS, True)
    train = written(tmp_path / "hotpot_train_v1.1.json", [])
    with pytest.raises(DataError, match="holds no hotpotqa: looked for hotpotqa/hotpot_dev_distractor_v1"):
        triple_file("hotpotqa", tmp_path)
    assert triple_file("hotpotqa", tmp_path, "train") == train
    simple = written(tmp_path / "hotpot_dev_v1_simplified.json", [])
    assert triple_file("hotpotqa", tmp_path) == simple


def test_fingerprints_follow_bytes_and_names(tmp_path: Path) -> None:
    row = {"question": "q", "answer": "x"}
    prints = {
        read_triples(benchmark, written(tmp_path / name, [rows])).fingerprint()
        for benchmark, name, rows in (
            ("hotpotqa", "a.jsonl", row),
            ("musique", "a.jsonl", row),
            ("hotpotqa", "b.jsonl", row),
            ("hotpotqa", "c.jsonl", {**row, "answer": "y"}),
        )
    }
    assert len(prints) == 4


def test_written_triples_are_read_back(tmp_path: Path, data_dir: Path) -> None:
    made = [*world(0, 40, "test")[1], *read_triples("hotpotqa", data_dir)[:20]]
    file = tmp_path / "solver.jsonl"
    rows = [triple_row(triple) for triple in made]
    written(file, [{**row, "V": at / 30 if at < 30 else None} for at, row in enumerate(rows)])
    triples = read_triples("triples", file)
    assert list(triples) == made
    assert [triple.meta.get("V") for triple in triples] == [at / 30 for at in range(30)] + [None] * 30
    assert all(
        {**triple.meta, "V": None} == {**second.meta, "V": None} for triple, second in zip(triples, made, strict=True)
    )
    again = [json.dumps(triple_row(triple)) for triple in triples]
    assert again == [json.dumps(json.loads(line)) for line in file.read_text("utf-8").splitlines()]


@given(st.lists(st.lists(st.text("ab. \n\u00a0é", max_size=6), max_size=5), max_size=3))
def test_every_sentence_of_a_context_is_a_slice_of_its_paragraph(
    tmp_path_factory: pytest.TempPathFactory, contexts: list[list[str]]
) -> None:
    """Whatever the spaces at their ends, and whichever sentences are blank."""
    facts = [[f"T{at}", number] for at, passage in enumerate(contexts) for number in range(len(passage))]
    row = {
        "question": "q",
        "answer": "x",
        "context": [[f"T{at}", passage] for at, passage in enumerate(contexts)],
        "supporting_facts": facts,
    }
    triples = read_triples("hotpotqa", written(tmp_path_factory.mktemp("t") / "t.jsonl", [row]))
    assert [span.text for span in triples[0].evidence] == [
        part.strip() for passage in contexts for part in passage if part.strip()
    ]
    if triples[0].evidence:
        assert triples.corpus is not None and all(span.matches(triples.corpus) for span in triples[0].evidence)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(lambda inner: f"x{inner}y")
spans = st.builds(
    lambda document, start, text: Evidence(document, start, start + len(text), text), texts, st.integers(0, 999), texts
) | st.builds(lambda text: Evidence("", None, None, text), texts)
triples = st.builds(
    Triple,
    id=texts,
    question=texts,
    answers=st.lists(texts, min_size=1, max_size=4, unique=True).map(tuple),
    evidence=st.lists(spans, max_size=3).map(tuple),
    hops=st.none() | st.integers(1, 9),
    benchmark=texts,
    kind=st.none() | texts,
    meta=st.dictionaries(texts, texts, max_size=2),
)


@given(triples, st.none() | st.floats(-1, 1))
def test_any_triple_survives_writing(
    tmp_path_factory: pytest.TempPathFactory, triple: Triple, value: float | None
) -> None:
    file = tmp_path_factory.mktemp("t") / "t.jsonl"
    written(file, [{**triple_row(triple), "V": value}])
    (result,) = read_triples("triples", file)
    assert result == triple
    assert result.meta.get("V") == value
    assert {key: item for key, item in result.meta.items() if key != "V"} == triple.meta


ROW = {"schema": 1, "id": "t1", "question": "q", "answer": "x", "answers": ["x"], "evidence": [], "hops": 1, "V": 0.5, "meta": {}}  # fmt: skip


@pytest.mark.parametrize(
    "change, message",
    [
        ({"schema": 2}, "line 1: written in schema 2, and 1 is understood"),
        ({"id": ""}, "line 1: 'id' is empty"),
        ({"id": None}, "line 1: 'id' must be a text, and is missing"),
        ({"answer": None, "answers": []}, "line 1: 'answer' must be a text, and is missing"),
        ({"answers": "x"}, "line 1: 'answers' must be a list"),
        ({"hops": 0}, "line 1: 'hops' must be a whole number from 1"),
        ({"hops": True}, "line 1: 'hops' must be a whole number from 1"),
        ({"V": "high"}, "line 1: 'V' must be a finite number"),
        ({"V": float("nan")}, "line 1: 'V' must be a finite number"),
        ({"meta": [1]}, "line 1: 'meta' must be an object"),
        ({"evidence": {"a": 1}}, "line 1: 'evidence' must be a list"),
        ({"evidence": ["x"]}, "line 1, evidence 0: an object with document, start, end and text"),
        ({"evidence": [{"document": "d", "start": 0, "end": 1, "text": ""}]}, "line 1, evidence 0: 'text' and 'document'"),
        ({"evidence": [{"document": 3, "start": 0, "end": 1, "text": "x"}]}, "evidence 0: 'text' and 'document'"),
        ({"evidence": [{"document": "d", "start": 0, "end": 2, "text": "x"}]}, "'start' and 'end' must be offsets 1 characters apart"),
        ({"evidence": [{"document": "d", "start": -1, "end": 0, "text": "x"}]}, "'start' and 'end' must be offsets"),
        ({"evidence": [{"document": "d", "start": 0, "text": "x"}]}, "'start' and 'end' must be offsets"),
    ],
)  # fmt: skip
def test_a_bad_triple_row_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    file = written(tmp_path / "a.jsonl", [{**ROW, **change}])
    with pytest.raises(DataError, match=message):
        read_triples("triples", file)


def test_triple_ids_are_unique(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl line 2: the id 't1' is on line 1 too"):
        read_triples("triples", written(tmp_path / "a.jsonl", [ROW, ROW]))


CORPUS = Corpus([Passage("a", "A", "One  fine\nday it ﬁts."), Passage("b", "B", "Another one.")])


def test_evidence_is_located_in_a_corpus() -> None:
    assert Evidence("b", 0, 7, "Another").matches(CORPUS)
    assert not Evidence("b", 1, 8, "Another").matches(CORPUS)
    assert not Evidence("c", 0, 7, "Another").matches(CORPUS)
    assert not Evidence("b", None, None, "Another").matches(CORPUS)
    assert Evidence("b", 3, 10, "Another").locate(CORPUS) == Evidence("b", 0, 7, "Another")
    assert Evidence("", None, None, "fine day").locate(CORPUS, ("b", "a")) == Evidence("a", 5, 13, "fine\nday")
    assert Evidence("a", None, None, "it fits").locate(CORPUS) == Evidence("a", 14, 20, "it ﬁts")
    assert Evidence("a", None, None, "it fit").locate(CORPUS) is not None  # whole characters of the text
    assert Evidence("a", None, None, "It fits").locate(CORPUS) is None
    assert Evidence("b", None, None, "fine day").locate(CORPUS) is None
    assert Evidence("b", None, None, " ").locate(CORPUS) is None


def test_evidence_missing_from_the_corpus_keeps_its_text_without_a_span() -> None:
    triple = Triple("t", "q", ("x",), (Evidence("b", 0, 7, "Another"), Evidence("a", 0, 5, "Never")))
    located = triple.located_in(CORPUS)
    assert located.evidence == (Evidence("b", 0, 7, "Another"), Evidence("", None, None, "Never"))
    assert located.located_in(CORPUS) is located
