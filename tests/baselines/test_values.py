"""Values of a statement against those of the evidence: relations, alignment, and pairs that people labelled."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.baselines.evidence import build_evidence, parse_statement, tokenize
from factgym.baselines.nli import predict_entailment
from factgym.baselines.rules import rules
from factgym.baselines.values import compare_values, relation, values_of
from factgym.corpora.corpus import Passage


def status_of(claim: str, text: str, title: str = "") -> str:
    return rules(parse_statement(claim), build_evidence([Passage("E1", title, text)])).status


def values(text: str) -> list[tuple[str, str, str]]:
    return [(value.unit, value.amount, value.bound) for value in values_of(text, tokenize(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It needs at least 32 MB of memory.", [("mb", "32", "lower")]),
        ("Spend no more than $5 million.", [("$", "5000000", "upper")]),
        ("About 2.5 million people came.", [("peopl", "2500000", "about")]),
        ("It was opened on 3 March 1932.", [("year", "1932", ""), ("date", "3-3", "")]),
        ("It was opened in 1932 by the mayor.", [("year", "1932", "")]),
        ("The shop opens at 9:30.", [("@at", "9:30", "")]),
        ("See section 4 of the Daily Mail of the 1990s, that one.", []),
    ],
)
def test_values_have_units_scales_and_bounds(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert values(text) == expected


AMOUNTS, PHRASES = st.integers(2, 900), {"": "{}", "lower": "at least {}", "upper": "at most {}"}
BOUNDS = st.sampled_from(list(PHRASES))


@given(AMOUNTS, AMOUNTS, BOUNDS, BOUNDS)
def test_a_conflict_is_one_of_the_numbers_or_of_the_same_bound(claim: int, text: int, first: str, second: str) -> None:
    """Against the sets of numbers that both allow: disjoint sets conflict, a text within the claim agrees."""

    def allowed(amount: int, bound: str) -> set[int]:
        return {n for n in range(1001) if {"": n == amount, "lower": n >= amount, "upper": n <= amount}[bound]}

    (claimed,), (written,) = (
        values_of(sentence, tokenize(sentence))
        for sentence in (
            f"It has {PHRASES[bound].format(amount)} doors." for amount, bound in ((claim, first), (text, second))
        )
    )
    kind, claims, texts = relation(claimed, written), allowed(claim, first), allowed(text, second)
    if claim == text:
        assert kind == "agrees"
    elif first == second:
        assert kind == "conflicts"  # who gives a bound names another rule by another bound
    elif not claims & texts:
        assert kind == "conflicts"
    else:
        assert kind == ("agrees" if texts <= claims else "open")


@given(st.integers(2, 999), st.integers(2, 999))
def test_about_allows_a_tenth(claim: int, text: int) -> None:
    (claimed,), (written,) = (
        values_of(sentence, tokenize(sentence))
        for sentence in (f"It has about {claim} doors.", f"It has {text} doors.")
    )
    near = claim == text or abs(Fraction(claim - text)) <= Fraction(max(claim, text), 10)
    assert relation(claimed, written) == ("agrees" if near else "conflicts")


@given(st.text("0123456789.,:%$€ aMilonymradsb-", max_size=60), st.text("0123456789.,:% $abc milion", max_size=60))
def test_no_text_is_an_error(claim: str, text: str) -> None:
    assert status_of(claim, f"{text}. The tower is 300 metres high and 7 years old.")


NOUNS, FRAMES = (
    ("doors", "grams", "dollars", "minutes"),
    (
        "The old tower at the harbour has {} {} in all.",
        "Members of the club are given {} {} by the office each time that they ask for it in writing, at whatever branch.",
    ),
)


@given(st.sampled_from(FRAMES), st.sampled_from(NOUNS), st.integers(2, 999), st.integers(2, 999))
def test_another_value_in_the_same_sentence_contradicts(frame: str, noun: str, first: int, second: int) -> None:
    status = status_of(frame.format(first, noun), frame.format(second, noun))
    assert status == ("supported" if first == second else "contradicted")


def test_a_sentence_about_something_else_does_not_contradict() -> None:
    text = "Meetings of more than 20 people are held in the large hall. The bridge is 1,149 metres long."
    assert status_of("The company employs 40 people.", text) == "unsupported"
    assert status_of("It is 1,200 metres long.", "It is 1,149 metres long.", "Harrow Bridge") == "contradicted"


def test_pairs_of_people_turn_more_often_rightly_than_wrongly(data_dir: Path) -> None:
    """VitaminC's sentences of Wikipedia (SufficientFacts' sample, as it was before words were removed)."""
    turned: Counter[bool] = Counter()
    labels = {"SUPPORTS": "supported", "REFUTES": "contradicted"}
    for line in (data_dir / "sufficient_facts/vitaminc_sufficient_facts.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        text = " ".join(part for _, part in row["evidence"])
        evidence = build_evidence([Passage("E1", row["evidence"][0][0], text)])
        statement = parse_statement(row["claim"])
        before = predict_entailment(statement, evidence)
        after = compare_values(before, evidence)
        gold = labels.get(row["label_after"], "unsupported")
        if before.status != after.status and gold in (before.status, after.status):
            turned[after.status == gold] += 1
    assert turned[True] >= 50 and turned[True] >= 4 * turned[False]
