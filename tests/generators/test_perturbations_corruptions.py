"""The corruption operators on real sentences: their edits, their refusals, and defensible labels.

Expected texts are written out by hand; the number and date checks on real folders read values back with patterns of
the test's own.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.corpora.documents import read_folder
from factgym.generators.document_index import DocumentIndex
from factgym.generators.perturbations.additions import can_join
from factgym.generators.perturbations.adjuncts import drop_item, drop_limit, drop_purpose
from factgym.generators.perturbations.clauses import find_exception, find_sentences, is_usable
from factgym.generators.perturbations.corruptions import OPERATORS, Corruption, status_of
from factgym.generators.perturbations.corruptions import corrupt as corrupt_statement
from factgym.generators.perturbations.entities import find_parties
from factgym.generators.perturbations.grammar import contains_words, in_main_clause, lowercase_opening, protected_spans
from factgym.generators.perturbations.modals import rephrase_modal
from factgym.generators.perturbations.operator import Edit, Statement
from factgym.generators.perturbations.rewording import format_title, move_clause, name_source, reword
from factgym.text.numbers import number_words, parse_number
from factgym.text.sentences import strip_full_stop

FOLDERS = [
    ("policies_basecamp", "*.md"),
    ("policies_18f", "*.md"),
    ("policies_github_site", "*.md"),
    ("policies_automattic", "*.md"),
    ("cuad/contracts", "*.txt"),
]


def corrupt(operator: str, sentence: str, document: str = "", seed: int = 0, **more: object) -> Corruption | None:
    rng = random.Random(f"test:{seed}")
    return corrupt_statement(operator, Statement(sentence, f"{sentence}\n{document}", rng, **more))  # type: ignore[arg-type]


def every_text(operator: str, sentence: str, document: str = "") -> set[str]:
    corruptions = (corrupt(operator, sentence, document, seed) for seed in range(60))
    return {corruption.text for corruption in corruptions if corruption is not None}


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
    values = {int(re.search(pattern, text)[1]) for text in every_text("number", sentence)}  # type: ignore[index]
    assert values
    assert all(wrong(value) for value in values)  # type: ignore[operator]


def test_numbers_keep_their_style_and_avoid_values_of_the_document() -> None:
    texts = every_text("number", "Client shall pay within thirty (30) days of the invoice.")
    assert texts
    for text in texts:
        word, digits = re.search(r"within ([a-z-]+) \((\d+)\) days", text).groups()  # type: ignore[union-attr]
        assert number_words(int(digits)) == word
    assert every_text("number", "The term is one year from that date.") == {
        f"The term is {number_words(n)} years from that date." for n in (2, 3)
    }
    texts = every_text(
        "number", "Data is kept for 30 days in all.", "Logs are kept for 60 days; backups ninety (90) days."
    )
    assert texts
    assert not any(re.search(r"\b(60|90) days", text) for text in texts)


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
    assert every_text("number", sentence) == set()


def test_amounts() -> None:
    texts = every_text("amount", "Receipts are required for any other expenses over $75 on a trip.")
    assert texts
    assert all(int(re.search(r"\$(\d+)", text)[1]) < 75 for text in texts)  # type: ignore[index]
    assert every_text("amount", "Liability is limited to one thousand dollars ($1,000) in all cases.") == set()
    assert all("," in text for text in every_text("amount", "The salary is £740,000 for every year of service."))


def test_dates_frequencies_and_versions() -> None:
    texts = every_text("date", "Enrollment is closed on October 1 of each year for everybody.")
    assert len(texts) > 3
    assert "Enrollment is closed on October 1 of each year for everybody." not in texts
    assert all(re.search(r"on [A-Z][a-z]+ \d{1,2} of", text) for text in texts)
    assert every_text("date", "On Wednesday January 2nd the office is closed to all.") == set()
    assert all(re.search(r"in (19|20)\d\d", text) for text in every_text("date", "The policy was adopted in 2016."))
    assert every_text("date", "The total is divided by 2087 hours rather than that.") == set()
    assert every_text("frequency", "The fee is paid annually by all customers of ours.") == {
        f"The fee is paid {word} by all customers of ours." for word in ("daily", "weekly", "monthly", "quarterly")
    }
    assert every_text("frequency", "Staff work 40 hours per week in the office.") == set()
    versions = every_text("version", "Traffic is encrypted with TLS 1.2 at the least.")
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
    corruption = corrupt("polarity", sentence)
    assert corruption is not None
    assert corruption.text == expected
    assert corruption.status == "contradicted"


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
def test_polarity_is_left_alone_where_the_label_could_be_disputed(sentence: str) -> None:
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
    corruption = corrupt("scope", sentence)
    assert corruption == Corruption(expected, "overclaim", span, "scope", corruption.reason) if corruption else False


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
        ("We may share your data with our partners.", "We will share your data with our partners."),
        ("You may be entitled to a refund of fees.", "You will be entitled to a refund of fees."),
    ],
)
def test_modality(sentence: str, expected: str) -> None:
    corruption = corrupt("modality", sentence)
    assert corruption is not None
    assert (corruption.text, corruption.status) == (expected, "overclaim")


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
    corruption = corrupt("condition_dropped", sentence)
    assert corruption is not None
    assert (corruption.text, corruption.unsupported_span, corruption.status) == (f"{main}.", main, "overclaim")


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
def test_conditions_that_are_none_or_do_not_restrict(sentence: str) -> None:
    assert corrupt("condition_dropped", sentence) is None


def test_exceptions() -> None:
    corruption = corrupt(
        "exception_dropped", "No copies may be retained by the Executive except with the consent of the Board."
    )
    assert corruption is not None
    assert corruption.text == "No copies may be retained by the Executive."
    boilerplate = corrupt("exception_dropped", "Except as otherwise provided herein, all fees are due at once.")
    assert boilerplate is None
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
    corruption = corrupt("party", CONTRACT[5], parties=find_parties(CONTRACT))
    assert corruption is not None
    assert corruption.text == "NETGEAR shall provide a forecast of its orders."
    assert (corruption.status, corruption.unsupported_span) == ("contradicted", "NETGEAR")


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


def test_a_party_is_not_swapped_when_the_document_states_it_of_the_other_too() -> None:
    sentence = "Distributor shall provide a forecast of its orders."
    other = "NETGEAR shall provide a forecast of supplies."
    assert corrupt("party", sentence, other, parties=find_parties(CONTRACT)) is None


@pytest.mark.parametrize(
    ("sentence", "exchanged", "span"),
    [
        ("NETGEAR shall notify Distributor of a change of its price.",
         "Distributor shall notify NETGEAR of a change of its price.", "Distributor shall notify NETGEAR"),
        ("Distributor shall submit a report to NETGEAR on NETGEAR's prices.",
         "NETGEAR shall submit a report to Distributor on Distributor's prices.",
         "NETGEAR shall submit a report to Distributor"),
        ("If the price rises, you must notify us of your decision.",
         "If the price rises, we must notify you of our decision.", "we must notify you"),
        ("You grant us a license to your content.", "We grant you a license to our content.", "We grant you"),
    ],
)  # fmt: skip
def test_giver_and_receiver_of_a_duty_are_exchanged(sentence: str, exchanged: str, span: str) -> None:
    corruption = corrupt("exchange", sentence, parties=find_parties(CONTRACT))
    assert corruption is not None
    assert (corruption.text, corruption.status, corruption.unsupported_span) == (exchanged, "contradicted", span)


@pytest.mark.parametrize(
    ("sentence", "document"),
    [
        (
            "NETGEAR shall notify Distributor of each change.",
            "Distributor shall notify NETGEAR of a return.",
        ),  # both do
        ("You may contact us about your account.", ""),  # both may
        ("If you ask, we will send you a link.", ""),  # two subjects
        ("The parties shall notify each other, and NETGEAR shall pay Distributor.", ""),
        ("NETGEAR shall pay Distributor Price List fees.", ""),  # part of a longer name
        ("Vendors shall pay Distributor in full.", ""),  # no party of the document
    ],
)
def test_a_duty_that_both_may_have_is_not_exchanged(sentence: str, document: str) -> None:
    assert corrupt("exchange", sentence, document, parties=find_parties(CONTRACT)) is None


def test_two_statements_are_joined_by_a_cause() -> None:
    first, second = "The office is open to visitors on Monday.", "You must sign the book."
    texts = {
        corruption.text
        for seed in range(40)
        if (corruption := corrupt("joined", first, second, seed, partner=lambda: second))
    }
    assert texts == {
        f"{start} you must sign the book, the office is open to visitors on Monday." for start in ("Because", "Since")
    } | {f"The office is open to visitors on Monday {word} you must sign the book." for word in ("because", "since")}
    corruption = corrupt("joined", first, second, partner=lambda: second)
    assert corruption is not None and corruption.status == "unsupported"
    assert corruption.unsupported_span.lower().endswith("you must sign the book")
    assert corrupt("joined", first) is None
    assert corrupt("joined", "If it rains, the office is open.", second, partner=lambda: second) is None
    assert corrupt("joined", "The office is not open on Sunday.", second, partner=lambda: second) is None
    assert can_join(second) and not can_join("You may sign the book.")


def test_invented_causes() -> None:
    corruption = corrupt("cause", "You must register with your true identity.")
    assert corruption is not None
    assert corruption.text.startswith("You must register with your true identity")
    assert corruption.status == "unsupported"
    assert corruption.unsupported_span in corruption.text
    assert not contains_words("You must register", corruption.unsupported_span)
    assert corrupt("cause", "You must register because the law requires it of us.") is None
    silent = " ".join(["insurance insurer auditor union court backlog budget survey pilot staffing fraud storage software"
                       " lawsuit tax competitor complaint shareholder environment error regulator pandemic consultant"
                       " merger currency travel archive training supplier energy"])  # fmt: skip
    assert corrupt("cause", "You must register with your true identity.", silent) is None


def test_donor_operators_use_the_given_donors() -> None:
    for name in ("addition", "irrelevant"):
        assert corrupt(name, "You must register today.") is None
        corruption = corrupt(name, "You must register today.", donors=("The cafeteria opens at noon.",))
        assert corruption is not None
        assert (corruption.text, corruption.unsupported_span) == (
            "The cafeteria opens at noon.",
            "The cafeteria opens at noon",
        )


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
        # What they point to is in another sentence.
        ("Each office is responsible for the cost of these services.", False),
        ("Every office must pay for its services when these services fail.", True),
        ("The discount is open to those under the age of sixteen.", True),
        ("If you did not make a note of it, you can look it up.", False),
        ("Employees may take this course of action on Mondays only.", False),
        ("When we can restart the process without a loss, we do.", False),
        # What a sentence points at by "this", "such" or "these" is named in it before.
        ("Your supervisor can write this explanation for you, if needed.", False),
        ("Tripath may appoint resellers with respect to such specific Product in the Territory.", False),
        ("The Company shall pay all royalties, and such royalties are due every month.", True),
        ("The fee is due monthly, and you must pay this fee to us in advance.", True),
        ("We work hard every day to maintain that trust.", False),
        ("After the thirty days are up, the deleted content may remain on our backups.", False),
        ("Franchisee must set up six sub -franchisees during the year of the contract.", False),
        ("Payment Based on Plan For monthly payment plans, the Service is billed in advance.", False),
        ("If your GitHub account has private repositories, you control the access to that information.", False),
        ("We share information with others, and you may limit the access to that information.", True),
        ("If you choose to limit this, you may not be able to use certain features.", False),
        ("Alternatively, you may book your official travel and have it approved as normal.", False),
        # Letters and headings before a sentence, two sentences in one, and what is left of a link.
        ("D. LEADER has not employed any broker or finder in connection with the sale.", False),
        ("Severity 1 Condition - Issue has a critical business impact on the Licensee's business.", False),
        ("Company shall provide the support described in Exhibit B. Company shall comply with laws.", False),
        ("All payments are performed by Stripe, Inc. and its affiliates on behalf of the sponsors.", True),
        ("For avoidance of doubt. maintenance services are limited to Services and not custom code.", False),
        ("You can also create an HTML export of your account data at any time (how-to).", False),
        # Noun phrases, whose only finite verbs are those of clauses within them.
        ("Recurring billing feature that allows for fully automated billing and automated retries of declines.", False),
        ("Specific to the browser and to the site from which it is set, as a rule.", False),
        ("Employees who start after September are not eligible to participate in the review cycle.", True),
        ("If you are a remote worker, enter your home address into the field for addresses.", True),
        # Slips of the authors.
        ("If a TTS employees has two performance plans of record, both plans need to be closed out.", False),
        ("You may estimate your expenses, plus an reasonable allowance for any additional expenses.", False),
        ("You must provide us with notice and the new Designated Admin’s contact information .", False),
        ("A copy will be provided by Manufacturer within 15-days of the Effective Date.", False),
        ("Each party will each do everything reasonably required of it by the other party.", False),
        ("Acquiring assets in a single transaction, provided that Operator is permitted to terminate leases.", False),
        ("An hour is deducted when a one-time code, a university card or an NDA is lost.", True),
    ],
)
def test_usable_sentences(sentence: str, good: bool) -> None:
    assert is_usable(sentence) is good


def test_usable_sentences_have_their_spans_and_list_items_depend_on_their_introduction() -> None:
    text = (
        "You must not do any of the things named:\n- Sell the data of other people to advertisers. You must ask us first in every other case.\n"
        "- Log data: We collect the address of your browser and device.\n"
        "2.1 The Company shall pay the fee within ten days of the invoice.\n"
        "    You must not read this line of code as a rule of ours."
    )
    sentences = list(find_sentences(text))
    assert [text[sentence.start : sentence.end] for sentence in sentences] == [sentence.text for sentence in sentences]
    assert [sentence.text for sentence in sentences] == [
        "You must ask us first in every other case.",
        "We collect the address of your browser and device.",
        "The Company shall pay the fee within ten days of the invoice.",
    ]


@pytest.mark.parametrize(
    ("sentence", "source", "lowered"),
    [
        ("Cookies are small files.", "We set cookies on each page.", "cookies are small files."),
        ("Customer may create repositories.", "A customer is free, and Customer may leave.", None),
        ("Distributor may leave.", "A sole distributor is named. Tripath and Distributor agree.", None),
        ("Cookies are small files.", "They are small. cookies too.", None),
        ("Cookies are small files.", "We bake minicookies.", None),
    ],
)
def test_an_opening_is_written_small_where_the_document_writes_it_so_and_it_is_no_defined_term(
    sentence: str, source: str, lowered: str | None
) -> None:
    assert lowercase_opening(sentence, [], source) == lowered


def test_edits_that_readers_stumbled_over_are_not_made() -> None:
    text = "No amendment shall be effective unless it is signed by the parties (or their representatives)."
    assert (
        move_clause(text)
        == "Unless it is signed by the parties (or their representatives), no amendment shall be effective."
    )
    assert corrupt("polarity", "It reduces the number of PPL hours you can receive, and vice versa.") is None
    assert (
        corrupt("polarity", "A review is not required; however, Supervisors can request that reports submit one.")
        is None
    )
    assert all(
        "per day" not in made.text
        for seed in range(20)
        if (made := corrupt("frequency", "You can use up to 13 days of sick leave per year.", seed=seed))
    )
    assert corrupt("polarity", "We will of course readily comply with court orders to turn data over.") is None
    assert corrupt("polarity", "Usage Data does not include and specifically excludes payment information.") is None
    assert rephrase_modal("An additional step is required to remove the meals.", random.Random(0)) is None
    named = "Processing is required to fulfill our duties, according to the Terms of Service."
    assert all(name_source(named, "Privacy Policy", random.Random(seed)).count("ccording to") < 2 for seed in range(9))
    assert rephrase_modal("You may not under any circumstances sell the pricing.", random.Random(0)) is None
    assert "whether or not having" in reword(
        "A person, whether or not having personality, must pay.", "", random.Random(0)
    )


@pytest.mark.parametrize("value", range(1, 100))
def test_numbers_in_words(value: int) -> None:
    assert parse_number(number_words(value)) == value


def test_rewording_never_touches_the_span_and_keeps_the_rest_true() -> None:
    sentence = "However, you must notify us within thirty (30) days prior to the change."
    seen = {reword(sentence, "thirty (30) days", random.Random(f"r{n}")) for n in range(80)}
    assert len(seen) > 4
    assert all("thirty (30) days" in text and text[0].isupper() and "However" not in text for text in seen)
    sentence = "Tell us if you are or were abroad when you open an account such as yours."
    assert {reword(sentence, "", random.Random(f"r{n}")) for n in range(40)} == {sentence}
    assert {reword("No rule fits at all.", "", random.Random(f"r{n}")) for n in range(9)} == {"No rule fits at all."}


def test_moving_a_clause_to_the_other_end() -> None:
    assert (
        move_clause("If you cancel the plan, you will lose your data.")
        == "You will lose your data if you cancel the plan."
    )
    assert (
        move_clause("You will lose your data if you cancel the plan.")
        == "If you cancel the plan, you will lose your data."
    )
    assert (
        move_clause("Before your first trip, you must set up an account.")
        == "You must set up an account before your first trip."
    )
    assert move_clause("You must set up an account.") is None


def test_naming_the_source() -> None:
    assert format_title("Refund Policy") == "the Refund Policy"
    assert format_title("Leave types") == "“Leave types”"
    assert format_title("Refund policy (hey)") == "the Refund policy (hey)"
    texts = {name_source("You must register.", "Leave types", random.Random(f"a{n}")) for n in range(40)}
    assert "According to “Leave types”, you must register." in texts
    assert "You must register, according to “Leave types”." in texts
    assert all(
        "“Leave types”" in name_source("GitHub must pay.", "Leave types", random.Random(f"a{n}")) for n in range(9)
    )


def test_protected_spans_and_main_clauses() -> None:
    text = "See Section 4.2(a), call (877) 472-6716 or write to a@b.org on 24/7 terms of Rule 10b-5."
    protected = [text[start:end] for start, end in protected_spans(text)]
    assert protected == ["Section 4.2(a)", "(877) 472-6716", "a@b.org", "24/7", "Rule 10b-5."]
    assert in_main_clause("You ")
    assert not in_main_clause("If you ")
    assert in_main_clause("If you go, we ")


def test_operators_are_registered_by_name_and_status() -> None:
    assert all(name == operator.name for name, operator in OPERATORS.items())
    assert {name for name in OPERATORS if status_of(name) == "overclaim"} == {
        *("scope", "modality", "duty", "hedge_dropped", "limit_dropped", "condition_dropped", "exception_dropped")
    }
    assert {status_of(name) for name in OPERATORS} == {"contradicted", "overclaim", "unsupported"}


@given(st.text(alphabet='If you may not pay $50 within thirty (30) days, except 5% of all. We,;.’“”"-', max_size=200))
def test_any_text_gives_an_edit_whose_span_is_in_the_result(text: str) -> None:
    statement = Statement(text, text, random.Random("fuzz"), donors=("A donor stands here.",))
    for operator in OPERATORS.values():
        edit = operator.propose(statement)
        assert not isinstance(edit, Edit) or (edit.span or edit.replacement) in edit.apply(text)


@pytest.mark.data
@pytest.mark.parametrize(("name", "glob"), FOLDERS)
def test_corruptions_of_real_documents_match_their_operator(data_dir: Path, name: str, glob: str) -> None:
    index = DocumentIndex(read_folder(data_dir / name, glob=glob).documents)
    count = 0
    for operator in OPERATORS:
        for number in index.pool(operator)[:120]:
            source = index.sources[number]
            corruption = index.corrupt(operator, number)
            if corruption is None:
                continue
            count += 1
            text = corruption.text
            assert corruption.status == status_of(operator)
            assert corruption.operator == operator
            assert text.endswith(".") and text[0].isupper()
            assert corruption.unsupported_span in text
            assert text != source.text
            assert text.count("(") == text.count(")")
            check_shape(operator, source.text, corruption, index.profile(source.document).text)
    assert count > 100


def check_shape(operator: str, source: str, corruption: Corruption, document: str) -> None:
    text, span = corruption.text, corruption.unsupported_span
    if operator in ("number", "amount", "date", "version"):
        assert not contains_words(source, span)
        assert set(re.findall(r"\d+", text)) - set(re.findall(r"\d+", source)) <= set(re.findall(r"\d+", span))
        if operator != "number":
            assert not contains_words(document, span)
    if operator in ("condition_dropped", "exception_dropped"):
        assert len(text) < len(source)
        assert strip_full_stop(text).casefold() in source.casefold()
    if operator == "cause":
        assert text.startswith(strip_full_stop(source))


def test_phrases_of_force_keep_it_reverse_it_or_strengthen_it() -> None:
    """The same words occur in faithful, contradicted and overclaiming statements."""
    rng = random.Random("force")
    duty, permission = "You must register with us.", "You may register with us."
    faithful = {rephrase_modal(duty, rng) for _ in range(40)}
    assert "You are required to register with us." in faithful and duty not in faithful
    assert every_text("modal", duty) & {"You need not register with us.", "You do not have to register with us."}
    assert "You are not allowed to register with us." in every_text("modal", permission)
    stronger = every_text("duty", permission)
    assert stronger == faithful | {duty}
    assert every_text("duty", "You may register with us or not.") == set()
    assert rephrase_modal("You will then need to register with us.", rng) is None


@pytest.mark.parametrize(
    ("sentence", "weaker", "operator"),
    [
        ("You must send the form within 10 days.", "You must send the form.", None),
        ("You can use your account for up to ten days.", "You can use your account.", "limit_dropped"),
        ("You must not send the form within 10 days.", None, None),
    ],
)
def test_a_limit_left_out_is_faithful_of_a_duty_and_an_overclaim_of_a_permission(
    sentence: str, weaker: str | None, operator: str | None
) -> None:
    rng = random.Random("limit")
    assert drop_limit(sentence, rng) == (weaker if operator is None else None)
    corruption = corrupt("limit_dropped", sentence)
    assert (corruption.text if corruption else None) == (weaker if operator else None)


def test_purposes_and_items_are_left_out_of_positive_statements_only() -> None:
    rng = random.Random("purpose")
    assert (
        drop_purpose("We store the address of your home in order to bill you.", rng)
        == "We store the address of your home."
    )
    assert drop_purpose("We do not store the address of your home in order to bill you.", rng) is None
    shorter = {drop_item("We collect your name, address, phone number, and age.", rng) for _ in range(20)}
    assert shorter == {"We collect your name, phone number, and age."}
    assert drop_item("We do not collect your name, address, phone number, and age.", rng) is None


@pytest.mark.parametrize(
    ("sentence", "contrary"),
    [
        ("You must ask us before you travel.", "You must ask us after you travel."),
        ("Licences are required.", "Licences are optional."),
        ("We share your data with partners.", "We never share your data with partners."),
        ("The records are deleted permanently.", "The records are deleted temporarily."),
        ("If it is deleted permanently, we will tell you.", None),
        ("No licence is required.", None),
        ("We store your address so we can send you the invoice.", None),
        ("The warranty applies regardless of any other warranty.", None),
        ("We may change the price at any time without notice.", None),
    ],
)
def test_contraries_are_of_positive_main_clauses(sentence: str, contrary: str | None) -> None:
    texts = every_text("contrary", sentence)
    assert contrary in texts if contrary else not texts


def test_clauses_are_taken_over_from_other_rules_of_the_same_actor() -> None:
    clauses = {
        "purpose": [("to protect the privacy of visitors", "we", False), ("to protect the visitors", "you", False)],
        "limit": [("within 14 days", "", False)],
        "condition": [("if you sell a building", "you", False), ("if the weather is bad", "you", False)],
    }
    more = {"clauses": lambda kind: clauses[kind]}
    added = corrupt("purpose_added", "We may count the visitors in each secure area.", **more)
    assert added is not None
    assert added.text == "We may count the visitors in each secure area to protect the privacy of visitors."
    assert (added.status, added.unsupported_span) == ("unsupported", "to protect the privacy of visitors")
    limit = corrupt("limit_added", "You must submit the form to the office.", **more)
    assert limit is not None and limit.text == "You must submit the form to the office within 14 days."
    assert corrupt("limit_added", "You must submit the form by Monday at any time.", **more) is None
    exchanged = corrupt("condition_exchanged", "You may request help with a building if you move to a city.", **more)
    assert exchanged is not None and exchanged.text == "You may request help with a building if you sell a building."
    redundant = corrupt(
        "purpose_added", "We may count the visitors in each secure area.", "to protect the privacy of visitors", **more
    )
    assert redundant is None
    assert corrupt("cause", "You must register with your true identity.", **more) is None
