"""Places of quotes: by construction in files that the test writes, and in public documents by comparing the words."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from public_data import find_data_dir

from factgym.check import check_text
from factgym.check.documents import CheckedDocuments, FileText
from factgym.core.errors import DataError
from factgym.text.sentences import sentences

WORDS = re.compile(r"[^\W_]+")


def test_the_place_of_a_sentence_is_where_the_file_has_it(tmp_path: Path) -> None:
    """Markup, wrapped lines, and a sentence that occurs under two headings."""
    text = (
        "\ufeff# Handbook\r\n\r\n## Leave\r\n\r\nStaff get **20 days** of [leave](https://example.org/a/long/link) a\r\n"
        "year. Ask your manager.\r\n\r\n## Travel\r\n\r\n- Trips are booked by the office. Ask your manager.\r\n"
    )
    (tmp_path / "handbook.md").write_bytes(text.encode("utf-8"))
    documents = CheckedDocuments(tmp_path)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n")
    locations = [
        (passage.text[start:end], documents.locate(passage.id, start, end))
        for passage in documents.passages
        for start, end in sentences(passage.text)
    ]
    written = [lines[location.start : location.end] for _, location in locations]
    assert written == [
        "Staff get **20 days** of [leave](https://example.org/a/long/link) a\nyear.",
        "Ask your manager.",
        "Trips are booked by the office.",
        "Ask your manager.",
    ]
    assert [location.line for _, location in locations] == [5, 6, 10, 10]
    assert [location.section for _, location in locations] == ["Leave", "Leave", "Travel", "Travel"]
    assert str(locations[0][1]) == "handbook.md:5, Handbook › Leave"


def test_a_table_row_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "t.md").write_text(
        "# Fees\n\n| Plan | Fee |\n| --- | --- |\n| Small | 10 euros |\n| Large | 90 euros |\n"
    )
    documents = CheckedDocuments(tmp_path)
    (passage,) = documents.passages
    start = passage.text.index("Plan: Large")
    location = documents.locate(passage.id, start, len(passage.text))
    assert (location.line, location.start) == (6, None)


def test_a_row_of_values_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "seats.csv").write_text("Plan,Seats\nBasic,1\nPro,5\n")
    documents = CheckedDocuments(tmp_path)
    (passage,) = documents.passages
    assert documents.locate(passage.id, passage.text.index("Plan: Pro"), len(passage.text)).line == 3


def test_of_several_matches_the_context_decides() -> None:
    """Against brute force: the only occurrence behind the words that precede the quote."""
    rng = random.Random(1)
    words = [rng.choice(["one", "two", "three", "four", "five", "six"]) for _ in range(400)]
    text = FileText(" ".join(words))
    for number in rng.sample(range(20, 380), 60):
        quote, context = words[number : number + 5], words[number - 12 : number]
        windows = [n for n in range(12, 396) if words[n - 12 : n + 5] == [*context, *quote]]
        if len(windows) == 1:
            start = len(" ".join(words[:number])) + 1
            assert text.find(" ".join(quote), " ".join(context)) == (start, start + len(" ".join(quote)))


def test_places_in_public_documents_hold_the_words_of_the_sentence() -> None:
    data = find_data_dir()
    if data is None:
        pytest.skip("needs the public data sets (FACTGYM_DATA)")
    total = located = 0
    for folder in ("policies_basecamp", "policies_18f", "cuad/contracts"):
        documents = CheckedDocuments(data / folder)
        for passage in documents.passages:
            for start, end in sentences(passage.text)[:2]:
                location, total = documents.locate(passage.id, start, end), total + 1
                if location.start is None or location.end is None:
                    continue
                located += 1
                raw = (data / folder / location.document).read_text("utf-8-sig")
                assert raw.count("\n", 0, location.start) + 1 == location.line
                remaining = iter(WORDS.findall(raw[location.start : location.end].casefold()))
                quote = re.sub(r"^\(?\w{1,4}[.)] ", "", passage.text[start:end])
                assert all(word in remaining for word in WORDS.findall(quote.casefold()))
    assert located > 0.95 * total


def test_files_that_need_more_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factgym.corpora.extraction.find_spec", lambda name: None)
    (tmp_path / "a.md").write_text("# A\n\nA rule holds for everybody.\n")
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.4")
    documents = CheckedDocuments(tmp_path)
    assert [(file.path, "documents" in file.reason) for file in documents.skipped] == [("b.pdf", True)]
    with pytest.raises(DataError, match="no such folder"):
        CheckedDocuments(tmp_path / "none")


PLANS = (
    "The Basic plan costs 10 euros a month. The Pro plan costs 25 euros a month. The office in Lyon opened in 2012.\n"
)
TEAM = "Anna Keller leads the office in Lyon. The team has 12 engineers and 4 designers.\n"


@pytest.mark.parametrize(
    ("claim", "status", "reason"),
    [
        ("The Basic plan is great value.", "cannot_judge", "opinion"),
        ("In our view support is slow.", "cannot_judge", "opinion"),
        ("The Basic and the Pro plan together cost 35 euros a month.", "cannot_judge", "computed"),
        ("A year of Basic costs 120 euros.", "cannot_judge", "computed"),
        ("The Pro plan costs 15 euros more than the Basic plan.", "cannot_judge", "computed"),
        ("The team has 16 people.", "cannot_judge", "computed"),
        ("Anna Keller leads the office that opened in 2012.", "cannot_judge", "several documents"),
        ("The team has 30 people.", "unsupported", "does not say"),  # of engineers and designers neither excludes it
        ("The team has 13 engineers.", "contradicted", "“12”"),
        ("The Pro plan costs 35 euros a month.", "contradicted", "25 euros"),
        ("Anna Keller leads the office in Paris.", "contradicted", "Lyon"),
    ],
)
def test_claims_that_take_more_than_a_sentence(claim: str, status: str, reason: str) -> None:
    (judged,) = check_text(claim, {"plans.md": PLANS, "team.md": TEAM}).claims
    assert judged.status == status and reason in judged.reason


def test_an_opinion_about_a_contract_is_not_judged() -> None:
    clause = (
        "Subject to the terms of this Agreement, each party hereby grants to the receiving party a perpetual licence to"
        " reproduce and disclose the confidential information, and the licensee shall indemnify the licensor thereof.\n\n"
    )
    claims = check_text("It is the best agreement of all. It was signed in Oslo.", {"a.txt": clause * 4}).claims
    assert [claim.status for claim in claims] == ["cannot_judge", "unsupported"]


TABLES_AND_LISTS: list[tuple[str, str, list[str], list[str]]] = [
    (
        "people.csv",
        "name,age,city,weight (kg),employer\nAnn,30,Rome,61,Acme\nBob,40,Oslo,80,Bolt\n",
        ["Bob lives in Oslo.", "Ann is 30 years old.", "Bob weighs 80 kg.", "Bob works for Bolt.", "Ann's age is 30."],
        [
            "Bob lives in Rome.",
            "Ann is 40 years old.",
            "Bob weighs 61 kg.",
            "Bob weighs 80 pounds.",
            "Bob works for Acme.",
            "Ann is older than Bob.",
            "Bob is 80 years old.",
            "Ann is 61 years old.",
        ],
    ),
    (
        "document.md",
        "## 2.3.0 (2024-05-14)\n\n### Added\n- Option `--timeout` for all commands.\n- Support for Windows.\n\n### Removed\n- Support for Python 3.8.\n- The old login page.\n\n## 2.2.1 (2024-03-02)\n\n### Added\n- Dark mode.\n",
        [
            "Support for Python 3.8 was removed in version 2.3.0.",
            "Support for Windows was added in 2.3.0.",
            "The old login page was removed.",
        ],
        [
            "Support for Python 3.8 was added in version 2.3.0.",
            "Support for Python 3.8 was removed in version 2.2.1.",
            "Support for Windows was removed.",
            "Dark mode was added in version 2.3.0.",
            "Dark mode was removed.",
            "The new login page was removed.",
        ],
    ),
    (
        "document.md",
        "## Lentil soup (serves 4)\n\n- 250 g red lentils\n- 1 litre of vegetable stock\n- 2 carrots, 1 leek\n- salt to taste\n\n## Bean soup\n\n- 300 g beans\n",
        ["The lentil soup contains 250 g of red lentils.", "The lentil soup serves 4."],
        [
            "The bean soup contains 250 g of red lentils.",
            "The lentil soup contains 300 g of beans.",
            "The lentil soup contains 250 g of green lentils.",
            "The lentil soup needs 2 leeks.",
            "The lentil soup needs 1 carrot.",
            "The lentil soup contains 250 kg of red lentils.",
            "The lentil soup contains no lentils.",
            "The soup does not contain 250 g of red lentils.",
            "The lentil soup serves 250.",
        ],
    ),
    (
        "document.md",
        "## Staff\n\n- Anna Keller, director\n- Tom Ruiz, cook (since 2019)\n- Letter from Anna to Tom\n",
        ["Anna Keller is the director.", "Tom Ruiz has been cook since 2019."],
        [
            "Tom Ruiz is the director.",
            "Anna Keller is the cook.",
            "There is a letter from Tom to Anna.",
            "Anna Keller has been director since 2019.",
        ],
    ),
    (
        "document.md",
        "Invoice 2041\n\nTotal: 120 EUR\nDue: 5 May 2024\nPaid: no\n",
        [],
        ["The invoice was paid on 5 May 2024.", "The invoice has been paid.", "The invoice is due on 6 May 2024."],
    ),
    (
        "document.md",
        "| Item | Wash | Dry-clean |\n| --- | --- | --- |\n| Shirt | 2.80 € | 4.50 € |\n| Suit | – | 14.00 € |\n| Duvet (single) | 16.00 € | 24.00 € |\n| Duvet (double) | 21.00 € | 31.00 € |\n\nExpress service (same day): + 50 %. Not available on Saturdays.",
        ["Dry-cleaning a suit costs 14.00 €.", "Washing a shirt costs €2.80."],
        [
            "Dry-cleaning a shirt costs 14.00 €.",
            "Washing a suit costs 14.00 €.",
            "Washing a shirt costs 4.50 €.",
            "Washing a shirt costs 2.80 dollars.",
        ],
    ),
    (
        "document.md",
        "## Hire (per day)\n\n- City bike: 12 CHF\n- E-bike: 29 CHF (deposit 200 CHF)\n- Child seat: 4 CHF, free with an e-bike\n- Helmet: free\n\nWeekly hire costs five times the daily price. Bikes returned after 18:00 are charged for another day. We do not hire out tandems.",
        [
            "An e-bike costs 29 CHF per day.",
            "The deposit for an e-bike is 200 CHF.",
            "A city bike costs 12 francs a day.",
        ],
        [
            "An e-bike costs 200 CHF.",
            "The deposit for an e-bike is 29 CHF.",
            "An e-bike costs 12 CHF.",
            "An e-bike costs 29 CHF per week.",
            "An e-bike costs 29 euros.",
        ],
    ),
    (
        "document.md",
        "| Stop | Mon–Fri | Sat | Sun |\n| --- | --- | --- | --- |\n| Harbour | 07:10 | 08:40 | – |\n| Town Hall | 07:22 | 08:52 | – |\n| Hospital | 07:35 | 09:05 | 10:15 |\n\nRuns on school days only between Harbour and Town Hall. No service on 25 December.",
        [],
        [
            "On Sundays the bus leaves the Town Hall at 08:52.",
            "On Saturdays the bus leaves the Town Hall at 07:22.",
            "On Saturdays the bus leaves the Hospital at 08:52.",
            "On Sundays the bus leaves the Hospital at 9:05.",
        ],
    ),
    (
        "document.md",
        "| Name | Age |\n| --- | --- |\n| Ann | 30 |\n| Bob | 40 |\n",
        ["Ann is 30 years old."],
        ["Ann is 40 years old."],
    ),
    (
        "document.md",
        "Plans:\n\n- Basic: $10/month\n- Pro: $25/month\n",
        [],
        ["The Basic plan costs $25 a month.", "The Pro plan costs 25 euros a month."],
    ),
    ("document.md", "The ticket costs 5 €.", ["The ticket costs 5 euros."], ["The ticket costs 5 dollars."]),
]
"""Documents of rows and fragments: claims that they carry, and others."""


@pytest.mark.parametrize(("name", "document", "true", "false"), TABLES_AND_LISTS)
def test_claims_about_rows_and_fragments(name: str, document: str, true: list[str], false: list[str]) -> None:
    judged = {claim: check_text(claim, {name: document}).claims[0].status for claim in (*true, *false)}
    assert {claim: judged[claim] for claim in true} == dict.fromkeys(true, "supported")
    assert "supported" not in [judged[claim] for claim in false]
