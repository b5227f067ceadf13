"""Plain contradictions: a handbook with claims whose status people agree on, signs of clauses, and labels of people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.baselines.evidence import Evidence, build_evidence, parse_statement
from factgym.baselines.nli import predict_entailment
from factgym.baselines.polarity import polarity_of
from factgym.baselines.rules import rules
from factgym.corpora.corpus import Passage

HANDBOOK = """
Members can borrow up to ten books at a time. Books are lent for three weeks. A reservation is free. Food is not permitted
in the reading room. Late returns cost 20 cents a day. Children under 12 must be accompanied by an adult. The east wing is
closed on Mondays. Laptops may be used in every room. Members receive a card by post. The archive is open to the public.
Nobody may enter the stacks without a key. Phones must be switched off in the reading room. We do not sell used books. The
library publishes an annual report. Donations are always welcome. We give refunds for unused tickets. Refunds are paid
within 14 days of the request. Sale items are refunded only if they are faulty. Meals are reimbursed up to 40 euros a day.
Alcohol is never reimbursed. First class is not allowed. Rental cars are insured by the company. The allowance was
increased in 2023. Applications must be submitted before 1 March.
"""
CONTRADICTED = """
Refunds are never given.
No refunds are given.
There are no refunds.
Refunds are never paid.
Sale items are never refunded.
Members cannot borrow books.
Books are never lent.
Reservations are not free.
Food is allowed in the reading room.
The east wing is open on Mondays.
Laptops are banned in every room.
Members never receive a card.
The archive is closed to the public.
Phones must never be switched off in the reading room.
The library sells used books.
The library never publishes an annual report.
Donations are never welcome.
Meals are never reimbursed.
Alcohol is reimbursed.
First class is allowed.
Rental cars are not insured by the company.
The allowance was reduced in 2023.
The allowance was not increased in 2023.
Applications must be submitted after 1 March.
"""
UNSUPPORTED = """
Magazines are never lent.
Rental cars are not cleaned by the company.
The archive has no windows.
The library does not lend tablets.
Phones are not repaired by the library.
The annual report is never printed.
Refunds are never paid in cash.
"""
SUPPORTED = """
Food is forbidden in the reading room.
Alcohol is not reimbursed.
The library does not sell used books.
The east wing is not open on Mondays.
First class is forbidden.
Rental cars are insured by the company.
Nobody may enter the stacks without a key.
The archive is open to the public.
Refunds are paid within 14 days of the request.
"""


def evidence_of(text: str) -> Evidence:
    return build_evidence([Passage("E1", "", text)])


@pytest.mark.parametrize(
    ("status", "claims"),
    [("contradicted", CONTRADICTED), ("unsupported", UNSUPPORTED), ("supported", SUPPORTED)],
    ids=["contradicted", "unsupported", "supported"],
)
def test_claims_about_a_handbook(status: str, claims: str) -> None:
    evidence = evidence_of(HANDBOOK.replace("\n", " "))
    wrong = [
        (claim, prediction.status)
        for claim in claims.strip().splitlines()
        if (prediction := rules(parse_statement(claim), evidence)).status != status
    ]
    assert not wrong


NOUNS, VERBS = ("refunds", "tickets", "badges", "keys", "parcels"), ("paid", "printed", "delivered", "checked", "sold")


@given(st.sampled_from(NOUNS), st.sampled_from(VERBS), st.sampled_from(("never", "not")))
def test_a_sentence_contradicts_its_denial_and_carries_itself(noun: str, verb: str, denial: str) -> None:
    affirmed, denied = f"All {noun} are {verb} by the office.", f"All {noun} are {denial} {verb} by the office."
    for text, other in ((affirmed, denied), (denied, affirmed)):
        assert rules(parse_statement(other), evidence_of(text)).status == "contradicted"
        assert rules(parse_statement(text), evidence_of(text)).status == "supported"


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("The shop is open.", 1),
        ("The shop is closed.", -1),
        ("The shop is not closed.", 1),
        ("The shop is not open.", -1),
    ],
)
def test_denials_and_opposites_turn_the_sign(text: str, sign: int) -> None:
    polarity = polarity_of(text)
    assert polarity is not None and polarity.sign(polarity.opposites) == sign
    assert polarity.sign(["±before"]) == 0


@pytest.mark.parametrize(
    "text", ["It opens at nine and closes at five.", "It is not true that no dog barks.", "You need not pay.", "It is."]
)
def test_a_clause_without_a_single_polarity_has_none(text: str) -> None:
    assert polarity_of(text) is None


def test_a_bound_denies_nothing() -> None:
    polarity = polarity_of("Buyers must not spend more than 600 euros.")
    assert polarity is not None and not polarity.is_denial


def test_most_claims_that_it_turns_are_refuted_in_fever_symmetric(data_dir: Path) -> None:
    """Pairs of claims and evidence by people, balanced so that a claim's words tell nothing of its label."""
    changed = []
    for line in (data_dir / "fever_symmetric/fever_symmetric_dev.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        statement, evidence = parse_statement(row["claim"]), evidence_of(row["evidence"])
        if rules(statement, evidence).status == "contradicted" != predict_entailment(statement, evidence).status:
            changed.append(row["gold_label"])
    assert len(changed) >= 5 and changed.count("REFUTES") >= 0.8 * len(changed)


def test_over_long_sentences_it_is_the_other_verifier() -> None:
    evidence = evidence_of(
        "Refunds are paid to those who ask for them at the desk of the library " + "or a branch " * 9 + "."
    )
    statement = parse_statement("Refunds are never paid.")
    assert evidence.is_dense and rules(statement, evidence) == predict_entailment(statement, evidence)


VERBS = ("publish", "rent", "sell", "share", "trade")


@given(st.permutations(VERBS), st.sampled_from(("{0} or {1}", "{0}/{1}", "{0}, {1} or {2}", "{0}, {1}, or {2}")))
def test_who_denies_alternatives_denies_each_of_them(verbs: list[str], form: str) -> None:
    """De Morgan's law: ¬(A ∨ B) entails ¬A, and says nothing of C."""
    evidence = evidence_of(f"We do not {form.format(*verbs)} your data.")
    named = verbs[: 3 if "{2}" in form else 2]
    for verb in VERBS:
        status = rules(parse_statement(f"We {verb} your data."), evidence).status
        assert (status == "contradicted") is (verb in named), verb
