"""The readers of attribution data, against the public files and against rows that should be refused."""

from __future__ import annotations

import copy
import csv
import json
import pickle
from collections import Counter
from pathlib import Path

import pytest

from factgym.core.errors import ConfigError, DataError
from factgym.datasets.attribution import (
    ATTRIBUTABLE,
    BENCHMARKS,
    LABELS,
    NOT_ATTRIBUTABLE,
    AttributionClaim,
    gold_label,
    read_benchmark,
    stratified,
)
from factgym.text.folding import fold

COUNTS = {
    # benchmark, file: (claims, attributable ones); sizes as INDEX.md of the data states them
    ("fever", "seva_official/fever.jsonl"): (200, 65),
    ("truthfulqa", "seva_official/truthfulqa.jsonl"): (400, 200),
    ("halueval", "seva_official/halueval.jsonl"): (200, 100),
    ("clearfacts", "clearfacts/grayfacts.jsonl"): (159, 20),
    ("anli", "anli/ANLI_analysis_r3_dev.csv"): (1198, 402),
    ("fever", "fever_symmetric/fever_symmetric_dev.jsonl"): (708, 354),
    ("fever", "fever_symmetric/fever_symmetric_test.jsonl"): (712, 356),
    ("fever", "fever_symmetric/fever_symmetric_full.jsonl"): (956, 478),
    ("fever", "sufficient_facts/fever_sufficient_facts.jsonl"): (1200, 179),
    ("fever", "sufficient_facts/hover_sufficient_facts.jsonl"): (1200, 252),
    ("fever", "sufficient_facts/vitaminc_sufficient_facts.jsonl"): (600, 102),
    ("halueval", "halueval/qa_one-turn_data.json"): (1000, 500),
    ("halueval", "halueval/qa_multi-turn_data.json"): (1000, 500),
    ("halueval", "halueval/halueval_qa_subset.csv"): (4000, 2000),
    ("halueval", "halueval/general_data.json"): (2254, 1838),
    ("truthfulqa", "truthfulqa/TruthfulQA.csv"): (1634, 817),
}


@pytest.mark.parametrize(("name", "file"), COUNTS)
def test_every_public_file_is_read_whole_with_its_label_balance(data_dir: Path, name: str, file: str) -> None:
    claims = read_benchmark(name, data_dir / file)
    counts = Counter(claim.label for claim in claims)
    assert (len(claims), counts[ATTRIBUTABLE]) == COUNTS[name, file]
    assert counts[ATTRIBUTABLE] + counts[NOT_ATTRIBUTABLE] == len(claims)
    assert len({claim.id for claim in claims}) == len(claims)
    assert all(claim.claim and claim.source and claim.benchmark == name for claim in claims)


def test_the_papers_balances_hold_where_its_slices_have_them(data_dir: Path) -> None:
    """Table 12: 50.0 % of FEVER and HaluEval, 49.5 % of TruthfulQA. The published FEVER slice has 32.5 %."""
    share = {}
    for name in ("fever", "truthfulqa", "halueval"):
        claims = read_benchmark(name, data_dir)
        share[name] = sum(claim.label == ATTRIBUTABLE for claim in claims) / len(claims)
    assert share == {"fever": 0.325, "truthfulqa": pytest.approx(0.495, abs=0.006), "halueval": 0.5}


def raw(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_our_reading_of_truthfulqa_gives_the_rows_of_the_papers_slice(data_dir: Path) -> None:
    actual = {
        (question.claim, question.source, question.label)
        for question in read_benchmark("truthfulqa", data_dir / "truthfulqa")
    }
    reference = [
        (r["claim"], r["source"], r["gold_label"]) for r in raw(data_dir / "seva_official" / "truthfulqa.jsonl")
    ]
    assert sum(row in actual for row in reference) >= 398  # of 400; the CSV was corrected since


def test_our_reading_of_halueval_gives_the_rows_of_the_papers_slice(data_dir: Path) -> None:
    actual: dict[tuple[str, str], set[str]] = {}
    for claim in read_benchmark("halueval", data_dir / "halueval"):
        actual.setdefault((fold(claim.claim), fold(claim.source)), set()).add(claim.label)
    reference = raw(data_dir / "seva_official" / "halueval.jsonl")
    shared = [
        (actual[key], r["gold_label"]) for r in reference if (key := (fold(r["claim"]), fold(r["source"]))) in actual
    ]
    assert len(shared) >= 40  # our sample has a fifth of the records
    assert all(label in labels for labels, label in shared)


def test_a_question_mark_predicts_the_label_in_the_slice_of_truthfulqa(data_dir: Path) -> None:
    claims = read_benchmark("truthfulqa", data_dir)
    matches = sum((claim.claim.endswith("?")) == (claim.label == ATTRIBUTABLE) for claim in claims)
    assert matches >= 399


def test_anli_keeps_the_three_way_label(data_dir: Path) -> None:
    counts = Counter((claim.meta["gold"], claim.label) for claim in read_benchmark("anli", data_dir))
    assert counts == {("e", ATTRIBUTABLE): 402, ("n", NOT_ATTRIBUTABLE): 400, ("c", NOT_ATTRIBUTABLE): 396}


def test_gray_facts_fall_back_on_the_label_of_their_origin_and_are_marked(data_dir: Path) -> None:
    claims = read_benchmark("clearfacts", data_dir)
    assert all(claim.meta["ambiguous"] is True for claim in claims)
    assert Counter(claim.meta["topic"] for claim in claims)["aggrefact"] == 112
    origin = [r["additional_info"]["original_label"] for r in raw(data_dir / "clearfacts" / "grayfacts.jsonl")]
    assert [claim.label == ATTRIBUTABLE for claim in claims] == [label == "S" for label in origin]


def test_clear_facts_as_their_readme_describes_them(tmp_path: Path) -> None:
    row = {
        "topic": "t",
        "statement": "s",
        "reference_documents": ["one", "two"],
        "category": "c",
        "additional_info": "",
    }
    file = write(tmp_path, "clearfacts.jsonl", *(json.dumps({**row, "label": label}) for label in ("S", "NS")))
    claims = read_benchmark("clearfacts", file)
    assert [claim.label for claim in claims] == list(LABELS)
    assert claims[0].source == "one\n\ntwo"
    assert "ambiguous" not in claims[0].meta


def test_a_folder_is_read_whole_and_lists_the_skipped_files(data_dir: Path) -> None:
    claims = read_benchmark("halueval", data_dir / "halueval")
    assert [file.name for file in claims.files] == [
        "halueval_qa_subset.csv", "qa_multi-turn_data.json", "qa_one-turn_data.json",
    ]  # fmt: skip
    assert [file.name for file in claims.skipped] == ["general_data.json"]
    assert len(claims) == 6000
    slices = read_benchmark("halueval", data_dir / "seva_official")
    assert [file.name for file in slices.files] == ["halueval.jsonl"]


def test_sets_are_shared_copied_and_pickled_by_their_arguments(data_dir: Path) -> None:
    claims = read_benchmark("fever", data_dir)
    assert read_benchmark("fever", data_dir) is claims
    assert copy.deepcopy(claims) is claims
    assert pickle.loads(pickle.dumps(claims)) is claims
    assert pickle.loads(pickle.dumps(claims[3])) == claims[3]
    assert claims[:2] == (claims[0], claims[1])


def write(folder: Path, name: str, *lines: str) -> Path:
    (folder / name).write_bytes(b"\n".join(line.encode("utf-8", "surrogatepass") for line in lines))
    return folder / name


GOOD = '{"claim": "a b", "source": "c d", "label": "true"}'


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ("claim,source,label", "x,y,REFUTES"),
        ("hypothesis,premise,gold_label", "x,y,contradiction"),
        ("statement,document,verdict", "x,y,Not-Attributable"),
        ("answer,context,gold", "x,y,NEI"),
    ],
)
def test_user_files_need_three_columns(tmp_path: Path, columns: str, row: str) -> None:
    (claim,) = read_benchmark("fever", write(tmp_path, "mine.csv", columns, row))
    assert (claim.claim, claim.source, claim.label) == ("x", "y", NOT_ATTRIBUTABLE)


def test_a_json_array_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f"\ufeff[{GOOD},\n{GOOD}]", "utf-8")
    assert [claim.id for claim in read_benchmark("anli", tmp_path / "a.json")] == ["anli-a-00001", "anli-a-00002"]
    (tmp_path / "b.csv").write_text('\ufeffclaim,source,label\n"two\nlines",y,s\n\nz,y,ns\n', "utf-8")
    claims = read_benchmark("anli", tmp_path / "b.csv")
    assert [(claim.claim, claim.meta["line"]) for claim in claims] == [("two\nlines", 2), ("z", 5)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not valid JSON at column 2"),
        ("[1]", "line 2: a JSON object is expected, not a list"),
        ('{"claim": 5, "source": "c", "label": "true"}', "line 2: 'claim' must be a text, and is a int"),
        ('{"claim": "a", "source": " ", "label": "true"}', "line 2: 'source' is empty"),
        ('{"claim": "a", "label": "true"}', "line 2: 'source' must be a text, and is missing"),
        ('{"claim": "a", "source": "b", "label": "maybe"}', "line 2: 'label' is 'maybe', which is no known label"),
        ('{"claim": "a", "source": "b", "label": 1}', "line 2: 'label' is '1', which is no known label"),
        ('{"claim": "%s", "source": "b", "label": "true"}' % ("a" * 20_001), "'claim' has 20,001 characters"),
        ("[" * 100_000, "line 2: not usable JSON|line 2: not valid JSON"),
        ('{"claim": "a", "source": "b", "label": ' + "9" * 5000 + "}", "line 2: not usable JSON"),
    ],
)  # fmt: skip
def test_a_bad_row_is_refused_with_its_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    file = write(tmp_path, "bad.jsonl", GOOD, line)
    with pytest.raises(DataError, match=rf"bad\.jsonl (?:{message})|bad\.jsonl line 2: (?:{message})"):
        read_benchmark("fever", file)


def test_bytes_that_are_no_text_are_refused_with_their_position(tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(GOOD.encode() + b'\n{"claim": "caf\xe9"}')
    with pytest.raises(DataError, match=r"latin\.jsonl line 2: not UTF-8 \(byte 0xe9 at column 15\)"):
        read_benchmark("fever", tmp_path / "latin.jsonl")


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    file = write(tmp_path, "odd.jsonl", '{"claim": "a\\ud800b", "source": "c", "label": "s"}')
    assert read_benchmark("fever", file)[0].claim == "a\ufffdb"


def test_csv_rows_with_too_many_fields_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "wide.csv", "claim,source,label", "a,b,s", "a,b,s,more")
    with pytest.raises(DataError, match=r"wide\.csv line 3: 4 fields under 3 column names"):
        read_benchmark("fever", file)


def test_an_unknown_layout_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"line 1: no layout .* keys are foo.*FEVER-Symmetric.*TruthfulQA.*claim \(claim or"
    ):
        read_benchmark("fever", write(tmp_path, "x.jsonl", '{"foo": 1}'))
    with pytest.raises(DataError, match="holds no row"):
        read_benchmark("fever", write(tmp_path, "empty.jsonl", ""))
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="a folder without"):
        read_benchmark("fever", tmp_path / "folder")


def test_missing_names_and_paths_are_configuration_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'fever'"):
        read_benchmark("feverr", tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        read_benchmark("fever", tmp_path / "no.jsonl")
    assert set(BENCHMARKS) == {"fever", "truthfulqa", "halueval", "clearfacts", "anli"}


@pytest.mark.parametrize(("value", "label"), [(True, LABELS[0]), ("SUPPORTS", LABELS[0]), ("E", LABELS[0]),
    (False, LABELS[1]), ("neutral", LABELS[1]), ("Not_Supported", LABELS[1]), (0, None), (None, None), ("", None)])  # fmt: skip
def test_gold_labels(value: object, label: str | None) -> None:
    assert gold_label(value) == label


def test_slices_keep_the_proportion_the_order_and_the_seed(data_dir: Path) -> None:
    claims = read_benchmark("anli", data_dir)
    slice_ = stratified(claims, 200, seed=1)
    assert Counter(claim.label for claim in slice_) == {ATTRIBUTABLE: 67, NOT_ATTRIBUTABLE: 133}  # 402 of 1,198
    lines = [claim.meta["line"] for claim in slice_]
    assert lines == sorted(lines) and len(set(lines)) == 200
    assert list(stratified(claims, 200, seed=1)) == list(slice_)
    assert stratified(claims, 200, seed=2).fingerprint() != slice_.fingerprint()
    assert len(stratified(claims, len(claims))) == len(claims)
    for size in (0, len(claims) + 1):
        with pytest.raises(ConfigError, match="a slice has 1 to 1198"):
            stratified(claims, size)


def test_a_record_is_immutable_down_to_its_facts() -> None:
    claim = AttributionClaim("x", "c", "s", ATTRIBUTABLE, meta={"line": 1})
    with pytest.raises(TypeError):
        claim.meta["line"] = 2  # type: ignore[index]
    assert copy.deepcopy(claim) is claim


def test_the_csv_of_halueval_agrees_with_the_standard_reader(data_dir: Path) -> None:
    file = data_dir / "halueval" / "halueval_qa_subset.csv"
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    claims = read_benchmark("halueval", file)
    expected = [
        f"{r['raw_question'].strip()} {r[key].strip()}"
        for r in rows
        for key in ("correct_answer", "hallucinated_answer")
    ]
    assert [claim.claim for claim in claims] == expected
