"""The corruption operators on real sentences: what they make, what they refuse, and that labels can be defended.

Expected texts are written out by hand; the number and date checks on real folders read values back with patterns of
the test's own.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.corpora.readers.folder import read_folder
from factgym.generators.corruption.base import Context, Corruption, bare, has_words, in_main_clause, protected
from factgym.generators.corruption.candidates import find_candidates, usable
from factgym.generators.corruption.clauses import find_exception
from factgym.generators.corruption.numbers import spell, value_of
from factgym.generators.corruption.operators import OPERATORS, operators_for
from factgym.generators.corruption.paraphrase import attribute, name_of, reword, turn
from factgym.generators.corruption.parties import find_parties
from factgym.generators.documents.index import DocumentIndex

FOLDERS = [
    ("policies_basecamp", "*.md"),
    ("policies_18f", "*.md"),
    ("policies_github_site", "*.md"),
    ("policies_automattic", "*.md"),
    ("cuad/contracts", "*.txt"),
]


def corrupt(operator: str, sentence: str, document: str = "", seed: int = 0, **more: object) -> Corruption | None:
    context = Context(sentence, f"{sentence}\n{document}", **more)  # type: ignore[arg-type]
    return OPERATORS[operator].apply(sentence, random.Random(f"test:{seed}"), context)


def every(operator: str, sentence: str, document: str = "") -> set[str]:
    made = (corrupt(operator, sentence, document, seed) for seed in range(60))
    return {one.text for one in made if one is not None}


@pytest.mark.parametrize(
    ("sentence", "pattern", "wrong"),
    [
        ("Customers must submit a request within 7 days when it is approved.", r"within (\d+) days", lambda n: n < 7),
        ("You must give at least 10 days of notice to the office.", r"at least (\d+) days", lambda n: n > 10),
        ("The fee shall not exceed 10% of the price of the goods.", r"exceed (\d+)%", lambda n: n < 10),
        ("You can carry over up to 240 hours of leave in a year.", r"up to (\d+) hours", lambda n: n > 240),
        ("If you worked for at least 12 months, you can apply for leave.", r"at least (\d+) months", lambda n: n < 12),
        (
            "Veterans with a rating of 30 percent or more, if approved, may apply.",
            r"of (\d+) percent",
            lambda n: n > 30,
        ),
    ],
)
def test_a_changed_number_never_follows_from_the_old_one(sentence: str, pattern: str, wrong: object) -> None:
    values = {int(re.search(pattern, text)[1]) for text in every("number", sentence)}  # type: ignore[index]
    assert values
    assert all(wrong(value) for value in values)  # type: ignore[operator]


def test_numbers_keep_their_style_and_avoid_what_the_document_says() -> None:
    made = every("number", "Client shall pay within thirty (30) days of the invoice.")
    assert made
    for text in made:
        word, digits = re.search(r"within ([a-z-]+) \((\d+)\) days", text).groups()  # type: ignore[union-attr]
        assert spell(int(digits)) == word
    assert every("number", "The term is one year from that date.") == {
        f"The term is {spell(n)} years from that date." for n in (2, 3)
    }
    kept = every("number", "Data is kept for 30 days in all.", "Logs are kept for 60 days; backups ninety (90) days.")
    assert kept
    assert not any(re.search(r"\b(60|90) days", text) for text in kept)


@pytest.mark.parametrize(
    "sentence",
    [
        "See Section 3 days before the event for the terms of it.",
        "The support team is available 24 hours a day for everybody.",
        "Trips of 3 to 5 days are paid by the office in advance.",
        "The agreement lasts for an initial one (1) year term in all.",
        "Leave (20 days) is granted by the company to all who ask for it.",
        "The hours do not change from one pay period to the next.",
        "You may call (877) 472-6716 for help with your itinerary.",
        "It is paid even if the balance is below 5 percent of the sum.",
        "Article 12 months are counted as in the schedule to this plan.",
    ],
)
def test_numbers_that_are_left_alone(sentence: str) -> None:
    assert every("number", sentence) == set()


def test_amounts() -> None:
    made = every("amount", "Receipts are required for any other expenses over $75 on a trip.")
    assert made
    assert all(int(re.search(r"\$(\d+)", text)[1]) < 75 for text in made)  # type: ignore[index]
    assert every("amount", "Liability is limited to one thousand dollars ($1,000) in all cases.") == set()
    assert all("," in text for text in every("amount", "The salary is £740,000 for every year of service."))


def test_dates_frequencies_and_versions() -> None:
    made = every("date", "Enrollment is closed on October 1 of each year for everybody.")
    assert len(made) > 3
    assert "Enrollment is closed on October 1 of each year for everybody." not in made
    assert all(re.search(r"on [A-Z][a-z]+ \d{1,2} of", text) for text in made)
    assert every("date", "On Wednesday January 2nd the office is closed to all.") == set()
    assert all(re.search(r"in (19|20)\d\d", text) for text in every("date", "The policy was adopted in 2016."))
    assert every("date", "The total is divided by 2087 hours rather than that.") == set()
    assert every("frequency", "The fee is paid annually by all customers of ours.") == {
        f"The fee is paid {word} by all customers of ours." for word in ("daily", "weekly", "monthly", "quarterly")
    }
    assert every("frequency", "Staff work 40 hours per week in the office.") == set()
    versions = every("version", "Traffic is encrypted with TLS 1.2 at the least.")
    assert versions
    assert versions <= {f"Traffic is encrypted with TLS 1.{n} at the least." for n in (1, 3, 4)}


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("You must register with your true identity.", "You need not register with your true identity."),
        ("Distributor shall not assign this Agreement to others.", "Distributor may assign this Agreement to others."),
        ("You may not resell the Service to others.", "You may resell the Service to others."),
        ("Credit hours cannot be converted to cash.", "Credit hours can be converted to cash."),
        ("We do not sell your personal data.", "We sell your personal data."),
        ("The plan does not cover dental care.", "The plan does cover dental care."),
        ("You are not required to stay late.", "You are required to stay late."),
        ("Customer is responsible for all fees.", "Customer is not responsible for all fees."),
        ("We will notify you of any change.", "We will not notify you of any change."),
        ("Company shall pay the fee in full.", "Company shall not pay the fee in full."),
    ],
)
def test_polarity(sentence: str, expected: str) -> None:
    made = corrupt("polarity", sentence)
    assert made is not None
    assert made.text == expected
    assert made.status == "contradicted"


@pytest.mark.parametrize(
    "sentence",
    [
        "The service may not be available at all hours.",
        "Nothing in this Agreement will impair our rights.",
        "You must only use the form that is provided.",
        "Either party can terminate this Agreement.",
        "This shall be deemed to be accepted by all.",
        "You can find more details in the guide.",
        "In some cases we will contact the user.",
    ],
)
def test_polarity_is_not_turned_where_the_result_could_be_argued_with(sentence: str) -> None:
    assert corrupt("polarity", sentence) is None


@pytest.mark.parametrize(
    ("sentence", "expected", "span"),
    [
        (
            "We collect some information about visitors.",
            "We collect all information about visitors.",
            "all information",
        ),
        ("In some cases, you pay us extra fees.", "In all cases, you pay us extra fees.", "In all cases"),
        ("We offer apps for some of our products.", "We offer apps for all of our products.", "all of"),
        ("We usually reply on the same day.", "We always reply on the same day.", "always"),
        ("Fees are typically paid in advance.", "Fees are always paid in advance.", "always"),
    ],
)
def test_scope(sentence: str, expected: str, span: str) -> None:
    made = corrupt("scope", sentence)
    assert made == Corruption(expected, "overclaim", span, "scope", made.reason) if made else False


@pytest.mark.parametrize(
    "sentence",
    [
        "We do not share some information with others.",
        "If some of your data is lost, we will tell you.",
        "Generally accepted accounting principles apply.",
        "The databases are generally not encrypted at rest.",
        "There are some costs to be paid by you.",
        "In some cases a disclaimer can help you.",
    ],
)
def test_scope_is_left_alone_where_widening_it_would_narrow_or_break_it(sentence: str) -> None:
    assert corrupt("scope", sentence) is None


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("GitHub may suspend the account of the user.", "GitHub must suspend the account of the user."),
        ("We may share your data with our partners.", "We will always share your data with our partners."),
        ("You may be entitled to a refund of fees.", "You will always be entitled to a refund of fees."),
    ],
)
def test_modality(sentence: str, expected: str) -> None:
    made = corrupt("modality", sentence)
    assert made is not None
    assert (made.text, made.status) == (expected, "overclaim")


@pytest.mark.parametrize(
    "sentence",
    [
        "You may cancel your account at any time.",
        "Report any content that may violate our policies.",
        "The service may not work for all users.",
        "We may occasionally update this statement.",
        "Results may vary with the browser in use.",
    ],
)
def test_modality_is_left_alone(sentence: str) -> None:
    assert corrupt("modality", sentence) is None


@pytest.mark.parametrize(
    ("sentence", "main"),
    [
        ("If your travel is billable, you must ask your account manager.", "You must ask your account manager"),
        ("You may use our Services only if you are over 13.", "You may use our Services"),
        ("We do not disclose preserved data unless required by law.", "We do not disclose preserved data"),
        (
            "Distributor may not sell Products to end users without the written consent of NETGEAR.",
            "Distributor may not sell Products to end users",
        ),
        ("Unless you take part in the program, you may not sell copies.", "You may not sell copies"),
        (
            "GitHub may use third parties to do so, provided that GitHub remains liable.",
            "GitHub may use third parties to do so",
        ),
    ],
)
def test_conditions_are_dropped(sentence: str, main: str) -> None:
    made = corrupt("condition_dropped", sentence)
    assert made is not None
    assert (made.text, made.unsupported_span, made.status) == (f"{main}.", main, "overclaim")


@pytest.mark.parametrize(
    "sentence",
    [
        "Ask your supervisor to see if the date is right.",
        "You can opt out of all marketing if you want to.",
        "If you have questions, you can contact the office by mail.",
        "We only collect information about you if we have a reason.",
        "We may update this policy of ours once in a blue moon.",
        "If a firm, a service, or other party is involved, recusal is not triggered at all.",
        "If a user breaks the rules, they will be removed from the site.",
        "This is when you have to send the form to the office.",
        "Stripe will pay you even if the balance is below the limit.",
        "The payments would have expired if notice had been given.",
        "Receipts are needed for lodging, cars, gas when using a car, and any other costs.",
        "You will get an email when your travel is ticketed.",
        "Subject to the terms of this Agreement, NETGEAR may end it.",
        "GitHub may revoke the permission for any or no reason, without notice of any kind.",
    ],
)
def test_conditions_that_are_none_or_whose_loss_says_nothing(sentence: str) -> None:
    assert corrupt("condition_dropped", sentence) is None


def test_exceptions() -> None:
    made = corrupt(
        "exception_dropped", "No copies may be retained by the Executive except with the consent of the Board."
    )
    assert made is not None
    assert made.text == "No copies may be retained by the Executive."
    kept = corrupt("exception_dropped", "Except as otherwise provided herein, all fees are due at once.")
    assert kept is None
    assert find_exception("The content serves little or no purpose other than to shock people") is None
    assert find_exception("It lasts longer than 1 year, but not to exceed 4 years") is None


CONTRACT = [
    "Distributor shall pay all invoices of NETGEAR in full.",
    "NETGEAR shall provide training to the staff of Distributor.",
    "Distributor shall submit a report to NETGEAR in each month.",
    "NETGEAR shall notify Distributor of each change of a price.",
    "NETGEAR shall furnish samples to the customers.",
    "Distributor shall provide a forecast of its orders.",
]


def test_parties_of_a_contract() -> None:
    assert find_parties(CONTRACT) == (("Distributor", "NETGEAR"),)
    alias = [
        *CONTRACT[:1],
        'NETGEAR, Inc. (the "Company") shall pay Distributor.',
        "Company shall pay the fee in full.",
    ]
    assert ("Company", "NETGEAR") not in find_parties(alias * 3)
    made = corrupt("party", CONTRACT[5], parties=find_parties(CONTRACT))
    assert made is not None
    assert made.text == "NETGEAR shall provide a forecast of its orders."
    assert (made.status, made.unsupported_span) == ("contradicted", "NETGEAR")


@pytest.mark.parametrize(
    "sentence",
    [
        "Distributor shall pay all invoices of NETGEAR in full.",  # both are named
        "Distributor shall not take any action that harms the brand.",  # nobody else may either
        "Distributor shall comply with all applicable laws.",
        "Each of Distributor and its affiliates shall pay the fee.",
    ],
)
def test_a_party_is_not_swapped_where_the_rule_could_hold_for_both(sentence: str) -> None:
    assert corrupt("party", sentence, parties=find_parties(CONTRACT)) is None


def test_a_party_is_not_swapped_when_the_document_says_so_of_the_other_too() -> None:
    sentence = "Distributor shall provide a forecast of its orders."
    other = "NETGEAR shall provide a forecast of supplies."
    assert corrupt("party", sentence, other, parties=find_parties(CONTRACT)) is None


def test_invented_causes() -> None:
    made = corrupt("cause", "You must register with your true identity.")
    assert made is not None
    assert made.text.startswith("You must register with your true identity")
    assert made.status == "unsupported"
    assert made.unsupported_span in made.text
    assert not has_words("You must register", made.unsupported_span)
    assert corrupt("cause", "You must register because the law requires it of us.") is None
    silent = " ".join(["insurance insurer auditor union court backlog budget survey pilot staffing fraud storage software"
                       " lawsuit tax competitor complaint shareholder environment error regulator pandemic consultant"
                       " merger currency travel archive training supplier energy"])  # fmt: skip
    assert corrupt("cause", "You must register with your true identity.", silent) is None


def test_donor_operators_use_what_they_are_given() -> None:
    for name in ("addition", "irrelevant"):
        assert corrupt(name, "You must register today.") is None
        made = corrupt(name, "You must register today.", donors=("The cafeteria opens at noon.",))
        assert made is not None
        assert (made.text, made.unsupported_span) == ("The cafeteria opens at noon.", "The cafeteria opens at noon")


@pytest.mark.parametrize(
    ("sentence", "good"),
    [
        ("You must register with your true identity on the first day.", True),
        ("However, you must register with your true identity.", True),
        ("This must be done on the first day of the month.", False),
        ("For this reason, you must register with your identity.", False),
        ("Submit the form to your supervisor, who will sign it.", False),
        ("You must register: name, address and date of birth.", False),
        ("You must register at https://example.org before you start.", False),
        ("Is it true that you must register on the first day?", False),
        ("Governing Law; Jurisdiction; Dispute Resolution and more of it.", False),
        ("“Services” means the services that we offer to the public.", False),
        ("The Company shall (a) pay the fee and (b) send the form.", False),
        ("you must register with your true identity on the first day.", False),
        ("I must register with my true identity on the first day.", False),
        ("You must write to […] before the first day of the month.", False),
        ("CUSTOMER ACKNOWLEDGES THAT NETGEAR MAKES NO WARRANTY AT ALL.", False),
    ],
)
def test_usable_sentences(sentence: str, good: bool) -> None:
    assert usable(sentence) is good


def test_candidates_stand_where_they_say_and_lists_lean_on_their_introduction() -> None:
    text = (
        "You must not do any of the things named:\n- Sell the data of other people to advertisers. You must ask us first in all such cases.\n"
        "- Log data: We collect the address of your browser and device.\n"
        "2.1 The Company shall pay the fee within ten days of the invoice.\n"
        "    You must not read this line of code as a rule of ours."
    )
    found = list(find_candidates(text))
    assert [text[one.start : one.end] for one in found] == [one.text for one in found]
    assert [one.text for one in found] == [
        "You must ask us first in all such cases.",
        "We collect the address of your browser and device.",
        "The Company shall pay the fee within ten days of the invoice.",
    ]


@pytest.mark.parametrize("value", range(1, 100))
def test_numbers_in_words(value: int) -> None:
    assert value_of(spell(value)) == value


def test_rewording_never_touches_the_span_and_keeps_the_rest_true() -> None:
    sentence = "However, you must notify us within thirty (30) days prior to the change."
    seen = {reword(sentence, "thirty (30) days", random.Random(f"r{n}")) for n in range(80)}
    assert len(seen) > 4
    assert all("thirty (30) days" in text and text[0].isupper() and "However" not in text for text in seen)
    assert {reword("No rule fits at all.", "", random.Random(f"r{n}")) for n in range(9)} == {"No rule fits at all."}


def test_turning_a_sentence_round() -> None:
    assert (
        turn("If you cancel the plan, you will lose your data.") == "You will lose your data if you cancel the plan."
    )
    assert (
        turn("You will lose your data if you cancel the plan.") == "If you cancel the plan, you will lose your data."
    )
    assert (
        turn("Before your first trip, you must set up an account.")
        == "You must set up an account before your first trip."
    )
    assert turn("You must set up an account.") is None


def test_naming_the_source() -> None:
    assert name_of("Refund Policy") == "the Refund Policy"
    assert name_of("Leave types") == "“Leave types”"
    assert name_of("Refund policy (hey)") == "the Refund policy (hey)"
    texts = {attribute("You must register.", "Leave types", random.Random(f"a{n}")) for n in range(40)}
    assert "According to “Leave types”, you must register." in texts
    assert "You must register, according to “Leave types”." in texts
    assert all(
        "“Leave types”" in attribute("GitHub must pay.", "Leave types", random.Random(f"a{n}")) for n in range(9)
    )


def test_protected_stretches_and_main_clauses() -> None:
    text = "See Section 4.2(a), call (877) 472-6716 or write to a@b.org on 24/7 terms of Rule 10b-5."
    kept = [text[start:end] for start, end in protected(text)]
    assert kept == ["Section 4.2(a)", "(877) 472-6716", "a@b.org", "24/7", "Rule 10b-5."]
    assert in_main_clause("You ")
    assert not in_main_clause("If you ")
    assert in_main_clause("If you go, we ")


def test_the_registry() -> None:
    assert all(name == one.name for name, one in OPERATORS.items())
    assert {one.name for one in operators_for("overclaim")} == {
        "scope",
        "modality",
        "condition_dropped",
        "exception_dropped",
    }
    assert operators_for("supported") == []


@settings(max_examples=300)
@given(st.text(alphabet='If you may not pay $50 within thirty (30) days, except 5% of all. We,;.’“”"-', max_size=200))
def test_no_text_makes_an_operator_fail(text: str) -> None:
    context = Context(text, text, donors=("A donor stands here.",))
    for operator in OPERATORS.values():
        made = operator.apply(text, random.Random("fuzz"), context)
        assert made is None or made.unsupported_span in made.text


@pytest.mark.data
@pytest.mark.parametrize(("name", "glob"), FOLDERS)
def test_corruptions_of_real_documents_keep_their_promises(data_dir: Path, name: str, glob: str) -> None:
    index = DocumentIndex(read_folder(data_dir / name, glob=glob))
    made = 0
    for operator, one in OPERATORS.items():
        for number in index.pool(operator)[:120]:
            source = index.sources[number]
            done = index.corrupt(operator, number)
            if done is None:
                continue
            made += 1
            assert done.status == one.status
            assert done.operator == operator
            assert done.text.endswith(".") and done.text[0].isupper()
            assert done.unsupported_span in done.text
            assert done.text != source.text
            assert done.text.count("(") == done.text.count(")")
            _check_shape(operator, source.text, done, index.context(source).document)
    assert made > 100


def _check_shape(operator: str, source: str, done: Corruption, document: str) -> None:
    if operator in ("number", "amount", "date", "version"):
        assert not has_words(source, done.unsupported_span)
        digits = re.findall(r"\d+", done.unsupported_span)
        assert set(re.findall(r"\d+", done.text)) - set(re.findall(r"\d+", source)) <= set(digits)
        if operator != "number":
            assert not has_words(document, done.unsupported_span)
    if operator in ("condition_dropped", "exception_dropped"):
        assert len(done.text) < len(source)
        assert bare(done.text).casefold() in source.casefold()
    if operator == "cause":
        assert done.text.startswith(bare(source))
