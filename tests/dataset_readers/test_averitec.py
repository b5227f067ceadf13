"""The reader of AVeriTeC: the real files against the known numbers and the official scorer's gold file, then hostile ones."""

from __future__ import annotations

import copy
import datetime as dt
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError, DataError
from factgym.datasets.averitec import (
    COUNTED,
    LABELS,
    FactChecks,
    GoldAnswer,
    GoldQuestion,
    evidence_strings,
    fact_check_label,
    parse_claim_date,
    read_fact_checks,
)

# Sizes and balances as INDEX.md of the data states them, in the order of LABELS.
BALANCES = {"dev": (500, [122, 305, 35, 38]), "train": (3068, [849, 1742, 282, 195])}
RECORD: dict[str, Any] = {
    "claim": "The bridge was closed in 2019.",
    "label": "Refuted",
    "justification": "It was open.",
    "claim_date": "25-8-2020",
    "speaker": "A. Mayor",
    "reporting_source": "Facebook",
    "location_ISO_code": "US",
    "claim_types": ["Event/Property Claim"],
    "questions": [
        {
            "question": "Was the bridge closed?",
            "answers": [
                {
                    "answer": "No",
                    "answer_type": "Boolean",
                    "boolean_explanation": "It was open all year.",
                    "source_url": "https://example.org/2019/05/06/bridge",
                    "cached_source_url": None,
                    "source_medium": "Web text",
                }
            ],
        }
    ],
}


def written(path: Path, *records: Any) -> Path:
    file = path / "dev.json"
    file.write_text(json.dumps(list(records)), encoding="utf-8")
    return file


@pytest.mark.parametrize("split", BALANCES)
def test_the_real_files_have_the_published_sizes_and_balances(data_dir: Path, split: str) -> None:
    checks = read_fact_checks(data_dir, split)
    size, balance = BALANCES[split]
    counts = Counter(check.label for check in checks)
    assert (len(checks), [counts[label] for label in LABELS]) == (size, balance)
    assert [check.claim_id for check in checks] == list(range(size))
    assert len({check.id for check in checks}) == size


def test_the_official_gold_file_agrees_on_every_claim(data_dir: Path) -> None:
    """The evidence strings and labels that the official scorer is given for dev, made by its authors."""
    lines = (data_dir / "averitec" / "averitec_dev_gold.jsonl").read_text(encoding="utf-8").splitlines()
    actual = [
        {"id": check.claim_id, "label": check.label, "evidence": list(evidence_strings(check))}
        for check in read_fact_checks(data_dir, "dev")
    ]
    assert actual == [json.loads(line) for line in lines]


def test_irregularities_of_the_real_files_are_counted(data_dir: Path) -> None:
    assert not any(read_fact_checks(data_dir, "dev").counts.values())
    train = read_fact_checks(data_dir, "train")
    assert {key: n for key, n in train.counts.items() if n} == {"blank_claim": 1, "undated": 105, "blank_question": 1}
    assert sum(check.claim_date is None for check in train) == 105
    assert [check.claim_id for check in train if not check.claim] == [1948]


def test_a_real_record_keeps_its_metadata(data_dir: Path) -> None:
    check = read_fact_checks(data_dir, "dev")[5]
    assert (check.speaker, check.location) == ("Syrian Arab News Agency (SANA)", "SY")
    assert (check.claim_date, check.reporting_source) == (dt.date(2020, 10, 30), "Syrian state media outlet")
    (answer,) = check.questions[0].answers
    assert (answer.text, answer.type, answer.medium) == ("No", "Boolean", "Web text")
    assert answer.explanation.startswith("“Our research shows") and "theguardian" in answer.source_url


def test_files_of_the_same_layout_are_read_too(data_dir: Path) -> None:
    """Perturbed copies with blank answers, and claims with extra keys; all of them are json of one list."""
    blank = FactChecks(data_dir / "averitec_ev2r" / "checklist_coverage.json")
    assert (len(blank), blank.counts["bad_answer"]) == (100, 0) and blank.counts["blank_answer"] > 200
    assert len(FactChecks(data_dir / "averitec" / "dev_claims_with_source_article_fulltext.json")) == 149


def test_json_lines_give_the_same_claims_as_the_array(data_dir: Path, tmp_path: Path) -> None:
    records = json.loads((data_dir / "averitec" / "dev.json").read_text(encoding="utf-8"))
    lines = tmp_path / "dev.jsonl"
    lines.write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    assert list(read_fact_checks(lines)) == list(read_fact_checks(data_dir, "dev"))


def test_everything_of_a_record_that_may_be_missing_may_be_missing(tmp_path: Path) -> None:
    checks = FactChecks(written(tmp_path, {"claim": "Bare.", "label": "nei"}))
    assert (checks[0].label, checks[0].questions, checks[0].speaker) == (LABELS[2], (), None)
    assert {key for key, n in checks.counts.items() if n} == {"undated"}
    assert evidence_strings(checks[0]) == ()


def test_wrong_types_are_left_empty_and_counted(tmp_path: Path) -> None:
    broken = RECORD | {"speaker": 7, "claim_types": ["Quote", None], "claim_date": "31-2-2020", "location_ISO_code": []}
    answer = {"answer": "x", "answer_type": None, "boolean_explanation": 3}
    broken["questions"] = [
        None,
        {"question": 5},
        {"question": "No answers?", "answers": None},
        {"question": "One answer?", "answers": answer},
        {"question": "Bad answers?", "answers": [None, "text", {"answer": 4}, {"answer": " "}]},
    ]
    checks = FactChecks(written(tmp_path, broken))
    assert dict(checks.counts) == dict.fromkeys(COUNTED, 0) | {
        "bad_date": 1, "bad_field": 4, "bad_question": 2, "unanswered_question": 1, "bad_answer": 3, "blank_answer": 1,
    }  # fmt: skip
    check = checks[0]
    assert (check.speaker, check.claim_types, check.claim_date, check.location) == (None, ("Quote",), None, None)
    assert check.questions == (
        GoldQuestion("No answers?"),
        GoldQuestion("One answer?", (GoldAnswer("x"),)),
        GoldQuestion("Bad answers?", (GoldAnswer(" "),)),
    )
    assert evidence_strings(check)[0] == "No answers? No answer could be found."


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (RECORD | {"claim": None}, "'claim' must be a text"),
        (RECORD | {"claim": "x" * 100_001}, "at most 100,000"),
        (RECORD | {"label": None}, "'label' is 'None'"),
        (RECORD | {"label": "Mostly true"}, "'Mostly true', which is none of Supported"),
        (RECORD | {"claim_id": -1}, "'claim_id' is '-1'"),
        (RECORD | {"claim_id": 0}, "claim_id 0 is that of record 1 too"),
    ],
)
def test_a_record_that_makes_no_claim_names_file_and_record(tmp_path: Path, record: Any, message: str) -> None:
    file = written(tmp_path, RECORD, record)
    with pytest.raises(DataError, match="record 2: ") as caught:
        FactChecks(file)
    assert str(file) in str(caught.value) and message in str(caught.value)
    lenient = FactChecks(file, strict=False)
    assert (len(lenient), lenient.counts["skipped"]) == (1, 1)
    assert lenient.fingerprint() != FactChecks(written(tmp_path, RECORD), strict=False).fingerprint()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no claim"),
        ("[]", "holds no claim"),
        ("[1]", r"line 1 \(entry 1\): a JSON object is expected, not '1'"),
        ('[{"claim": ', "not valid JSON"),
        ('{"claim": "a", "label": "Refuted"}\n{oops}', "line 2: not valid JSON"),
        ("[" * 100_000, r"line 1 \(entry 1\): a JSON object is expected"),
        ('[{"a": ' + "[" * 100_000, r"line 1 \(entry 1\): not usable JSON"),
    ],
)
def test_unusable_files_are_named_with_the_location(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "dev.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        FactChecks(file)
    assert str(file) in str(caught.value)


def test_own_claim_ids_are_kept(tmp_path: Path) -> None:
    checks = FactChecks(written(tmp_path, RECORD | {"claim_id": 1000}, RECORD | {"claim_id": "1001"}), name="test")
    assert [(check.id, check.claim_id) for check in checks] == [("test-01000", 1000), ("test-01001", 1001)]


def test_a_path_without_the_split_is_refused(tmp_path: Path, data_dir: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_fact_checks(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"has no test\.json"):
        read_fact_checks(data_dir, "test")
    with pytest.raises(ConfigError, match="no name of a split"):
        read_fact_checks(data_dir, "../averitec/dev")


def test_copies_share_and_pickles_are_equal(data_dir: Path) -> None:
    checks = read_fact_checks(data_dir, "dev")
    assert copy.deepcopy(checks) is checks is read_fact_checks(data_dir / "averitec" / "dev.json", "dev")
    assert pickle.loads(pickle.dumps(checks[3])) == checks[3]
    assert pickle.loads(pickle.dumps(checks)).fingerprint() == checks.fingerprint()
    assert FactChecks(data_dir / "averitec" / "dev.json", name="dev").fingerprint() == checks.fingerprint()
    assert FactChecks(data_dir / "averitec" / "dev.json", name="validation").fingerprint() != checks.fingerprint()


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("25-8-2020", dt.date(2020, 8, 25)),
        ("1/2/1922", dt.date(1922, 2, 1)),
        (" 03.04.2021 ", dt.date(2021, 4, 3)),
        ("2023-11-05", dt.date(2023, 11, 5)),
        ("2023-11-05T10:00:00Z", dt.date(2023, 11, 5)),
        ("31-2-2020", None),
        ("0-0-0000", None),
        ("8-2020", None),
        ("yesterday", None),
        ("", None),
        (20200825, None),
        (None, None),
    ],
)
def test_dates(text: Any, date: dt.date | None) -> None:
    assert parse_claim_date(text) == date


@given(st.dates(dt.date(1000, 1, 1)))
def test_every_day_is_read_as_the_files_write_it(day: dt.date) -> None:
    assert parse_claim_date(f"{day.day}-{day.month}-{day.year}") == day == parse_claim_date(day.isoformat())


def test_labels() -> None:
    assert [fact_check_label(label) for label in LABELS] == list(LABELS)
    assert fact_check_label("conflicting evidence/cherry-picking") == LABELS[3]
    assert [fact_check_label(span) for span in ("REFUTES", "not_enough_evidence", "supported ")] == [
        LABELS[1], LABELS[2], LABELS[0],
    ]  # fmt: skip
    assert [fact_check_label(item) for item in ("", "true", None, 1, ["Refuted"], "x" * 10**6)] == [None] * 6
