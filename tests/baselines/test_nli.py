"""The rule-based verifier and its parts on sentences by hand: tokens, clauses, modality, quantities, premises, fitting.

The verifier is also tested on the examples that the ClaimCheck paper prints (vendors, reimbursement, leave).
"""

from __future__ import annotations

import tomllib

import pytest

from factgym.baselines.evidence import (
    build_evidence,
    names_in_question,
    parse_statement,
    passages_of_document,
    token_key,
    tokenize,
)
from factgym.baselines.nli import WEIGHTS, predict_entailment
from factgym.baselines.premise import nearest_premise, terms_of
from factgym.baselines.semantics import (
    clauses,
    compare_quantities,
    is_hedged,
    main_clause,
    modality_conflict,
    modality_of,
    quantities,
    universal_spans,
)
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import STATUSES
from factgym.generators.synthetic import SyntheticClaims
from perf import nli_weights


@pytest.mark.parametrize(
    ("first", "second"),
    [("submitted", "submits"), ("approval", "approved"), ("policies", "policy"), ("thirty", "30"), ("stopped", "stop")],
)
def test_forms_of_a_word_share_a_key(first: str, second: str) -> None:
    assert token_key(first) == token_key(second)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Unless it rains, the match takes place after lunch.",
            [("limit", "Unless it rains"), ("time", "after lunch")],
        ),
        ("Fees are due because the bank wants them.", [("reason", "because the bank wants them")]),
        ("Under the Travel Policy, fees are due.", [("source", "Under the Travel Policy")]),
        ("Fees are due, according to “House Rules”.", [("source", "according to “House Rules”")]),
        (
            "It may be shared without the prior written consent of X.",
            [("limit", "without the prior written consent of X")],
        ),
        ("Twenty euros per person are due.", []),
    ],
)
def test_clauses(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(clause.kind, text[clause.start : clause.end]) for clause in clauses(text)] == expected


def test_the_main_clause_keeps_its_offsets() -> None:
    text = "If asked, staff (including interns) show a badge."
    assert main_clause(text) == " " * 8 + ", staff" + " " * 21 + "show a badge."
    assert len(main_clause(text)) == len(text)


@pytest.mark.parametrize(
    ("text", "modality"),
    [
        ("Staff must wear a badge.", "must"),
        ("Wearing a badge is compulsory for staff.", "must"),
        ("Staff need not wear a badge.", "need_not"),
        ("It is optional for staff to wear a badge.", "need_not"),
        ("Staff may not smoke.", "must_not"),
        ("Smoking is prohibited.", "must_not"),
        ("Staff may smoke.", "may"),
        ("Staff should wear a badge.", "should"),
        ("The badge is blue.", "is"),
        ("The badge is not blue.", "is_not"),
        ("Staff must not take more than six weeks.", "must"),
    ],
)
def test_modality(text: str, modality: str) -> None:
    assert modality_of(text)[0] == modality


def test_modality_conflicts() -> None:
    assert modality_conflict("may", "must_not") == modality_conflict("need_not", "must") == "contradicted"
    assert modality_conflict("must", "may") == modality_conflict("must", "should") == "overclaim"
    assert modality_conflict("may", "may") is None


def test_generality() -> None:
    text = "Every guest pays."
    assert [text[start:end] for start, end in universal_spans(text)] == ["Every"]
    assert universal_spans("Guests pay every month.") == []
    assert is_hedged("Some guests pay.")
    assert not is_hedged("Guests pay.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("within thirty (30) days", [("day", "30")]),
        ("within 5 business days", [("working day", "5")]),
        ("twenty-five percent", [("percent", "25")]),
        ("up to 25% of it", [("percent", "25")]),
        ("up to 25 per cent", [("percent", "25")]),
        ("a sum of $1,500.00", [("$", "1500")]),
        ("on March 1, 2024", [("date", "3-1-2024")]),
        ("on 1 March 2024", [("date", "3-1-2024")]),
        ("once a year", [("rate", "12m")]),
        ("annually", [("rate", "12m")]),
        ("every two weeks", [("rate", "336h")]),
        ("see section 4 of this policy", []),
        ("nothing here", []),
    ],
)
def test_quantities(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(quantity.unit, quantity.amount) for quantity in quantities(text, tokenize(text))] == expected


def test_quantities_are_compared_by_unit() -> None:
    evidence = build_evidence([Passage("E1", "", "Notice of 30 days is due and costs $20 in all.")])
    statement = parse_statement("Notice of 14 days is due and costs 20 dollars at 3 percent.")
    comparison = compare_quantities(statement, evidence.sentences)
    assert [quantity.amount for quantity in comparison.conflicts] == ["14"]
    assert [quantity.amount for quantity in comparison.agreed] == ["20"]
    assert [quantity.unit for quantity in comparison.missing] == ["percent"]


def test_the_names_in_a_question_select_the_document() -> None:
    question = "Under Dercourt Marine's Travel Policy, what does “Refunds” say?"
    assert names_in_question(question) == ["Refunds", "Dercourt Marine's Travel Policy"]
    ours = Passage("1", "Dercourt Marine - Travel Policy, Section 2", "")
    theirs = Passage("2", "Acme - Travel Policy", "")
    assert passages_of_document(question, [theirs, ours]) == [ours]
    assert passages_of_document("What are the rules?", [theirs, ours]) == [theirs, ours]


def test_a_premise_includes_dependent_sentences_and_definitions() -> None:
    passages = [
        Passage("E1", "Policy, Section 1: Leave", "Group B staff may carry over leave for the Base Period. This applies only if the head agrees. Notices are green."),
        Passage("E2", "Policy, Section 2: Terms", "Fillers are fun. The Base Period means six weeks. \"Group B\" stands for night porters."),
        Passage("E3", "Policy, Section 3: Other", "Section 1 does not apply during a strike. Night porters must sign in."),
    ]  # fmt: skip
    statement = parse_statement("Night porters may carry over leave for six weeks.")
    premise = nearest_premise(build_evidence(passages), statement)
    assert premise is not None
    assert premise.main.text.startswith("Group B staff may")
    assert [sentence.text for sentence in premise.followers] == ["This applies only if the head agrees."]
    assert {sentence.text for sentence in premise.linked} == {
        "The Base Period means six weeks.",
        '"Group B" stands for night porters.',
        "Section 1 does not apply during a strike.",
    }


def test_terms() -> None:
    assert "base period" in terms_of("Leave is kept for the Base Period.")
    assert terms_of("leave is kept for a week.") == ()


def test_without_evidence_there_is_no_premise() -> None:
    assert nearest_premise(build_evidence([]), parse_statement("Anything.")) is None


DAYS = "Vendors must submit a reimbursement request within 3 days when the expense is approved by a manager."
VENDORS = (
    "Vendors may begin onboarding only after the security questionnaire is approved.",
    "Once procurement confirms the vendor record, vendors must act within 2 business days.",
)
LEAVE = "Employees must submit the leave request within 21 working days."


def predict(answer: str, *texts: str) -> tuple[str, str]:
    evidence = build_evidence(Passage(f"E{number}", "", text) for number, text in enumerate(texts, 1))
    prediction = predict_entailment(parse_statement(answer), evidence)
    return prediction.status, prediction.unsupported_span


def test_the_papers_examples() -> None:
    texts = (DAYS, *VENDORS, LEAVE)
    both = (
        "Vendors may begin onboarding after the security questionnaire is approved and procurement confirms the vendor "
        "record, and they must act within 2 business days."
    )
    days = predict("Vendors must submit a reimbursement request within 4 days.", *texts)
    assert days == ("contradicted", "4 days")
    assert predict(both, *texts)[0] == "supported"
    assert predict("Approval is automatic and cannot be delayed.", *texts)[0] in ("unsupported", "overclaim")
    assert predict(LEAVE, *texts) == ("supported", "")


@pytest.mark.parametrize(
    ("answer", "text", "status", "span"),
    [
        ("Interns need not wear a badge.", "Interns must wear a badge.", "contradicted", "need not wear"),
        ("Guests may smoke on the terrace.", "Guests may not smoke on the terrace.", "contradicted", "may smoke"),
        ("All visitors sign in at the desk.", "Some visitors sign in at the desk.", "overclaim", "All"),
        ("Staff may work from home.", "Staff may work from home if the manager agrees in writing.", "overclaim", "Staff may work from home"),
        ("Logs are kept for 90 days.", "Logs are kept for 30 days.", "contradicted", "90 days"),
        ("Reviews take place monthly.", "Reviews take place every quarter.", "contradicted", "monthly"),
        ("The rule applies from 1 May 2024.", "The rule applies from 1 March 2024.", "contradicted", "1 May 2024"),
        ("Invoices are paid on Fridays because the bank insists on it.", "Invoices are paid on Fridays.", "unsupported", "because the bank insists on it"),
    ],
)  # fmt: skip
def test_single_differences_are_classified_and_located(answer: str, text: str, status: str, span: str) -> None:
    assert predict(answer, text) == (status, span)


def test_the_weights_can_be_fitted_again() -> None:
    """A fit on claims of known status is more accurate on them than calling each one supported."""
    cases = nli_weights.nli_cases(SyntheticClaims("train", size=120))
    weights = nli_weights.fit_nli(cases)
    assert set(weights) == set(WEIGHTS)
    correct = 0
    for features, status, _ in cases:
        scores = [
            sum(value * weights[name][column] for name, value in features.items()) for column in range(len(STATUSES))
        ]
        correct += scores.index(max(scores)) == status
    assert correct / len(cases) > sum(status == 0 for _, status, _ in cases) / len(cases) + 0.15
    table = tomllib.loads(nli_weights.format_weights(weights))["weights"]
    assert list(table) == sorted(WEIGHTS)
    assert all(row == pytest.approx(weights[name], abs=0.0051) for name, row in table.items())
