"""`factgym check` on claims that were written by hand, without sight of the engine: minimal pairs, languages, answers.

`pairs/development*.jsonl` are for tuning; `pairs/test*.jsonl` have other fields and words and are only measured. Each fact
has four true claims and a false one for each of twelve kinds of change. The label is a person's; `either` is a false claim
that may be called contradicted or unsupported.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from pairs.score import JudgedClaim, green_share, judge_file, score_table

from factgym.check import check_text

PAIRS = Path(__file__).parent / "pairs"
FALSE_KINDS = [
    "subject",
    "object",
    "place",
    "time",
    "verb",
    "antonym",
    "negation",
    "number",
    "unit",
    "quantifier",
    "detail",
    "condition",
]


def letters(text: str) -> str:
    """Letters and digits of a text without the addresses of its links."""
    return "".join(filter(str.isalnum, re.sub(r"\]\([^)]*\)", "]", unicodedata.normalize("NFKC", text)).casefold()))


@pytest.mark.parametrize("name", ["development", "test"])
def test_sets_have_every_kind_of_change_for_each_of_fifty_facts(name: str) -> None:
    facts = [json.loads(line) for line in (PAIRS / f"{name}.jsonl").read_text("utf-8").splitlines()]
    kinds = Counter(kind for fact in facts for kind, label, _ in fact["claims"] if label != "supported")
    assert len(facts) == len({fact["document"] for fact in facts}) == 50
    assert kinds == dict.fromkeys(FALSE_KINDS, 50)
    assert all(len({claim for _, _, claim in fact["claims"]}) == 16 for fact in facts)


def test_test_set_shares_no_field_with_the_development_set() -> None:
    fields = [
        {json.loads(line)["field"] for line in (PAIRS / f"{name}.jsonl").read_text("utf-8").splitlines()}
        for name in ("development", "test")
    ]
    assert not fields[0] & fields[1]


# Of the test sets, 14 of 600 and 4 of 48 false claims were green in the first run, and 136 of 200 and 13 of 42 true ones.
# What has been mended since was found elsewhere; now it is 11 and 3, and 131 and 14.
@pytest.mark.parametrize(
    ("name", "most_false", "least_true"),
    [("development", 0.02, 0.78), ("development_messy", 0.06, 0.40), ("test", 0.02, 0.65), ("test_messy", 0.07, 0.30)],
)
def test_few_false_claims_and_most_true_ones_are_supported(name: str, most_false: float, least_true: float) -> None:
    claims = list(judge_file(PAIRS / f"{name}.jsonl"))
    false = green_share([claim for claim in claims if not claim.is_true])
    true = green_share([claim for claim in claims if claim.is_true])
    assert false.value is not None and false.value <= most_false, score_table(claims)
    assert true.value is not None and true.value >= least_true, score_table(claims)


def test_no_false_claim_in_another_language_is_supported() -> None:
    green = [claim for claim in judge_file(PAIRS / "languages.jsonl") if claim.is_green and not claim.is_true]
    assert green == []


@pytest.mark.parametrize(
    "row",
    [json.loads(line) for line in (PAIRS / "answers.jsonl").read_text("utf-8").splitlines()],
    ids=lambda r: r["id"],
)
def test_sentences_of_an_answer_are_judged_or_listed(row: dict[str, object]) -> None:
    text = str(row["answer"])
    (answer,) = check_text(text, row["documents"]).answers  # type: ignore[arg-type]
    statuses = {letters(claim.text): claim.status for claim in answer.claims}
    listed = {letters(text[start:end]) for start, end, _ in answer.not_judged}
    for sentence in row["sentences"]:  # type: ignore[attr-defined]
        sentence_letters = letters(sentence["text"])
        containing = [
            status for claim, status in statuses.items() if sentence_letters in claim and sentence_letters not in listed
        ]
        assert containing or any(sentence_letters in part for part in listed), sentence
        if sentence["label"] != "supported":
            assert "supported" not in containing, sentence


def test_shares_are_clustered_by_fact() -> None:
    # Ten claims of two facts count as two units: Wilson's upper bound for 0 of 2 is .658 (Brown, Cai and DasGupta 2001, eq. 4).
    claims = [JudgedClaim(fact, "subject", "contradicted", str(n), "unsupported") for fact in "ab" for n in range(5)]
    share = green_share(claims)
    assert (share.value, share.low) == (0.0, 0.0)
    assert share.high == pytest.approx(0.6576, abs=1e-4)
