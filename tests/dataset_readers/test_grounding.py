"""Claims with the documents that people checked them against: published counts, marked sentences, official files, errors."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from factgym.core.errors import ConfigError, DataError
from factgym.datasets.claims import ClaimExample, GoldFact
from factgym.datasets.grounding import read_claims, read_responses

WICE = {
    "label": "partially_supported",
    "claim": "The mill opened in 1901 and is red.",
    "evidence": [
        "(meta data) TITLE: The old mill",
        "# History",
        "The mill opened in 1901.",
        "",
        "It opened in May 1901.",
    ],
    "supporting_sentences": [[1, 2, 4], [4]],
    "meta": {"id": "dev1", "claim_title": "Mills"},
}
SENTENCE = {"section_header": "History", "text": "The mill opened in 1901."}
FM2 = {
    "text": "The mill opened in 1910.",
    "label": "REFUTES",
    "id": "x1",
    "wikipedia_page": "Mill",
    "gold_evidence": [SENTENCE],
    "retrieved_evidence": [{"section_header": "", "text": "A mill grinds."}, SENTENCE],
}
AGGREFACT = {"dataset": "RAGTruth", "doc": "The mill opened. It is red.", "claim": "The mill is red.", "label": 1}


def write(folder: Path, *rows: object) -> Path:
    file = folder / "claims.jsonl"
    file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), "utf-8")
    return file


def quotes(example: ClaimExample, facts: tuple[GoldFact, ...]) -> list[str]:
    texts = {passage.id: passage.text for passage in example.passages}
    return [texts[fact.passage][fact.start : fact.end] for fact in facts]


def test_a_small_wice_file(tmp_path: Path) -> None:
    (example,) = read_claims("wice", write(tmp_path, WICE))
    assert (example.id, example.verdict, example.answer) == ("wice-dev1", "overclaim", WICE["claim"])
    assert [passage.title for passage in example.passages] == ["The old mill", "The old mill › History"]
    # The shortest sufficient set is the gold, the other an alternative.
    assert quotes(example, example.claims[0].facts) == ["It opened in May 1901."]
    (longer,) = example.alternatives
    assert quotes(example, longer) == ["# History", "The mill opened in 1901.", "It opened in May 1901."]
    assert example.claims[0].unsupported_span == "The mill opened in 1901 and is red"


def test_a_small_file_of_fool_me_twice(tmp_path: Path) -> None:
    (example,) = read_claims("fm2", write(tmp_path, FM2))
    assert (example.verdict, len(example.passages), example.gold_ids) == ("contradicted", 2, ("E2",))
    assert quotes(example, example.claims[0].facts) == [SENTENCE["text"]]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_the_layout_of_llm_aggrefact(tmp_path: Path, suffix: str) -> None:
    rows = [AGGREFACT, {**AGGREFACT, "claim": "The mill is blue.", "label": 0}]
    file = tmp_path / f"test.{suffix}"
    if suffix == "jsonl":
        file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    elif suffix == "csv":
        lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
        file.write_text("\n".join(lines), "utf-8")
    else:
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), file)
    red, blue = read_claims("aggrefact", file, shuffled=False)
    assert (red.verdict, blue.verdict, red.domain) == ("supported", "unsupported", "RAGTruth")
    assert red.passages[0].text == "The mill opened.\nIt is red."
    assert blue.nearest == ("E1",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**WICE, "supporting_sentences": [[9]]}, "'supporting_sentences' must be lists of numbers below 5"),
        ({**WICE, "supporting_sentences": [[True]]}, "must be lists of numbers"),
        ({**WICE, "evidence": []}, "'evidence' must be a list of one to"),
        ({**WICE, "label": "perhaps"}, "'label' is 'perhaps', which is no known label"),
        ({**WICE, "claim": " "}, "'claim' is empty"),
        ({**FM2, "gold_evidence": []}, "'gold_evidence' is empty"),
        ({**FM2, "retrieved_evidence": ["text"]}, "evidence must be objects with the texts"),
        ({"sentence": "x"}, r"no layout that is understood.*Understood are WiCE.*LLM-AggreFact \(claim, doc, label\)"),
        ('{"claim": ', "not valid JSON"),
    ],
)
def test_malformed_rows_name_the_line(tmp_path: Path, row: object, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_claims("wice", write(tmp_path, row))
    assert "claims.jsonl" in str(caught.value) and "1" in str(caught.value)


def test_wrong_names_and_paths(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no benchmark 'wise'\. Did you mean 'wice'"):
        read_claims("wise", tmp_path)
    with pytest.raises(ConfigError, match=r"wice has no split 'train'.*It has: dev"):
        read_claims("wice", tmp_path, "train")
    with pytest.raises(DataError, match=r"looked for wice/dev\.jsonl"):
        read_claims("wice", tmp_path)
    with pytest.raises(DataError, match="two claims share an id"):
        read_claims("wice", write(tmp_path, WICE, WICE))


def scifact_folder(folder: Path, claims: list[dict[str, Any]], abstracts: dict[int, list[str]]) -> Path:
    corpus = [{"doc_id": id_, "title": "A study.", "abstract": abstract} for id_, abstract in abstracts.items()]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)), "utf-8")
    (folder / "claims_dev.jsonl").write_text("\n".join(map(json.dumps, claims)), "utf-8")
    return folder


def test_scifact_in_its_authors_layout(tmp_path: Path) -> None:
    evidence = {"7": [{"sentences": [0, 1], "label": "SUPPORT"}, {"sentences": [2], "label": "SUPPORT"}]}
    claims = [
        {"id": 1, "claim": "It works.", "evidence": evidence, "cited_doc_ids": [7]},
        {"id": 2, "claim": "It fails.", "evidence": {}, "cited_doc_ids": [7]},
    ]
    folder = scifact_folder(tmp_path, claims, {7: ["We tried.", "It works.", "It does work."], 8: ["Other."]})
    works, fails = read_claims("scifact", folder, shuffled=False)
    assert (works.verdict, fails.verdict) == ("supported", "unsupported")
    assert quotes(works, works.claims[0].facts) == ["It does work."]
    assert [quotes(works, facts) for facts in works.alternatives] == [["We tried.", "It works."]]
    assert works.gold_ids == ("7.1",) and fails.nearest == ("7.1",)
    claims[0]["evidence"]["7"][0]["sentences"] = [9]
    with pytest.raises(DataError, match=r"claim 1 has evidence .* beyond the 3 sentences"):
        read_claims(
            "scifact", scifact_folder(tmp_path, claims, {7: ["a b", "c d", "e f"]}) / "claims_dev.jsonl", seed=1
        )
    with pytest.raises(DataError, match="claim 1 cites '7', which the corpus does not hold"):
        read_claims("scifact", scifact_folder(tmp_path, claims, {8: ["a b"]}), seed=2)
    claims[0]["evidence"] = {"7": [{"sentences": ["1"], "label": "SUPPORT"}]}
    with pytest.raises(DataError, match="must hold lists of objects with 'sentences'"):
        read_claims("scifact", scifact_folder(tmp_path, claims, {7: ["a b"]}), seed=4)
    (tmp_path / "corpus.jsonl").unlink()
    (tmp_path / "corpus.csv").write_text("doc_id,title,abstract\n7,A study,\"['bad \\x escape.']\"\n", "utf-8")
    claims[0]["evidence"] = {}
    scifact_claims = "\n".join(map(json.dumps, claims))
    (tmp_path / "claims_dev.jsonl").write_text(scifact_claims, "utf-8")
    with pytest.raises(DataError, match="'abstract' must be a list of sentences"):
        read_claims("scifact", tmp_path, seed=5)
    (tmp_path / "corpus.csv").unlink()
    with pytest.raises(DataError, match=r"holds no corpus\.jsonl or"):
        read_claims("scifact", tmp_path, seed=3)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "split", "counts"),
    [
        ("wice", "dev", {"supported": 115, "overclaim": 191, "unsupported": 43}),
        ("fm2", "dev", {"supported": 596, "contradicted": 573}),
        # As in SciFact's paper: 124 + 64 + 112 and 332 + 173 + 304.
        ("scifact", "validation", {"supported": 124, "contradicted": 64, "unsupported": 112}),
        ("scifact", "train", {"supported": 332, "contradicted": 173, "unsupported": 304}),
        (
            "factcheck-gpt-claims",
            "test",
            {"supported": 696, "overclaim": 391, "contradicted": 161, "unsupported": 2057},
        ),
        ("grayfacts", "test", {"supported": 20, "unsupported": 139}),
    ],
)
def test_known_counts(data_dir: Path, name: str, split: str, counts: dict[str, int]) -> None:
    claims = read_claims(name, data_dir, split)
    assert Counter(example.verdict for example in claims) == counts
    assert {example.split for example in claims} == {split}
    for example in claims:
        assert all(passage.text.strip() for passage in example.passages)
        assert bool(example.nearest) != bool(example.gold_ids)
    prefix = Counter(example.verdict for example in claims[:60])
    assert all(abs(prefix[status] - 60 * count / len(claims)) <= 2 for status, count in counts.items())


@pytest.mark.data
def test_marked_sentences_are_those_of_the_files(data_dir: Path) -> None:
    wice = {f"wice-{row['meta']['id']}": row for row in read_lines(data_dir / "wice" / "dev.jsonl")}
    for example in read_claims("wice", data_dir):
        row = wice[example.id]
        marked = {
            tuple(" ".join(row["evidence"][n].split()) for n in sorted(numbers))
            for numbers in row["supporting_sentences"]
            if numbers and row["label"] != "not_supported"
        }
        sets = [facts for facts in (example.claims[0].facts, *example.alternatives) if facts]
        assert {tuple(quotes(example, facts)) for facts in sets} == marked
        joined = "".join("".join(passage.text.split()) for passage in example.passages)
        assert joined == "".join("".join(row["evidence"]).split())
    fm2 = {f"fm2-{row['id']}": row for row in read_lines(data_dir / "fool_me_twice" / "dev.jsonl")}
    for example in read_claims("fm2", data_dir):
        gold = {" ".join(entry["text"].split()) for entry in fm2[example.id]["gold_evidence"]}
        assert set(quotes(example, example.claims[0].facts)) == gold


@pytest.mark.data
def test_answers_with_labelled_sentences(data_dir: Path, tmp_path: Path) -> None:
    responses = read_responses(data_dir)
    rows = read_lines(data_dir / "factcheck_gpt" / "factcheck-GPT-benchmark.jsonl")
    assert len(responses) == 94
    assert Counter(response.label for response in responses) == {False: 68, True: 24, None: 2}
    labels = Counter(label for response in responses for _, label in response.sentences)
    assert labels == {True: 148, False: 129, None: 34}
    for response, row in zip(responses, rows, strict=True):
        assert [text for text, _ in response.sentences] == [
            entry["text"].strip() for entry in row["sentences"].values()
        ]
        # Lone marks between sentences are left out.
        evidence = "".join(re.sub(r"[\W_]", "", passage.text) for passage in response.passages)
        snippets = [text for entry in row["sentences"].values() for texts in entry["auto_evidence"] for text in texts]
        assert all(re.sub(r"[\W_]", "", text) in evidence for text in snippets)
    bad = {**rows[0], "sentences": {"s": {"text": "x", "auto_evidence": [3]}}}
    with pytest.raises(DataError, match="must be a list of lists of texts"):
        read_responses(write(tmp_path, bad))


def read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.mark.data
def test_scifact_agrees_with_the_gold_of_its_official_evaluator(data_dir: Path, tmp_path: Path) -> None:
    """The evaluator's fixture holds the first ten claims of the same split in the authors' layout."""
    gold = read_lines(data_dir / "scifact" / "evaluator_gold_small.jsonl")
    (tmp_path / "claims_dev.jsonl").write_text("\n".join(map(json.dumps, gold)), "utf-8")
    (tmp_path / "corpus_train.csv").symlink_to(data_dir / "scifact" / "corpus_train.csv")
    official = {example.id: example for example in read_claims("scifact", tmp_path)}
    ours = {example.id: example for example in read_claims("scifact", data_dir)}
    assert len(official) == 10
    assert all(ours[id_] == example for id_, example in official.items())


@pytest.mark.data
def test_balance_copies_and_pickles(data_dir: Path) -> None:
    claims = read_claims("wice", data_dir, balanced=True)
    assert Counter(example.verdict for example in claims) == {"supported": 115, "overclaim": 115, "unsupported": 43}
    assert copy.deepcopy(claims) is claims and pickle.loads(pickle.dumps(claims))[3] == claims[3]
    assert claims.fingerprint() != read_claims("wice", data_dir).fingerprint()
    assert [example.id for example in read_claims("wice", data_dir, seed=1, balanced=True)] != [e.id for e in claims]
