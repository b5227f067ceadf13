"""Readers of question files: every layout, the counts of the real files, agreement between independent copies."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from factgym.core.errors import ConfigError, DataError
from factgym.datasets.questions import BENCHMARKS, popularity_quartiles, read_questions, stratified_questions

REAL = {
    ("nq-open", "dev"): 3610,
    ("nq-open", "efficientqa"): 1800,
    ("webquestions", "test"): 2032,
    ("webquestions", "val"): 755,
    ("webquestions", "devtest"): 189,
    ("triviaqa", "validation"): 1805,
    ("popqa", "test"): 14267,
    ("simpleqa", "test"): 4326,
    ("truthfulqa", "test"): 817,
}


def written(tmp_path: Path, name: str, text: str | list[Any] | dict[str, Any]) -> Path:
    file = tmp_path / name
    file.write_text(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, indent=1), "utf-8")
    return file


@pytest.mark.parametrize("benchmark, split", REAL)
def test_real_files_have_the_number_of_questions_of_their_index(data_dir: Path, benchmark: str, split: str) -> None:
    questions = read_questions(benchmark, data_dir, split)
    assert len(questions) == REAL[benchmark, split]
    assert len({question.id for question in questions}) == len(questions)
    assert all(
        question.question.strip() and question.aliases and question.benchmark == benchmark for question in questions
    )
    if next(iter(BENCHMARKS[benchmark].splits)) == split:
        assert read_questions(benchmark, data_dir) is questions


def test_small_real_files_are_read_by_their_own_name(data_dir: Path) -> None:
    assert len(read_questions("triviaqa", data_dir / "triviaqa" / "triviaqa.json")) == 150
    popqa = read_questions("popqa", data_dir / "popqa" / "popqa.json")
    assert len(popqa) == 250
    assert popqa[0].question == "What is George Rankin's occupation?"
    assert popqa[0].aliases == ("politician", "political leader", "political figure", "polit.", "pol")
    assert popqa[0].popularity == 142
    assert popqa[0].meta["kind"] == "occupation"


def test_the_authors_copies_hold_the_same_questions_and_answers_as_the_originals(data_dir: Path) -> None:
    actual = read_questions("nq-open", data_dir)
    reference = read_questions("auto", data_dir / "corver_official" / "nq_open_validation.json")
    assert [question.question for question in actual] == [question.question for question in reference]
    assert [set(question.aliases) for question in actual] == [set(question.aliases) for question in reference]
    truthful = {question.question: set(question.aliases) for question in read_questions("truthfulqa", data_dir)}
    copied = {
        question.question: set(question.aliases)
        for question in read_questions("auto", data_dir / "corver_official" / "truthfulqa.json")
    }
    common = truthful.keys() & copied.keys()
    assert len(common) == 816  # two editions: one question and some answers were changed
    assert sum(copied[item] <= truthful[item] for item in common) == 809
    many = {(question.question, frozenset(question.aliases)) for question in read_questions("popqa", data_dir)}
    few = read_questions("popqa", data_dir / "popqa" / "popqa.json")
    assert sum((question.question, frozenset(question.aliases)) in many for question in few) == len(few)


TRIVIA = {
    "Data": [
        {
            "Question": "Which town is Sherry named after?",
            "QuestionId": "tc_1",
            "Answer": {"Value": "Jerez", "Aliases": ["Xeres", "Jerez"], "NormalizedAliases": ["xeres", "jerez"]},
        }
    ],
    "Domain": "Web",
}
LAYOUTS: dict[str, tuple[str, Any, str, tuple[str, ...]]] = {
    "NQ-Open": ("a.jsonl", '{"question": "who?", "answer": ["A; B", "C"]}', "who?", ("A; B", "C")),
    "training text": ("a.jsonl", '{"question": "who?", "answer": "A; B;;A"}', "who?", ("A", "B")),
    "TriviaQA": ("a.json", TRIVIA, "Which town is Sherry named after?", ("Jerez", "Xeres")),
    "TriviaQA on one line": ("a.json", json.dumps(TRIVIA), "Which town is Sherry named after?", ("Jerez", "Xeres")),
    "TriviaQA of the hub": (
        "a.jsonl",
        '{"question": "q?", "question_id": "x", "answer": {"value": "A", "aliases": ["B"]}}',
        "q?",
        ("A", "B"),
    ),
    "PopQA TSV": (
        "a.tsv",
        'id\tquestion\tobj\tpossible_answers\ts_pop\tprop\n7\tWho?\tA\t"[""A"", ""B""]"\t12\toccupation\n',
        "Who?",
        ("A", "B"),
    ),
    "WebQuestions": ("a.json", [{"qId": "w1", "qText": "what?", "answers": ["A", "B"]}], "what?", ("A", "B")),
    "WebQuestions as published": (
        "a.json",
        [{"url": "u", "utterance": "what?", "targetValue": '(list (description "A \\"x\\" B") (description C))'}],
        "what?",
        ('A "x" B', "C"),
    ),
    "SimpleQA": (
        "a.csv",
        "metadata,problem,answer\n\"{'topic': 'Art', 'answer_type': 'Person'}\",Who?,\"A; B\"\n",
        "Who?",
        ("A; B",),
    ),
    "the authors' files": (
        "a.json",
        [{"question": "Who?", "answer": "B; x", "aliases": ["A", "B; x"]}],
        "Who?",
        ("B; x", "A"),
    ),
    "own numbers": ("a.jsonl", '{"question": "How many?", "answer": 12}', "How many?", ("12",)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_question_and_answers(tmp_path: Path, name: str) -> None:
    file, content, question, aliases = LAYOUTS[name]
    (record,) = read_questions("auto", written(tmp_path, file, content))
    assert (record.question, record.aliases) == (question, aliases)
    assert pickle.loads(pickle.dumps(record)) == record


def test_further_fields_of_a_layout_are_kept(tmp_path: Path) -> None:
    (popqa,) = read_questions("popqa", written(tmp_path, *LAYOUTS["PopQA TSV"][:2]))
    assert (popqa.popularity, popqa.meta["kind"], popqa.meta["own_id"]) == (12.0, "occupation", "7")
    (simple,) = read_questions("simpleqa", written(tmp_path, *LAYOUTS["SimpleQA"][:2]))
    assert (simple.meta["kind"], simple.meta["answer_type"]) == ("Art", "Person")


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.jsonl", '{"question": "q", "answer": ["A"]}\n{"question": "", "answer": ["A"]}', r"a.jsonl line 2: 'question' is empty"),
        ("a.jsonl", '{"question": "q", "answer": []}', "line 1: the question has no answer"),
        ("a.jsonl", '{"question": "q", "answer": [" "]}', "line 1: the question has no answer"),
        ("a.jsonl", '{"question": "q", "answer": [{"x": 1}]}', "line 1: an answer is a dict"),
        ("a.jsonl", '{"question": "q", "answer": null}', "line 1: 'answer' must be a list of texts or one text"),
        ("a.jsonl", '{"question": 3, "answer": "A"}', "line 1: 'question' must be a text, and is a int"),
        ("a.jsonl", '{"question": "q"}\n', "line 1: no layout that is understood; its keys are question"),
        ("a.jsonl", '{"question": "q", "answer": "A"}\n[1]', "line 2: a JSON object is expected"),
        ("a.jsonl", '{"question": "q", "answer": "A"}\n{"question"', "line 2: not valid JSON"),
        ("a.json", '{\n"Data": [1]}', "entry 1: a JSON object is expected"),
        ("a.json", '{\n"Rows": []}', "line 1: no layout that is understood; its keys are Rows"),
        ("a.json", '{\n"Data": [\n}', "line 3: not valid JSON"),
        ("a.tsv", "question\tanswer\nq\tA\nq\tA\tB\n", "line 3: 3 fields under 2 column names"),
        ("a.tsv", "question\tpossible_answers\tobj\ts_pop\nq\t[]\tA\tmany\n", "'s_pop' is 'many', which is no number"),
        ("a.tsv", "question\tpossible_answers\tobj\ts_pop\nq\t[oops\tA\t1\n", "begins like a JSON list and is none"),
        ("a.jsonl", "", "holds no question"),
        ("a.parquet", "x", "the file name ends in none of .jsonl"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_with_its_file_and_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_questions("auto", written(tmp_path, name, text))


def test_text_that_is_no_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_bytes(b"question\tanswer\nq\t\xff\n")
    with pytest.raises(DataError, match=r"a.tsv line 2: not UTF-8 \(byte 0xff at column 3\)"):
        read_questions("auto", file)


def test_names_paths_and_splits_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no benchmark 'triviqa'.*triviaqa"):
        read_questions("triviqa", tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        read_questions("popqa", tmp_path / "none.json")
    with pytest.raises(ConfigError, match="popqa has no split 'train'"):
        read_questions("popqa", tmp_path, "train")
    with pytest.raises(DataError, match=r"holds no simpleqa test: looked for simpleqa/simple_qa_test_set.csv"):
        read_questions("simpleqa", tmp_path)
    with pytest.raises(ConfigError, match="is a folder: name the file"):
        read_questions("auto", tmp_path)


def test_a_folder_of_one_data_set_is_found_by_file_names(data_dir: Path) -> None:
    assert len(read_questions("webquestions", data_dir / "webquestions", "val")) == 755


def test_a_file_is_read_once_and_its_fingerprint_follows_its_bytes(tmp_path: Path) -> None:
    first = read_questions("auto", written(tmp_path, "a.jsonl", '{"question": "q", "answer": "A"}'))
    assert read_questions("auto", first.path) is first
    assert pickle.loads(pickle.dumps(first)) is first
    (tmp_path / "b").mkdir()
    second = read_questions("auto", written(tmp_path / "b", "a.jsonl", '{"question": "q", "answer": "B"}'))
    assert first.fingerprint() != second.fingerprint()


def test_slices_keep_the_proportions_of_popularity(data_dir: Path) -> None:
    popqa = read_questions("popqa", data_dir / "popqa" / "popqa.json")
    quarter = dict(
        zip(
            (question.id for question in popqa),
            popularity_quartiles([question.popularity for question in popqa]),
            strict=True,
        )
    )
    assert sorted(Counter(quarter.values()).values()) == [62, 62, 63, 63]
    some = stratified_questions(popqa, 40, seed=3)
    assert Counter(quarter[question.id] for question in some) == {1: 10, 2: 10, 3: 10, 4: 10}
    assert [question.id for question in some] == sorted(question.id for question in some)
    assert some.fingerprint() == stratified_questions(popqa, 40, seed=3).fingerprint()
    assert {question.id for question in some} != {question.id for question in stratified_questions(popqa, 40, seed=4)}
    with pytest.raises(ConfigError, match="1 to 250 questions"):
        stratified_questions(popqa, 251)


def test_slices_keep_the_proportions_of_kinds(data_dir: Path) -> None:
    simple = read_questions("simpleqa", data_dir)
    complete = Counter(question.meta["kind"] for question in simple)
    part = Counter(question.meta["kind"] for question in stratified_questions(simple, 500))
    assert sum(part.values()) == 500
    assert all(abs(part[kind] - 500 * count / len(simple)) < 1 for kind, count in complete.items())


def test_quartiles_are_those_of_numpy_and_leave_out_unknown_values() -> None:
    assert popularity_quartiles([1, 2, 3, 4, None, 5, 6, 7, 8]) == [1, 1, 2, 2, None, 3, 3, 4, 4]
    assert popularity_quartiles([None]) == [None]
