"""ContractNLI: the published counts, human spans at their exact offsets, and errors that name the location.

The known-good numbers (519 / 95 / 423, 1,228 spans) are the data set's own; spans are checked against the raw file.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from factgym.core.errors import DataError
from factgym.datasets.contractnli import ContractNliClaims

TEXT = "MUTUAL NON-DISCLOSURE AGREEMENT\n1. Term\nThis lasts two years. It may be renewed.\nInformation is returned at the end."
SPANS = [[0, 31], [32, 39], [40, 61], [61, 80], [81, len(TEXT)]]
LABELS = {
    "nda-1": {"short_description": "Return", "hypothesis": "Receiving Party shall return the information."},
    "nda-2": {"short_description": "Renewal", "hypothesis": "The agreement shall not be renewed."},
    "nda-3": {"short_description": "Copies", "hypothesis": "Receiving Party may make copies."},
}


def small() -> dict[str, Any]:
    annotations = {
        "nda-1": {"choice": "Entailment", "spans": [4]},
        "nda-2": {"choice": "Contradiction", "spans": [2, 3]},
        "nda-3": {"choice": "NotMentioned", "spans": []},
    }
    document = {
        "id": 7,
        "file_name": "x%20y.pdf",
        "text": TEXT,
        "spans": SPANS,
        "annotation_sets": [{"annotations": annotations}],
    }
    return {"documents": [document], "labels": copy.deepcopy(LABELS)}


def write(folder: Path, value: object) -> Path:
    path = folder / "dev.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_small_file(tmp_path: Path) -> None:
    claims = ContractNliClaims(write(tmp_path, small()))
    by_id = {example.id: example for example in claims}
    assert set(by_id) == {"contract-7-nda-1", "contract-7-nda-2", "contract-7-nda-3"}
    returned, renewed, copies = (by_id[f"contract-7-nda-{n}"] for n in (1, 2, 3))
    assert (returned.verdict, renewed.verdict, copies.verdict) == ("supported", "contradicted", "unsupported")
    assert returned.question == "What does this agreement say about “Return”?"
    assert returned.answer == returned.claims[0].text == "Receiving Party shall return the information."
    assert returned.claims[0].unsupported_span == ""
    assert renewed.claims[0].unsupported_span == "The agreement shall not be renewed"
    assert len(returned.passages) == 1
    assert returned.passages[0].title.startswith("Mutual Non-Disclosure Agreement")
    quotes = [renewed.passages[0].text[fact.start : fact.end] for fact in renewed.claims[0].facts]
    assert quotes == ["This lasts two years.", "It may be renewed."]
    assert copies.claims[0].facts == ()
    assert copies.nearest == ("E1",)
    assert returned.nearest == ()


def _change(**edits: Any) -> dict[str, Any]:
    value = small()
    value["documents"][0].update(edits)
    return value


def _annotate(**edits: Any) -> dict[str, Any]:
    value = small()
    value["documents"][0]["annotation_sets"][0]["annotations"]["nda-1"].update(edits)
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"documents": [}', "line 1: not valid JSON at column 16"),
        ('{"documents": ' + "[" * 100_000, "not usable JSON"),
        ("[]", 'expected an object with "documents"'),
        ({"documents": [], "labels": []}, 'expected an object with "documents"'),
        ({**small(), "labels": {"nda-1": {"hypothesis": "x"}}}, r"labels\['nda-1'\] needs the texts"),
        ({**small(), "documents": [1]}, r"documents\[0\]: expected an object with a 'text'"),
        (_change(spans=[]), r"documents\[0\]: 'spans' must be a list"),
        (_change(spans=[[0, 9000]]), r"documents\[0\] span 0: \[0, 9000\] is no range"),
        (_change(spans=[[5, 9], [0, 4]]), r"documents\[0\] span 1"),
        (_change(spans=[["a", True]]), r"documents\[0\] span 0"),
        (_change(annotation_sets=[]), r"documents\[0\]: expected annotation_sets\[0\].annotations"),
        (_annotate(choice="Maybe"), r"annotation 'nda-1': choice is 'Maybe'; expected one of Entailment"),
        (_annotate(spans=[99]), r"annotation 'nda-1': 'spans' must number spans"),
        (_annotate(spans=[]), r"annotation 'nda-1': 'spans' must number spans"),
        (_annotate(spans=None), r"annotation 'nda-1': 'spans' must number spans"),
        ({**small(), "labels": {"nda-9": LABELS["nda-1"]}}, "is not among 'labels'. Did you mean 'nda-9'"),
        ({**small(), "documents": small()["documents"] * 2}, "two documents share an id"),
    ],
)
def test_malformed_files_name_the_location(tmp_path: Path, value: object, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        ContractNliClaims(write(tmp_path, value))
    assert "dev.json" in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"test\.json cannot be read \(No such file"):
        ContractNliClaims(tmp_path, split="test")


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest) -> Path:
    data: Path = request.getfixturevalue("data_dir")
    return data / "contract_nli"


@pytest.fixture(scope="module")
def claims(folder: Path) -> ContractNliClaims:
    return ContractNliClaims(folder)


@pytest.mark.data
def test_known_counts(claims: ContractNliClaims) -> None:
    assert len(claims) == 61 * 17 == 1037
    assert Counter(example.verdict for example in claims) == {"supported": 519, "contradicted": 95, "unsupported": 423}
    assert sum(len(claim.facts) for example in claims for claim in example.claims) == 1228


@pytest.mark.data
def test_every_span_is_where_the_annotators_put_it(folder: Path, claims: ContractNliClaims) -> None:
    raw = json.loads((folder / "dev.json").read_text())
    by_id = {example.id: example for example in claims}
    for document in raw["documents"]:
        for key, annotation in document["annotation_sets"][0]["annotations"].items():
            example = by_id[f"contract-{document['id']}-{key}"]
            passages = {passage.id: passage.text for passage in example.passages}
            quotes = [passages[fact.passage][fact.start : fact.end] for fact in example.claims[0].facts]
            spans = [document["spans"][number] for number in annotation["spans"]]
            assert quotes == [document["text"][start:end].strip() for start, end in spans]
            assert example.answer == raw["labels"][key]["hypothesis"]


@pytest.mark.data
def test_passages_hold_the_whole_contract_in_order(folder: Path, claims: ContractNliClaims) -> None:
    raw = {str(document["id"]): document for document in json.loads((folder / "dev.json").read_text())["documents"]}
    for number in range(0, len(claims), 17):
        example = claims[number]
        document = raw[example.id.split("-")[1]]
        joined = "".join("".join(passage.text.split()) for passage in example.passages)
        assert joined == "".join(document["text"].split())
        longest = max(end - start for start, end in document["spans"])
        assert all(len(passage.text) <= max(700, longest) for passage in example.passages)
        assert [passage.id for passage in example.passages] == [f"E{n + 1}" for n in range(len(example.passages))]


@pytest.mark.data
def test_prefixes_are_representative_and_the_order_is_fixed(folder: Path, claims: ContractNliClaims) -> None:
    for stop in (50, 100, 400):
        counts = Counter(example.verdict for example in claims[:stop])
        assert abs(counts["supported"] - stop * 519 / 1037) <= 1.5
        assert abs(counts["contradicted"] - stop * 95 / 1037) <= 1.5
    assert len({example.id.split("-")[1] for example in claims[:60]}) > 30
    again = ContractNliClaims(folder / "dev.json")
    assert [example.id for example in again[:40]] == [example.id for example in claims[:40]]
    assert again.fingerprint() == claims.fingerprint()
    second = ContractNliClaims(folder, seed=1)
    assert second.fingerprint() != claims.fingerprint()
    assert [example.id for example in second[:40]] != [example.id for example in claims[:40]]


@pytest.mark.data
def test_silence_points_to_the_nearest_passages(claims: ContractNliClaims) -> None:
    silent = [example for example in claims if example.verdict == "unsupported"]
    assert all(1 <= len(example.nearest) <= 5 and not example.gold_ids for example in silent)
    assert all(not example.nearest for example in claims if example.gold_ids)


@pytest.mark.data
def test_copies_and_pickles(claims: ContractNliClaims) -> None:
    assert copy.deepcopy(claims) is claims
    assert pickle.loads(pickle.dumps(claims))[3] == claims[3]


def test_a_search_over_all_contracts_can_tell_which_one_is_meant(data_dir: Path) -> None:
    claims = ContractNliClaims(data_dir / "contract_nli", named=True)
    for example in claims[:200]:
        (title,) = {passage.title.partition(" › ")[0] for passage in example.passages}
        assert title.endswith(f"(contract {example.id.split('-')[1]})")
        assert f"What does {title} say about" in example.question
    assert claims.fingerprint() != ContractNliClaims(data_dir / "contract_nli").fingerprint()


def test_balanced_no_hypothesis_tells_its_label(data_dir: Path) -> None:
    claims = ContractNliClaims(data_dir / "contract_nli", balanced=True)
    labels: dict[str, Counter[str]] = {}
    for example in claims:
        labels.setdefault(example.answer, Counter())[example.verdict] += 1
    assert len(claims) == 563 and len(labels) == 17
    for counts in labels.values():
        first, second, *_ = counts.most_common()
        assert first[1] == second[1]
    # The most frequent label of each hypothesis is right for .70 of all pairs.
    assert sum(counts.most_common(1)[0][1] for counts in labels.values()) / len(claims) < 0.46
    everything = {example.id for example in ContractNliClaims(data_dir / "contract_nli")}
    assert {example.id for example in claims} < everything


def test_a_file_with_one_label_for_each_hypothesis_cannot_be_balanced(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no hypothesis has two labels.*balance=False"):
        ContractNliClaims(write(tmp_path, small()), balanced=True)
